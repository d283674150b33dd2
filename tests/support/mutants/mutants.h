/* mutants.h - mutants: changes of a good plan after which a rank may read data too early, sum what does not
 * belong together, or act differently from the other ranks. */
#ifndef WEFT_TEST_MUTANTS_H
#define WEFT_TEST_MUTANTS_H

#include "runtime/plan/program.h"
#include "support/test.h"

typedef struct victim {
    weft_plan *plan; /* of one rank */
    program *p;      /* one of its programs */
    weft_graph *g;
    test_random *r;
} victim;

typedef struct mutant {
    const char *name;
    bool (*mutate)(const victim *v); /* false: there is no place for it, and nothing has changed */
    const char *rules;               /* rules, one of which must catch it */
    bool conflicts; /* streams may then conflict in memory: it counts only if stream_player.h sees that */
    weft_isa least; /* kernels of lower instruction sets leave no place for it */
} mutant;

/* Lists of mutants: of memory and streams; of buckets, ranges and groups; of strides. Each ends with a NULL
 * name. */
extern const mutant mutants_of_collectives[], mutants_of_buckets[], mutants_of_layouts[];

/* ---- helpers for all lists ---- */
typedef bool (*is_kind)(const weft_node *n);
weft_node *mutant_pick(const victim *v, is_kind fits); /* a random node of the kind, or NULL */
void mutant_renumber(weft_graph *g);                   /* call after nodes were moved */
/* Makes readers of `from`, and of its views, read `to` instead. */
void mutant_bypass(weft_graph *g, weft_value *from, weft_value *to);
bool is_start(const weft_node *n);  /* of a sum or a broadcast */
bool is_sum(const weft_node *n);    /* of gradients */
bool is_gather(const weft_node *n); /* that no node waits for */
bool is_bucket(const weft_node *n);
bool is_update(const weft_node *n);
bool is_busy(const weft_node *n); /* on the compute stream */
weft_node *mutant_wait(const weft_node *start);
weft_variable *mutant_bucket(const weft_node *update); /* the bucket that it updates */

#endif
