/* precision.h - which parts of a model run in bf16 or f16: the entries that weft_model_set_precision leaves
 * in a model, and the pass that places the casts. */
#ifndef WEFT_GRAPH_SETTINGS_PRECISION_H
#define WEFT_GRAPH_SETTINGS_PRECISION_H

#include "graph/core/graph.h"

/* The setting of one path. A model lists its entries in the order of the first call on each path. */
typedef struct precision_entry {
    struct precision_entry *next;
    const char *path; /* a scope, a graph, or a scope of one graph; "": the whole model */
    weft_dtype dtype; /* f32, bf16 or f16 */
} precision_entry;

/* ---- graph/settings/precision_of.c ---- */

/* "/" is how users, dumps and messages write the path "" of the whole model: the path of "/" or NULL, and
 * back. */
const char *path_plain(const char *path);
const char *path_full(const char *path);

/* Sets the type of one path, replacing an earlier one ("/", "" or NULL: the whole model). False after
 * recording the model's error. */
bool precision_set(weft_model *m, const char *path, weft_dtype dtype);
/* The entry of exactly this path ("/" is ""), or NULL. */
const precision_entry *precision_at(const weft_model *m, const char *path);
/* Writes "precision generator bf16\n"; the path of the whole model is "/". */
void precision_write(text *t, const precision_entry *e);
/* The type that nodes of scope `scope` in the user's graph `graph` run in; `otherwise` where no entry
 * applies. */
weft_dtype precision_of(const weft_model *m, const char *graph, const char *scope, weft_dtype otherwise);
/* Whether some node of g runs in `dtype` by that rule: a graph with f16 needs loss scaling. */
bool precision_reaches(const weft_graph *g, weft_dtype dtype, weft_dtype otherwise);
/* The first entry whose path names nothing in the model, or NULL. */
const precision_entry *precision_astray(const weft_model *m);

#endif
