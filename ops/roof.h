/* roof.h - how fast a GPU can be at best, and how long a node's launches take by a model: the roofline
 * (Williams et al., 2009), which bounds a launch by its bytes or by its operations, and the cost of a
 * launch. */
#ifndef WEFT_OPS_ROOF_H
#define WEFT_OPS_ROOF_H

#include "ops/work.h"

/* Peaks of a GPU, from its data sheet. */
typedef struct roof {
    const char *name;   /* "h200" */
    const char *device; /* the name that CUDA gives: "NVIDIA H200" */
    double memory;      /* bytes per second */
    /* operations per second: products of bf16 and f16, of f32 rounded to TF32, and of f32 */
    double tensor, tf32, f32;
} roof;

/* What bounds a node; the name of a bound is "memory". */
typedef enum roof_bound { BOUND_LAUNCH, BOUND_MEMORY, BOUND_COMPUTE, BOUNDS } roof_bound;
const char *roof_bound_name(roof_bound bound);

/* The row of that name; NULL: there is none. roof_name(i) lists the names, NULL after the last. */
const roof *roof_find(const char *name);
const char *roof_name(int i);
/* The row of the device that CUDA calls so; NULL: it is not in the table. */
const roof *roof_of_device(const char *device);

/* The least seconds in which a device at its peaks could do this work: the larger of the times for its bytes
 * and for its operations. 0 for a node without work. */
double roof_least(const roof *r, const weft_node *n, const node_work *w, bool tf32);

/* The seconds that the node is expected to take, with the fractions of the peaks that such kernels are
 * known to reach: at least 2 us for each launch, and 1 us between two. *bound tells whether these 2 us,
 * the bytes or the operations take the longest. An estimate, never a measurement. */
double roof_estimate(const roof *r, const weft_node *n, const node_work *w, bool tf32, roof_bound *bound);

#endif
