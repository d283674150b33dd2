/* mutants.h - changes of a good plan after which a rank may read what is not there yet, sum what does not belong together,
 * or do what the other ranks do not. */
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
    bool (*mutate)(const victim *v); /* false: there is no place for it here, and nothing has been changed */
    const char *rules;               /* one of which must catch it */
    bool
        conflicts; /* two streams may then meet in memory: it counts only where stream_player.h has seen that */
} mutant;

/* Of memory and streams; of buckets, ranges and groups; of strides; each ends with a name of NULL. */
extern const mutant mutants_of_collectives[], mutants_of_buckets[], mutants_of_layouts[];

/* ---- what both lists are made with ---- */
typedef bool (*is_kind)(const weft_node *n);
weft_node *mutant_pick(const victim *v, is_kind fits); /* one at random, or NULL */
void mutant_renumber(weft_graph *g);                   /* after nodes were moved */
/* Readers of `from`, and what lies in it, go on with `to`. */
void mutant_bypass(weft_graph *g, weft_value *from, weft_value *to);
bool is_start(const weft_node *n);  /* of a sum or a broadcast */
bool is_sum(const weft_node *n);    /* of gradients */
bool is_gather(const weft_node *n); /* that nobody awaits */
bool is_bucket(const weft_node *n);
bool is_update(const weft_node *n);
bool is_busy(const weft_node *n); /* on the compute stream */
weft_node *mutant_wait(const weft_node *start);
weft_variable *mutant_bucket(const weft_node *update); /* that it updates */

#endif
