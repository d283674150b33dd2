#!/usr/bin/env bash
# test_tools_mpi.sh BUILD - graphtool under mpirun: two ranks train to the bits of one, one error ends all, rank 0
# alone writes. Skipped (77) where MPI or mpirun is missing.
set -uo pipefail
tool=$1/graphtool zoo=$1/weft-zoo
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps is not ours
failures=0

command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here (openmpi-bin)"; exit 77; }
flags=()
mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# ranks N ARGUMENT...: graphtool on N ranks; stdout in the file out, stderr in err.
ranks() {
    local n=$1
    shift
    timeout 60 mpirun "${flags[@]}" -np "$n" "$tool" "$@" >out 2>err
}

python3 - <<'END'
import random, struct
r = random.Random(1)
def idx(name, kind, code, shape, top):
    n = 1
    for k in shape: n *= k
    with open(name, "wb") as f:
        f.write(bytes([0, 0, code, len(shape)]) + struct.pack(f">{len(shape)}i", *shape))
        f.write(struct.pack(f">{n}{kind}", *(r.randrange(top) for _ in range(n))))
idx("image", "B", 8, (250, 28, 28), 256)
idx("label", "B", 8, (250,), 10)
idx("tokens", "i", 12, (40, 8), 65)
END
"$zoo" mlp -b 16 -o mlp.bin && "$zoo" dcgan28 -b 4 -o dcgan28.bin &&
    "$zoo" gpt -b 2 --layers=1 --d=32 --heads=2 --ctx=8 -o gpt.bin || fail "the models"
data=(--data image=image --data label=label)
ranks 2 eval mlp.bin "${data[@]}" --threads 1
grep -q "this build has no MPI" err && { echo "skipped: built without MPI"; exit 77; }

# same MODEL STEPS DATA...: the weights of 2 ranks, and of one that accumulates; running statistics are each rank's.
same() {
    local model=$1 steps=$2
    shift 2
    "$tool" train "$model.bin" "$@" --threads 1 --seed 3 --steps "$steps" --accumulate 2 --log one.jsonl \
        -o one.safetensors >/dev/null || fail "$model alone"
    ranks 2 train "$model.bin" "$@" "${zero[@]}" --threads 1 --seed 3 --steps "$steps" --log two.jsonl -o two.safetensors ||
        fail "$model: exit $?: $(cat err)"
    [[ $(grep -c ^trained out) == 1 ]] || fail "$model: not one rank alone writes: $(cat out)"
    python3 - "$model" <<'END' || failures=$((failures + 1))
import json, struct, sys
def tensors(name):
    data = open(name, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()}
one, two = tensors("one.safetensors"), tensors("two.safetensors")
wrong = [k for k in one if "running_" not in k and one[k] != two.get(k)]
lines = [[json.loads(x) for x in open(f)] for f in ("one.jsonl", "two.jsonl")]
for a, b in zip(*lines):
    wrong += [f"step {a['step']}: {k}" for k in a if k != "seconds" and abs(a[k] - b[k]) > 1e-6 * abs(a[k])]
if wrong or not one or len(lines[0]) != len(lines[1]):
    sys.exit(f"FAILED: {sys.argv[1]}: two ranks and one differ in {wrong or 'number'}")
END
    echo "$model: done"
}
zero=()
same mlp 10 "${data[@]}"
same gpt 3 --data tokens=tokens --data target=tokens
same dcgan28 3 --data image=image
zero=(--zero 1) # sharded optimizer state changes no bit
same mlp 10 "${data[@]}"
same dcgan28 3 --data image=image
ranks 2 train mlp.bin "${data[@]}" --zero 1 --optimizer-state --steps 1 -o w.safetensors && fail "sharded state: exit 0"
grep -q "no rank holds all of it" err || fail "sharded state: $(cat err)"

# Evaluation: ranks share the batches, a smaller last one included.
"$tool" eval mlp.bin "${data[@]}" --threads 1 >alone
ranks 3 eval mlp.bin "${data[@]}" --threads 1 || fail "eval: exit $?"
cmp -s alone out || fail "eval: $(cat alone) alone, $(cat out) on three ranks"
ranks 2 bench mlp.bin --threads 1 --steps 2 --json || fail "bench: exit $?"
grep -q '"world": 2' out && [[ $(grep -c median_ms out) == 1 ]] || fail "bench: $(cat out)"
ranks 2 predict gpt.bin --threads 1 --data tokens=tokens -o out.npy || fail "predict: exit $?: $(cat err)"
[[ -s out.npy ]] || fail "predict: no file"

# A trace: a row a rank and lane, and every collective's bar has its arrow from a gradient to a wait.
ranks 2 trace mlp.bin --threads 1 --steps 2 -o trace.json || fail "trace: exit $?: $(cat err)"
grep -q "^train: all_reduce net.0 .* ms .* ms .* ms" out || fail "trace: $(cat out)"
python3 - <<'END' || fail "trace.json"
import json
events = json.load(open("trace.json"))["traceEvents"]
of = lambda *phases: [e for e in events if e["ph"] in phases]
inside = lambda a, e: any(b["pid"] == a["pid"] and b["tid"] == a["tid"] and b["ts"] <= a["ts"] <= b["ts"] + b["dur"] and
                          b["cat"] == e for b in of("X"))
assert {(e["pid"], e["tid"]) for e in of("X")} == {(0, 0), (0, 1), (1, 0), (1, 1)}
bars, ids = [e for e in of("X") if e["tid"] == 1], {e["id"] for e in of("s")}
assert len(bars) == len(ids) > 4 and len(bars) % 4 == 0, (len(bars), len(ids))
for i in ids:
    s, t, f = ([e for e in of(p) if e["id"] == i] for p in "stf")
    assert len(s) == len(t) == len(f) == 1 and s[0]["ts"] < t[0]["ts"], (s, t, f)
    assert inside(s[0], "compute") and inside(t[0], "collective") and inside(f[0], "wait"), (s, t, f)
END
ranks 2 trace mlp.bin --threads 1 --steps 2 -o trace.json --json || fail "trace --json: exit $?"
grep -q exposed_ms out || fail "trace --json: $(cat out)"
echo "trace: done"

# An error is told once, and ends all: everybody's, and that of one rank.
ranks 2 train mlp.bin --data image=image --threads 1 --steps 1 && fail "input missing: exit 0"
[[ $(grep -c "^graphtool: .*label" err) == 1 && $(grep -c ^graphtool: err) == 1 ]] || fail "input missing: $(cat err)"
ranks 2 train mlp.bin "${data[@]}" --threads 1 --steps 1 --launcher slurm 2>/dev/null && fail "--launcher slurm: exit 0"
cp mlp.bin mine.1
"$zoo" mlp -b 8 -o mine.0
timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
    '"$0" "$1" mine.${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "${@:2}"' "$tool" train "${data[@]}" --threads 1 --steps 1 >out 2>err &&
    fail "two models: exit 0"
[[ $(grep -c "^graphtool: .*plan " err) == 1 ]] || fail "two models: $(cat err)"
rm mine.1
timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
    '"$0" "$1" mine.${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "${@:2}"' "$tool" train "${data[@]}" --threads 1 --steps 1 >out 2>err &&
    fail "a missing model: exit 0"
[[ $(grep -c "^graphtool: rank 1: mine.1" err) == 1 && $(grep -c ^graphtool: err) == 1 ]] || fail "a missing model: $(cat err)"
echo "errors: done"
exit $((failures > 0))
