#!/usr/bin/env bash
# test_find_onednn.sh - cmake/onednn.cmake in a project of its own: which folders with headers and a library it takes, what it says of the
# others, and that another folder takes the place of the first in a build folder that is there.
set -uo pipefail
module=$(cd "$(dirname "$0")/../.." && pwd)/cmake/onednn.cmake
source "$(dirname "$0")/../support/suite.sh"

# made FOLDER VERSION THREADS: what looks like an installation.
made() {
    mkdir -p "$1/lib" "$1/include/oneapi/dnnl"
    touch "$1/lib/libdnnl.so"
    printf '/// Major\n#define DNNL_VERSION_MAJOR %d\n\n#define DNNL_VERSION_MINOR %d\n#define DNNL_VERSION_PATCH %d\n' ${2//./ } \
        >"$1/include/oneapi/dnnl/dnnl_version.h"
    printf '#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_%s\n' "$3" >"$1/include/oneapi/dnnl/dnnl_config.h"
}

# says STATUS TEXT FOLDER: the end of a configuration, without the line breaks of CMake.
says() {
    local status=0
    cmake -S project -B build -DWEFT_ONEDNN="$3" >out 2>&1 || status=1
    [[ $status == "$1" ]] || fail "WEFT_ONEDNN=$3 ends with $status: $(cat out)"
    tr -s ' \n' ' ' <out | grep -qF -- "$2" || fail "WEFT_ONEDNN=$3: it does not say '$2': $(cat out)"
}

mkdir project empty
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.21)
project(finds C)
include($module)
message(STATUS "needs \${DNNL_NEEDS}; installed with \${CMAKE_INSTALL_RPATH}")
END
made good 2.6.3 OMP
made new 3.12.0 OMP
made old 2.5.4 OMP
made next 4.0.0 OMP
made tbb 3.5.1 TBB
mkdir headers
mv new/include headers/
says 1 "There is no oneDNN with its headers in WEFT_ONEDNN=$folder/empty" "$folder/empty"
says 0 "oneDNN 2.6.3: $folder/good/lib/libdnnl.so" "$folder/good"
says 0 "needs $folder/good/lib/libdnnl.so;-Wl,-rpath,$folder/good/lib; installed with $folder/good/lib" "$folder/good"
says 1 "There is no oneDNN with its headers in" "$folder/new"
says 0 "oneDNN 3.12.0: $folder/new/lib/libdnnl.so" "$folder/new;$folder/headers"
says 1 "oneDNN 2.5.4 ($folder/old/lib/libdnnl.so) cannot be used: Weft calls oneDNN 2.6 to 3.x." "$folder/old"
says 1 "oneDNN 4.0.0 ($folder/next/lib/libdnnl.so) cannot be used: Weft calls oneDNN 2.6 to 3.x." "$folder/next"
says 1 "oneDNN 3.5.1 ($folder/tbb/lib/libdnnl.so) was not built for OpenMP" "$folder/tbb"
exit $((failures > 0))
