# aarch64.sh - another processor: all is compiled for arm64 by Debian's cross compiler, and run by qemu-user. Sourced by nightly.sh.
#   1  the library, installed, is used by tests/consumer
#   2  a model of the arm64 weft-zoo trains to the same losses on both processors, with fast and with reference kernels
#   3  the suites of tests/ that start no other program, shortened
# Debian's arm64 packages are unpacked into a folder; nothing is installed on this machine. Wants mmdebstrap, gcc- and
# g++-aarch64-linux-gnu and qemu-user-static, else all is skipped; a network, else the part fails.

WEFT_AARCH64_ROOT=$(realpath -m "$folder/root")
export WEFT_AARCH64_ROOT
export aarch64_packages=libc6-dev,libstdc++-12-dev,libgomp1,libdnnl-dev,libprotobuf-c-dev,libjansson-dev,libsodium-dev,zlib1g-dev,libxxhash-dev
aarch64_packages+=,libpng-dev,libgraphviz-dev,libcunit1-dev

aarch64_build() {
    rm -rf "$WEFT_AARCH64_ROOT"
    mmdebstrap --quiet --arch=arm64 --variant=extract --include="$aarch64_packages" bookworm "$WEFT_AARCH64_ROOT"
    cmake --preset release -B "$folder/build" --toolchain "$PWD/tools/scripts/nightly/aarch64.cmake" -DWEFT_CUDA=OFF -DWEFT_MPI=OFF
    cmake --build "$folder/build"
}

aarch64_run() { # program of arm64, argument...
    qemu-aarch64-static -L "$WEFT_AARCH64_ROOT" "$@"
}

aarch64_consumer() {
    local prefix
    prefix=$(realpath -m "$folder/prefix")
    rm -rf "$prefix" "$folder/consumer"
    cmake --install "$folder/build" --prefix "$prefix"
    cmake -S tests/consumer -B "$folder/consumer" --toolchain "$PWD/tools/scripts/nightly/aarch64.cmake" -Dweft_DIR="$prefix/lib/cmake/weft"
    cmake --build "$folder/consumer"
    cd "$folder/consumer" # where they write
    for program in line line_cpp; do aarch64_run "./$program"; done
}

# The losses of four steps.
aarch64_losses() { # isa, graphtool...
    local isa=$1 data=/usr/share/datasets/fashion-mnist
    shift
    "$@" train "$folder/mlp.bin" --isa "$isa" --threads 1 --batch 8 --seed 3 --steps 4 --log "$folder/log.jsonl" \
        -d image=$data/train-images-idx3-ubyte.gz -d label=$data/train-labels-idx1-ubyte.gz >/dev/null
    sed -n 's/.*"loss":\([0-9.e-]*\).*/\1/p' "$folder/log.jsonl"
}

aarch64_training() {
    aarch64_run "$folder/build/weft-zoo" mlp -o "$folder/mlp.bin"
    local isa here there
    for isa in reference auto; do
        here=$(aarch64_losses $isa build/release/graphtool)
        there=$(aarch64_losses $isa aarch64_run "$folder/build/graphtool")
        paste <(echo "$here") <(echo "$there") | awk '
            { print; lines++; off = ($1 - $2) / $1; if (!(off > -1e-4 && off < 1e-4)) wrong = 1 }
            END { exit wrong || lines != 4 }'
    done
}

aarch64_suites() {
    # Left out: suites that start programs by their names, count the steps of a compiler, or bound the memory of kernels of x86-64.
    local others
    others=$(grep -l support/programs.h tests/*/test_*.c | sed 's|.*/\(.*\)\.c|\1|' | paste -sd'|')
    WEFT_TEST_QUICK=1 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive ctest --test-dir "$folder/build" -j 2 --timeout 1800 \
        -R '^test_' -E "^($others|test_(comm_mpi|comm_memory|tools_mpi|valgrind|nightly|docs|install|steps|worlds_memory))\$"
}

aarch64_can() {
    local program
    for program in mmdebstrap aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64-static; do
        command -v "$program" >/dev/null || { echo "no $program here"; return 1; }
    done
}

if nightly_goes_on && ! aarch64_can; then
    nightly_count $((first_seed + seeds)) 0 $((first_seed + seeds - next_seed)) 0
fi
if nightly_goes_on; then nightly_do "$folder/build.txt" aarch64_build || exit 1; fi
while nightly_goes_on; do
    case $next_seed in
    1) nightly_case aarch64_consumer ;;
    2) nightly_case aarch64_training ;;
    *) nightly_case aarch64_suites ;;
    esac
done
