# threads.sh - the loader's threads under ThreadSanitizer: tests/test_sources.c and libweft_train's sources, compiled for it, once
# a seed. Sourced by nightly.sh.
threads_build() {
    gcc -std=gnu11 -g -O1 -fsanitize=thread -fopenmp -Iinclude -I. -Itests runtime/data/*.c tests/test_sources.c \
        tests/support/{archive,faults,test}.c "build/$preset/libweft_internal.a" -o "$folder/test_sources" \
        -lcunit -lz -ldnnl -ljansson -lprotobuf-c -lm
}

# setarch -R: where the kernel spreads addresses far, the sanitizer of GCC 12 would refuse to start.
if ((seeds)); then threads_build; fi
while nightly_goes_on; do
    fails=0
    WEFT_TEST_SEED=$next_seed TSAN_OPTIONS=halt_on_error=1 setarch -R "$folder/test_sources" >"$folder/chunk.txt" 2>&1 || fails=1
    ((!fails)) || cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
    nightly_count $((next_seed + 1)) 1 0 $fails
done
