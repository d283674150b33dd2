#!/usr/bin/env bash
# test_gpu_scripts.sh - tools/gpu.sh without a GPU: a stand-in for nvidia-smi, build folders whose tests are one line, and
# stand-ins for graphtool and the profilers. A run passes only if a test for a GPU did, and what a limit cuts is reported.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PATH=$folder/bin:$PATH
mkdir "$folder/bin"

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# stand_in PATH: a program, whose text is standard input
stand_in() {
    { echo '#!/usr/bin/env bash'; cat; } >"$1"
    chmod +x "$1"
}
stand_in "$folder/bin/nvidia-smi" <<<'if [[ $1 == -L ]]; then echo "GPU 0: a stand-in"; else echo "a stand-in, 1.0, 1 MiB"; fi'

# tests_of NAME [COMMAND]: a build folder with one test, or none
tests_of() {
    mkdir "$folder/$1"
    [[ -z ${2-} ]] || cat >"$folder/$1/CTestTestfile.cmake" <<END
add_test(one_gpu "/bin/sh" "-c" "$2")
set_tests_properties(one_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
add_test(other_cuda "/bin/true")
set_tests_properties(other_cuda PROPERTIES LABELS cuda)
END
}

# gpu NAME ARGUMENT...: gpu.sh with that build folder; its output and results are in NAME.out
gpu() {
    local name=$1
    shift
    OUT=$folder/$name.out tools/gpu.sh --build="$folder/$name" "$@" >"$folder/$name.said" 2>&1
}

# ends NAME STATUS WANT: how it ended; `wait` it first. tells NAME FILE TEXT...: each stands in this file.
ends() { [[ $2 == "$3" ]] || fail "$1 ends with $2, not $3: $(cat "$folder/$1.said")"; }
tells() {
    local name=$1 file=$folder/$1.out/$2 text
    shift 2
    for text in "$@"; do grep -qF -- "$text" "$file" || fail "$name: no '$text' in $file: $(cat "$file")"; done
}

# ---- what takes seconds runs beside the rest
tests_of slow 'sleep 100'
gpu slow --only=tests --budget=13 &
slow=$!
declare -A running=()
for name in stopped killed; do
    tests_of $name 'sleep 100'
    OUT=$folder/$name.out tools/gpu.sh --build="$folder/$name" --only=tests,sanitizer >"$folder/$name.said" 2>&1 &
    running[$name]=$!
done

mkdir "$folder/tools"
stand_in "$folder/tools/weft-zoo" <<<'touch "${@: -1}"'
stand_in "$folder/tools/graphtool" <<<'echo "graphtool $*"'
stand_in "$folder/bin/ncu" <<'END'
while (($#)); do
    case $1 in
    --import) [[ $(cat "$2") == "as far as it got" ]] && printf '%s\n' \
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"' '"0","a_kernel","gpu__time_duration.sum","us","1,500"'; exit ;;
    -o) report=$2.ncu-rep ;;
    esac
    shift
done
trap 'echo "as far as it got" >"$report"; kill $!; exit 2' INT
sleep 100 & wait
END
# Takes long except for memcheck; with $finds, a tool, that one reports something and none takes long.
stand_in "$folder/bin/compute-sanitizer" <<'END'
if [[ ${finds-} == "$2" ]]; then
    if [[ -n ${races-} ]]; then
        printf '========= Error: Race reported between Read access at %s+0xb30\n' $races
        echo '=========     and Write access at nvjet_sm90_tst+0x2f60 [16 hazards]'
    fi
    exit 9
fi
[[ -n ${finds-} || $2 == memcheck ]] || sleep 100 & wait
END
gpu tools --only=profile --budget=20 &
profiled=$!
cp -r "$folder/tools" "$folder/sanitized"
gpu sanitized --only=sanitizer --budget=15 &
sanitized=$!

# ---- what memcheck and racecheck find decides, what initcheck finds is reported
for tool in memcheck racecheck initcheck; do
    cp -r "$folder/tools" "$folder/$tool"
    finds=$tool gpu $tool --only=sanitizer; ends $tool $? "$([[ $tool == initcheck ]]; echo $?)"
    tells $tool summary.md "Sanitizer: $tool gpt2: exit status 9" "Sanitizer: $tool dcgan28: exit status 9"
done
tells racecheck summary.md "| sanitizer | failed (1) |" "Sanitizer: memcheck gpt2: exit status 0"
tells initcheck summary.md "| sanitizer | passed |" "Sanitizer: racecheck convnet: exit status 0"

# ---- races in kernels of cuBLASLt and cuDNN alone are not findings of racecheck
library=nvjet_sm90_tst_64x8_splitK races_tried=0
for races in "$library" "$library own_kernel"; do
    name=races_$((++races_tried))
    cp -r "$folder/tools" "$folder/$name"
    races=$races finds=racecheck gpu $name --only=sanitizer; ends $name $? "$([[ $races == "$library" ]]; echo $?)"
done
tells races_1 summary.md "| sanitizer | passed |" "Sanitizer: racecheck gpt2: exit status 0: races in kernels of libraries alone"
tells races_2 summary.md "| sanitizer | failed (1) |" "Sanitizer: racecheck gpt2: exit status 9"

# ---- a calibration that failed after some nodes is not a success
mkdir "$folder/calibrated"
cp "$folder/tools/weft-zoo" "$folder/calibrated"
stand_in "$folder/calibrated/graphtool" <<'END'
printf 'a -> 1\n' >"${@: -1}"
echo "node 1 of 40: a: 1 ms" >&2
exit 1
END
gpu calibrated --only=calibrate; ends calibrated $? 1
tells calibrated summary.md "| calibrate | failed (1) |"
tells calibrated calibrate.log "mlp: 1 of 40 nodes measured, failed: exit status 1"

# ---- no test, only skipped ones, one that passes
tests_of none
gpu none --only=tests;    ends none $? 1
tells none tests.log "No tests were found" "none is registered in"
tells none summary.md "| tests | failed (1) |" "0 passed"
tests_of skipped 'exit 77'
gpu skipped --only=tests; ends skipped $? 1
tells skipped tests.log "all were skipped"
tells skipped summary.md "0 passed, 0 failed, 1 skipped (one_gpu)"
tests_of passed 'test \"$WEFT_NEEDS_GPU\" = 1'
gpu passed --only=tests;  ends passed $? 0
tells passed summary.md "| tests | passed |" "1 passed, 0 failed, 0 skipped" "a stand-in, 1.0"
tests_of failed 'echo \"  Test: a_case ...FAILED\"; echo \"    1. why\"; exit 1'
gpu failed --only=tests;  ends failed $? 1
tells failed summary.md "0 passed, 1 failed (one_gpu)" "a_case" "1. why"

# ---- limits: one table, whose sum is the budget; of other choices and budgets they add up to no more
sum=$(awk '/^parts=/ {on = 1} on && $3 == "yes" {sum += $2} END {print sum}' tools/gpu.sh)
grep -q "^budget=$sum " tools/gpu.sh || fail "the limits of the default set add up to $sum, not to the budget"
adds_up() { # NAME BUDGET
    local said sum
    said=$(grep -m 1 '^gpu.sh: limits .* of '"$2"' s$' "$folder/$1.said") || fail "$1 tells no limits: $(cat "$folder/$1.said")"
    sum=$(grep -oE '[a-z]+ [0-9]+(,| of)' <<<"$said" | awk '{sum += $2} END {print sum}')
    ((sum <= $2 && sum > $2 - 6)) || fail "$1: limits add up to $sum: $said"
}
adds_up passed 520
tests_of poor true
gpu poor --budget=9;       ends poor $? 1
adds_up poor 9
for part in build tests losses calibrate bench profile; do tells poor summary.md "| $part | left out: "; done
gpu poor --only=nothing;   ends poor $? 2

# ---- the calls that the documents tell can be made
mapfile -t calls < <(grep -ohE '(tools/)?gpu\.sh --only=[a-z,]+' docs/*.md tools/gpu.sh README.md | grep -oE -- '--only=.*' | sort -u)
((${#calls[@]} >= 3)) || fail "the documents tell no calls"
for call in "${calls[@]}"; do gpu poor "$call" --budget=9; ends "poor $call" $? 1; done

# ---- ended from outside: summary.md has said what runs since it began
for name in stopped killed; do
    for ((i = 0; i < 600; i++)); do grep -q 'tests | running' "$folder/$name.out/summary.md" 2>/dev/null && break; sleep 0.1; done
    tells $name summary.md "| tests | running, for at most " "| sanitizer | not begun |"
done
kill "${running[stopped]}"; wait "${running[stopped]}"; ends stopped $? 1
tells stopped summary.md "| tests | cut: gpu.sh itself was ended |" "| sanitizer | not begun |"
mapfile -t children < <(pgrep -P "${running[killed]}")
kill -9 "${running[killed]}"; wait "${running[killed]}" 2>/dev/null
tells killed summary.md "| tests | running, for at most " "| sanitizer | not begun |"
kill "${children[@]}"

# ---- what a limit cuts is reported, and what was found before stays
wait "$slow"; ends slow $? 1
tells slow summary.md "| tests | cut by its limit of " "0 passed, 0 failed, 0 skipped"
wait "$profiled"; ends tools $? 0
tells tools profile.log "case: gpt2_124m" "--profile" "ncu ended with" "1.500 ms in 1 launches" "a_kernel"
tells tools summary.md "| profile | passed |" "1.500 ms in 1 launches"
wait "$sanitized"; ends sanitized $? 1
tells sanitized summary.md "| sanitizer | cut by its limit" "Sanitizer: memcheck gpt2: exit status 0" \
    "Sanitizer: racecheck gpt2: cut by the limit" "Sanitizer: initcheck dcgan28: cut by the limit"

((failures)) || echo "gpu.sh: done"
exit $((failures > 0))
