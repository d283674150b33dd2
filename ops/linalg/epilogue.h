/* epilogue.h - ops that combine a matrix product with operations on its elements before they are stored. No
 * builder makes them: runtime/passes/epilogue.c replaces the separate nodes by them where the backend has a
 * kernel. The precision pass has run by then, so reduced operands give reduced results, or f32 with
 * `f32_output`. */
#ifndef WEFT_OPS_LINALG_EPILOGUE_H
#define WEFT_OPS_LINALG_EPILOGUE_H

#include "ops/linalg/matmul.h"
#include "ops/kit/ops.h"

/* Values of the attribute act; 0 is not an activation. */
typedef enum epilogue_act { ACT_NONE, ACT_RELU, ACT_GELU_TANH } epilogue_act;
enum { ACTS = 3 };
#define ACT_ATTR(type)                                                                                       \
    { "act", ATTR_INT, offsetof(type, act), ACT_RELU, ACT_GELU_TANH, act_words }
extern const char *const act_words[];

typedef struct linear_act_attrs {
    int64_t act;
    bool keep; /* make result 1, the data about the product that the backward needs */
} linear_act_attrs;

typedef struct matmul_act_attrs {
    matmul_attrs product; /* must be first: product_of reads the attributes as matmul_attrs */
    int64_t act;
} matmul_act_attrs;

/* The type of the data that the forward keeps about a product z. gelu_tanh keeps z. relu keeps one bit per
 * element, set where z > 0 or z is NaN: u8[..., row_bytes], where bit i % 8 of byte i / 8 is column i and
 * rows are padded to 128 bits, as in cuBLASLt. */
tensor_type act_kept(epilogue_act act, const tensor_type *z);
/* The derivative of the activation at index `at` of z. */
double act_slope(epilogue_act act, const tensor *kept, const int64_t *at);

#endif
