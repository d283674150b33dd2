# cuda.cmake - the CUDA backend, where a toolkit is: sets WEFT_HAS_CUDA, CUDA_SOURCES, and the function cuda_into(library).
#
# cuBLASLt, cuDNN, NVRTC and NCCL are not linked but loaded at their first call (cmake/late.py): linked,
# cuBLASLt alone adds 0.18 s to the start of every program, and none would start where they are not installed. That
# all their functions are there is proved at build time, by linking cuda_link_check to them. libcuda.so.1, the driver,
# is loaded by CUDA's runtime in the same way.
#
#   WEFT_CUDA       AUTO (where a toolkit is found), ON, OFF
#   WEFT_CUDA_ROOT  where else to look: a toolkit, or a python's site-packages/nvidia

set(WEFT_CUDA AUTO CACHE STRING "the CUDA backend: AUTO (where nvcc and its libraries are found), ON, OFF")
set(WEFT_CUDA_ROOT "" CACHE PATH "a CUDA toolkit, or a folder of NVIDIA's Python wheels (site-packages/nvidia)")
set(WEFT_HAS_CUDA OFF)
set(CUDA_MISSING "")
set(CUDA_STATE "CUDA: left out (WEFT_CUDA=OFF)")

if(NOT WEFT_CUDA STREQUAL "OFF")
    # ---- where to look: hints, the toolkit of nvcc, wheels beside the python that is found first ----
    set(CUDA_PLACES ${WEFT_CUDA_ROOT} /usr/local/cuda)
    find_program(CUDA_PYTHON NAMES python3)
    if(CUDA_PYTHON)
        execute_process(COMMAND ${CUDA_PYTHON} -c "import site; print(';'.join(site.getsitepackages()))"
                        OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    foreach(folder ${site_packages} ${WEFT_CUDA_ROOT})
        file(GLOB wheels ${folder}/nvidia/* ${folder}/*/include)
        string(REGEX REPLACE "/include(;|$)" "\\1" wheels "${wheels}")
        list(APPEND CUDA_PLACES ${wheels})
    endforeach()

    if(NOT CMAKE_CUDA_COMPILER)
        find_program(CUDA_NVCC NAMES nvcc HINTS ENV CUDACXX PATHS ${CUDA_PLACES} PATH_SUFFIXES bin)
    endif()
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "machine code for these, PTX of the last one for newer")
    endif()
    if(CUDA_NVCC AND NOT CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_COMPILER ${CUDA_NVCC})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
        list(APPEND CUDA_MISSING nvcc)
    endif()

    # ---- libraries and headers ----
    foreach(library cublasLt cudnn nvrtc nccl)
        find_path(CUDA_${library}_INCLUDE ${library}.h PATHS ${CUDA_PLACES} PATH_SUFFIXES include)
        find_library(CUDA_${library}_LIBRARY # wheels lack the names without a version
                     NAMES ${library} lib${library}.so.13 lib${library}.so.12 lib${library}.so.9 lib${library}.so.2
                     PATHS ${CUDA_PLACES} PATH_SUFFIXES lib64 lib)
        if(NOT CUDA_${library}_INCLUDE OR NOT CUDA_${library}_LIBRARY)
            list(APPEND CUDA_MISSING ${library})
        endif()
        list(APPEND CUDA_INCLUDES ${CUDA_${library}_INCLUDE})
        list(APPEND CUDA_LIBRARIES ${CUDA_${library}_LIBRARY})
    endforeach()
    if(CUDA_nccl_INCLUDE) # ncclCommSplit is of 2.18
        file(STRINGS ${CUDA_nccl_INCLUDE}/nccl.h nccl_version REGEX "^#define NCCL_VERSION_CODE [0-9]+")
        string(REGEX MATCH "[0-9]+$" nccl_version "${nccl_version}")
        if(nccl_version LESS 21800)
            list(APPEND CUDA_MISSING "nccl 2.18 or later")
        endif()
    endif()
    find_path(CUDA_cudart_INCLUDE cuda_runtime_api.h PATHS ${CUDA_PLACES} PATH_SUFFIXES include)
    find_library(CUDA_cudart_LIBRARY NAMES cudart_static PATHS ${CUDA_PLACES} PATH_SUFFIXES lib64 lib)
    if(NOT CUDA_cudart_INCLUDE OR NOT CUDA_cudart_LIBRARY)
        list(APPEND CUDA_MISSING cudart)
    endif()
    list(APPEND CUDA_INCLUDES ${CUDA_cudart_INCLUDE})
    list(REMOVE_DUPLICATES CUDA_INCLUDES)

    find_program(CUDA_OBJDUMP NAMES objdump)
    foreach(program CUDA_PYTHON CUDA_OBJDUMP) # cmake/late.py
        if(NOT ${program})
            list(APPEND CUDA_MISSING ${program})
        endif()
    endforeach()
    if(NOT CUDA_MISSING)
        set(WEFT_HAS_CUDA ON)
    elseif(WEFT_CUDA STREQUAL "ON")
        list(JOIN CUDA_MISSING ", " CUDA_MISSING)
        message(FATAL_ERROR "WEFT_CUDA=ON, but these were not found: ${CUDA_MISSING} (WEFT_CUDA_ROOT=... says where)")
    else()
        list(JOIN CUDA_MISSING ", " CUDA_MISSING)
        set(CUDA_STATE "CUDA: no toolkit here, left out (missing: ${CUDA_MISSING})")
    endif()
