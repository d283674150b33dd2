# sanitizer_env.sh - the environment of suites in the sanitizer build: fewer of the long cases
# (WEFT_TEST_QUICK), as sanitized code is slow; leaks of Graphviz's and its font libraries' caches are suppressed; threads that wait sleep, as
# two suites share the cores. Sourced from the project's folder.
export WEFT_TEST_QUICK=1 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 OMP_WAIT_POLICY=passive
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
