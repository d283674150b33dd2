/* roof.c - see roof.h. The peaks are NVIDIA's (H100 and H200 SXM, dense, without sparsity). The fractions are
 * assumptions from published figures of such kernels on an H100 or H200, until ours are measured. */
#include "ops/roof.h"

#include "graph/core/kernel.h"
#include "ops/attention/attention.h"
#include "ops/image/conv2d.h"
#include "ops/kit/ops.h"
#include "ops/linalg/epilogue.h"

#include <string.h>

static const roof roofs[] = {
    {.name = "h100",
     .device = "NVIDIA H100 80GB HBM3",
     .memory = 3.35e12,
     .tensor = 989e12,
     .tf32 = 494e12,
     .f32 = 67e12},
    {.name = "h200",
     .device = "NVIDIA H200",
     .memory = 4.8e12,
     .tensor = 989e12,
     .tf32 = 494e12,
     .f32 = 67e12},
};
enum { ROOFS = sizeof roofs / sizeof *roofs };

const char *roof_name(int i) {
    return i < ROOFS ? roofs[i].name : NULL;
}

const roof *roof_find(const char *name) {
    for (int i = 0; i < ROOFS; i++)
        if (strcmp(roofs[i].name, name) == 0) return &roofs[i];
    return NULL;
}

const roof *roof_of_device(const char *device) {
    for (int i = 0; i < ROOFS; i++)
        if (strcmp(device, roofs[i].device) == 0) return &roofs[i];
    return NULL;
}

const char *roof_bound_name(roof_bound bound) {
    static const char *const names[BOUNDS] = {"launches", "memory", "compute"};
    return names[bound];
}

/* ---- the roof ---- */

static bool is_attention(const weft_node *n) {
    return n->op == &weft_op_attention || n->op == &weft_op_attention_backward;
}

/* Attention of f32 or with large heads: by the plain kernel, without tensor cores. */
static bool is_plain(const weft_node *n) {
    return is_attention(n) && (!n->kernel || strcmp(n->kernel->name, "tensor cores") != 0);
}

/* A convolution of reduced operands with an f32 result, which cuDNN gets as f32 that may be rounded to
 * TF32. */
static bool is_widened(const weft_node *n) {
    conv_part part = conv_part_of(n->op);
    return (part == CONV_SMALL || part == CONV_BIG) && n->out[0].type.dtype != n->in[0]->type.dtype;
}

/* Operations per second of a product whose operands have this node's type. */
static double peak_of(const roof *r, const weft_node *n, bool tf32) {
    const weft_value *operand = n->in[n->op == &weft_op_attention_backward];
    if (is_plain(n)) return r->f32;
    if (is_widened(n)) return r->tf32;
    if (dtype_is_reduced(operand->type.dtype)) return r->tensor;
    return tf32 ? r->tf32 : r->f32;
}

/* Operations that have to be done: half the scores are behind a causal mask. */
static double needed_flops(const weft_node *n, const node_work *w) {
    bool is_causal = is_attention(n) && ((const attention_attrs *)n->attrs)->causal;
    return is_causal ? w->flops / 2 : w->flops;
}

static double longer(double a, double b) {
    return a > b ? a : b;
}

/* Launches follow one another: those beside the operations take the time of their bytes, too. */
double roof_least(const roof *r, const weft_node *n, const node_work *w, bool tf32) {
    double bytes = w->read + w->written;
    if (w->flops == 0) return bytes / r->memory;
    return longer((bytes - w->apart) / r->memory, needed_flops(n, w) / peak_of(r, n, tf32)) +
           w->apart / r->memory;
}

/* ---- the estimate ---- */

/* LAUNCH: from the end of a launch in a captured graph to the begin of the next. SHORTEST: a launch with next
 * to no work. REACHED_BYTES: the part of the memory's peak that long copies reach. */
#define LAUNCH        1e-6
#define SHORTEST      2e-6
#define REACHED_BYTES 0.83

/* The part of the peak that the kernels of an op reach. `repeats`: operations that they do, for each that the
 * formula has. The backward of attention computes the scores in both of its kernels: 7 products, not 5. */
static const struct {
    const weft_op *op;
    double reached, repeats;
} kernels[] = {
    {&weft_op_attention, 0.20, 1},        {&weft_op_attention_backward, 0.18, 7.0 / 5},
    {&weft_op_conv2d, 0.45, 1},           {&weft_op_conv_transpose2d, 0.45, 1},
    {&weft_op_conv2d_weight, 0.45, 1},    {&weft_op_conv3d, 0.45, 1},
    {&weft_op_conv_transpose3d, 0.45, 1}, {&weft_op_conv3d_weight, 0.45, 1},
};
#define REACHED_PRODUCT 0.63 /* every other op with operations: products by cuBLASLt */

static double compute_seconds(const roof *r, const weft_node *n, const node_work *w, bool tf32) {
    double ideal = w->flops > 0 ? needed_flops(n, w) / peak_of(r, n, tf32) : 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].op == n->op) return ideal * kernels[i].repeats / kernels[i].reached;
    return ideal / REACHED_PRODUCT;
}

double roof_estimate(const roof *r, const weft_node *n, const node_work *w, bool tf32, roof_bound *bound) {
    double rate = r->memory * REACHED_BYTES, apart = w->flops > 0 ? w->apart / rate : 0;
    double memory = (w->read + w->written) / rate - apart;
    double compute = compute_seconds(r, n, w, tf32), work = longer(memory, compute) + apart;
    double gaps = w->launches * LAUNCH, shortest = w->launches * SHORTEST;
    *bound = work < shortest ? BOUND_LAUNCH : memory > compute ? BOUND_MEMORY : BOUND_COMPUTE;
    return gaps + longer(work, shortest);
}
