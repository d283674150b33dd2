/* compile.c - the whole compiler, readable top to bottom: the list of passes, and the loop that runs it. Options
 * are checked before (options.c). A plan keeps a private copy of the model's variables, and one of each graph for
 * each of its programs.
 * Nothing here touches a device, builds machine code or measures time, so two compiles of one model agree.
 */
#include "runtime/options.h"
#include "runtime/plan/program.h"

#include "graph/core/minimize.h"
#include "graph/core/precision.h"
#include "ops/calibration.h"
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/optimizer/optimizer.h"
#include "runtime/passes/passes.h"
#include "runtime/verify/verify.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    HAS_SUBGRAPHS = 1 << 0, /* every parameter is of a subgraph: its options, its process group */
    HAS_TRAININGS = 1 << 1, /* what each `minimize` trains */
    HAS_BUCKETS = 1 << 2,   /* parameters stand in buckets */
    HAS_STATES = 1 << 3,    /* the variables of optimizers and of random numbers */
    HAS_PROGRAMS = 1 << 4,  /* graphs of the plan's own */
    HAS_GRADIENTS = 1 << 5, /* no `gradients` left; `minimize` carries parameters and their gradients */
    HAS_TYPES = 1 << 6,     /* what scopes say of their nodes, groups and precision, is done */
    HAS_UPDATES = 1 << 7,   /* no `minimize` left */
    HAS_EDGES = 1 << 8,     /* readers and writers of variables wait for each other */
    HAS_LAYOUT = 1 << 9,    /* every value has strides, every node its kernel */
    HAS_ORDER = 1 << 10,    /* the list is the schedule */
    HAS_DEFERRED = 1 << 11, /* what each program leaves to later runs */
    HAS_MEMORY = 1 << 12,   /* every value has its place */
    HAS_LAUNCHES = 1 << 13, /* for a GPU, the schedule is cut into launches */
    HAS_PROOF = 1 << 14,    /* every program is proved */
};

/* What a pass may change: a graph names its values and scopes to passes, `gradients` its targets, weft_ddp and
 * weft_precision the nodes of a scope. Equal values are two as long as a pass to come may be told of the one:
 * with y = 1 x, the gradient of f(y) + g(x) by y is not that by x. So passes that merge values, or put one in place
 * of another that is as good (`merges`), run when HAS_NAMED is there. Before gradients are made a pass may add
 * nodes, and put new values in place of others, one for one: graph_check_names proves that it does no more. */
enum { HAS_NAMED = HAS_GRADIENTS | HAS_TYPES };

static bool simplify(program *p) {
    return pass_simplify(p->graph);
}

/* Of f16, what the loss is multiplied by. */
static weft_value *loss_factor(const weft_node *n, const void *plan) {
    const minimize_attrs *a = n->attrs;
    const optimizer_entry *o = optimizer_named(plan, a->name);
    return o && o->loss_scale ? variable_value(n->graph, o->loss_scale) : NULL;
}

static bool autodiff(program *p) {
    /* gradients are means over all micro-batches of a step */
    double parts = (double)p->plan->options.accumulate * p->plan->options.world;
    return pass_autodiff(p->graph, 1 / parts, loss_factor, p->plan);
}

static bool precision(program *p) {
    return pass_precision(p->graph, p->name, p->plan->options.precision);
}

static bool clean(program *p) {
    return pass_simplify(p->graph) && graph_order_edges(p->graph);
}

static bool fuse(program *p) {
    return p->plan->kernels.isa == WEFT_ISA_REFERENCE || pass_fuse(p->graph);
}

static bool layout(program *p) {
    return verify_note_operands(p) && pass_layout(p);
}

/* A row has one of both: what is of the whole plan, or of each program. */
typedef struct pass {
    const char *name;
    bool (*plan)(weft_plan *plan);
    bool (*program)(program *p);
    unsigned requires, gives;
    bool merges; /* nodes or values */
} pass;

