/* init.h - initial values of parameters and state. */
#ifndef WEFT_RUNTIME_STORE_INIT_H
#define WEFT_RUNTIME_STORE_INIT_H

#include "graph/core/graph.h"

/* Fills `data` (type_bytes of f32 or f64, row-major) by the initializer; random ones from seed and path. */
void init_fill(void *data, const tensor_type *type, const char *path, weft_init init, uint64_t seed);

#endif
