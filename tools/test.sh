#!/usr/bin/env bash
# test.sh - everything a change must pass: installs what is missing, builds, runs all tests, some again as on older
# processors (WEFT_TEST_ISA), then builds and runs all under AddressSanitizer and UBSan. Ends with the counts of each: a
# skipped test (one for a GPU that is not here, say) is not counted as passed. Last it says what no test could reach on
# this processor, as the suites tell it.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/scripts/setup.sh
mkdir -p build

# What is cheap of the suites that ask the processor.
sample='^test_(golden_ops|goldens|layouts|worlds_memory|compile|sums|reduced|options)$'

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

# The sample on this processor without what is above an instruction set.
run_capped() {
    echo "== release, WEFT_TEST_ISA=$1: testing"
    WEFT_TEST_ISA=$1 ctest --test-dir build/release --parallel "$(nproc)" --output-on-failure -R "$sample" 2>&1 | tee "build/$1.txt"
}

rm -f build/{avx2,sse2,reference,unreached}.txt
status=0
run release || status=1
grep -ahs '^not reached: ' build/release/Testing/Temporary/LastTest.log >build/unreached.txt || true
for isa in avx2 sse2 reference; do run_capped $isa || status=1; done
source tools/scripts/sanitizer_env.sh
run asan || status=1

echo
for preset in release asan; do
    counts=$(awk -f tools/scripts/counts.awk "build/$preset.txt" 2>/dev/null) || counts="did not begin"
    echo "$preset: $counts; $(cat "build/$preset/cuda_state.txt" 2>/dev/null || true)"
done
for isa in avx2 sse2 reference; do
    echo "release, WEFT_TEST_ISA=$isa: $(awk -f tools/scripts/counts.awk "build/$isa.txt" 2>/dev/null || echo "did not begin")"
done
echo "not reached on this processor: $(sed 's/^not reached: //' build/unreached.txt | sort -u | paste -sd';' | sed 's/;/; /g')"
exit "$status"
