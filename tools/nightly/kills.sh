#!/usr/bin/env bash
# kills.sh - ranks that share memory, killed all at once at random moments: nothing of theirs is left (tests/test_comm_memory.sh)
# Sourced by nightly.sh; chunks of ten.
while ((run < ${cases:-500})) && nightly_time_left; do
    bad=0
    WEFT_TEST_CASES=10 WEFT_TEST_SEED=$next_seed tests/test_comm_memory.sh build/release/comm_ranks kills >"$folder/chunk.txt" 2>&1 || bad=1
    ((bad)) && cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
    nightly_count $((next_seed + 10)) 10 0 "$bad"
done
