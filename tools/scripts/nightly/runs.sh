# runs.sh - the nightly part `runs`: whole trainings on real data (examples/runs.sh). Case 1 is a classifier of Fashion-MNIST,
# which must reach 93%; case 2 a GPT on a text, whose loss is at most 1% above PyTorch's. Needs bible-kjv, bible-kjv-text
# and a Python with torch and numpy: $WEFT_TORCH_PYTHON, or what tools/nightly.sh models installs. Sourced by nightly.sh.

runs_one() {
    local names=(fashion text)
    WEFT_TORCH_PYTHON=${WEFT_TORCH_PYTHON:-build/venv/bin/python} examples/runs.sh "${names[next_seed - 1]}"
}

if nightly_goes_on; then cmake --build "build/$preset" --target graphtool weft-zoo >>"$folder/build.txt"; fi
while nightly_goes_on; do
    nightly_case runs_one
done
