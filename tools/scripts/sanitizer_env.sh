# sanitizer_env.sh - how suites run in the sanitizer build: less of what is long, since sanitized code is slow; leaks
# of Graphviz's and its font libraries' caches are not ours. Sourced from the project's folder.
export WEFT_TEST_QUICK=1 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
