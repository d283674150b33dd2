#!/usr/bin/env bash
# coverage.sh - which lines and branches of graph, ops, runtime and dist the suites run: builds with gcc --coverage in
# build/coverage, runs the suites, and tells by folder and file. Fails below 92% of lines or 80% of branches.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'END'
Usage: tools/coverage.sh [OPTION]...
  --report        the figures of the last run, without running the suites again
  -R PATTERN      these suites alone, added to what has run before
  -h, --help      this text
Installs gcovr (a Debian package). Takes two hours on two cores. Suites may fail here, as counting needs files and time:
tools/test.sh judges them.
END
}

is_report='' pattern=''
while (($#)); do
    case $1 in
    --report) is_report=1 ;;
    -R) pattern=${2:?-R wants a pattern}; shift ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

if ! command -v gcovr >/dev/null; then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends gcovr >/dev/null
fi

build=build/coverage
# What compiles programs of its own, or reads the sources alone.
others='^(check_|install$|test_install|test_docs|test_from_pytorch|test_bench|test_gpu_scripts|test_nightly|example_)'
if [[ -z $is_report ]]; then
    tools/scripts/setup.sh
    cmake --preset coverage >/dev/null
    cmake --build "$build"
    [[ $pattern ]] || find "$build" -name '*.gcda' -delete
    source tools/scripts/sanitizer_env.sh
    ctest --test-dir "$build" -j 1 --timeout 1800 -E "$others" ${pattern:+-R "$pattern"} ||
        echo "coverage.sh: suites failed; what they ran counts"
fi
# Branches that an exception of C++ would take (the emulated GPU's kernels are C++) are not ours.
gcovr -r . --object-directory "$build" -f graph/ -f ops/ -f runtime/ -f dist/ --exclude-throw-branches \
    --exclude-unreachable-branches --gcov-ignore-parse-errors -j "$(nproc)" --json "$build/coverage.json" \
    "$build/CMakeFiles" "$build/tests"
tools/scripts/coverage.py "$build/coverage.json"
