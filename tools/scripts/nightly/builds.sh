# builds.sh - the nightly part `builds`: this tree makes the plans and the numbers that an older commit made, to the bit
# (tests/plan/two_builds.py). $WEFT_BEFORE names that commit: by default ac38b15e, the last before a change of all rooms
# that was to move neither. It is built once, in a clone, without CUDA, which plans for a GPU do not need. Sourced by nightly.sh.

# Its model_cases is made of this tree's model_bits.c, which prints numbers and wants nothing of a tree but public functions.
builds_before() {
    local bits=$PWD/tests/plan/model_bits.c
    [[ -d $folder/tree/.git ]] || git clone -q --shared . "$folder/tree"
    cd "$folder/tree"
    git checkout -q --force --detach "$builds_base"
    local cases # folders have changed since
    cases=$(git ls-files "*model_cases.c")
    cp "$bits" "$cases"
    [[ -d tests/support/models ]] || sed -i 's|"support/models/|"support/|' "$cases"
    cmake --preset release -DWEFT_CUDA=OFF
    cmake --build build/release --target weft-zoo graphtool model_cases
}

builds_compare=(python3 tests/plan/two_builds.py "$folder/tree/build/release" "build/$preset")

if ((seeds)) && nightly_goes_on; then
    builds_base=$(git rev-parse --verify --quiet "${WEFT_BEFORE:-ac38b15e}^{commit}") ||
        { echo "builds: WEFT_BEFORE=${WEFT_BEFORE:-ac38b15e} is not a commit of this repository" >&2; exit 2; }
    if [[ -e $folder/base.txt && $(<"$folder/base.txt") != "$builds_base" ]]; then
        echo "builds: $folder counts what was compared with $(<"$folder/base.txt"): use another --folder, or --fresh" >&2
        exit 2
    fi
    echo "$builds_base" >"$folder/base.txt"
    export builds_base
    nightly_do "$folder/build.txt" builds_before
    cmake --build "build/$preset" --target weft-zoo graphtool >>"$folder/build.txt"
    builds_compare+=(--base "$builds_base")
    [[ -n $cases ]] || seeds=$("${builds_compare[@]}" --count)
    nightly_suite "${builds_compare[@]}"
fi