/* clang-format off */
static const pass pipeline[] = {
    /* name               plan                 program            requires        gives          merges */
    {"subgraphs",         subgraphs_find,      NULL,              0,              HAS_SUBGRAPHS, false},
    {"trainings",         trainings_find,      NULL,              HAS_SUBGRAPHS,  HAS_TRAININGS, false},
    {"buckets",           buckets_cut,         NULL,              HAS_TRAININGS,  HAS_BUCKETS,   false},
    {"states",            optimizer_variables, NULL,              HAS_BUCKETS,    HAS_STATES,    false},
    {"counters",          counters_make,       NULL,              0,              0,             false},
    {"programs",          programs_make,       NULL,              HAS_STATES,     HAS_PROGRAMS,  false},
    {"sync_norm",         NULL,                pass_sync_norm,    HAS_PROGRAMS,   0,             false},
    {"autodiff",          NULL,                autodiff,          HAS_PROGRAMS,   HAS_GRADIENTS, false},
    {"precision",         NULL,                precision,         HAS_GRADIENTS,  HAS_TYPES,     false},
    {"simplify",          NULL,                simplify,          HAS_TYPES,      0,             true },
    {"optimizer",         NULL,                pass_optimizer,    HAS_TYPES,      HAS_UPDATES,   false},
    {"clean",             NULL,                clean,             HAS_UPDATES,    HAS_EDGES,     true },
    {"epilogue",          NULL,                pass_epilogue,     HAS_EDGES,      0,             true },
    {"sum_ranks",         NULL,                lower_sum_ranks,   HAS_EDGES,      0,             false},
    {"broadcast_buffers", NULL,                broadcast_buffers, HAS_EDGES,      0,             false},
    {"uploads",           NULL,                pass_uploads,      HAS_EDGES,      0,             false},
    {"fuse",              NULL,                fuse,              HAS_EDGES,      0,             true },
    {"layout",            NULL,                layout,            HAS_EDGES,      HAS_LAYOUT,    true },
    {"order",             NULL,                pass_schedule,     HAS_LAYOUT,     HAS_ORDER,     false},
    {"deferred",          deferred_find,       NULL,              HAS_ORDER,      HAS_DEFERRED,  false},
    {"memory",            NULL,                pass_memory,       HAS_DEFERRED,   HAS_MEMORY,    false},
    {"launches",          NULL,                pass_launches,     HAS_ORDER,      HAS_LAUNCHES,  false},
    {"verify",            NULL,                pass_verify,       HAS_MEMORY | HAS_LAUNCHES, HAS_PROOF, false},
    {"verify_plan",       pass_verify_plan,    NULL,              HAS_PROOF,      0,             false},
};
/* clang-format on */
enum { N_PASSES = sizeof pipeline / sizeof *pipeline };

const char *weft_pass_name(int index) {
    return index >= 0 && index < N_PASSES ? pipeline[index].name : NULL;
}

/* ---- going through it ---- */

static bool check_requirements(weft_plan *plan, const pass *s, unsigned has) {
    if ((has & s->requires) != s->requires)
        return model_fail(plan->model, NULL, WEFT_INTERNAL, "pass %s lacks what earlier passes must give",
                          s->name);
    if (s->merges && (has & HAS_NAMED) != HAS_NAMED)
        return model_fail(plan->model, NULL, WEFT_INTERNAL, "pass %s merges what later passes may name",
                          s->name);
    return true;
}

static bool check_graph(const program *p, const char *after, unsigned had) {
    if (!(had & HAS_GRADIENTS) && !graph_check_names(p->source, p->graph, after)) return false;
    return graph_check(p->graph, after);
}

/* Passes [first, end), all of programs; `has` is what was there before. */
static bool run_program(program *p, const pass *first, const pass *end, unsigned has) {
    for (const pass *s = first; s < end; s++) {
        if (!check_requirements(p->plan, s, has) || !s->program(p)) return false;
        if (!model_ok(p->graph->model)) return false; /* a builder failed inside the pass */
        has |= s->gives;
        if (p->plan->options.verify && !check_graph(p, s->name, has)) return false;
    }
    return true;
}

