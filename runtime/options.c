/* options.c - the options of weft_compile, from their table: checked before the first pass, each in its
 * range, then together and for this model, device and processor (one function a subject; the first error
 * ends the checks). Then defaults replace zeros. Also their text. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/options.h"

#include "graph/core/nearest.h"
#include "graph/settings/flow.h"
#include "graph/settings/precision.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/onednn.h"
#include "runtime/plan/compile_fields.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

static weft_status check_model(const weft_model *m, weft_error *error) {
    if (scopes_check(m, error)) return WEFT_ORDER;
    if (!model_is_as_built(m))
        return error_set(error, WEFT_ARGUMENT,
                         "compile: the model was read back from a plan and holds variables or nodes that "
                         "only the compiler makes: compile the original model");
    return WEFT_OK;
}

/* A batch other than the model's can only be bound to axes that are WEFT_BATCH. */
static weft_status check_batch(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    if (o->batch && o->batch != m->batch && !m->names_batch)
        return error_set(
            error, WEFT_ARGUMENT,
            "compile: batch %jd: no axis of the model is WEFT_BATCH, so its shapes fix the batch size",
            o->batch);
    return WEFT_OK;
}

/* A graph without output and without effect: its result was probably lost, for instance because weft_output
 * was given a NULL. `only` NULL: look at all graphs. */
static const weft_graph *find_idle(const weft_model *m, const char *only) {
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        bool acts = g->outputs || !g->first;
        for (const weft_node *n = g->first; n; n = n->next)
            acts |= (n->op->flags & OP_EFFECT) && n->op != &weft_op_input;
        if (!acts && (!only || strcmp(only, g->name) == 0)) return g;
    }
    return NULL;
}

/* That the model has no graph, or no flow, of the name: the nearest one, and all. */
static weft_status missing(const weft_model *m, const char *where, bool is_flow, const char *name,
                           weft_error *error) {
    text names = {0};
    nearest near = nearest_to(name, strlen(name));
    const weft_graph *g = m->graphs;
    const char *other;
    for (int i = 0; (other = is_flow ? weft_flow_name(m, i) : g ? g->name : NULL); i++) {
        text_add(&names, "%s%s", i ? ", " : "", other);
        nearest_try(&near, other);
        if (!is_flow) g = g->next;
    }
    char *list = text_detach(&names);
    near_text ask = nearest_ask(&near);
    weft_status status = error_set(error, WEFT_NAME, "compile: %sthe model has no %s '%s'%s%s%s", where,
                                   is_flow ? "flow" : "graph", SHOW(name), ask.question,
                                   list && *list ? ask.it_has : "", list ? list : "");
    free(list);
    return status;
}

/* Where a flow was set, and its name: "gan.c:31: flow train: ". */
typedef struct flow_place {
    char text[420];
} flow_place;
static flow_place place_of(const flow_entry *e) {
    flow_place p;
    shown_place line = show_place(e->file, e->line);
    snprintf(p.text, sizeof p.text, "%s%sflow %s: ", line.text, *line.text ? ": " : "", e->name);
    return p;
}

static weft_status check_step(const weft_model *m, const flow_entry *e, const weft_flow_step *s,
                              weft_error *error) {
    flow_place where = place_of(e);
    const weft_graph *g = graph_find(m, s->graph);
    if (!g) return missing(m, where.text, false, s->graph, error);
    if (s->batch == WEFT_FLOW_NEXT && !graph_takes_batches(g))
        return error_set(error, WEFT_ARGUMENT,
                         "compile: %sbatch=next of graph %s: it has no inputs: leave it out", where.text,
                         s->graph);
    if (s->accumulate <= 1 || graph_accumulates(g)) return WEFT_OK;
    return error_set(
        error, WEFT_ARGUMENT,
        "compile: %saccumulate=%d of graph %s: it trains nothing and has no inputs: leave it out", where.text,
        s->accumulate, s->graph);
}

/* All flows of the model, so that a misspelt name is found before it is used. */
static weft_status check_flow(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    bool trains = false;
    for (const flow_entry *e = m->flows; e; e = e->next) {
        for (int i = 0; i < e->n; i++) {
            weft_status status = check_step(m, e, &e->steps[i], error);
            if (status) return status;
        }
    }
    const flow_entry *flow = o->flow ? flow_find(m, o->flow) : NULL;
    const weft_graph *only =
        o->graph ? graph_find(m, o->graph) : NULL; /* check_graph tells of another name */
    bool is_in = !only || (flow ? flow_entry_has(flow, o->graph) : only->mode == WEFT_TRAIN);
    if (o->flow && !is_in && (flow || strcmp(o->flow, FLOW_DEFAULT) == 0))
        return error_set(error, WEFT_NAME, "compile: graph %s is not in flow %s", SHOW(o->graph), o->flow);
    if (!o->flow || flow) return WEFT_OK;
    if (strcmp(o->flow, FLOW_DEFAULT)) return missing(m, "", true, o->flow, error);
    for (const weft_graph *g = m->graphs; g; g = g->next) trains |= g->mode == WEFT_TRAIN;
    if (trains) return WEFT_OK;
    return error_set(error, WEFT_NAME, "compile: flow %s: the model has no training graph", FLOW_DEFAULT);
}

