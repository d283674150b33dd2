/* conv.h - convolutions as oneDNN's problems; packing the weight of one, for the `pack` kernel. `n` is the
 * conv2d or conv_transpose2d that will read it; `plain` the element type that is packed from. */
#ifndef WEFT_OPS_CPU_ONEDNN_CONV_H
#define WEFT_OPS_CPU_ONEDNN_CONV_H

#include "ops/cpu/onednn/onednn.h"

/* false: oneDNN cannot run or pack that here. */
bool conv_pack_describe(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn_facts *facts);
/* A primitive whose run packs `weight` into `packed`. */
weft_status conv_pack_open(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn **made,
                           weft_error *error);

/* ---- for onednn/parts.c ---- */
/* NULL where oneDNN knows the node's types, else why not. */
const char *conv_unfit(const weft_node *n);
/* The node as one problem. */
void conv_problem(const weft_node *n, const kernel_env *env, onednn_problem *p);

#endif
