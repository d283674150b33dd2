# debian_root.sh - fresh roots of Debian releases, for parts of nightly.sh and for wheel.sh, which source it. Each is a
# folder made by debootstrap, whose commands run by chroot; mounts end with the command. Wants root, debootstrap and a
# network.

# A release in each line: GCC 12, Open MPI 4, Graphviz 2 and oneDNN 2; GCC 14, Open MPI 5, Graphviz 12 and oneDNN 3.
debian_releases() {
    echo bookworm
    echo trixie
}

debian_can() { ((EUID == 0)) && command -v debootstrap >/dev/null; }

# Makes the folder again: the release's smallest system and these packages.
debian_make() { # root, release, packages with commas between
    rm -rf "$1"
    debootstrap --variant=minbase --include="$3" "$2" "$1"
    cp /etc/resolv.conf "$1/etc/"
    debian_enter "$1" 'apt-get update -qq'
}

# A script in the root, with nothing of this environment. UCX looks for networks in /sys, ranks share memory in /dev/shm, and
# suites mount things of their own, for which the root itself has to be a mount.
debian_enter() { # root, script
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        unshare -m sh -ec 'mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"; mount --rbind /dev "$1/dev"
            mount -t tmpfs tmpfs "$1/dev/shm"; exec chroot "$1" bash -euo pipefail -c "$2"' sh "$1" "$2"
}

# A clone of these sources in /weft, with what is not committed yet.
debian_clone() { # root
    git clone -q . "$1/weft"
    git diff --binary HEAD | git -C "$1/weft" apply --allow-empty
    nightly_commit >"$1/weft.commit"
}

# Whether an earlier call left this root with a clone of the same sources.
debian_has_clone() { # root
    [[ -e $1/weft.commit && $(<"$1/weft.commit") == "$(nightly_commit)" && $(<"$1/weft.commit") != *changed ]]
}

# Debian packages of the clone in /weft, in /weft/build/debs/debs.
debian_packages() { # root, arguments for CMake
    debian_enter "$1" "cd /weft
        cmake --preset release -B build/debs -DWEFT_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr $2
        cmake --build build/debs
        cd build/debs && rm -rf debs && cpack -G DEB -B debs"
}

# Installs packages that lie in /debs.
debian_install() { # root
    debian_enter "$1" 'apt-get install -y -qq --no-install-recommends /debs/*.deb'
}
