#!/usr/bin/env bash
# test_install.sh - an installed Weft is used from outside, by the project in tests/consumer: C and C++, by CMake and by
# plain make with pkg-config, the shared library and the archive. As part of another project it is configured where
# neither Graphviz, libpng nor CUnit can be found; tools/nightly.sh builds that too.
#
#   test_install.sh PREFIX SANITIZERS [full]    PREFIX: where it was installed; SANITIZERS: flags of its build, or ""
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$1 flags=$2 full=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ -f $prefix/include/weft/weft.h ]] || { echo "nothing is installed in $prefix" >&2; exit 1; }

# A prefix that was moved is as good: nothing in it names where it lay.
cp -r "$prefix" "$work/moved"
prefix=$work/moved
library=$(dirname "$(find "$prefix" -name libweft.a)")
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library:${LD_LIBRARY_PATH-}

# Short runs show each way to build once: the static library by CMake, the shared one by make.
statics=(OFF ON) packages=(weft weft-static) ways=(add_subdirectory FetchContent)
[[ -z ${WEFT_TEST_QUICK:-} ]] || statics=(ON) packages=(weft) ways=(add_subdirectory)

say() { echo "== $*"; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; echo "failed: $*"; exit 1; }; }

configure() { # FOLDER ARGUMENT...
    quietly cmake -S "$root/tests/consumer" -B "$@" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags"
}

for static in "${statics[@]}"; do
    say "find_package, WEFT_STATIC=$static"
    configure "$work/cmake_$static" -DCMAKE_PREFIX_PATH="$prefix" -DWEFT_STATIC=$static
    quietly cmake --build "$work/cmake_$static"
    (cd "$work/cmake_$static" && ./line line.bin && ./line_cpp && ./batches)
    linked=$(ldd "$work/cmake_$static/line")
    [[ $(grep -c 'libweft\.so' <<<"$linked") == $([[ $static == OFF ]] && echo 1 || echo 0) ]] ||
        { echo "line is linked to the wrong library: $linked"; exit 1; }
    if [[ -f $library/libweft_mpi.a && -z $flags ]]; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            mpirun -n 2 --oversubscribe "$work/cmake_$static/ranks"
    fi
    if [[ -f $library/libweft_ucx.a && -x $prefix/bin/graphtool && -z $flags ]]; then
        "$prefix/bin/graphtool" launch -n 2 "$work/cmake_$static/ranks_ucx"
    fi
done

for name in "${packages[@]}"; do
    say "make, pkg-config $name"
    mkdir "$work/$name"
    cp "$root"/tests/consumer/* "$work/$name"
    quietly make -C "$work/$name" WEFT=$name TRAIN=${name/weft/weft-train} CC="${CC-cc} $flags" CXX="${CXX-c++} $flags"
    (cd "$work/$name" && ./line line.bin && ./line_cpp && ./batches)
done
say "a header with a field more in each structure, and Python"
cp -r "$prefix/include" "$work/later"
sed -i 's/uint64_t reserved\[WEFT_RESERVED\]/uint64_t later, reserved[WEFT_RESERVED - 1]/' "$work"/later/weft/*.h
quietly ${CC-cc} $flags -I "$work/later" "$root"/tests/consumer/{line,own_names}.c -L "$library" -lweft -o "$work/later/line"
(cd "$work/later" && ./line)
[[ -n $flags ]] || "$root/tests/consumer/binding.py" "$prefix" "$library/libweft.so" "${CC-cc}"

[[ $(pkg-config --static --libs weft) == *-lprotobuf-c* ]] || { echo "pkg-config --static leaves something out"; exit 1; }

# What bash would offer after these words, the last of which is being typed.
offered() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _graphtool
    echo "${COMPREPLY[*]}"
}

check_offer() { # EXPECTED WORD...
    local found
    found=$(offered "${@:2}")
    [[ $found == "$1" ]] || { echo "completion of '${*:2}' is '$found', not '$1'"; exit 1; }
}

# The pages and the completion hold what --help, which is printed by other code, says.
check_manual() {
    local command option pages=$prefix/share/man/man1
    source "$prefix/share/bash-completion/completions/graphtool"
    for command in $("$prefix/bin/graphtool" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        for option in $("$prefix/bin/graphtool" "$command" --help | grep -oE '^ +(-.,)? *--[a-z0-9-]+' | grep -oE '\--.*'); do
            grep -qF -- "${option//-/\\-}\fR" "$pages/graphtool-$command.1" || { echo "graphtool-$command(1) lacks $option"; exit 1; }
            [[ " $(offered graphtool "$command" "$option") " == *" $option"[=\ ]* ]] || { echo "$command $option is not offered"; exit 1; }
            grep -q "'\*\?$option[=[]" "$prefix/share/zsh/site-functions/_graphtool" || { echo "zsh: $option is not offered"; exit 1; }
        done
    done
    check_offer "bench" graphtool be
    check_offer "avx2 avx512" graphtool plan model.bin --isa = av
    check_offer "svg" graphtool dot model.bin -T s
    check_offer "consolidate" graphtool ckpt con
    check_offer "--json" graphtool info model.bin --j
    if command -v groff >/dev/null; then
        [[ -z $(groff -man -ww -z -Tutf8 "$pages"/*.1 2>&1) ]] || { groff -man -ww -z -Tutf8 "$pages"/*.1; exit 1; }
    fi
    if command -v zsh >/dev/null; then zsh -n "$prefix/share/zsh/site-functions/_graphtool"; fi
}

say "documents"
documents=$prefix/share/doc/weft
python3 "$root/tests/scripts/links.py" "$documents"
! grep -rlE '\]\((\.\./)*(graph|ops|dist|runtime|tools|tests)/' "$documents" || { echo "links into the sources are installed"; exit 1; }
quietly ${CC-cc} -std=c11 $flags "$documents/examples/gan.c" $(pkg-config --cflags --libs weft-train-static) -o "$work/gan"

say "programs"
if [[ -x $prefix/bin/graphtool ]]; then
    check_manual
    "$prefix/bin/weft-zoo" mlp -o "$work/mlp.bin"
    quietly "$prefix/bin/graphtool" plan "$work/mlp.bin"
    quietly "$prefix/bin/graphtool" info "$work/weft/line.bin"
fi

# ---- part of another project, where only what the library needs can be found ----
mkdir "$work/packages"
for name in jansson libprotobuf-c libsodium zlib; do
    found=$(PKG_CONFIG_PATH='' pkg-config --variable pcfiledir "$name")
    cp "$found/$name.pc" "$work/packages"
done
for by in "${ways[@]}"; do
    say "$by"
    PKG_CONFIG_LIBDIR=$work/packages PKG_CONFIG_PATH='' configure "$work/$by" -G Ninja -DCONSUMER_BY=$by \
        -DWEFT_SOURCE="$root" -DWEFT_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON
    if [[ $full ]]; then
        quietly cmake --build "$work/$by"
        (cd "$work/$by" && ./line line.bin && ./line_cpp && ./batches)
    else
        quietly cmake --build "$work/$by" -- -n line line_cpp batches
    fi
    [[ $(grep -c graphtool "$work/$by/build.ninja") == 0 ]] || { echo "graphtool is built though nobody asked"; exit 1; }
done
echo "consumers: all fine"
