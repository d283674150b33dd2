/* precision.h - which part of a model runs in bf16 or f16: what a model keeps of weft_precision, and the pass that places
 * the casts. */
#ifndef WEFT_GRAPH_CORE_PRECISION_H
#define WEFT_GRAPH_CORE_PRECISION_H

#include "graph/core/graph.h"

/* In a model's list, in order of the first call on each path. */
typedef struct precision_entry {
    struct precision_entry *next;
    const char *path; /* a scope, a graph, or a scope of one graph; "": the whole model */
    weft_dtype dtype; /* f32, bf16 or f16 */
} precision_entry;

/* ---- graph/core/precision_of.c ---- */

/* weft_precision with "/" for the whole model; false after recording the model's error. */
bool precision_set(weft_model *m, const char *path, weft_dtype dtype);
/* The entry of exactly this path ("/" is ""), or NULL. */
const precision_entry *precision_at(const weft_model *m, const char *path);
/* "precision generator bf16\n"; the whole model is "/" */
void precision_write(text *t, const precision_entry *e);
/* What nodes of `scope` in the user's graph `graph` run in; `otherwise` where the model says nothing. */
weft_dtype precision_of(const weft_model *m, const char *graph, const char *scope, weft_dtype otherwise);
/* Whether a node of g runs in `dtype` by that, and what f16's gradients are scaled for. */
bool precision_reaches(const weft_graph *g, weft_dtype dtype, weft_dtype otherwise);
/* The first entry whose path names nothing in the model, or NULL. */
const precision_entry *precision_astray(const weft_model *m);

/* ---- graph/passes/precision.c ---- */

/* Casts and retypes; `name` is the graph's in the user's model. */
bool pass_precision(weft_graph *g, const char *name, weft_dtype otherwise);
/* Whether a node casts a parameter, or a view of one: its result is made once per update, not once per run. */
bool casts_parameter(const weft_node *n);

#endif
