# precision.sh - what the shell lines of docs/precision.md need: small models and data.
weft-zoo mlp -b 8 -o mlp.bin
weft-zoo gpt -b 2 --layers=2 --d=64 --heads=2 --ctx=16 -o gpt.bin
python3 - <<'PYTHON'
import random, struct
r = random.Random(1)
for name, shape, top in ("image", (96, 28, 28), 256), ("label", (96,), 10):
    n = 1
    for k in shape: n *= k
    with open(name, "wb") as f: # IDX
        f.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}i", *shape))
        f.write(bytes(r.randrange(top) for _ in range(n)))
PYTHON
