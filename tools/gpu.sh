#!/usr/bin/env bash
# gpu.sh - everything that needs a GPU, in one run of at most nine minutes: build, CUDA's tests, calibration,
# benchmarks beside PyTorch, compute-sanitizer, a profile of the slowest case. Results are in $OUT, else in
# out/gpu; read summary.md first.
#
# Each part has its own limit within the budget, and a part that fails or runs out of time does not stop the
# next. While the compiler works, PyTorch compiles its models into a cache; this takes minutes and is not
# timed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tools/gpu_env.sh
source tools/gpu_env.sh

usage() {
    cat <<'END_OF_TEXT'
Usage: tools/gpu.sh [OPTION]...
Builds with CUDA in build/gpu, runs the CUDA tests, calibrates, measures beside PyTorch, sanitizes and profiles.
Writes at most eight files to $OUT (out/gpu): summary.md, build.log, tests.log, calibrate.log, bench.jsonl, bench.log,
sanitizer.log, profile.log.

      --budget=S     seconds in all (520)
      --only=PARTS   of build,tests,calibrate,bench,sanitizer,profile (all)
      --rehearse     without a GPU: the CPU in place of the device, small models, no sanitizer, no profile
  -h, --help         this text

PyTorch's Python: $WEFT_TORCH_PYTHON, or the first of out/torch, ~/torch and python3 that can import torch.
A machine without Weft's libraries and without a network: run tools/gpu_carry.sh elsewhere and bring .gpu_carry/.
Exit status: 0 success, 1 a part failed or there is no GPU, 2 wrong usage.
END_OF_TEXT
}

die() { echo "gpu.sh: $2" >&2; exit "$1"; }

# ---- options, and what must be there
budget=520 only=build,tests,calibrate,bench,sanitizer,profile rehearse=false
parsed=$(getopt -n gpu.sh -o h -l budget:,only:,rehearse,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    --budget) budget=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --rehearse) rehearse=true; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
[[ $# == 0 && $budget =~ ^[1-9][0-9]*$ ]] || die 2 "misused; see --help"
if ! $rehearse; then
    command -v nvidia-smi >/dev/null || die 1 "no GPU here: there is no nvidia-smi"
    nvidia-smi -L 2>/dev/null | grep -q '^GPU' || die 1 "no GPU here: nvidia-smi lists no device"
fi

out=${OUT:-out/gpu} results=() failed=0
build=build/gpu device=cuda
if $rehearse; then device=cpu; fi
mkdir -p "$out" build || die 1 "$out cannot be made"
rm -f "$out"/{summary.md,build.log,tests.log,calibrate.log,bench.jsonl,bench.log,sanitizer.log,profile.log}

find_python() {
    local candidate look='import sys; from importlib.util import find_spec' # importing it takes seconds
    for candidate in "${WEFT_TORCH_PYTHON-}" out/torch/bin/python ~/torch/bin/python python3; do
        [[ -n $candidate ]] && "$candidate" -c "$look; sys.exit(not find_spec('torch'))" 2>/dev/null &&
            { echo "$candidate"; return; }
    done
    echo python3
}
python=$(find_python)
export TORCHINDUCTOR_CACHE_DIR=$PWD/build/gpu-inductor
PATH=$PATH:/usr/local/cuda/bin
[[ -z $(env_lacks) || ! -e .gpu_carry/prefix.tar.gz ]] || env_prefix .gpu_carry/prefix.tar.gz build/gpu-prefix
lacks=$(env_lacks | tr '\n' ' ')
[[ -z $lacks ]] || die 1 "missing here: ${lacks% }; tools/scripts/setup.sh installs it, or bring .gpu_carry from tools/gpu_carry.sh"
export python build device out

# ---- running them
# What is known so far; whole after every part, so that a machine that is taken away leaves it.
write_summary() {
    {
        echo "# Weft on a GPU"
        [[ ! -s $out/bench.jsonl ]] || "$python" bench/gpu_compare.py table "$out/bench.jsonl"
        echo
        echo "| part | result | seconds |"
        echo "|---|---|---:|"
        printf '%s\n' "${results[@]}"
        echo
        machine
        [[ ! -e $out/tests.log ]] ||
            sed -nE '/tests passed|\((Failed|Timeout|SEGFAULT)\)/s/^[[:space:]]*/- Tests: /p' "$out/tests.log"
        [[ ! -e $out/sanitizer.log ]] ||
            sed -nE '/exit status [0-9]+$/s/^== /- Sanitizer: /p' "$out/sanitizer.log"
        [[ ! -e $out/profile.log ]] || { printf '\n```\n'; head -n 40 "$out/profile.log"; printf '```\n'; }
    } >"$out/summary.md" 2>&1
}

machine() {
    local gpu commit nvcc torch
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null) || gpu=none
    commit=$(git rev-parse --short HEAD 2>/dev/null) || commit="without a commit"
    nvcc=$(nvcc --version 2>/dev/null | grep -o 'release.*') || nvcc=none
    torch=$("$python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) || torch=none
    echo "- Device: ${gpu%%$'\n'*}"
    echo "- Versions: Weft $commit, nvcc $nvcc, PyTorch $torch"
    echo "- Run: $(date -u '+%Y-%m-%d %H:%M UTC'), $(nproc) cores"
}

# part NAME LIMIT: tools/gpu_part.sh NAME within LIMIT seconds of what is left; it is told a little less, to end itself.
part() {
    local name=$1 limit=$2 log=$out/$1.log begin=$SECONDS status=0 result=passed
    [[ ,$only, == *,$name,* ]] || return 0
    ((limit <= budget - SECONDS)) || limit=$((budget - SECONDS))
    if ((limit < 5)); then
        result="no time was left"
    else
        echo "== $name (at most $limit s)"
        timeout --kill-after=5 "$limit" tools/gpu_part.sh "$name" $((limit - 3)) >"$log" 2>&1 || status=$?
        case $status in
        0) ;;
        124 | 137) result="ran out of its $limit s" ;;
        *) result="failed ($status)" ;;
        esac
        (($(stat -c %s "$log") < 4000000)) || { tail -c 4000000 "$log" >"$log.end" && mv "$log.end" "$log"; }
    fi
    [[ $result == passed ]] || failed=1
    results+=("| $name | $result | $((SECONDS - begin)) |")
    echo "   $result"
    write_summary
}

warm=
if [[ $device == cuda && ,$only, == *,bench,* ]]; then
    timeout 200 "$python" bench/torch_gpu.py gpt2_124m resnet50 dcgan mlp --modes compile,graphs --steps 1 --warmup 1 \
        >/dev/null 2>&1 &
    warm=$!
fi
part build 180
part tests 90
# shellcheck disable=SC2086 # empty, or one number
kill $warm 2>/dev/null && wait $warm 2>/dev/null
[[ $device == cpu ]] || part calibrate 30 # from here on times count: nothing else may run
part bench 250
[[ $device == cpu ]] || part sanitizer 70
[[ $device == cpu ]] || part profile 40
sed -n '1,/^$/p' "$out/summary.md"
echo "gpu.sh: $SECONDS s; results in $out"
exit $failed