static bool run_programs(weft_plan *plan, const pass *first, const pass *end, unsigned has) {
    for (int i = 0; i < plan->n_programs; i++)
        if (!run_program(&plan->programs[i], first, end, has)) return false;
    return true;
}

/* To the end, or until after stop_after. Passes of programs that follow each other are gone through by one program after
 * another. */
static bool run_pipeline(weft_plan *plan) {
    const char *stop = plan->options.stop_after;
    const pass *last = pipeline;
    unsigned has = 0;
    while (last + 1 < pipeline + N_PASSES && !(stop && strcmp(last->name, stop) == 0)) last++;
    for (const pass *s = pipeline, *end; s <= last; s = end) {
        for (end = s + 1; s->program && end <= last && end->program;) end++;
        if (s->program && !run_programs(plan, s, end, has)) return false;
        if (s->plan && !(check_requirements(plan, s, has) && s->plan(plan) && model_ok(plan->model)))
            return false;
        for (; s < end; s++) has |= s->gives;
    }
    return true;
}

/* The caller may free the model. */
static void forget_source(weft_plan *plan) {
    plan->source = NULL;
    for (int i = 0; i < plan->n_programs; i++) plan->programs[i].source = NULL;
    for (int i = 0; i < plan->n_trainings; i++) {
        plan->trainings[i].graph = NULL;
        plan->trainings[i].minimize = NULL;
    }
}

static bool load_calibration(weft_plan *plan, const char *path) {
    weft_error error = {0};
    if (!path) return true;
    plan->kernels.calibration = calibration_load(path, &plan->model->arena, &error);
    return plan->kernels.calibration ||
           model_fail(plan->model, NULL, error.status, "compile: calibration: %s", error.text);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void log_plan(const weft_plan *plan) {
    char line[400];
    if (!plan->env.log) return;
    snprintf(line, sizeof line, "compiled %.100s: batch %lld, %d threads, %s, %d programs, %.1f MiB, %.1f ms",
             plan->model->name, (long long)plan->options.batch, plan->options.threads,
             isa_name(plan->options.isa), plan->n_programs, (double)plan->memory.total / (1 << 20),
             plan->compile_ms);
    plan->env.log(plan->env.log_context, line);
}

weft_plan *weft_compile(const weft_model *model, const weft_compile_options *options, weft_error *error) {
    static const weft_compile_options defaults = {0};
    const weft_compile_options *o = options ? options : &defaults;
    double start = now_ms();
    if (!model_ok(model)) {
        const weft_error *e = weft_model_error(model);
        error_set(error, e->status, "%s", e->text);
        return NULL;
    }
    if (compile_options_check(model, o, error)) return NULL;
    weft_plan *plan = mem_new(&model->env, sizeof *plan);
    if (!plan) {
        error_memory(error, "compile");
        return NULL;
    }
    plan->env = model->env;
    plan->options = compile_options_filled(model, o);
    plan->source = model;
    plan->kernels = (kernel_env){.isa = plan->options.isa,
                                 .threads = plan->options.threads,
                                 .env = &plan->env,
                                 .device = o->device,
                                 .deterministic = o->deterministic,
                                 .tf32 = o->tf32};
    plan->model = model_clone_variables(model, plan->options.batch);
    if (!plan->model || !load_calibration(plan, o->calibration) || !run_pipeline(plan) ||
        !plan_measure(plan) || !plan_identify(plan, model)) {
        if (plan->model)
            error_set(error, plan->model->error.status, "%s", plan->model->error.text);
        else
            error_memory(error, "compile");
        weft_plan_free(plan);
        return NULL;
    }
    forget_source(plan);
    plan->can_run = !o->stop_after;
    plan->options.graph = plan->options.stop_after = plan->options.calibration = NULL;
    plan->compile_ms = now_ms() - start;
    log_plan(plan);
    return plan;
}

void weft_plan_free(weft_plan *plan) {
    if (!plan) return;
    weft_env env = plan->env;
    weft_model_free(plan->model);
    mem_free(&env, plan, sizeof *plan);
}
