# commit.cmake - writes commit.h, which names the commit of the sources, when it has changed; every build runs it. A folder
# that is not a git repository of its own has the name "".
cmake_minimum_required(VERSION 3.21)
get_filename_component(above ${SOURCE} DIRECTORY)
set(ENV{GIT_CEILING_DIRECTORIES} ${above})
execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
    set(commit "")
endif()
file(CONFIGURE OUTPUT ${INTO} CONTENT "#define WEFT_COMMIT \"@commit@\"\n" @ONLY)
