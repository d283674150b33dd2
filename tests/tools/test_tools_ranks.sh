#!/usr/bin/env bash
# test_tools_ranks.sh BUILD [all | moments] [mpi | ucx | local] - graphtool with a rank that is killed, ends early, is stopped, whose main thread sleeps, or whose link is
# down: the others name it, write their rings and end with status 7, and what they had trained is right. Ranks that were
# started differently are reported before the start. `moments`: WEFT_TEST_CASES failures at random moments, by seed. Over MPI,
# over UCX under `graphtool launch`, where one more rank is killed that shares no memory, or over Unix sockets there, whose ranks
# are all on one machine. Skipped (77) without MPI, or UCX.
set -uo pipefail
build=$(realpath "$1") part=${2-all} way=${3-mpi} tests=$(realpath "$(dirname "$0")/..")
tool=$build/graphtool zoo=$build/weft-zoo
source "$tests/support/suite.sh"
export OMP_NUM_THREADS=1
timeout=3
slack=60 # a rank has ended so many seconds after the time-out; random moments are for a machine of their own
[[ $part != moments ]] || slack=10
flags=() patient=() has_open_mpi= launch_env=()
if [[ $way != mpi ]]; then
    launch=(timeout 120 "$tool" launch -n)
else
    command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here (openmpi-bin)"; exit 77; }
    mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none) has_open_mpi=1
    launch=(timeout 120 mpirun "${flags[@]}" -np)
    # When a rank has died mpirun kills the others a second later; on a busy machine they need longer to tell it.
    [[ $has_open_mpi ]] && patient=(--mca odls_base_sigkill_timeout 5)
fi
# ranks_die: from here on what is launched may lose ranks.
ranks_die() { [[ $way != mpi ]] || launch=(timeout 120 mpirun "${flags[@]}" "${patient[@]}" -np); }
spaces=()
leave() {
    for s in "${spaces[@]}"; do ip netns del "$s" 2>/dev/null; done
    rm -rf "$folder"
}
trap leave EXIT

digits 400
"$zoo" mlp -b 10 -o mlp.bin && "$zoo" mlp -b 8 -o other.bin || fail "the models"
alone=(train mlp.bin --data image=image --data label=label --threads 1 --seed 3 --bucket-cap-mb 0.5 --comm "$way")
run=("${alone[@]}" --timeout $timeout)
"${launch[@]}" 2 "$tool" "${run[@]}" --steps 1 >out 2>err
grep -q "this build has no" err && { echo "skipped: built without it: $(cat err)"; exit 77; }

# What a rank is started by: its process and what it said stay known, also when the launcher's pipes are gone. mpirun's signals
# go to all processes of a rank's group, so what listens is in another one; `heard` is there when it has heard all. For
# ranks in $WATCHED the status is known, too: a shell waits for them, which mpirun's SIGTERM does not end.
cat >rank.sh <<'END_RANK'
me=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}
note() { echo "$2" >"$WHERE/$1.$me.tmp" && mv "$WHERE/$1.$me.tmp" "$WHERE/$1.$me"; }
listen() { exec setsid "$BASH" -c 'tee -p "$0/said.$1" >&2; : >"$0/heard.$1"' "$WHERE" "$me"; }
if [[ " $WATCHED " != *" $me "* ]]; then
    note pid $$
    exec "$@" 2> >(listen)
fi
"$@" 2> >(listen) &
pid=$!
trap '' TERM
note pid $pid
wait $pid
status=$?
note status $status
exit $status
END_RANK
watched=

now() { read -r up _ </proc/uptime && echo "$up"; } # no clock that somebody sets
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }

# begin N ARGUMENT...: starts graphtool on N ranks with a log; $job is the launcher, and who is in $watched leaves its status.
begin() {
    local n=$1
    shift
    rm -rf pid.* said.* heard.* status.* rings log.jsonl out err
    WHERE=$folder WATCHED=$watched "${launch[@]}" "$n" "${launch_env[@]}" "$BASH" "$folder/rank.sh" "$tool" "$@" --rings rings >out 2>err &
    job=$!
}
alive() { [[ $(awk '/^State/ { print $2 }' "/proc/$1/status" 2>/dev/null) == [^ZX]* ]]; }

