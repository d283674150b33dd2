#!/usr/bin/env bash
# test_comm_mpi.sh COMM_RANKS [GRAPHTOOL WAY] - communicators between processes: the program alone, on 2 and 3 ranks, and
# with a rank that differs, stays away or is stopped. Over MPI under mpirun, or over WAY of WEFT_COMM_LIST (ucx) under
# `GRAPHTOOL launch`. Skipped (77) where mpirun is missing, or the build has no such way.
set -uo pipefail
program=$1 tool=${2:-}
export WEFT_TEST_WAY=${3:-mpi}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps is not ours
export OMP_NUM_THREADS=1
failures=0

if [[ $tool ]]; then
    launch=("$tool" launch --grace 3)
else
    command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here (openmpi-bin)"; exit 77; }
    launch=(mpirun)
    mpirun --version 2>&1 | grep -q "Open MPI" && launch+=(--oversubscribe --bind-to none)
fi

# ranks N MODE WINDOW EXPECTED...: runs it; each text must be in what it prints.
ranks() {
    local n=$1 mode=$2 window=$3 output status want
    shift 3
    output=$(timeout 60 "${launch[@]}" -n "$n" "$program" "$mode" "$window" 2>&1)
    status=$?
    if [[ $mode == all ]] && ((status)) || [[ $mode != all ]] && ((status == 0 || status == 124)); then
        echo "FAILED: $n ranks, $mode: exit $status"
        failures=$((failures + 1))
    fi
    if [[ $mode =~ ^(group|hook|starved)$ ]] && ((status == 7)); then
        echo "FAILED: $n ranks, $mode: exit 7, though no rank was lost"
        failures=$((failures + 1))
    fi
    for want in "$@"; do
        grep -qF -- "$want" <<<"$output" && continue
        echo "FAILED: $n ranks, $mode: nobody said: $want"
        failures=$((failures + 1))
    done
    ((failures)) && printf '%s\n' "$output" | head -40
    echo "$n ranks, $mode: done"
}

if [[ $tool ]]; then
    timeout 60 "${launch[@]}" -n 2 "$program" bits | grep "^this build has no " && exit 77
    alone=("${launch[@]}" -n 1)
else
    alone=()
fi
timeout 60 "${alone[@]}" "$program" all
status=$?
((status == 77)) && { echo "skipped: built without MPI"; exit 77; }
((status)) && { echo "FAILED: alone: exit $status"; failures=1; }
everyone=("rank 0: all is well" "rank 1: all is well")
ranks 2 all 0 "${everyone[@]}"
ranks 2 all -1 "${everyone[@]}" # no window: by messages, and by MPI's own sums
if [[ -z ${WEFT_TEST_QUICK:-} ]]; then
    ranks 3 all 8192 "${everyone[@]}" "rank 2: all is well"
    ranks 4 all -1 "${everyone[@]}" "rank 2: all is well" "rank 3: all is well"
fi
ranks 3 starved 0 "a communicator: out of memory" \
    "rank 1 could not join: a communicator: out of memory"
if [[ $WEFT_TEST_WAY == ucx ]]; then
    garbage="rank 1 gave no valid address (4096 bytes)"
    ranks 2 garbage 0 "$garbage" "rank 0 says: rank 0 could not join: $garbage"
fi
group="a group of ranks: out of memory"
[[ $tool ]] && group="a communicator: out of memory" # MPI alone has something of its own for a group
ranks 3 group 0 "rank 1: $group" "rank 1 has given up: "
for window in 0 -1; do
    ranks 3 hook $window "rank 1: a hook is out of luck" "rank 0: " "rank 2: " "rank 1 has given up: a hook is out of luck"
done
settle() { wait -n || failures=$((failures + 1)); }
# Cases that mostly wait run three at once, each in its own shell, which ends with the number of its failures. No more than
# that: ranks of MPI wait with a whole processor each, and with 13 of them on 2 processors some did not meet in 30 s.
beside() { # the arguments of ranks
    (($(jobs -rp | wc -l) < 3)) || settle
    (
        failures=0
        ranks "$@"
        exit $failures
    ) &
}
beside 2 differ 0 "the kind: all_reduce on rank 0, broadcast on rank 1" \
    "the kind: broadcast on rank 1, all_reduce on rank 0"
# Rank 0 or rank 2 is the first to give up; its report ends the job, so only what that one rank says is certain.
beside 3 missing 0 ': all_reduce #17 (missing) of world on rank ' \
    ': not finished after 2.0 s, 1 of 3 ranks missing' \
    'rank 1 HAS NOT ENTERED, last entered all_reduce #16 (generator.1), at "data loader wait", heard ' \
    '; finished here before: all_reduce #16 (generator.1) '
beside 3 early 0 ', 1 of 3 ranks dead; rank 1 IS DEAD: its process has ended, HAS NOT ENTERED, last entered all_reduce #16 (generator.1), at "data loader wait"'
beside 2 stopped -1 'rank 1 HAS NOT ENTERED, last entered all_reduce #16 (generator.1)'
for window in 0 -1; do
    beside 2 cut $window ': not finished after 2.0 s, 1 of 2 ranks missing; rank 1 has entered but HAS FALLEN SILENT'
done
while [[ $(jobs -p) ]]; do settle; done
exit $((failures > 0))
