#!/usr/bin/env bash
# test_tools_checkpoints.sh BUILD - graphtool train with --checkpoint-dir and --resume: signals end it with a checkpoint and status 130, runs that are
# killed again and again end with the weights and the log of one that was not, alone and under mpirun, and a damaged checkpoint is passed over.
set -uo pipefail
tool=$1/graphtool zoo=$1/weft-zoo
source "$(dirname "$0")/../support/suite.sh"

digits 400
"$zoo" mlp -b 10 -o mlp.bin || fail "the model"
run="train mlp.bin --data image=image --data label=label --threads 1 --seed 3 --epochs 5 --optimizer-state"

# same NAME: NAME.st is want.st to the byte, NAME.jsonl has want.jsonl's lines except for what is measured.
same() {
    cmp want.st "$1.st" || fail "$1: other weights"
    python3 - "$1" <<'END' || fail "$1: another log"
import json, sys
def lines(name):
    measured = "seconds", "samples_per_second", "data_time", "memory_mib"
    return [{k: v for k, v in json.loads(x).items() if k not in measured} for x in open(name + ".jsonl")]
want, got = lines("want"), lines(sys.argv[1])
if want != got:
    sys.exit(f"{len(want)} and {len(got)} lines; the first that differs: {next((a, b) for a, b in zip(want, got) if a != b)}")
END
}

"$tool" $run --accumulate 2 -o want.st --log want.jsonl >out || fail "a run without a stop"

