#!/usr/bin/env bash
# gpu.sh - everything that needs a GPU, in calls of at most nine minutes: build, CUDA's tests, losses
# beside PyTorch's, calibration, benchmarks, a profile of the slowest case, compute-sanitizer. Results are in $OUT, else
# in out/gpu; read summary.md first. docs/gpu-first-run.md says which calls to make, and what to look at.
#
# Each part has its own limit (`parts` below), and one that fails or is cut does not stop the next. summary.md has
# a row for every chosen part from the start, is replaced as a whole, and names what was cut. While the compiler
# works, PyTorch compiles its models into a cache; this takes minutes and is not timed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tools/gpu_env.sh
source tools/gpu_env.sh

# In this order. Seconds: the limits of one call with the default set, whose sum is the default budget; of other
# choices and budgets each part gets the same share, and what a part leaves goes to the next ones.
parts='
# part     seconds default
build          140 yes
tests          120 yes
losses          50 yes
calibrate       40 yes
bench          125 yes
profile         45 yes
sanitizer      300 no
'
least=10 # a part that would get fewer seconds is left out

usage() {
    cat <<'END_OF_TEXT'
Usage: tools/gpu.sh [OPTION]...
Builds with CUDA in build/gpu, runs the tests of a real GPU, compares losses with PyTorch's, calibrates, measures
beside PyTorch and profiles. Writes to $OUT (out/gpu), eight files at most except for --only with all parts: summary.md,
build.log, tests.log, losses.log, calibrate.log, bench.jsonl, bench.log, profile.log, sanitizer.log.

      --budget=S     seconds in all (520)
      --only=PARTS   of build,tests,losses,calibrate,bench,profile,sanitizer (all but sanitizer, which needs a call of
                     its own: --only=sanitizer)
      --build=DIR    another build folder (build/gpu)
      --rehearse     without a GPU: the CPU in place of the device, small models, tests on the emulated GPU; no
                     calibration, no sanitizer
  -h, --help         this text

The limits of the chosen parts add up to the budget. A part that fails, is cut by its limit or is left out as time is
up is named in summary.md, and the status is 1; so it is if tests ran no test (label gpu), or all were skipped.

PyTorch's Python: $WEFT_TORCH_PYTHON, or the first of out/torch, ~/torch and python3 that can import torch.
A machine without Weft's libraries and without a network: run tools/gpu_carry.sh elsewhere and bring .gpu_carry/.
Exit status: 0 success, 1 a part failed or there is no GPU, 2 wrong usage.
END_OF_TEXT
}

die() { echo "gpu.sh: $2" >&2; exit "$1"; }

