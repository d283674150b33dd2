# gan.sh - what the shell lines of docs/from/gan.md need.
. "$WEFT_ROOT/tests/docs/distribution.sh"
weft-zoo wgan_gp -b 2 -o wgan_gp.bin
