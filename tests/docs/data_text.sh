# data_text.sh - what the commands of docs/data.md need: small models, arrays of NumPy's format, images in folders, a text.
# They have a folder of their own: other pages have models of these names.
mkdir -p own && cd own
if [[ ! -e photos.npy ]]; then
    weft-zoo mlp -b 4 -o mlp.bin
    weft-zoo resnet18 -b 2 -o resnet18.bin
    weft-zoo dcgan -b 2 -o dcgan.bin
    weft-zoo gpt -b 2 --layers=2 --d=64 --heads=2 --ctx=16 --vocab=256 -o gpt.bin
    python3 - <<'PYTHON'
import os, struct, zlib

def npy(name, descr, shape, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\1\0v\0" + head.ljust(117).encode() + b"\n" + data)

def png(name, side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(range(row, row + side)) for row in range(side))
    with open(name, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

npy("photos.npy", "<f8", (8, 3, 64, 64), struct.pack("<d", 0.1) * (8 * 3 * 64 * 64))
npy("images.npy", "|u1", (8, 28, 28), bytes(8 * 784))
npy("flat.npy", "|u1", (8, 784), bytes(8 * 784))
npy("labels.npy", "<i8", (8,), struct.pack("<8q", *range(8)))
npy("few.npy", "<i8", (6,), struct.pack("<6q", *range(6)))
open("corpus.txt", "w").write("In the beginning God created the heaven and the earth. " * 8)
for name in "boots", "coats":
    os.makedirs("folder/" + name)
    for i in range(4):
        png(f"folder/{name}/{i}.png", 28 + 4 * i)
PYTHON
fi
