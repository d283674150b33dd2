# ddp.sh - what the shell lines of docs/from/ddp.md need.
. "$WEFT_ROOT/tests/docs/distribution.sh"
