#!/usr/bin/env bash
# test_tools_launch.sh BUILD - graphtool launch: two ranks without MPI train to the bits of one, what ends one ends all, and signals are
# passed on; the variables of torchrun and Slurm; ranks that are missing or do not belong. What needs UCX is left out without it.
set -uo pipefail
build=$(realpath "$1") tests=$(realpath "$(dirname "$0")/..")
tool=$build/graphtool zoo=$build/weft-zoo
source "$tests/support/suite.sh"
export OMP_NUM_THREADS=1

# says FILE TEXT: it must be in it.
says() { grep -qF -- "$2" "$1" || { fail "not said: $2"; head -5 "$1"; }; }

digits 64
"$zoo" dcgan28 -b 4 -o dcgan28.bin || fail "the model"
train=(train dcgan28.bin --data image=image --threads 1 --seed 3)
timeout 120 "$tool" launch -n 2 "${train[@]}" --steps 4 --log two.jsonl -o two >out 2>err || { fail "two ranks"; cat err; }

# ---- the bits of one rank ----
alike() { python3 "$tests/support/alike.py" "$1" "$2" >/dev/null || failures=$((failures + 1)); }
"$tool" "${train[@]}" --steps 4 --accumulate 2 -o one >/dev/null || fail "one rank"
alike one two
says err "2 ranks of this machine share memory"
says out "trained 4 steps, 32 samples" # by rank 0 alone
[[ $(grep -c trained out) == 1 ]] || fail "each rank prints"
ucx=("${train[@]}" --comm ucx) # what several machines use; one needs it only where it is asked for
has_ucx=1
timeout 60 "$tool" launch -n 2 "${ucx[@]}" --steps 4 -o ucx >out 2>err || { grep -q "this build has no UCX" err && has_ucx=; } || fail "two ranks over UCX: $(cat err)"
[[ ! $has_ucx ]] || alike one ucx
[[ $has_ucx ]] || echo "not reached: UCX (this build has none)"

