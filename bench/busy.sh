#!/usr/bin/env bash
# busy.sh - small steps on one thread and on two, alone and beside a busy process: what waiting for threads costs.
set -euo pipefail
# shellcheck source=bench/common.sh
source "$(dirname "$0")/common.sh"
me=busy.sh
all='mlp gpt convnet convnet_bf16'

usage() {
    cat <<END
Usage: bench/busy.sh [OPTION]... [CASE]...     cases: $all
  --rounds=N     rounds of each case, in turns (5)
  --steps=N      timed steps of a run (30)
  --busy=N       busy processes beside (1); stress-ng where it is installed, else a loop of the shell
  --build=DIR    where graphtool and weft-zoo are (build/release)
Prints a Markdown table: medians of a step in ms, and how many times slower two threads are than one. "spins 300000" is
libgomp's own way of waiting (GOMP_SPINCOUNT); without the variable graphtool sets a short one.
END
}

rounds=5 steps=30 busy=1 build=build/release
while [[ ${1-} == --* ]]; do
    case $1 in
    --rounds=*) rounds=${1#*=} ;;
    --steps=*) steps=${1#*=} ;;
    --busy=*) busy=${1#*=} ;;
    --build=*) build=${1#*=} ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
check_counts "$rounds" "$steps" "$busy"
cases=("$@")
((${#cases[@]})) || read -ra cases <<<"$all"
check_cases "$all" "${cases[@]}"
bench_begin "$build"

# Arguments of weft-zoo, batch and options of graphtool bench.
model_of() { case $1 in gpt) echo "gpt --layers 2 --d 64 --heads 2 --ctx 32" ;; convnet_bf16) echo convnet ;; *) echo "$1" ;; esac }
options_of() {
    case $1 in mlp) echo "-b 8" ;; gpt) echo "-b 32" ;; convnet) echo "-b 16" ;; *) echo "-b 16 --dtype bf16" ;; esac
}
for name in "${cases[@]}"; do
    read -ra words <<<"$(model_of "$name")"
    "$build/weft-zoo" "${words[@]}" -o "out/bench/busy_$name.bin"
done

loops=()
quiet() { ((${#loops[@]} == 0)) || kill "${loops[@]}" 2>/dev/null || true; loops=(); }
trap quiet EXIT
make_busy() {
    local i
    for ((i = 0; i < busy; i++)); do
        if command -v stress-ng >/dev/null; then stress-ng --cpu 1 --quiet & else (while :; do :; done) & fi
        loops+=($!)
    done
}

# median CASE THREADS [SPINS]: of the steps of one run, ms
median() {
    local options
    read -ra options <<<"$(options_of "$1")"
    env ${3:+GOMP_SPINCOUNT=$3} "$build/graphtool" bench "out/bench/busy_$1.bin" "${options[@]}" -t "$2" \
        --steps "$steps" --warmup 3 --json | sed -n 's/.*"median_ms": *\([0-9.]*\).*/\1/p'
}

# middle NUMBER...: their median
middle() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# row CASE: `rounds` runs of each kind in turns; "one two ratio spinning ratio"
row() {
    local one=() two=() spin=() i
    for ((i = 0; i < rounds; i++)); do
        one+=("$(median "$1" 1)")
        two+=("$(median "$1" 2)")
        spin+=("$(median "$1" 2 300000)")
    done
    awk -v a="$(middle "${one[@]}")" -v b="$(middle "${two[@]}")" -v c="$(middle "${spin[@]}")" \
        'BEGIN {printf "%.2f | %.2f | %.2f | %.2f | %.2f", a, b, b / a, c, c / a}'
}

echo "| case | alone: 1 thread | 2 threads | ratio | spins 300000 | ratio | beside $busy: 1 thread | 2 threads | ratio | spins 300000 | ratio |"
echo "|---|---|---|---|---|---|---|---|---|---|---|"
for name in "${cases[@]}"; do
    alone=$(row "$name")
    make_busy
    beside=$(row "$name")
    quiet
    echo "| $name | $alone | $beside |"
done
print_machine "$(command -v python3)" 2>/dev/null || true
