# install.sh - three cases that are too long for test_install.sh. Sourced by nightly.sh.
#   1  as part of another project (add_subdirectory, FetchContent) the whole library is built and used
#   2  Debian packages, unpacked into an empty folder, are as good a prefix as `cmake --install` makes
#   3  they install in a Debian root that holds nothing else, and the consumer is built and run there (needs
#      root, debootstrap and a network; skipped otherwise)

# Its own build without tests, where Debian's libraries lie.
install_build() {
    cmake --preset release -B "$folder/build" -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF -DCMAKE_INSTALL_PREFIX=/usr
    cmake --build "$folder/build"
    (cd "$folder/build" && cpack -G DEB -B "$PWD/debs")
}

install_subproject() {
    rm -rf "$folder/prefix"
    cmake --install "$folder/build" --prefix "$folder/prefix"
    tests/test_install.sh "$folder/prefix" "" full
}

install_unpacked() {
    rm -rf "$folder/unpacked"
    for package in "$folder"/build/debs/*.deb; do dpkg-deb -x "$package" "$folder/unpacked"; done
    tests/check_exports.py "$folder/unpacked/usr"
    tests/test_install.sh "$folder/unpacked/usr" ""
}

install_clean_root() {
    local root
    root=$(mktemp -d)
    debootstrap --variant=minbase --include=gcc,g++,make,pkg-config,libc6-dev bookworm "$root"
    mkdir "$root/debs" "$root/consumer"
    cp "$folder"/build/debs/*.deb "$root/debs"
    cp tests/consumer/* "$root/consumer"
    cp /etc/resolv.conf "$root/etc/"
    chroot "$root" sh -ec 'export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends /debs/*.deb
        cd /consumer
        for package in weft weft-static; do make -B WEFT=$package && ./line && ./line_cpp; done
        weft-zoo mlp -o mlp.bin
        graphtool plan mlp.bin && graphtool dot mlp.bin -T svg -o mlp.svg'
    rm -rf "$root"
}

if nightly_goes_on; then nightly_do "$folder/build.txt" install_build || exit 1; fi
while nightly_goes_on; do
    case $next_seed in
    1) nightly_case install_subproject ;;
    2) nightly_case install_unpacked ;;
    *)
        if ((EUID == 0)) && command -v debootstrap >/dev/null; then
            nightly_case install_clean_root
        else
            nightly_count $((next_seed + 1)) 0 1 0
        fi
        ;;
    esac
done
