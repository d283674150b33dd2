/* subgraphs.c - which parameters belong to which subgraph, and the process groups that the plan uses. A
 * scope that weft_model_set_ddp names claims the parameters in it, the longest path first; every other
 * parameter belongs to its top-level scope. */
#include "runtime/plan/program.h"
#include "runtime/passes/passes.h"

#include "ops/structure/ranks.h"
#include "runtime/plan/value.h"

#include <stdio.h>
#include <string.h>

/* The path of a parameter's subgraph; *said is what weft_model_set_ddp or the strategy set for it, or NULL.
 * "generator/fc/weight" -> "generator"; "" for a parameter outside any scope. */
static const char *scope_of(weft_model *m, const char *parameter, const ddp_entry **said) {
    char name[256];
    *said = ddp_find(m, parameter);
    if (*said) return scope_intern(m, (*said)->path);
    snprintf(name, sizeof name, "%.*s", (int)ddp_subgraph(m, parameter), parameter);
    return scope_intern(m, name);
}

static bool fail_group(weft_plan *plan, const subgraph *s, const char *why) {
    if (s >= plan->subgraphs + plan->n_subgraphs)
        return model_fail(plan->model, NULL, WEFT_ARGUMENT, "an op's group '%s': %s", SHOW(s->name), why);
    return model_fail(plan->model, NULL, WEFT_ARGUMENT, "subgraph %s: process_group=\"%s\": %s", s->name,
                      SHOW(s->ddp.process_group), why);
}

/* Sets the subgraph's ranks. Subgraphs with the same process_group text share one array, found in by_group.
 */
static bool set_group(weft_plan *plan, subgraph *s, name_table *by_group) {
    const char *why = NULL;
    int world = plan->options.world;
    bool has_groups = world > 1 && s->ddp.process_group; /* a world of one rank has none */
    const char *groups = has_groups ? s->ddp.process_group : "";
    /* Many subgraphs usually share one process group, whose ranks may be many. */
    const subgraph *known = table_find(by_group, groups);
    if (known) {
        s->n_ranks = known->n_ranks;
        s->rank = known->rank;
        s->ranks = known->ranks;
        s->largest = known->largest;
        return true;
    }
    int *ranks = model_array(plan->model, world, sizeof *ranks);
    if (!ranks || !table_add(by_group, &plan->model->arena, groups, s)) return false;
    s->n_ranks = process_group_of(groups, world, plan->options.rank, ranks, &why);
    s->ranks = ranks;
    if (!s->n_ranks) return fail_group(plan, s, why);
    s->largest = process_group_largest(groups, world);
    while (ranks[s->rank] != plan->options.rank) s->rank++;
    return true;
}

/* Whether a parameter has the name, or is in a scope of that name. */
static bool is_taken(const weft_model *m, const char *name) {
    size_t n = strlen(name);
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (!strncmp(v->path, name, n) && (!v->path[n] || v->path[n] == '/')) return true;
    return false;
}

/* What the subgraph of the path "" is called. */
static const char *name_of_whole(const weft_model *m) {
    static const char *const names[] = {"model", "model_", "model__", "model___"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_taken(m, names[i])) return names[i];
    return names[0];
}

/* Adds a subgraph with the options of `said`; the compile options replace those that it does not set. */
static bool add_subgraph(weft_plan *plan, const ddp_entry *said, const char *path, name_table *by_group) {
    subgraph *s = &plan->subgraphs[plan->n_subgraphs++];
    const weft_compile_options *o = &plan->options;
    *s = (subgraph){.path = path, .name = *path ? path : plan->whole};
    if (said) s->ddp = said->attrs;
    if (s->ddp.process_group &&
        !(s->ddp.process_group = arena_copy(&plan->model->arena, s->ddp.process_group)))
        return false;
    if (s->ddp.bucket_cap_mb == 0) s->ddp.bucket_cap_mb = o->bucket_cap_mb;
    if (s->ddp.zero == 0) {
        s->ddp.zero = o->zero;
        if (!s->ddp.shard) s->ddp.shard = o->shard;
    }
    if (!table_add(&plan->by_path, &plan->model->arena, path, s)) return false;
    if (!set_group(plan, s, by_group)) return false;
    /* -1 switches off what the compile options ask for; one rank has nothing to shard. */
    if (s->ddp.zero < 0 || o->world == 1) s->ddp.zero = 0;
    return true;
}

/* The bucket size where none is set: a sixteenth of the subgraph, so that sums begin while much of the
 * backward is left to overlap them, but not less than is worth a message (1/16 MiB) and not more than torch's
 * 25 MiB. One rank alone has nothing to overlap. */
