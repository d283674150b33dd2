/* output.h - a file that is written under another name beside its own, flushed, and renamed into place. */
#ifndef WEFT_INTERCHANGE_ONNX_FORMAT_OUTPUT_H
#define WEFT_INTERCHANGE_ONNX_FORMAT_OUTPUT_H

#include "runtime/data/kit.h"

typedef struct output {
    const weft_io *io;
    void *handle;
    const char *path;
    char *beside; /* under which it is written, until it is whole */
} output;

weft_status output_open(output *o, kit_arena *arena, const char *path, weft_error *error);
weft_status output_put(output *o, const void *from, size_t bytes, weft_error *error);
/* Renames it into place; or, where `status` is a failure, removes it. Returns the first failure. */
weft_status output_close(output *o, weft_status status, weft_error *error);

#endif
