# wheel.cmake - what a wheel has besides what install.cmake copies into it: the Python that is made, graphtool. scikit-build-core
# (python/pyproject.toml) sets SKBUILD.
#
# A wheel holds no links, and no static libraries, which would name others where they lay on the machine that built it.
if(NOT TARGET python)
    message(FATAL_ERROR "A wheel needs WEFT_SHARED=ON, and cffi and numpy for the Python that builds it")
endif()
add_custom_target(wheel)
add_dependencies(wheel python)
install(FILES ${PYTHON_MADE} DESTINATION . COMPONENT wheel)
foreach(name weft weft_train)
    set_target_properties(${name}_shared PROPERTIES VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endforeach()

# ---- lib*.so, where linkers look: a line that names the library in place of a link ----
foreach(library ${PYTHON_LIBRARIES})
    string(REGEX REPLACE "_shared$" "" name ${library})
    set(script ${PROJECT_BINARY_DIR}/export/lib${name}.so)
    file(GENERATE OUTPUT ${script} CONTENT "INPUT($<TARGET_SONAME_FILE_NAME:${library}>)\n")
    install(FILES ${script} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
endforeach()

# ---- graphtool, with the two plugins of Graphviz that lay out and write SVG: a wheel's user may have no Graphviz ----
if(WEFT_TOOLS)
    foreach(plugin core dot_layout)
        find_library(GRAPHVIZ_${plugin} gvplugin_${plugin} PATH_SUFFIXES graphviz REQUIRED)
        target_link_libraries(commands PUBLIC ${GRAPHVIZ_${plugin}})
        get_filename_component(folder ${GRAPHVIZ_${plugin}} DIRECTORY)
    endforeach()
    target_compile_definitions(commands PRIVATE WEFT_HAS_PLUGINS)
    set_target_properties(graphtool PROPERTIES INSTALL_RPATH "${CMAKE_INSTALL_RPATH};${folder}")
    install(TARGETS graphtool RUNTIME DESTINATION bin COMPONENT wheel)
    add_dependencies(wheel graphtool)
endif()
