#!/usr/bin/env bash
# test_tools_mpi.sh BUILD - graphtool under mpirun: one, two and four ranks train to the bits of one without it, one error ends all, rank 0
# alone writes. Skipped (77) where MPI or mpirun is missing.
set -uo pipefail
tool=$1/graphtool zoo=$1/weft-zoo
source "$(dirname "$0")/../support/suite.sh"

command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here (openmpi-bin)"; exit 77; }
flags=()
mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none)

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
for model in dcgan28 convnet wgan_gp convnet_twice; do "$zoo" $model -b 4 -o $model.bin || fail "$model"; done
"$zoo" mlp -b 16 -o mlp.bin &&
    "$zoo" gpt -b 2 --layers=1 --d=32 --heads=2 --ctx=8 -o gpt.bin || fail "the models"
data=(--data image=image --data label=label)
ranks 2 eval mlp.bin "${data[@]}" --random-weights --threads 1
grep -q "this build has no MPI" err && { echo "skipped: built without MPI"; exit 77; }

# alone MODEL MICRO-BATCHES: one rank takes all of a step; once for each.
declare -A feeds=([mlp]="--data image=image --data label=label" [gpt]="--data tokens=tokens --data target=tokens"
    [dcgan28]="--data image=image" [wgan_gp]="--data image=image" [convnet]="--data image=image --data label=label"
    [convnet_twice]="--data image=image --data label=label")
alone() {
    [[ -f one.$1.$2 ]] && return
    "$tool" train "$1.bin" ${feeds[$1]} --threads 1 --seed 3 --steps 4 --accumulate "$2" --log "one.$1.$2.jsonl" \
        -o "one.$1.$2" >/dev/null || fail "$1 alone"
}

# alike ONE MANY OPTIONS: two trainings have equal weights and logs, to the bit except for running statistics.
alike() {
    python3 - "$@" <<'END' || failures=$((failures + 1))
import array, json, struct, sys
def tensors(name):
    data = open(name, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()}
def near(a, b):
    return all(abs(x - y) < 1e-3 for x, y in zip(array.array("f", a), array.array("f", b)))
fast = "fast" in sys.argv[3]
one, many = tensors(sys.argv[1]), tensors(sys.argv[2])
agree = near if fast else bytes.__eq__
wrong = [k for k in one if "running_" not in k and not agree(one[k], many.get(k, b""))]
lines = [[json.loads(x) for x in open(f)] for f in (sys.argv[1] + ".jsonl", sys.argv[2] + ".jsonl")]
for a, b in zip(*lines):
    wrong += [f"step {a['step']}: {k}" for k in a if k not in ("seconds", "samples_per_second", "data_time", "memory_mib") and abs(a[k] - b[k]) > (1e-3 if fast else 1e-6) * abs(a[k])]
if wrong or not one or len(lines[0]) != len(lines[1]):
    sys.exit(f"FAILED: {sys.argv[1]} {sys.argv[3]}: many ranks and one differ in {wrong or 'number'}")
END
}

# same MODEL RANKS EACH OPTION...: ranks with EACH micro-batches a step end with the weights of one that takes them all, to
# the bit except for running statistics, which are each rank's; with `--reduce fast` only nearly.
same() {
    local model=$1 n=$2 each=$3
    shift 3
    alone "$model" $((n * each))
    ranks "$n" train "$model.bin" ${feeds[$model]} --threads 1 --seed 3 --steps 4 --accumulate "$each" "$@" --log many.jsonl \
        -o many || fail "$model $*: exit $?: $(cat err)"
    [[ $(grep -c ^trained out) == 1 ]] || fail "$model $*: not one rank alone writes: $(cat out)"
    alike "one.$model.$((n * each))" many "$*"
    echo "$model on $n ranks $*: done"
}
same mlp 2 1 --zero 1 --bucket-cap-mb 0.5
same dcgan28 2 1 --ddp generator:zero=1,bucket_cap_mb=0.1 --ddp discriminator:zero=2,shard=flat
if is_whole; then
    same gpt 2 2 --zero 1 --shard flat
    same mlp 1 1 --zero 1 --timeout 60
    same mlp 2 1
    same mlp 4 1 --zero 2 --shard flat
    same mlp 2 1 --reduce fast --zero 1
    same gpt 2 1 --zero 2 --bucket-cap-mb 0.02
    same gpt 4 1 --serial
    same dcgan28 2 2 --zero 2
    same dcgan28 4 1
    same convnet 2 1 --zero 2 --shard flat --serial
    same convnet 4 1 --zero 1
