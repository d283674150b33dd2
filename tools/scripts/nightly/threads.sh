# threads.sh - threads under ThreadSanitizer, one OpenMP thread a session: the loader's, sessions in parallel, ranks as threads
# (weft_comm_threads), writers of checkpoints while training continues. Each seed runs the suites below once, in an order of threads of
# its own. Sourced by nightly.sh. (By GCC: Debian 12's clang has no _Float16.)
#
# All is compiled for the sanitizer but the kernels of ops/cpu/simd, which share nothing: they are the release build's.

# suite, and which of its cases; none: all
threads_suites="
test_sources
test_faults       sessions_in_many one_model_compiles
test_checkpoints  training_goes_on state_is_that every_process_group newest_and_the_best saved_whole
test_comm         events_tell groups_share groups_do a_rank_gets two_ranks
test_resume
"

threads_build() {
    local tree=$folder/build suite objects
    cmake -G Ninja -B "$tree" -DCMAKE_BUILD_TYPE=Release -DWEFT_CUDA=OFF -DWEFT_MPI=OFF -DWEFT_UCX=OFF \
        -DCMAKE_C_FLAGS_RELEASE="-O1 -g1 -w -fsanitize=thread" -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -w -fsanitize=thread"
    mapfile -t objects < <(ninja -C "$tree" -t targets all | sed -En "s#^(CMakeFiles/($1)\.dir/.*\.o): .*#\1#p")
    ((${#objects[@]}))
    ninja -C "$tree" "${objects[@]}"
    for suite in $2; do
        gcc -fsanitize=thread -fopenmp "$tree/CMakeFiles/$suite.dir/tests"/*/"$suite.c.o" \
            $(find "$tree"/CMakeFiles/{weft_core,weft_train_internal,test_support,zoo}.dir -name '*.o') "build/$preset/libweft_internal.a" \
            -o "$folder/$suite" $(pkg-config --libs jansson cunit libpng libjpeg libsodium zlib libprotobuf-c) -ldnnl -lm -lpthread
    done
}

threads_make() {
    local suites
    suites=$(awk 'NF { print $1 }' <<<"$threads_suites" | paste -sd' ')
    threads_build "weft_core|weft_train_internal|test_support|zoo|${suites// /|}" "$suites"
}

# setarch -R: where the kernel spreads addresses far, the sanitizer would refuse to start.
threads_run() {
    local suite cases
    while read -r suite cases; do
        [[ -z $suite ]] || setarch -R "$folder/$suite" $cases
    done <<<"$threads_suites"
}

if ((seeds)) && nightly_goes_on; then
    export threads_suites TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan.supp" OMP_THREAD_LIMIT=1 OMP_NUM_THREADS=1 WEFT_TEST_QUICK=1
    nightly_do "$folder/threads.txt" threads_make || exit 1
fi
while nightly_goes_on; do
    export WEFT_TEST_SEED=$next_seed
    nightly_case threads_run
done
