# environment.cmake - read by ctest itself, before it starts the suites. WEFT_TEST_ISA caps the processor for the tests (tests/support/isa.h);
# the programs that scripts start get the cap as graphtool's own variable.
if(DEFINED ENV{WEFT_TEST_ISA})
    set(ENV{WEFT_ISA} "$ENV{WEFT_TEST_ISA}")
endif()
