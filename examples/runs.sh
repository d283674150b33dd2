#!/usr/bin/env bash
# runs.sh - whole trainings of models of the zoo on real data, each with what came of it; docs/training.md has the results.
# fashion and text end with 1 when they are worse than what they are held to.
set -euo pipefail

usage() {
    cat <<'END'
Usage: examples/runs.sh fashion|dcgan|wgan|text [OPTION of graphtool train]...
  fashion  a classifier of Fashion-MNIST, 5 epochs: at least 93% of the test images
  dcgan    a GAN of the same images, 5 epochs: samples as out/runs/dcgan.png
  wgan     WGAN-GP, five steps of the critic for each of the generator's, 2,000 iterations: out/runs/wgan.png
  text     a GPT of characters on the King James Bible, 1 epoch: its loss on the last tenth of the text; where
           WEFT_TORCH_PYTHON has PyTorch, the same model is trained there, and Weft's loss is at most 1% above
Needs dataset-fashion-mnist, or bible-kjv and bible-kjv-text, and build/release (tools/dev.sh build).
END
}

cd "$(dirname "$0")/.."
tool=$PWD/build/release/graphtool zoo=$PWD/build/release/weft-zoo out=$PWD/out/runs images=/usr/share/datasets/fashion-mnist
mkdir -p "$out"

fashion() {
    local data=(--data "image=$images/t10k-images-idx3-ubyte.gz" --data "label=$images/t10k-labels-idx1-ubyte.gz")
    "$zoo" convnet -o "$out/convnet.bin"
    "$tool" train "$out/convnet.bin" --data "image=$images/train-images-idx3-ubyte.gz" \
        --data "label=$images/train-labels-idx1-ubyte.gz" --epochs 5 --seed 1 -o "$out/convnet.safetensors" "$@"
    "$tool" eval "$out/convnet.bin" --weights "$out/convnet.safetensors" "${data[@]}" --json >"$out/convnet.json"
    cat "$out/convnet.json"
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["accuracy"] < 0.93)' "$out/convnet.json"
}

# gan MODEL OPTION...
gan() {
    local model=$1
    shift
    "$zoo" "$model" -o "$out/$model.bin"
    "$tool" train "$out/$model.bin" --data "image=$images/train-images-idx3-ubyte.gz" --seed 1 -o "$out/$model.safetensors" "$@"
    "$tool" predict "$out/$model.bin" --weights "$out/$model.safetensors" --fetch samples --grid 8x8 --seed 1 \
        -o "$out/$model.png"
}

text() {
    local bytes lr=1e-3 warmup=100 fields=window=128,pairs=1,dtype=i32 python=${WEFT_TORCH_PYTHON-}
    bible -f gen1:1-rev22:21 >"$out/kjv.txt"
    bytes=$(($(stat -c %s "$out/kjv.txt") * 9 / 10))
    head -c "$bytes" "$out/kjv.txt" >"$out/train.txt"
    tail -c +$((bytes + 1)) "$out/kjv.txt" >"$out/val.txt"
    "$zoo" gpt --layers 4 --d 128 --heads 4 --ctx 128 --vocab 256 --batch 16 -o "$out/text.bin"
    local start=()
    if [[ -n $python ]]; then
        "$python" bench/torch_text.py write "$out/start.safetensors"
        start=(--weights "$out/start.safetensors")
    fi
    "$tool" train "$out/text.bin" "${start[@]}" --data "tokens,target=$out/train.txt:$fields" \
        --val-data "tokens,target=$out/val.txt:$fields" --epochs 1 --lr "$lr" --schedule "cosine,warmup=$warmup" --seed 1 \
        --log "$out/text.jsonl" -o "$out/text.safetensors" "$@"
    [[ -n $python ]] || return 0
    "$python" bench/torch_text.py train "$out/start.safetensors" "$out/train.txt" "$out/val.txt" --lr "$lr" --warmup "$warmup" |
        tee "$out/torch.txt"
    python3 - "$out/text.jsonl" "$out/torch.txt" <<'PYTHON'
import json, sys
weft = [x["val_loss"] for x in map(json.loads, open(sys.argv[1])) if "val_loss" in x][-1]
torch = json.loads(open(sys.argv[2]).read().splitlines()[-1])["val_loss"]
print(f"validation loss: Weft {weft:.4f}, PyTorch {torch:.4f}: {100 * (weft / torch - 1):+.2f}%")
sys.exit(weft > 1.01 * torch)
PYTHON
}

name=${1-}
(($# == 0)) || shift
case $name in
fashion | text) "$name" "$@" ;;
dcgan) gan dcgan28 --epochs 5 "$@" ;;
wgan) gan wgan_gp --flow "d_step*5 g_step" --steps 2000 "$@" ;;
-h | --help) usage ;;
*) usage >&2; exit 2 ;;
esac
