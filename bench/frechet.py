#!/usr/bin/env python3
"""frechet.py - how far generated garments are from real ones: the Frechet distance of features (Heusel et al.,
arXiv 1706.08500), which are the last hidden layer of the zoo's convnet, trained on Fashion-MNIST.

    weft-zoo convnet --schedule-steps 468 -o convnet.bin
    graphtool train convnet.bin --data image=$TRAIN_IMAGES --data label=$TRAIN_LABELS --epochs 1 -o convnet.safetensors
    graphtool predict gan.bin --weights gan.safetensors --fetch samples --batch 2000 -o gan.npy
    frechet.py convnet.safetensors t10k-images-idx3-ubyte.gz gan.npy [MORE.npy ...]

Pictures are u8[N,28,28], as .npy or IDX, plain or gzip; of each file but the real one the first --count are taken. Two
normal distributions are compared: |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)). Real pictures outside of the reference
have a distance above 0, too: give them as MORE, to see what the smallest that can be expected is.
"""
import argparse
import gzip
import json
import struct
import sys

import numpy as np

MEAN, DEVIATION, EPS = 0.2860, 0.3530, 1e-5  # of examples/zoo_models.c: fashion_input, and of batch_norm


def read_safetensors(path):
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(length)), f.read()
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], "<f4").reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__" and t["dtype"] == "F32"}


def read_pictures(path):
    if path.endswith(".npy"):
        pictures = np.load(path)
    else:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            data = f.read()
        _, _, kind, axes = data[:4]
        shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
        pictures = np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape) if kind == 8 else np.zeros(0)
    if pictures.dtype != np.uint8 or pictures.shape[1:] != (28, 28):
        sys.exit(f"frechet.py: {path}: u8[N,28,28] is needed, not {pictures.dtype}{list(pictures.shape)}")
    return pictures


class Convnet:
    """The zoo's, up to its last hidden layer, in evaluation. Pictures are [N,H,W,C] here."""

    def __init__(self, path):
        self.of = read_safetensors(path)

    def conv_bn_relu(self, x, name):
        of = {k: self.of[f"net.{name}.{k}"] for k in
              ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")}
        n, height, width, channels = x.shape
        x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = [x[:, dy:dy + height, dx:dx + width] for dy in range(3) for dx in range(3)]
        rows = np.stack(windows, 3).reshape(n * height * width, 9 * channels)
        weight = of["conv.weight"].transpose(2, 3, 1, 0).reshape(9 * channels, -1)
        scale = of["bn.weight"] / np.sqrt(of["bn.running_var"] + EPS)
        out = (rows @ weight - of["bn.running_mean"]) * scale + of["bn.bias"]
        return np.maximum(out, 0).reshape(n, height, width, -1)

    @staticmethod
    def halve(x):
        n, height, width, channels = x.shape
        return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def batch(self, pictures):
        x = ((pictures / np.float32(255) - MEAN) / DEVIATION).astype(np.float32)[..., None]
        x = self.halve(self.conv_bn_relu(self.conv_bn_relu(x, "conv1"), "conv2"))
        x = self.halve(self.conv_bn_relu(self.conv_bn_relu(x, "conv3"), "conv4"))
        x = x.transpose(0, 3, 1, 2).reshape(len(pictures), -1)
        x = np.maximum(x @ self.of["net.fc1.weight"].T + self.of["net.fc1.bias"], 0)
        return x, x @ self.of["net.fc2.weight"].T + self.of["net.fc2.bias"]

    def run(self, pictures):
        """Features and logits."""
        parts = [self.batch(pictures[i:i + 250]) for i in range(0, len(pictures), 250)]
        return [np.concatenate(part).astype(np.float64) for part in zip(*parts)]


def root_trace(a, b):
    """The trace of (AB)^(1/2), where A and B are covariances: of (A^(1/2) B A^(1/2))^(1/2), which is symmetric."""
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0)).sum()


def distance(one, other):
    a, b = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    apart = one.mean(0) - other.mean(0)
    return apart @ apart + np.trace(a) + np.trace(b) - 2 * root_trace(a, b)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convnet")
    parser.add_argument("real")
    parser.add_argument("generated", nargs="+")
    parser.add_argument("--count", type=int, default=2000, help="pictures of each file (2000)")
    o = parser.parse_args()
    net = Convnet(o.convnet)
    real, _ = net.run(read_pictures(o.real))
    print("| pictures | Frechet distance | classes, per cent |\n|---|---:|---|")
    for path in o.generated:
        pictures = read_pictures(path)[:o.count]
        if len(pictures) < o.count:
            sys.exit(f"frechet.py: {path}: it has {len(pictures)} pictures, --count asks for {o.count}")
        features, logits = net.run(pictures)
        shares = np.bincount(logits.argmax(1), minlength=10) * 100 / len(pictures)
        print(f"| {path} | {distance(features, real):.2f} | {' '.join(f'{s:.0f}' for s in shares)} |")


if __name__ == "__main__":
    main()
