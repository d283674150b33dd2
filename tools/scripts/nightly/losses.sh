# losses.sh - the nightly part `losses`: Weft's losses beside PyTorch's from the same weights on the same batches, on the
# CPU, a case for each seed (bench/gpu_losses.py). Case 1 has gpt2_124m at its real size. Each further case is run twice
# more with something wrong in PyTorch, a weight or a rate: all four models must be found to differ. Needs a Python with
# torch and numpy: $WEFT_TORCH_PYTHON, or what tools/nightly.sh models installs. Sourced by nightly.sh.

losses_run() { # seed, option...
    "${WEFT_TORCH_PYTHON:-build/venv/bin/python}" bench/gpu_compare.py losses "$folder/losses.$1.jsonl" \
        --build build/release --device cpu --seconds 900 --seed "$@"
}

losses_agree() {
    rm -f "$folder/losses.$next_seed.jsonl"
    losses_run "$next_seed" "${full[@]}"
}

losses_differ() { # how
    local differ
    rm -f "$folder/losses.$next_seed.jsonl"
    ! losses_run "$next_seed" --spoil "$1" 2>"$folder/told.txt" || { echo "--spoil $1 was not found"; return 1; }
    cat "$folder/told.txt"
    differ=$(sed -n 's/^gpu_compare.py: \([^:]*\): losses differ .* PyTorch f32.*/\1/p' "$folder/told.txt" | sort -u | wc -l)
    ((differ == 4)) || { echo "--spoil $1 was found in $differ models, not in 4"; return 1; }
}

losses_all() {
    local full=()
    ((next_seed != 1)) || full=(--full)
    losses_agree
    ((next_seed == 1)) || { losses_differ weight && losses_differ rate; }
    rm -f "$folder/losses.$next_seed.jsonl" "$folder/told.txt"
}

if nightly_goes_on; then cmake --build "build/$preset" --target graphtool >>"$folder/build.txt"; fi
export next_seed
while nightly_goes_on; do
    nightly_case losses_all
done
