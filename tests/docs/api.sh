# api.sh - what the shell lines of docs/api.md need: the folders of a clone that was built, and a program.
ln -s "$WEFT_ROOT/include" include
mkdir -p build/release
ln -s "$WEFT_LIBRARY" build/release/libweft.a
printf '#include "weft/weft.h"\nint main(void) { return !weft_version(); }\n' >program.c
# As this library was built: sanitizers, CUDA.
cc() { command "$WEFT_CC" "$@" $WEFT_FLAGS $WEFT_LINKS; }
