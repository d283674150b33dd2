#!/usr/bin/env bash
# quickstart.sh - from a fresh clone to a trained GAN: installs, builds, trains dcgan28 on Fashion-MNIST, draws.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tools/quickstart.sh [OPTION]...
Installs what is missing, builds, trains a generator and a discriminator on images of garments, and leaves in out/:
index.html (a page with all pictures), samples.png (the generator's progress above real garments), garments.png
(128 generated ones), curves.svg, plan.svg, dcgan28.bin (the model), weights.safetensors, log.jsonl.
Safe to run again.

  -k, --steps=N    steps of the training (2800)
  -h, --help       this text

Example: tools/quickstart.sh --steps 200
END
}

steps=2800
parsed=$(getopt -n quickstart.sh -o k:h -l steps:,help -- "$@") || exit 2
eval set -- "$parsed"
while true; do
    case $1 in
    -k | --steps) steps=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    esac
done
(($# == 0)) || { echo "quickstart.sh: unknown argument '$1'; see --help" >&2; exit 2; }

# A terminal shows the build on one line, [312/621]; a log has every fiftieth step, and all that is not a step.
build() {
    if [[ -t 1 ]]; then
        cmake --build build/release --target "$@"
    else
        cmake --build build/release --target "$@" | awk '!/^\[/ || ++n % 50 == 1 { print; fflush() }'
    fi
}

cd "$(dirname "$0")/.."
tools/scripts/setup.sh run
images=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
[[ -e $images ]] || {
    echo "quickstart.sh: there is no $images: it is in Debian's package dataset-fashion-mnist" >&2
    exit 1
}
mkdir -p build out
cuda=AUTO # kernels for GPUs are more than half of the build
command -v nvidia-smi >/dev/null || cuda=OFF
cmake --preset release -DWEFT_TESTS=OFF -DWEFT_CUDA="$cuda" --no-warn-unused-cli >build/quickstart.txt 2>&1 || {
    tail -40 build/quickstart.txt >&2
    echo "quickstart.sh: the build cannot be configured; all of it is in build/quickstart.txt" >&2
    exit 1
}
echo "Building"
build graphtool weft-zoo

# Small batches, large rates that fall, and an average of the generator: see docs/training.md, "A GAN in minutes".
graphtool=build/release/graphtool
recipe=(--batch 32 --optimizer generator:ema=0.998,ema_gamma=200,ema_buffers=1)
build/release/weft-zoo dcgan28 -o out/dcgan28.bin
"$graphtool" dot out/dcgan28.bin --graph d_step --batch 32 -T svg -o out/plan.svg
echo "Training $steps steps (Ctrl-C ends early and keeps the weights)"
"$graphtool" train out/dcgan28.bin "${recipe[@]}" --lr 1e-3 --schedule cosine,to=0.1 --data image="$images" \
    --steps "$steps" --seed 1 --samples out/samples.png:strip=8,columns=16,scale=3,real=image \
    --log out/log.jsonl --curves out/curves.svg -o out/weights.safetensors || (($? == 130))
"$graphtool" predict out/dcgan28.bin --weights out/weights.safetensors --fetch samples --grid 8x16 --scale 3 --seed 2 \
    -o out/garments.png
"$graphtool" report out/dcgan28.bin "${recipe[@]}" --picture "From noise to garments, and real ones below=out/samples.png" \
    --picture "Generated garments=out/garments.png" --picture "Losses=out/curves.svg" \
    --picture "What one step of the discriminator computes=out/plan.svg" -o out/index.html
cat <<END

Done. Open out/index.html in a browser, or look at out/samples.png. What to do next:
  train longer           tools/quickstart.sh --steps 10000
  what runs, in order    $graphtool plan out/dcgan28.bin --graph d_step --dump
  other models           build/release/weft-zoo --list
  all commands           $graphtool --help
  how to use it from C   docs/README.md
END
