#!/usr/bin/env bash
# garments.sh - how good are the garments of dcgan28? The Frechet distance of 2,000 (bench/frechet.py) for files of weights,
# beside those of five epochs at the model's own batch and rates, and beside as many real ones: the least that can be expected.
set -euo pipefail

usage() {
    cat <<'END'
Usage: bench/garments.sh [OPTION]... WEIGHTS.safetensors...
Trains a convnet (one epoch, for its features) and dcgan28 (five epochs) where they are not in out/bench/garments yet, and
prints a table of distances: of real garments, of the five epochs, of each file of weights. Needs numpy.

      --build=DIR    where graphtool and weft-zoo are (build/release)
      --python=FILE  a Python that has numpy (python3)
  -h, --help         this text

Example: tools/quickstart.sh && bench/garments.sh out/weights.safetensors
END
}

build=build/release python=python3
parsed=$(getopt -n garments.sh -o h -l build:,python:,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    --build) build=$(realpath -m -- "$2"); shift 2 ;;
    --python) python=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
files=()
for file in "$@"; do files+=("$(realpath "$file")"); done

cd "$(dirname "$0")/.."
build=$(realpath -m -- "$build")
graphtool=$build/graphtool zoo=$build/weft-zoo frechet=$PWD/bench/frechet.py
data=/usr/share/datasets/fashion-mnist
images=$data/train-images-idx3-ubyte.gz
mkdir -p out/bench/garments
cd out/bench/garments
[[ -e convnet.safetensors ]] || {
    "$zoo" convnet --schedule-steps 468 -o convnet.bin
    "$graphtool" train convnet.bin --data image=$images --data label=$data/train-labels-idx1-ubyte.gz --seed 1 \
        -o convnet.safetensors
}
"$zoo" dcgan28 -o dcgan28.bin
[[ -e epochs5.safetensors ]] ||
    "$graphtool" train dcgan28.bin --data image=$images --epochs 5 --seed 1 -o epochs5.safetensors

made=()
for file in "$PWD/epochs5.safetensors" "${files[@]}"; do
    made+=("${#made[@]}-$(basename "$file" .safetensors).npy")
    "$graphtool" predict dcgan28.bin --weights "$file" --fetch samples --batch 2000 --seed 5 -o "${made[-1]}"
done
"$python" "$frechet" convnet.safetensors $data/t10k-images-idx3-ubyte.gz $images "${made[@]}"