# world N VARIABLES OF A RANK, WITH r FOR ITS NUMBER -- ARGUMENT...: graphtool as another launcher would start it.
port=$((20000 + RANDOM % 10000))
world() {
    local n=$1 r variables=() pids=() worst=0
    shift
    while [[ $1 != -- ]]; do variables+=("$1") && shift; done
    shift
    for ((r = 0; r < n; r++)); do
        env MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${variables[@]//%/$r}" timeout 120 "$tool" "$@" >"out.$r" 2>"err.$r" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || worst=$?; done
    port=$((port + 1))
    return $worst
}
world 2 RANK=% WORLD_SIZE=2 LOCAL_RANK=% LOCAL_WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True -- "${train[@]}" --steps 4 -o torchrun ||
    fail "torchrun's variables"
alike one torchrun
world 2 SLURM_PROCID=% SLURM_NTASKS=2 SLURM_LOCALID=% SLURM_STEP_ID=0 -- "${train[@]}" --comm local --steps 4 -o slurm ||
    fail "Slurm's variables"
alike one slurm

# ---- who is missing, or does not belong ----
world 1 RANK=% WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 -- "${train[@]}" --timeout 1
[[ $? == 7 ]] || fail "a world without two of its ranks: not status 7"
says err.0 "rank 0: 2 of 3 ranks did not come within 1.0 s: 1, 2"
world 2 RANK=% WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 WEFT_JOB_TOKEN=token-% -- "${train[@]}" --timeout 9 && fail "ranks of two jobs"
says err.0 "the meeting of ranks refused 127.0.0.1:"
says err.0 "it does not prove this job's token (WEFT_JOB_TOKEN)"
says err.0 "rank 0: 1 of 2 ranks did not come within 9.0 s: 1"
says err.1 "WEFT_JOB_TOKEN must be the same on all ranks"
grep -q "token-" err.0 err.1 && fail "a token is printed"

# ---- few open files: a soft limit is raised, and what is not open takes no place ----
for limit in "-n 40" "-Sn 20"; do
    (ulimit $limit; timeout 120 "$tool" launch -n 4 "${train[@]}" --timeout 120 --steps 1) >out 2>err || fail "ulimit $limit: $(tail -n 1 err)"
done
(ulimit -n 11; timeout 120 "$tool" launch -n 4 "${train[@]}" --timeout 120 --steps 1) >out 2>err && fail "ulimit -n 11"
says err "Too many open files (a Unix socket): raise the limit (ulimit -n)"
if [[ $has_ucx ]]; then
    (ulimit -n 17; timeout 120 "$tool" launch -n 4 "${ucx[@]}" --timeout 120 --steps 1) >out 2>err && fail "ulimit -n 17"
    says err "the limit of open files is 17 (ulimit -n), and 4 ranks may need 80"
    says err "and may have 17: raise the limit (ulimit -n"
fi

# ---- a small /dev/shm, as in a container: a mount of our own, where that is allowed ----
with_shm=(unshare -m bash -c 'mount -t tmpfs -o size=$0 none /dev/shm && exec "$@"')
if [[ $has_ucx ]] && "${with_shm[@]}" 64k true 2>/dev/null; then
    said=0 # at 64k by UCX 1.13; 1.18 takes none of it there, and lacks room between 16m and 20m: the machine decides
    for size in 64k 20m 18m 16m 12m 24m 8m 1m; do
        ((said)) && ! is_whole && break
        timeout 120 "${with_shm[@]}" $size "$tool" launch -n 2 "${ucx[@]}" --timeout 120 --steps 4 -o small >out 2>err || fail "/dev/shm of $size: $(cat err)"
        says err "2 ranks of this machine share memory"
        grep -qE "UCX has no room in /dev/shm \([0-9.]+ MiB are left\): it connects ranks in other ways" err && said=1
        alike two small
    done
    ((said)) || fail "no size of /dev/shm: that UCX has no room was never said"
    timeout 120 "${with_shm[@]}" 64m "$tool" launch -n 16 "${ucx[@]}" --batch 1 --timeout 120 --steps 2 >out 2>err || fail "16 ranks: $(cat err)"
    UCX_TLS=posix,tcp,self timeout 120 "${with_shm[@]}" 64k "$tool" launch -n 2 "${ucx[@]}" --timeout 120 --steps 1 >out 2>err
    status=$?
    ((status == 0 || status == 2)) || fail "UCX_TLS of a user: status $status"
    ((status == 0)) || says err "needs room in /dev/shm, which has 0.1 MiB left: UCX_TLS=tcp,self leaves it out"
else
    echo "not reached: a small /dev/shm (no mount is allowed, or no UCX)"
fi

# ---- a rank that cannot start: status 2 on all, and its reason; no rank is lost ----
cat >one <<'END'
#!/usr/bin/env bash
if ((RANK == 1)); then export UCX_TLS=nothing; fi
"$@"
echo "rank $RANK: status $?" >&2
END
chmod +x one
if [[ $has_ucx ]]; then
    "$tool" launch -n 3 ./one "$tool" "${ucx[@]}" --timeout 120 --steps 1 >out 2>err
    says err "rank 1: ucp_init failed: No such device (UCX)"
    says err "rank 0: rank 1 could not join: ucp_init failed"
    for r in 0 1 2; do says err "rank $r: status 2"; done
    UCX_NET_DEVICES=nothing0 "$tool" launch -n 2 "${ucx[@]}" --timeout 120 --steps 1 >out 2>err
    [[ $? == 2 ]] || fail "without a network: not status 2"
    says err "no way from rank 0 to rank 1: Destination is unreachable (UCX; UCX_NET_DEVICES names the networks to use)"
fi
[[ ! -e weft-rings ]] || fail "rings were written, though no rank was lost"

# ---- what a program is given, and how it ends ----
cat >rank <<'END'
#!/usr/bin/env bash
echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $MASTER_ADDR:$MASTER_PORT, $WEFT_JOB_TOKEN, ${OMPI_COMM_WORLD_RANK:-}"
case $1:$RANK in
fails:1) exit 5 ;;
killed:1) kill -9 $$ ;;
told:*) trap 'exit 9' TERM ;;
stays:* | one:1) trap '' TERM ;;
one:0) trap 'exit 9' TERM ;;
waits:*) echo $$ >>pids; until [[ -e go ]]; do sleep 0.05; done; exit 0 ;;
all:*) exit 0 ;;
esac
echo $$ >>pids
for ((i = 0; i < 3000; i++)); do sleep 0.1; done
END
chmod +x rank
# gone: no process that wrote its number is left, but as one that nobody has asked how it ended.
is_left() {
    local pid
    for pid in $(cat pids); do grep -q '^State:[[:space:]]*[A-Y]' "/proc/$pid/status" 2>/dev/null && return; done
    return 1
}
gone() {
    is_left && fail "$1: a rank is left"
    rm -f pids
}
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 "$tool" launch -n 3 ./rank all >out || fail "three programs"
for r in 0 1 2; do says out "$r of 3, $r of 3, 127.0.0.1:"; done
[[ $(grep -c ', [0-9a-f]\{32\}, $' out) == 3 && $(sed 's/^[^:]*//' out | sort -u | wc -l) == 1 ]] || fail "port or token: $(cat out)"
# The port is kept for rank 0: a plain bind does not get it, a server with SO_REUSEADDR does.
cat >port.py <<'END'
import os, socket
at = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
try:
    socket.socket().bind(at)
    raise SystemExit("the port is free for everybody")
