#!/usr/bin/env bash
# nightly.sh - tests too long for tools/test.sh, in parts. A part runs for an hour at most and goes on where its last
# call stopped: cases are numbered by seeds, and build/nightly/PART/ holds the next one and the counts so far. What a
# part says ends with one line: commit, cases run, skipped and failed.
#
# A part is a row of `suites` below (a C suite with many random cases) or a script tools/nightly/PART.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# part        preset   suite              cases   a chunk  what
suites="
verify        release  test_verify        60000   2000     plans at random, of all ranks of worlds of 1 to 6: no false alarm
pace          release  test_verify_runs   6000    200      plans at random beside a communication lane of any pace: the same bits
hostile       asan     test_hostile       200000  4000     broken files of every format, under the sanitizers
contents      asan     test_hostile_model 100000  2000     well-formed models with hostile contents, under the sanitizers
poison        release  test_poison        20000   500      random models whose unwritten and dead memory holds rubbish: the same bits
minimize   release  test_minimize      260000  20000    a step takes the gradient: every op, route, precision, instruction set, accumulation, world, ZeRO
gradients  release  test_gradients_by  100000  4000     gradients by any value of random graphs are central differences
"

usage() {
    cat <<'END'
Usage: tools/nightly.sh PART [OPTION]...
  --cases N     cases to have run in the end, over all calls (default: the part's own)
  --seed S      begin anew at this seed
  --minutes M   stop after M minutes (default 60)
  --fresh       forget earlier calls
  --list        the parts
Example: tools/nightly.sh verify --minutes 10
END
}

parts() {
    local name preset suite cases chunk what
    while read -r name preset suite cases chunk what; do
        [[ -z $name ]] || printf '%-10s %s (%s cases)\n' "$name" "$what" "$cases"
    done <<<"$suites"
    for script in tools/nightly/*.sh; do
        [[ $script == */common.sh || ! -e $script ]] || printf '%-10s %s\n' "$(basename "$script" .sh)" "$(sed -n '2s/^# [^-]*- //p' "$script")"
    done
}

misused() {
    echo "nightly.sh: $1 (tools/nightly.sh --help)" >&2
    exit 2
}

part='' cases='' seed='' minutes=60 is_fresh=
while (($#)); do
    case $1 in
    --cases | --seed | --minutes)
        [[ ${2-} =~ ^[0-9]+$ ]] || misused "$1 wants a whole number"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    --fresh) is_fresh=1 ;;
    --list) parts; exit ;;
    -h | --help) usage; exit ;;
    -*) misused "there is no option $1" ;;
    *) [[ -z $part ]] || misused "one part a call, not $part and $1"; part=$1 ;;
    esac
    shift
done
[[ -n $part ]] || misused "which part? --list tells"
source tools/nightly/common.sh

row=$(awk -v part="$part" '$1 == part' <<<"$suites")
if [[ -z $row && ! -e tools/nightly/$part.sh ]]; then misused "there is no part '$part'"; fi
tools/setup.sh
nightly_begin "$part" "$minutes" "$seed" "$is_fresh"
if [[ -z $row ]]; then
    nightly_build release
    source "tools/nightly/$part.sh"
else
    read -r _ preset suite total chunk _ <<<"$row"
    nightly_build "$preset" "$suite"
    [[ $preset == release ]] || source tools/sanitizer_env.sh
    nightly_suite "build/$preset/$suite" "${cases:-$total}" "$chunk"
fi
nightly_end
