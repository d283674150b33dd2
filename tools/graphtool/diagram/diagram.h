/* diagram.h - what a picture of a graph shows: boxes (scopes), units (drawn nodes) and edges.
 *
 *   item   a node of the graph that is drawn, or an output
 *   box    a scope, or one round of layers that repeat in a scope; what repeats is drawn once (I2)
 *   unit   one drawn node: an item, a closed box, or (as a last resort) items that read each other
 *
 * Invariants:
 *   I1  there are at most max_nodes units: boxes open while these suffice, and units merge. Inputs, outputs,
 *       state and closed boxes never merge, nor do units that nothing joins, so there may be more;
 *   I2  members of a collapse have equal trees, so the k-th item of one represents the k-th of every other;
 *       updates, upkeep and collectives are the exception: of those in one box, the first represents all of
 *       its key;
 *   I3  every item is counted by one unit: the sum of `stands` is n_items. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DIAGRAM_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DIAGRAM_H

#include "graph/core/graph.h"
#include "tools/graphtool/options/options.h"

/* What counts as a repetition; each level collapses all that the levels before it collapse. */
typedef enum diagram_collapsing {
    COLLAPSE_EQUAL, /* scopes with equal ops, attributes and types: the layers of a GPT */
    COLLAPSE_ALIKE, /* sizes may differ: the stages of a ResNet */
    COLLAPSE_RUNS,  /* also layers that repeat within one scope: conv, norm, relu, conv, norm, relu */
} diagram_collapsing;

typedef struct diagram_how {
    diagram_collapsing collapsing;
    int depth; /* greatest depth of an open box; -1: as deep as fits */
    int max_nodes;
    bool all; /* with the backward pass and the updates */
    /* views and state of layers are drawn as part of them, and updates, upkeep and collectives of one key
     * once */
    bool is_brief;
    const char *focus; /* what is drawn with all that is up to `hops` reads away; NULL: everything */
    int hops;
    const text_list *expand; /* paths of scopes that are open in any case; NULL: none */
} diagram_how;

/* What a drawn node is, by the flags of its op, so that a new op needs no line here. */
typedef enum diagram_kind {
    KIND_INPUT,
    KIND_LAYER,
    KIND_COMPUTE,
    KIND_POINTWISE,
    KIND_SHAPE,
    KIND_RANDOM,
    KIND_SCALAR,
    KIND_STATE,
    KIND_BACKWARD,
    KIND_TRAINING,
    KIND_OUTPUT,
    KIND_CLOSED,
    KINDS
} diagram_kind;

typedef struct diagram_box diagram_box;
typedef struct diagram_unit diagram_unit;

typedef struct diagram_item {
    const weft_node *node;      /* NULL for outputs */
    const graph_output *output; /* NULL for nodes */
    int place;                  /* of the node in the graph's list, from 0 */
    diagram_box *box;
    struct diagram_item *representative; /* the item that is drawn for it; itself unless collapsed */
    struct diagram_item *also;           /* the next item with the same representative; NULL: none */
    /* for a view that is drawn as part of what it views, and state and upkeep of a layer: that item; else
     * NULL */
    struct diagram_item *host;
    diagram_unit *unit;
    bool is_upkeep;     /* all that it is for is an assignment: running means, averages of weights */
    uint64_t signature; /* hash of op, attributes and types; from COLLAPSE_ALIKE on of op and ranks */
    uint64_t key;       /* of those that collapse by it (I2) */
} diagram_item;

/* The three parts of a training step. */
typedef enum diagram_phase { DIAGRAM_FORWARD, DIAGRAM_BACKWARD, DIAGRAM_UPDATE } diagram_phase;

struct diagram_box {
    const char *name;                             /* last part of the path, "discriminator" */
    const char *path;                             /* path of the scope */
    const char *last_name;                        /* name of the last member of a collapse */
    diagram_box *parent;                          /* NULL: the root, the first of all */
    diagram_box *first_child, *last_child, *next; /* NULL: none */
    int depth;                                    /* the root's is 0 */
    int level;     /* how many scopes it is in, itself among them; a round is as open as its scope */
    int items;     /* items in it and in boxes below */
    int low, high; /* the places of the first and the last of these items; INT_MAX, -1: no items */
    uint64_t signature;
    diagram_box *represented_by; /* the first member of its collapse; itself when alone */
    int members;                 /* on the first member of a collapse: the number of members; else 1 */
    /* for a collapse inside a collapse: the one in the next member of the outer one, which may have another
     * number of members; NULL: there is no more */
    diagram_box *twin;
    int run; /* number of the run of repeating layers that this is a round of; 0: it is a scope */
    diagram_phase phase;
    bool is_expanded; /* it, or a scope in it, is to be open in any case */
    bool is_closed;   /* it is one unit, if all around it are open */
    bool is_bare;     /* a leaf whose items are not connected: they are drawn in its parent, with its name */
    /* Of draw.c: its cluster, and the node with its title; NULL: not drawn (yet). */
    struct Agraph_s *cluster;
    struct Agnode_s *title;
};

