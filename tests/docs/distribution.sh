# distribution.sh - what the shell lines of docs/distribution.md need: small models, data, and an mpirun for every machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
weft-zoo dcgan28 -b 4 -o dcgan28.bin
weft-zoo mlp -b 8 -o mlp.bin
weft-zoo gpt -b 2 --layers=2 --d=64 --heads=2 --ctx=16 -o gpt.bin
python3 - <<'PYTHON'
import random, struct
r = random.Random(1)
for name, shape, top in ("image", (96, 28, 28), 256), ("label", (96,), 10), ("tokens", (40, 16), 65), ("targets", (40, 16), 65):
    n = 1
    for k in shape: n *= k
    kind, code = ("i", 12) if top == 65 else ("B", 8)
    with open(name, "wb") as f: # IDX
        f.write(bytes([0, 0, code, len(shape)]) + struct.pack(f">{len(shape)}i", *shape))
        f.write(struct.pack(f">{n}{kind}", *(r.randrange(top) for _ in range(n))))
PYTHON

has_mpi() {
    command -v mpirun >/dev/null && { command mpirun -np 1 graphtool eval mlp.bin --launcher mpi --threads 1 2>&1 || true; } |
        grep -vq "this build has no MPI"
}

# Without MPI its lines are left out; more ranks than cores are fine.
flags=()
if has_mpi; then
    if [[ $(command mpirun --version) == *"Open MPI"* ]]; then flags=(--oversubscribe --bind-to none); fi
    mpirun() { ASAN_OPTIONS=detect_leaks=0 command mpirun "${flags[@]}" "$@"; }
else
    mpirun() { :; }
fi
