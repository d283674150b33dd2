/* array.h - what .npy and IDX files say of themselves, and how their elements become this machine's. */
#ifndef WEFT_RUNTIME_DATA_ARRAY_H
#define WEFT_RUNTIME_DATA_ARRAY_H

#include "runtime/data/stream.h"
#include "weft/data.h"

/* What the header of either format says. */
typedef struct array_header {
    tensor type;
    size_t width; /* bytes of an element in the file: the type's, except of unsigned tokens */
    bool is_big_endian, is_fortran;
} array_header;

/* Reads the header from a stream's begin, and checks that the stream is as long as it promises. With
 * `tokens`, .npy files of u2 and u4 are read too: their type is i64, their width 2 or 4. */
weft_status array_header_read(stream *s, bool tokens, array_header *h, weft_error *error);
/* Reads all elements that follow the header. NULL after an error. */
weft_array *array_read(stream *s, const array_header *h, weft_error *error);
/* Brings `count` elements of the file into this machine's byte order, with booleans as 0 or 1, in place. */
void array_elements(const array_header *h, char *data, size_t count);

#endif
