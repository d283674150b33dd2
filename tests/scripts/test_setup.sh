#!/usr/bin/env bash
# test_setup.sh - tools/scripts/setup.sh on machines that are played here: one with apt, dnf, pacman or none of them is a folder of
# stand-ins, which is all of PATH. What is installed there is in the file `has`; what apt-get was asked for is in `asked`.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export has=$folder/has asked=$folder/asked

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# machine NAME PROGRAM...: what every machine has, and these programs, whose text is standard input
machine() {
    local name=$1 program
    shift
    mkdir -p "$folder/$name"
    for program in bash env cat awk sed grep; do ln -sf "$(command -v $program)" "$folder/$name/$program"; done
    { echo '#!/usr/bin/env bash'; cat; } >"$folder/$name/stand_in"
    chmod +x "$folder/$name/stand_in"
    for program in "$@" sudo; do ln -sf stand_in "$folder/$name/$program"; done
}
machine debian apt-get dpkg-query <<'END'
case ${0##*/} in
dpkg-query) grep -qx -- "${!#}" "$has" && echo "install ok installed" ;;
sudo) exec "$@" ;;
*) echo "$*" >>"$asked" ;;
esac
END
machine fedora dnf rpm <<'END'
case ${0##*/} in
rpm) grep -qx -- "${!#}" "$has" ;;
*) echo "$*" >>"$asked" ;;
esac
END
machine arch pacman <<'END'
if [[ $1 == -T ]]; then grep -qx -- "$2" "$has"; else echo "$*" >>"$asked"; fi
END
machine other </dev/null

# setup MACHINE STATUS ARGUMENT...: its output is in $said, and what apt-get was asked for in $asked
setup() {
    local name=$1 want=$2 status=0
    shift 2
    rm -f "$asked"
    touch "$asked" "$has"
    said=$(PATH=$folder/$name tools/scripts/setup.sh "$@" 2>&1) || status=$?
    ((status == want)) || fail "$name: setup.sh $*: exit status $status, not $want: $said"
}
says() { grep -qF -- "$1" <<<"$said" || fail "it does not say '$1': $said"; }
leaves_out() { ! grep -qE -- "$1" <<<"$said$(<"$asked")" || fail "'$1' is in: $said $(<"$asked")"; }

# An empty machine: each manager is asked for its own names, apt does it, the others' command is printed.
setup debian 0
grep -q -- '-y .*libdnnl-dev.* libopenmpi-dev .*doxygen python3-cffi python3-numpy file chromium mold$' "$asked" || fail "apt-get was asked for: $(<"$asked")"
setup debian 0 run
grep -q -- '-y .*libdnnl-dev.* libgraphviz-dev .*dataset-fashion-mnist$' "$asked" || fail "apt-get was asked for: $(<"$asked")"
leaves_out 'openmpi|ucx|cunit|doxygen|valgrind'
setup fedora 2 run
says "dnf install gcc gcc-c++"
says "onednn-devel"
says "nobody has tried these names yet"
leaves_out 'openmpi|dataset| - '
setup arch 2
says "pacman -S --needed base-devel"
says " openucx "
[[ ! -s $asked ]] || fail "it ran what it should print: $(<"$asked")"
setup other 2
says "setup.sh --list"

# Where a part is installed the rest is asked for; where all is, nothing happens.
columns=(debian fedora arch)
for i in 0 1 2; do
    tools/scripts/setup.sh --list | awk -F' *[|] *' -v column=$((i + 4)) 'NR > 2 { print $column }' | tr -d '`' | tr ' ' '\n' >"$has"
    setup "${columns[i]}" 0
    [[ -z $said && ! -s $asked ]] || fail "${columns[i]}: all is there, but: $said $(<"$asked")"
done
tools/scripts/setup.sh --list | awk -F' *[|] *' 'NR > 2 && $3 == "`run`" { print $4 }' | tr -d '`' | tr ' ' '\n' >"$has"
setup debian 0 run
[[ -z $said && ! -s $asked ]] || fail "what the first run needs is there, but: $said $(<"$asked")"
setup debian 0
leaves_out 'libdnnl-dev'
grep -q libcunit1-dev "$asked" || fail "what developing needs was not asked for: $(<"$asked")"

# What only makes it faster comes with the others, and is no reason to install.
grep -q ' mold' "$asked" || fail "mold was not asked for with the others: $(<"$asked")"
tools/scripts/setup.sh --list | awk -F' *[|] *' 'NR > 2 && $3 != "`faster`" { print $4 }' | tr -d '`' | tr ' ' '\n' >"$has"
setup debian 0
[[ -z $said && ! -s $asked ]] || fail "all that is needed is there, but: $said $(<"$asked")"

setup debian 2 everything
says "there is no size 'everything'"

# docs/install.md has the same table.
for row in $(tools/scripts/setup.sh --list | awk 'NR > 2' | tr ' ' '~'); do
    grep -qFx -- "${row//\~/ }" docs/install.md || fail "docs/install.md lacks the row of setup.sh --list: ${row//\~/ }"
done

((failures == 0)) && echo "setup: all fine"
exit $((failures != 0))
