#!/usr/bin/env bash
# test.sh - everything a change must pass: installs what is missing, builds, runs all tests, then builds and runs
# them again under AddressSanitizer and UBSan. Ends with the counts of each: a skipped test (one for a GPU that is not
# here, say) is not counted as passed.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/scripts/setup.sh
mkdir -p build

# Builds a preset and runs its tests; keeps ctest's output in build/PRESET.txt.
run() {
    local preset=$1
    rm -f "build/$preset.txt"
    echo "== $preset: building"
    cmake --preset "$preset" >/dev/null
    cmake --build "build/$preset"
    cat "build/$preset/cuda_state.txt"
    echo "== $preset: testing"
    ctest --test-dir "build/$preset" --parallel "$(nproc)" --output-on-failure 2>&1 | tee "build/$preset.txt"
}

status=0
run release || status=1
source tools/scripts/sanitizer_env.sh
run asan || status=1

echo
for preset in release asan; do
    counts=$(awk -f tools/scripts/counts.awk "build/$preset.txt" 2>/dev/null) || counts="did not begin"
    echo "$preset: $counts; $(cat "build/$preset/cuda_state.txt" 2>/dev/null || true)"
done
exit "$status"
