#!/usr/bin/env python3
"""precision.py - does training in bf16 and f16 end where f32 ends?

    bench/precision.py [--build DIR] [--steps N] [--dtypes bf16,f16] [--options "..."] [--no-luck] [NAME[:BATCH]...]

Each model of the zoo is trained for N steps (200) from the same start on the same data, in f32 and in each dtype. Shown
is the mean of each loss over the last quarter of the steps, and how far it is from f32's; 2% is the limit, beyond which the
exit status is 1. A second f32 training whose seed differs says how much of that is luck. The data can be learned except for
a share of noise, so that losses do not go to zero, where 2% would be nothing. --options go to graphtool train as they are
(--options "--threads 2"). Needs numpy, graphtool and weft-zoo; files lie in out/bench/precision.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 0.02
NOISE = 0.3  # of the labels and tokens
ROWS = 2048
# What a small machine trains in minutes; elsewhere: NAME:BATCH.
DEFAULT = ["mlp:64", "convnet:32", "dcgan28:32", "dcgan:16", "gpt:4", "resnet18:8", "gpt2_124m:1", "resnet50:4"]
# Slower than the model's own, where with it two seeds differ by more than the limit: luck would be measured, not precision.
RATES = {"dcgan": 2e-5, "resnet18": 0.002, "resnet50": 2e-4, "gpt2_124m": 1e-4}
SIZES = {"gpt": ["--layers=2", "--d=128", "--heads=4", "--ctx=64"],
         "gpt2_124m": ["--ctx=128"]}  # all its parameters, on shorter texts


def labels(random, classes):
    clean = random.integers(classes, size=ROWS)
    noisy = np.where(random.random(ROWS) < NOISE, random.integers(classes, size=ROWS), clean)
    return clean, noisy


def text(random, length, vocab):
    """Tokens that mostly follow 3 * token + 1."""
    t = random.integers(vocab, size=(ROWS, length + 1))
    for i in range(1, length + 1):
        follows = random.random(ROWS) > NOISE
        t[:, i] = np.where(follows, (3 * t[:, i - 1] + 1) % vocab, t[:, i])
    return t


def make_data(folder, inputs, vocab):
    """{input: file}: images of a pattern a class under noise, labels, or text."""
    random = np.random.default_rng(1)
    shapes = {i["name"]: i for i in inputs}
    files = {}
    clean, noisy = labels(random, 10)
    for name, port in shapes.items():
        dtype, _, shape = port["type"].rstrip("]").partition("[")
        shape = [int(n) for n in shape.split(",")[1:]]
        if name == "image":
            small = [max(1, n // 4) if n > 4 else n for n in shape]
            patterns = random.standard_normal((10, *small))
            for axis, n in enumerate(shape, 1):
                patterns = np.repeat(patterns, -(-n // patterns.shape[axis]), axis).take(range(n), axis)
            rows = ROWS if np.prod(shape) < 50000 else 128
            value = patterns[clean[:rows]] + 0.5 * random.standard_normal((rows, *shape))
            value = np.clip(128 + 50 * value, 0, 255) if dtype == "u8" else value / 2
        elif name == "label":
            value = noisy
        elif name in ("tokens", "target"):
            if name == "tokens":
                tokens = text(random, shape[0], vocab)
                files["tokens"], files["target"] = (v.astype(np.int32) for v in (tokens[:, :-1], tokens[:, 1:]))
            continue
        else:
            sys.exit(f"precision.py: no data for input {name}")
        files[name] = value.astype({"u8": np.uint8, "i32": np.int32, "f32": np.float32}[dtype])
    rows = min(len(v) for v in files.values())
    for name, value in files.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(value[:rows]))
    return {name: folder / f"{name}.npy" for name in files}


def tool(build, *words):
    done = subprocess.run([str(build / words[0]), *map(str, words[1:])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"precision.py: {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def train(build, model, data, folder, steps, options, *more):
    """{loss: mean over the last quarter}."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    feeds = [f"--data={name}={file}" for name, file in data.items()]
    tool(build, "graphtool", "train", model, *feeds, "--steps", steps, "--epochs", 1000000, "--log", log, *options, *more)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if "step" in line][-steps // 4:]
    names = [k for k in lines[0] if k.endswith("loss")]
    return {k: float(np.mean([line[k] for line in lines])) for k in names}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", default=DEFAULT)
    p.add_argument("--build", type=Path, default=ROOT / "build/release")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--dtypes", default="bf16,f16")
    p.add_argument("--options", default="")
    p.add_argument("--no-luck", action="store_true", help="leave out the other seed")
    o = p.parse_args()
    good = True
    print(f"| model | batch | loss | f32 | other seed | {' | '.join(o.dtypes.split(','))} |")
    print("|---|---|---|---|---|" + "---|" * len(o.dtypes.split(",")))
    for word in o.models:
        name, _, batch = word.partition(":")
        folder = ROOT / "out/bench/precision" / name
        folder.mkdir(parents=True, exist_ok=True)
        model, sizes = folder / "model.bin", SIZES.get(name, [])
        tool(o.build, "weft-zoo", name, "-o", model, *sizes, *([f"--batch={batch}"] if batch else []))
        info = json.loads(tool(o.build, "graphtool", "info", model, "--json"))
        graph = next(g for g in info["graphs"] if g["name"] in ("train", "d_step"))
        vocab = 65  # of gpt, and enough of gpt2_124m's
        data = make_data(folder, graph["inputs"], vocab)
        options = o.options.split() + ([f"--lr={RATES[name]}"] if name in RATES else [])
        exact = train(o.build, model, data, folder, o.steps, options)
        luck = exact if o.no_luck else train(o.build, model, data, folder, o.steps, options, "--seed", 7)
        found = {d: train(o.build, model, data, folder, o.steps, options, "--dtype", d) for d in o.dtypes.split(",")}
        for loss, value in exact.items():
            off = {d: f[loss] / value - 1 for d, f in found.items()}
            good &= all(abs(v) <= LIMIT for v in off.values())
            cells = [f"{found[d][loss]:.4f} ({100 * off[d]:+.2f}%)" for d in found]
            print(f"| {name} | {batch} | {loss} | {value:.4f} | {100 * (luck[loss] / value - 1):+.2f}% | "
                  f"{' | '.join(cells)} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
