#!/usr/bin/env python3
"""make_preprocess.py - writes preprocess.h: what PyTorch's tensor functions make of small images by the rules of
torchvision.transforms: Pad, RandomCrop and RandomHorizontalFlip (train) or CenterCrop (eval), Normalize.
Run it where PyTorch is; the tests do not need it.

Where a crop begins is chosen here, at (top, left) of each image; its draw is the middle of that place's part of [0, 1), or
the part's end where END says so. Images are f(i) = (7 i i + 31 i + 13) mod 251, element by element.
"""
from pathlib import Path

import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
N, C, H, W = 2, 3, 5, 6
LAST = 1 - 2.0**-24
NORMAL = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
# Options; for each image: top, left, is it flipped?
ROWS = [
    ({}, [(0, 0, 0), (0, 0, 0)]),
    ({"flip": 1}, [(0, 0, 1), (0, 0, 0)]),
    ({"crop_height": 3}, [(0, 0, 0), (2, 0, 0)]),
    ({"crop_width": 3, "flip": 1}, [(0, 2, 0), (0, 1, 1)]),
    ({"crop_height": 4, "crop_width": 4, "border": 1, "flip": 1, **NORMAL}, [(3, 0, 1), (1, 4, 0)]),
    ({"crop_height": 2, "crop_width": 1, "border": 2}, [(0, 9, 0), (7, 4, 0)]),
    ({"border": 1, "swap_channels": 1, "mean": [10, 20, 30]}, [(0, 0, 0), (0, 0, 0)]),
    ({"swap_channels": 1, "std": [2, 0, 4], "multiple": 4, "fill": -1.5}, [(0, 0, 0), (0, 0, 0)]),
    ({"crop_height": 4, "crop_width": 5, "flip": 1, "multiple": 3, **NORMAL}, [(1, 1, 1), (0, 0, 1)]),
    ({"crop_height": 5, "crop_width": 6, "border": 1, "flip": 1}, [(2, 1, 0), (1, 2, 1)]),
]


def draw(place, left, at_end):
    return LAST if at_end and place == left else (place + 0.5) / (left + 1)


def center_crop(x, rows, columns):
    """torchvision.transforms.functional.center_crop."""
    top, left = int(round((x.shape[-2] - rows) / 2.0)), int(round((x.shape[-1] - columns) / 2.0))
    return x[..., top:top + rows, left:left + columns]


def after(x, o):
    """The channels, Normalize, and what fills up to a multiple; x is u8[C, rows, columns]."""
    x = (x.flip(0) if o.get("swap_channels") else x).float()
    mean, std = torch.tensor(o.get("mean", [0] * C)).float(), torch.tensor([s or 1 for s in o.get("std", [1] * C)]).float()
    x = (x - mean[:, None, None]) / std[:, None, None]
    m = o.get("multiple", 1)
    return F.pad(x, (0, -x.shape[2] % m, 0, -x.shape[1] % m), value=o.get("fill", 0.0))


def numbers(values):
    texts = [f"{float(v):.9g}" for v in values]
    texts = [t + "f" if "." in t or "e" in t else t for t in texts]
    lines = [", ".join(texts[i:i + 12]) for i in range(0, len(texts), 12)]
    return "{" + ",\n     ".join(lines) + "}"


def row(o, places, at_end):
    i = torch.arange(N * C * H * W)
    images = ((7 * i * i + 31 * i + 13) % 251).to(torch.uint8).reshape(N, C, H, W)
    train, draws = [], []
    b = o.get("border", 0)
    padded = F.pad(images, (b, b, b, b))
    rows, columns = o.get("crop_height", padded.shape[2]), o.get("crop_width", padded.shape[3])
    for x, (top, left, flips) in zip(padded, places):
        draws += [draw(top, padded.shape[2] - rows, at_end), draw(left, padded.shape[3] - columns, at_end), 0.25 if flips else 0.5]
        x = x[:, top:top + rows, left:left + columns]
        train.append(after(x.flip(2) if flips else x, o))
    train, middle = torch.stack(train), torch.stack([after(center_crop(x, rows, columns), o) for x in padded])
    fields = ", ".join(f".{k} = " + ("{" + ", ".join(map(str, v)) + "}" if isinstance(v, list) else str(v)) for k, v in o.items())
    return f"    {{{{{fields or 0}}}, {numbers(draws)}, {train.shape[2]}, {train.shape[3]},\n     {numbers(train.flatten())},\n     {numbers(middle.flatten())}}},\n"


def main():
    text = "/* Made by make_preprocess.py: options, draws, height, width, and the results in train and eval mode. */\n"
    (HERE / "preprocess.h").write_text(text + "".join(row(o, p, n % 2) for n, (o, p) in enumerate(ROWS)))


main()
