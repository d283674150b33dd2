# models.sh - random trainings of every op against PyTorch (tests/models), with a table of op, layout and
# route. Sourced by nightly.sh. Installs PyTorch into build/venv unless $WEFT_TORCH_PYTHON has it; state.json
# holds the table.

python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}
if nightly_goes_on && ! "$python" -c 'import torch, numpy, xxhash' 2>/dev/null; then
    [[ -z ${WEFT_TORCH_PYTHON-} ]] || { echo "WEFT_TORCH_PYTHON=$python cannot import torch, numpy and xxhash" >&2; exit 2; }
    echo "Installing PyTorch into build/venv (some GB)"
    python3 -m venv build/venv
    build/venv/bin/pip install --quiet torch numpy xxhash
fi

while nightly_goes_on; do
    # The last line: next seed, cases run, skipped, failed.
    ((chunk <= first_seed + seeds - next_seed)) || chunk=$((first_seed + seeds - next_seed))
    "$python" tests/models/run.py --cases "$chunk" --seed "$next_seed" --folder "$folder" \
        --minutes $(((deadline - SECONDS) / 60 + 1)) >"$folder/chunk.txt" || { tail -30 "$folder/chunk.txt"; exit 1; }
    grep '^seed' "$folder/chunk.txt" >>"$folder/failures.txt" || true
    read -r models_next models_run models_skipped models_failed < <(tail -1 "$folder/chunk.txt")
    nightly_count "$models_next" "$models_run" "$models_skipped" "$models_failed"
done
[[ ! -e $folder/earlier.txt ]] || echo "The table counts what ran on earlier commits too."
((seeds == 0)) || "$python" tests/models/run.py --report --folder "$folder"
((failed == 0)) || echo "failed cases: $folder/failed/SEED.json (python tests/models/reduce.py makes them small); $folder/failures.txt"
