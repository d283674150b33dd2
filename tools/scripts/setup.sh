#!/usr/bin/env bash
# setup.sh - installs what building, testing and the quick start need and this machine lacks (Debian packages).
# Safe to run again: with everything there it does nothing, and needs no network and no rights.
set -euo pipefail

packages=(
    build-essential cmake ninja-build pkg-config # the build
    libdnnl-dev                                  # oneDNN: convolutions and matrix products
    libprotobuf-c-dev protobuf-c-compiler        # model.bin
    libjansson-dev zlib1g-dev libxxhash-dev      # JSON, gzip, hashes
    libopenmpi-dev openmpi-bin                   # ranks in processes of their own
    libucx-dev libsodium-dev                     # the same without MPI; the proof of a job's token
    libpng-dev libjpeg-dev libgraphviz-dev graphviz   # pictures
    fonts-liberation                             # their letters
    doxygen                                      # the API reference
    libcunit1-dev python3 valgrind               # tests
    dataset-fashion-mnist                        # 70,000 real images of garments
)

missing=()
for name in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) == *" installed" ]] || missing+=("$name")
done
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup.sh: no apt-get here; install what corresponds to: ${missing[*]}" >&2
    exit 2
fi
as_root=()
if ((EUID)); then
    command -v sudo >/dev/null || { echo "setup.sh: run it as root, or install sudo; missing: ${missing[*]}" >&2; exit 2; }
    as_root=(sudo)
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
