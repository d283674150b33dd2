/* optimizers.c - finds what a plan has for an optimizer: its variables by name, the gradients that outlast a
 * run by bucket. */
#include "ops/optimizer/update.h"
#include "runtime/plan/program.h"

#include <string.h>

optimizer_entry *optimizer_named(const weft_plan *plan, const char *name) {
    for (int i = 0; i < plan->n_optimizers; i++)
        if (strcmp(plan->optimizers[i].name, name) == 0) return &plan->optimizers[i];
    return NULL;
}

weft_variable **gradient_levels(const weft_plan *plan, const weft_variable *bucket) {
    return &plan->gradients[bucket->index * accumulate_levels(plan->accumulate_most)];
}
