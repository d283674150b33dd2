# graphtool_text.sh - what the commands of docs/graphtool.md need: 768 images under Fashion-MNIST's names, an mpirun for every
# machine. It runs before each command of the page's text blocks, and, by graphtool.sh, before its sh blocks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 D=$PWD
TRAIN="--data image=$D/train-images-idx3-ubyte.gz --data label=$D/train-labels-idx1-ubyte.gz"
TEST="--data image=$D/t10k-images-idx3-ubyte.gz --data label=$D/t10k-labels-idx1-ubyte.gz"
[[ -e train-images-idx3-ubyte.gz ]] || python3 - <<'PYTHON'
import gzip, random, struct
r = random.Random(1)
for part in "train", "t10k":
    for name, shape, top in ("images-idx3", (768, 28, 28), 256), ("labels-idx1", (768,), 10):
        n = 1
        for k in shape: n *= k
        with gzip.open(f"{part}-{name}-ubyte.gz", "wb") as f:
            f.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}i", *shape))
            f.write(bytes(r.randrange(top) for _ in range(n)))
PYTHON
mpirun() {
    local flags=()
    if ! command -v mpirun >/dev/null || graphtool eval mlp.bin --launcher mpi 2>&1 | grep -q "this build has no MPI"; then
        echo "no MPI"
        return
    fi
    if [[ $(command mpirun --version) == *"Open MPI"* ]]; then flags=(--oversubscribe --bind-to none); fi
    ASAN_OPTIONS=detect_leaks=0 command mpirun "${flags[@]}" "$@"
}
