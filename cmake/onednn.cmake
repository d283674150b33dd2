# onednn.cmake - finds oneDNN: weft_onednn, the target that the library links; DNNL_LIBRARY and DNNL_NEEDS, what a program that
# links the static library needs of it.
#
# ops/cpu/onednn/library.c knows the interfaces of the versions 2.6 to 3.x; another major version has another one.
set(WEFT_ONEDNN "" CACHE PATH "folder of a oneDNN (with lib and include in it) that takes the place of the system's")
if(NOT "${WEFT_ONEDNN}" STREQUAL "${WEFT_ONEDNN_BEFORE}") # what was found belongs to another folder
    unset(DNNL_LIBRARY CACHE)
    unset(DNNL_INCLUDE CACHE)
endif()
set(WEFT_ONEDNN_BEFORE "${WEFT_ONEDNN}" CACHE INTERNAL "WEFT_ONEDNN of the last call")

if(WEFT_ONEDNN)
    set(places PATHS ${WEFT_ONEDNN} NO_DEFAULT_PATH)
    set(where "in WEFT_ONEDNN=${WEFT_ONEDNN}")
else()
    set(places)
    set(where "on this system: install libdnnl-dev, or name a folder that has one by -DWEFT_ONEDNN=")
endif()
find_library(DNNL_LIBRARY dnnl ${places} PATH_SUFFIXES lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE})
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl_version.h ${places} PATH_SUFFIXES include)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE)
    message(FATAL_ERROR "There is no oneDNN with its headers ${where}")
endif()

# ---- version and threads, as its headers say ----
file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h version_lines REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
string(REGEX REPLACE "[^;]*_(MAJOR|MINOR|PATCH) +([0-9]+)[^;]*" "\\2" version_lines "${version_lines}")
string(REPLACE ";" "." DNNL_VERSION "${version_lines}")
if(DNNL_VERSION VERSION_LESS 2.6 OR DNNL_VERSION VERSION_GREATER_EQUAL 4)
    message(FATAL_ERROR "oneDNN ${DNNL_VERSION} (${DNNL_LIBRARY}) cannot be used: Weft calls oneDNN 2.6 to 3.x. "
                        "Name a folder that has one by -DWEFT_ONEDNN=")
endif()
file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_config.h threads REGEX "^#define DNNL_CPU_THREADING_RUNTIME +DNNL_RUNTIME_OMP")
if(NOT threads)
    message(FATAL_ERROR "oneDNN ${DNNL_VERSION} (${DNNL_LIBRARY}) was not built for OpenMP, by which Weft sets its threads. "
                        "Name a folder that has such a one by -DWEFT_ONEDNN=")
endif()
message(STATUS "oneDNN ${DNNL_VERSION}: ${DNNL_LIBRARY}")

add_library(weft_onednn INTERFACE IMPORTED)
target_include_directories(weft_onednn INTERFACE ${DNNL_INCLUDE})
target_link_libraries(weft_onednn INTERFACE ${DNNL_LIBRARY})

# A folder that the loader does not search is named in what is installed.
set(DNNL_NEEDS ${DNNL_LIBRARY})
get_filename_component(folder ${DNNL_LIBRARY} DIRECTORY)
if(WEFT_ONEDNN AND NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES AND NOT DNNL_LIBRARY MATCHES "\\.a$")
    list(APPEND DNNL_NEEDS -Wl,-rpath,${folder})
    list(APPEND CMAKE_INSTALL_RPATH ${folder})
endif()
