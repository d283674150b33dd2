/* compile.c - the whole compiler, readable top to bottom: a private copy of the model, its segments, and for each
 * graph and phase one program that goes through the pipeline below: all up to their order, then all to the end.
 * Nothing here touches a device, builds machine code or measures time, so two compiles of one model agree.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/plan/program.h"

#include "graph/core/minimize.h"
#include "graph/core/precision.h"
#include "ops/calibration.h"
#include "ops/cpu/onednn/onednn.h"
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/optimizer/optimizer.h"
#include "runtime/passes/passes.h"
#include "runtime/verify/verify.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HAS_GRADIENTS = 1 << 0, /* no `gradients` left; `minimize` carries parameters and their gradients */
    HAS_TYPES = 1 << 1,     /* what scopes say of their nodes, groups and precision, is done */
    HAS_UPDATES = 1 << 2,   /* no `minimize` left */
    HAS_EDGES = 1 << 3,     /* readers and writers of variables wait for each other */
    HAS_LAYOUT = 1 << 4,    /* every value has strides, every node its kernel */
    HAS_ORDER = 1 << 5,     /* the list is the schedule */
    HAS_MEMORY = 1 << 6,    /* every value has its place */
    HAS_LAUNCHES = 1 << 7,  /* for a GPU, the schedule is cut into launches */
};

/* What a pass may change: a graph names its values and scopes to passes, `gradients` its targets, weft_ddp and
 * weft_precision the nodes of a scope. Equal values are two as long as a pass to come may be told of the one: with y = 1 x,
 * the gradient of f(y) + g(x) by y is not that by x. So passes that merge values, or put one in place of another that is as
 * good (`merges`), run when HAS_NAMED is there. Before gradients are made a pass may add nodes, and put new values in place
 * of others, one for one: graph_check_names proves that it does no more. */
enum { HAS_NAMED = HAS_GRADIENTS | HAS_TYPES };

static bool simplify(program *p) {
    return pass_simplify(p->graph);
}

/* Of f16, what the loss is multiplied by. */
static weft_value *loss_factor(const weft_node *n) {
    const minimize_attrs *a = n->attrs;
    weft_variable *scale = optimizer_variable(n->graph->model, a->name, "loss_scale", NULL);
    return scale ? variable_value(n->graph, scale) : NULL;
}

static bool autodiff(program *p) {
    /* gradients are means over all micro-batches of a step */
    double parts = (double)p->plan->options.accumulate * p->plan->options.world;
    return pass_autodiff(p->graph, 1 / parts, loss_factor);
}

static bool precision(program *p) {
    return pass_precision(p->graph, p->name, p->plan->options.precision);
}

static bool clean(program *p) {
    return pass_simplify(p->graph) && graph_order_edges(p->graph);
}

static bool collectives(program *p) {
    return lower_sum_ranks(p) && broadcast_buffers(p);
}

static bool fuse(program *p) {
    return p->plan->kernels.isa == WEFT_ISA_REFERENCE || pass_fuse(p->graph);
}

static bool layout(program *p) {
    return verify_note_operands(p) && pass_layout(p);
}

typedef struct pass {
    const char *name;
    bool (*run)(program *p);
    unsigned requires, gives;
    bool merges; /* nodes or values */
} pass;

/* clang-format off */
static const pass pipeline[] = {
    /* name         run             requires                gives          merges */
    {"sync_norm",    pass_sync_norm, 0,                      0,             false},
    {"autodiff",     autodiff,       0,                      HAS_GRADIENTS, false},
    {"precision",    precision,      HAS_GRADIENTS,          HAS_TYPES,     false},
    {"simplify",     simplify,       HAS_TYPES,              0,             true },
    {"optimizer",    pass_optimizer, HAS_TYPES,              HAS_UPDATES,   false},
    {"clean",        clean,          HAS_UPDATES,            HAS_EDGES,     true },
    {"epilogue",     pass_epilogue,  HAS_EDGES,              0,             true },
    {"collectives",  collectives,    HAS_EDGES,              0,             false},
    {"uploads",      pass_uploads,   HAS_EDGES,              0,             false},
    {"fuse",         fuse,           HAS_EDGES,              0,             true },
    {"layout",       layout,         HAS_EDGES,              HAS_LAYOUT,    true },
    {"order",        pass_schedule,  HAS_LAYOUT,             HAS_ORDER,     false},
    {"memory",       pass_memory,    HAS_ORDER,              HAS_MEMORY,    false},
    {"launches",     pass_launches,  HAS_ORDER,              HAS_LAUNCHES,  false},
    {"verify",       pass_verify,    HAS_MEMORY | HAS_LAUNCHES, 0,          false},
};
/* clang-format on */
enum { N_PASSES = sizeof pipeline / sizeof *pipeline };

