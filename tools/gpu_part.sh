#!/usr/bin/env bash
# gpu_part.sh NAME SECONDS - one part of tools/gpu.sh, which runs it under a time limit and sets the variables
# python, build, device (cuda or cpu) and out.
set -uo pipefail
: "${python:?}" "${build:?}" "${device:?}" "${out:?}"

# For this device alone, which halves the time; with cuDNN and NCCL of PyTorch's wheels, if no toolkit has them.
build_all() {
    local preset=gpu options=() wheels
    if wheels=$("$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null); then
        options+=("-DWEFT_CUDA_ROOT=$wheels")
    fi
    if [[ $device == cuda ]]; then
        options+=(-DCMAKE_CUDA_ARCHITECTURES=native)
    elif ! command -v nvcc >/dev/null; then
        preset=release options=(-DWEFT_CUDA=OFF)
    fi
    cmake --preset "$preset" -B "$build" "${options[@]}" && cmake --build "$build" --parallel "$(nproc)"
}

bench() {
    "$python" bench/gpu_compare.py measure "$out/bench.jsonl" --build "$build" --seconds "$1" --device "$device"
}

# sanitize_with TOOL: over small models, which together meet every kind of kernel; the status of each is a line.
sanitize_with() {
    local name
    for name in gpt2 dcgan28 convnet; do
        echo "== $1 $name"
        compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 "$build/graphtool" bench \
            "$folder/$name.bin" --device cuda --dtype bf16 --steps 2 --warmup 1
        echo "== $1 $name: exit status $?"
    done
}

# The tools side by side: they wait for the device's answers most of the time.
sanitize() {
    local tool
    command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer"; return 1; }
    folder=$(mktemp -d)
    trap 'cat "$folder"/*.log; rm -rf "$folder"' EXIT # when time runs out, too
    trap 'exit 124' TERM
    "$build/weft-zoo" gpt2_124m --layers 2 --d 64 --heads 2 --ctx 64 --vocab 256 -b 2 -o "$folder/gpt2.bin" || return
    "$build/weft-zoo" dcgan28 -b 4 -o "$folder/dcgan28.bin" || return
    "$build/weft-zoo" convnet -b 8 -o "$folder/convnet.bin" || return
    for tool in memcheck racecheck initcheck; do
        sanitize_with "$tool" >"$folder/$tool.log" 2>&1 &
    done
    wait
    (($(cat "$folder"/*.log | grep -c 'exit status 0$') == 9))
}

# Kernels of the case that is furthest from its goal.
profile() {
    local case run
    case=$("$python" bench/gpu_compare.py worst "$out/bench.jsonl" 2>/dev/null || echo gpt2_124m)
    run=("$build/graphtool" bench "$build/bench_$case.bin" --device cuda --dtype bf16 --steps 1 --warmup 1)
    echo "case: $case"
    if command -v ncu >/dev/null; then
        ncu --clock-control none --csv --launch-count 600 \
            --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
            "${run[@]}" | "$python" bench/ncu_summary.py
    elif command -v nsys >/dev/null; then
        nsys profile --stats=true --force-overwrite=true -o build/gpu-profile "${run[@]}"
    else
        echo "there is neither ncu nor nsys"
        return 1
    fi
}

case $1 in
build) build_all ;;
tests) ctest --test-dir "$build" -L cuda --no-tests=error --output-on-failure --timeout 60 -j 4 ;;
calibrate) "$python" bench/gpu_compare.py calibrate --build "$build" --seconds "$2" gpt2_124m mlp ;;
bench) bench "$2" ;;
sanitizer) sanitize ;;
profile) profile ;;
*) echo "gpu_part.sh: no part '$1'" >&2; exit 2 ;;
esac
