/* tile.h - pointwise work tile by tile: what the tile program (tile.c) and its driver (pointwise.c) share.
 *
 * A program is the nodes of a fused node (or one node) as steps over slots of TILE floats: operands, results,
 * temporaries. All arithmetic is f32; other operands (bf16, f16, bool, integers) become floats when they are loaded,
 * other results (bf16, f16, bool, u8) stop being floats when they are stored: between the ops of a program nothing is
 * rounded but by `cast`. An element's value does not depend on where tiles begin.
 */
#ifndef WEFT_OPS_CPU_SIMD_TILE_H
#define WEFT_OPS_CPU_SIMD_TILE_H

#include "ops/kit/op_kit.h"
#include "ops/cpu/simd/simd.h"

enum { TILE = 1024, TILE_MAX_SLOTS = FUSED_MAX_IN + 2 * FUSED_MAX_BODY };

typedef void tile_loop(float *out, const float *x, const float *y, const float *z, const float *k, int64_t n);

typedef struct tile_step {
    tile_loop *run;
    const float *numbers; /* the formula's, k[] */
    int in[3], out;       /* slots */
} tile_step;

/* Slots: operands, then results, then temporaries. */
typedef struct tile_program {
    int n_in, n_out, n_steps, n_temporaries;
    tile_step steps[FUSED_MAX_BODY];
    int last_use[FUSED_MAX_IN];  /* step that reads the operand last, -1: none */
    int defined[FUSED_MAX_BODY]; /* step that makes the result */
} tile_program;

/* NULL when the node can run as tiles (the program may be NULL too), else why not. */
const char *SIMD(tile_build)(const weft_node *n, tile_program *p);
/* Puts the numbers of all steps into `numbers`, which outlives the program; NULL: only says how many there are. */
size_t SIMD(tile_numbers)(const weft_node *n, tile_program *p, float *numbers);

/* How an operand lies under the result: axes of the result in its physical order, merged where both are even.
 */
typedef struct tile_operand {
    const char *data;
    weft_dtype dtype;
    bool in_place;  /* f32 and dense like the result: read where it lies */
    bool same_tile; /* every tile holds the same elements (if tiles are a multiple of `period`) */
    int64_t period;
    int n_axes;
    int64_t shape[WEFT_MAX_NDIM], stride[WEFT_MAX_NDIM]; /* outermost first */
} tile_operand;

/* Axes of `t` by falling stride; false when it is not dense. */
bool SIMD(tile_order)(const tensor *t, int axes[WEFT_MAX_NDIM], int *n);
void SIMD(tile_operand_of)(tile_operand *o, const tensor *x, const tensor *out, const int *axes, int n);
/* Elements [begin, begin + count) of the result's physical order, as floats. */
void SIMD(tile_load)(const tile_operand *o, float *tile, int64_t begin, int64_t count);
void SIMD(tile_store)(void *data, weft_dtype dtype, const float *tile, int64_t begin, int64_t count);

#endif