const char *weft_pass_name(int index) {
    return index >= 0 && index < N_PASSES ? pipeline[index].name : NULL;
}

static bool check_graph(program *p, const char *after) {
    if (!(p->has & HAS_GRADIENTS) && !graph_check_names(p->source, p->graph, after)) return false;
    return graph_check(p->graph, after);
}

/* On from where it is, until the program has `enough` or is stopped. */
static bool run_pipeline(program *p, unsigned enough) {
    const char *stop = p->plan->options.stop_after;
    weft_model *m = p->graph->model;
    for (; p->n_passes < N_PASSES && (p->has & enough) != enough && !p->is_stopped; p->n_passes++) {
        const pass *s = &pipeline[p->n_passes];
        if ((p->has & s->requires) != s->requires)
            return model_fail(m, NULL, WEFT_INTERNAL, "pass %s lacks what earlier passes must give", s->name);
        if (s->merges && (p->has & HAS_NAMED) != HAS_NAMED)
            return model_fail(m, NULL, WEFT_INTERNAL, "pass %s merges what later passes may name", s->name);
        if (!s->run(p)) return false;
        if (!model_ok(m)) return false; /* a builder failed inside the pass */
        p->has |= s->gives;
        if (p->plan->options.verify && !check_graph(p, s->name)) return false;
        if (stop && strcmp(stop, s->name) == 0) p->is_stopped = true;
    }
    return true;
}

/* ---- options ---- */

static int usable_cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

/* Whether any axis is the batch. */
static bool has_batch(const weft_model *m) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (attrs_name_batch(n->op, n->attrs)) return true;
    return false;
}

/* A graph that computes something for nobody: its last values went astray, as by a NULL that weft_output was given. */
static const weft_graph *find_idle(const weft_model *m, const char *only) {
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        bool acts = g->outputs || !g->first;
        for (const weft_node *n = g->first; n; n = n->next)
            acts |= (n->op->flags & OP_EFFECT) && n->op != &weft_op_input;
        if (!acts && (!only || strcmp(only, g->name) == 0)) return g;
    }
    return NULL;
}

static weft_status no_such_pass(const char *name, weft_error *error) {
    text known = {0};
    for (int i = 0; i < N_PASSES; i++) text_add(&known, "%s%s", i ? ", " : "", pipeline[i].name);
    char *names = text_take(&known);
    weft_status status = error_set(error, WEFT_NAME, "compile: there is no pass '%s'; there are %s", SHOW(name),
                                   names ? names : "others");
    free(names);
    return status;
}