# await N STEPS: until N ranks have a process and the log has so many lines.
await() {
    for _ in {1..600}; do
        (($(ls pid.* 2>/dev/null | grep -vc tmp) == $1)) && (($({ wc -l <log.jsonl; } 2>/dev/null || echo 0) >= $2)) && return
        kill -0 $job 2>/dev/null || return
        sleep 0.1
    done
}

# finish SECONDS RANK...: these ranks must be gone after so many seconds; $took is how long the last one took.
finish() {
    local limit=$1 from=$2 r
    shift 2
    [[ $1 == 0 ]] && said=
    for r in "$@"; do
        while alive "$(cat "pid.$r")"; do
            less "$limit" "$(since "$from")" && { fail "$what: rank $r still runs after $limit s"; kill -9 "$(cat "pid.$r")"; hangs=$((hangs + 1)); }
            [[ -z $said ]] && grep -q "^graphtool:" said.0 && said=$(since "$from")
            sleep 0.02
        done
    done
    took=$(since "$from")
    said=${said:-$took}
}

# told RANK BY...: each of BY has named this rank as lost, and no other one; blame does too (of a link both ends). One that
# mpirun has killed before, so that it has no status, may not have come to it; another one has.
told() {
    local lost=$1 r named
    shift
    for r in "$@"; do
        for _ in {1..600}; do [[ -e heard.$r ]] && break; sleep 0.1; done
        named=$(grep -oE "rank [0-9]+ (IS DEAD|HAS NOT ENTERED|has entered but HAS FALLEN SILENT)" "said.$r" | awk '{ print $2 }' | sort -u | tr '\n' ' ')
        [[ $named == "$lost " ]] && continue
        if grep -q "the ranks have not met in" "said.$r"; then met=; continue; fi # there is no name before they meet
        if [[ ! $named && $way == mpi && $# -gt 1 && ! -e status.$r ]]; then echo "$what: mpirun has killed rank $r before its report"; continue; fi
        [[ $named ]] && wrong=$((wrong + 1))
        fail "$what: rank $r names '$named', not $lost: $(cat "said.$r")"
    done
    [[ $met ]] || return
    "$tool" blame rings --json >blame.json 2>blame.err && python3 -c '
import json, sys
b = json.load(open("blame.json"))["blamed"] # a link has two ends: each misses the other
sys.exit(not (b == [int(sys.argv[1])] or sys.argv[2].startswith("link") and b))' "$lost" "$what" ||
        { blames=$((blames + 1)); fail "$what: blame says $(grep -A3 blamed blame.json) $(cat blame.err), not $lost"; }
}

# ends_with_7 R...: so has each of them, by itself, where mpirun has not killed it before.
ends_with_7() {
    local r status
    for r in "$@"; do
        status=$(cat "status.$r" 2>/dev/null)
        [[ $status == 7 || ($way == mpi && ! $status) ]] || fail "$what: rank $r ended with status '$status', not 7"
    done
}

# Losses of the log are those of an undisturbed run, as far as it went.
numbers() {
    python3 - <<'END_LOG' || { fail "$what: other numbers"; others=$((others + 1)); }
import json, os, sys
def losses(name):
    lines = []
    if not os.path.exists(name): return {} # it had not begun
    for x in open(name):
        try: lines.append(json.loads(x))
        except ValueError: pass # the line that was being written
    return {x["step"]: x["loss"] for x in lines if "loss" in x}
want, got = losses("want.jsonl"), losses("log.jsonl")
wrong = [s for s in got if s in want and got[s] != want[s]]
sys.exit(f"steps {wrong[:5]}" if wrong else 0)
END_LOG
}
[[ $part == moments ]] && many=200 || many=40
"${launch[@]}" 2 "$tool" "${run[@]}" --steps $many --log want.jsonl >out 2>err || fail "undisturbed: $(cat err)"

# Two machines, as far as ranks can see: a link that can be taken away.
link_up() {
    [[ $has_open_mpi || $way == ucx ]] && [[ $way != local ]] && ((EUID == 0)) || return
    spaces=("wr0.$$" "wr1.$$")
    ip netns add "${spaces[0]}" 2>/dev/null && ip netns add "${spaces[1]}" &&
        ip link add "wv0.$$" netns "${spaces[0]}" type veth peer name "wv1.$$" netns "${spaces[1]}" || return
    for i in 0 1; do
        ip -n "${spaces[i]}" addr add 10.77.0.$((i + 1))/24 dev "wv$i.$$" && ip -n "${spaces[i]}" link set lo up &&
            ip -n "${spaces[i]}" link set "wv$i.$$" up || return
    done
    cat >two.sh <<END_TWO
export WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 WEFT_JOB_TOKEN=0123456789abcdef
shift # 2
for r in 0 1; do
    RANK=\$r ip netns exec wr\$r.$$ unshare -u bash -c 'hostname wr\$RANK; exec "\$@"' x "\$@" &
done
wait -n
first=\$?
wait -n
second=\$?
exit \$((first ? first : second))
END_TWO
    by_link=(timeout 120 "$BASH" "$folder/two.sh")
    [[ $way == ucx ]] && return
    cat >agent.sh <<END_AGENT
host=\$1; shift
[[ \$host == wr0 ]] && space=${spaces[0]} || space=${spaces[1]}
exec ip netns exec \$space unshare -u bash -c "hostname \$host; \$*"
END_AGENT
    chmod +x agent.sh
    sed -i '1i #!/usr/bin/env bash' agent.sh
    by_link=(timeout 120 ip netns exec "${spaces[0]}" unshare -u bash -c 'hostname wr0; exec "$@"' x mpirun --mca plm_rsh_agent "$folder/agent.sh"
        --host wr0:1,wr1:1 --map-by node --bind-to none --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24
        --mca oob_tcp_if_include 10.77.0.0/24 -np)
}
by_link=()
has_link=
link_up && has_link=1

# reach MOMENT LINES: starts two ranks and waits for so many log lines, then so many seconds. Ranks that a busy machine
# holds up for longer than the time-out give up before anything was done to them: they start again.
reach() {
    local try
    for try in 1 2 3; do
        begin 2 "${run[@]}" --epochs 1000000 --log log.jsonl
        await 2 "$2"
        sleep "$1"
        (($({ wc -l <log.jsonl; } 2>/dev/null || echo 0) >= $2)) && kill -0 $job 2>/dev/null && ! grep -q "^graphtool:" said.* && return
        retried=$((retried + 1))
        kill $job 2>/dev/null
        wait $job
        echo "$what: begun again, as before that: $(cat err)"
    done
    return 1
}

# kind MOMENT LINES: one failure of rank 1 of two after so many seconds and log lines; the other one tells.
hangs=0 wrong=0 others=0 blames=0 unmet=0 slowest=0 report=0 retried=0
lose() {
    local kind=$1 moment=$2 lines=$3 from pid limit before=$failures near=("${launch[@]}")
    what="$kind after $moment s" met=1
    [[ $kind == kill || $kind == early ]] && ranks_die
    [[ $kind == link || $kind == far ]] && launch=("${by_link[@]}")
    [[ $kind == link && $way == mpi ]] && launch_env=(-x WHERE -x WATCHED -x OMP_NUM_THREADS -x ASAN_OPTIONS)
    watched=0
    [[ $kind == link ]] && watched="0 1"
    reach "$moment" "$lines" || { launch=("${near[@]}") launch_env=() watched=; fail "$what: three starts have ended too soon"; return 1; }
    pid=$(cat pid.1 2>/dev/null)
    from=$(now)
    limit=$((timeout + slack))
    ((lines)) || limit=$((35 + slack)) # ranks that have not met wait 30 s at least
    case $kind in
    kill | far) kill -9 "$pid" ;;
    stop) kill -STOP "$pid" ;;
    asleep)
        rm -f held
        python3 "$tests/dist/hold_thread.py" "$pid" 60 >held 2>&1 & holder=$!
        until [[ -s held ]]; do sleep 0.02; done
        from=$(now)
        ;;
    link) ip -n "${spaces[1]}" link set "wv1.$$" down ;;
    early)
        python3 "$tests/dist/end_process.py" "$pid" 0 >held 2>&1 || kill -9 "$pid"
        from=$(now)
        ;;
    esac
    finish $limit "$from" 0
    first=$took
    case $kind in
    link) finish $((limit + 5)) "$from" 1 ;;
    asleep) kill -9 $holder 2>/dev/null ;;
    stop) kill -CONT "$pid" 2>/dev/null ;;
    esac
    [[ $kind == link ]] && ip -n "${spaces[1]}" link set "wv1.$$" up
    if [[ $kind == link && $way == mpi ]]; then (sleep 3; kill -9 $job 2>/dev/null) & fi # mpirun itself may wait for the link
    wait $job 2>/dev/null
    status=$?
    launch=("${near[@]}") launch_env=() watched=
    if [[ $kind == asleep || $kind == early ]] && grep -q "not allowed" held; then echo "left out: no process may be held: $(cat held)"; return 0; fi
    case $kind$way in
    killmpi) [[ $status == 137 || $status == 7 ]] || fail "$what: the launcher's status $status" ;; # whichever it sees first
    killucx | killlocal | farucx) [[ $status == 137 ]] || fail "$what: the launcher's status $status" ;;
    earlympi) ((status)) || fail "$what: the launcher's status 0" ;;
    linkmpi | linkucx) # each end misses the other one
        ends_with_7 1
        [[ $met ]] && told 0 1
        ;;
    *) [[ $status == 7 ]] || fail "$what: the launcher's status $status" ;;
    esac
    if [[ $kind == kill ]] && ((!lines)) && ! grep -q "ranks of this machine" said.0; then met=; fi # the launcher alone sees it
    if [[ $kind == kill && $met && $way == mpi ]]; then
        awk '/IS DEAD/ && !told { told = NR } /mpirun noticed/ { exit !(told && told < NR) }' err || fail "$what: mpirun tells first: $(cat err)"
    fi
    [[ $kind == kill && ! $met ]] || { told 1 0; ends_with_7 0; }
    [[ $kind == far ]] && ! grep -q "rank 1 IS DEAD: its process has ended, or the network" said.0 && fail "$what: not noticed before the deadline"
    [[ $met ]] || unmet=$((unmet + 1))
    took=$first
    if [[ $kind != kill && $met ]] && less "$slowest" "$took"; then slowest=$took; fi
    if [[ $kind == kill && $met ]] && less "$report" "$said"; then report=$said; fi
    numbers
    echo "$what: rank 0 had told it after $said s, ended after $took s$([[ $met ]] || echo ', before the ranks had met')"
    ((failures == before)) || { cat err said.*; return 1; }
}

