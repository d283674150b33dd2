#!/usr/bin/env bash
# dev.sh - the commands of a working day, one word each.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tools/dev.sh COMMAND [ARGUMENT]...
  build              the release build, in build/release
  test [SUITE...]    that, then these suites (test_tools or tools), or all of them
  asan [SUITE...]    the same under AddressSanitizer and UBSan, in build/asan
  debug              an unoptimized build, in build/debug
  check              what reads the sources alone: style, words, includes, lists, rows (a few seconds; before every commit)
  format [FILE...]   clang-format, on the files that git says changed unless named; not on tables that are made
  docs               writes what is made of lists: lines of here.h and train.h, docs/ops.md, tables in docs/
  pictures           writes the pictures in docs/ again
Example: tools/dev.sh asan tools
END
}

build() { # preset, target...
    local preset=$1
    shift
    cmake --preset "$preset" >/dev/null
    cmake --build "build/$preset" ${@:+--target "$@"}
}

# What a suite needs built: a C suite itself; scripts what is installed, or all.
needs() { # suite
    local name=${1#test_}
    if compgen -G "tests/*/test_${name%_gpu}.c*" >/dev/null; then
        echo "test_$name"
    elif [[ $name == docs || $name == check_* ]]; then
        echo installed weft_internal weft_train_internal
    else
        echo all
    fi
}

suites() {
    local preset=$1 pattern= name targets=()
    shift
    for name in "$@"; do
        pattern+="${pattern:+|}^(test_)?${name#test_}\$"
        targets+=($(needs "$name"))
    done
    build "$preset" ${targets[@]:+graphtool weft-zoo "${targets[@]}"}
    ctest --test-dir "build/$preset" --output-on-failure ${pattern:+-R "$pattern"}
}

cd "$(dirname "$0")/.."
command=${1-}
[[ -z $command ]] || shift
case $command in
build) build release ;;
debug) build debug ;;
test) suites release "$@" ;;
asan)
    source tools/scripts/sanitizer_env.sh
    suites asan "$@"
    ;;
check)
    mkdir -p build
    for rule in style words rows includes settings models clock; do
        python3 tests/rules/check_$rule.py >build/check.txt || { cat build/check.txt; exit 1; }
    done
    ;;
format)
    files=("$@")
    ((${#files[@]})) || mapfile -t files < <(git ls-files -mo --exclude-standard -- '*.c' '*.h' ':!include/weft/here.h' ':!tests/golden')
    ((${#files[@]} == 0)) || clang-format -i "${files[@]}"
    ;;
docs)
    tests/rules/check_rows.py --write
    build release graphtool weft-zoo >/dev/null
    build/release/graphtool ops --markdown -o docs/ops.md
    tools/scripts/estimates.py build/release/graphtool build/release/weft-zoo docs/cuda.md
    ;;
pictures)
    build release graphtool weft-zoo >/dev/null
    build/release/weft-zoo dcgan28 -o build/dcgan28.bin
    dot -Tsvg docs/architecture.dot -o docs/architecture.svg
    build/release/graphtool dot build/dcgan28.bin --graph d_step -T svg -o docs/dcgan28.svg
    build/release/graphtool dot build/dcgan28.bin --view=plan --world 4 --zero 1 -T svg -o docs/dcgan28-plan.svg
    build/release/graphtool dot build/dcgan28.bin --view=plan --world 2 --ddp generator:zero=1,shard=flat,bucket_cap_mb=4 \
        -T svg -o docs/distribution.svg
    build/release/weft-zoo gpt -o build/gpt.bin
    build/release/graphtool dot build/gpt.bin --view=program -T svg -o docs/gpt-program.svg
    ;;
-h | --help) usage ;;
*) usage >&2; exit 2 ;;
esac
