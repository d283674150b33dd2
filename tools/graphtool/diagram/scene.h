/* scene.h - what a picture of a graph shows: boxes (scopes), units (what becomes one drawn node) and edges.
 *
 *   item   a node of the graph that is worth drawing, or an output
 *   box    a scope, or one round of layers that repeat in a scope; what repeats is drawn once (I2)
 *   unit   one drawn node: an item, a closed box, or (as a last resort) a run of either
 *
 * Invariants:
 *   I1  at most max_nodes units, whatever the graph: deeper boxes close until it fits, then units merge;
 *   I2  the members of a fold have equal trees, so the k-th item of one stands for the k-th of every other;
 *       updates and collectives are the exception: of those in one box, the first stands for all of its op;
 *   I3  every item is counted by one unit: `stands` sums up to n_items.
 */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_SCENE_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_SCENE_H

#include "graph/core/graph.h"

/* What counts as a repetition; each level folds what those before it fold. Where all is drawn, all but the first
 * make a view a part of what it views. */
typedef enum scene_folding {
    FOLD_EQUAL, /* scopes with the same ops, attributes and types: the layers of a GPT */
    FOLD_ALIKE, /* sizes may differ: the stages of a ResNet; updates and collectives of one op are one */
    FOLD_RUNS,  /* layers that repeat within one scope: conv, norm, relu, conv, norm, relu */
} scene_folding;

typedef struct scene_how {
    bool all;  /* backward and updates too */
    int depth; /* of the boxes that are open; -1: as deep as fits */
    int max_nodes;
    scene_folding folding;
} scene_how;

typedef struct scene_item {
    const weft_node *node;      /* NULL for outputs */
    const graph_output *output; /* NULL for nodes */
    int box, next;              /* its box; the next item in that box, -1: none */
    int twin;                   /* the item drawn for it (itself unless folded away) */
    int also;                   /* the next item that is drawn by the same twin, -1: none */
    int host;                   /* of a view that is drawn with what it views: that item; else -1 */
    uint64_t signature;         /* op, attributes and types; or, of FOLD_ALIKE, op and ranks */
} scene_item;

/* The three parts of a step. */
typedef enum scene_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } scene_phase;

typedef struct scene_box {
    const char *name;      /* last part of the path, "discriminator" */
    const char *path;      /* of the scope */
    const char *last_name; /* of a fold's last member */
    int parent, depth;     /* the root is box 0 at depth 0 */
    int first_child, last_child, next;
    int first_item, last_item;
    int items;     /* in it and below */
    int low, high; /* the first and the last of them */
    uint64_t signature;
    int represented_by; /* the fold's first member; itself when alone */
    int members;        /* of a fold, on its first member; else 1 */
    int most_members;   /* of a fold within a fold: the most that it has in any member of the outer one */
    int run;            /* which run of repeating layers this is a round of; 0: it is a scope */
    scene_phase phase;
    bool is_bare; /* a leaf whose items are not joined: they are drawn in its parent, under its name */
} scene_box;

typedef struct scene_unit {
    int item, box; /* which of the two it is; the other is -1 */
    int parts;     /* > 1: a run of so many units, of which this is the first */
    int stands;    /* for how many items */
} scene_unit;

typedef struct scene_edge {
    int from, to;            /* units */
    const weft_value *value; /* the first that flows there; NULL for an output's edge without one */
    int more;                /* further values */
    bool repeats;            /* leads from one member of a fold into the next */
    bool is_own;             /* joins nodes of one scope: a layer and its gradient */
} scene_edge;

typedef struct scene {
    arena arena;
    const weft_graph *graph;
    scene_how how;
    int n_items, n_boxes, n_units, n_edges;
    scene_item *items;
    scene_box *boxes;
    scene_unit *units;
    scene_edge *edges;
    int open_depth; /* boxes of this depth and above are open */
    bool is_cut;    /* more than was asked for had to close or merge, to keep to max_nodes */
    int *item_of;   /* by value id; -1: not drawn */
    int *unit_of;   /* by item */
} scene;

/* False when memory is out; scene_free either way. */
bool scene_build(scene *s, const weft_graph *g, const scene_how *how);
void scene_free(scene *s);
/* Drawn as a cluster: open, not bare, not folded away. */
bool scene_box_is_open(const scene *s, int box);
/* The box in which a unit is drawn. */
int scene_home(const scene *s, const scene_unit *u);

/* The part of the step that an item is of, outputs being forward. */
scene_phase scene_phase_of(const scene_item *i);
/* Is it drawn wherever it is, as one of its op? */
bool scene_folds_by_op(const scene *s, const scene_item *i);

/* Steps of scene_build, scene_fold.c: signatures, folds, twins; scene_runs.c: boxes around what repeats. */
void scene_sign_items(scene *s);
bool scene_find_runs(scene *s);
void scene_fold(scene *s);
/* An item or box behind the last of a box. */
void scene_add_item(scene *s, int box, int item);
void scene_add_box(scene *s, int parent, int box);
/* True when the edge joins two members of one fold. */
bool scene_edge_repeats(const scene *s, int item_a, int item_b);

#endif