static weft_status check_options(const weft_model *m, const weft_compile_options *o, weft_error *error) {
    if (scopes_check(m, error)) return WEFT_ORDER;
    if (!model_is_as_built(m))
        return error_set(
            error, WEFT_ARGUMENT,
            "compile: the model is a plan that was read back: it holds variables or nodes, and only the "
            "compiler makes these");
    if ((unsigned)o->device > WEFT_DEVICE_CUDA)
        return error_set(error, WEFT_ARGUMENT, "compile: there is no device number %d", o->device);
    if (o->batch < 0 || o->batch > INT32_MAX)
        return error_set(error, WEFT_ARGUMENT, "compile: batch %lld: it must be 1 to 2^31-1",
                         (long long)o->batch);
    if (o->batch && o->batch != m->batch && !has_batch(m))
        return error_set(
            error, WEFT_ARGUMENT,
            "compile: batch %lld: no axis of the model is WEFT_BATCH, so its batch is what its shapes say",
            (long long)o->batch);
    if (o->calibration && o->device == WEFT_DEVICE_CPU)
        return error_set(error, WEFT_ARGUMENT,
                         "compile: calibration: it is a GPU's, the plan is for the CPU");
    if (o->threads < 0 || o->threads > 1024)
        return error_set(error, WEFT_ARGUMENT, "compile: %d threads: 1 to 1024, or 0 for all cores",
                         o->threads);
    if (o->precision != WEFT_F32 && !dtype_is_low(o->precision))
        return error_set(error, WEFT_ARGUMENT, "compile: precision %s: it must be f32, bf16 or f16",
                         dtype_name(o->precision));
    const precision_entry *astray = precision_astray(m);
    if (astray)
        return error_set(error, WEFT_NAME, "compile: precision: the model has no graph and no scope '%s'",
                         SHOW(astray->path));
    if (o->accumulate < 0 || o->accumulate > 1 << 20)
        return error_set(error, WEFT_ARGUMENT, "compile: accumulate=%d: it must be 1 to 2^20", o->accumulate);
    if ((unsigned)o->zero > 2)
        return error_set(error, WEFT_ARGUMENT, "compile: zero=%d: ZeRO has stages 0 to 2", o->zero);
    if ((unsigned)o->shard > WEFT_SHARD_FLAT)
        return error_set(error, WEFT_ARGUMENT, "compile: there is no way of sharding number %d", o->shard);
    if (o->world < 0 || o->world > 1 << 20)
        return error_set(error, WEFT_ARGUMENT, "compile: a world of %d: it must be 1 to 2^20", o->world);
    if (o->rank < 0 || o->rank >= (o->world ? o->world : 1))
        return error_set(error, WEFT_ARGUMENT, "compile: rank=%d: it must be below the world's %d", o->rank,
                         o->world ? o->world : 1);
    if (!(o->bucket_cap_mb >= 0) || o->bucket_cap_mb > 1 << 20)
        return error_set(error, WEFT_ARGUMENT,
                         "compile: bucket_cap_mb must be above 0 and at most 2^20 (0: at most 25)");
    if ((unsigned)o->reduce > WEFT_REDUCE_FAST)
        return error_set(error, WEFT_ARGUMENT, "compile: there is no way of reducing number %d", o->reduce);
    if ((unsigned)o->isa > WEFT_ISA_AVX512)
        return error_set(error, WEFT_ARGUMENT, "compile: there is no instruction set number %d", o->isa);
    if (o->isa > isa_best())
        return error_set(error, WEFT_UNSUPPORTED, "compile: this processor has no %s (its best is %s)",
                         isa_name(o->isa), isa_name(isa_best()));
    if (o->graph && !graph_find(m, o->graph))
        return error_set(error, WEFT_NAME, "compile: the model has no graph '%s'", SHOW(o->graph));
    const weft_graph *idle = find_idle(m, o->graph);
    if (idle)
        return error_set(
            error, WEFT_ORDER,
            "compile: graph %s does nothing: it has no output (was it given a NULL?), trains nothing and "
            "writes no state",
            idle->name);
    for (int i = 0; o->stop_after && i < N_PASSES; i++)
        if (strcmp(pipeline[i].name, o->stop_after) == 0) return WEFT_OK;
    return o->stop_after ? no_such_pass(o->stop_after, error) : WEFT_OK;
}

weft_status weft_limit_isa(weft_isa isa, weft_error *error) {
    if ((unsigned)isa > WEFT_ISA_AVX512)
        return error_set(error, WEFT_ARGUMENT, "there is no instruction set number %d", (int)isa);
    return onednn_limit(isa, error);
}

/* ---- programs ---- */

static bool is_trained(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_minimize) return true;
    return false;
}

static int phases_of(const weft_plan *plan, const weft_graph *g, program_phase *list) {
    list[0] = PHASE_WHOLE;
    if (plan->options.accumulate <= 1 || !is_trained(g)) return 1;
    list[0] = PHASE_FIRST;
    list[1] = PHASE_ADD;
    list[2] = PHASE_LAST;
    return 3;
}

