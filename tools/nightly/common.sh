# common.sh - what the parts of nightly.sh share: where a part stands, its deadline, its counts. Sourced by nightly.sh.
# A part's script reads $cases (empty: its own number), $folder (its files), $next_seed; it calls nightly_count after
# each chunk and stops when nightly_time_left fails.

folder='' next_seed=1 run=0 skipped=0 failed=0 deadline=0

nightly_begin() { # part, minutes, seed or '', fresh or ''
    folder=build/nightly/$1
    deadline=$((SECONDS + 60 * $2))
    [[ -z $3$4 ]] || rm -rf "$folder"
    mkdir -p "$folder"
    [[ ! -e $folder/state ]] || read -r next_seed run skipped failed <"$folder/state"
    next_seed=${3:-$next_seed}
    [[ -z $(git status --porcelain --untracked-files=no) ]] || local changed=', changed'
    echo "== $1: commit $(git rev-parse --short HEAD)${changed-}, $(date -u +%F), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), from seed $next_seed"
}

nightly_build() { # preset, target...
    cmake --preset "$1" >/dev/null
    cmake --build "build/$1" ${2:+--target "${@:2}"} >"$folder/build.txt" || { tail -50 "$folder/build.txt"; exit 1; }
}

nightly_time_left() {
    ((SECONDS < deadline))
}

# Adds to the counts and remembers where to go on.
nightly_count() { # next seed, run, skipped, failed
    next_seed=$1 run=$((run + $2)) skipped=$((skipped + $3)) failed=$((failed + $4))
    echo "$next_seed $run $skipped $failed" >"$folder/state.new"
    mv "$folder/state.new" "$folder/state"
}

# A C suite in chunks of seeds; the output of a chunk with failures is kept.
nightly_suite() { # program, cases in all, cases a chunk
    while ((run < $2)) && nightly_time_left; do
        local bad=0
        WEFT_TEST_CASES=$3 WEFT_TEST_SEED=$next_seed "$1" >"$folder/chunk.txt" 2>&1 || bad=1
        if ((bad)); then
            cp "$folder/chunk.txt" "$folder/failed.$next_seed.txt"
            echo "seeds from $next_seed on: $folder/failed.$next_seed.txt"
        fi
        nightly_count $((next_seed + $3)) "$3" 0 "$bad"
    done
}

nightly_end() {
    echo "commit $(git rev-parse --short HEAD): $run run, $skipped skipped, $failed failed; next seed $next_seed"
    ((failed == 0))
}
