# onednn_3.sh - the part `onednn` with another oneDNN: $WEFT_ONEDNN, a folder with lib and include, or 3.2 of the Python registry, in
# an environment in the part's folder. Sourced by nightly.sh.

onednn_3_build() {
    if [[ -z ${WEFT_ONEDNN-} && ! -e $other/lib/libdnnl.so ]]; then
        python3 -m venv "$other"
        "$other/bin/pip" install --quiet onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
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
