#!/usr/bin/env python3
"""make_images.py - small images of every kind in tests/golden/images, and what Pillow makes of them, resized and cropped, in
images_*.npy. Run it where Pillow and NumPy are (`pip install pillow numpy`); the tests need neither.

A setting is channels, height, width, shorter side, and where the crop begins (weft_source_options). Rows are in the order of
torchvision's ImageFolder, as u8[channels, height, width].
"""
import os
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# name of the file: channels, height, width, shorter side, crop_x, crop_y
SETTINGS = {"grey": (1, 24, 24, 24, 0, 0), "rgb": (3, 17, 20, 23, -500, 250), "rgba": (4, 24, 24, 25, 0, 0), "large": (3, 40, 33, 41, 0, 0)}


def picture(width, height, channels, seed):
    """A gradient, a shape with sharp edges, and noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * (3 + c) + y * (5 - c) + 40 * c) % 256 for c in range(channels)]
    image = np.stack(planes, -1).astype(np.int64)
    image[height // 4: height // 2, width // 3: width // 2] = [250, 10, 90, 128][:channels]
    image += random.integers(-20, 21, image.shape)
    return image.clip(0, 255).astype(np.uint8)


def png16(path, image):
    """RGB of 16 bits, which Pillow reads but does not write, or grey."""
    height, width = image.shape[:2]
    wide = image.astype(np.uint16) * 256 + 77
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in wide)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 16, 2 if image.ndim == 3 else 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make(folder):
    one, two = folder / "b_jpeg", folder / "a_png"
    for f in (two, one / "in" / "er", one / "in-2"):
        f.mkdir(parents=True, exist_ok=True)
    rgb = lambda w, h, seed: Image.fromarray(picture(w, h, 3, seed))
    Image.fromarray(picture(37, 29, 1, 1)[..., 0]).save(two / "grey.png")
    rgb(45, 31, 2).save(two / "rgb.png")
    Image.fromarray(picture(31, 45, 4, 3), "RGBA").save(two / "rgba.png")
    Image.fromarray(picture(33, 30, 2, 4), "LA").save(two / "grey_alpha.png")
    rgb(40, 40, 5).quantize(17).save(two / "palette.png", transparency=3)
    rgb(40, 28, 6).convert("1").save(two / "one_bit.png")
    rgb(11, 9, 7).save(two / "small.PNG")
    png16(two / "sixteen.png", picture(30, 26, 3, 8))
    png16(two / "sixteen_grey.png", picture(28, 31, 1, 13)[..., 0])
    rgb(24, 24, 9).save(two / "same.png")
    for seed, name in enumerate(("in/b.png", "in/er/a.png", "in-2/c.png"), 14):
        rgb(12, 10, seed).save(one / name)
    rgb(61, 47, 10).save(one / "photo.jpg", quality=90)
    rgb(30, 50, 11).save(one / "progressive.jpeg", quality=60, progressive=True)
    Image.fromarray(picture(44, 40, 1, 12)[..., 0]).save(one / "grey.jpg", quality=85)


def crop(image, height, width, shorter, x, y):
    """As torchvision's Resize and a crop."""
    w, h = image.size
    size = (shorter * w // h, shorter) if w > h else (shorter, shorter * h // w)
    image = image.resize(size, Image.BILINEAR)
    left, top = (round((size[i] - (width, height)[i]) * (500 + (x, y)[i]) / 1000) for i in range(2))
    return image.crop((left, top, left + width, top + height))


def read(file):
    """Grey of 16 bits: the upper 8. Pillow's own convert() makes everything above 255 white."""
    image = Image.open(file)
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)) if image.mode == "I;16" else image


def walk(folder):
    """As torchvision's make_dataset."""
    for root, _, names in sorted(os.walk(folder, followlinks=True)):
        for name in sorted(names):
            yield Path(root) / name


def main():
    make(HERE / "images")
    files = [f for c in sorted((HERE / "images").iterdir()) for f in walk(c)]
    for name, (channels, *how) in SETTINGS.items():
        rows = [np.asarray(crop(read(f).convert(MODES[channels]), *how)) for f in files]
        rows = [r[None] if r.ndim == 2 else r.transpose(2, 0, 1) for r in rows]
        np.save(HERE / f"images_{name}.npy", np.stack(rows))


main()
