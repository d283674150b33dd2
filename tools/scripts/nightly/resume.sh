# resume.sh - kills trainings that write checkpoints at random moments, and one rank at each file call; continues in other worlds
# (tests/files/test_resume_kills.py). Sourced by nightly.sh.
if ((seeds)); then cmake --build "build/$preset" --target weft-zoo kill_at >>"$folder/build.txt"; fi
nightly_suite python3 tests/files/test_resume_kills.py "build/$preset"