if [[ $part == moments ]]; then
    seed=${WEFT_TEST_SEED:-1}
    kinds=(kill stop asleep link)
    [[ $way == ucx ]] && kinds+=(far)
    [[ $has_link ]] || echo "left out: network namespaces are not allowed"
    ran=0 left=0 bad=0
    declare -A tried
    for ((i = 0; i < ${WEFT_TEST_CASES:-4}; i++)); do
        RANDOM=$(((seed + i) % 32768))
        kind=${kinds[(seed + i) % ${#kinds[@]}]}
        moment=$((RANDOM % 2)).$(printf %03d $((RANDOM % 1000)))
        if [[ ($kind == link || $kind == far) && ! $has_link ]]; then left=$((left + 1)); continue; fi
        lines=$((1 + RANDOM % 20))
        [[ $kind == kill ]] && ((RANDOM % 10 == 0)) && lines=0 # while the ranks start
        ran=$((ran + 1)) tried[$kind]=$((${tried[$kind]:-0} + 1))
        lose $kind "$moment" $lines || bad=$((bad + 1))
    done
    echo "moments: kill ${tried[kill]:-0}, stop ${tried[stop]:-0}, asleep ${tried[asleep]:-0}, link ${tried[link]:-0}, far ${tried[far]:-0}: $hangs hangs, $wrong wrong names, $blames wrong blames, $others with other numbers, $retried begun again, $unmet before the ranks had met; the slowest report of a dead rank came after $report s; others, with --timeout $timeout, had ended after $slowest s at most"
    echo "cases: $ran run, $left skipped, $bad failed" # tools/nightly.sh reads this
    exit $((failures > 0))
fi

for kind in kill stop; do lose $kind 0.3 3; done
if is_whole; then
    for kind in early asleep; do lose $kind 0.3 3; done
fi
if [[ $has_link ]]; then
    is_whole && lose link 0.3 3
    [[ $way == ucx ]] && lose far 0.3 3
else
    echo "left out: network namespaces are not allowed"
fi

# SIGTERM leaves a ring, saves and ends with 130: both hold.
begin 2 "${run[@]}" --epochs 1000000 --log log.jsonl --checkpoint-dir saved
await 2 3
kill -TERM "$(cat pid.0)" "$(cat pid.1)"
wait $job
status=$?
[[ $status == 130 && -s rings/rank-0.ring && -s rings/rank-1.ring && -d $(ls -d saved/step-* | tail -1) ]] ||
    fail "SIGTERM: status $status, $(ls rings saved), $(cat err)"
"$tool" blame rings | head -1 | grep -q "^no rank had an error: the job was ended by a signal" || fail "SIGTERM: $("$tool" blame rings)"
[[ $("$tool" blame rings) != *[A-Z][A-Z]\ [A-Z][A-Z]* ]] || fail "SIGTERM: a rank is blamed: $("$tool" blame rings)"
mv rings/rank-0.ring ended.ring # as after SIGTERM to rank 1 alone
"$tool" blame rings | grep -q "^rank 0.*; no file$" || fail "SIGTERM to one rank: $("$tool" blame rings)"
mv ended.ring rings/rank-0.ring
"$tool" blame saved >out 2>err
[[ $? == 2 ]] && grep -q "it has no file rank-N.ring: .* there is nobody to blame" err || fail "blame of a run that lost no rank: $(cat out err)"

# A rank whose file was damaged is not one that left none.
printf x | dd of=rings/rank-1.ring bs=1 seek=40 conv=notrunc status=none
"$tool" blame rings >out 2>err && grep -q "^rank 1.*; its file is damaged$" out && ! grep -q "it was killed" out || fail "a damaged ring: $(cat out err)"

# Variables of a launcher that did not start this process are wrong usage, no lost rank.
if [[ $way == mpi ]]; then
    RANK=1 WORLD_SIZE=2 timeout 60 "$tool" "${run[@]}" --steps 1 >out 2>err
    status=$?
    [[ $status == 2 ]] && grep -q "the launcher (env) says rank 1 of 2, MPI says rank 0 of 1" err || fail "a wrong launcher: status $status: $(cat err)"
fi

# A rank that aborts leaves its ring, too.
rank_aborts() {
    begin 2 "${run[@]}" --epochs 1000000 --log log.jsonl
    await 2 3
    kill -ABRT "$(cat pid.1)"
    wait $job
    status=$?
    [[ $status == 134 && -s rings/rank-1.ring ]] && "$tool" blame rings | grep -q "^rank 1 .*; process $(cat pid.1) on " ||
        fail "SIGABRT: status $status, $(ls rings), $("$tool" blame rings), $(cat err)"
}

# SIGUSR1 to mpirun is passed to the ranks, which have all the time that a step and a checkpoint take: at SIGTERM they would be
# cut off after a second. So a step is as many batches as take three seconds here, and a signal that comes late in it shows nothing.
usr1_to_mpirun() {
    step_of() { # this many batches, and how it runs
        local times=$1
        shift
        begin 2 "${run[@]}" --flow "train train{batch=same}*$times" --log log.jsonl "$@"
    }
    step_of 50 --steps 2
    wait $job || fail "SIGUSR1 to mpirun: $(cat err)"
    times=$(awk -F'"seconds":' 'END { printf "%d", 1 + 50 * 3 / $2 }' log.jsonl)
    for _ in {1..5}; do
        rm -rf long
        step_of "$times" --epochs 1000000 --checkpoint-dir long --checkpoint-every 1000
        await 2 1
        from=$(now)
        kill -USR1 "$(pgrep -P $job)"
        wait $job
        status=$? took=$(since "$from")
        [[ $status == 130 && -d $(ls -d long/step-* 2>/dev/null | tail -1) ]] && grep -q "^interrupted after" out || fail "SIGUSR1 to mpirun: status $status, $(ls long), $(cat err)"
        "$tool" ckpt verify long >/dev/null || fail "SIGUSR1 to mpirun: $("$tool" ckpt verify long)"
        less 1.2 "$took" && break
    done
    less 1.2 "$took" || fail "SIGUSR1 to mpirun: a step of $times batches and a checkpoint took $took s alone: that is not a test"
}

# The job for Slurm of docs/operations.md, as it stands there: two minutes before its time limit, which is now, it saves and asks to
# be started again, and ends with the bits of one that had the time. scontrol, and how many ranks Slurm has mpirun start, are played.
job_for_slurm() {
    slurm_job() { # it runs in the folder $1
        mkdir -p "$1"
        cp dcgan28.bin "$1/model.bin"
        mv train.npy "$1"
        cd "$1" || exit 1
        PATH=$folder/played:$PATH SLURM_JOB_ID=7 exec "$BASH" ../job.sh
    }
    ranks_of() { pgrep -P "$(pgrep -P "$1" | head -1)" 2>/dev/null; }
    take_usr1() { # both ranks of the job $1 do
        local caught n=0
        for r in $(ranks_of "$1"); do
            caught=$(awk '/^SigCgt/ { print $2 }' "/proc/$r/status" 2>/dev/null)
            ((0x${caught:-0} & 0x200)) && n=$((n + 1))
        done
        ((n == 2))
    }
    if [[ $has_open_mpi ]]; then
        awk '/^```sh/ { text = ""; on = 1; next } /^```/ { if (on && text ~ /#SBATCH/) printf "%s", text; on = 0 } on { text = text $0 "\n" }' \
            "$tests/../docs/operations.md" >job.sh
        "$zoo" dcgan28 -b 2 -o dcgan28.bin
        pictures() { python3 -c '
import random
head = str({"descr": "|u1", "fortran_order": False, "shape": (4, 28, 28)}).ljust(117) + "\n"
open("train.npy", "wb").write(b"\x93NUMPY\1\0v\0" + head.encode() + bytes(random.Random(1).choices(range(256), k=4 * 784)))'; }
        mkdir played
        ln -s "$tool" played/graphtool
        printf '#!/bin/sh\necho "$*" >>requeued\n' >played/scontrol
        printf '#!/bin/sh\nexec %s %s -np 2 "$@"\n' "$(command -v mpirun)" "${flags[*]}" >played/mpirun
        chmod +x played/*
        pictures
        (slurm_job whole) >out 2>err || fail "the job for Slurm: $(cat err)"
        pictures
        (slurm_job cut) >out 2>err &
        job=$!
        for _ in {1..3000}; do take_usr1 $job || ! kill -0 $job 2>/dev/null && break; sleep 0.02; done
        kill -USR1 $job
        wait $job
        status=$?
        [[ $status == 130 && $(cat cut/requeued) == "requeue 7" ]] || fail "the job for Slurm at its limit: status $status, $(cat cut/requeued out err)"
        pictures
        (slurm_job cut) >out 2>err || fail "the job for Slurm, started again: $(cat err)"
        grep -q "resumed from run/checkpoints/step-" err || fail "the job for Slurm has not resumed: $(cat err)"
        [[ $(wc -l <cut/requeued) == 1 ]] || fail "the job for Slurm asks to be started again at its end"
        "$tool" ckpt diff whole/run/checkpoints cut/run/checkpoints >out || fail "the job for Slurm: $(cat out)"
    fi
}

# Where all goes well nothing is written.
nothing_is_written() {
    begin 2 "${run[@]}" --steps 5
    wait $job || fail "five steps: $(cat err)"
    [[ ! -e rings ]] || fail "a good run has written $(ls rings)"
}

# Another bucket cap, model, instruction set or version on one rank: before the start, with both values, status 2.
ranks_that_differ() {
    python3 - "$tool" <<'END_VERSION' || fail "no version to change"
import re, sys
data = open(sys.argv[1], "rb").read()
other, n = re.subn(rb"(?<=\0)0\.1\.0(?=\0)", b"0.1.9", data)
open("other.tool", "wb").write(other)
sys.exit(n == 0)
END_VERSION
    chmod +x other.tool
    plain=(--data image=image --data label=label --threads 1 --steps 3 --timeout $timeout --comm "$way")
    cat >either.sh <<'END_EITHER'
me=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}} mine=()
for word; do # rank 0 runs what is before the //
    if [[ $word != // ]]; then mine+=("$word"); elif ((me)); then mine=(); else break; fi
done
exec "${mine[@]}"
END_EITHER
    differ() { # what it says, then the command of rank 1
        local says=$1
        shift
        "${launch[@]}" 2 "$BASH" "$folder/either.sh" "$tool" train mlp.bin "${plain[@]}" --isa sse2 --bucket-cap-mb 1 // "$@" >out 2>err
        status=$?
        grep -qE "$says" err && ((status != 0 && status != 7 && status != 124)) || fail "$says: status $status: $(cat err)"
        [[ ! -e weft-rings ]] || fail "$says: rings were written"
    }
    differ "the ranks do not agree: --bucket-cap-mb 1 on rank 0, 2 on rank 1" "$tool" train mlp.bin "${plain[@]}" --isa sse2 --bucket-cap-mb 2
    differ "the ranks do not agree: MODEL of .* on rank 0, of .* on rank 1" "$tool" train other.bin "${plain[@]}" --isa sse2 --bucket-cap-mb 1
    differ "the ranks do not agree: --isa sse2 on rank 0, reference on rank 1" "$tool" train mlp.bin "${plain[@]}" --isa reference --bucket-cap-mb 1
    version="the ranks do not agree: .*0\.1\.0 on rank 0, .*0\.1\.9 on rank 1"
    [[ $way != mpi ]] && version="it has version 0\.1\.9 of Weft, rank 0 has 0\.1\.0" # where they meet
    differ "$version" ./other.tool train mlp.bin "${plain[@]}" --isa sse2 --bucket-cap-mb 1
    echo "ranks that differ: done"
}

# After a failure the same command continues by itself, to the bits of one rank that nothing happened to; with three of four
# ranks it says how the batch changes.
one_of_four_is_killed() {
    rm -rf saved saved.3
    steps=(--epochs 3 --checkpoint-dir saved --checkpoint-every 2 --resume auto -o all.st --optimizer-state)
    watched="0 1 3" near=("${launch[@]}")
    ranks_die
    begin 4 "${alone[@]}" --timeout 60 "${steps[@]}" --log log.jsonl
    await 4 6
    kill -9 "$(cat pid.2)"
    wait $job && fail "killed: exit 0"
    watched= what="kill of one in four" met=1 launch=("${near[@]}")
    told 2 0 1 3
    ends_with_7 0 1 3
    cp -r saved saved.3
    begin 4 "${alone[@]}" --timeout 60 "${steps[@]}"
    wait $job || fail "continuing in four ranks: $(cat err)"
    grep -q "resumed from saved/step-" err || fail "four ranks have not resumed: $(cat err)"
    "$tool" "${alone[@]}" --epochs 3 -o want.st --optimizer-state --accumulate 4 >out 2>err || fail "undisturbed: $(cat err)"
    cmp all.st want.st || fail "what continues in four ranks ends with other weights"
    begin 3 "${alone[@]}" --timeout 60 "${steps[@]/saved/saved.3}"
    wait $job || fail "continuing in three ranks: $(cat err)"
    grep -q "resumed with 3 batches of 10 samples an iteration, before 4 of 10: numbers differ" err || fail "three ranks: $(cat err)"
}

if is_whole; then
    rank_aborts
    usr1_to_mpirun
    job_for_slurm
    nothing_is_written
    ranks_that_differ
fi
one_of_four_is_killed
exit $((failures > 0))
