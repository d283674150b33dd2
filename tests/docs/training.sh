# training.sh - what the shell lines and sh blocks of docs/training.md need: models of the zoo, 256 images and labels, an mpirun for
# every machine.
. "$WEFT_ROOT/tests/docs/graphtool_text.sh"
python3 - <<'PYTHON'
import random
r = random.Random(1)
for name, shape in ("images", (256, 28, 28)), ("labels", (256,)):
    n = 1
    for k in shape: n *= k
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    with open(f"{name}.npy", "wb") as f:
        f.write(b"\x93NUMPY\1\0v\0" + head.ljust(117).encode() + b"\n")
        f.write(bytes(r.randrange(256 if name == "images" else 10) for _ in range(n)))
PYTHON
for model in mlp wgan_gp dcgan28 convnet_twice; do weft-zoo $model -b 4 -o $model.bin; done
DATA="--data image=images.npy --data label=labels.npy"
