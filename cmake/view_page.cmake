# view_page.cmake - the page of `graphtool view` as bytes of C: included, it gives the rule that makes
# generated/view_page.h; run by that rule (cmake -P), it joins page.css and the scripts into page.html. The mark
# /*DATA*/ stays: tools/graphtool/view writes a plan there. generated/view_page.html is the same page as a file.
set(PAGE ${CMAKE_CURRENT_LIST_DIR}/../tools/graphtool/view/page)
# A script uses what those above it define.
set(PAGE_SCRIPTS data words state walk boxes layout draw edges camera details groups pen timeline memory streams table tables summary changes
                 search select passes pair link keys print main)

if(NOT CMAKE_SCRIPT_MODE_FILE)
    set(page_sources ${PAGE}/page.html ${PAGE}/page.css)
    foreach(script ${PAGE_SCRIPTS})
        list(APPEND page_sources ${PAGE}/${script}.js)
    endforeach()
    add_custom_command(OUTPUT ${GENERATED}/view_page.h ${GENERATED}/view_page.html
        COMMAND ${CMAKE_COMMAND} -E make_directory ${GENERATED}
        COMMAND ${CMAKE_COMMAND} -DOUT=${GENERATED}/view_page -P ${CMAKE_CURRENT_LIST_FILE}
        DEPENDS ${page_sources} ${CMAKE_CURRENT_LIST_FILE})
    return()
endif()

# ---- cmake -DOUT=FOLDER/view_page -P view_page.cmake ----
file(READ ${PAGE}/page.html page)
file(READ ${PAGE}/page.css style)
set(code "(function () {\n\"use strict\";\n")
foreach(script ${PAGE_SCRIPTS})
    file(READ ${PAGE}/${script}.js text)
    string(APPEND code "${text}")
endforeach()
string(APPEND code "})();\n")
foreach(part style code)
    string(FIND "${${part}}" "</" end)
    if(NOT end EQUAL -1)
        message(FATAL_ERROR "view_page.cmake: the ${part} of the page has \"</\", which would end its element: write it in another way")
    endif()
endforeach()
string(REPLACE "/*CSS*/" "${style}" page "${page}")
string(REPLACE "/*JS*/" "${code}" page "${page}")
file(WRITE ${OUT}.html "${page}")
file(READ ${OUT}.html bytes HEX)
string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT}.h "/* Made by cmake/view_page.cmake. */\nstatic const char view_page[] = {\n${bytes}0};\n")
