# cuda.sh - what the shell lines of docs/cuda.md need: small models.
weft-zoo mlp -b 8 -o mlp.bin
weft-zoo gpt -b 2 --layers=2 --d=64 --heads=2 --ctx=16 -o gpt.bin
weft-zoo dcgan28 -b 4 -o dcgan28.bin
