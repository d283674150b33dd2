# tests.cmake - the tests: each tests/*/test_*.c is a CUnit suite and a process of its own; scripts beside them start programs.
# `tools/test.sh` runs each once, in the build where it finds most: the suites under the sanitizers, except for those of
# RELEASE_SUITES; scripts in the release build. In a build, what belongs to it has the label `home`, and the target of that
# name builds what it needs. `quick`: what `tools/test.sh --quick` runs of the release build; `sample`: what runs again as on
# older processors (WEFT_TEST_ISA), the cheap ones of the suites that ask the processor. `tools/nightly.sh suites` runs all
# in both builds, at full length. Those for a real GPU have the label `gpu` alone (tests/cuda_host/CMakeLists.txt).
enable_testing()
add_custom_target(home)
add_custom_target(quick)
add_custom_target(sample)
set(RELEASE_SUITES
    # kernels on many inputs
    test_ops test_simd_sweep test_onednn_sweep test_sums test_models test_minimize test_gradients test_gradients_by
    # long trainings, signals, steps
    test_precision_training test_goldens test_signals test_steps
    # plans and bits of many worlds
    test_worlds_bits test_deferred test_poison test_verify test_verify_runs test_verify_mutants test_plan_back
    # trainings of which each call fails once
    test_trainer_faults test_checkpoints test_resume
    # many starts of graphtool
    test_tools test_tools_bench test_tools_config test_tools_effects test_tools_files test_tools_options test_tools_plan
    test_tools_set test_tools_train)
# Nearly 200 programs link the whole library: GNU ld takes 0.8 s for each, mold 0.1 s.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=mold WEFT_LINKS_BY_MOLD)
if(WEFT_LINKS_BY_MOLD)
    add_link_options(-fuse-ld=mold)
