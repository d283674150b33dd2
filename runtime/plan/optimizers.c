/* optimizers.c - finds what a plan has for an optimizer: its variables by name, what each of its numbers is,
 * the gradients that outlast a run by bucket. */
#include "ops/optimizer/update.h"
#include "runtime/plan/program.h"

#include <string.h>

optimizer_entry *optimizer_named(const weft_plan *plan, const char *name) {
    for (int i = 0; i < plan->n_optimizers; i++)
        if (strcmp(plan->optimizers[i].name, name) == 0) return &plan->optimizers[i];
    return NULL;
}

weft_stored_kind number_kind(const weft_plan *plan, const weft_variable *number, const char **optimizer) {
    for (int i = 0; i < plan->n_optimizers; i++) {
        const optimizer_entry *o = &plan->optimizers[i];
        const struct {
            const weft_variable *variable;
            weft_stored_kind kind;
        } numbers[] = {{o->step, WEFT_STORED_STEP},
                       {o->lr, WEFT_STORED_LR},
                       {o->epoch, WEFT_STORED_EPOCH},
                       {o->loss_scale, WEFT_STORED_LOSS_SCALE},
                       {o->good_steps, WEFT_STORED_GOOD_STEPS},
                       {o->product, WEFT_STORED_PRODUCT}};
        *optimizer = o->name;
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (numbers[k].variable == number) return numbers[k].kind;
    }
    for (int i = 0; i < plan->n_trainings; i++) {
        *optimizer = plan->trainings[i].optimizer;
        if (plan->trainings[i].loss_mean == number) return WEFT_STORED_LOSS_MEAN;
    }
    *optimizer = NULL;
    return WEFT_STORED_COUNTER;
}

weft_variable **gradient_levels(const weft_plan *plan, const weft_variable *bucket) {
    return &plan->gradients[bucket->index * accumulate_levels(plan->accumulate_most)];
}
