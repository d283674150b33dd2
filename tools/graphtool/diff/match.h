/* match.h - which scopes and nodes of two graphs are the same ones.
 *
 * Invariants:
 *   M1  a node is that of at most one node of the other graph, and a scope likewise;
 *   M2  with the graphs exchanged the pairs are the same ones;
 *   M3  of a graph and itself, or a copy, all nodes are pairs.
 * Scopes pair by name; by content where a number of them was inserted or a name is new. Nodes pair within
 * the scopes of a pair, in their order: first those that are equal, then in the gaps between these those of
 * one op and attributes, then of one op. What is left pairs where it computes the same from the same. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIFF_MATCH_H
#define WEFT_TOOLS_GRAPHTOOL_DIFF_MATCH_H

#include "graph/core/graph.h"

typedef struct match_scope {
    const char *path;              /* "" for the root, which is the first */
    const char *name;              /* the last part of the path */
    int parent, first, last, next; /* scopes: around it, in it, beside it; -1: there is none */
    int nodes;                     /* in it and in scopes in it */
    int other;                     /* the scope of the other graph that it is; -1: there is none */
    uint64_t content;              /* equal where the nodes of the forward and the scopes in it are */
    uint64_t calls;                /* the same, whatever the shapes */
} match_scope;

/* Three keys of a node, each equal for more nodes than the one before it. */
typedef enum match_key {
    KEY_EXACT, /* op, attributes, the types of what it reads and makes, its variables, its outputs' names */
    KEY_CALL,  /* op, attributes, its variable */
    KEY_OP,
    MATCH_KEYS
} match_key;

typedef struct match_side {
    arena *memory;
    const weft_graph *g;
    int n, n_scopes;
    const weft_node **nodes; /* in the order of making */
    int *of_value;           /* by id of a value: the place of its node */
    int *scope;              /* by node: the place of its scope */
    int *other;              /* by node: the place of the node of the other graph that it is; -1: none */
    uint64_t *key[MATCH_KEYS];
    match_scope *scopes; /* each after the one around it */
    name_table by_path;  /* scopes; items are places plus 1 */
} match_side;

typedef struct graph_match {
    match_side side[2];
} graph_match;

/* For as long as the command runs. */
graph_match graph_match_of(const weft_graph *a, const weft_graph *b);
/* The node of the other graph that node n of `side` is; NULL: there is none. */
const weft_node *match_other(const graph_match *m, int side, const weft_node *n);
/* The place of a node among its side's. */
int match_place(const match_side *s, const weft_node *n);
/* The path that a parameter of `side` has in the other graph, as the scopes around it pair. */
const char *match_path(const graph_match *m, int side, const char *path);
/* Whether it names what the graph reads: a parameter, a state or an input. */
bool match_is_named(const weft_node *n);
/* Whether a field says what its node computes. The key of a random stream follows from the calls before it,
 * and the path of a variable is compared as a variable. */
bool match_compares(const weft_node *n, const op_attr *f);

/* ---- the steps of graph_match_of ---- */
void match_read_side(match_side *s, const weft_graph *g); /* match_side.c */
void match_pair_scopes(graph_match *m);                   /* match_scopes.c */
void match_pair_nodes(graph_match *m);                    /* match_nodes.c */
/* A name without its digits, which is equal in layers that are counted; mixed into a key. */
uint64_t match_stem(const char *name, uint64_t key);
uint64_t match_mix(uint64_t a, uint64_t b);
void *match_new(arena *memory, size_t count, size_t width);

#endif
