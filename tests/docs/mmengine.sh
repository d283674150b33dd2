# mmengine.sh - what the shell lines of docs/from/mmengine.md need: what docs/training.md does, and a configuration.
. "$WEFT_ROOT/tests/docs/training.sh"
echo '{"model": "dcgan28.bin", "data": {"image": "images.npy"}, "epochs": 2}' >run.json