fi

# Flows: a graph that runs five times, one that shares batches, ranges; five critic steps of a WGAN-GP on five batches, a GAN
# whose discriminator computes in bf16 on four micro-batches and its generator in f32, a model that is trained twice on each batch.
flow_of() { # model, flow of one rank, of two, option...
    local model=$1 one=$2 two=$3
    shift 3
    "$tool" train "$model.bin" ${feeds[$model]} --threads 1 --seed 3 --steps 3 --flow "$one" "$@" --log one.flow.jsonl \
        -o one.flow >/dev/null || fail "flow $one of $model: alone"
    ranks 2 train "$model.bin" ${feeds[$model]} --threads 1 --seed 3 --steps 3 --flow "$two" "$@" --log many.flow.jsonl \
        -o many.flow || fail "flow $two of $model: exit $?: $(cat err)"
    alike one.flow many.flow "$two $*"
    echo "$model on 2 ranks by flow $two $*: done"
}
flow_of dcgan28 "0-1: d_step{accumulate=2}; 1-: d_step g_step{accumulate=2} d_step{batch=next}" \
    "0-1: d_step; 1-: d_step g_step d_step{batch=next}"
if is_whole; then
    flow_of dcgan28 "d_step{accumulate=2}*3 g_step{accumulate=2}" "d_step*3 g_step"
    flow_of dcgan28 "d_step{accumulate=4} g_step{accumulate=2}" "d_step{accumulate=2} g_step"
    flow_of wgan_gp "d_step{accumulate=2}*5 g_step{accumulate=2}" "d_step*5 g_step"
    flow_of dcgan28 "d_step{accumulate=8} g_step{accumulate=2}" "d_step{accumulate=4} g_step" --precision d_step:bf16
    flow_of convnet_twice "plain{accumulate=2} augmented{accumulate=2}" "plain augmented"
fi

# All that docs/training.md gives to one command: the same weights, best weights and validations.
long=("${data[@]}" --val-data image=image --val-data label=label --val-every 1 --epochs 2 --dtype bf16 --clip-norm 1
    --schedule cosine,warmup=2 --ema 0.9 --best accuracy --threads 1 --seed 3)
"$tool" train mlp.bin "${long[@]}" --accumulate 4 --tensorboard alone.logs --work-dir alone.run >/dev/null || fail "long: alone"
ranks 2 train mlp.bin "${long[@]}" --accumulate 2 --tensorboard many.logs --work-dir many.run || fail "long: $(cat err)"
for file in weights weights.best; do
    cmp {alone,many}.run/$file.safetensors || fail "long: $file"
done
sed -n 's/.*"val_loss"/"val_loss"/p' alone.run/log.jsonl >alone.val
sed -n 's/.*"val_loss"/"val_loss"/p' many.run/log.jsonl | cmp - alone.val || fail "long: validations"
[[ $(wc -l <alone.val) == 2 && $(ls many.logs | wc -l) == 1 ]] || fail "long: $(wc -l <alone.val) validations, $(ls many.logs)"
echo "all options on 2 ranks: done"

# Ctrl-C goes to mpirun, which ends its ranks by SIGTERM; Open MPI 4 kills those that take more than a second, here twenty. Open MPI 5
# kills them after a quarter of a second, whatever one asks.
# It waits for all of these seconds, whether or not ranks have ended.
if is_whole && mpirun --version 2>&1 | grep -q "(Open MPI) 4"; then
    mpirun "${flags[@]}" --mca odls_base_sigkill_timeout 20 -np 2 "$tool" train mlp.bin "${data[@]}" --threads 1 \
        --epochs 1000000 --timeout 60 -o cut.weights >out 2>err &
    for i in {1..600}; do grep -q "step 10/" out && break; sleep 0.1; done
    kill -INT $!
    wait $! && fail "an interrupt of mpirun: exit 0"
    [[ -s cut.weights ]] && grep -q "^interrupted after" out || fail "an interrupt of mpirun: $(tail -3 out) $(cat err)"
    echo "an interrupt of mpirun: done"
fi

