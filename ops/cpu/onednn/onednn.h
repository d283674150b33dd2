/* onednn.h - the only interface to oneDNN: the caller describes a problem (plain shapes and strides) and gets
 * description about it or a primitive that runs it.
 *
 * Only onednn.c calls the library; library.c has what differs between its versions, 2.6 to 3.x. Tensors are
 * f32 or bf16; sums are f32. A convolution always asks for its weight in the format that the primitive
 * prefers: with channels-last images and plain weights oneDNN has only its reference, which is 200 times
 * slower. Facts cost 0.05 ms and generate no machine code, so the callers ask for them again whenever they
 * need them; nothing is cached. */
#ifndef WEFT_OPS_CPU_ONEDNN_ONEDNN_H
#define WEFT_OPS_CPU_ONEDNN_ONEDNN_H

#include "graph/core/kernel.h"

enum { ONEDNN_MAX_NDIM = 8 };

typedef struct onednn_tensor {
    weft_dtype dtype;                                        /* f32 or bf16 */
    int ndim;                                                /* 0: the tensor is absent */
    int64_t shape[ONEDNN_MAX_NDIM], stride[ONEDNN_MAX_NDIM]; /* in elements */
} onednn_tensor;

typedef enum onednn_kind {
    ONEDNN_CONV,        /* src, weight, bias -> dst */
    ONEDNN_CONV_DATA,   /* weight, dst -> src */
    ONEDNN_CONV_WEIGHT, /* src, dst -> weight */
    ONEDNN_MATMUL,      /* src, weight, bias -> dst; axes of length 1 before the last two broadcast */
} onednn_kind;

typedef struct onednn_problem {
    onednn_kind kind;
    int threads;                          /* of a run of the primitive */
    int repack_threads;                   /* of a run of ONEDNN_PACK; 0: as many as `threads` */
    onednn_tensor src, weight, bias, dst; /* weight: plain, [groups,] out, in, (kd,) kh, kw */
    weft_dtype plain;                     /* type of the plain weight: packing may cast as well */
    /* Convolutions only: (depth,) height, width; a dilation of 1 means no dilation, as in PyTorch. */
    int64_t stride[3], dilation[3], pad_before[3], pad_after[3];
} onednn_problem;

typedef struct onednn_description {
    size_t scratch_bytes; /* workspace of a run */
    size_t packed_bytes;  /* weight in the primitive's own format; 0: that format is the plain one */
    bool is_reference;    /* the library has only its plain loops for this problem */
    char implementation[KERNEL_IMPLEMENTATION]; /* its name there, such as "jit_1x1:avx2" */
} onednn_description;

/* Fills *description. Returns false when the library cannot run this problem, could not count its images and
 * pixels (2^31), or has no memory left. */
bool onednn_describe(const onednn_problem *p, onednn_description *description);

/* How a primitive treats the weight of a convolution whose packed_bytes are not 0. */
typedef enum onednn_weight {
    ONEDNN_GIVEN,  /* the caller's weight is packed already */
    ONEDNN_REPACK, /* the caller's weight is plain: each run repacks it into (gradients: out of) `packed` */
    ONEDNN_PACK,   /* no convolution: a run only packs `weight` into `packed` */
} onednn_weight;

/* A primitive with its memory objects. It keeps the pointers of its last run, so only one run at a time may
 * use it. */
typedef struct onednn onednn;
weft_status onednn_new(const onednn_problem *p, onednn_weight weight, const weft_env *env, onednn **made,
                       weft_error *error);
void onednn_free(onednn *o);

/* Pointers to the tensors of the problem; NULL for those that it does not have. scratch and packed are
 * multiples of 64. */
typedef struct onednn_buffers {
    void *src, *weight, *bias, *dst, *scratch, *packed;
} onednn_buffers;
weft_status onednn_run(onednn *o, const onednn_buffers *b, weft_error *error);

/* Keeps oneDNN's own kernels within `isa`. oneDNN accepts this only before its first use in a process; later
 * it is an error. When `isa` is not below the machine's best there is nothing to limit, and the call always
 * succeeds. */
weft_status onednn_limit(weft_isa isa, weft_error *error);
/* The library that runs here, whatever headers it was built with. Both texts are short. */
typedef struct onednn_library {
    char version[24]; /* "2.6.3" */
    char isa[32];     /* what it may use: "avx2", "avx512_core_amx" */
    weft_isa set;     /* the highest of ours in it */
} onednn_library;
onednn_library onednn_library_here(void);
/* Whether oneDNN knows the element type at all. bf16 may be known and still have no primitive: where the
 * processor is too old for it, onednn_describe fails. */
bool onednn_knows(weft_dtype dtype);
/* Returns NULL when oneDNN keeps within env->isa, else the reason, for a kernel's `declines`. */
const char *onednn_exceeds(const kernel_env *env);

#endif
