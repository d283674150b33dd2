#!/usr/bin/env bash
# onednn.sh - every kernel that calls oneDNN on small random shapes, on each instruction set of this machine, against plain
# loops (tests/test_onednn_sweep.c). Goes on where the last call with this seed stopped; ends after 55 minutes at most.
set -euo pipefail

usage() { echo "Usage: tools/nightly/onednn.sh [--cases N] [--seed S]    (300000 and 1; N counts from the seed's first case)"; }

cases=300000 seed=1
while (($#)); do
    case $1 in
    --cases) cases=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
cmake --build build/release --target test_onednn_sweep >/dev/null
state=build/nightly/onednn
mkdir -p "$state"
log=$state/seed$seed.txt      # what each block printed
next=$state/seed$seed.next    # cases done, run, skipped, failed
[[ -f $next ]] || { echo 0 0 0 0 >"$next"; : >"$log"; }
read -r first run skipped failed <"$next"

# Threads that wait should not spin: cases are tiny, and other work may run beside this.
export OMP_WAIT_POLICY=passive
end=$((SECONDS + 55 * 60))
while ((first < cases && SECONDS < end)); do
    n=$((cases - first < 1000 ? cases - first : 1000))
    WEFT_TEST_SEED=$seed WEFT_TEST_FIRST=$first WEFT_TEST_CASES=$n build/release/test_onednn_sweep on_small_shapes \
        >"$state/block.txt" 2>&1 || true
    grep -q '^sweep ' "$state/block.txt" || { cat "$state/block.txt" >&2; exit 1; }
    grep -E '^sweep |^ +[0-9]+\. ' "$state/block.txt" >>"$log"
    read -r more skips fails < <(awk '/^sweep /{gsub(/[^0-9 ]/, " ", $0); n = split($0, f, " ");
        run += f[n-2]; skipped += f[n-1]; failed += f[n]} END {print run+0, skipped+0, failed+0}' "$state/block.txt")
    run=$((run + more)) skipped=$((skipped + skips)) failed=$((failed + fails)) first=$((first + n))
    echo "$first $run $skipped $failed" >"$next"
done

echo "onednn at $(git rev-parse --short HEAD), seed $seed: $first of $cases cases, on all instruction sets together: run $run, skipped $skipped, failed $failed"
grep -E '^ +[0-9]+\. ' "$log" | head -20 || true
((failed == 0))
