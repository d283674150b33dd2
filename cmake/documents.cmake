# documents.cmake - README, docs/ and examples/ for an installation, run while it installs:
#
#   cmake -DSOURCE=... -DTO=... -DHEADERS=... -P documents.cmake
#
# The folders keep their places, so links between them stay. A link to a public header leads to the installed one
# (HEADERS: from TO to the folder of weft/). Any other file of the sources is not there: the words of the link stay.

file(REMOVE_RECURSE ${TO})
file(COPY ${SOURCE}/LICENSE ${SOURCE}/README.md ${SOURCE}/CHANGELOG.md ${SOURCE}/docs ${SOURCE}/examples DESTINATION ${TO}
     PATTERN "*.in" EXCLUDE PATTERN "*.dot" EXCLUDE)
file(GLOB_RECURSE pages ${TO}/*.md)
foreach(page ${pages})
    file(RELATIVE_PATH to_top ${TO} ${page}) # docs/from/gan.md: ../../
    string(REGEX REPLACE "[^/]+$" "" to_top "${to_top}")
    string(REGEX REPLACE "[^/]+/" "../" to_top "${to_top}")
    file(READ ${page} text)
    string(REPLACE "](${to_top}include/" "](${to_top}${HEADERS}/" text "${text}")
    string(REGEX REPLACE "\\[([^]\n]*)\\]\\(${to_top}(graph|ops|dist|runtime|tools|tests|bench|cmake|CONTRIBUTING)[^)]*\\)" "\\1" text "${text}")
    file(WRITE ${page} "${text}")
endforeach()
