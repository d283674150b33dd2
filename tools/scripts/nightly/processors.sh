# processors.sh - older processors: the suites that ask what the processor has are run by qemu-x86_64 (qemu-user), which plays
# models of them. Sourced by nightly.sh. One case per suite and model; Nehalem has SSE4.2, Haswell AVX2 without AVX-512.
# All is built once, in a folder of its own. There each program becomes a script of the same name that runs it under qemu, so
# suites start a graphtool of that model, too; programs that test_docs compiles itself run on this machine's own processor.
# Left out are suites with time limits, such as those of ranks that die, and test_tools_files, whose malloc that fails would fail in
# qemu. Wants qemu-user, else all is skipped.

# Haswell without what qemu would warn of.
export processors_models="Nehalem Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm"
processors_suites=$(echo test_{ops,onednn_sweep,simd_sweep,special_values,golden_ops,goldens,zoo,docs} \
    test_worlds{,_bits,_graphs,_groups,_memory} test_tools{,_effects})
export processors_suites

# The program becomes a script of the same age, so that nothing is made again; a program that was linked again since does so again.
processors_wrap() { # program
    [[ $(head -c 4 "$1") == $'\x7fELF' ]] || return 0
    mkdir -p "${1%/*}/native"
    mv "$1" "${1%/*}/native/"
    printf '#!/bin/sh\nexec qemu-x86_64 -cpu "$QEMU_MODEL" -0 "$0" "%s" "$@"\n' "${1%/*}/native/${1##*/}" >"$1"
    chmod +x "$1"
    touch -r "${1%/*}/native/${1##*/}" "$1"
}

processors_build() {
    local build name programs=(graphtool weft-zoo zoo_curve)
    build=$(realpath -m "$folder/build")
    for name in $processors_suites; do
        ! compgen -G "tests/*/$name.c" >/dev/null || programs+=("$name")
    done
    cmake --preset release -B "$build" -DWEFT_CUDA=OFF
    cmake --build "$build" --target "${programs[@]}" installed weft_internal weft_train_internal
    cmake --install "$build" --prefix "$build/prefix"
    for name in "${programs[@]}"; do processors_wrap "$build/$name"; done
}

# With OMP_WAIT_POLICY graphtool does not start itself again, which would leave qemu.
processors_suite() {
    local suites models n=$((next_seed - 1))
    read -ra suites <<<"$processors_suites"
    read -ra models <<<"$processors_models"
    export QEMU_MODEL=${models[n % ${#models[@]}]}
    echo "${suites[n / ${#models[@]}]} on $QEMU_MODEL"
    WEFT_TEST_QUICK=1 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive ctest --test-dir "$folder/build" --timeout 3500 \
        -FA installed -R "^${suites[n / ${#models[@]}]}\$" --output-on-failure --no-tests=error
}

processors_count=$(($(wc -w <<<"$processors_suites") * $(wc -w <<<"$processors_models")))
if ((seeds && seeds < processors_count)) && [[ -z $cases ]]; then
    echo "processors: there are $processors_count suites and models, nightly.sh counts $seeds" >&2
    exit 1
fi
if nightly_goes_on && ! command -v qemu-x86_64 >/dev/null; then
    echo "no qemu-x86_64 here"
    nightly_count $((first_seed + seeds)) 0 $((first_seed + seeds - next_seed)) 0
fi
if nightly_goes_on; then nightly_do "$folder/build.txt" processors_build || exit 1; fi
while nightly_goes_on; do nightly_case processors_suite; done