static bool compile_program(weft_plan *plan, program *p, const weft_graph *source, program_phase phase) {
    static const char *const suffix[] = {"", ".first", ".add", ".last"};
    char name[240];
    snprintf(name, sizeof name, "%.200s%s", source->name, suffix[phase]);
    *p = (program){.plan = plan, .source = source, .phase = phase};
    p->name = arena_copy(&plan->model->arena, source->name);
    p->graph = graph_replay(source, plan->model, name);
    bool good = p->name && p->graph && run_pipeline(p, HAS_ORDER);
    p->source = NULL; /* it may go */
    return good;
}

/* What a program leaves to later runs is told from all schedules, and memory is planned by that. */
static bool finish_programs(weft_plan *plan) {
    if (plan->n_programs && plan->programs[0].is_stopped) return true;
    if (!tails_find(plan)) return false;
    for (int i = 0; i < plan->n_programs; i++)
        if (!run_pipeline(&plan->programs[i], ~0u)) return false;
    return true;
}

static bool has_random(const weft_graph *g) {
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->op->flags & OP_RANDOM) return true;
    return false;
}

/* A graph that draws random numbers has a step counter in the store. */
static bool counters(weft_plan *plan, const weft_model *source) {
    tensor_type type = type_scalar(WEFT_F64);
    for (const weft_graph *g = source->graphs; g; g = g->next) {
        if (!has_random(g)) continue;
        if (!variable_made(plan->model, counter_path_of(g->name).text, VARIABLE_OPTIMIZER, &type,
                           (weft_init){0}))
            return false;
    }
    return true;
}

static bool compile_all(weft_plan *plan, const weft_model *source) {
    weft_model *m = plan->model;
    int count = 0;
    if (!subgraphs_find(plan, source) || !trainings_find(plan, source) || !segments_cut(plan) ||
        !optimizer_variables(plan) || !counters(plan, source))
        return false;
    for (const weft_graph *g = source->graphs; g; g = g->next) count += 3;
    plan->programs = arena_new_array(&m->arena, (size_t)count + 1, sizeof *plan->programs);
    if (!plan->programs) return model_fail(m, NULL, WEFT_MEMORY, "compile: memory could not be had");
    for (const weft_graph *g = source->graphs; g; g = g->next) {
        program_phase phases[3];
        if (plan->options.graph && strcmp(plan->options.graph, g->name)) continue;
        int n = phases_of(plan, g, phases);
        for (int i = 0; i < n; i++)
            if (!compile_program(plan, &plan->programs[plan->n_programs++], g, phases[i])) return false;
    }
    return finish_programs(plan) && (plan->options.stop_after || pass_verify_plan(plan));
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
    if (check_options(model, o, error)) return NULL;
    weft_plan *plan = mem_new(&model->env, sizeof *plan);
    if (!plan) {
        error_memory(error, "compile");
        return NULL;
    }
    plan->env = model->env;
    plan->options = *o;
    plan->options.batch = o->batch ? o->batch : model->batch;
    plan->options.accumulate = o->accumulate ? o->accumulate : 1;
    plan->options.world = o->world ? o->world : 1;
    plan->options.threads = o->threads ? o->threads : usable_cores();
    plan->options.isa = o->isa ? o->isa : isa_best();
    if (!o->reduce)
        plan->options.reduce = o->device == WEFT_DEVICE_CPU ? WEFT_REDUCE_ORDERED : WEFT_REDUCE_FAST;
    plan->kernels = (kernel_env){.isa = plan->options.isa,
                                 .threads = plan->options.threads,
                                 .env = &plan->env,
                                 .device = o->device,
                                 .deterministic = o->deterministic,
                                 .tf32 = o->tf32};
    plan->model = model_clone_variables(model, plan->options.batch);
    if (!plan->model || !load_calibration(plan, o->calibration) || !compile_all(plan, model) ||
        !plan_measure(plan) || !plan_identify(plan, model)) {
        if (plan->model)
            error_set(error, plan->model->error.status, "%s", plan->model->error.text);
        else
            error_memory(error, "compile");
        weft_plan_free(plan);
        return NULL;
    }
    for (int i = 0; i < plan->n_trainings; i++) {
        plan->trainings[i].graph = NULL; /* the source may go */
        plan->trainings[i].minimize = NULL;
    }
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
