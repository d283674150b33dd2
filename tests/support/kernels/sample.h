/* sample.h - an op's sample (op.h) as a node in a model of its own, with memory for its operands and
 * results. */
#ifndef WEFT_TEST_SAMPLE_H
#define WEFT_TEST_SAMPLE_H

#include "graph/core/kernel.h"
#include "support/test.h"

enum { SAMPLE_MAX_IN = 40 };

typedef struct sample {
    const weft_op *op;
    const op_sample *spec;
    weft_model *m;
    weft_graph *g;
    int n_in;
    weft_value *in[SAMPLE_MAX_IN]; /* input nodes; NULL: left out ("-") */
    int n_changed;                 /* operands with another type than the sample says */
    weft_node *n;                  /* NULL: it could not be built, see error_text */
    char error_text[1200];
} sample;

/* With `as_f64`, f32 operands (and a dtype attribute of f32) become f64. Free with sample_free, also after a
 * failure. */
void sample_build(sample *s, const weft_op *op, const op_sample *spec, bool as_f64);
/* Operands are `reduced` (bf16 or f16) instead of f32 where the op runs reduced, or all of them if it never
 * does. wide: with f32 output. */
void sample_build_reduced(sample *s, const weft_op *op, const op_sample *spec, weft_dtype reduced, bool wide);
void sample_free(sample *s);

/* Reads "f32[2,3], -, i64[2]"; "-" gives ndim -1. Returns how many, or -1 if the text is wrong. */
int types_parse(const char *list, tensor_type *types, int room);

/* Where the sample's floating-point operands are, as its numbers say: from low, below high. NULL: the range
 * that a sample without one has. */
typedef struct sample_range {
    double low, high;
} sample_range;
sample_range sample_range_of(const op_sample *spec);

/* Ops that move elements, or round each once: every kernel has the same bits. */
bool op_is_exact(const weft_op *op);

/* Fills a tensor with random values in the sample's ranges. */
void sample_fill(const op_sample *spec, const tensor *t, test_random *r);

/* Memory for one value with the caller's strides; `room` is the allocation, and `t.data` may point into
 * it. */
typedef struct block {
    tensor t;
    void *room;
    size_t bytes;
} block;
typedef enum layout_kind {
    LAYOUT_ROWS,
    LAYOUT_CHANNELS_LAST, /* for 4 and 5 axes; row-major otherwise */
    LAYOUT_STRAY,         /* row-major, but axes of length 1 have arbitrary strides */
    LAYOUT_STRAY_IMAGE,   /* channels-last, likewise */
    LAYOUT_ODD,           /* axes in another order, with gaps and arbitrary strides, as a view may have */
    LAYOUT_RAGGED,        /* rows are contiguous, all steps between them odd: most begin unaligned */
    LAYOUT_SPACED,        /* rows are contiguous, all steps between them longer, by multiples of 8 */
    LAYOUT_SHIFTED,       /* row-major from the second element of its memory on, as a slice may be */
    LAYOUT_REPEATS_EVEN,  /* broadcast along axes 0, 2, ...: strides of 0 */
    LAYOUT_REPEATS_ODD,   /* along axes 1, 3, ... */
} layout_kind;
enum { POISON = 0xff }; /* each byte before it is written: NaN */

void layout_strides(const tensor_type *type, layout_kind layout, int64_t stride[WEFT_MAX_NDIM]);
block block_new(const tensor_type *type, layout_kind layout);
void block_free(block *b);
void block_copy(const block *to, const tensor *from);

#endif
