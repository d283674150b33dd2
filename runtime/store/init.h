/* init.h - initial values of parameters and state. */
#ifndef WEFT_RUNTIME_STORE_INIT_H
#define WEFT_RUNTIME_STORE_INIT_H

#include "graph/core/graph.h"

/* Fills `data` (row-major f32, or f64 for constants) by the initializer; random values depend on seed and
 * path alone. */
void init_fill(void *data, const tensor_type *type, const char *path, weft_init init, uint64_t seed);

#endif