/* An item reads a value that another one makes. */
typedef struct diagram_read {
    diagram_item *from, *to;
    const weft_value *value;
} diagram_read;

struct diagram_unit {
    diagram_item *item; /* the one it is; the other is NULL */
    diagram_box *box;
    int parts;       /* > 1: this many units merged, of which this is the first */
    int stands;      /* number of items that it represents */
    int first, last; /* the places of the first and the last item that is drawn as it */
    /* Of draw.c: its node, whether one of its box is above it, and whether any is below it. */
    struct Agnode_s *drawn;
    bool is_below, is_above;
};

typedef struct diagram_edge {
    diagram_unit *from, *to;
    const weft_value *value; /* the first value that flows there; NULL for an output's edge without one */
    int more;                /* further values of other types */
    bool repeats;            /* leads from one member of a collapse to the next */
    bool is_own;             /* joins nodes of one scope: a layer and its gradient */
} diagram_edge;

typedef struct diagram {
    arena arena;
    const weft_graph *graph;
    diagram_how how;
    int n_items, n_boxes, n_reads, n_units, n_edges;
    diagram_item *items;
    diagram_box *boxes;
    diagram_read *reads; /* by reader */
    diagram_unit *units;
    diagram_edge *edges;
    bool is_cut;            /* more had to close or merge than was asked for, to keep to max_nodes */
    diagram_item **item_of; /* by value id; NULL: not drawn */
    diagram_unit **unit_of_box, **unit_of_item; /* while units are cut; NULL: none */
} diagram;

/* Call diagram_free after it. */
void diagram_build(diagram *s, const weft_graph *g, const diagram_how *how);
void diagram_free(diagram *s);
/* Is the box drawn as a cluster, that is open, not bare and not collapsed into another? */
bool diagram_box_is_open(const diagram_box *box);
/* Is the box `ancestor`, or in it? */
bool diagram_box_is_in(const diagram_box *box, const diagram_box *ancestor);
/* The box in which a unit is drawn. */
diagram_box *diagram_box_of(const diagram_unit *u);

/* The part of the step that a node belongs to; outputs (NULL) are forward. */
diagram_phase diagram_phase_of(const weft_node *n);
diagram_phase diagram_unit_phase(const diagram_unit *u);
/* NULL is an output. */
diagram_kind diagram_kind_of(const weft_node *n);
diagram_kind diagram_unit_kind(const diagram_unit *u);
/* Is the item represented by the first of its key in its box (I2)? */
bool diagram_collapses_by_op(const diagram *s, const diagram_item *i);

/* By place: whether the node is near the focus. Ends the command where nothing has that name. */
bool *diagram_focus(diagram *s);
/* Ends the command with the nearest name of a scope, or (with_values) of a value or a variable. */
_Noreturn void diagram_no_scope(const weft_graph *g, const char *option, const char *name, bool with_values);
/* Is a path that of a scope, or below it? */
bool diagram_is_below(const char *path, const char *scope);

/* Steps of diagram_build. diagram_boxes.c: items in boxes; diagram_hosts.c: what is drawn as part of another
 * item; diagram_collapse.c: signatures, collapses, representatives; diagram_runs.c: boxes around rounds that
 * repeat; diagram_open.c: which boxes are open; diagram_merge.c: the last resort of I1. */
void diagram_host_state(diagram *s);
void diagram_host_views(diagram *s);
void diagram_cut_units(diagram *s);
void diagram_open(diagram *s);
void diagram_merge(diagram *s);
void diagram_sign_items(diagram *s);
void diagram_find_runs(diagram *s);
void diagram_collapse(diagram *s);
/* Hashes one number after another. */
uint64_t diagram_mix(uint64_t a, uint64_t b);
/* Memory of the diagram. */
void *diagram_new(diagram *s, int count, size_t width);
/* Makes a box in a parent; NULL: the root. Boxes are never removed. */
diagram_box *diagram_box_new(diagram *s, diagram_box *parent, const char *name, const char *path);
/* Puts an item, or a box, into a box, after those that it has. */
void diagram_add_item(diagram *s, diagram_box *box, diagram_item *item);
void diagram_add_box(diagram_box *parent, diagram_box *box);
/* The items of a box alone, in order: the first (item NULL), or the next one; NULL: there is no more. */
diagram_item *diagram_next_item(const diagram *s, const diagram_box *box, const diagram_item *item);
/* Does a value from a to b join two members of one collapse? */
bool diagram_repeats(const diagram_item *a, const diagram_item *b);

#endif