endif()
pkg_check_modules(CUNIT REQUIRED IMPORTED_TARGET cunit)
file(GLOB TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c tests/support/*/*.c)
if(TEST_SUPPORT)
    add_library(test_support STATIC ${TEST_SUPPORT})
    target_include_directories(test_support PUBLIC . tests ${GENERATED})
    target_link_libraries(test_support PUBLIC zoo weft_train_internal weft_internal PkgConfig::CUNIT PkgConfig::JANSSON m)
    target_compile_definitions(test_support PRIVATE TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
                                                    TEST_TOOLS="${PROJECT_BINARY_DIR}")
    # What the processor has is asked of tests/support/isa.c, by the library too.
    target_link_options(test_support INTERFACE -Wl,--wrap=isa_best -Wl,--undefined=__wrap_isa_best)
endif()
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_SOURCE_DIR}/tests/environment.cmake)
file(GLOB TEST_SOURCES CONFIGURE_DEPENDS tests/*/test_*.c)
list(FILTER TEST_SOURCES EXCLUDE REGEX "/tests/cuda/") # tests/cuda_host builds these
if(WEFT_INSTRUMENTED)
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_steps\\.c$") # it counts what the compiler put in
endif()
if(NOT WEFT_X86_64)
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_onednn_sweep\\.c$") # its rows are x86-64's instruction sets
endif()
foreach(source ${TEST_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE test_support ZLIB::ZLIB OpenMP::OpenMP_C)
    target_compile_definitions(${name} PRIVATE TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
                                               TEST_TOOLS="${PROJECT_BINARY_DIR}")
    add_test(NAME ${name} COMMAND ${name})
    list(APPEND SUITES ${name})
endforeach()
if(NOT WEFT_INSTRUMENTED) # sanitizers have a malloc of their own
    add_library(fail_malloc SHARED tests/preload/fail_malloc.c)
    set_target_properties(fail_malloc PROPERTIES C_VISIBILITY_PRESET default)
    add_dependencies(test_tools_files fail_malloc)
    add_library(kill_at SHARED tests/preload/kill_at.c)     # test_resume_kills
    add_library(full_disk SHARED tests/preload/full_disk.c) # test_tools_checkpoints
    set_target_properties(kill_at full_disk PROPERTIES C_VISIBILITY_PRESET default)
    target_compile_definitions(test_tools_files PRIVATE FAIL_MALLOC="$<TARGET_FILE:fail_malloc>")
endif()
set(HOSTILE_SOURCES tests/fuzz/hostile_config.c tests/fuzz/hostile_lost.c)
target_sources(test_hostile_tools PRIVATE ${HOSTILE_SOURCES})
add_executable(fuzz tests/fuzz/fuzz.c ${HOSTILE_SOURCES}) # tools/nightly.sh fuzz compiles it for afl++
target_link_libraries(fuzz PRIVATE test_support)
add_test(NAME test_fuzz COMMAND fuzz --replay ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus)
foreach(name test_options test_statistics test_hostile_tools test_rings test_pictures test_drawn test_guard test_tools_effects
        test_tools_diff test_view fuzz)
    target_link_libraries(${name} PRIVATE commands)
endforeach()
add_executable(spoiled_graphtool tests/tools/spoiled_compile.c tools/graphtool/graphtool.c) # a graphtool with a wrong compiler
target_link_libraries(spoiled_graphtool PRIVATE test_support commands)
target_link_options(spoiled_graphtool PRIVATE -Wl,--wrap=weft_compile)
add_dependencies(test_tools_plan spoiled_graphtool)
target_sources(test_settings PRIVATE tests/support/scopes.cpp) # the headers are for C++ too
# ---- steps are counted in sources that are compiled once more for that (tests/plan/test_steps.c) ----
if(NOT WEFT_INSTRUMENTED)
    set(COUNTED_SOURCES ${WEFT_SOURCES})
    list(FILTER COUNTED_SOURCES INCLUDE REGEX "/(graph|ops|runtime)/[a-z0-9_/]*\\.c$")
    list(FILTER COUNTED_SOURCES EXCLUDE REGEX "/ops/cpu/")
    add_library(counted OBJECT ${COUNTED_SOURCES})
    add_dependencies(counted weft_core) # model.pb-c.h
    target_include_directories(counted PRIVATE include . ${GENERATED})
    target_link_libraries(counted PRIVATE ${WEFT_LINKS})
    target_compile_options(counted PRIVATE -O1 -fno-builtin -fsanitize-coverage=trace-pc)
    target_sources(test_steps PRIVATE $<TARGET_OBJECTS:counted>)
    foreach(call memset memcpy memmove memcmp strlen strcmp strncmp)
        target_link_options(test_steps PRIVATE -Wl,--wrap=${call})
    endforeach()
endif()

if(WEFT_HAS_CUDA) # NVRTC needs no GPU
    target_include_directories(test_fuse_source SYSTEM PRIVATE ${CUDA_INCLUDES})
    target_compile_definitions(test_fuse_source PRIVATE WEFT_HAS_CUDA)
endif()

# tiny cases: threads that spin cost most
set_tests_properties(test_signals PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
if(WEFT_X86_64)
    set_tests_properties(test_onednn_sweep PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()

# ---- kernels, streams and events on a GPU that is emulated on the CPU; on a real one where CUDA is ----
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("int main() { struct { char c; int i; } s; __builtin_clear_padding(&s); }" WEFT_CLEARS_PADDING)
if(WEFT_X86_64 AND WEFT_CLEARS_PADDING) # it switches stacks, and looks for addresses in kernels' arguments
    add_subdirectory(tests/cuda_host)
endif()

# ---- communicators between processes: one program, started by mpirun ----
add_executable(comm_ranks tests/dist/comm_ranks.c)
target_link_libraries(comm_ranks PRIVATE weft_train_internal weft_mpi_internal weft_ucx_internal test_support)
add_test(NAME test_comm_mpi COMMAND ${PROJECT_SOURCE_DIR}/tests/dist/test_comm_mpi.sh $<TARGET_FILE:comm_ranks>)
add_test(NAME test_comm_ucx COMMAND ${PROJECT_SOURCE_DIR}/tests/dist/test_comm_mpi.sh $<TARGET_FILE:comm_ranks> $<TARGET_FILE:graphtool> ucx)
add_test(NAME test_comm_local COMMAND ${PROJECT_SOURCE_DIR}/tests/dist/test_comm_mpi.sh $<TARGET_FILE:comm_ranks> $<TARGET_FILE:graphtool> local)
add_test(NAME test_comm_memory COMMAND ${PROJECT_SOURCE_DIR}/tests/dist/test_comm_memory.sh $<TARGET_FILE:comm_ranks>)
add_test(NAME test_tools_mpi COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_mpi.sh ${PROJECT_BINARY_DIR})
add_test(NAME test_tools_launch COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_launch.sh ${PROJECT_BINARY_DIR})
add_test(NAME test_tools_checkpoints COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_checkpoints.sh ${PROJECT_BINARY_DIR})
add_test(NAME test_tools_ckpt COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_ckpt.sh ${PROJECT_BINARY_DIR})
add_test(NAME test_tools_ranks COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_ranks.sh ${PROJECT_BINARY_DIR})
add_test(NAME test_tools_ranks_ucx COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/test_tools_ranks.sh ${PROJECT_BINARY_DIR} all ucx)
set_tests_properties(test_tools_ranks test_tools_ranks_ucx PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME test_resume_kills COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/files/test_resume_kills.py ${PROJECT_BINARY_DIR})
set_tests_properties(test_tools_checkpoints test_tools_ckpt test_resume_kills PROPERTIES TIMEOUT 600)
set_tests_properties(test_comm_mpi test_comm_ucx test_comm_local test_comm_memory test_tools_mpi test_tools_launch PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
set_tests_properties(test_tools_mpi test_tools_launch PROPERTIES TIMEOUT 900) # many starts of ranks, which a busy machine makes slow
set_tests_properties(test_comm_mpi test_comm_ucx test_comm_local test_comm_memory PROPERTIES RESOURCE_LOCK ranks) # they have limits of time

# ---- small models under valgrind; sanitizers have eyes of their own ----
if(NOT WEFT_INSTRUMENTED)
    add_test(NAME test_valgrind COMMAND ${PROJECT_SOURCE_DIR}/tests/plan/test_valgrind.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(test_valgrind PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()

# ---- the page of `graphtool view`, in a browser ----
add_test(NAME test_view_page COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/tools/test_view_page.py ${PROJECT_BINARY_DIR})
set_tests_properties(test_view_page PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)

# ---- the long tests, without their length ----
add_test(NAME test_nightly COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_nightly.sh ${PROJECT_BINARY_DIR})

# ---- which oneDNN a build takes ----
add_test(NAME test_find_onednn COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_find_onednn.sh)

# ---- what is installed before the build, on simulated machines ----
add_test(NAME test_setup COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_setup.sh)

# ---- the scripts for a GPU, with stand-ins for GPU, tests and profilers ----
add_test(NAME test_gpu_scripts COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_gpu_scripts.sh)

# ---- models given as text, for tests/models ----
add_executable(model_cases tests/pytorch/model_cases.c)
target_link_libraries(model_cases PRIVATE test_support)
add_dependencies(test_models model_cases)
add_executable(model_bits tests/plan/model_bits.c)
target_link_libraries(model_bits PRIVATE test_support)

# ---- a loop that must not grow, for tests/train/soak.py ----
add_executable(soak_loop tests/train/soak_loop.c)
target_link_libraries(soak_loop PRIVATE weft::train)

# ---- rules of the sources, and documents that must stay true ----
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(CXX_COMPILER NAMES g++ clang++ c++ REQUIRED) # public headers are for C++ too
if(WEFT_SANITIZE)
    set(SANITIZERS "-fsanitize=address,undefined")
else()
    set(LIBRARY_CHECK --library $<TARGET_FILE:weft_internal> --library $<TARGET_FILE:weft_train_internal>) # sanitizers put data of their own into it
endif()
add_test(NAME check_includes COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_includes.py
         --cc ${CMAKE_C_COMPILER} --cxx ${CXX_COMPILER} ${LIBRARY_CHECK})
add_test(NAME check_symbols COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_symbols.py ${PROJECT_BINARY_DIR}
         --cc ${CMAKE_C_COMPILER})
add_test(NAME example_toy COMMAND ${PROJECT_SOURCE_DIR}/tests/pytorch/test_toy.sh $<TARGET_FILE:weft-toy>)
add_test(NAME example_own_optimizer COMMAND weft-own-optimizer ${PROJECT_BINARY_DIR}/own_optimizer.bin)
add_test(NAME example_own_op COMMAND weft-own-op ${PROJECT_BINARY_DIR}/own_op.bin ${PROJECT_BINARY_DIR}/own_op.safetensors)
if(TARGET weft-own-strategy)
    add_test(NAME example_own_strategy COMMAND ${PROJECT_SOURCE_DIR}/tests/worlds/test_own_strategy.sh $<TARGET_FILE:weft-own-strategy>)
endif()
add_test(NAME check_settings COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_settings.py)
add_test(NAME check_models COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_models.py)
add_test(NAME check_style COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_style.py)
add_test(NAME check_words COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_words.py)
add_test(NAME check_clock COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_clock.py)
add_test(NAME test_bench COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/scripts/test_bench.py)
add_test(NAME check_rows COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_rows.py)
if(DOXYGEN)
    add_test(NAME check_reference COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_reference.py
             ${DOXYGEN} ${REFERENCE_DIR} --cc ${CMAKE_C_COMPILER})
endif()
if(TARGET python)
    foreach(name abi build session train own mistakes onnx examples)
        add_test(NAME test_python_${name} COMMAND ${PYTHON_WITH_CFFI} ${PROJECT_SOURCE_DIR}/python/tests/test_${name}.py)
        set_tests_properties(test_python_${name} PROPERTIES
            ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;WEFT_GRAPHTOOL=$<TARGET_FILE:graphtool>;PYTHONDONTWRITEBYTECODE=1")
    endforeach()
    # PyTorch modules as graphs: by a Python that has torch, too.
    foreach(python $ENV{WEFT_TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/build/venv/bin/python ${PYTHON_WITH_CFFI})
        execute_process(COMMAND ${python} -c "import sys, importlib.util as u; sys.exit(not (u.find_spec('torch') and u.find_spec('cffi')))"
                        RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
        if(missing STREQUAL "0")
            set(PYTHON_WITH_TORCH ${python})
            break()
        endif()
    endforeach()
    if(NOT PYTHON_WITH_TORCH)
        set(PYTHON_WITH_TORCH ${PYTHON_WITH_CFFI}) # the test is skipped, and counted
    endif()
    add_test(NAME test_python_torch COMMAND ${PYTHON_WITH_TORCH} ${PROJECT_SOURCE_DIR}/python/tests/test_torch.py)
    set_tests_properties(test_python_torch PROPERTIES SKIP_RETURN_CODE 77
        ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1;OMP_NUM_THREADS=1")
    set(PYTHON_DOCS --python ${PYTHON_WITH_CFFI} --package ${PROJECT_BINARY_DIR}/python)
endif()
add_test(NAME test_docs COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/scripts/test_docs.py
         --prefix ${PROJECT_BINARY_DIR}/prefix --graphtool $<TARGET_FILE:graphtool> --cc ${CMAKE_C_COMPILER}
         --cxx ${CXX_COMPILER} --flags=${SANITIZERS} ${PYTHON_DOCS})
set_tests_properties(test_docs PROPERTIES SKIP_RETURN_CODE 77)
add_executable(zoo_curve tests/zoo/zoo_curve.c)
target_link_libraries(zoo_curve PRIVATE test_support)
add_test(NAME test_zoo COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/pytorch/test_zoo.py $<TARGET_FILE:zoo_curve>)
add_test(NAME test_from_pytorch COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/pytorch/test_from_pytorch.py
         --prefix ${PROJECT_BINARY_DIR}/prefix --graphtool $<TARGET_FILE:graphtool> --cc ${CMAKE_C_COMPILER}
         --flags=${SANITIZERS})

# ---- what takes longest begins first, so that nothing waits for it at the end; ctest measures from the second time on ----
set(LONGEST test_tools_mpi test_docs test_tools_checkpoints test_tools_launch test_pictures test_tools_files test_tools_ranks test_ops test_comm_ucx
    test_tools_config test_zoo test_view_page test_tools_ranks_ucx test_resume_kills test_guard test_comm_mpi test_comm test_hostile test_bench test_steps
    test_tools_ckpt test_valgrind test_comm_memory test_tools_effects test_worlds_groups test_gradients test_signals test_meet test_bad_steps)
set(cost 90)
foreach(name ${LONGEST})
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
    math(EXPR cost "${cost} - 1")
endforeach()

# ---- what is installed, and programs that use it ----
if(WEFT_INSTALL AND WEFT_SHARED)
    set(PREFIX ${PROJECT_BINARY_DIR}/prefix)
    add_test(NAME install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${PREFIX})
    add_test(NAME check_exports COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/rules/check_exports.py ${PREFIX}
             --cc ${CMAKE_C_COMPILER})
    add_test(NAME test_install COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_install.sh ${PREFIX} "${SANITIZERS}")
    set_tests_properties(install PROPERTIES FIXTURES_SETUP installed)
    set_tests_properties(check_exports test_install test_docs test_from_pytorch PROPERTIES FIXTURES_REQUIRED installed)
    set_tests_properties(test_install PROPERTIES TIMEOUT 300 ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER}")
endif()

# ---- what tools/test.sh runs in this build, and with --quick ----
set(SANITIZED_SUITES ${SUITES})
list(REMOVE_ITEM SANITIZED_SUITES ${RELEASE_SUITES})
if(WEFT_SANITIZE)
    set(home ${SANITIZED_SUITES} test_fuzz)
    set(needs graphtool weft-zoo fuzz)
else()
    get_property(home DIRECTORY PROPERTY TESTS)
    list(REMOVE_ITEM home ${SANITIZED_SUITES} test_fuzz install)
    get_property(needs DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
    list(REMOVE_ITEM needs ${SANITIZED_SUITES} home quick sample guard_steps fuzz)
    add_dependencies(home sample) # test_valgrind needs test_layouts
endif()
foreach(name ${RELEASE_SUITES})
    file(GLOB source tests/*/${name}.c)
    if(NOT source)
        message(FATAL_ERROR "RELEASE_SUITES has ${name}, and there is no tests/*/${name}.c")
    endif()
endforeach()
set(sample test_golden_ops test_goldens test_layouts test_worlds_memory test_compile test_sums test_reduced test_options)
set(quick ${SANITIZED_SUITES} test_simd_sweep test_goldens test_worlds_bits check_style check_words check_includes check_symbols check_rows check_settings check_models check_clock)
foreach(label home quick sample)
    set_property(TEST ${${label}} APPEND PROPERTY LABELS ${label})
    foreach(name ${${label}})
        if(TARGET ${name})
            add_dependencies(${label} ${name})
        endif()
    endforeach()
endforeach()
# `trains`: trainings of whole models, which tools/test.sh leaves out where kernels are plain loops (WEFT_TEST_ISA=reference).
get_property(trains DIRECTORY PROPERTY TESTS)
list(FILTER trains INCLUDE REGEX "^test_(tools.*|zoo|precision_training|resume_kills|signals)$")
set_property(TEST ${trains} APPEND PROPERTY LABELS trains)
add_dependencies(home ${needs})
add_dependencies(quick graphtool weft-zoo)
