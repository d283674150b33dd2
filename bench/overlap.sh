#!/usr/bin/env bash
# overlap.sh - does communication hide behind compute? Two ranks of one thread over a link that is as slow as it takes:
# communication of 0.5, 1 and 2 times the compute. Weft with every collective awaited where it starts (serial),
# overlapped, and overlapped with ZeRO 1, beside PyTorch DDP on gloo over the same link, alternated in every round.
#
# The compute is the step of one rank while another one works beside it (both cores busy, no communication); the link's
# rate follows from that and from the bytes that the collectives of one step move.
set -euo pipefail
me=overlap.sh
# shellcheck source=bench/common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=bench/link.sh
source "$(dirname "$0")/link.sh"

usage() {
    cat <<'END'
Usage: bench/overlap.sh [OPTION]... [CASE]...            (as root)
Makes two network namespaces with a link of set rate, times training steps of two ranks over it, of Weft and of
PyTorch DDP (gloo), prints a Markdown table and removes the namespaces again.
Cases: gpt dcgan28 mlp (default: gpt dcgan28).

  -f, --factors=LIST communication over compute ("0.5 1 2")
  -r, --rounds=R     rounds of one run each (3)
  -k, --steps=K      timed steps a run (8)
      --warmup=W     untimed steps before (2)
      --build=DIR    where graphtool and weft-zoo are, built with Open MPI (build/release)
      --options=TEXT more options for graphtool ("--bucket-cap-mb 4")
      --no-torch     Weft alone
      --quick        factor 1, one round of three steps, to see that all works
  -h, --help         this text

PyTorch's Python: $WEFT_TORCH_PYTHON, or the first of out/torch, ~/torch and python3 that can import torch.
Runs and traces are kept in out/bench/overlap/. Exit status: 0 success, 1 a run failed, 2 wrong usage.
Example: bench/overlap.sh --factors 1 gpt
END
}

# ---- options
factors="0.5 1 2" rounds=3 steps=8 warmup=2 build=build/release more='' torch=true
parsed=$(getopt -n "$me" -o f:r:k:h -l factors:,rounds:,steps:,warmup:,build:,options:,no-torch,quick,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    -f | --factors) factors=$2; shift 2 ;;
    -r | --rounds) rounds=$2; shift 2 ;;
    -k | --steps) steps=$2; shift 2 ;;
    --warmup) warmup=$2; shift 2 ;;
    --build) build=$(realpath -m -- "$2"); shift 2 ;;
    --options) more=$2; shift 2 ;;
    --no-torch) torch=false; shift ;;
    --quick) factors=1 rounds=1 steps=3 warmup=1; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
cases=("$@")
((${#cases[@]})) || cases=(gpt dcgan28)
check_counts "$rounds" "$steps" "$warmup"
((steps > 1)) || die 2 "--steps=1: at least two are needed"
for factor in $factors; do
    [[ $factor =~ ^[0-9]+(\.[0-9]+)?$ && $factor =~ [1-9] ]] || die 2 "--factors: '$factor' is not a number above 0"
done
check_cases "gpt dcgan28 mlp" "${cases[@]}"
bench_begin "$build"
python=python3
! $torch || find_torch
read -ra more <<<"$more"
build=$(realpath "$build")
keep=out/bench/overlap
mkdir -p "$keep"
trap link_down EXIT
trap 'exit 130' INT TERM HUP
link_up
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # Open MPI asks root for both
export OMP_NUM_THREADS=1
modes=(overlapped zero1)
# A build without the option: the table says where its communication comes from then.
if "$build/graphtool" trace --help | grep -q -- --serial; then modes=(serial "${modes[@]}"); fi

# ---- one run
run() { python3 bench/run_json.py "$keep/runs.jsonl" case="$name" factor="${factor-}" "$@"; }

# weft_run MODE: a trace of two ranks.
weft_run() {
    local file=$PWD/$keep/$name-$factor-$1-$round.json words option=()
    case $1 in
    serial) option=(--serial) ;;
    zero1) option=(--zero 1 --shard flat) ;;
    esac
    mapfile -t words < <(link_mpi "$build/graphtool" trace "$PWD/$keep/$name.bin" --threads 1 --steps "$steps" \
        --warmup "$warmup" --json -o "$file" "${option[@]}" "${more[@]}")
    run engine=weft mode="$1" rate="$rate" trace="$file" -- "${words[@]}"
}

torch_run() {
    local words0 words1
    mapfile -t words0 < <(link_rank 0 "${ddp[@]}")
    mapfile -t words1 < <(link_rank 1 "${ddp[@]}")
    run engine=torch mode=ddp rate="$rate" -- "${words0[@]}" -- "${words1[@]}"
}

# ---- all of them
: >"$keep/runs.jsonl"
for name in "${cases[@]}"; do
    "$build/weft-zoo" "$name" -o "$keep/$name.bin" >&2
    ddp=("$python" bench/torch_ddp.py "$name" --steps "$steps" --warmup "$warmup")
    alone=("$build/graphtool" bench "$keep/$name.bin" --threads 1 --steps "$steps" --json)
    link_rate 10000
    factor=0 rate=10000 round=0
    weft_run overlapped
    for ((round = 1; round <= rounds; round++)); do
        echo "$name: alone, round $round of $rounds" >&2
        run engine=weft mode=alone -- "${alone[@]}" -- "${alone[@]}"
        ! $torch || run engine=torch mode=alone -- "${ddp[@]}" -- "${ddp[@]}"
    done
    for factor in $factors; do
        rate=$(python3 bench/overlap.py rate "$keep/runs.jsonl" "$name" "$factor")
        link_rate "$rate"
        for ((round = 1; round <= rounds; round++)); do
            echo "$name: communication $factor x compute, $rate Mbit/s, round $round of $rounds" >&2
            for mode in "${modes[@]}"; do weft_run "$mode"; done
            ! $torch || torch_run
        done
    done
done

# ---- the table
python3 bench/overlap.py table "$keep/runs.jsonl"
echo
print_machine "$python"
echo "- Run: $(date -u '+%Y-%m-%d %H:%M UTC'), f32, one thread a rank, medians of $rounds rounds of $steps steps;" \
    "veth and tbf, $(cat /proc/sys/net/ipv4/tcp_congestion_control)${more[*]:+; graphtool ${more[*]}}"
