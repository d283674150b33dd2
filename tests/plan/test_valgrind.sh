#!/usr/bin/env bash
# test_valgrind.sh BUILD - steps of small models, and checkpoints of them, under valgrind, which sees each byte that is read before it is written. It
# plays a processor whose best is AVX2 (3.19 knows no AVX-512): all that asks the processor, oneDNN too, takes that.
# Ends with 77 where valgrind is missing.
set -euo pipefail
build=$1
command -v valgrind >/dev/null || { echo "test_valgrind.sh: no valgrind here"; exit 77; }
tests=$(cd "$(dirname "$0")/.." && pwd)
under() {
    OMP_NUM_THREADS=1 valgrind -q --error-exitcode=9 --suppressions="$tests/valgrind.supp" "$@"
}
under "$build/test_layouts" gradients_in models_whose
# Checkpoints while training continues, ranks as threads, a training that continues from one: also what is written to files.
under "$build/test_checkpoints" newest_and_the_best state_is_that
[[ -n ${WEFT_TEST_QUICK:-} ]] && exit
under "$build/test_poison" what_a_step
under "$build/test_resume" hooks_go_on
