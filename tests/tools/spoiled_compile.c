/* spoiled_compile.c - a graphtool whose compiler has a defect: linked with --wrap=weft_compile, it makes one
 * of the mutants of support/mutants/mutants.h in each plan of one rank that has a place for it.
 *     SPOIL='3 a border moves on one rank' spoiled_graphtool verify mlp.bin --world 4 */
#include "support/mutants/mutants.h"
#include "support/models/random_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_plan *__real_weft_compile(const weft_model *m, const weft_compile_options *o, weft_error *error);
weft_plan *__wrap_weft_compile(const weft_model *m, const weft_compile_options *o, weft_error *error);

static const mutant *find_mutant(const char *name) {
    const mutant *m = mutants_of_buckets;
    while (m->name && strcmp(m->name, name)) m++;
    if (m->name) return m;
    fprintf(stderr, "SPOIL: there is no mutant '%s'\n", name);
    exit(9);
}

/* A plan that stops before its programs has an empty one here: mutants of ranges alone have a place in it. */
static void spoil(weft_plan *plan, const mutant *m) {
    test_random r = {1};
    bool is_done = false;
    for (int i = 0; i < 100 && !is_done; i++) {
        weft_graph empty = {.model = plan->model};
        program stopped = {.plan = plan, .graph = &empty};
        program *p = plan->n_programs ? &plan->programs[random_below(&r, plan->n_programs)] : &stopped;
        is_done = m->mutate(&(victim){plan, p, p->graph, &r});
    }
}

weft_plan *__wrap_weft_compile(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    char *name = NULL;
    const char *said = getenv("SPOIL");
    long rank = said ? strtol(said, &name, 10) : -1;
    weft_plan *plan = __real_weft_compile(m, o, error);
    if (plan && plan->options.rank == rank) spoil(plan, find_mutant(name + strspn(name, " ")));
    return plan;
}
