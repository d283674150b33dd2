#!/usr/bin/env bash
# test_nightly.sh BUILD - tools/nightly.sh without its hours: every part begins and ends, its suite counts cases, and counts are
# honest, whatever a suite says or leaves out. Suites that are played here are functions of this shell.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$1
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# Every part as it stands: what its script does before the first case, and its last line.
parts=$(tools/nightly.sh --list | awk '{ print $1 }')
((${#parts})) || fail "no parts"
for part in $parts; do
    said=$(tools/nightly.sh "$part" --cases 0 --folder "$folder/$part" 2>&1) || fail "$part: exit $?: $said"
    [[ $(tail -1 <<<"$said") == "commit "*": 0 run, 0 skipped, 0 failed; next seed 1" ]] || fail "$part ends with: $said"
done
for script in tools/scripts/nightly/*.sh; do
    [[ $script == */common.sh ]] || grep -qx "$(basename "$script" .sh)" <<<"$parts" || fail "$script is not a part"
done
# Scripts name sources and folders of tests that are there. A suite's folder is found: tests/*/$suite.c.
while IFS=: read -r script path; do
    [[ $path == *[\$\*{}]* ]] || compgen -G "$path*" >/dev/null || fail "$script names $path, which is not there"
done < <(grep -roE --include=*.sh --include=*.py '(python/)?tests/[][A-Za-z0-9_/.${}*-]*[A-Za-z0-9_]' tools .ci)
! grep -rnE --include=*.sh 'tests/\$' tools || fail "a folder of tests is missing"
# docs/verification.md has a row for each, with the seeds of a complete run.
said=$(diff <(tools/nightly.sh --list | sed 's/ .*(\([0-9]*\) seeds)$/ \1/' | sort) \
    <(sed -n '/^## The parts/,/^## [^T]/p' docs/verification.md | awk -F' *[|] *' '$2 ~ /^`/ { gsub("[`,]", ""); print $2, $6 }' | sort)) ||
    fail "rows of docs/verification.md are not the parts of --list: $said"
while read -r program; do
    grep -Eq 'test_case_end|test_cases_add|hostile_attack' tests/*/"$program.c" || fail "$program counts no cases"
done < <(awk '$2 == "release" || $2 == "asan" { print $1, $3 }' tools/nightly.sh | while read -r part program; do
    [[ $program != test_* || -e tools/scripts/nightly/$part.sh ]] || echo "$program"
done)

# part NAME SEEDS CHUNK COMMAND...: a part that is this command, in a shell of its own; what it says is left in $said. The command
# `cases FUNCTION` is a part of cases.
part() {
    said=$(
        set -euo pipefail
        part=$1 seeds=$2 chunk=$3 minutes=1 seed='' is_fresh='' folder=$folder/$1 preset=release program=played
        shift 3
        source tools/scripts/nightly/common.sh
        nightly_begin
        if [[ $1 == cases ]]; then while nightly_goes_on; do nightly_case "$2"; done; else nightly_suite "$@"; fi
        nightly_end
    )
}

# says NAME STATUS TEXT: how the part ended.
says() {
    [[ $2 == "$3" ]] || fail "$1: exit status $2, not $3: $said"
    grep -qF -- "$4" <<<"$said" || fail "$1 does not say '$4': $said"
}

good() { echo "cases: $WEFT_TEST_CASES run, 0 skipped, 0 failed"; }
skips() { echo "cases: $((WEFT_TEST_CASES - 1)) run, 1 skipped, 0 failed"; }
bad() {
    echo "cases: $WEFT_TEST_CASES run, 0 skipped, 2 failed"
    return 1
}
beside() {
    good
    return 1
}
silent() { echo "all is well"; }
lazy() { echo "cases: $((WEFT_TEST_CASES - 1)) run, 0 skipped, 0 failed"; }
crash() {
    good
    echo "cases: nine run, 0 skipped, 0 failed"
    bash -c 'kill -9 $$'
}
passes_over() { exit $((next_seed == 1 ? 77 : 0)); }
reads() { [[ -d $folder && $preset/$program == release/played && $next_seed == [12] && -z $python ]]; }
seeds() {
    echo "$WEFT_TEST_SEED $WEFT_TEST_CASES" >>"$folder/seen"
    good
}

part good 25 10 good;     says good $? 0 ": 25 run, 0 skipped, 0 failed; next seed 26"
part skips 25 10 skips;   says skips $? 0 ": 22 run, 3 skipped, 0 failed; next seed 26"
part bad 25 10 bad;       says bad $? 1 ": 25 run, 0 skipped, 6 failed; next seed 26"
part beside 25 10 beside; says beside $? 1 ": 25 run, 0 skipped, 3 failed; next seed 26"
part silent 25 10 silent; says silent $? 1 ": 0 run, 0 skipped, 0 failed; next seed 1; stopped"
part lazy 25 10 lazy;     says lazy $? 1 "9 of 10 cases"
part crash 25 10 crash;   says crash $? 1 ": 25 run, 0 skipped, 3 failed; next seed 26"
part reads 2 1 cases reads; says reads $? 0 ": 2 run, 0 skipped, 0 failed; next seed 3"
part passes_over 2 1 cases passes_over; says passes_over $? 0 ": 1 run, 1 skipped, 0 failed; next seed 3"
part seeds 15 10 seeds;   says seeds $? 0 "next seed 16"
part seeds 25 10 seeds;   says seeds $? 0 ": 25 run, 0 skipped, 0 failed; next seed 26"
[[ $(paste -sd, "$folder/seeds/seen") == "1 10,11 5,16 10" ]] || fail "seeds: $(cat "$folder/seeds/seen")"

# Counts are of one commit: those of others are reported before it, also by a state that does not name its commit.
read -r next run skipped failed first from _ <"$folder/seeds/state"
echo "$next $run $skipped $failed $first $from commit 0000000, changed" >"$folder/seeds/state"
part seeds 35 10 bad;     says seeds $? 1 ": 10 run, 0 skipped, 2 failed; next seed 36"
part seeds 40 10 good;    says seeds $? 1 ": 15 run, 0 skipped, 2 failed; next seed 41"
[[ $(tail -2 <<<"$said" | head -1) == "commit 0000000, changed: 25 run, 0 skipped, 0 failed, seeds 1 to 25" ]] ||
    fail "seeds: the earlier commit is not reported: $said"
mkdir -p "$folder/old"
echo "26 24 1 0 1" >"$folder/old/state"
part old 35 10 good;      says old $? 0 ": 10 run, 0 skipped, 0 failed; next seed 36"
says old 0 0 "commit not known: 24 run, 1 skipped, 0 failed, seeds 1 to 25"
[[ $(wc -l <"$folder/old/earlier.txt") == 1 ]] || fail "old: $(cat "$folder/old/earlier.txt")"

# A folder that holds more than a part's own files keeps it.
for option in --fresh "--seed 5"; do
    mkdir -p "$folder/mine/failed" "$folder/mine/source" "$folder/mine/with"
    touch "$folder"/mine/{thesis,failed.txt,failed/notes,source/main.c,with/care}
    touch "$folder"/mine/{state.json,earlier.txt,chunk.txt,failed.7.txt,failed/7.json}
    echo "26 25 0 0 1" >"$folder/mine/state"
    said=$(tools/nightly.sh verify --cases 0 --folder "$folder/mine" $option 2>&1) || fail "$option: exit $?: $said"
    [[ $(tail -1 <<<"$said") == *": 0 run, 0 skipped, 0 failed; next seed "[15] ]] || fail "$option: $said"
    left=$(cd "$folder/mine" && find . -type f | sort | paste -sd' ')
    [[ $left == "./failed.txt ./failed/notes ./source/main.c ./thesis ./with/care" ]] || fail "$option leaves: $left"
done

# One that is real.
part real 6 4 "$build/test_gradients_by" random; says real $? 0 ": 6 run, 0 skipped, 0 failed; next seed 7"

# What the part builds runs: a build is as itself, and beside one that places a node elsewhere, or ends with another bit, it is not.
spoil() { # program, as, sed script
    printf '#!/bin/bash\n"%s" "$@" | sed "%s"\n' "$(realpath "$build/$1")" "$3" >"$folder/spoiled/$2"
    chmod +x "$folder/spoiled/$2"
}
compare() { said=$(WEFT_TEST_SEED=${1-} WEFT_TEST_CASES=1 python3 tests/plan/two_builds.py "$folder/spoiled" "$build" --base HEAD "${@:2}" 2>&1); }
mkdir "$folder/spoiled"
ln -s "$(realpath "$build/weft-zoo")" "$folder/spoiled"
spoil graphtool graphtool ""; spoil model_bits model_cases ""
compare 1 --count; last=$said # a training; the first case is a plan
for seed in 1 "$last"; do compare "$seed"; says "builds $seed" $? 0 "cases: 1 run, 0 skipped, 0 failed"; done
spoil graphtool graphtool "/^graph train /,/^graph/s/ +0x[0-9a-f]*/ +0x7/"; spoil model_bits model_cases '/^rank 0 end:/s/.$/x/'
compare 1;       says builds $? 1 "DIFFERS: mlp --device cpu --dtype f32 --dump in graph train train"
compare "$last"; says builds $? 1 " in configuration 0 {"
grep -q "before: rank 0 end: .*x$" <<<"$said" || fail "builds does not say which value differs: $said"

((failures)) || echo "parts, counts and seeds: done"
exit $((failures > 0))
