# events.sh - TensorBoard's own package reads the event files that tests/train/test_logs.c and test_hook_pictures.c write (tests/train/read_events.py). Needs a
# Python with tensorboard and pillow: $WEFT_TORCH_PYTHON, or build/venv, into which they are installed. Sourced by
# nightly.sh.
python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}

events_python() {
    cmake --build "build/$preset" --target test_hook_pictures >>"$folder/build.txt"
    [[ -x $python ]] || python3 -m venv build/venv
    "$python" -c 'import tensorboard, PIL' 2>/dev/null || "$python" -m pip install --quiet tensorboard pillow
}

events_agree() {
    rm -rf "$folder/events" && mkdir "$folder/events" &&
        WEFT_TEST_EVENTS=$folder/events "build/$preset/test_logs" event_files &&
        WEFT_TEST_EVENTS=$folder/events "build/$preset/test_hook_pictures" samples &&
        "$python" tests/train/read_events.py "$folder/events" && rm -rf "$folder/events"
}

if nightly_goes_on; then events_python; fi
while nightly_goes_on; do
    nightly_case events_agree
done
