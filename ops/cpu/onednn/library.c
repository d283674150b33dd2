/* library.c - see library.h: first 2.x, then 3.x, then what is the same. */
#include "ops/cpu/onednn/library.h"

#if DNNL_VERSION_MAJOR == 2
/* ---- 2.x: descriptors are structs, one describes an operation; an iterator has its implementations ---- */

dnnl_status_t library_desc_new(int ndim, const dnnl_dims_t shape, dnnl_data_type_t type,
                               const int64_t *stride, dnnl_memory_desc_t *made) {
    return stride ? dnnl_memory_desc_init_by_strides(made, ndim, shape, type, stride)
                  : dnnl_memory_desc_init_by_tag(made, ndim, shape, type, dnnl_format_tag_any);
}

void library_desc_free(dnnl_memory_desc_t *d) {
}

library_desc library_desc_of(const dnnl_memory_desc_t *d) {
    return d->ndims ? d : NULL;
}

/* Room for either operation; oneDNN reads its kind from the first field. */
typedef union operation_desc {
    dnnl_convolution_desc_t conv;
    dnnl_matmul_desc_t matmul;
} operation_desc;

static dnnl_status_t operation_init(const library_operation *o, operation_desc *d) {
    switch (o->kind) {
    case ONEDNN_CONV:
        return dnnl_dilated_convolution_forward_desc_init(
            &d->conv, dnnl_forward_training, dnnl_convolution_direct, o->src, o->weight, o->bias, o->dst,
            o->stride, o->dilation, o->before, o->after);
    case ONEDNN_CONV_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(&d->conv, dnnl_convolution_direct, o->src,
                                                                o->weight, o->dst, o->stride, o->dilation,
                                                                o->before, o->after);
    case ONEDNN_CONV_WEIGHT:
        return dnnl_dilated_convolution_backward_weights_desc_init(&d->conv, dnnl_convolution_direct, o->src,
                                                                   o->weight, o->bias, o->dst, o->stride,
                                                                   o->dilation, o->before, o->after);
    case ONEDNN_MATMUL:
        return dnnl_matmul_desc_init(&d->matmul, o->src, o->weight, o->bias, o->dst);
    }
    return dnnl_invalid_arguments;
}

/* The operation is copied, and what is fetched is the caller's. */
dnnl_status_t library_implementation(const library_operation *o, int index, const_dnnl_primitive_attr_t attr,
                                     dnnl_engine_t engine, dnnl_primitive_desc_t *pd) {
    operation_desc d;
    dnnl_primitive_desc_iterator_t each = NULL;
    dnnl_status_t s = operation_init(o, &d);
    if (s == dnnl_success) s = dnnl_primitive_desc_iterator_create(&each, &d, attr, engine, NULL);
    for (int i = 0; s == dnnl_success && i < index; i++) s = dnnl_primitive_desc_iterator_next(each);
    if (s == dnnl_success && !(*pd = dnnl_primitive_desc_iterator_fetch(each))) s = dnnl_out_of_memory;
    if (each) dnnl_primitive_desc_iterator_destroy(each);
    return s == dnnl_iterator_ends ? dnnl_unimplemented : s;
}

/* avx512_mic has the bits that avx2_vnni has in 3.x. */
static bool has_avx512(int bits) {
    return (bits & dnnl_cpu_isa_avx512_mic) == dnnl_cpu_isa_avx512_mic ||
           (bits & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

#else
/* ---- 3.x: descriptors are opaque; a primitive descriptor is made at once, and steps to its next one ---- */

dnnl_status_t library_desc_new(int ndim, const dnnl_dims_t shape, dnnl_data_type_t type,
                               const int64_t *stride, dnnl_memory_desc_t *made) {
    return stride ? dnnl_memory_desc_create_with_strides(made, ndim, shape, type, stride)
                  : dnnl_memory_desc_create_with_tag(made, ndim, shape, type, dnnl_format_tag_any);
}

void library_desc_free(dnnl_memory_desc_t *d) {
    if (*d) dnnl_memory_desc_destroy(*d);
    *d = NULL;
}

library_desc library_desc_of(const dnnl_memory_desc_t *d) {
    return *d;
}

static dnnl_status_t first_implementation(const library_operation *o, const_dnnl_primitive_attr_t attr,
                                          dnnl_engine_t engine, dnnl_primitive_desc_t *pd) {
    switch (o->kind) {
    case ONEDNN_CONV:
        return dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, dnnl_convolution_direct, o->src, o->weight, o->bias, o->dst,
            o->stride, o->dilation, o->before, o->after, attr);
    case ONEDNN_CONV_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, o->src, o->weight, o->dst, o->stride, o->dilation, o->before,
            o->after, NULL, attr);
    case ONEDNN_CONV_WEIGHT:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, o->src, o->weight, o->bias, o->dst, o->stride, o->dilation,
            o->before, o->after, NULL, attr);
    case ONEDNN_MATMUL:
        return dnnl_matmul_primitive_desc_create(pd, engine, o->src, o->weight, o->bias, o->dst, attr);
    }
    return dnnl_invalid_arguments;
}

dnnl_status_t library_implementation(const library_operation *o, int index, const_dnnl_primitive_attr_t attr,
                                     dnnl_engine_t engine, dnnl_primitive_desc_t *pd) {
    dnnl_status_t s = first_implementation(o, attr, engine, pd);
    if (s != dnnl_success) return s;
    for (int i = 0; s == dnnl_success && i < index; i++) s = dnnl_primitive_desc_next_impl(*pd);
    if (s != dnnl_success) dnnl_primitive_desc_destroy(*pd);
    return s == dnnl_last_impl_reached ? dnnl_unimplemented : s;
}

static bool has_avx512(int bits) {
    return (bits & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}
#endif

/* ---- both ---- */

const char *library_name(const_dnnl_primitive_desc_t pd) {
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name;
}

/* In oneDNN each set has the bits of the lower ones. */
weft_isa library_isa(int bits) {
    if (has_avx512(bits)) return WEFT_ISA_AVX512;
    return bits & (dnnl_cpu_isa_avx & ~dnnl_cpu_isa_sse41) ? WEFT_ISA_AVX2 : WEFT_ISA_SSE2;
}
