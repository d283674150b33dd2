# common.sh - what the parts of nightly.sh share: how far a part is, its deadline, its counts. Sourced by
# nightly.sh, whose $part, $preset, $program, $seeds, $chunk and options it reads. A part's script runs while
# nightly_goes_on and calls nightly_count after each chunk.
#
# Counts belong to one commit and start at $from_seed. If the commit differs from the last call's, the old
# counts become a line of $folder/earlier.txt and new ones start at 0, while seeds continue.

first_seed='' next_seed='' from_seed='' run=0 skipped=0 failed=0 deadline=0 commit=''

nightly_begin() {
    folder=${folder:-build/nightly/$part}
    deadline=$((SECONDS + 60 * minutes))
    commit=$(nightly_commit)
    [[ -z $seed$is_fresh ]] || nightly_forget
    mkdir -p "$folder"
    nightly_read
    echo "== $part: $commit, $(date -u +%F), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), from seed $next_seed"
}

# What parts write, and nothing else: --folder may name one that holds more.
nightly_forget() {
    rm -f "$folder"/{state,state.new,state.json,state.json.new,earlier.txt,base.txt,build.txt,chunk.txt,failures.txt} \
        "$folder"/failed.[0-9]*.txt "$folder"/case.[0-9]*.txt "$folder"/failed/[0-9]*.json
    [[ ! -d $folder/failed ]] || rmdir --ignore-fail-on-non-empty "$folder/failed"
}

# Where the last call stopped. Older states end with the first seed.
nightly_read() {
    local counted=''
    [[ ! -e $folder/state ]] || read -r next_seed run skipped failed first_seed from_seed counted <"$folder/state"
    first_seed=${first_seed:-${seed:-1}} next_seed=${next_seed:-$first_seed} from_seed=${from_seed:-$first_seed}
    counted=${counted:-commit not known}
    [[ $counted != "$commit" ]] && ((next_seed > from_seed)) || return 0
    echo "$counted: $run run, $skipped skipped, $failed failed, seeds $from_seed to $((next_seed - 1))" >>"$folder/earlier.txt"
    from_seed=$next_seed run=0 skipped=0 failed=0
    nightly_count "$next_seed" 0 0 0
}

nightly_commit() {
    echo "commit $(git rev-parse --short HEAD)$([[ -z $(git status --porcelain --untracked-files=no) ]] || echo ', changed')"
}

nightly_build() {
    tools/scripts/setup.sh
    cmake --preset "$preset" >/dev/null
    cmake --build "build/$preset" --target "$program" >"$folder/build.txt" || { tail -50 "$folder/build.txt"; exit 1; }
}

nightly_goes_on() {
    ((next_seed < first_seed + seeds && SECONDS < deadline))
}

# Adds to the counts and remembers where to continue.
nightly_count() { # next seed, run, skipped, failed
    next_seed=$1 run=$((run + $2)) skipped=$((skipped + $3)) failed=$((failed + $4))
    echo "$next_seed $run $skipped $failed $first_seed $from_seed $commit" >"$folder/state.new"
    mv "$folder/state.new" "$folder/state"
}

# A function in a shell of its own, where the first command that fails ends it: in a condition bash forgets `set -e`. It
# has these variables alone, and what is exported.
nightly_do() { # log, function
    folder=$folder preset=$preset program=$program next_seed=$next_seed python=${python-} bash -euo pipefail -c "$(declare -f); $2" >"$1" 2>&1 || {
        local status=$?
        ((status == 77)) || tail -20 "$1"
        return $status
    }
}

# The next seed as a case that is such a function; status 77: it was skipped, as in ctest.
nightly_case() { # function
    local status=0
    nightly_do "$folder/case.$next_seed.txt" "$1" || status=$?
    if ((status == 77)); then nightly_count $((next_seed + 1)) 0 1 0; else nightly_count $((next_seed + 1)) 1 0 $((status != 0)); fi
}

# A suite in chunks of seeds. The output of a chunk with failures is kept. One that does not tell what it ran, or fewer cases
# than it was asked for, ends the part: no count would be true.
nightly_suite() { # command...
    local n status word more skips fails
    while nightly_goes_on; do
        status=0 n=$((first_seed + seeds - next_seed))
        ((n <= chunk)) || n=$chunk
        OMP_WAIT_POLICY=passive WEFT_TEST_CASES=$n WEFT_TEST_SEED=$next_seed "$@" >"$folder/chunk.txt" 2>&1 || status=$?
        read -r word more _ skips _ fails _ < <(grep -aE '^cases: [0-9]+ run, [0-9]+ skipped, [0-9]+ failed$' "$folder/chunk.txt" | tail -1) || more=
        if [[ -z $more ]] || ((more + skips < n)); then
            cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
            echo "seeds from $next_seed on: exit status $status, ${more:-no count} of $n cases: $folder/failed.$next_seed.txt"
            nightly_end stopped
            exit 1
        fi
        ((status == 0 || fails)) || fails=1 # a check outside of the cases
        if ((fails)); then
            cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
            echo "seeds from $next_seed on: $fails failed: $folder/failed.$next_seed.txt"
        fi
        nightly_count $((next_seed + n)) "$more" "$skips" "$fails"
    done
}

nightly_end() { # a word more
    [[ ! -e $folder/earlier.txt ]] || cat "$folder/earlier.txt"
    echo "$commit: $run run, $skipped skipped, $failed failed; next seed $next_seed${1:+; $1}"
    ((failed == 0))
}