# The whole state of a training: the file of one rank, to the byte, and any world continues from it.
state=("${data[@]}" --threads 1 --optimizer-state --steps 2)
"$tool" train mlp.bin "${state[@]}" --accumulate 2 -o state.1 >/dev/null || fail "state: alone"
"$tool" train mlp.bin "${state[@]}" --accumulate 2 -w state.1 -o further.1 >/dev/null || fail "state: alone, further"
hows=("--zero 2 --shard flat")
is_whole && hows+=("--zero 0" "--zero 1 --shard flat")
for how in "${hows[@]}"; do
    ranks 2 train mlp.bin "${state[@]}" $how -o state.2 || fail "state $how: exit $?: $(cat err)"
    cmp state.1 state.2 || fail "state $how: not the file of one rank"
    ranks 2 train mlp.bin "${state[@]}" $how -w state.1 -o further.2 || fail "state $how: further: $(cat err)"
    cmp further.1 further.2 || fail "state $how: further: not the file of one rank"
done
ranks 2 train mlp.bin "${state[@]}" --zero 1 -o nowhere/state && fail "state into a folder that is missing: exit 0"
[[ $(grep -c ^graphtool: err) == 1 ]] || fail "state into a folder that is missing: $(cat err)"
echo "state: done"

# Evaluation: ranks share the batches, a smaller last one included.
"$tool" eval mlp.bin "${data[@]}" --random-weights --threads 1 >alone
ranks 3 eval mlp.bin "${data[@]}" --random-weights --threads 1 || fail "eval: exit $?"
cmp -s alone out || fail "eval: $(cat alone) alone, $(cat out) on three ranks"
ranks 2 bench mlp.bin --threads 1 --steps 2 --json || fail "bench: exit $?"
grep -q '"world": 2' out && [[ $(grep -c median_ms out) == 1 ]] || fail "bench: $(cat out)"
ranks 2 predict gpt.bin --random-weights --threads 1 --data tokens=tokens -o out.npy || fail "predict: exit $?: $(cat err)"
[[ -s out.npy ]] || fail "predict: no file"

# A trace: a row a rank and stream and one for data, and every collective's bar has its arrow from a gradient to a wait; of sharded ones
# what is in flight into the next run too, except for the last run's.
traces=("--zero 2 --shard flat --bucket-cap-mb 1")
is_whole && traces+=("" "--zero 1" "--serial --reduce fast")
for options in "${traces[@]}"; do
    ranks 2 trace mlp.bin --threads 1 --steps 2 $options -o trace.json || fail "trace $options: exit $?: $(cat err)"
    grep -Eq "^ +train +(all_reduce|reduce_scatter) +net.0 .* ms .* ms .* ms" out || fail "trace $options: $(cat out)"
    python3 - "$options" <<'END' || fail "trace.json $options"
import json, sys
events = json.load(open("trace.json"))["traceEvents"]
of = lambda *phases: [e for e in events if e["ph"] in phases]
inside = lambda a, e: any(b["pid"] == a["pid"] and b["tid"] == a["tid"] and b["ts"] <= a["ts"] <= b["ts"] + b["dur"] and
                          b["cat"] == e for b in of("X"))
assert {(e["pid"], e["tid"]) for e in of("X")} == {(rank, row) for rank in (0, 1) for row in (0, 1, 2)}
assert [sum(e["tid"] == 2 and e["pid"] == rank and e["name"].startswith("wait for batch") for e in of("X")) for rank in (0, 1)] == [2, 2]
bars = [e for e in of("X") if e["tid"] == 1]
steps = sorted({b["args"]["run"] for b in bars})[-2:] # before them: what the warm-up left behind
bars = [b for b in bars if b["args"]["run"] in steps]
number = lambda b: (b["pid"] << 20 | b["args"]["run"]) << 12 | b["args"]["order"]
ids = {number(b) for b in bars}
assert len(bars) == len(ids) > 4 and len(bars) % 4 == 0, (len(bars), len(ids))
unread = 0
for i in ids:
    ends = sorted((e for e in of("s", "t", "f") if e["id"] == i), key=lambda e: e["ts"])
    assert "".join(e["ph"] for e in ends) in ("stf", "sf"), ends
    assert inside(ends[0], "compute") or inside(ends[0], "wait"), ends
    assert inside(ends[1], "collective") and (len(ends) == 2 or inside(ends[2], "wait")), ends
    unread += len(ends) == 2
carried = [b for b in bars if b["name"].startswith("all_gather")]
carries = sys.argv[1].startswith("--zero")
assert unread == len(carried) / 2 and bool(carried) == carries, (unread, len(carried))
END
done
if is_whole; then
    ranks 2 trace mlp.bin --threads 1 --steps 2 -o trace.json --json || fail "trace --json: exit $?"
    grep -q exposed_ms out || fail "trace --json: $(cat out)"
