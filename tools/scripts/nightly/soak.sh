# soak.sh - the nightly part `soak`: a training under mpirun and a loop of sessions and worlds, for as many minutes as the part has
# cases, watched for growth (tests/train/soak.py). Needs dataset-fashion-mnist. Sourced by nightly.sh.
if nightly_goes_on; then
    cmake --build "build/$preset" --target graphtool weft-zoo >>"$folder/build.txt"
    fails=0
    python3 tests/train/soak.py "build/$preset" --minutes "$seeds" >"$folder/soak.txt" 2>&1 || fails=1
    cat "$folder/soak.txt"
    nightly_count $((first_seed + seeds)) "$seeds" 0 $fails
fi
