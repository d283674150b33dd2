#!/usr/bin/env bash
# nightly.sh - tests too long for tools/test.sh, in parts. A part runs for an hour at most and continues where
# its last call stopped: cases are numbered by seeds, and build/nightly/PART/ holds the next seed and the
# counts so far. The output of a part ends with one line: commit, cases run, skipped and failed.
#
# A part is a row of `parts` below: a C suite that counts its cases (test_case_begin in tests/support/test.h)
# or, if it exists, the script tools/scripts/nightly/PART.sh, which gets the row's seeds and chunk as $seeds
# and $chunk.
set -euo pipefail
cd "$(dirname "$0")/.."

# part       preset   program             seeds   a chunk  what
parts="
suites       release  weft-zoo            400     1        every test of tools/test.sh at full length, in the release build and under the sanitizers: a test of a build a seed
verify       release  test_verify         60000   500      plans at random, of all ranks of worlds of 1 to 6: no false alarm
pace         release  test_verify_runs    6000    100      plans at random beside a communication stream of any pace: the same bits
hostile      asan     test_hostile        100000  1000     broken files, a mutation of each format a seed, under the sanitizers
configs      asan     test_hostile_tools  100000  5000     so are graphtool's files: options, rings, bad steps
threads      release  weft_internal       1000    1         ThreadSanitizer: the loader's threads, sessions in parallel, ranks as threads, writers of checkpoints
fuzz         release  fuzz                300     1        files changed by what runs (afl++), a format a seed, each for its share of the minutes
contents     asan     test_hostile_model  100000  2000     well-formed models with hostile contents, under the sanitizers
poison       release  test_poison         20000   100      random models whose unwritten and dead memory holds rubbish: the same bits
relations    release  test_relations      20000   100      random trainings of every layer and optimizer, each again in ways that change no bit: worlds, stages, buckets, files, resumes
relations_trainer release test_relations_trainer 20000 100 the same by trainers: flows, validations, skipped steps, parts that resume from checkpoints in other worlds
minimize     release  test_minimize       260000  5000     a step takes the gradient: every op, route, precision, instruction set, accumulation, world, ZeRO
gradients    release  test_gradients_by   100000  2000     gradients by any value of random graphs are central differences
order        release  test_order          1000000 100000   reads of states see what was there when they were built, in random programs of reads and writes
onednn       release  test_onednn_sweep   300000  5000     every kernel that calls oneDNN on small random shapes, a seed on each instruction set, against plain loops
onednn_3     release  weft-zoo            300000  5000     the same with oneDNN 3.2 of the Python registry, or with that in the folder WEFT_ONEDNN; signals come in the middle of its products
simd         release  test_simd_sweep     100000  5000     our own kernels on small random shapes, on each instruction set, against plain loops
kills        release  comm_ranks          500     10       ranks that share memory, killed all at once at random moments: nothing of theirs is left
ranks        release  graphtool           200     20       a rank of two is killed, stopped, its main thread held or its link cut at a random moment: it is named, status 7, no hang, the right numbers
ranks_ucx    release  graphtool           100     20       the same without MPI, over UCX, and ranks without shared memory
ranks_local  release  graphtool           100     20       the same over Unix sockets, for ranks of one machine without MPI or UCX
meet         asan     test_meet           1000000 20000    strange greetings, random and half right, keep no rank out, and none is let in
resume       release  graphtool           60        5        trainings of two ranks, one or all killed while they write checkpoints, continue in 1, 2, 3 and 4
models       release  model_cases         200000  4000     random trainings of every op against PyTorch, with a table of op, layout and route
torch        release  weft-zoo           153         1        a fixed list of PyTorch modules becomes graphs of Weft: outputs, gradients and three steps judged by f64
onnx         release  weft-zoo           7           1         ONNX files: the node cases of the onnx package, models that PyTorch exports, graphs that onnxruntime runs
processors   release  graphtool           30      1        suites that ask the processor, under qemu-x86_64 as Nehalem and as Haswell, a suite and a model a seed
aarch64      release  graphtool           3       1        compiled for arm64 and run by qemu: the consumer, a training beside this processor's, the suites
gpu_ops      release  test_cuda_ops       2         1        the emulated GPU's kernels in each layout and at all sizes; then others than tools/test.sh draws
losses       release  weft-zoo            20      1         losses of the four models of bench/gpu_compare.py beside PyTorch's from the same weights; what is made wrong is found
events       release  test_logs           1       1        the event files of the trainer's hooks, read by the tensorboard package
runs         release  graphtool           2       1        whole trainings on real data: 93% of Fashion-MNIST, a GPT on a text within 1% of PyTorch
soak         release  soak_loop           30      30      a training of two ranks and a loop of sessions and worlds, for 30 minutes: nothing grows
install      release  weft-zoo            11       1        as part of another project, by clang, in fresh Debian 12 and 13: README's commands, packages, what uses them; the wheel of Python
no_mpi       release  weft-zoo            6         1        a clean Debian 12 and 13 without MPI: dcgan28 trains under graphtool launch to the bits of one rank
builds       release  model_bits          2504    50       plans of the zoo, and the bits of 2,000 random trainings, are those of an older commit: ac38b15e, or WEFT_BEFORE
guides       release  weft-zoo           10         1        docs/adding-*.md, each followed to the letter in a copy: its edits, its commands; which files it touches
mutants      release  test_ops            400     2       a sign or an index flipped in a kernel or a gradient: the suites of ops find it
models_s1    release  model_cases         2000    2000     random models find a defect that was, and nothing without it
"

usage() {
    cat <<'END'
Usage: tools/nightly.sh PART [OPTION]...
  --cases N     how far to go, over all calls: N seeds instead of the part's own number
  --seed S      begin again at this seed
  --minutes M   stop after M minutes (default 60)
  --fresh       forget earlier calls
  --folder F    what is kept between calls (default build/nightly/PART)
  --list        the parts
Example: tools/nightly.sh verify --minutes 10
END
}

list() {
    local part preset program seeds chunk what
    while read -r part preset program seeds chunk what; do
        [[ -z $part ]] || printf '%-10s %s (%s seeds)\n' "$part" "$what" "$seeds"
    done <<<"$parts"
}

misused() {
    echo "nightly.sh: $1 (tools/nightly.sh --help)" >&2
    exit 2
}

part='' cases='' seed='' minutes=60 is_fresh='' folder=''
while (($#)); do
    case $1 in
    --cases | --seed | --minutes)
        [[ ${2-} =~ ^[0-9]+$ ]] || misused "$1 wants a whole number"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    --folder)
        [[ -n ${2-} ]] || misused "--folder wants a name"
        folder=$2
        shift
        ;;
    --fresh) is_fresh=1 ;;
    --list) list; exit ;;
    -h | --help) usage; exit ;;
    -*) misused "there is no option $1" ;;
    *) [[ -z $part ]] || misused "one part a call, not $part and $1"; part=$1 ;;
    esac
    shift
done
[[ -n $part ]] || misused "which part? --list tells"
row=$(awk -v part="$part" '$1 == part' <<<"$parts")
[[ -n $row ]] || misused "there is no part '$part'"
read -r _ preset program seeds chunk _ <<<"$row"
seeds=${cases:-$seeds}

source tools/scripts/nightly/common.sh
nightly_begin
if ((seeds)); then nightly_build; fi
[[ $preset == release ]] || source tools/scripts/sanitizer_env.sh
if [[ -e tools/scripts/nightly/$part.sh ]]; then
    source "tools/scripts/nightly/$part.sh"
else
    nightly_suite "build/$preset/$program"
fi
nightly_end