fi
echo "trace: done"

# An error is reported once, and ends all: everybody's, and that of one rank.
ranks 2 train mlp.bin --data image=image --threads 1 --steps 1 && fail "input missing: exit 0"
[[ $(grep -c "^graphtool: .*label" err) == 1 && $(grep -c ^graphtool: err) == 1 ]] || fail "input missing: $(cat err)"
ranks 2 train mlp.bin "${data[@]}" --threads 1 --steps 1 --launcher slurm 2>/dev/null && fail "--launcher slurm: exit 0"
cp mlp.bin mine.1
"$zoo" mlp -b 8 -o mine.0
timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
    '"$0" "$1" mine.${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "${@:2}"' "$tool" train "${data[@]}" --threads 1 --steps 1 >out 2>err &&
    fail "two models: exit 0"
grep -q "^graphtool: the ranks do not agree: MODEL of .* on rank 0, of .* on rank 1$" err || fail "two models: $(cat err)"
[[ $(grep -c ^graphtool: err) == 1 ]] || fail "two models: $(cat err)"
rm mine.1
timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
    '"$0" "$1" mine.${OMPI_COMM_WORLD_RANK:-$PMI_RANK} "${@:2}"' "$tool" train "${data[@]}" --threads 1 --steps 1 >out 2>err &&
    fail "a missing model: exit 0"
[[ $(grep -c "^graphtool: rank 1: mine.1" err) == 1 && $(grep -c ^graphtool: err) == 1 ]] || fail "a missing model: $(cat err)"
echo "errors: done"

# What ranks must share is compared before the first step, and named once. COMMAND, arguments of rank 0, those of rank 1.
differ() {
    local says=$1 command=$2
    WHAT_0=$3 WHAT_1=$4 timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
        'words=WHAT_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; eval "set -- \"$0\" \"\$@\" ${!words}"; exec "$@"' \
        "$tool" $command mlp.bin --threads 1 >out 2>err && fail "$command, '$3' and '$4': exit 0"
    grep -qE "^graphtool: the ranks do not agree: $says$" err && [[ $(grep -c ^graphtool: err) == 1 ]] ||
        fail "$command, '$3' and '$4': not '$says': $(cat err)"
}
python3 - <<'END'
data = bytearray(open("image", "rb").read())
data[-1] ^= 1
open("image.other", "wb").write(data)
END
"$tool" train mlp.bin "${data[@]}" --steps 1 -o w.1 >/dev/null && "$tool" train mlp.bin "${data[@]}" --steps 2 -o w.2 >/dev/null
feed="${data[*]}" step="${data[*]} --steps 1"
hash="hash of the first and the last MiB"
differ "--seed 0 on rank 0, 5 on rank 1" train "$step" "$step --seed 5"
differ "image: $hash [0-9a-f]+ on rank 0, [0-9a-f]+ on rank 1" train "$step" "${step/image=image/image=image.other}"
if is_whole; then
    differ "--seed 5 on rank 0, 0 on rank 1" bench "--steps 1 --seed 5" "--steps 1"
    differ "image: $hash [0-9a-f]+ on rank 0, [0-9a-f]+ on rank 1" eval "$feed --random-weights" \
        "${feed/image=image/image=image.other} --random-weights"
    differ "--weights of .* on rank 0, of .* on rank 1" eval "$feed -w w.1" "$feed -w w.2"
    differ "--weights of .* on rank 0, not given on rank 1" train "$step -w w.1" "$step"
    differ "--timeout 90 on rank 0, not given on rank 1" bench "--timeout 90" ""
