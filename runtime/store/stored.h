/* stored.h - what values are (weft_stored_kind): questions about kinds, and how files say them. A file says
 * in its metadata what each tensor of a training is, so no reader has to guess it from a name:
 *
 *     "lr of adam:all"            a number of the optimizer of that name
 *     "average of net.fc.weight"  what an optimizer keeps of the tensor of that name
 *     "counter"                   of a graph's random numbers
 *
 * A tensor of which a file says nothing is a parameter or state, as in files of other programs. */
#ifndef WEFT_RUNTIME_STORE_STORED_H
#define WEFT_RUNTIME_STORE_STORED_H

#include "graph/core/mem.h"
#include "runtime/store/safetensors.h"
#include "weft/session.h"

/* An optimizer's value, or a graph's counter: files without training state lack it. */
bool stored_is_training(weft_stored_kind kind);
/* One f64 of an optimizer or a graph. */
bool stored_is_number(weft_stored_kind kind);
/* A plan has it or not by its options, so a file may lack it or have more. */
bool stored_is_optional(weft_stored_kind kind);
/* "lr", "average". */
const char *stored_word(weft_stored_kind kind);

/* What a file says of a value of training state: of what it is, by the names of files; NULL: of nothing. NULL
 * when memory is out. */
const char *stored_text(arena *a, weft_stored_kind kind, const char *of);
/* What the file at `path` says of a tensor; value->path is the tensor's name. WEFT_FILE where it says what no
 * tensor is. */
weft_status stored_read(const char *path, const safetensors_tensor *t, weft_stored *value, weft_error *error);

#endif
