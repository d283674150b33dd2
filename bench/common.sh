# shellcheck shell=bash
# common.sh - for the scripts beside it, which source it: options they share, and how a run is recorded.
# The caller has set `me` (its name) and stands in the project's root after `bench_begin`.

# shellcheck disable=SC2154 # me is the caller's
die() { echo "$me: $2" >&2; exit "$1"; }

# check_counts NUMBER...: each at least 1
check_counts() {
    local number
    for number in "$@"; do
        [[ $number =~ ^[1-9][0-9]*$ ]] || die 2 "'$number' is not a count of at least 1"
    done
}

# check_cases "ALL OF THEM" CASE...
check_cases() {
    local all=$1 name
    shift
    for name in "$@"; do
        [[ " $all " == *" $name "* ]] || die 2 "no case '$name'; see --help"
    done
}

# bench_begin BUILD: to the root; the tools must be there.
bench_begin() {
    local tool
    cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
    mkdir -p out/bench
    for tool in graphtool weft-zoo; do
        [[ -x $1/$tool ]] || die 2 "$1/$tool is not there; build first, or say --build=DIR"
    done
}

# find_torch: sets `python` to one that has PyTorch.
# shellcheck disable=SC2034 # python is for the caller
find_torch() {
    local candidate
    python=''
    if [[ -n ${WEFT_TORCH_PYTHON-} ]]; then
        "$WEFT_TORCH_PYTHON" -c 'import torch' || die 2 "WEFT_TORCH_PYTHON=$WEFT_TORCH_PYTHON cannot import torch"
        python=$WEFT_TORCH_PYTHON
        return
    fi
    for candidate in out/torch/bin/python ~/torch/bin/python python3; do
        if "$candidate" -c 'import torch' 2>/dev/null; then
            python=$candidate
            return
        fi
    done
    die 2 "no Python with PyTorch: set WEFT_TORCH_PYTHON, or run bench/compare.sh --install once"
}

# Where a table was made: lines for under it. print_machine PYTHON (without PyTorch it is not named); the caller adds
# what it ran.
print_machine() {
    local flags='' flag commit
    for flag in avx2 fma avx_vnni avx512f avx512_bf16 avx512_fp16 amx_bf16 amx_fp16 asimd sve bf16; do
        if grep -qw -m1 "$flag" /proc/cpuinfo; then flags+=" $flag"; fi
    done
    commit=$(git rev-parse --short HEAD 2>/dev/null) || commit="no commit"
    [[ -z $(git status --porcelain --untracked-files=no 2>/dev/null) ]] || commit+=" with changes"
    echo "- Machine: $(LC_ALL=C lscpu | sed -n 's/^Model name: *//p' | head -n 1), $(nproc --all) cores,$flags;" \
        "$(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo); Linux $(uname -r)"
    echo "- Versions: Weft $commit; $(mpirun --version 2>/dev/null | head -n 1)" \
        "$("$1" -c 'import torch; print(f"; PyTorch {torch.__version__}")' 2>/dev/null)"
}
