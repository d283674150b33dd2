#!/usr/bin/env bash
# quickstart.sh - from a fresh clone to a trained GAN: installs, builds, trains dcgan28 on Fashion-MNIST, draws.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tools/quickstart.sh [OPTION]...
Installs what is missing, builds, trains a generator and a discriminator on 60,000 images of garments, and
leaves in out/: dcgan28.bin (the model), weights.safetensors, log.jsonl, plan.svg (the picture of the graph)
and samples.png (64 generated garments). Safe to run again.

  -e, --epochs=N   how often to go through the images (5)
  -k, --steps=N    stop after N steps
  -h, --help       this text

Example: tools/quickstart.sh --epochs 10
END
}

epochs=5 steps=()
parsed=$(getopt -n quickstart.sh -o e:k:h -l epochs:,steps:,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    -e | --epochs) epochs=$2; shift 2 ;;
    -k | --steps) steps=(--steps "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
(($# == 0)) || { echo "quickstart.sh: unknown argument '$1'; see --help" >&2; exit 2; }

cd "$(dirname "$0")/.."
tools/scripts/setup.sh run
echo "Building"
mkdir -p build out
{ cmake --preset release -DWEFT_TESTS=OFF && cmake --build build/release --target graphtool weft-zoo; } >build/quickstart.txt || {
    tail -40 build/quickstart.txt >&2
    echo "quickstart.sh: the build failed; the whole output is in build/quickstart.txt" >&2
    exit 1
}

images=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
graphtool=build/release/graphtool
build/release/weft-zoo dcgan28 -o out/dcgan28.bin
"$graphtool" dot out/dcgan28.bin --graph d_step -T svg -o out/plan.svg
echo "Training $epochs epochs (Ctrl-C ends early and keeps the weights)"
"$graphtool" train out/dcgan28.bin --data image="$images" --epochs "$epochs" "${steps[@]}" --seed 1 \
    --log out/log.jsonl -o out/weights.safetensors || (($? == 130))
"$graphtool" predict out/dcgan28.bin --weights out/weights.safetensors --fetch samples --grid 8x8 --seed 1 \
    -o out/samples.png
echo "Look at out/samples.png and out/plan.svg."
