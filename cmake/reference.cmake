# reference.cmake - target `reference`: the API reference in build/.../reference/html, from the comments of include/weft; where
# Doxygen is. Not part of `all`; the test check_reference builds it.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
    set(REFERENCE_DIR ${PROJECT_BINARY_DIR}/reference)
    configure_file(docs/Doxyfile.in ${REFERENCE_DIR}/Doxyfile @ONLY)
    file(GLOB PUBLIC_HEADERS CONFIGURE_DEPENDS include/weft/*)
    add_custom_command(
        OUTPUT ${REFERENCE_DIR}/tags.xml
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${REFERENCE_DIR}/html
        COMMAND ${DOXYGEN} ${REFERENCE_DIR}/Doxyfile
        DEPENDS ${PUBLIC_HEADERS} ${REFERENCE_DIR}/Doxyfile VERBATIM)
    add_custom_target(reference DEPENDS ${REFERENCE_DIR}/tags.xml)
endif()
