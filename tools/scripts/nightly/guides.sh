# guides.sh - follows each guide (docs/adding-*.md) to the letter in a copy of the sources: makes its edits,
# runs its commands, and prints the files that it touched. One case per guide. Sourced by nightly.sh. The copy is
# built without CUDA, which the tests emulate; if nvcc is there, it compiles the kernels that a guide has added.

# The sources as they are here, what is not committed too, as one commit.
guides_copy() { # tree
    rm -rf "$1"
    git clone -q --shared . "$1"
    git diff HEAD --binary >"$1.patch"
    [[ ! -s $1.patch ]] || git -C "$1" apply --index "../$(basename "$1").patch"
    git -C "$1" -c user.name=guides -c user.email=guides commit -q --allow-empty -m "the sources"
}

guides_follow() { # tree, guide
    local kernel nvcc
    cd "$1"
    git reset -q --hard
    git clean -fdq
    tools/scripts/guide.py apply "$2" .
    tools/scripts/guide.py commands "$2" >../commands.sh
    cmake --preset release -DWEFT_CUDA=OFF
    bash -euxo pipefail ../commands.sh
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc) || return 0
    git ls-files --others --exclude-standard '*.cu' | while read -r kernel; do
        "$nvcc" -std=c++17 -arch=sm_90 --Werror all-warnings -I. -Iinclude -DWEFT_HAS_CUDA -c "$kernel" -o ../kernel.o
        echo "nvcc compiles $kernel"
    done
}

guides_touched() { # tree, guide
    echo "$2 touches"
    git -C "$1" add -AN .
    git -C "$1" diff --stat=110
}

guides=(docs/adding-*.md)
if ((seeds && seeds < ${#guides[@]})) && [[ -z $cases ]]; then
    echo "guides: there are ${#guides[@]}, nightly.sh counts $seeds" >&2
    exit 1
fi
tree=$folder/tree
if nightly_goes_on; then guides_copy "$tree"; fi
while nightly_goes_on; do
    guide=${guides[next_seed - 1]-}
    [[ -n $guide ]] || { nightly_count $((next_seed + 1)) 0 1 0; continue; }
    log=$folder/$(basename "$guide" .md).txt guide_failed=0
    # In a shell of its own, where the first command that fails ends it: in a condition bash forgets `set -e`.
    bash -euo pipefail -c "$(declare -f guides_follow); guides_follow $tree $guide" >"$log" 2>&1 || guide_failed=1
    ((guide_failed == 0)) || { echo "$guide: failed ($log)"; tail -30 "$log"; }
    guides_touched "$tree" "$guide"
    grep "^nvcc compiles" "$log" || true
    grep -E "^100% tests passed" "$log" || true
    nightly_count $((next_seed + 1)) 1 0 $guide_failed
done
