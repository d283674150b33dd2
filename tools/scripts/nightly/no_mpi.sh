# no_mpi.sh - in a Debian root that holds no MPI, packages of a Weft built without it are installed, and dcgan28 trains under
# `graphtool launch` to the bits of one rank. Three seeds a release of Debian: with one, two and four micro-batches a rank. Wants
# root, debootstrap and a network; skipped otherwise. Sourced by nightly.sh.
source tools/scripts/debian_root.sh

no_mpi_release() { debian_releases | sed -n "$(((next_seed - 1) / 3 + 1))p"; }

# Makes the packages in one root, and installs those that run programs in another.
no_mpi_root() { # root, release
    local found build=$1.build
    debian_make "$build" "$2" git,ca-certificates
    debian_clone "$build"
    debian_enter "$build" '/weft/tools/scripts/setup.sh run; apt-get install -y -qq --no-install-recommends libucx-dev file'
    debian_packages "$build" "-DWEFT_MPI=OFF -DWEFT_UCX=ON"
    debian_make "$1" "$2" ca-certificates
    mkdir "$1/debs" "$1/job"
    cp "$build"/weft/build/debs/debs/*.deb "$1/debs"
    rm "$1"/debs/*-dev_*.deb
    debian_install "$1"
    found=$(find "$1" -xdev \( -name 'libmpi*' -o -name 'mpirun*' -o -name 'libopen-rte*' \))
    [[ -z $found ]] || { echo "there is an MPI: $found"; return 1; }
    mv "$build/weft.commit" "$1"
    rm -rf "$build"
}

# In two ranks, and in one with twice as many micro-batches.
no_mpi_train() {
    local release root job each train
    release=$(no_mpi_release) root=$folder/$(no_mpi_release)
    debian_has_clone "$root" || no_mpi_root "$root" "$release"
    job=$root/job each=$((1 << (next_seed - 1) % 3))
    train="train dcgan28.bin --data image=image --threads 1 --seed $next_seed --steps 20"
    rm -rf "$job"/*
    python3 - "$job/image" "$next_seed" <<'END'
import random, struct, sys
r = random.Random(int(sys.argv[2]))
open(sys.argv[1], "wb").write(struct.pack(">4i", 0x803, 1280, 28, 28) + bytes(r.randrange(256) for _ in range(1280 * 784)))
END
    debian_enter "$root" "cd /job; weft-zoo dcgan28 -b 8 -o dcgan28.bin
        graphtool launch -n 2 $train --accumulate $each -o two
        graphtool $train --accumulate $((2 * each)) -o one"
    tests/support/alike.py "$job/one" "$job/two"
    ((next_seed % 3)) || rm -rf "$root"
}

while nightly_goes_on; do
    if debian_can; then nightly_case no_mpi_train; else nightly_count $((next_seed + 1)) 0 1 0; fi
done