# ---- options, and what must be there
budget=520 only='' rehearse=false build=build/gpu device=cuda
parsed=$(getopt -n gpu.sh -o h -l budget:,only:,build:,rehearse,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    --budget) budget=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --rehearse) rehearse=true device=cpu; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
[[ $# == 0 && $budget =~ ^[1-9][0-9]{0,5}$ ]] || die 2 "misused; see --help"

# The chosen parts in their order, their shares, and what became of each: a row of summary.md from the start.
chosen=() shares=0
declare -A share=() result=() took=()
while read -r name seconds default; do
    [[ -n $name && $name != \#* ]] || continue
    if [[ -n $only ]]; then [[ ,$only, == *,$name,* ]]; else [[ $default == yes ]]; fi || continue
    chosen+=("$name") share[$name]=$seconds shares=$((shares + seconds)) result[$name]="not begun"
done <<<"$parts"
for name in ${only//,/ }; do [[ -n ${share[$name]-} ]] || die 2 "--only: there is no part '$name'; see --help"; done
((${#chosen[@]})) || die 2 "--only: no part is named; see --help"

if ! $rehearse; then
    command -v nvidia-smi >/dev/null || die 1 "no GPU here: there is no nvidia-smi"
    nvidia-smi -L 2>/dev/null | grep -q '^GPU' || die 1 "no GPU here: nvidia-smi lists no device"
fi

out=${OUT:-out/gpu} failed=0 running='' warm=''
mkdir -p "$out" build || die 1 "$out cannot be made"
# Logs of parts that this call does not run stay; summary.md is of this call.
rm -f "$out"/summary.{md,part}
for name in "${chosen[@]}"; do rm -f "$out/$name".{log,jsonl}; done

find_python() {
    local candidate look='import sys; from importlib.util import find_spec' # importing it takes seconds
    for candidate in "${WEFT_TORCH_PYTHON-}" out/torch/bin/python ~/torch/bin/python python3; do
        [[ -n $candidate ]] && "$candidate" -c "$look; sys.exit(not find_spec('torch'))" 2>/dev/null &&
            { echo "$candidate"; return; }
    done
    echo python3
}
python=$(find_python)
torch=$("$python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) || torch=none
export TORCHINDUCTOR_CACHE_DIR=$PWD/build/gpu-inductor
PATH=$PATH:/usr/local/cuda/bin
[[ -z $(env_lacks) || ! -e .gpu_carry/prefix.tar.gz ]] || env_prefix .gpu_carry/prefix.tar.gz build/gpu-prefix
lacks=$(env_lacks | tr '\n' ' ')
[[ -z $lacks ]] || die 1 "missing here: ${lacks% }; tools/scripts/setup.sh installs it, or bring .gpu_carry from tools/gpu_carry.sh"
export python build device out

# ---- what is known
machine() {
    local gpu commit nvcc
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null) || gpu=none
    commit=$(git rev-parse --short HEAD 2>/dev/null) || commit="without a commit"
    nvcc=$(nvcc --version 2>/dev/null | grep -o 'release.*') || nvcc=none
    echo "- Device: ${gpu%%$'\n'*}"
    echo "- Versions: Weft $commit, nvcc $nvcc, PyTorch $torch"
    echo "- Run: $(date -u '+%Y-%m-%d %H:%M UTC'), $(nproc) cores, $limits"
}

# The counts, and of each suite that fails the cases with their first message: later ones follow from it on a GPU.
tests_told() {
    echo "- Tests: $(awk -f tools/scripts/counts.awk "$out/tests.log"); $(grep -m 1 '^test_cuda_ops: ' "$out/tests.log")"
    awk '/^  Test: .*FAILED/ {print "  -", $2; told = 1; next} told {print "    " substr($0, 1, 200); told = 0}' "$out/tests.log" |
        head -n 60
}

# The first lines of the profile by node, and of ncu's summary.
profile_told() {
    awk 'NR <= 40 || / launches of .* kernels$/ {left = 25} NR <= 40 || left-- > 0 {print substr($0, 1, 160)}' "$out/profile.log"
}

report() {
    local name
    echo "# Weft on a GPU"
    [[ ! -s $out/bench.jsonl ]] || "$python" bench/gpu_compare.py table "$out/bench.jsonl"
    [[ ! -s $out/losses.log || ! -s $build/losses.jsonl ]] || { echo; "$python" bench/gpu_compare.py table "$build/losses.jsonl"; }
    printf '\n| part | result | seconds |\n|---|---|---:|\n'
    for name in "${chosen[@]}"; do echo "| $name | ${result[$name]} | ${took[$name]-} |"; done
    echo
    echo "$about"
    [[ ! -s $out/tests.log ]] || tests_told
    [[ ! -s $out/sanitizer.log ]] || sed -nE '/^== [a-z]+ [a-z0-9]+: /s/^== /- Sanitizer: /p' "$out/sanitizer.log"
    [[ ! -s $out/profile.log ]] || { printf '\n```\n'; profile_told; printf '```\n'; }
}

# Whole at every moment: a machine that is taken away, or a call that is killed, leaves what is known so far.
write_summary() {
    local text
    text=$(report 2>&1)
    printf '%s\n' "$text" >"$out/summary.part" && mv "$out/summary.part" "$out/summary.md"
}

# ---- running them
# A call that is ended from outside says where.
stop() {
    trap '' TERM INT HUP
    [[ -z $running ]] || { kill "$running" && wait "$running"; } 2>/dev/null
    end_warm
    for name in "${chosen[@]}"; do result[$name]=${result[$name]/#running*/cut: gpu.sh itself was ended}; done
    write_summary
    exit 1
}

begin_warm() {
    timeout 200 "$python" bench/torch_gpu.py gpt2_124m resnet50 dcgan mlp --modes compile,graphs --steps 1 --warmup 1 \
        >/dev/null 2>&1 &
    warm=$!
}

end_warm() {
    [[ -z $warm ]] || { kill "$warm" && wait "$warm"; } 2>/dev/null
    warm=
}

# run_part NAME LIMIT: tools/gpu_part.sh NAME, ended at the limit; it gets a little less, to end itself.
run_part() {
    local name=$1 limit=$2 log=$out/$1.log status=0
    echo "== $name (at most $limit s)"
    result[$name]="running, for at most $limit s" # as it stays if all of this is killed
    write_summary
    timeout --kill-after=3 $((limit - 4)) tools/gpu_part.sh "$name" $((limit - 6)) >"$log" 2>&1 &
    running=$!
    wait "$running" || status=$?
    running=
    case $status in
    0) result[$name]=passed ;;
    124 | 137) result[$name]="cut by its limit of $limit s" ;;
    *) result[$name]="failed ($status)" ;;
    esac
    (($(stat -c %s "$log") < 4000000)) || { { head -c 2000000 "$log"; printf '\n...\n'; tail -c 2000000 "$log"; } >"$log.part" && mv "$log.part" "$log"; }
}

# part NAME: with its share of what is left.
part() {
    local name=$1 limit=$(((budget - SECONDS) * share[$1] / shares)) begin=$SECONDS
    shares=$((shares - share[$name]))
    if [[ $device == cpu && $name =~ ^(calibrate|sanitizer)$ ]]; then
        result[$name]="not rehearsed: it needs a GPU"
    elif ((limit < least)); then
        result[$name]="left out: $limit s were left for it"
    else
        run_part "$name" "$limit"
        took[$name]=$((SECONDS - begin))
    fi
    [[ ${result[$name]} =~ ^(passed|not rehearsed) ]] || failed=1
    echo "   $name: ${result[$name]}"
    write_summary
}

SECONDS=0 # to look around took some
limits="limits"
for name in "${chosen[@]}"; do limits+=" $name $((budget * share[$name] / shares)),"; done
limits="${limits%,} of $budget s"
about=$(machine)
echo "gpu.sh: $limits"
trap stop TERM INT HUP
for name in "${chosen[@]}"; do
    case $name in
    build) [[ $device == cpu || $torch == none ]] || begin_warm ;;
    tests | losses) ;;
    *) end_warm ;; # from here on times count: nothing else may run
    esac
    part "$name"
done
end_warm
sed -n '1,/^- Run/p' "$out/summary.md"
echo "gpu.sh: $SECONDS s; results in $out"
exit $failed
