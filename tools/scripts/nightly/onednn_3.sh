# onednn_3.sh - the part `onednn` with another oneDNN: $WEFT_ONEDNN, a folder with lib and include, or 3.2 of the Python registry,
# installed into the part's folder. Sourced by nightly.sh.

onednn_3_build() {
    if [[ ! -d $other ]]; then
        python3 -m pip install --quiet --target "$other.new" onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
        mv "$other.new" "$other"
    fi
    cmake --preset release -B "$folder/build" -DWEFT_ONEDNN="$other" -DWEFT_CUDA=OFF -DWEFT_MPI=OFF -DWEFT_UCX=OFF
    cmake --build "$folder/build" --target test_onednn_sweep
}

if ((seeds)) && nightly_goes_on; then
    export other=${WEFT_ONEDNN:-$PWD/$folder/onednn}
    nightly_do "$folder/other.txt" onednn_3_build || exit 1
    grep -m1 '^-- oneDNN' "$folder/other.txt"
fi
nightly_suite "$folder/build/test_onednn_sweep"
