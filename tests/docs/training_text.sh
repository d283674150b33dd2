# training_text.sh - what the commands of docs/training.md need.
[[ -e mlp.bin ]] || weft-zoo mlp -b 4 -o mlp.bin
