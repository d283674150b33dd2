#!/usr/bin/env bash
# test_own_strategy.sh PROGRAM - examples/own_strategy.c: alone nothing is compressed; on two ranks the loss comes near the one
# of exact sums, with less than a quarter of the bytes (the program itself compares). Two ranks are skipped where there is no mpirun.
set -euo pipefail
program=$1
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps is not ours
"$program"
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here (openmpi-bin)"; exit 0; }
flags=()
mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none)
timeout 120 mpirun "${flags[@]}" -np 2 "$program"
