/* embedding.h - attributes of embedding_backward, for its kernels. */
#ifndef WEFT_OPS_ATTENTION_EMBEDDING_H
#define WEFT_OPS_ATTENTION_EMBEDDING_H

#include "ops/kit/op_kit.h"

typedef struct embedding_backward_attrs {
    int64_t rows;
} embedding_backward_attrs;

/* Checks that every id is a row; the error names the id and its place. */
weft_status embedding_ids(const kernel_call *c, const tensor *ids, int64_t rows);

#endif
