# no_mpi.sh - in a Debian root that holds no MPI, packages of a Weft built without it are installed, and dcgan28 trains under
# `graphtool launch` to the bits of one rank: seed 1 with one micro-batch a rank, seed 2 with two, seed 3 with four. Needs
# root, debootstrap and a network; skipped otherwise. Sourced by nightly.sh.

no_mpi_build() {
    cmake --preset release -B "$folder/build" -DWEFT_TESTS=OFF -DWEFT_CUDA=OFF -DWEFT_MPI=OFF -DWEFT_UCX=ON -DCMAKE_INSTALL_PREFIX=/usr
    cmake --build "$folder/build"
    rm -rf "$folder/build/debs"
    (cd "$folder/build" && cpack -G DEB -B "$PWD/debs")
}

no_mpi_root() {
    local found
    rm -rf "$folder/root"
    debootstrap --variant=minbase bookworm "$folder/root"
    mkdir "$folder/root/debs" "$folder/root/job"
    cp "$folder"/build/debs/*.deb "$folder/root/debs"
    rm "$folder"/root/debs/*-dev_*.deb
    cp /etc/resolv.conf "$folder/root/etc/"
    no_mpi_enter 'export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends /debs/*.deb'
    found=$(find "$folder/root" -xdev \( -name 'libmpi*' -o -name 'mpirun*' -o -name 'libopen-rte*' \))
    [[ -z $found ]] || { echo "there is an MPI: $found"; return 1; }
}

# A shell in the root, with /proc and with /sys, where UCX looks for networks.
no_mpi_enter() { # command
    unshare -m sh -ec 'mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"; exec chroot "$1" sh -ec "$2"' sh "$folder/root" "$1"
}

# In two ranks, and in one with twice as many micro-batches.
no_mpi_train() {
    local job=$folder/root/job each=$((1 << (next_seed - 1))) train="train dcgan28.bin --data image=image --threads 1 --seed $next_seed --steps 20"
    rm -rf "$job"/*
    python3 - "$job/image" "$next_seed" <<'END'
import random, struct, sys
r = random.Random(int(sys.argv[2]))
open(sys.argv[1], "wb").write(struct.pack(">4i", 0x803, 1280, 28, 28) + bytes(r.randrange(256) for _ in range(1280 * 784)))
END
    no_mpi_enter "cd /job; weft-zoo dcgan28 -b 8 -o dcgan28.bin
        graphtool launch -n 2 $train --accumulate $each -o two
        graphtool $train --accumulate $((2 * each)) -o one"
    tests/support/alike.py "$job/one" "$job/two"
}

if ((EUID == 0)) && command -v debootstrap >/dev/null; then
    if nightly_goes_on; then
        nightly_do "$folder/build.txt" no_mpi_build && nightly_do "$folder/root.txt" no_mpi_root || exit 1
    fi
    while nightly_goes_on; do nightly_case no_mpi_train; done
    rm -rf "$folder/root"
else
    while nightly_goes_on; do nightly_count $((next_seed + 1)) 0 1 0; done
fi
