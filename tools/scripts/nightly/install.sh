# install.sh - what is too long for test_install.sh: a case a row of install_cases. Those of a release run in fresh roots of it, want
# root, debootstrap and a network, and are skipped otherwise; so is the case of clang without clang. Sourced by nightly.sh.
#   subproject  as part of another project (add_subdirectory, FetchContent) the whole library is built and used
#   unpacked    Debian packages, unpacked into an empty folder, are as good a prefix as `cmake --install` makes
#   later       the library with a field more in each structure: a program that was compiled with the older headers runs with it
#   clang       clang builds everything without a warning; suites of kernels, and what is installed, are as good as GCC's
#   quickstart  in a fresh root, from a fresh clone: the first command of README.md, with less steps; it installs no MPI
#   tests       the second one, tools/test.sh
#   packages    cpack there; the packages install in a root that holds nothing else, and the consumer is built and run in it
#   wheel       tools/wheel.sh: the Python package, made in Debian 11 and tried there and here
source tools/scripts/debian_root.sh

install_cases() {
    echo subproject
    echo unpacked
    echo later
    echo clang
    local release
    for release in $(debian_releases); do
        echo "quickstart $release"
        echo "tests $release"
        echo "packages $release"
    done
    echo wheel
}

# Its own build without tests, where Debian's libraries lie.
install_build() {
    cmake --preset release -B "$folder/build" -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF -DCMAKE_INSTALL_PREFIX=/usr
    cmake --build "$folder/build"
}

install_subproject() {
    install_build
    rm -rf "$folder/prefix"
    cmake --install "$folder/build" --prefix "$folder/prefix"
    tests/scripts/test_install.sh "$folder/prefix" "" full
}

install_unpacked() {
    install_build
    rm -rf "$folder/unpacked" "$folder/build/debs"
    (cd "$folder/build" && cpack -G DEB -B "$PWD/debs")
    for package in "$folder"/build/debs/*.deb; do dpkg-deb -x "$package" "$folder/unpacked"; done
    tests/rules/check_exports.py "$folder/unpacked/usr"
    tests/scripts/test_install.sh "$folder/unpacked/usr" ""
}

install_later() {
    local tree=$folder/later
    install_build
    rm -rf "$tree" "$folder/prefix"
    cmake --install "$folder/build" --prefix "$folder/prefix"
    gcc -I "$folder/prefix/include" tests/consumer/{line,own_names}.c -L "$folder/build" -lweft -o "$folder/line"
    mkdir -p "$tree"
    git ls-files -z | xargs -0 cp --parents -t "$tree"
    sed -i 's/uint64_t reserved\[WEFT_RESERVED\]/uint64_t later, reserved[WEFT_RESERVED - 1]/' "$tree"/include/weft/*.h
    ! cmp -s "$tree/include/weft/plan.h" include/weft/plan.h
    (cd "$tree" && cmake --preset release -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF && cmake --build build/release --target weft_shared)
    (cd "$folder" && LD_LIBRARY_PATH=later/build/release ./line)
}

install_clang() {
    CC=clang CXX=clang++ cmake --preset release -B "$folder/clang" -DWEFT_CUDA=OFF -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
    cmake --build "$folder/clang"
    ctest --test-dir "$folder/clang" --output-on-failure \
        -R '^(test_ops|test_simd_sweep|test_golden_ops|test_vecmath|test_reduced|install|check_exports|test_install)$'
}

# The release of this case, and its root with a clone.
install_release() { install_cases | awk -v n="$next_seed" 'NR == n { print $2 }'; }
install_root() { echo "$folder/$(install_release)"; }
install_fresh() {
    debian_make "$(install_root)" "$(install_release)" git,ca-certificates
    debian_clone "$(install_root)"
}

install_quickstart() {
    install_fresh
    debian_enter "$(install_root)" 'cd /weft
        tools/quickstart.sh --steps 40
        for made in samples.png plan.svg weights.safetensors; do [[ -s out/$made ]] || { echo "no $made"; exit 1; }; done
        if command -v mpirun; then echo "there is an MPI"; exit 1; fi'
}

install_tests() {
    debian_has_clone "$(install_root)" || install_fresh
    debian_enter "$(install_root)" 'cd /weft; tools/test.sh'
}

install_packages() {
    local root clean
    root=$(install_root) clean=$(install_root).clean
    debian_has_clone "$root" || install_fresh
    debian_enter "$root" '/weft/tools/scripts/setup.sh'
    debian_packages "$root" ""
    debian_make "$clean" "$(install_release)" gcc,g++,make,pkg-config,libc6-dev
    cp -r "$root/weft/build/debs/debs" "$root/weft/tests/consumer" "$clean"
    debian_install "$clean"
    debian_enter "$clean" 'cd /consumer
        for link in "" -static; do
            make -B WEFT=weft$link TRAIN=weft-train$link
            ./line line.bin && ./line_cpp && ./batches
        done
        weft-zoo mlp -o mlp.bin
        graphtool plan mlp.bin && graphtool dot mlp.bin -T svg -o mlp.svg'
    rm -rf "$clean" "$root"
}

install_wheel() { tools/wheel.sh --fresh; }

install_can() { # case, release
    [[ $1 != clang ]] || command -v clang >/dev/null || return
    [[ -z $2 && $1 != wheel ]] || debian_can
}

while nightly_goes_on; do
    read -r what release < <(install_cases | awk -v n="$next_seed" 'NR == n') || what=
    if [[ $what ]] && install_can "$what" "${release-}"; then
        nightly_case "install_$what"
    else
        nightly_count $((next_seed + 1)) 0 1 0
    fi
done
