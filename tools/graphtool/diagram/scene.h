/* scene.h - what a picture of a graph shows: boxes (scopes), units (what becomes one drawn node) and edges.
 *
 *   item   a node of the graph that is worth drawing, or an output
 *   box    a scope; siblings of one structure whose names differ in a number are drawn once (I2)
 *   unit   one drawn node: an item, a closed box, or (as a last resort) a run of either
 *
 * Invariants:
 *   I1  at most max_nodes units, whatever the graph: deeper boxes close until it fits, then units merge;
 *   I2  the members of a fold have equal trees, so the k-th item of one stands for the k-th of every other;
 *   I3  indices run with the graph's order, so edges between different units of one member go forward.
 */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_SCENE_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_SCENE_H

#include "graph/core/graph.h"

typedef struct scene_item {
    const weft_node *node;      /* NULL for outputs */
    const graph_output *output; /* NULL for nodes */
    int box, next;              /* its box; the next item in that box, -1: none */
    int twin;                   /* the item drawn for it (itself unless folded away) */
    uint64_t signature;         /* op, attributes and types */
} scene_item;

typedef struct scene_box {
    const char *name;      /* last part of the path, "discriminator" */
    const char *path;      /* of the scope */
    const char *last_name; /* of a fold's last member */
    int parent, depth;     /* the root is box 0 at depth 0 */
    int first_child, last_child, next;
    int first_item, last_item;
    int items; /* in it and below */
    uint64_t signature;
    int represented_by; /* the fold's first member; itself when alone */
    int members;        /* of a fold, on its first member; else 1 */
    bool is_bare;       /* a leaf whose items are not joined: they are drawn in its parent, under its name */
} scene_box;

typedef struct scene_unit {
    int item, box; /* which of the two it is; the other is -1 */
    int parts;     /* > 1: a run of so many units, of which this is the first */
} scene_unit;

typedef struct scene_edge {
    int from, to;            /* units */
    const weft_value *value; /* the first that flows there; NULL for an output's edge without one */
    int more;                /* further values */
    bool repeats;            /* leads from one member of a fold into the next */
} scene_edge;

typedef struct scene {
    arena arena;
    const weft_graph *graph;
    bool all; /* backward and updates too */
    int n_items, n_boxes, n_units, n_edges;
    scene_item *items;
    scene_box *boxes;
    scene_unit *units;
    scene_edge *edges;
    int open_depth; /* boxes of this depth and above are open */
    int *item_of;   /* by value id; -1: not drawn */
    int *unit_of;   /* by item */
} scene;

/* depth -1: as deep as fits. False when memory is out. */
bool scene_build(scene *s, const weft_graph *g, bool all, int depth, int max_nodes);
void scene_free(scene *s);
/* Drawn as a cluster: open, not bare, not folded away. */
bool scene_box_is_open(const scene *s, int box);
/* The box in which a unit is drawn. */
int scene_home(const scene *s, const scene_unit *u);

/* Steps of scene_build, scene_fold.c: signatures, folds, twins. */
void scene_fold(scene *s);
/* True when the edge joins two members of one fold. */
bool scene_edge_repeats(const scene *s, int item_a, int item_b);

#endif
