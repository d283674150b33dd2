# export.cmake - the libraries that users link: weft (static), weft_shared, and the same of weft_train, weft_mpi and weft_ucx. They export
# the functions of include/weft and nothing else, so that a program's own mem_free or type_check is its own.
#
# The static one is a single object: a partial link of weft_internal binds what its files call of each other, then hidden
# names become local ones. weft_mpi and weft_ucx have a copy of the few files of the library that they use inside (the engine of
# transports): the library has no variables (tests/rules/check_includes.py), so two copies of a function are as good as one.

# ---- what a program that links the static library needs: names where the linker looks by itself, else paths ----
function(weft_names result)
    set(names)
    foreach(library ${ARGN})
        get_filename_component(folder "${library}" DIRECTORY)
        get_filename_component(name "${library}" NAME)
        if(IS_ABSOLUTE "${library}" AND folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES AND name MATCHES "^lib(.*)\\.(so|a)$")
            list(APPEND names ${CMAKE_MATCH_1})
        else()
            list(APPEND names ${library})
        endif()
    endforeach()
    set(${result} ${names} PARENT_SCOPE)
endfunction()
weft_names(WEFT_NEEDS ${DNNL_NEEDS} ${JANSSON_LINK_LIBRARIES} ${PROTOBUF_C_LINK_LIBRARIES} ${SODIUM_LINK_LIBRARIES})
weft_names(WEFT_TRAIN_NEEDS ${ZLIB_LIBRARIES} ${JANSSON_LINK_LIBRARIES} ${PROTOBUF_C_LINK_LIBRARIES} ${TRAIN_LIBRARIES})
list(APPEND WEFT_TRAIN_NEEDS pthread m)
list(APPEND WEFT_NEEDS ${OpenMP_C_FLAGS} pthread m)
if(WEFT_HAS_CUDA)
    list(APPEND WEFT_NEEDS ${CUDA_cudart_LIBRARY} stdc++ dl rt)
endif()
if(WEFT_SANITIZE)
    list(APPEND WEFT_NEEDS -fsanitize=address,undefined)
endif()
set(WEFT_WAYS) # how ranks may talk, a library each
if(MPI_C_FOUND)
    list(APPEND WEFT_WAYS mpi)
    weft_names(WEFT_mpi_NEEDS ${MPI_C_LIBRARIES})
endif()
if(UCX_FOUND)
    list(APPEND WEFT_WAYS ucx)
    weft_names(WEFT_ucx_NEEDS ${UCX_LINK_LIBRARIES} ${SODIUM_LINK_LIBRARIES})
endif()

# ---- the linker of the partial link: the compiler's own where it knows the option, else GNU ld (lld has it since 19) ----
function(weft_partial_linker result)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-prog-name=ld.bfd OUTPUT_VARIABLE gnu OUTPUT_STRIP_TRAILING_WHITESPACE)
    foreach(linker ${CMAKE_LINKER} ${gnu})
        execute_process(COMMAND ${linker} --help OUTPUT_VARIABLE help ERROR_QUIET)
        if(help MATCHES "--force-group-allocation")
            set(${result} ${linker} PARENT_SCOPE)
            # clang's locks of OpenMP reductions are common symbols, which cannot be made local
            if(help MATCHES "-dc, -dp")
                set(${result} ${linker} -d PARENT_SCOPE)
            endif()
            return()
        endif()
    endforeach()
    message(FATAL_ERROR "the static library is made by a linker that has --force-group-allocation, which ${CMAKE_LINKER} lacks: "
                        "install GNU ld (Debian: binutils) or lld 19, or name one by -DCMAKE_LINKER=PATH")
endfunction()
weft_partial_linker(WEFT_PARTIAL_LINKER)

# ---- static: one object that defines `names` and needs only other libraries ----
# From: archives, of which the first is taken whole and the others as far as they are called.
function(weft_static library names whole)
    set(folder ${PROJECT_BINARY_DIR}/export)
    set(object ${folder}/${library}.o)
    set(archives)
    foreach(archive ${ARGN})
        list(APPEND archives $<TARGET_FILE:${archive}>)
    endforeach()
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        # Groups of C++'s inline functions end here: the program's own copies would replace them, and local names be lost.
        COMMAND ${WEFT_PARTIAL_LINKER} -r --force-group-allocation -o ${object}.all
                --whole-archive $<TARGET_FILE:${whole}> --no-whole-archive ${archives}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=${names} ${object}.all ${object}
        COMMAND ${CMAKE_COMMAND} -E rm ${object}.all
        DEPENDS ${whole} ${ARGN} VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    add_library(${library} STATIC ${object})
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
endfunction()

weft_static(weft "weft_*" weft_internal)
target_link_libraries(weft PRIVATE ${WEFT_NEEDS})
set_target_properties(weft PROPERTIES EXPORT_NAME static)
add_library(weft::weft ALIAS weft)
weft_static(weft_train "weft_*" weft_train_internal)
target_link_libraries(weft_train PRIVATE ${WEFT_TRAIN_NEEDS})
set_target_properties(weft_train PROPERTIES EXPORT_NAME train_static)
add_library(weft_with_train INTERFACE)
target_link_libraries(weft_with_train INTERFACE weft_train weft)
add_library(weft::train ALIAS weft_with_train)
foreach(way ${WEFT_WAYS})
    weft_static(weft_${way} weft_comm_${way} weft_${way}_internal weft_internal)
    target_link_libraries(weft_${way} PRIVATE ${WEFT_${way}_NEEDS} ${OpenMP_C_FLAGS} pthread)
    set_target_properties(weft_${way} PROPERTIES EXPORT_NAME ${way}_static)
    add_library(weft_with_${way} INTERFACE)
    target_link_libraries(weft_with_${way} INTERFACE weft_${way} weft)
    add_library(weft::${way} ALIAS weft_with_${way})
endforeach()

# ---- shared: the same objects; a list for the linker hides what a compiler's own headers made visible ----
function(weft_shared library names whole)
    set(made ${PROJECT_BINARY_DIR}/export/${library})
    file(CONFIGURE OUTPUT ${made}.map CONTENT "{ global: @names@; local: *; };\n" @ONLY)
    file(CONFIGURE OUTPUT ${made}.c CONTENT "/* a library has at least one source */\n")
    add_library(${library} SHARED ${made}.c)
    target_link_libraries(${library} PRIVATE -Wl,--whole-archive ${whole} -Wl,--no-whole-archive ${ARGN})
    target_link_options(${library} PRIVATE -Wl,--version-script=${made}.map
                        $<$<NOT:$<BOOL:${WEFT_SANITIZE}>>:-Wl,--no-undefined>)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    string(REGEX REPLACE "_shared$" "" name ${library})
    set_target_properties(${library} PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION}
                          SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} BUILD_WITH_INSTALL_RPATH ON)
endfunction()

if(WEFT_SHARED)
    weft_shared(weft_shared "weft_*" weft_internal)
    set_target_properties(weft_shared PROPERTIES EXPORT_NAME shared)
    weft_shared(weft_train_shared "weft_*" weft_train_internal weft_shared) # it needs libweft.so, beside which it lies
    set_target_properties(weft_train_shared PROPERTIES EXPORT_NAME train_shared INSTALL_RPATH $ORIGIN)
    foreach(way ${WEFT_WAYS})
        weft_shared(weft_${way}_shared weft_comm_${way} weft_${way}_internal weft_internal)
        set_target_properties(weft_${way}_shared PROPERTIES EXPORT_NAME ${way}_shared)
    endforeach()
endif()
