#!/usr/bin/env bash
# test_toy.sh PROGRAM - examples/toy.c prints the losses of its twin in PyTorch, and is as short as it says.
set -euo pipefail
cd "$(dirname "$0")/.."
"$1" | sed 's/  [0-9.]* steps\/s.*//' | diff - golden/toy.txt
(($(wc -l <../examples/toy.c) < 40))
echo "the losses are PyTorch's"
