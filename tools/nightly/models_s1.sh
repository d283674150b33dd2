# models_s1.sh - random models find a defect that was: gradients that are views, copied as if they were row-major
# Sourced by nightly.sh. A copy of the sources whose `bucket` claims to take operands at any strides; of 2,000 models
# (--cases) one must come out wrong. Wants the Python that models.sh makes.

: "${cases:=2000}"
python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}
"$python" -c 'import torch, numpy, xxhash' || { echo "models_s1: run tools/nightly.sh models first: it installs PyTorch" >&2; exit 2; }

rm -rf "$folder/source" "$folder/cases"
mkdir -p "$folder/source"
git archive HEAD | tar -x -C "$folder/source"
sed -i 's/^    \.reference = reference,$/&\n    .reference_strided = ~0u,/' "$folder/source/ops/bucket.c"
grep -q reference_strided "$folder/source/ops/bucket.c"
(cd "$folder/source" && cmake --preset release -DWEFT_CUDA=OFF >/dev/null && cmake --build build/release --target model_cases >build.txt)

"$python" tests/models/run.py --cases "$cases" --seed "$next_seed" --stop --folder "$folder/cases" \
    --program "$folder/source/build/release/model_cases" >"$folder/chunk.txt"
grep -m 3 '^seed' "$folder/chunk.txt" || true
read -r models_next models_run models_skipped models_failed < <(tail -1 "$folder/chunk.txt")
echo "$models_failed of $models_run models came out wrong, as they must"
nightly_count "$models_next" "$models_run" "$models_skipped" $((models_failed == 0))
