/* epilogue.h - ops that are a matrix product and what is done to its elements before they are stored. No builder makes
 * them: runtime/passes/epilogue.c puts them in the place of what they are made of, where the backend has a kernel for them. The
 * precision pass has run by then: of reduced operands their results are reduced, or with `f32_output` f32.
 */
#ifndef WEFT_OPS_LINALG_EPILOGUE_H
#define WEFT_OPS_LINALG_EPILOGUE_H

#include "ops/linalg/matmul.h"
#include "ops/kit/ops.h"

/* act=relu and so on: numbers of an attribute, 0 is none */
typedef enum epilogue_act { ACT_NONE, ACT_RELU, ACT_GELU_TANH } epilogue_act;
enum { ACTS = 3 };
#define ACT_ATTR(type)                                                                                       \
    { "act", ATTR_INT, offsetof(type, act), ACT_RELU, ACT_GELU_TANH, act_words }
extern const char *const act_words[];

typedef struct linear_act_attrs {
    int64_t act;
    bool keep; /* give result 1, what the backward wants to know of the product */
} linear_act_attrs;

typedef struct matmul_act_attrs {
    matmul_attrs product; /* first: product_of reads it */
    int64_t act;
} matmul_act_attrs;

/* What the forward keeps of a product z of this type: gelu_tanh z itself; relu a bit an element, set where z > 0:
 * u8[..., row_bytes], in which bit i % 8 of byte i / 8 is column i's and rows are of 128 bits, as cuBLASLt has them. */
tensor_type act_kept(epilogue_act act, const tensor_type *z);
/* Its derivative at place `at` of z. */
double act_slope(epilogue_act act, const tensor *kept, const int64_t *at);

#endif
