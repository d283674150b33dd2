/* library.h - what differs between the C interfaces of oneDNN 2.x and 3.x; library.c has both, and is the
 * only file that asks for the version of the headers, except for the types below.
 *
 * A `dnnl_memory_desc_t` is a struct in 2.x and an owned pointer in 3.x. In both it may be all zeroes, is
 * freed by library_desc_free, and is given to the library as a `library_desc`. */
#ifndef WEFT_OPS_CPU_ONEDNN_LIBRARY_H
#define WEFT_OPS_CPU_ONEDNN_LIBRARY_H

#include "ops/cpu/onednn/onednn.h"

#include <dnnl.h>

#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *library_desc;
#else
typedef const_dnnl_memory_desc_t library_desc;
#endif

/* A descriptor with these strides in elements; NULL: the primitive chooses the format. */
dnnl_status_t library_desc_new(int ndim, const dnnl_dims_t shape, dnnl_data_type_t type,
                               const int64_t *stride, dnnl_memory_desc_t *made);
void library_desc_free(dnnl_memory_desc_t *d);
/* NULL for a descriptor that is all zeroes. */
library_desc library_desc_of(const dnnl_memory_desc_t *d);

/* A problem in oneDNN's words: for the backward kinds src and dst are its diff_src and diff_dst; dilations
 * count from 0. */
typedef struct library_operation {
    onednn_kind kind;
    library_desc src, weight, bias, dst; /* bias: NULL where there is none */
    dnnl_dims_t stride, dilation, before, after;
} library_operation;

/* Implementation 0, 1, ... of the operation, best first. Returns dnnl_unimplemented past the last one; on
 * success the caller destroys *pd. */
dnnl_status_t library_implementation(const library_operation *o, int index, const_dnnl_primitive_attr_t attr,
                                     dnnl_engine_t engine, dnnl_primitive_desc_t *pd);

/* The name of an implementation, such as "jit_1x1:avx2"; the descriptor owns the text. */
const char *library_name(const_dnnl_primitive_desc_t pd);

/* The highest of our instruction sets that bits of dnnl_get_effective_cpu_isa() let the library use. */
weft_isa library_isa(int bits);

#endif
