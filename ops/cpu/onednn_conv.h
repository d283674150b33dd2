/* onednn_conv.h - packing the weight of a convolution, for the `pack` kernel. `n` is the conv2d or conv_transpose2d that
 * will read it; `plain` the element type that is packed from. */
#ifndef WEFT_ONEDNN_CONV_H
#define WEFT_ONEDNN_CONV_H

#include "ops/cpu/onednn.h"

/* false: oneDNN cannot run or pack that here. */
bool conv_pack_describe(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn_facts *facts);
/* A primitive whose run packs `weight` into `packed`. */
weft_status conv_pack_open(const weft_node *n, weft_dtype plain, const kernel_env *env, onednn **made,
                           weft_error *error);

#endif
