#!/usr/bin/env bash
# gpu_part.sh NAME SECONDS - one part of tools/gpu.sh, which runs it under a time limit and sets the variables
# python, build, device (cuda or cpu) and out.
set -uo pipefail
: "${python:?}" "${build:?}" "${device:?}" "${out:?}"

# For this device alone, which halves the time; with cuDNN and NCCL of PyTorch's wheels, if no toolkit has them.
# A rehearsal builds the tests on the emulated GPU instead.
build_all() {
    local options=(--preset gpu -DCMAKE_CUDA_ARCHITECTURES=native) tests=gpu_tests wheels
    if wheels=$("$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null); then
        options+=("-DWEFT_CUDA_ROOT=$wheels")
    fi
    [[ $device == cuda ]] || options=(--preset release -DWEFT_CUDA=OFF) tests=cuda_tests
    cmake "${options[@]}" -B "$build" && cmake --build "$build" --parallel "$(nproc)" --target graphtool weft-zoo "$tests"
}

# run_tests LABEL SECONDS: fails also if there is no such test or all are skipped. test_cuda_ops takes 190 s on an H200, most of it
# NVRTC's; with every layout and size more than 270 s.
run_tests() {
    local status=0
    if [[ $1 == gpu ]] && (($2 >= 450)); then
        export WEFT_TEST_ALL=1
        echo "test_cuda_ops: every layout and size"
    else
        echo "test_cuda_ops: layouts and sizes as drawn; all of them want a GPU and 450 s"
    fi
    ctest --test-dir "$build" -L "^$1\$" --no-tests=error --output-on-failure --parallel "$(nproc)" | tee "$build/tests.txt" ||
        status=${PIPESTATUS[0]}
    if ! grep -Eq '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed ' "$build/tests.txt"; then
        echo "no test with the label $1 has passed: none is registered in $build, all were skipped, or all failed"
        return 1
    fi
    return "$status"
}

# Weft's losses on the CPU and on the device beside PyTorch's; what was found stays in the build folder.
losses() {
    "$python" bench/gpu_compare.py losses "$build/losses.jsonl" --build "$build" --seconds "$1" --device "$device"
}

# The measurements stay in the build folder as well: `profile` may be of a later call.
bench() {
    local status=0
    "$python" bench/gpu_compare.py measure "$out/bench.jsonl" --build "$build" --seconds "$1" --device "$device" || status=$?
    [[ ! -s $out/bench.jsonl ]] || cp "$out/bench.jsonl" "$build/bench.jsonl"
    return "$status"
}

# ---- compute-sanitizer
# What initcheck finds is reported and decides nothing: a library may read padding that it left unwritten.
deciding=(memcheck racecheck) tools=("${deciding[@]}" initcheck) models=(gpt2 convnet dcgan28)

# has_own_races LOG: racecheck reports races in kernels of cuBLASLt and cuDNN, whose barriers it does not know (and
# excluding these kernels ends it with an internal error). Every other finding counts, and so do findings that it has
# not printed.
has_own_races() {
    local libraries=' at (nvjet|sm[0-9]+_|cudnn|cutlass|cublas)' found
    found=$(grep -E '^=========.*(Error:|Warning:|hazard|Hazard|access at)' "$1" | grep -v 'SUMMARY')
    [[ -n $found ]] && grep -q 'Race reported' <<<"$found" || return 0
    ! grep -q 'were not printed' "$1" || return 0
    grep -Evq "$libraries" <<<"$found"
}

# sanitize_with TOOL: over small models, which together meet every kind of kernel.
sanitize_with() {
    local name status log=$folder/$1.part
    for name in "${models[@]}"; do
        status=0
        compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 1000 "$build/graphtool" bench \
            "$folder/$name.bin" --device cuda --dtype bf16 --steps 2 --warmup 1 >"$log" 2>&1 || status=$?
        head -n 200 "$log"
        if [[ $1 == racecheck ]] && ((status == 9)) && ! has_own_races "$log"; then
            echo "== $1 $name: exit status 0: races in kernels of libraries alone"
        else
            echo "== $1 $name: exit status $status"
        fi
    done
}

# A line for each tool and model, also for those that the limit cut.
sanitizer_told() {
    local tool name
    cat "$folder"/*.log
    for tool in "${tools[@]}"; do
        for name in "${models[@]}"; do
            grep -q "^== $tool $name: " "$folder/$tool.log" || echo "== $tool $name: cut by the limit"
        done
    done
    rm -rf "$folder"
}

# The tools side by side: they wait for the device's answers most of the time.
sanitize() {
    local tool
    command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer"; return 1; }
    folder=$(mktemp -d)
    "$build/weft-zoo" gpt2_124m --layers 2 --d 64 --heads 2 --ctx 64 --vocab 256 -b 2 -o "$folder/gpt2.bin" || return
    "$build/weft-zoo" convnet -b 8 -o "$folder/convnet.bin" || return
    "$build/weft-zoo" dcgan28 -b 4 -o "$folder/dcgan28.bin" || return
    trap sanitizer_told EXIT # when time runs out, too
    trap 'trap "" TERM; exit 124' TERM # timeout sends it twice
    for tool in "${tools[@]}"; do sanitize_with "$tool" >"$folder/$tool.log" 2>&1 & done
    wait
    for tool in "${deciding[@]}"; do
        (($(grep -c "^== $tool .*: exit status 0\(:\|\$\)" "$folder/$tool.log") == ${#models[@]})) || return 1
    done
}

# ---- profile
# The case that is furthest from its goal, by this call's measurements or an earlier one's.
worst() {
    local file
    for file in "$out/bench.jsonl" "$build/bench.jsonl"; do
        [[ ! -s $file ]] || { "$python" bench/gpu_compare.py worst "$file" && return; }
    done
    echo gpt2_124m
}

# Time by node first, which is quick and needs no other tool; then ncu, into a file, from which the summary is made also
# when the limit ends ncu: it is interrupted in time, and keeps what it has.
profile() {
    local seconds=$1 case model run report=$build/profile.ncu-rep
    case=$(worst)
    model=$build/bench_$case.bin
    [[ -e $model ]] || "$build/weft-zoo" "$case" -o "$model" || return
    echo "case: $case"
    run=("$build/graphtool" bench "$model" --device "$device")
    [[ $device == cpu ]] || run+=(--dtype bf16)
    "${run[@]}" --steps 5 --warmup 3 --profile || return
    [[ $device != cpu ]] || return 0
    command -v ncu >/dev/null || { echo "there is no ncu: the profile above is all"; return 1; }
    rm -f "$report"
    timeout --signal=INT --kill-after=5 $((seconds - SECONDS > 20 ? seconds - SECONDS - 15 : 5)) \
        ncu --clock-control none --launch-count 600 --force-overwrite -o "${report%.ncu-rep}" \
        --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
        "${run[@]}" --no-capture --steps 1 --warmup 1 >"$build/ncu.log" 2>&1 || echo "ncu ended with $?, after: $(tail -n 1 "$build/ncu.log")"
    [[ -s $report ]] || { echo "ncu left no report"; return 1; }
    ncu --import "$report" --csv | "$python" bench/ncu_summary.py
}

case $1 in
build) build_all ;;
tests)
    if [[ $device == cpu ]]; then run_tests cuda "$2"; else WEFT_NEEDS_GPU=1 run_tests gpu "$2"; fi
    ;;
losses) losses "$2" ;;
calibrate) "$python" bench/gpu_compare.py calibrate --build "$build" --seconds "$2" gpt2_124m resnet50 dcgan mlp ;;
bench) bench "$2" ;;
sanitizer) sanitize ;;
profile) profile "$2" ;;
*) echo "gpu_part.sh: no part '$1'" >&2; exit 2 ;;
esac
