# onnx.sh - what the shell lines of docs/onnx.md need: an ONNX file of the names that they have, with images and labels.
cp "$WEFT_ROOT/tests/onnx/small.onnx" resnet18.onnx
python3 - <<'PYTHON'
import random, struct
r = random.Random(1)
def npy(name, kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
npy("photos.npy", "<f4", (64, 1, 4, 4), struct.pack("<1024f", *(r.gauss(0, 1) for _ in range(1024))))
npy("labels.npy", "|u1", (64,), bytes(r.randrange(10) for _ in range(64)))
PYTHON
