/* embedding.h - attributes of embedding_backward, for its kernels, and the check of ids. */
#ifndef WEFT_OPS_ATTENTION_EMBEDDING_H
#define WEFT_OPS_ATTENTION_EMBEDDING_H

#include "ops/kit/op_kit.h"

typedef struct embedding_backward_attrs {
    /* of the table */
    int64_t rows;
} embedding_backward_attrs;

/* Checks that every id is in [0, rows); the error names the id and its number. */
weft_status embedding_ids(const kernel_call *c, const tensor *ids, int64_t rows);

#endif
