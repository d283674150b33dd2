/* layers.h - a graph as layers: its scopes as rows, with what each computes, holds and costs in a forward. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_LAYERS_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_LAYERS_H

#include "graph/core/graph.h"

/* A scope with all scopes in it. */
typedef struct layer {
    const char *path;  /* "": nodes outside any scope */
    int depth;         /* 1: a top-level scope; 0: "" */
    const weft_op *op; /* of its own nodes, the one with the most operations, else one that reads a parameter,
                        * else, where no scope is in it, the last; NULL: there is none */
    const tensor_type *output; /* the last of its results that is read outside; NULL: it computes nothing */
    int output_id;             /* %id of that */
    int64_t parameters;        /* numbers in the parameters that its nodes read, each parameter once */
    double flops;              /* node_flops of its nodes, as they are written: without gradients */
    double bytes;              /* of the results of its nodes, except for views of others */
} layer;

typedef struct layers {
    int n;
    size_t room;
    layer *v; /* [n]: in the order of the first nodes, each after the scope that it is in; "" last */
    double flops, bytes;
    int64_t parameters;
} layers;

/* Scopes deeper than `depth` levels count with theirs. */
layers layers_of(const weft_graph *g, int depth);

#endif
