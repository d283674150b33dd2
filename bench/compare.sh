#!/usr/bin/env bash
# compare.sh - Weft beside PyTorch on this machine's CPU: one Markdown table, machine and versions under it.
#
# A round runs graphtool bench, then torch_cpu.py eager and compiled, one after the other on the same case, so that a
# slow spell of the machine meets all; the table (compare_table.py) shows medians over the rounds. What other processes
# did meanwhile is measured for each run (other_cpus: in CPUs' worth of work), and a run above 0.1 is named, because it
# lies.
set -euo pipefail
me=compare.sh
# shellcheck source=bench/common.sh
source "$(dirname "$0")/common.sh"

usage() {
    cat <<'END'
Usage: bench/compare.sh [OPTION]... [CASE]...
Times a training step of Weft, of PyTorch eager and of torch.compile, alternating, and prints a Markdown table.
Cases: mlp dcgan28 dcgan resnet18 gpt (these by default), lstm_char, mobilenet_v2 (needs torchvision).

  -r, --rounds=R     rounds of one run each (3)
  -t, --threads=T    threads for all (all cores)
  -k, --steps=K      timed steps a run, for all (each tool's own default)
      --dtype=TYPE   f32 or bf16 (f32)
      --build=DIR    where graphtool and weft-zoo are (build/release)
      --no-compile   without torch.compile, which needs a C++ compiler
      --quick        one round of three steps, to see that all works
      --install      first make a Python with PyTorch in out/torch (pip; some GB)
  -h, --help         this text

PyTorch's Python: $WEFT_TORCH_PYTHON, or the first of out/torch, ~/torch and python3 that can import torch.
Every run's JSON is kept in out/bench/CASE.jsonl. Exit status: 0 success, 1 a run failed
(one of torch.compile is only told in the table), 2 wrong usage.
Example: bench/compare.sh --rounds 5 --threads 2 mlp gpt
END
}

# ---- options
rounds=3 threads=$(nproc) steps='' dtype=f32 build=build/release install=false compiles=true cases=()
parsed=$(getopt -n "$me" -o r:t:k:h -l rounds:,threads:,steps:,dtype:,build:,install,no-compile,quick,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    -r | --rounds) rounds=$2; shift 2 ;;
    -t | --threads) threads=$2; shift 2 ;;
    -k | --steps) steps=$2; shift 2 ;;
    --dtype) dtype=$2; shift 2 ;;
    --build) build=$(realpath -m -- "$2"); shift 2 ;;
    --install) install=true; shift ;;
    --no-compile) compiles=false; shift ;;
    --quick) rounds=1 steps=3; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
cases=("$@")
((${#cases[@]})) || cases=(mlp dcgan28 dcgan resnet18 gpt)
check_counts "$rounds" "$threads" "${steps:-1}"
[[ $dtype == f32 || $dtype == bf16 ]] || die 2 "--dtype is f32 or bf16, not '$dtype'"
check_cases "mlp dcgan28 dcgan resnet18 gpt lstm_char mobilenet_v2" "${cases[@]}"
bench_begin "$build"
trap 'exit 130' INT

# ---- PyTorch
if $install; then
    python3 -m venv out/torch
    out/torch/bin/pip install --quiet torch numpy safetensors
fi
find_torch

# ---- one run
# run_one ENGINE CASE COMMAND...: runs it, takes the JSON it prints, adds engine, case and (where the command
# does not say it itself) other_cpus over the whole run; appends one line to out/bench/CASE.jsonl.
run_one() {
    python3 - "$@" <<'END'
import json, os, subprocess, sys, time

engine, case, command = sys.argv[1], sys.argv[2], sys.argv[3:]

def busy():
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq = (int(v) for v in f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

own0, busy0, wall0 = os.times(), busy(), time.monotonic()
result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
wall, own, all_cpus = time.monotonic() - wall0, os.times(), busy() - busy0
if result.returncode:
    sys.exit(f"compare.sh: exit {result.returncode} from: {' '.join(command)}")
try:
    run = json.loads(result.stdout)
except ValueError:                      # something was printed before the JSON line
    run = json.loads((result.stdout.strip().splitlines() or ["no JSON"])[-1])
mine = sum(own[:4]) - sum(own0[:4])
run.setdefault("other_cpus", round(max(0.0, (all_cpus - mine) / wall), 3))
run.update(engine=engine, case=case)
with open(f"out/bench/{case}.jsonl", "a") as f:
    f.write(json.dumps(run) + "\n")
print(f"  {engine:7} {run['median_ms']:9.2f} ms  {run['peak_rss_mib']:7.0f} MiB", file=sys.stderr)
if run["other_cpus"] > 0.1:
    print(f"  warning: other processes used {run['other_cpus']:.2f} CPUs meanwhile", file=sys.stderr)
END
}

options=(--threads "$threads" --json)
[[ -z $steps ]] || options+=(--steps "$steps")
[[ $dtype == f32 ]] || options+=(--dtype "$dtype")
for name in "${cases[@]}"; do
    "$build/weft-zoo" "$name" -o "out/bench/$name.bin" >&2
    : >"out/bench/$name.jsonl"
done
for ((round = 1; round <= rounds; round++)); do
    for name in "${cases[@]}"; do
        echo "round $round of $rounds: $name" >&2
        run_one weft "$name" "$build/graphtool" bench "out/bench/$name.bin" "${options[@]}"
        run_one eager "$name" "$python" bench/torch_cpu.py "$name" "${options[@]}"
        $compiles || continue
        run_one compile "$name" "$python" bench/torch_cpu.py "$name" --mode compile "${options[@]}" ||
            echo "  torch.compile failed: the table has no figure of it for $name" >&2
    done
done

# ---- the table, and where it was made
python3 bench/compare_table.py out/bench "${cases[@]}"

echo
print_machine "$python"
echo "- Run: $(date -u '+%Y-%m-%d %H:%M UTC'), $dtype, $threads threads, medians of $rounds rounds, steps a run: ${steps:-default}"
