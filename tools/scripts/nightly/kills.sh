# kills.sh - kills all ranks that share memory at once at random moments (tests/dist/test_comm_memory.sh). Sourced
# by nightly.sh.
nightly_suite tests/dist/test_comm_memory.sh "build/$preset/$program" kills
