# suite.sh - what the shell suites of graphtool share; sourced with the suite's arguments. Works in a folder of its own, which is removed at
# the end, and counts failures: the suite ends with `exit $((failures > 0))`.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps is not ours
failures=0
# Whether all cases are wanted: tools/test.sh takes one of each kind, tools/nightly.sh suites all.
is_whole() { [[ -z ${WEFT_TEST_QUICK:-} ]]; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# digits N: N pictures of 28 x 28 and their labels, as IDX files `image` and `label`; always the same.
digits() {
    python3 - "$1" <<'END'
import random, struct, sys
r = random.Random(1)
n = int(sys.argv[1])
open("image", "wb").write(struct.pack(">4i", 0x803, n, 28, 28) + bytes(r.randrange(256) for _ in range(n * 784)))
open("label", "wb").write(struct.pack(">2i", 0x801, n) + bytes(r.randrange(10) for _ in range(n)))
END
}
