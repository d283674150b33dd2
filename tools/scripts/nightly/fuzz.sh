# fuzz.sh - afl++ changes files by what runs (tests/fuzz): a format a seed, round and round, each for its share of --minutes, on the
# corpus of the calls before. Counts are files that were tried; failed are files that crashed a loader, hung it, or that it took in
# a way that support/hostile/hostile.h forbids. Sourced by nightly.sh. Installs afl++ (Debian) unless it is there. WEFT_FUZZ_FORMATS names
# formats, with a blank between them, that are taken instead of all: a call for each core, with a --folder of its own.
#
# What reads files is compiled for afl++ with AddressSanitizer; kernels and other code of tools are those of the release build.

fuzz_needs() {
    command -v afl-fuzz >/dev/null && return
    local as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends afl++ >/dev/null
}

fuzz_rules() { # for make: an object of each source
    local objects=() source
    for source in graph/*/*.c runtime/*.c runtime/*/*.c interchange/onnx/*.c interchange/onnx/*/*.c tools/graphtool/{output,options,ranks,model}/*.c tests/fuzz/*.c \
        tests/support/hostile/*.c tests/support/{faults,test,folder,world,example}.c; do
        objects+=("$folder/objects/${source//\//_}.o")
        printf '%s: %s\n\tafl-clang-fast $(flags) -c $< -o $@\n' "${objects[-1]}" "$source"
    done
    printf 'all: %s\n-include %s\n' "${objects[*]}" "${objects[*]/%.o/.d}"
}

fuzz_build() {
    export AFL_QUIET=1 AFL_USE_ASAN=1
    fuzz_needs
    mkdir -p "$folder/objects" "$folder/good"
    make -j"$(nproc)" -f <(fuzz_rules) all flags="-std=gnu11 -O1 -g1 -w -MMD -MP -D_GNU_SOURCE -DWEFT_HAS_PNG -DWEFT_HAS_JPEG \
        -DTEST_DATA='\"$PWD/tests\"' -DTEST_TOOLS='\"$PWD/build/release\"' -Iinclude -I. -Itests -Ibuild/release/generated"
    rm -f "$folder/rest.a"
    find build/release/CMakeFiles/{fuzz,test_support}.dir -name '*.o' ! -path '*/tests/fuzz/*' -exec ar rcs "$folder/rest.a" {} +
    afl-clang-fast "$folder"/objects/*.o "$folder/rest.a" build/release/lib{commands,zoo,weft_train_internal,weft_mpi_internal,weft_ucx_internal,weft_internal}.a \
        -o "$folder/fuzz" $(pkg-config --libs jansson cunit libpng libjpeg libsodium zlib libcgraph libgvc libprotobuf-c) \
        $(pkg-config --silence-errors --libs ompi-c) $(pkg-config --silence-errors --libs ucx) -ldnnl -lgomp -lm -lpthread
    "$folder/fuzz" --seeds "$folder/good"
}

fuzz_stat() { # format, name: a number of afl++'s, over all calls
    sed -n "s/^$2 *: *//p" "$folder/$1/default/fuzzer_stats" 2>/dev/null || echo 0
}

fuzz_found() { # format
    { find "$folder/$1/default"/{crashes,hangs} -type f -name 'id*' 2>/dev/null || true; } | wc -l # before the first run there are none
}

fuzz_format() { # format, seconds
    AFL_NO_UI=1 AFL_AUTORESUME=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 OMP_NUM_THREADS=1 \
        ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0:allocator_may_return_null=1 \
        afl-fuzz -V "$2" -i "$folder/good/$1" -o "$folder/$1" -m none -t 5000 -- "$folder/fuzz" "$1" >"$folder/chunk.txt" 2>&1
}

if ((seeds)) && nightly_goes_on; then
    nightly_do "$folder/build.txt" fuzz_build || exit 1
    mapfile -t fuzz_formats < <("$folder/fuzz" --list)
    [[ -z ${WEFT_FUZZ_FORMATS-} ]] || read -ra fuzz_formats <<<"$WEFT_FUZZ_FORMATS"
    fuzz_seconds=$((60 * minutes / ${#fuzz_formats[@]}))
    ((fuzz_seconds)) || fuzz_seconds=1
fi
while nightly_goes_on; do
    format=${fuzz_formats[(next_seed - 1) % ${#fuzz_formats[@]}]}
    before=$(fuzz_stat "$format" execs_done) found=$(fuzz_found "$format")
    fuzz_format "$format" "$fuzz_seconds" || { tail -20 "$folder/chunk.txt"; exit 1; }
    found=$(($(fuzz_found "$format") - found))
    ((!found)) || echo "$format: $found files in $folder/$format/default/{crashes,hangs}: $folder/fuzz $format FILE says what is wrong"
    nightly_count $((next_seed + 1)) $(($(fuzz_stat "$format" execs_done) - ${before:-0})) 0 "$found"
done