except OSError: pass
server = socket.create_server(at) # SO_REUSEADDR is its default
END
"$tool" launch -n 1 python3 port.py || fail "the port of rank 0"
"$tool" launch -n 3 ./rank fails >/dev/null 2>err
[[ $? == 5 ]] || fail "not the status of the rank that failed"
gone fails
"$tool" launch -n 2 ./rank killed >/dev/null 2>err
[[ $? == 137 ]] || fail "not the status of a rank that was killed"
says err "rank 1 was ended by signal 9 (Killed)"
gone killed
both_run() { for ((i = 0; i < 600; i++)); do [[ -f pids && $(wc -l <pids) == 2 ]] && break; sleep 0.1; done; }
# signalled MODE SIGNAL OPTIONS: the launcher gets the signal when its ranks run.
signalled() {
    local pid
    env --default-signal=HUP "$tool" launch -n 2 ${3:-} ./rank "$1" >/dev/null 2>err &
    pid=$!
    both_run
    kill "-$2" "$pid"
    wait "$pid" 2>/dev/null
}
"$tool" launch -n 2 "${train[@]}" --epochs 1000000 --log log.jsonl --checkpoint-dir saved >out 2>err &
for ((i = 0; i < 600; i++)); do [[ -s log.jsonl ]] && break; sleep 0.1; done
kill -USR1 $!
wait $!
[[ $? == 130 && -s $(ls -d saved/step-* | tail -1)/manifest.json ]] || fail "SIGUSR1 saves nothing: $(ls saved), $(cat err)"
signalled told TERM
[[ $? == 9 ]] || fail "SIGTERM is not passed on"
gone told
signalled told HUP
[[ $? == 129 ]] || fail "SIGHUP is not passed on"
gone "told by SIGHUP"
nohup "$tool" launch -n 2 --grace=0.5 ./rank waits >/dev/null 2>err </dev/null &
both_run
kill -HUP $!
sleep 1
touch go
wait $! || fail "under nohup SIGHUP ends the ranks: status $?, $(cat err)"
gone "under nohup"
signalled stays TERM --grace=0.5
[[ $? == 137 ]] || fail "ranks that stay are not killed"
says err "did not end within 0.5 s, and is killed"
gone stays
signalled one TERM --grace=0.5
[[ $? == 137 ]] || fail "one rank is killed, and the status is that of the other"
gone one
signalled stays KILL
for ((i = 0; i < 600; i++)); do is_left || break; sleep 0.1; done
gone "without its launcher"
rm go
"$tool" launch -n 1 ./rank waits >/dev/null &
for ((i = 0; i < 600; i++)); do [[ -s pids ]] && break; sleep 0.1; done
grep -qE '^SigCgt:\s+[0-9a-f]{15}[02468ace]$' "/proc/$!/status" || fail "SIGHUP is UCX's"
touch go
wait
rm pids
# A job that is suspended for longer than its time-out, and continues: the time does not count.
timeout -s KILL 120 "$tool" launch -n 2 "${train[@]}" --timeout 3 --epochs 1000000 --log suspended.jsonl >out 2>err &
job=$!
for ((i = 0; i < 600; i++)); do [[ -s suspended.jsonl ]] && break; sleep 0.1; done
ranks=$(pgrep -P "$(pgrep -P $job)")
[[ $(wc -w <<<"$ranks") == 2 ]] || fail "no two ranks to suspend: $ranks"
kill -STOP $ranks
sleep 5
before=$(wc -l <suspended.jsonl)
kill -CONT $ranks
for ((i = 0; i < 600; i++)); do (($(wc -l <suspended.jsonl) > before + 2)) && break; sleep 0.1; done
(($(wc -l <suspended.jsonl) > before + 2)) || fail "a suspended job does not continue: $(cat err)"
kill -INT $ranks
wait $job
[[ $? == 130 ]] || fail "a suspended job: status $?, $(cat err)"

