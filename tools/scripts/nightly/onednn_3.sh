# onednn_3.sh - the part `onednn` with another oneDNN: $WEFT_ONEDNN, a folder with lib and include, or 3.2 of the Python registry, in
# an environment in the part's folder. First the signals of test_signals, once for each instruction set: whether a product uses the
# stack pointer for something else is the library's matter. Sourced by nightly.sh.

onednn_3_build() {
    if [[ -z ${WEFT_ONEDNN-} && ! -e $other/lib/libdnnl.so ]]; then
        python3 -m venv "$other"
        "$other/bin/pip" install --quiet onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
    fi
    cmake --preset release -B "$folder/build" -DWEFT_ONEDNN="$other" -DWEFT_CUDA=OFF -DWEFT_MPI=OFF -DWEFT_UCX=OFF
    cmake --build "$folder/build" --target test_onednn_sweep test_signals
}

onednn_3_signals() {
    local isa
    for isa in "" avx2 sse2; do WEFT_TEST_ISA=$isa WEFT_TEST_QUICK=1 "$folder/build/test_signals"; done
}

if ((seeds)) && nightly_goes_on; then
    export other=${WEFT_ONEDNN:-$PWD/$folder/onednn}
    nightly_do "$folder/other.txt" onednn_3_build || exit 1
    grep -m1 '^-- oneDNN' "$folder/other.txt"
    nightly_do "$folder/signals.txt" onednn_3_signals || exit 1
fi
nightly_suite "$folder/build/test_onednn_sweep"
