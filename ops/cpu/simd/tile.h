/* tile.h - pointwise work tile by tile: shared by the tile program (tile.c) and its driver (pointwise.c).
 *
 * A program is the body of a fused node (or one pointwise node) as steps over slots; a slot is TILE floats:
 * an operand, a result or a temporary. All arithmetic is f32. Operands of other types (bf16, f16, bool,
 * integers) become floats when they are loaded, and results (bf16, f16, bool, u8) are rounded when they are
 * stored: between the ops of a program only `cast` rounds. The value of an element does not depend on where
 * tiles begin. */
#ifndef WEFT_OPS_CPU_SIMD_TILE_H
#define WEFT_OPS_CPU_SIMD_TILE_H

#include "ops/kit/op_kit.h"
#include "ops/cpu/simd/simd.h"

/* TILE floats are 4 KiB: a few slots fit the first cache. */
enum { TILE = 1024, TILE_MAX_SLOTS = FUSED_MAX_IN + 2 * FUSED_MAX_BODY };

/* One op over n elements: out[i] = f(x[i], y[i], z[i]; k); absent operands point anywhere. out may be x, y or
 * z. */
typedef void tile_loop(float *out, const float *x, const float *y, const float *z, const float *k, int64_t n);

typedef struct tile_step {
    tile_loop *run;
    const float *numbers; /* k[] of the formula, from its attributes */
    int in[3], out;       /* slots */
} tile_step;

/* Slots: operands, then results, then temporaries. */
typedef struct tile_program {
    int n_in, n_out, n_steps, n_temporaries;
    tile_step steps[FUSED_MAX_BODY];
    int last_use[FUSED_MAX_IN];  /* step that reads the operand last; -1: none */
    int defined[FUSED_MAX_BODY]; /* step that computes the result */
} tile_program;

/* Fills *p (which may be NULL). Returns NULL when the node can run as tiles, else the reason to decline. */
const char *SIMD(tile_build)(const weft_node *n, tile_program *p);
/* Writes the numbers of all steps to `numbers`, which must outlive the program. Returns how many there are;
 * with NULL it only counts them. */
size_t SIMD(tile_numbers)(const weft_node *n, tile_program *p, float *numbers);

/* How an operand is laid out under the result: the axes of the result in its physical order; two axes are
 * merged where the operand runs on evenly from one to the other. */
typedef struct tile_operand {
    const char *data;
    weft_dtype dtype;
    bool in_place;  /* f32 and dense like the result: read without a copy */
    bool same_tile; /* every tile holds the same elements, if tiles are a multiple of `period` */
    int64_t period; /* elements after which the operand repeats (1: it does not) */
    int n_axes;
    /* in elements, outermost first; stride 0 broadcasts */
    int64_t shape[WEFT_MAX_NDIM], stride[WEFT_MAX_NDIM];
} tile_operand;

/* Fills `axes` with the n axes of `t` that are longer than 1, by falling stride. Returns false when t is not
 * dense. */
bool SIMD(tile_order)(const tensor *t, int axes[WEFT_MAX_NDIM], int *n);
/* x as operand of `out`, whose tile_order is axes[n]; x broadcasts to it from the right. */
void SIMD(tile_operand_of)(tile_operand *o, const tensor *x, const tensor *out, const int *axes, int n);
/* Elements [begin, begin + count) of the result's physical order: from the operand to floats, and from floats
 * to a dense result. */
void SIMD(tile_load)(const tile_operand *o, float *tile, int64_t begin, int64_t count);
void SIMD(tile_store)(void *data, weft_dtype dtype, const float *tile, int64_t begin, int64_t count);

#endif
