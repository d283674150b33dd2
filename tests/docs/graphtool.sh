# graphtool.sh - what the sh blocks of docs/graphtool.md need: the same as its text blocks.
. "$WEFT_ROOT/tests/docs/graphtool_text.sh"
. "$WEFT_ROOT/tests/docs/onnx.sh"
