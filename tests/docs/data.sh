# data.sh - what the shell lines of docs/data.md need: the same as its text blocks.
. "$WEFT_ROOT/tests/docs/data_text.sh"
