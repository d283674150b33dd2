#!/usr/bin/env bash
# ranks.sh - what a second rank costs on one machine: Weft over MPI and PyTorch DDP over gloo, one thread a rank.
#
# Three ways to run a step, alternated in every round: alone; twice at once without a word between them (both cores
# busy, memory shared: what two ranks could reach at best); as two ranks of a world. The overhead is the step of
# two ranks over one of the others.
set -euo pipefail
me=ranks.sh
# shellcheck source=bench/common.sh
source "$(dirname "$0")/common.sh"

usage() {
    cat <<'END'
Usage: bench/ranks.sh [OPTION]... [CASE]...
Times a training step on one rank, twice at once, and on two ranks, of Weft and of PyTorch DDP (gloo), one thread
a rank, and prints a Markdown table of overheads.
Cases: mlp gpt dcgan28 (default: all).

  -r, --rounds=R     rounds of one run each (3)
  -k, --steps=K      timed steps a run (20)
      --build=DIR    where graphtool and weft-zoo are (build/release)
      --mpirun=CMD   of the MPI that graphtool is linked with ("mpirun --bind-to none")
      --quick        one round of three steps, to see that all works
  -h, --help         this text

PyTorch's Python: $WEFT_TORCH_PYTHON, or the first of out/torch, ~/torch and python3 that can import torch.
Every run's JSON is kept in out/bench/ranks.jsonl. Exit status: 0 success, 1 a run failed, 2 wrong usage.
Example: bench/ranks.sh --rounds 5 mlp
END
}

# ---- options
rounds=3 steps=20 build=build/release mpirun="mpirun --bind-to none"
parsed=$(getopt -n "$me" -o r:k:h -l rounds:,steps:,build:,mpirun:,quick,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    -r | --rounds) rounds=$2; shift 2 ;;
    -k | --steps) steps=$2; shift 2 ;;
    --build) build=$(realpath -m -- "$2"); shift 2 ;;
    --mpirun) mpirun=$2; shift 2 ;;
    --quick) rounds=1 steps=3; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
cases=("$@")
((${#cases[@]})) || cases=(mlp gpt dcgan28)
check_counts "$rounds" "$steps"
check_cases "mlp gpt dcgan28" "${cases[@]}"
bench_begin "$build"
find_torch
trap 'exit 130' INT
read -ra mpirun <<<"$mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # Open MPI asks root for both
export GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1

# ---- the runs
keep=out/bench/ranks.jsonl
: >"$keep"
run() { python3 bench/run_json.py "$keep" "$@"; }

for ((round = 1; round <= rounds; round++)); do
    for name in "${cases[@]}"; do
        echo "round $round of $rounds: $name" >&2
        model=out/bench/$name.bin
        ((round > 1)) || "$build/weft-zoo" "$name" -o "$model" >&2
        weft=("$build/graphtool" bench "$model" --threads 1 --steps "$steps" --json)
        ddp=("$python" bench/torch_ddp.py "$name" --steps "$steps")
        port=$((20000 + RANDOM % 10000))
        rank=(env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port")
        run case="$name" engine=weft how=one -- "${weft[@]}"
        run case="$name" engine=torch how=one -- "${ddp[@]}"
        run case="$name" engine=weft how=twice -- "${weft[@]}" -- "${weft[@]}"
        run case="$name" engine=torch how=twice -- "${ddp[@]}" -- "${ddp[@]}"
        run case="$name" engine=weft how=ranks -- "${mpirun[@]}" -n 2 "${weft[@]}"
        run case="$name" engine=torch how=ranks -- "${rank[@]}" RANK=0 "${ddp[@]}" -- "${rank[@]}" RANK=1 "${ddp[@]}"
    done
done

# ---- the table
python3 - "$keep" "${cases[@]}" <<'END'
import json, statistics, sys

with open(sys.argv[1]) as f:
    runs = [json.loads(line) for line in f]

def median(case, engine, how):
    return statistics.median(r["median_ms"] for r in runs
                             if (r["case"], r["engine"], r["how"]) == (case, engine, how))

print("| case | engine | one rank ms | twice at once ms | two ranks ms | over one rank | over twice at once |")
print("|---|---|---:|---:|---:|---:|---:|")
verdicts = []
for case in sys.argv[2:]:
    over = {}
    for engine, title in (("weft", "Weft"), ("torch", "PyTorch DDP, gloo")):
        one, twice, ranks = (median(case, engine, how) for how in ("one", "twice", "ranks"))
        over[engine] = ranks / one - 1
        print(f"| {case} | {title} | {one:.2f} | {twice:.2f} | {ranks:.2f} "
              f"| {ranks / one - 1:+.1%} | {ranks / twice - 1:+.1%} |")
    fine = over["weft"] < 0.04 or over["weft"] <= over["torch"] / 2
    verdicts.append(f"{case} {'yes' if fine else 'NO'}")
print("\nOverhead over one rank at most half of gloo's, or under 4%: " + ", ".join(verdicts) + ".")
loud = [f"{r['case']} {r['engine']} {r['how']} {r['others']:.2f}" for r in runs if r["others"] > 0.1]
if loud:
    print("\n**Not clean** (CPUs that others used around the run, above 0.1), measure again: " + "; ".join(loud) + ".")
END
echo
print_machine "$python"
echo "- Run: $(date -u '+%Y-%m-%d %H:%M UTC'), f32, one thread a rank, medians of $rounds rounds of $steps steps; ${mpirun[*]}"