fi
# two COMMAND... : COMMAND...: what each of two ranks runs. mpirun's own ":" ends that of Open MPI 5.0.7 by a segmentation fault.
two() {
    local first=()
    while [[ $1 != : ]]; do first+=("$1"); shift; done
    shift
    WHAT_0=${first[*]} WHAT_1=$* timeout 60 mpirun "${flags[@]}" -np 2 bash -c \
        'words=WHAT_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" ${!words}' "$tool" >out 2>err
}
two train mlp.bin $step --threads 1 : eval mlp.bin $feed --random-weights --threads 1 && fail "two commands: exit 0"
grep -q "^graphtool: the ranks do not agree: the command is train on rank 0, eval on rank 1$" err || fail "two commands: $(cat err)"
two train mlp.bin $step --threads 1 -o f.0 : train mlp.bin $step --threads 1 -o f.1 && fail "two outputs: exit 0"
grep -q "^graphtool: rank 1: --output=f.1: only rank 0 writes, and it was given f.0" err || fail "two outputs: $(cat err)"
two train mlp.bin $step --threads 1 -o f.0 : train mlp.bin $step --threads 1 || fail "one output: $(cat err)"
[[ -s f.0 ]] || fail "one output: it is not there"
! grep -q $'\r' out || fail "a bar under mpirun, which is not a terminal"
echo "ranks that differ: done"

# A rank that stalls is named when --timeout has passed, in every command; the others end.
stall() {
    local pid
    rm -f pid.* log.jsonl
    timeout 60 mpirun "${flags[@]}" -np 2 bash -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' \
        "$tool" "$@" --threads 1 --timeout 2 >out 2>err &
    for i in {1..600}; do [[ -s $wait_for ]] && grep -q "ranks of this machine" err && break; sleep 0.1; done
    sleep 0.5
    pid=$(cat pid.1)
    [[ $(cat "/proc/$pid/comm") == graphtool ]] || fail "a rank is called $(cat "/proc/$pid/comm")"
    kill -STOP "$pid"
    wait $! && fail "stall $1: exit 0"
    grep -q "^graphtool: .* not finished after 2.0 s, 1 of 2 ranks missing; rank 1 " err || fail "stall $1: $(cat err)"
    kill -9 "$pid" 2>/dev/null
}
wait_for=log.jsonl stall train mlp.bin "${data[@]}" --epochs 100000 --log log.jsonl
is_whole && wait_for=pid.1 stall bench mlp.bin --steps 1000000
echo "stalls: done"

# A bad step of two ranks, each with two micro-batches: one machine replays it with the same report. The four losses of a spike
# are numbers that differ, reported with their bits; after that of 1e30 the report names the node.
bads=("--lr 1e30")
is_whole && bads=("--lr 1 --guard spike=2" "${bads[@]}")
for bad in "${bads[@]}"; do
    ranks 2 train mlp.bin "${data[@]}" --threads 1 --seed 3 --steps 4 --accumulate 2 --zero 2 $bad -o bad
    [[ $? == 8 && ! -e bad ]] || fail "bad step of $bad: exit or weights: $(cat err)"
    [[ $(grep -c "^graphtool: graph train: .* training stops" err) == 1 ]] || fail "bad step of $bad: not reported once: $(cat err)"
    sed -n '/^bad step: /,/^samples of /p' err | grep -v "^samples of " >bad.said
    [[ $(grep -c "^loss on rank [01] in micro-batch [01]: " bad.said) == 4 ]] || fail "bad step of $bad: $(cat bad.said)"
    [[ $bad != *spike* || $(sed -n 's/^loss .*(\(0x.*\))$/\1/p' bad.said | sort -u | wc -l) == 4 ]] ||
        fail "bad step of $bad: losses are alike: $(cat bad.said)"
    "$tool" replay bad.step >bad.again || fail "bad step of $bad: replay: exit $?"
    cmp bad.said bad.again || fail "bad step of $bad: replay differs: $(cat bad.again)"
done
grep -q "^first NaN, on rank 1 in micro-batch 0: .* in net/fc" bad.again || fail "bad step: $(cat bad.again)"

# A wrong label of one rank's: the other does not wait for it. Both end with status 8, or pass over the step.
cp label wrong && printf '\310' | dd of=wrong bs=1 seek=25 conv=notrunc 2>/dev/null || fail "a wrong label"
for way in stop skip; do
    ranks 2 train mlp.bin --data image=image --data label=wrong --threads 1 --seed 3 --epochs 1 --on-bad-step $way -o wrong.$way
    status=$?
    [[ $status == $([[ $way == stop ]] && echo 8 || echo 0) ]] || fail "a wrong label, $way: exit $status: $(cat err)"
    [[ $(grep -c "^graphtool: .*: target 200 is outside .* nothing was updated; .* sample 17, row " err) == 1 ]] ||
        fail "a wrong label, $way: not reported once: $(cat err)"
done
[[ -e wrong.skip && ! -e wrong.stop ]] || fail "a wrong label: weights"
echo "bad steps of 2 ranks: done"
exit $((failures > 0))
