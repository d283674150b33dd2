# models_s1.sh - shows that random models find a known defect: gradients that are views, copied as if they
# were row-major. It runs a copy of the sources whose `bucket` claims to accept operands of any strides; among
# the given number of models at least one must be wrong there, and none here. Needs the Python that models.sh
# installs. Sourced by nightly.sh.

# The last line of what models_s1_run NAME PROGRAM CASES [OPTION]... says: next seed, run, skipped, failed.
models_s1_run() {
    "$python" tests/models/run.py --seed "$first_seed" --folder "$s1/$1" --program "$2" --cases "${@:3}" >"$s1/$1.txt"
    grep -m 3 '^seed' "$s1/$1.txt" >&2 || true
    tail -1 "$s1/$1.txt"
}

python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}
if ((seeds)); then
    "$python" -c 'import torch, numpy, xxhash' || { echo "models_s1: run tools/nightly.sh models first: it installs PyTorch" >&2; exit 2; }
    s1=$folder/models_s1 # all of it is ours, whatever else --folder holds
    rm -rf "$s1"
    mkdir -p "$s1/source"
    git archive HEAD | tar -x -C "$s1/source"
    sed -i 's/^    \.reference = reference,$/&\n    .reference_strided = ~0u,/' "$s1/source/ops/structure/bucket.c"
    grep -q reference_strided "$s1/source/ops/structure/bucket.c"
    (cd "$s1/source" && cmake --preset release -DWEFT_CUDA=OFF >/dev/null && cmake --build build/release --target model_cases >build.txt)

    run=0 skipped=0 failed=0 from_seed=$first_seed
    read -r models_next models_run _ models_found < <(models_s1_run with "$s1/source/build/release/model_cases" "$seeds" --stop)
    echo "with the defect: $models_found of $models_run models came out wrong, from seed $first_seed to $((models_next - 1))"
    read -r _ models_run models_skipped models_failed < <(models_s1_run without "build/$preset/$program" $((models_next - first_seed)))
    echo "without it: $models_failed of $models_run"
    nightly_count "$models_next" "$models_run" "$models_skipped" $((models_failed + (models_found == 0)))
fi
