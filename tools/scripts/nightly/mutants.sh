# mutants.sh - the nightly part `mutants`: a sign or an index flipped in a kernel or a gradient must make a suite of ops fail
# (tests/ops/kernel_mutants.py). It changes a clone of what is committed, built without CUDA, whose kernels the emulated GPU
# runs. Sourced by nightly.sh.

mutants_clone() {
    local head
    head=$(git rev-parse HEAD)
    [[ -d $folder/tree/.git ]] || git clone -q --shared . "$folder/tree"
    cd "$folder/tree"
    git checkout -q --force --detach "$head"
    cmake --preset release -DWEFT_CUDA=OFF
}

if ((seeds)) && nightly_goes_on; then
    nightly_do "$folder/build.txt" mutants_clone
    nightly_suite python3 tests/ops/kernel_mutants.py --tree "$folder/tree"
fi
