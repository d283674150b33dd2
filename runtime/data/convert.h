/* convert.h - numbers of one type as another: of samples whose type is not the one that a graph takes. */
#ifndef WEFT_RUNTIME_DATA_CONVERT_H
#define WEFT_RUNTIME_DATA_CONVERT_H

#include "runtime/data/kit.h"

/* Whether converting keeps every number that it accepts: integers into any type that holds them, each of
 * which is checked, and floating point into a wider one. Then nobody has to ask for it. */
bool convert_is_exact(weft_dtype from, weft_dtype to);
/* Whether numbers are converted into this type at all: f32, f64, i64, i32 and u8. */
bool convert_gives(weft_dtype to);
/* Converts `count` numbers, whose memory must not overlap: the index of the first that `to` does not hold, or
 * `count`. With `rounds` floating point may lose digits (to the nearest, ties to even), but not become
 * infinite; whole numbers keep their value in any case, unless it goes into floating point. */
size_t convert_numbers(weft_dtype from, const void *data, weft_dtype to, void *into, size_t count,
                       bool rounds);
/* "sample 17 has 3000000000, which i32 does not hold" into the error, after `what`; returns WEFT_DATA. */
weft_status convert_fail(weft_error *error, const char *what, int64_t sample, weft_dtype from,
                         const void *number, weft_dtype to);

#endif
