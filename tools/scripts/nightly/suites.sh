# suites.sh - every test of tools/test.sh at full length, in the release build and in that of the sanitizers. Sourced by
# nightly.sh. A case is a test of a build: the first seeds are those of release, then come those of asan. One that ctest skips
# (there is no MPI, no GPU, ...) is counted as skipped.

suites_build() {
    local build
    for build in release asan; do
        cmake --preset "$build"
        cmake --build "build/$build"
        ctest --test-dir "build/$build" -N | sed -n "s/^ *Test *#[0-9]*: /$build /p"
    done
}

suites_case() {
    local build name
    read -r build name < <(sed -n "${next_seed}p" "$folder/tests.txt")
    echo "$name in $build"
    [[ $build == release ]] || source tools/scripts/sanitizer_env.sh
    unset WEFT_TEST_QUICK
    ctest --test-dir "build/$build" -R "^$name\$" --timeout 3000 --output-on-failure --no-tests=error | tee "$folder/ctest.txt"
    ! grep -q '\*\*\*Skipped' "$folder/ctest.txt" || exit 77
}

if nightly_goes_on; then
    nightly_do "$folder/build.txt" suites_build || exit 1
    grep -E '^(release|asan) [a-z]' "$folder/build.txt" >"$folder/tests.txt"
    last=$(wc -l <"$folder/tests.txt")
    ((first_seed + seeds <= last + 1)) || seeds=$((last + 1 - first_seed))
fi
while nightly_goes_on; do nightly_case suites_case; done
