/* onednn.h - the one door to oneDNN: a problem goes in (plain shapes and strides), facts or a primitive come
 * out.
 *
 * onednn.c alone knows the library's API (2.6: open memory descriptors, operation descriptors; 3.x has
 * neither). Tensors are f32 or bf16; sums are f32. A convolution's weight is always asked for in the format that the
 * primitive likes: with channels-last images and plain weights oneDNN has only its reference, 200 times slower. Facts
 * cost 0.05 ms and no machine code, so they are asked for again whenever needed; nothing is cached.
 */
#ifndef WEFT_OPS_CPU_ONEDNN_ONEDNN_H
#define WEFT_OPS_CPU_ONEDNN_ONEDNN_H

#include "graph/core/kernel.h"

enum { ONEDNN_MAX_NDIM = 8 };

typedef struct onednn_tensor {
    weft_dtype dtype; /* f32, bf16 */
    int ndim;         /* 0: there is none */
    int64_t shape[ONEDNN_MAX_NDIM], stride[ONEDNN_MAX_NDIM];
} onednn_tensor;

typedef enum onednn_kind {
    ONEDNN_CONV,        /* src, weight, bias -> dst */
    ONEDNN_CONV_DATA,   /* weight, dst -> src */
    ONEDNN_CONV_WEIGHT, /* src, dst -> weight */
    ONEDNN_MATMUL,      /* src, weight, bias -> dst; axes of length 1 before the last two broadcast */
} onednn_kind;

typedef struct onednn_problem {
    onednn_kind kind;
    int threads;
    int repack_threads; /* of ONEDNN_PACK, 0: as many */
    onednn_tensor src, weight, bias, dst; /* weight: plain, [groups,] out, in, kh, kw */
    weft_dtype plain;                     /* of the weight where it is plain: packing may cast too */
    int64_t stride[2], dilation[2], pad_before[2],
        pad_after[2]; /* convolutions; dilation as PyTorch counts it */
} onednn_problem;

typedef struct onednn_facts {
    size_t scratch_bytes;
    size_t packed_bytes; /* of the weight as the primitive wants it; 0: as it is */
    bool is_reference;   /* the library has only its plain loops for this */
} onednn_facts;

/* false: the library cannot do this, or has no memory left. */
bool onednn_describe(const onednn_problem *p, onednn_facts *facts);

/* What to do about the weight of a convolution whose packed_bytes are not 0. */
typedef enum onednn_weight {
    ONEDNN_GIVEN,  /* the caller's weight is packed already */
    ONEDNN_REPACK, /* the caller's is plain: each run repacks it, by way of `packed` */
    ONEDNN_PACK,   /* only pack: weight -> packed */
} onednn_weight;

/* A primitive with its memory objects; one run at a time. */
typedef struct onednn onednn;
weft_status onednn_new(const onednn_problem *p, onednn_weight weight, const weft_env *env, onednn **made,
                       weft_error *error);
void onednn_free(onednn *o);

/* Pointers to what the problem names; those it does not have are NULL. scratch and packed: multiples of 64.
 */
typedef struct onednn_buffers {
    void *src, *weight, *bias, *dst, *scratch, *packed;
} onednn_buffers;
weft_status onednn_run(onednn *o, const onednn_buffers *b, weft_error *error);

/* Keeps oneDNN's own kernels within `isa`. It can be told so once a process, before its first use: an error
 * says when that is past. Without a limit below the machine's best, always fine. */
weft_status onednn_limit(weft_isa isa, weft_error *error);
/* Whether oneDNN knows the element type at all; where the processor is too old for bf16, problems of it cannot be
 * described. */
bool onednn_knows(weft_dtype dtype);
/* NULL when oneDNN keeps within env->isa, else why not: for `declines`. */
const char *onednn_exceeds(const kernel_env *env);

#endif