static void set_cap(const weft_plan *plan, subgraph *s, double bytes) {
    enum { PARTS = 16 };
    const double least = 1.0 / 16, most = 25;
    if (s->ddp.bucket_cap_mb > 0) return;
    double part = plan->options.world > 1 ? bytes / PARTS / (1 << 20) : most;
    s->ddp.bucket_cap_mb = part < least ? least : part > most ? most : part;
}

/* Sizes are counted over all parameters of a subgraph, trained or not. */
static bool set_caps(weft_plan *plan) {
    weft_model *m = plan->model;
    double *bytes = scratch_array(m, plan->n_subgraphs, sizeof *bytes);
    if (!bytes) return false;
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) bytes[v->subgraph] += (double)type_bytes(&v->type);
    for (int i = 0; i < plan->n_subgraphs; i++) set_cap(plan, &plan->subgraphs[i], bytes[i]);
    return true;
}

/* Logs options of compiling that every subgraph replaces by its own, and ways to shard what nothing shards.
 * They are not errors, since one program may run with the options of another; one rank never shards. */
static void tell_idle(const weft_plan *plan, bool takes_zero) {
    const weft_compile_options *o = &plan->options;
    bool shards = false;
    if (o->world < 2 || !plan->n_subgraphs) return;
    for (int i = 0; i < plan->n_subgraphs; i++) {
        const subgraph *s = &plan->subgraphs[i];
        shards |= s->ddp.zero > 0;
        if (s->ddp.shard && !s->ddp.zero && s->ddp.shard != (int64_t)o->shard)
            env_log(&plan->env,
                    "subgraph %.100s: shard=flat has no effect without ZeRO: set zero to 1 or 2 "
                    "(weft_model_set_ddp or "
                    "compile options)",
                    s->name);
    }
    if (o->zero && !takes_zero)
        env_log(&plan->env,
                "compile: zero=%d has no effect: every subgraph has its own zero (weft_model_set_ddp)",
                o->zero);
    if (o->shard && !shards)
        env_log(&plan->env, "compile: shard=flat has no effect without ZeRO: set zero to 1 or 2");
}

/* Adds the world (text ""), or the process group that an op over ranks names, unless it is there. */
static bool add_group(weft_plan *plan, const char *text, name_table *by_group) {
    for (int i = plan->n_subgraphs; i < plan->n_groups; i++) {
        const char *other = plan->subgraphs[i].ddp.process_group;
        if (strcmp(other ? other : "", text) == 0) return true;
    }
    subgraph *s = &plan->subgraphs[plan->n_groups++];
    *s = (subgraph){.path = "", .name = *text ? arena_copy(&plan->model->arena, text) : "world"};
    if (*text) s->ddp.process_group = s->name;
    return s->name && set_group(plan, s, by_group);
}

/* The text of the process groups that n goes over; NULL: it is not an op over ranks. */
static const char *group_text(const weft_node *n) {
    const ranks_attrs *a = op_is_over_ranks(n->op) ? n->attrs : NULL;
    return !a ? NULL : a->group ? a->group : "";
}

/* After the last subgraph: the world, for what all ranks agree on; then the process groups of ops. */
static bool add_groups(weft_plan *plan, name_table *by_group) {
    plan->n_groups = plan->n_subgraphs;
    bool good = add_group(plan, "", by_group);
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n && good; n = n->next)
            if (group_text(n)) {
                plan->has_values = true;
                plan->model->file = n->file;
                plan->model->line = n->line;
                good = add_group(plan, group_text(n), by_group);
                plan->model->file = NULL;
            }
    return good;
}

/* At most so many process groups: each node may name one. */
static int64_t most_groups(const weft_plan *plan) {
    int64_t n = plan->model->n_variables + 1;
    for (const weft_graph *g = plan->source->graphs; g; g = g->next)
        for (const weft_node *node = g->first; node; node = node->next) n += group_text(node) != NULL;
    return n;
}

/* Subgraphs are made in the order in which their first parameters were built. v->subgraph is their index. */
bool subgraphs_find(weft_plan *plan) {
    weft_model *m = plan->model;
    name_table by_group = {0};
    bool takes_zero = false;
    plan->subgraphs = model_array(m, most_groups(plan), sizeof *plan->subgraphs);
    if (!plan->subgraphs) return false;
    plan->whole = name_of_whole(m);
    for (weft_variable *v = m->variables; v; v = v->next) {
        const ddp_entry *said;
        if (v->kind != VARIABLE_PARAMETER) continue;
        const char *path = scope_of(m, v->path, &said);
        if (!path || (!table_find(&plan->by_path, path) && !add_subgraph(plan, said, path, &by_group)))
            return false;
        const subgraph *own = table_find(&plan->by_path, path);
        takes_zero |= !said || said->attrs.zero == 0;
        v->subgraph = (int)(own - plan->subgraphs);
    }
    tell_idle(plan, takes_zero);
    return add_groups(plan, &by_group) && set_caps(plan);
}
