#!/usr/bin/env bash
# onednn.sh - every kernel that calls oneDNN on small random shapes, on each instruction set, against plain loops (tests/test_onednn_sweep.c)
# Sourced by nightly.sh; chunks of 1,000 shapes. A case is a shape on one instruction set.
export OMP_WAIT_POLICY=passive # cases are tiny: threads that spin cost most
while ((next_seed <= ${cases:-300000})) && nightly_time_left; do
    WEFT_TEST_SEED=1 WEFT_TEST_FIRST=$((next_seed - 1)) WEFT_TEST_CASES=1000 build/release/test_onednn_sweep on_small_shapes \
        >"$folder/chunk.txt" 2>&1 || cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
    grep -q '^sweep ' "$folder/chunk.txt" || { cat "$folder/chunk.txt" >&2; exit 1; }
    read -r more skips fails < <(awk '/^sweep /{gsub(/[^0-9 ]/, " ", $0); n = split($0, f, " ");
        run += f[n-2]; skipped += f[n-1]; failed += f[n]} END {print run+0, skipped+0, failed+0}' "$folder/chunk.txt")
    nightly_count $((next_seed + 1000)) "$more" "$skips" "$fails"
done
