/* packed.h - a model as the bytes of a model.bin, for files that hold one among other things. */
#ifndef WEFT_GRAPH_FILE_PACKED_H
#define WEFT_GRAPH_FILE_PACKED_H

#include "graph/core/graph.h"

/* The caller frees *bytes bytes at *packed by mem_free, with the model's env. Errors call the file `path`. */
weft_status model_pack(const weft_model *m, const char *path, uint8_t **packed, size_t *bytes,
                       weft_error *error);
/* NULL after an error, as weft_load. The bytes stay the caller's. */
weft_model *model_unpack(const char *path, const char *data, size_t bytes, const weft_env *env,
                         const op_catalog *catalog, weft_error *error);

#endif
