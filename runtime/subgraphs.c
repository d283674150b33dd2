/* subgraphs.c - which parameters train together. A scope that weft_ddp names claims what lies under it, the longest
 * path first; what is left belongs to its top-level scope.
 */
#include "runtime/program.h"

#include <stdio.h>
#include <string.h>

/* "generator/fc/weight" -> "generator"; "" for a parameter outside any scope. */
static const char *scope_of(weft_model *m, const weft_model *source, const char *parameter) {
    char name[256];
    const struct ddp_entry *e = ddp_find(source, parameter);
    if (e) return scope_intern(m, e->path);
    size_t n = strcspn(parameter, "/");
    snprintf(name, sizeof name, "%.*s", parameter[n] ? (int)n : 0, parameter);
    return scope_intern(m, name);
}

static bool fail_group(weft_plan *plan, const subgraph *s, const char *why) {
    return model_fail(plan->model, NULL, WEFT_ARGUMENT, "subgraph %s: process_group=\"%s\": %s", s->name,
                      SHOW(s->ddp.process_group), why);
}

static bool set_group(weft_plan *plan, subgraph *s) {
    const char *why = NULL;
    int world = plan->options.world;
    int *ranks = arena_new_array(&plan->model->arena, (size_t)world, sizeof *ranks);
    if (!ranks) return model_fail(plan->model, NULL, WEFT_MEMORY, "subgraphs: memory could not be had");
    const char *groups = world > 1 ? s->ddp.process_group : NULL; /* alone, nobody shares */
    s->n_ranks = process_group_of(groups, world, plan->options.rank, ranks, &why);
    s->ranks = ranks;
    if (!s->n_ranks) return fail_group(plan, s, why);
    s->largest = process_group_largest(groups, world);
    while (ranks[s->rank] != plan->options.rank) s->rank++;
    return true;
}

/* The options of a path, and those of the compiler where it has none. */
static bool add(weft_plan *plan, const weft_model *source, const char *path) {
    subgraph *s = &plan->subgraphs[plan->n_subgraphs++];
    const weft_compile_options *o = &plan->options;
    *s = (subgraph){.path = path, .name = *path ? path : "model"};
    for (const struct ddp_entry *e = source->ddps; e; e = e->next)
        if (strcmp(e->path, path) == 0) s->ddp = e->attrs;
    if (s->ddp.process_group &&
        !(s->ddp.process_group = arena_copy(&plan->model->arena, s->ddp.process_group)))
        return model_fail(plan->model, NULL, WEFT_MEMORY, "subgraphs: memory could not be had");
    if (s->ddp.bucket_cap_mb == 0) s->ddp.bucket_cap_mb = o->bucket_cap_mb;
    if (s->ddp.zero == 0) {
        s->ddp.zero = o->zero;
        if (!s->ddp.shard) s->ddp.shard = o->shard;
    }
    if (!set_group(plan, s)) return false;
    if (s->ddp.zero < 0 || o->world == 1) s->ddp.zero = 0;
    return true;
}

/* Where nobody says how much a bucket holds: a sixteenth, so that sums begin while there is much to hide them behind, but
 * no less than what is worth a message and no more than torch's 25 MiB. One rank alone has nothing to hide. */
static void set_cap(weft_plan *plan, subgraph *s, int index) {
    enum { PARTS = 16 };
    const double least = 1.0 / 16, most = 25;
    double bytes = 0;
    if (s->ddp.bucket_cap_mb > 0) return;
    for (const weft_variable *v = plan->model->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER && v->subgraph == index) bytes += (double)type_bytes(&v->type);
    double part = plan->options.world > 1 ? bytes / PARTS / (1 << 20) : most;
    s->ddp.bucket_cap_mb = part < least ? least : part > most ? most : part;
}

const subgraph *subgraph_of(const weft_plan *plan, const char *parameter) {
    const subgraph *found = NULL;
    for (int i = 0; i < plan->n_subgraphs; i++) {
        const subgraph *s = &plan->subgraphs[i];
        if (path_matches(s->path, parameter) && (!found || strlen(s->path) > strlen(found->path))) found = s;
    }
    return found;
}

bool subgraphs_find(weft_plan *plan, const weft_model *source) {
    weft_model *m = plan->model;
    plan->subgraphs = arena_new_array(&m->arena, (size_t)m->n_variables + 1, sizeof *plan->subgraphs);
    if (!plan->subgraphs) return model_fail(m, NULL, WEFT_MEMORY, "subgraphs: memory could not be had");
    for (weft_variable *v = m->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        const char *path = scope_of(m, source, v->path);
        if (!path) return false;
        v->subgraph = 0;
        while (v->subgraph < plan->n_subgraphs && plan->subgraphs[v->subgraph].path != path) v->subgraph++;
        if (v->subgraph == plan->n_subgraphs && !add(plan, source, path)) return false;
    }
    for (int i = 0; i < plan->n_subgraphs; i++) set_cap(plan, &plan->subgraphs[i], i);
    return true;
}