# A rank that is stopped: the other ends with 7, and the job does not wait for the grace time of those that could save.
timeout -s KILL 120 "$tool" launch -n 2 --grace 100000 "${train[@]}" --timeout 3 --epochs 1000000 --log stopped.jsonl >out 2>err &
job=$!
for ((i = 0; i < 600; i++)); do [[ -s stopped.jsonl ]] && break; sleep 0.1; done
for r in $(pgrep -P "$(pgrep -P $job)"); do grep -qz '^RANK=1$' "/proc/$r/environ" && kill -STOP "$r"; done
wait $job
[[ $? == 7 ]] || fail "a stopped rank: $(cat err)"
says err "rank 1 "

# ---- wrong usage: once ----
once() { [[ $(grep -cF -- "$1" err) == 1 ]] || fail "not said once: $1: $(cat err)"; }
"$tool" launch train dcgan28.bin -n 2 2>err
[[ $? == 2 ]] || fail "options of launch after the command"
once "train: no option -n"
once "options of launch come before the command: graphtool launch -n 4 train ..."
"$tool" launch -n 2 train dcgan28.bin --stpes 3 2>err
[[ $? == 2 ]] || fail "a misspelt option"
once "did you mean --steps?"
"$tool" launch -n 2 train --help >out && [[ $(grep -c "^Usage: graphtool train" out) == 1 ]] || fail "--help of the command"
"$tool" launch -n 2 /bin/false 2>err
[[ $? == 1 ]] || fail "not the status of /bin/false"
once "ended with status 1"
"$tool" launch -n 2 trian dcgan28.bin 2>err
[[ $? == 2 ]] || fail "a misspelt command"
says err "did you mean 'train'?"
says err "no program of that name in PATH"
mkdir programs
cp rank programs/in-path
PATH=$PWD/programs:$PATH "$tool" launch -n 2 in-path all >out || fail "a program in PATH"
says out "1 of 2, 1 of 2, 127.0.0.1:"
cp /bin/false programs/train # graphtool's own commands go first
PATH=$PWD/programs:$PATH "$tool" launch -n 2 "${train[@]}" --steps 1 >out 2>err || fail "a program that is named as a command: $(cat err)"

# ---- variables of launchers that are left in the environment: whatever weft_launch_read looks at ----
left=()
for name in $(grep -o '"[A-Z][A-Z_]*[A-Z]"' "$tests/../dist/core/launcher.c" | tr -d '"' | sort -u); do left+=("$name=$port"); done
[[ ${#left[@]} -gt 15 && " ${left[*]} " == *" WEFT_MEET_PORT="* ]] || fail "the variables of launchers are not read: ${left[*]}"
port=$((port + 1))
env "${left[@]}" TORCHELASTIC_USE_AGENT_STORE=True "$tool" launch -n 2 env >out || fail "env as a program"
for name in WEFT_MEET_PORT TORCHELASTIC_USE_AGENT_STORE OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_PROCID; do
    grep -q "^$name=" out && fail "$name is left for the ranks"
done
jobs=()
for i in 1 2; do # each at its own port
    env "${left[@]}" TORCHELASTIC_USE_AGENT_STORE=True timeout 120 "$tool" launch -n 2 "${train[@]}" --timeout 120 --steps 4 -o left.$i >out.$i 2>err.$i &
    jobs+=($!)
done
for i in 1 2; do
    wait "${jobs[i - 1]}" || fail "with variables of other launchers: $(cat err.$i)"
    alike two left.$i
done
"$tool" launch -n 2 ./nothing 2>err && fail "a program that is not there"
once "./nothing cannot be run: No such file or directory"
exit $((failures > 0))