static weft_status check_graph(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    if (o->graph && !graph_find(m, o->graph)) return missing(m, "", false, o->graph, error);
    const weft_graph *idle = find_idle(m, o->graph);
    if (idle)
        return error_set(error, WEFT_ORDER,
                         "compile: graph %s does nothing: it has no output (was it given a NULL?), trains "
                         "nothing and writes no state",
                         idle->name);
    return WEFT_OK;
}

/* ---- where and how it runs ---- */

/* An instruction set above this processor's would crash; one below it is fine. */
static weft_status check_place(const weft_compile_options *o, weft_error *error) {
    int world = o->world ? o->world : 1;
    if (o->calibration && o->device == WEFT_DEVICE_CPU)
        return error_set(error, WEFT_ARGUMENT,
                         "compile: a calibration is for a GPU, and the plan is for the CPU");
    if (o->isa > isa_best())
        return error_set(error, WEFT_UNSUPPORTED, "compile: this processor has no %s (its best is %s)",
                         isa_name(o->isa), isa_name(isa_best()));
    if (o->rank >= world)
        return error_set(error, WEFT_ARGUMENT, "compile: rank=%d: it must be below the world's %d", o->rank,
                         world);
    return WEFT_OK;
}

/* Every path of weft_model_set_precision names a graph or a scope of the model: a misspelt one would have
 * no effect. */
static weft_status check_precision(const weft_model *m, weft_error *error) {
    const precision_entry *astray = precision_astray(m);
    if (astray)
        return error_set(error, WEFT_NAME, "compile: precision: the model has no graph and no scope '%s'",
                         SHOW(astray->path));
    return WEFT_OK;
}

weft_status compile_no_name(const char *kind, const char *name, const char *const *names, const char *more,
                            weft_error *error) {
    text known = {0};
    nearest near = nearest_to(name, strlen(name));
    for (int i = 0; names[i]; i++) {
        text_add(&known, "%s%s", i ? ", " : "", names[i]);
        nearest_try(&near, names[i]);
    }
    char *list = text_detach(&known);
    near_text ask = nearest_ask(&near);
    error_set(error, WEFT_NAME, "compile: there is no %s '%s'%s%s are %s%s", kind, SHOW(name), ask.question,
              ask.there, list ? list : "others", more);
    free(list);
    return WEFT_NAME;
}

/* ---- all ---- */

/* A model's sticky error is not looked at here: weft_compile reports it first. */
weft_status compile_options_check(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    weft_status status = weft_fields_check(compile_fields, o, "compile", error);
    if (!status) status = check_model(m, error);
    if (!status) status = check_place(o, error);
    if (!status) status = check_batch(m, o, error);
    if (!status) status = check_precision(m, error);
    if (!status) status = check_flow(m, o, error);
    if (!status) status = check_graph(m, o, error);
    return status;
}

int usable_cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

/* Sums over ranks are ordered by default on the CPU, and in the communicator's own order on a GPU. */
weft_compile_options compile_options_filled(const weft_model *m, const weft_compile_options *o) {
    weft_compile_options all = *o;
    if (!o->batch) all.batch = m->batch;
    if (!o->accumulate) all.accumulate = 1;
    if (!o->world) all.world = 1;
    if (!o->threads) all.threads = usable_cores();
    if (!o->isa) all.isa = isa_best();
    if (o->guard == WEFT_GUARD_SPIKE && !o->guard_factor) all.guard_factor = 10;
    if (o->guard != WEFT_GUARD_SPIKE) all.guard_factor = 0;
    if (!o->reduce) all.reduce = o->device == WEFT_DEVICE_CPU ? WEFT_REDUCE_ORDERED : WEFT_REDUCE_FAST;
    return all;
}

/* For the whole process: oneDNN keeps its limit globally, and only before its first primitive. */
weft_status weft_limit_isa(weft_isa isa, weft_error *error) {
    if ((unsigned)isa > WEFT_ISA_AVX512)
        return error_set(error, WEFT_ARGUMENT, "there is no instruction set number %d", (int)isa);
    return onednn_limit(isa, error);
}
