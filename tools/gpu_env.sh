# shellcheck shell=bash
# gpu_env.sh - makes libraries available on a machine where nothing can be installed; sourced by tools/gpu.sh.
# The system's own are used where it has them; the others come from .gpu_carry/prefix.tar.gz (made by
# tools/gpu_carry.sh). cmake finds CUDA's libraries itself, in the toolkit or in PyTorch's wheels.

# env_lacks: what the build needs and neither the system nor what was set up so far has; nothing when all is there.
env_lacks() {
    local name
    for name in pkg-config protoc-c cmake ninja; do command -v "$name" >/dev/null || echo "$name"; done
    for name in libcgraph libgvc jansson libprotobuf-c libsodium libpng zlib cunit; do
        pkg-config --exists "$name" 2>/dev/null || echo "$name"
    done
    for name in dnnl.h xxhash.h; do
        gcc -E -x c - <<<"#include <$name>" >/dev/null 2>&1 || echo "$name"
    done
}

# Libraries that this system has under the same soname take the place of those carried: programs of the system that
# see our LD_LIBRARY_PATH (Python, cmake) were built with theirs, which may be newer.
prefer_system() {
    local lib=$1 path
    while read -r path; do
        [[ -f $lib/${path##*/} ]] && ln -sf "$path" "$lib/${path##*/}"
    done < <(ldconfig -p | awk '/=> \// {print $NF}' | sort -u)
    return 0
}

# env_prefix TAR FOLDER: unpacks it there (once) and makes compiler, linker, loader, pkg-config and cmake look there.
env_prefix() {
    local tar=$1 to=$2 lib
    if [[ ! -e $to/packages.txt || $tar -nt $to/packages.txt ]]; then
        rm -rf "$to"
        mkdir -p "$to"
        tar -xzf "$tar" -C "$to" || return 1
        touch "$to/packages.txt"
        prefer_system "$to/usr/lib/$(gcc -dumpmachine)"
    fi
    to=$(realpath "$to")
    lib=$to/usr/lib/$(gcc -dumpmachine)
    export PATH="$to/usr/bin:$PATH" LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LIBRARY_PATH="$lib${LIBRARY_PATH:+:$LIBRARY_PATH}" CPATH="$to/usr/include${CPATH:+:$CPATH}"
    export PKG_CONFIG_PATH="$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    export CMAKE_PREFIX_PATH="$to/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}" GVBINDIR="$lib/graphviz"
    # Open MPI's own way to be moved
    export OPAL_PREFIX=$to/usr OPAL_LIBDIR=$lib/openmpi/lib OPAL_PKGLIBDIR=$lib/openmpi/lib/openmpi3 \
        OPAL_INCLUDEDIR=$lib/openmpi/include OPAL_DATADIR=$to/usr/share OPAL_PKGDATADIR=$to/usr/share/openmpi \
        OPAL_SYSCONFDIR=$to/etc/openmpi OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        PMIX_MCA_pcompress_base_silence_warning=1
    command -v ssh >/dev/null || export OMPI_MCA_plm=isolated # one machine, and nothing to reach another with
}
