#!/usr/bin/env bash
# gpu_carry.sh - packs what building Weft needs beyond a compiler, cmake and ninja, for a GPU machine that has
# neither these libraries nor a network. The result is .gpu_carry/prefix.tar.gz; tools/gpu.sh unpacks it there
# and uses it for what that machine lacks.
#
# Everything comes from the packages that tools/scripts/setup.sh installs here: the libraries of all its -dev
# packages and of the programs below, and what these need (ldd), each under its soname. The C and C++ runtime is never packed: the
# other machine's is as new as ours or newer, and programs built there run with it. ${pcfiledir} in *.pc and
# tools/gpu_env.sh account for the new place.
set -euo pipefail
cd "$(dirname "$0")/.."

triplet=$(gcc -dumpmachine)
lib=usr/lib/$triplet
limit_mib=50
# All that setup.sh installs for compiling, and what such a package stands for (libjpeg-dev: libjpeg62-turbo-dev); Open MPI's is
# taken apart below.
mapfile -t packages < <(tools/scripts/setup.sh --list | awk -F'`' '{print $4}' | grep -oE '(lib[a-z0-9-]+|zlib1g)-dev' | grep -v openmpi)
mapfile -t -O "${#packages[@]}" packages < <(dpkg-query -W -f='${Depends}\n' "${packages[@]}" 2>/dev/null | grep -oE 'libjpeg[a-z0-9-]+-dev')
programs=(protoc-c pkgconf opal_wrapper orterun orted)
runtime='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|gomp))\.so\.'

die() { echo "gpu_carry.sh: $*" >&2; exit 1; }

# needed FILE...: paths of the libraries that these need, theirs too, without the runtime
needed() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
        while read -r path; do [[ ${path##*/} =~ $runtime ]] || echo "$path"; done
}

# take_libraries FILE...: what these need, into the stage
take_libraries() {
    local path
    while read -r path; do cp -Ln "$path" "$stage/$lib/${path##*/}"; done < <(needed "$@")
}

# Headers, and *.pc that say where they are themselves.
take_development() {
    local package path
    for package in "${packages[@]}"; do dpkg -L "$package"; done | grep -E "^/usr/include/|/$triplet/pkgconfig/.*\.pc$" |
        while read -r path; do [[ -d $path ]] || cp -L --parents "$path" "$stage"; done
    sed -i "s|^prefix=/usr\$|prefix=\${pcfiledir}/../../..|" "$stage/$lib"/pkgconfig/*.pc
}

# libX.so for the linker, and what it needs
take_link() {
    local path=$1 to=$2 soname
    soname=$(objdump -p "$path" | awk '$1 == "SONAME" {print $2}')
    cp -Ln "$path" "$stage/$lib/$soname"
    [[ $to == "$stage/$lib/$soname" ]] || ln -sf "$(realpath --relative-to="$(dirname "$to")" "$stage/$lib/$soname")" "$to"
    take_libraries "$path"
}

# Plugins of graphviz that lay out and write, without the drawing libraries of the others.
take_graphviz() {
    local name
    mkdir -p "$stage/$lib/graphviz"
    for name in core dot_layout; do
        cp -L "/$lib/graphviz/libgvplugin_$name.so.6" "$stage/$lib/graphviz/"
        take_libraries "/$lib/graphviz/libgvplugin_$name.so.6"
    done
    GVBINDIR=$stage/$lib/graphviz dot -c
}

# Open MPI: its plugins but those for networks that need more libraries than Open MPI itself does.
take_mpi() {
    local home=$lib/openmpi plugin
    local -A known=()
    mkdir -p "$stage/$home/lib/openmpi3" "$stage/usr/share" "$stage/etc"
    cp -rL "/$home/include" "$stage/$home/"
    cp -rL /usr/share/openmpi "$stage/usr/share/"
    cp -rL /etc/openmpi "$stage/etc/"
    for name in mpi open-rte open-pal; do take_link "/$home/lib/lib$name.so" "$stage/$home/lib/lib$name.so"; done
    take_libraries /usr/bin/orterun "/$lib/pmix2/lib/libpmix.so.2"
    cp -Ln "/$lib/pmix2/lib/libpmix.so.2" "$stage/$lib/"
    while read -r name; do known[$name]=1; done < <(ls "$stage/$lib")
    for plugin in "/$home/lib/openmpi3"/mca_*.so; do
        for path in $(needed "$plugin"); do
            [[ -n ${known[${path##*/}]-} ]] || continue 2
        done
        cp "$plugin" "$stage$plugin"
    done
}

# What a program that was built here needs must be in it: a library that setup.sh does not name is noticed here, not on the GPU.
check_programs() {
    local program path
    for program in build/{release,gpu}/graphtool; do
        [[ -x $program ]] || continue
        while read -r path; do
            [[ -e $stage/$lib/${path##*/} ]] || die "$program needs ${path##*/}, which is in none of the packages of tools/scripts/setup.sh"
        done < <(needed "$program" | grep -v openmpi)
    done
}

# ---- all of it
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
for package in "${packages[@]}" libopenmpi-dev openmpi-bin graphviz protobuf-c-compiler pkgconf; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == *" installed" ]] || die "$package is not installed: run tools/scripts/setup.sh first"
done
mkdir -p "$stage/$lib" "$stage/usr/bin" .gpu_carry
take_development
for package in "${packages[@]}"; do dpkg -L "$package"; done | grep -E "^/$lib/[^/]*\.so\$" |
    while read -r path; do take_link "$path" "$stage$path"; done
for name in "${programs[@]}"; do
    cp -L "/usr/bin/$name" "$stage/usr/bin/"
    take_libraries "/usr/bin/$name"
done
ln -s pkgconf "$stage/usr/bin/pkg-config"
ln -s opal_wrapper "$stage/usr/bin/mpicc"
ln -s orterun "$stage/usr/bin/mpirun"
take_mpi
take_graphviz
check_programs
dpkg-query -W "${packages[@]}" libopenmpi-dev >"$stage/packages.txt"
tar -C "$stage" --owner=0 --group=0 -c . | gzip -9 >.gpu_carry/prefix.tar.gz

bytes=$(stat -c %s .gpu_carry/prefix.tar.gz)
echo ".gpu_carry/prefix.tar.gz: $((bytes / 1048576)) MiB, $(find "$stage" -name '*.so*' -type f | wc -l) libraries and plugins," \
    "$(find "$stage" -name '*.h' -type f | wc -l) headers"
((bytes < limit_mib << 20)) || die "that is above $limit_mib MiB"
