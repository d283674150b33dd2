# ranks.sh - a rank of two is killed, stopped, held or cut off at a random moment (tests/tools/test_tools_ranks.sh), over $way.
# The line of each call that counts hangs and wrong names is kept in moments.txt. Sourced by nightly.sh.
if ((seeds)); then cmake --build "build/$preset" --target weft-zoo >>"$folder/build.txt"; fi
ranks_moments() {
    local status=0
    tests/tools/test_tools_ranks.sh "build/$preset" moments "${way-mpi}" >"$folder/moments.new" 2>&1 || status=$?
    cat "$folder/moments.new"
    grep '^moments: ' "$folder/moments.new" >>"$folder/moments.txt"
    return $status
}
nightly_suite ranks_moments
[[ ! -e $folder/moments.txt ]] || cat "$folder/moments.txt"
