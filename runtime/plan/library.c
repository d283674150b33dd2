/* library.c - the library that computes a plan's products and convolutions, where one does. Their bits depend
 * on its version, on the instruction set that it keeps within and on the implementations that it chooses, so
 * these are in the settings and in the JSON. Ranks compare them, but only our part of the instruction set:
 * one of two processors with AVX-512 may have more, which matters where the library chooses other code for
 * it.
 *
 * The implementations are those of the graphs that train, or of all where none does, without the nodes of
 * updates: those belong to one rank. */
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/onednn.h"
#include "runtime/plan/program.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 }; /* names; more would be left out of the list */

/* Sorted, each once. */
typedef struct name_list {
    int n;
    char names[MOST][KERNEL_IMPLEMENTATION];
} name_list;

static void insert(name_list *list, const char name[KERNEL_IMPLEMENTATION]) {
    int at = 0;
    while (at < list->n && strcmp(list->names[at], name) < 0) at++;
    if (list->n == MOST || (at < list->n && strcmp(list->names[at], name) == 0)) return;
    memmove(list->names + at + 1, list->names + at, (size_t)(list->n - at) * sizeof *list->names);
    memcpy(list->names[at], name, sizeof *list->names);
    list->n++;
}

static bool find_names(const weft_plan *plan, const program *p, name_list *list) {
    char name[KERNEL_IMPLEMENTATION];
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->is_update || !n->kernel || !n->kernel->implementation) continue;
        if (!n->kernel->implementation(n, &plan->kernels, name)) return false;
        insert(list, name);
    }
    return true;
}

/* "gemm:jit,jit:avx2"; NULL: no memory. */
static const char *names_text(arena *a, const name_list *list) {
    text t = {0};
    for (int i = 0; i < list->n; i++) text_add(&t, "%s%s", i ? "," : "", list->names[i]);
    char *all = text_detach(&t), *kept = all ? arena_copy(a, all) : NULL;
    free(all);
    return kept;
}

static bool fill(weft_plan *plan, const name_list *list) {
    arena *a = &plan->model->arena;
    onednn_library here = onednn_library_here();
    plan->library = (plan_library){.name = "onednn",
                                   .version = arena_copy(a, here.version),
                                   .isa = arena_copy(a, here.isa),
                                   .implementations = names_text(a, list),
                                   .set = isa_name(here.set)};
    return plan->library.version && plan->library.isa && plan->library.implementations;
}

bool plan_find_library(weft_plan *plan) {
    name_list list = {0};
    bool trains = plan_trains(plan);
    for (int i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].trains == trains && !find_names(plan, &plan->programs[i], &list)) return false;
    return !list.n || fill(plan, &list);
}
