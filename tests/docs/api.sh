# api.sh - what the shell lines of docs/api.md need: a program, and the flags with which the library was built (sanitizers).
printf '#include "weft/weft.h"\nint main(void) { return !weft_version(); }\n' >program.c
cc() { command "$WEFT_CC" "$@" $WEFT_FLAGS; }
