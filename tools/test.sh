#!/usr/bin/env bash
# test.sh - what a change must pass: installs what is missing, builds twice, and runs each test once, in the build where
# it finds most (cmake/tests.cmake): under AddressSanitizer and UBSan, or in the release build. Some run again as on older
# processors (WEFT_TEST_ISA). It ends with the counts and the time of each part; a skipped test (one for MPI that is not
# here, say) is not counted as passed. Last it says what no test could reach on this processor, as the suites tell it.
# Long suites are shortened: tools/nightly.sh suites runs all at full length, in both builds.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'END'
Usage: tools/test.sh [--quick]
Installs what is missing, builds, and runs the tests. Exit status: 0 all passed, 1 a build or a test failed.
  --quick   the short C suites in a release build alone: no sanitizers, no emulated GPU, no ranks, tools or
            documents, no sweeps of kernels
END
}

is_quick=''
case ${1-} in
'') ;;
--quick) is_quick=1 ;;
-h | --help) usage; exit 0 ;;
*)
    echo "test.sh: there is no option $1 (tools/test.sh --help)" >&2
    exit 2
    ;;
esac

status=0
parts=()
# Runs a part; what it prints is in build/NAME.txt, too.
part() { # name, command...
    local name=$1 begin=$SECONDS result=0
    shift
    echo "== $name: $*"
    "$@" 2>&1 | tee "build/$name.txt" || result=$?
    ((result == 0)) || status=1
    parts+=("$name $((SECONDS - begin))")
    return "$result"
}

build() { # preset, target
    cmake --preset "$1" >/dev/null && cmake --build "build/$1" --target "$2"
}

# Trainings by plain loops take hours, so those of whole models are left out there (the label `trains`).
slow=()
[[ ${WEFT_TEST_ISA-} != reference ]] || slow=(-LE '^trains$')
# Two more at once than processors: suites of ranks mostly wait.
run_tests() { # preset, ctest's option...
    ctest --test-dir "build/$1" --parallel $(($(nproc) + 2)) --output-on-failure --no-tests=error "${@:2}" "${slow[@]}"
}

# A build, then its tests.
both() { # preset, label
    if part "$1-build" build "$1" "$2"; then part "$1" run_tests "$1" -L "^$2\$" || true; fi
    grep -ahs '^not reached: ' "build/$1/Testing/Temporary/LastTest.log" >>build/unreached.txt || true
}

capped() { # instruction set
    WEFT_TEST_ISA=$1 part "$1" run_tests release -L '^sample$' || true
}

tell() {
    local one name seconds counts
    echo
    for one in "${parts[@]}"; do
        read -r name seconds <<<"$one"
        counts=''
        [[ $name == setup || $name == *-build ]] || counts=$(awk -f tools/scripts/counts.awk "build/$name.txt")
        printf '%-14s %4d s  %s\n' "$name" "$seconds" "$counts"
    done
    echo "all of it      $SECONDS s; $(cat build/release/cuda_state.txt)"
    ((${#slow[@]} == 0)) || echo "left out with reference kernels: suites that train whole models by graphtool or for long"
}

# The two builds, and the files that tests write. A disk that fills makes every suite fail, each by an error of its own.
NEEDED_GB=8
check_room() {
    local built free
    built=$(du -sk build | cut -f1)
    free=$(df -k --output=avail build | tail -1)
    ((built + free >= NEEDED_GB * 1000 * 1000)) && return
    echo "test.sh: $PWD/build has $((free / 1000)) MB of free disk; builds and tests take $NEEDED_GB GB in all: make room" >&2
    exit 1
}

mkdir -p build
check_room
rm -f build/{release,asan}/Testing/Temporary/LastTest.log build/unreached.txt
export WEFT_TEST_QUICK=1
part setup tools/scripts/setup.sh || exit 1
if [[ -n $is_quick ]]; then
    both release quick
    tell
    echo "left out: sanitizers, the emulated GPU, ranks, tools, documents, sweeps of kernels (tools/test.sh runs them)"
    exit "$status"
fi
both release home
for isa in avx2 sse2 reference; do capped $isa; done
source tools/scripts/sanitizer_env.sh
both asan home
tell
echo "not reached on this processor: $(sed 's/^not reached: //' build/unreached.txt | sort -u | paste -sd';' | sed 's/;/; /g')"
exit "$status"