# Each signal ends the step, saves, and says how to continue.
first=
signals=(INT)
is_whole && signals+=(USR1 TERM HUP) # USR1 ends the jobs of a queue below, too
for signal in "${signals[@]}"; do
    rm -rf c
    "$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --resume auto >out 2>err &
    pid=$!
    until [[ -s got.jsonl ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kill -$signal $pid
    wait $pid
    status=$?
    if [[ $status == 130 ]]; then
        grep -q -- "--resume=auto with the same options continues from c" out || fail "SIG$signal does not say how to continue"
        "$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --resume auto >out 2>err || fail "after SIG$signal"
        same got
        first=done
    elif [[ $status != 0 ]]; then # 0: it was faster than the signal
        fail "SIG$signal: status $status"
    fi
    rm -f got.*
done
[[ $first ]] || fail "no signal came in time"

# Under nohup the terminal may go.
nohup "$tool" $run --accumulate 2 -o got.st --log got.jsonl >out 2>err </dev/null &
pid=$!
until [[ -s got.jsonl ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -HUP $pid
wait $pid || fail "under nohup SIGHUP ends a training with status $?"
same got
rm -f got.*

# A second start beside a training that runs is refused and touches none of its files: before its first checkpoint and after it, with
# the same options and with others. Its logs have all their lines, and no hole.
long="${run/--epochs 5 --optimizer-state/} --epochs 1000000 --work-dir beside --csv beside/log.csv --tensorboard beside/events
    --checkpoint-dir beside/c --resume auto"
held() { find beside -type f ! -path 'beside/c/*' ! -name '*.weft-part' -printf '%i %p\n' | sort; cat beside/config.json; }
for every in 1h 5; do
    rm -rf beside
    "$tool" $long --checkpoint-every $every >out 2>err &
    pid=$!
    for ((i = 0; i < 3000; i++)); do [[ -s beside/log.csv && -s beside/config.json && ($every == 1h || -e beside/c/step-00000010) ]] && break; sleep 0.02; done
    before=$(held)
    for other in "" "--lr 0.5"; do
        "$tool" $long --checkpoint-every $every $other >out.2 2>err.2
        [[ $? == 2 ]] || fail "a second start${other:+ with }$other: not status 2: $(cat err.2)"
        grep -q "beside/c: another training writes its checkpoints there\|beside: it has a run already" err.2 || fail "a second start: $(cat err.2)"
        [[ $(held) == "$before" ]] || fail "a second start${other:+ with }$other, checkpoints every $every, changes files: $(diff <(echo "$before") <(held))"
    done
    kill -TERM $pid
    wait $pid
    python3 - <<'END' || fail "a second start, checkpoints every $every: the log of the first is not whole"
import json
steps = [json.loads(line)["step"] for line in open("beside/log.jsonl")]
rows = open("beside/log.csv", "rb").read()
assert steps == list(range(1, len(steps) + 1)), steps[:3]
assert rows.startswith(b"step") or b"step" in rows.split(b"\n")[0], rows[:20]
assert b"\0" not in rows
END
done

# --resume needs checkpoints that fit, and a new run an empty folder.
"$tool" $run -o got.st --checkpoint-dir c >out 2>err && fail "a folder with checkpoints was taken"
grep -q "it has a checkpoint of step" err || fail "$(cat err)"
"$tool" $run -o got.st --resume none >out 2>err && fail "resumed from nothing"
grep -q "none: there is no such folder" err || fail "$(cat err)"
mkdir empty
"$tool" $run -o got.st --resume empty >out 2>err && fail "resumed from an empty folder"
grep -q "empty: it has no checkpoint, a folder step-N" err || fail "$(cat err)"
"$tool" $run -o got.st --keep 3 >out 2>err && fail "--keep without --checkpoint-dir"
grep -q -- "--keep has no effect without --checkpoint-dir" err || fail "$(cat err)"
"$tool" $run -o got.st --checkpoint-dir d --checkpoint-every 5d >out 2>err && fail "--checkpoint-every=5d"
grep -q "a time as in 30s, 10m or 1h" err || fail "$(cat err)"
"$tool" ${run/--seed 3/--seed 4} -o got.st --checkpoint-dir c --resume auto >out 2>err && fail "another seed"
grep -q "it was made with seed 3, this training has 4" err || fail "$(cat err)"

# A damaged one is passed over, and named.
last=$(ls -d c/step-* | tail -1)
printf x | dd of="$last/rank-0.safetensors" bs=1 seek=100000 conv=notrunc status=none
rm -f got.*
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 7 --keep 2 --steps 30 >out 2>err && fail "a folder with checkpoints"
rm -rf c got.*
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 7 --keep 2 --steps 30 >out 2>err || fail "30 steps"
[[ $(ls c | tr '\n' ' ') == "step-00000028 step-00000030 " ]] || fail "--keep 2 leaves $(ls c)"
printf x | dd of=c/step-00000030/rank-0.safetensors bs=1 seek=100000 conv=notrunc status=none
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --resume auto >out 2>err || fail "past a damaged one"
grep -q "skipped: c/step-00000030/rank-0.safetensors: its checksum is" err || fail "$(cat err)"
grep -q "resumed from c/step-00000028: iteration 28" err || fail "$(cat err)"
same got

# A full disk (files end at 9 MiB): older ones stay, the training continues, and its end says that the last one failed.
rm -rf c got.*
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 7 --steps 14 >out 2>err || fail "14 steps"
cp got.jsonl kept.jsonl
(ulimit -f 9216; exec "$tool" ${run/--optimizer-state/} --accumulate 2 -o no.st --log got.jsonl --checkpoint-dir c --checkpoint-every 3 --resume auto --steps 20) >out 2>err
status=$?
[[ $status == 1 ]] || fail "a full disk: status $status"
grep -q "no checkpoint of iteration 15: c/step-00000015.tmp/rank-0.safetensors: .*File too large" err || fail "a full disk: $(cat err)"
grep -q "no checkpoint of iteration 20: " err || fail "a full disk at the end: $(cat err)"
[[ $(ls c | tr '\n' ' ') == "step-00000007 step-00000014 " ]] || fail "a full disk leaves $(ls c)"
"$tool" ckpt verify c >out 2>err || fail "a full disk: $(cat err)"
cp kept.jsonl got.jsonl
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 7 --resume auto >out 2>err || fail "after a full disk: $(cat err)"
same got

# A disk of so many bytes, the folder `fs` (preload/full_disk.c; sanitizers take no preloaded library). A checkpoint has 22,350,000 bytes.
disk() {
    LD_PRELOAD=$library FULL_DISK=$folder/fs FULL_BYTES=$1 exec "${@:2}"
}
library=$1/libfull_disk.so
if [[ -e $library ]]; then
    folder=$(pwd -P) plain=${run/--optimizer-state/}
    # Room for two: the oldest goes for the newest, which is reported once.
    rm -rf fs c got.* && mkdir fs
    (disk 50000000 "$tool" $plain --steps 8 -o got.st --checkpoint-dir fs/c --checkpoint-every 2) >out 2>err || fail "room for two: $(cat err)"
    [[ $(ls fs/c | tr '\n' ' ') == "step-00000006 step-00000008 " ]] || fail "room for two leaves $(ls fs/c)"
    [[ $(grep -c "fs/c: the disk has room for .* MiB, and a checkpoint has .* MiB: the oldest, step 2, was removed for step 6" err) == 1 && $(wc -l <err) == 2 ]] ||
        fail "room for two: $(cat err)"
    "$tool" ckpt verify fs/c >out 2>err || fail "room for two: $(cat err)"
    # Room for one: the first stays, and after three that fail the training stops. Its last line says what is left.
    rm -rf fs && mkdir fs
    (disk 40000000 "$tool" $plain -o got.st --checkpoint-dir fs/c --checkpoint-every 2) >out 2>err
    status=$?
    [[ $status == 1 && $(ls fs/c) == step-00000002 && -e got.st ]] || fail "room for one: status $status, $(ls fs/c)"
    grep -q "3 checkpoints in a row could not be written: the training stops" err || fail "room for one: $(cat err)"
    tail -1 err | grep -Eq "^graphtool: the last whole checkpoint is fs/c/step-00000002: what came after it, [0-9]+ of [0-9]+ iterations, is not saved; the weights are$" ||
        fail "room for one ends with $(tail -1 err)"
    grep -q "^stopped after [0-9]* steps, .*; weights in got.st$" out || fail "room for one: $(cat out)"
    # A disk that is filled while a training runs, which SIGTERM then ends: without a checkpoint, and with that of step 4.
    for steps in "" 4; do
        rm -rf fs && mkdir fs
        [[ ! $steps ]] || "$tool" $plain --steps 4 --checkpoint-dir fs/c >out 2>err || fail "$steps steps: $(cat err)"
        : >out
        (disk 60000000 "$tool" ${plain/--epochs 5/--steps 1000000} --log fs/log -o fs/w.st --checkpoint-dir fs/c --resume auto) >out 2>err &
        pid=$!
        until [[ -s fs/log ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
        truncate -s 60M fs/fill
        kill -TERM $pid
        wait $pid
        status=$?
        [[ $status == 1 ]] || fail "a disk that is filled: status $status"
        grep -q "fs/log: writing failed at step [0-9]*, and the log ends there: No space left on device" err || fail "the end of the log is not reported: $(cat err)"
        grep -q "^interrupted after [0-9]* steps, .*; weights not saved$" out || fail "a disk that is filled: $(cat out)"
        want="there is no whole checkpoint: the training of [0-9]+ iterations is not saved"
        [[ ! $steps ]] || want="the last whole checkpoint is fs/c/step-00000004: what came after it, [0-9]+ of [0-9]+ iterations, is not saved"
        tail -1 err | grep -Eq "^graphtool: $want$" || fail "a disk that is filled ends with $(tail -1 err)"
    done
    rm -rf fs
fi

# What --resume did is reported: that it began, that nothing was left to do, that nothing will be saved.
rm -rf c got.*
"$tool" ${run/--optimizer-state/} --steps 4 --checkpoint-dir c --resume auto >out 2>err || fail "a first start: $(cat err)"
grep -q "c has no checkpoint: the training begins" err && grep -q "^trained 4 steps" out || fail "a first start says $(cat out err)"
"$tool" ${run/--optimizer-state/} --steps 4 --checkpoint-dir c --resume auto >out 2>err || fail "a start at the end: $(cat err)"
grep -q "already at iteration 4: nothing is left to train" out && ! grep -q "trained" out || fail "a start at the end says $(cat out)"
grep -q "training begins\|no checkpoints will be written" err && fail "a start at the end says $(cat err)"
"$tool" ${run/--optimizer-state/} --steps 4 --checkpoint-dir shown --checkpoint-every 3 >out 2>err || fail "4 steps: $(cat err)"
"$tool" ${run/--optimizer-state/} --steps 3 --resume shown/step-00000003 >out 2>err || fail "a start at the end: $(cat err)"
[[ $(cat out) == "already at iteration 3: nothing is left to train; weights not saved"* ]] || fail "a start at the end shows a step: $(cat out)"
"$tool" ${run/--optimizer-state/} --steps 5 --resume c/step-00000004 >out 2>err || fail "from one step: $(cat err)"
grep -q -- "--resume without --checkpoint-dir: no checkpoints will be written" err && grep -q "^trained 5 steps" out || fail "from one step says $(cat out err)"

# Another rate holds from where it is asked for on; the same rate changes no bit. What only begins a training is reported.
rm -rf c got.*
short="$run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --resume auto"
"$tool" $short --steps 10 >out 2>err || fail "10 steps: $(cat err)"
cp -r c begun && cp got.jsonl begun.jsonl
for rate in "--optimizer :lr=1e-3" "--lr 0.001 --weights want.st"; do
    "$tool" $short $rate >out 2>err || fail "$rate: $(cat err)"
    cmp want.st got.st || fail "$rate: other weights"
    grep -q "the learning rate of" err && fail "$rate is no other rate: $(cat err)"
    rm -rf c && cp -r begun c && cp begun.jsonl got.jsonl
done
grep -qF -- "--weights is read at the start of a training: this one keeps its own values" err || fail "--weights: $(cat err)"
half="train mlp.bin --data image=image --data label=label --precision train:f16 --checkpoint-dir half --resume auto"
"$tool" $half --optimizer :loss_scale=2 --steps 1 >out 2>err && "$tool" $half --optimizer :loss_scale=2 --steps 2 >out 2>err || fail "f16: $(cat err)"
grep -q "loss_scale" err && fail "the same loss_scale is reported: $(cat err)"
"$tool" $half --optimizer :loss_scale=4 --steps 3 >out 2>err || fail "f16: $(cat err)"
grep -q "loss_scale of adam[^ ]* is read at the start of a training: this one keeps its own" err || fail "loss_scale: $(cat err)"
rates=("--optimizer :lr=5e-4")
is_whole && rates=("--lr 0.0005" "${rates[@]}")
for rate in "${rates[@]}"; do
    rm -rf c && cp -r begun c && cp begun.jsonl got.jsonl
    "$tool" $short $rate --steps 20 >out 2>err || fail "$rate: $(cat err)"
    grep -q "the learning rate of adam[^ ]* was 0.001, and is 0.0005 from iteration 10 on" err || fail "$rate is not reported: $(cat err)"
    "$tool" $short $rate >out 2>err || fail "$rate again: $(cat err)"
    grep -q "the learning rate of" err && fail "$rate is reported twice: $(cat err)"
    cmp -s want.st got.st && fail "$rate changes nothing"
    cp got.st "rate${rate:2:2}.st"
    "$tool" ckpt show c >out 2>err
    grep -q "^  trainer/lr/adam[^ ]* *0.0005$" out || fail "the rate is not a note: $(cat out)"
done
! is_whole || cmp ratelr.st rateop.st || fail "--lr and --optimizer :lr differ"

# A folder where nothing can be written is reported before the first step; one that vanishes is made again.
"$tool" $run -o no.st --checkpoint-dir /proc/checkpoints >out 2>err && fail "a folder in /proc"
grep -q "/proc/checkpoints: the folder cannot be made" err || fail "$(cat err)"
[[ ! -s out ]] || fail "steps ran before a folder in /proc was reported: $(cat out)"
rm -rf c got.*
length=()
is_whole || length=(--steps 12)
"$tool" $run --accumulate 2 "${length[@]}" -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 1 >out 2>err &
pid=$!
until [[ -e c/step-00000003 ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
mv c away && rm -rf away # at once: the training writes into it
wait $pid || fail "a folder that vanished: $(cat err)"
! is_whole || same got
"$tool" ckpt verify c >out 2>err || fail "a folder that vanished: $(cat err)"

# A job of a queue: the same lines each time. SIGUSR1 comes before the time limit, the status 130 queues it again, until one ends by itself.
rm -rf c got.*
cat >job.sh <<END
"$tool" $run --accumulate 2 -o got.st --log got.jsonl --checkpoint-dir c --checkpoint-every 1000 --keep 1 --resume auto
status=\$?
[[ \$status == 130 ]] && touch queued_anew
exit \$status
END
turns=0
for turn in $(seq 1 60); do # where the signal comes after the end of the training itself, it begins again
    before=$(cat got.jsonl 2>/dev/null | wc -l)
    rm -f queued_anew
    bash job.sh >out 2>err &
    job=$!
    until (($(cat got.jsonl 2>/dev/null | wc -l) > before + 12)) || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
    pkill -USR1 -P $job 2>/dev/null
    wait $job
    status=$?
    if [[ -e queued_anew ]]; then turns=$((turns + 1)); continue; fi
    if ((status == 0 && turns < 2 && turn < 57)); then rm -rf c got.*; turns=0; else break; fi
done
[[ $status == 0 ]] || fail "a job that was queued again: status $status: $(cat err)"
((turns >= 2)) || fail "a job was queued again $turns times"
same got

# kill_rank R: the process of rank R of this test, and no other one of the machine.
kill_rank() {
    local process
    process=$(cat "pid.$1" 2>/dev/null) || return
    [[ $(readlink "/proc/$process/cwd") == "$folder" ]] && kill -9 "$process"
}

# step_on NAME: until the log NAME.jsonl has up to 12 more lines, or $pid has ended; and up to 30 ms.
step_on() {
    local lines=$(($(cat "$1.jsonl" 2>/dev/null | wc -l) + RANDOM % 12))
    until (($(cat "$1.jsonl" 2>/dev/null | wc -l) > lines)) || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
    sleep "0.0$((RANDOM % 4))"
}

# went_on NAME STEP: kills came in time, and the last run continued from a later step that they left.
went_on() {
    local from
    from=$(grep -oP "resumed from $1/step-[0-9]*: iteration \K[0-9]+" err)
    ((in_time)) || fail "$1: no kill came in time"
    ((${from:-0} > $2)) || fail "$1: it continues from step ${from:-0}: $(cat err)"
}

RANDOM=7
kills=2
is_whole && kills=6
alone=("$tool" $run --accumulate 2 -o alone.st --log alone.jsonl --checkpoint-dir alone --checkpoint-every 3 --resume auto)
for attempt in {1..5}; do # until a kill comes before the end
    rm -rf alone alone.*
    in_time=0
    for n in $(seq $kills); do
        "${alone[@]}" >out 2>err &
        pid=$!
        step_on alone
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        (($? == 137)) || break
        in_time=$((in_time + 1))
    done
    ls alone 2>/dev/null | grep -q 'step-[0-9]*$' && ((in_time)) && break
done
"${alone[@]}" >out 2>err || fail "after kills: $(cat err)"
went_on alone 0
same alone

if command -v mpirun >/dev/null && ! "$tool" eval mlp.bin --data image=image --data label=label --random-weights --launcher mpi 2>&1 | grep -q "this build has no MPI"; then
    flags=()
    mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none)
    cat >rank.sh <<'END_RANK'
me=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >pid.$me.tmp && mv pid.$me.tmp pid.$me
exec "$@"
END_RANK
    two=(timeout 60 mpirun "${flags[@]}" -np 2 bash rank.sh "$tool" $run --accumulate 1 --zero 2 -o many.st --log many.jsonl --checkpoint-dir many)
    "${two[@]}" --steps 11 >out 2>err || fail "two ranks: $(cat err)"
    in_time=0
    for n in $(seq $((kills / 2))); do # one rank of two is killed: the job ends, and the next one continues
        rm -f pid.*
        "${two[@]}" --checkpoint-every 3 --resume auto >out 2>err &
        pid=$!
        step_on many
        kill_rank 1
        wait $pid
        (($? == 137)) || break
        in_time=$((in_time + 1))
    done
    "$tool" $run --accumulate 2 -o many.st --log many.jsonl --checkpoint-dir many --resume auto >out 2>err || fail "two ranks, then one: $(cat err)"
    went_on many 11
    cmp <("$tool" eval mlp.bin --data image=image --data label=label -w want.st) <("$tool" eval mlp.bin --data image=image --data label=label -w many.st) ||
        fail "two ranks, then one: other weights"
    same many
fi

[[ $failures == 0 ]] && echo "all passed"
exit $((failures > 0))
