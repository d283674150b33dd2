#!/usr/bin/env python3
"""waits.py - the share of a step that a training waits for its data, from real files.

    bench/waits.py [--build DIR] [--threads N] [--steps N] [CASE...]

Each case is a model of the zoo with its own batch and files of the form that it would be trained on: graphtool train
reads them in a new random order, with one thread that reads ahead, and its log has the seconds that each iteration waited
(data_time). The first steps are left out: nothing is read ahead of them. Prints a Markdown table; exit status 1 when a
case waits for more than 1% of a step. Needs numpy, dataset-fashion-mnist, graphtool and weft-zoo; files lie in
out/bench/waits.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
from run_json import busy_cpus

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out/bench/waits"
FASHION = "/usr/share/datasets/fashion-mnist/train-"
LIMIT = 0.01
WARM = 3  # steps that are left out
# Case: model and options of weft-zoo, what it reads, most steps that are timed.
CASES = {
    "mlp": ("mlp", "IDX, gzip", 200),
    "convnet": ("convnet", "IDX, gzip", 40),
    "dcgan28": ("dcgan28", "IDX, gzip", 40),
    "dcgan": ("dcgan", ".npy, 64 x 64, f32", 30),
    "resnet18": ("resnet18", ".npy, 32 x 32, f32", 30),
    "resnet18 PNG": ("resnet18 --pictures", "PNG, 40 x 40, to 32 x 32", 30),
    "mobilenet_v2 PNG": ("mobilenet_v2 --pictures", "PNG, 256 x 256, to 224 x 224", 10),
    "gpt": ("gpt", "tokens, u16", 20),
    "lstm_char": ("lstm_char", "tokens, u16", 40),
}


def write_png(path, pixels):
    """u8[H,W,3] as rows that differ from those above them (filter 2), as encoders choose for photographs."""
    rows = pixels.reshape(len(pixels), -1)
    above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
    lines = np.hstack([np.full((len(rows), 1), 2, np.uint8), rows - above])

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) +
                     chunk(b"IEND", b""))


def pictures(folder, side, count):
    """Waves of colours under a little noise, in ten classes."""
    random = np.random.default_rng(side)
    y, x = np.mgrid[:side, :side][..., None] / side * 6
    for i in range(count):
        into = folder / f"class{i % 10}"
        into.mkdir(parents=True, exist_ok=True)
        a, b, c = random.normal(size=(3, 1, 1, 3))
        waves = 128 + 90 * np.sin(a * x + b * y + c) + random.normal(scale=4, size=(side, side, 3))
        write_png(into / f"{i}.png", waves.clip(0, 255).astype(np.uint8))
    return f"image,label={folder}"


def made(path, make):
    """Makes a file or folder once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return path


def arrays(side, classes):
    random = np.random.default_rng(side)
    image = made(OUT / f"image{side}.npy", lambda p: np.save(p, random.normal(size=(4096, 3, side, side)).astype(np.float32)))
    label = made(OUT / "label.npy", lambda p: np.save(p, random.integers(10, size=4096).astype(np.int32)))
    return [f"image={image}"] + ([f"label={label}"] if classes else [])


def data_of(case):
    """What --data says."""
    if case in ("mlp", "convnet", "dcgan28"):
        images = [f"image={FASHION}images-idx3-ubyte.gz"]
        return images if case == "dcgan28" else images + [f"label={FASHION}labels-idx1-ubyte.gz"]
    if case in ("dcgan", "resnet18"):
        return arrays(64 if case == "dcgan" else 32, case == "resnet18")
    if case == "resnet18 PNG":
        folder = made(OUT / "png40", lambda p: pictures(p, 40, 2000))
        return [f"image,label={folder}:height=32"]
    if case == "mobilenet_v2 PNG":
        folder = made(OUT / "png256", lambda p: pictures(p, 256, 640))
        return [f"image,label={folder}:height=224,shorter_side=256"]
    random = np.random.default_rng(1)
    tokens = made(OUT / "tokens.bin", lambda p: random.integers(65, size=4 << 20).astype(np.uint16).tofile(p))
    return [f"tokens,target={tokens}:window={256 if case == 'gpt' else 64},pairs=1,dtype=i32"]


def measure(case, options):
    model, source, steps = CASES[case]
    name, log = OUT / (case.replace(" ", "_") + ".bin"), OUT / (case.replace(" ", "_") + ".jsonl")
    steps = min(steps, options.steps) if options.steps else steps
    feeds = [word for one in data_of(case) for word in ("--data", one)]
    subprocess.run([options.build / "weft-zoo", *model.split(), "-o", name], check=True)
    others = busy_cpus()
    subprocess.run([options.build / "graphtool", "train", name, *feeds, "--steps", str(steps + WARM), "--epochs", "1000",
                    "--threads", str(options.threads), "--log", log], check=True, stdout=subprocess.DEVNULL)
    others = max(others, busy_cpus())
    lines = [json.loads(line) for line in log.open()]
    timed = lines[WARM:]
    seconds = timed[-1]["seconds"] - lines[WARM - 1]["seconds"]
    waited = sum(line["data_time"] for line in timed)
    batch = lines[0]["samples"]
    print(f"| {case.split()[0]} | {source} | {batch} | {seconds / len(timed) * 1e3:.2f} | {waited / len(timed) * 1e3:.4f} | "
          f"{100 * waited / seconds:.3f}% | {max(line['data_time'] for line in timed) * 1e3:.3f} |", flush=True)
    return waited / seconds, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=0, help="timed steps of a case, at most (each has its own number)")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    unknown = [case for case in options.cases if case not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}: there are {', '.join(CASES)}")
    OUT.mkdir(parents=True, exist_ok=True)
    print("| case | files | batch | step, ms | waiting, ms | share | longest, ms |")
    print("|---|---|---:|---:|---:|---:|---:|")
    found = {case: measure(case, options) for case in options.cases}
    busy = max(others for _, others in found.values())
    subprocess.run(["bash", "-c", "source bench/common.sh; print_machine false"], cwd=ROOT)
    print(f"- {options.threads} threads; other processes used up to {busy:.1f} CPUs before or after a run.")
    slow = [case for case, (share, _) in found.items() if share > LIMIT]
    sys.exit(f"waits.py: more than {LIMIT:.0%} of a step: {', '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main()
