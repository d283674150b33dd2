#!/usr/bin/env bash
# setup.sh - installs what Weft needs and this machine lacks: for the first run, or for developing. Safe to run again: with
# everything there it does nothing, and needs no network and no rights.
set -euo pipefail

# A row for each need: the size that has it (faster: developing works without; it comes with others that are missing), its packages by apt, by dnf and by pacman ("-": there is none), and what for.
needs='
run     | build-essential cmake ninja-build pkg-config | gcc gcc-c++ make cmake ninja-build pkgconf | base-devel cmake ninja pkgconf | the build
run     | libdnnl-dev                          | onednn-devel                             | onednn              | oneDNN: convolutions and matrix products
run     | libprotobuf-c-dev protobuf-c-compiler | protobuf-c-devel protobuf-c-compiler     | protobuf-c          | model.bin, event files of TensorBoard
run     | libjansson-dev libxxhash-dev libsodium-dev zlib1g-dev | jansson-devel xxhash-devel libsodium-devel zlib-devel | jansson xxhash libsodium zlib | JSON, hashes, the proof of a token, gzip
run     | libpng-dev libjpeg-dev               | libpng-devel libjpeg-turbo-devel         | libpng libjpeg-turbo | images: the tools need PNG; JPEG is optional
run     | libgraphviz-dev graphviz             | graphviz-devel graphviz                  | graphviz            | pictures of graphs: the tools
run     | fonts-liberation                     | liberation-sans-fonts                    | ttf-liberation      | letters in them
run     | dataset-fashion-mnist                | -                                        | -                   | 70,000 real images of garments
develop | libopenmpi-dev openmpi-bin           | openmpi-devel openmpi                    | openmpi             | ranks over MPI
develop | libucx-dev                           | ucx-devel                                | openucx             | ranks on several machines without MPI
develop | libcunit1-dev python3 valgrind       | CUnit-devel python3 valgrind             | cunit python valgrind | the tests
faster  | mold                                 | mold                                     | mold                | fast links of the tests
develop | doxygen                              | doxygen                                  | doxygen             | the API reference
develop | python3-cffi python3-numpy           | python3-cffi python3-numpy               | python-cffi python-numpy | the Python package
develop | file                                 | file                                     | file                | packages by cpack
develop | chromium                             | chromium                                 | chromium            | tests of pages
'

usage() {
    cat <<'END'
Usage: tools/scripts/setup.sh [run | develop]
Installs by apt what is missing here; with dnf or pacman it prints the command instead: nobody has tried those names yet.

  run       what tools/quickstart.sh needs
  develop   that, and MPI, UCX, the tests, the API reference (default)
  --list    the packages, as the table of docs/install.md
END
}

# The table of docs/install.md.
list() {
    echo "| for | size | Debian | dnf | pacman |"
    echo "|---|---|---|---|---|"
    awk -F' *[|] *' 'NF > 1 { print "| " $5 " | `" $1 "` | `" $2 "` | `" $3 "` | `" $4 "` |" }' <<<"$needs" | sed 's/`-`/-/g'
}

# Whether a package is installed, by each manager.
apt_has() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == *" installed" ]]; }
dnf_has() { rpm -q --whatprovides "$1" >/dev/null 2>&1; }
pacman_has() { pacman -T "$1" >/dev/null 2>&1; }

# Whether rows of this size are wanted: those that are needed, or those that make it faster.
is_wanted() { # size, which: needed or faster
    case $2 in
    needed) [[ $1 == run* || ($1 == develop* && $wanted == develop) ]] ;;
    *) [[ $1 == faster* && $wanted == develop ]] ;;
    esac
}

# Their packages by this manager that are not installed.
missing() { # manager, which
    local size apt dnf pacman names name
    while IFS='|' read -r size apt dnf pacman _; do
        is_wanted "$size" "$2" || continue
        names=${!1}
        for name in $names; do
            [[ $name == - ]] || "$1_has" "$name" || echo "$name"
        done
    done <<<"$needs"
}

wanted=${1-develop}
case $wanted in
run | develop) ;;
--list) list; exit ;;
-h | --help) usage; exit ;;
*) echo "setup.sh: there is no size '$wanted' (run, develop)" >&2; exit 2 ;;
esac

manager=
for name in apt-get dnf pacman; do
    ! command -v "$name" >/dev/null || { manager=${name%-get}; break; }
done
if [[ -z $manager ]]; then
    echo "setup.sh: no apt-get, dnf or pacman here: setup.sh --list names what to install by other means" >&2
    exit 2
fi
mapfile -t packages < <(missing "$manager" needed)
((${#packages[@]})) || exit 0
mapfile -t -O "${#packages[@]}" packages < <(missing "$manager" faster)

as_root=()
((EUID == 0)) || as_root=(sudo)
case $manager in
dnf) by=(dnf install) ;;
pacman) by=(pacman -S --needed) ;;
esac
if [[ $manager != apt ]]; then
    echo "setup.sh: run this, then what you ran again (nobody has tried these names yet; docs/install.md says what each is for):" >&2
    echo "  ${as_root[*]} ${by[*]} ${packages[*]}" >&2
    exit 2
fi
if ((EUID)) && ! command -v sudo >/dev/null; then
    echo "setup.sh: run it as root, or install sudo; missing: ${packages[*]}" >&2
    exit 2
fi
echo "Installing: ${packages[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
