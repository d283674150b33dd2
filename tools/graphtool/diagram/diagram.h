/* diagram.h - what a picture of a graph shows: boxes (scopes), units (what becomes one drawn node) and edges.
 *
 *   item   a node of the graph that is worth drawing, or an output
 *   box    a scope, or one round of layers that repeat in a scope; what repeats is drawn once (I2)
 *   unit   one drawn node: an item, a closed box, or (as a last resort) a run of either
 *
 * Invariants:
 *   I1  at most max_nodes units, whatever the graph: deeper boxes close until it fits, then units merge;
 *   I2  the members of a collapse have equal trees, so the k-th item of one stands for the k-th of every other;
 *       updates and collectives are the exception: of those in one box, the first stands for all of its op;
 *   I3  every item is counted by one unit: `stands` sums up to n_items.
 */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DIAGRAM_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DIAGRAM_H

#include "graph/core/graph.h"

/* What counts as a repetition; each level collapses what those before it collapse. Where all is drawn, all but the first
 * make a view a part of what it views. */
typedef enum diagram_collapsing {
    COLLAPSE_EQUAL, /* scopes with the same ops, attributes and types: the layers of a GPT */
    COLLAPSE_ALIKE, /* sizes may differ: the stages of a ResNet; updates and collectives of one op are one */
    COLLAPSE_RUNS,  /* layers that repeat within one scope: conv, norm, relu, conv, norm, relu */
} diagram_collapsing;

typedef struct diagram_how {
    bool all;  /* backward and updates too */
    int depth; /* of the boxes that are open; -1: as deep as fits */
    int max_nodes;
    diagram_collapsing collapsing;
} diagram_how;

typedef struct diagram_item {
    const weft_node *node;      /* NULL for outputs */
    const graph_output *output; /* NULL for nodes */
    int box, next;              /* its box; the next item in that box, -1: none */
    int representative;         /* the item drawn for it (itself unless collapsed) */
    int also;                   /* the next item that is drawn by the same representative, -1: none */
    int host;                   /* of a view that is drawn with what it views: that item; else -1 */
    uint64_t signature;         /* op, attributes and types; or, of COLLAPSE_ALIKE, op and ranks */
} diagram_item;

/* The three parts of a step. */
typedef enum diagram_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } diagram_phase;

typedef struct diagram_box {
    const char *name;      /* last part of the path, "discriminator" */
    const char *path;      /* of the scope */
    const char *last_name; /* of a collapse's last member */
    int parent, depth;     /* the root is box 0 at depth 0 */
    int first_child, last_child, next;
    int first_item, last_item;
    int items;     /* in it and below */
    int low, high; /* the first and the last of them */
    uint64_t signature;
    int represented_by; /* the collapse's first member; itself when alone */
    int members;        /* of a collapse, on its first member; else 1 */
    int most_members; /* of a collapse within a collapse: the most that it has in any member of the outer one */
    int run;          /* which run of repeating layers this is a round of; 0: it is a scope */
    diagram_phase phase;
    bool is_bare; /* a leaf whose items are not joined: they are drawn in its parent, under its name */
} diagram_box;

typedef struct diagram_unit {
    int item, box; /* which of the two it is; the other is -1 */
    int parts;     /* > 1: a run of so many units, of which this is the first */
    int stands;    /* for how many items */
} diagram_unit;

typedef struct diagram_edge {
    int from, to;            /* units */
    const weft_value *value; /* the first that flows there; NULL for an output's edge without one */
    int more;                /* further values */
    bool repeats;            /* leads from one member of a collapse into the next */
    bool is_own;             /* joins nodes of one scope: a layer and its gradient */
} diagram_edge;

typedef struct diagram {
    arena arena;
    const weft_graph *graph;
    diagram_how how;
    int n_items, n_boxes, n_units, n_edges;
    diagram_item *items;
    diagram_box *boxes;
    diagram_unit *units;
    diagram_edge *edges;
    int open_depth; /* boxes of this depth and above are open */
    bool is_cut;    /* more than was asked for had to close or merge, to keep to max_nodes */
    int *item_of;   /* by value id; -1: not drawn */
    int *unit_of;   /* by item */
} diagram;

/* False when memory is out; diagram_free either way. */
bool diagram_build(diagram *s, const weft_graph *g, const diagram_how *how);
void diagram_free(diagram *s);
/* Drawn as a cluster: open, not bare, not collapsed. */
bool diagram_box_is_open(const diagram *s, int box);
/* The box in which a unit is drawn. */
int diagram_box_of(const diagram *s, const diagram_unit *u);

/* The part of the step that an item is of, outputs being forward. */
diagram_phase diagram_phase_of(const diagram_item *i);
/* Is it drawn wherever it is, as one of its op? */
bool diagram_collapses_by_op(const diagram *s, const diagram_item *i);

/* Steps of diagram_build, diagram_collapse.c: signatures, collapses, representatives; diagram_runs.c: boxes around what repeats. */
void diagram_sign_items(diagram *s);
bool diagram_find_runs(diagram *s);
void diagram_collapse(diagram *s);
/* An item or box behind the last of a box. */
void diagram_add_item(diagram *s, int box, int item);
void diagram_add_box(diagram *s, int parent, int box);
/* True when the edge joins two members of one collapse. */
bool diagram_edge_repeats(const diagram *s, int item_a, int item_b);

#endif