endif()

if(WEFT_HAS_CUDA)
    enable_language(CXX)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CUDA_STATE "CUDA: compiled and linked (nvcc ${CMAKE_CUDA_COMPILER_VERSION})")
    file(GLOB_RECURSE CUDA_SOURCES CONFIGURE_DEPENDS ops/cuda/*.cu runtime/session/cuda/*.cu runtime/session/cuda/*.c dist/nccl/*.c dist/nccl/*.cu)
    file(GLOB_RECURSE CUDA_HEADERS CONFIGURE_DEPENDS ops/cuda/*.cuh ops/cuda/*.h runtime/session/cuda/*.h dist/nccl/*.h)
    # Whose bits are the CPU's, and do not depend on where an element lies in its buffer.
    set_source_files_properties(ops/cuda/random/random.cu ops/cuda/optimizer/update.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
    set(LATE ${PROJECT_BINARY_DIR}/late)
    list(JOIN CUDA_INCLUDES "," CUDA_COMMA_INCLUDES)
    add_custom_command(
        OUTPUT ${LATE}/late.c ${LATE}/link_check.c
        COMMAND ${CUDA_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/late.py ${LATE} ${CMAKE_C_COMPILER} "${CUDA_COMMA_INCLUDES}"
                ${CUDA_LIBRARIES} -- ${CUDA_SOURCES} ${CUDA_HEADERS}
        DEPENDS cmake/late.py ${CUDA_SOURCES} ${CUDA_HEADERS}
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
    add_executable(cuda_link_check ${LATE}/link_check.c)
    target_link_libraries(cuda_link_check PRIVATE ${CUDA_LIBRARIES})
endif()
file(WRITE ${PROJECT_BINARY_DIR}/cuda_state.txt "${CUDA_STATE}\n") # tools/test.sh prints it

# Adds the backend to a library, or nothing where there is no toolkit.
function(cuda_into library)
    if(NOT WEFT_HAS_CUDA)
        return()
    endif()
    target_sources(${library} PRIVATE ${CUDA_SOURCES} ${LATE}/late.c)
    target_compile_definitions(${library} PRIVATE WEFT_HAS_CUDA)
    target_include_directories(${library} SYSTEM PRIVATE ${CUDA_INCLUDES})
    # 20012: a defaulted function's __device__ is ignored; 1675: a #pragma of the host compiler's
    target_compile_options(${library} PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --expt-extended-lambda -diag-suppress=1675
        -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-Wno-unused-parameter>)
    target_link_libraries(${library} PRIVATE ${CUDA_cudart_LIBRARY} ${CMAKE_DL_LIBS} rt stdc++)
    add_dependencies(${library} cuda_link_check)
endfunction()
