# install.cmake - what `cmake --install` copies: headers, the libraries, the CMake package, files for pkg-config, programs,
# documents.
# Six components: library, train, mpi and ucx (the shared libraries), dev (what a compiler needs), tools.
#
# Everything installed finds its neighbours by where it lies itself: a prefix may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(weft_install_library component library)
    set(libraries ${library})
    set(link NAMELINK_COMPONENT dev)
    if(SKBUILD) # cmake/wheel.cmake
        set(libraries ${library}_shared)
        set(link NAMELINK_SKIP)
    elseif(WEFT_SHARED)
        list(APPEND libraries ${library}_shared)
    endif()
    install(TARGETS ${libraries} EXPORT weftTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} ${link}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
endfunction()
weft_install_library(library weft)
foreach(component train ${WEFT_WAYS})
    weft_install_library(${component} weft_${component})
endforeach()
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h" PATTERN "README.md")

# ---- documents and examples, whose links lead to the installed headers ----
set(documents ${PROJECT_BINARY_DIR}/documents)
file(RELATIVE_PATH headers ${CMAKE_INSTALL_FULL_DOCDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
if(NOT SKBUILD)
    install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DTO=${documents} -DHEADERS=${headers}
                                  -P ${PROJECT_SOURCE_DIR}/cmake/documents.cmake COMMAND_ERROR_IS_FATAL ANY)" COMPONENT dev)
    install(DIRECTORY ${documents}/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
endif()

# ---- CMake: find_package(weft) ----
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${package} COMPONENT dev)
configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/export/weftConfig.cmake
                              INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/export/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/export/weftConfig.cmake ${PROJECT_BINARY_DIR}/export/weftConfigVersion.cmake
        DESTINATION ${package} COMPONENT dev)

# ---- pkg-config: weft, weft-train, weft-mpi, weft-ucx, and the same with "-static", which name the archive itself ----
# Those without take the shared library; with `pkg-config --static` they have all that a program without shared libraries needs.
function(weft_flags result)
    set(flags)
    foreach(name ${ARGN})
        if(name MATCHES "^[-/]")
            string(APPEND flags " ${name}")
        else()
            string(APPEND flags " -l${name}")
        endif()
    endforeach()
    set(${result} "${flags}" PARENT_SCOPE)
endfunction()

function(weft_pc name library requires)
    weft_flags(needs ${ARGN})
    string(REPLACE "_" "-" name ${name})
    set(PC_NAME ${name})
    set(PC_REQUIRES "${requires}")
    set(PC_LIBS "-L\${libdir} -l${library}")
    set(PC_PRIVATE "${needs}")
    if(SKBUILD)
        set(PC_PRIVATE)
    endif()
    configure_file(cmake/weft.pc.in export/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/export/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
    if(SKBUILD)
        return()
    endif()
    set(PC_NAME ${name}-static)
    string(REGEX REPLACE "^weft" "weft-static" PC_REQUIRES "${requires}")
    set(PC_LIBS "\${libdir}/lib${library}.a${needs}")
    set(PC_PRIVATE)
    configure_file(cmake/weft.pc.in export/${name}-static.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/export/${name}-static.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # from where the file lies
string(REGEX REPLACE "/$" "" PC_PREFIX ${PC_PREFIX})
weft_pc(weft weft "" ${WEFT_NEEDS})
weft_pc(weft_train weft_train "weft = ${PROJECT_VERSION}" ${WEFT_TRAIN_NEEDS})
foreach(way ${WEFT_WAYS})
    weft_pc(weft_${way} weft_${way} "weft = ${PROJECT_VERSION}" ${WEFT_${way}_NEEDS})
endforeach()

# ---- programs ----
if(SKBUILD)
    return()
endif()
if(WEFT_TOOLS)
    install(TARGETS graphtool weft-zoo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    find_package(Python3 COMPONENTS Interpreter)
endif()
if(WEFT_TOOLS AND Python3_FOUND AND NOT CMAKE_CROSSCOMPILING) # their pages and completions, made from what they say of themselves
    set(made ${PROJECT_BINARY_DIR}/manual)
    add_custom_command(
        OUTPUT ${made}/graphtool.bash
        COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 ${Python3_EXECUTABLE}
                ${PROJECT_SOURCE_DIR}/tools/scripts/manual.py $<TARGET_FILE:graphtool> $<TARGET_FILE:weft-zoo> ${made}
        DEPENDS graphtool weft-zoo tools/scripts/manual.py VERBATIM)
    add_custom_target(manual ALL DEPENDS ${made}/graphtool.bash)
    install(DIRECTORY ${made}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
    install(FILES ${made}/graphtool.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            RENAME graphtool COMPONENT tools)
    install(FILES ${made}/_graphtool DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
endif()

# All that is copied, and the Python package, for tests of what is installed: `installed` builds it and none of the tests.
add_custom_target(installed)
foreach(target weft weft_shared weft_train weft_train_shared weft_mpi weft_mpi_shared weft_ucx weft_ucx_shared graphtool weft-zoo manual python)
    if(TARGET ${target})
        add_dependencies(installed ${target})
    endif()
endforeach()
