/* conv.h - convolutions as oneDNN's problems, and packing the weight of a convolution for the `pack` kernel.
 * In all functions `n` is the node of a convolution, and `plain` the element type of
 * the weight before it is packed. */
#ifndef WEFT_OPS_CPU_ONEDNN_CONV_H
#define WEFT_OPS_CPU_ONEDNN_CONV_H

#include "ops/cpu/onednn/onednn.h"

/* Fills *description for packing the weight that n reads. Returns false where oneDNN cannot run n or pack its
 * weight on this machine. */
bool conv_pack_describe(const weft_node *n, weft_dtype plain, const kernel_env *env,
                        onednn_description *description);
/* Makes a primitive that packs `weight` into `packed`; the caller frees it with onednn_free. */
weft_status conv_pack_open(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn **made,
                           weft_error *error);

/* ---- used by onednn/parts.c too ---- */
/* Returns NULL where oneDNN knows the element types of the node, else the reason to decline. */
const char *conv_unfit(const weft_node *n);
/* Describes the whole node as one problem. */
void conv_problem(const weft_node *n, const kernel_env *env, onednn_problem *p);

#endif
