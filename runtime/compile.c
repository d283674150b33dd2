/* compile.c - the whole compiler on one page: the list of passes, and the loop that runs it. Options are
 * checked before (options.c). A plan keeps private copies: of the model's variables, and of each graph for
 * each program. Compiling touches no device, builds no machine code and reads no clock to decide anything, so
 * two compiles of one model make equal plans. */
#include "runtime/options.h"
#include "runtime/plan/program.h"
#include "runtime/strategy.h"

#include "graph/settings/clone.h"
#include "graph/settings/minimize.h"
#include "ops/calibration.h"
#include "ops/cpu/isa.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/devices.h"
#include "runtime/passes/distribute/collectives.h"
#include "runtime/passes/passes.h"
#include "runtime/verify/verify.h"
#include "weft/support.h"

#include <string.h>

/* What passes give and require; each row of pipeline[] names some of these. */
enum {
    /* every parameter belongs to a subgraph, which has its options and its process group */
    HAS_SUBGRAPHS = 1 << 0,
    HAS_TRAININGS = 1 << 1, /* what each `minimize` trains is known */
    HAS_BUCKETS = 1 << 2,   /* trained parameters are in buckets */
    HAS_SUMS = 1 << 16,     /* how a strategy sums a bucket over ranks is recorded */
    HAS_STATES = 1 << 3,    /* variables exist for optimizer state and random numbers */
    HAS_PROGRAMS = 1 << 4,  /* the plan has graphs of its own */
    /* no `gradients` node is left; `minimize` has parameters and their gradients as operands */
    HAS_GRADIENTS = 1 << 5,
    HAS_TYPES = 1 << 6,   /* what scopes say of their nodes, process groups and precision, has been applied */
    HAS_UPDATES = 1 << 7, /* no `minimize` node is left */
    HAS_EDGES = 1 << 8,   /* readers and writers of a variable are ordered by edges */
    HAS_LAYOUT = 1 << 9,  /* every value has strides, every node its kernel */
    HAS_ORDER = 1 << 10,  /* the node list is the schedule */
    HAS_DEFERRED = 1 << 11, /* what each program leaves to later runs is known */
    HAS_MEMORY = 1 << 12,   /* every value has an offset */
    HAS_LAUNCHES = 1 << 13, /* for a GPU, the schedule is cut into launches */
    HAS_PROOF = 1 << 14,    /* the verifier has passed every program */
    HAS_FLOW = 1 << 15,     /* how many micro-batches each graph has in a step is known */
};

/* What a pass may change. Later passes still look up values and nodes by name: `gradients` names its
 * targets, weft_model_set_ddp and weft_model_set_precision the nodes of a scope. Until then equal values
 * must stay two: with y = 1 x, the gradient of f(y) + g(x) by y is not the one by x. So passes that merge
 * values or put one in place of an equal one (`merges`) require HAS_NAMED. Before gradients are made, a
 * pass may add nodes and replace values one for one: graph_check_names proves that it does no more. */
enum { HAS_NAMED = HAS_GRADIENTS | HAS_TYPES };

static bool simplify(program *p) {
    return p->plan->options.unoptimized || pass_simplify(p->graph);
}

static bool autodiff(program *p) {
    /* Gradients are means over all micro-batches of a step, on all ranks. */
    double parts = (double)p->accumulate * p->plan->options.world;
    return pass_autodiff(p->graph, 1 / parts, p->plan);
}

static bool precision(program *p) {
    return pass_precision(p->graph, p->name, p->plan->options.precision);
}

static bool clean(program *p) {
    return simplify(p) && graph_order_edges(p->graph);
}

static bool epilogue(program *p) {
    return p->plan->options.unoptimized || pass_epilogue(p);
}

/* The reference instruction set runs every node by its own kernel, so it fuses nothing. */
static bool fuse(program *p) {
    bool is_off = p->plan->kernels.isa == WEFT_ISA_REFERENCE || p->plan->options.unoptimized;
    return is_off || pass_fuse(p->graph, p->plan->kernels.device);
}

/* The verifier notes each node's operands first: the layout pass replaces some by packed copies. */
static bool layout(program *p) {
    return verify_note_operands(p) && pass_layout(p);
}

/* A row has one of the two functions: `plan` is called once, `program` once a program. */
typedef struct pass {
    const char *name;
    bool (*plan)(weft_plan *plan);
    bool (*program)(program *p);
    unsigned requires, gives;
    bool merges; /* it may merge nodes or values */
} pass;

/* clang-format off */
static const pass pipeline[] = {
    /* name               plan                 program            requires        gives          merges */
    {"flow",              flow_choose,         NULL,              0,              HAS_FLOW,      false},
    {"argument_order",    argument_order_note, NULL,              0,              0,             false},
    {"rank_states",       rank_states_note,    NULL,              HAS_FLOW,       0,             false},
    {"subgraphs",         subgraphs_find,      NULL,              0,              HAS_SUBGRAPHS, false},
    {"trainings",         trainings_find,      NULL,              HAS_SUBGRAPHS,  HAS_TRAININGS, false},
    {"buckets",           buckets_cut,         NULL,              HAS_TRAININGS,  HAS_BUCKETS,   false},
    {"sums",              own_sums_build,      NULL,              HAS_BUCKETS,    HAS_SUMS,      false},
    {"states",            optimizer_variables, NULL,              HAS_SUMS | HAS_FLOW, HAS_STATES,    false},
    {"counters",          counters_make,       NULL,              0,              0,             false},
    {"programs",          programs_make,       NULL,              HAS_STATES,     HAS_PROGRAMS,  false},
    {"sync_norm",         NULL,                pass_sync_norm,    HAS_PROGRAMS,   0,             false},
    {"autodiff",          NULL,                autodiff,          HAS_PROGRAMS,   HAS_GRADIENTS, false},
    {"precision",         NULL,                precision,         HAS_GRADIENTS,  HAS_TYPES,     false},
    {"simplify",          NULL,                simplify,          HAS_TYPES,      0,             true },
    {"optimizer",         NULL,                pass_optimizer,    HAS_TYPES,      HAS_UPDATES,   false},
    {"clean",             NULL,                clean,             HAS_UPDATES,    HAS_EDGES,     true },
    {"epilogue",          NULL,                epilogue,          HAS_EDGES,      0,             true },
    {"collectives",       NULL,                lower_collectives, HAS_EDGES,      0,             false},
    {"broadcast_buffers", NULL,                broadcast_buffers, HAS_EDGES,      0,             false},
    {"uploads",           NULL,                pass_uploads,      HAS_EDGES,      0,             false},
    {"fuse",              NULL,                fuse,              HAS_EDGES,      0,             true },
    {"layout",            NULL,                layout,            HAS_EDGES,      HAS_LAYOUT,    true },
    {"order",             NULL,                pass_order,     HAS_LAYOUT,     HAS_ORDER,     false},
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

/* A misspelt pass would not stop anything. */
static weft_status check_stop(const char *pass, weft_error *error) {
    const char *names[N_PASSES + 1] = {0};
    bool is_known = !pass;
    for (int i = 0; i < N_PASSES; i++) {
        names[i] = pipeline[i].name;
        is_known = is_known || strcmp(pass, names[i]) == 0;
    }
    return is_known ? WEFT_OK : compile_no_name("pass", pass, names, "", error);
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

/* One that fails without an error has no memory; one that continues after a builder's error fails, too. */
static bool run_pass(weft_plan *plan, const pass *s, program *p, unsigned has) {
    if (!check_requirements(plan, s, has)) return false;
    bool good = p ? s->program(p) : s->plan(plan);
    arena_free(&plan->model->scratch);
    if (!model_ok(plan->model)) return false;
    return good || model_fail(plan->model, NULL, WEFT_MEMORY, "compile: %s: out of memory", s->name);
}

/* Runs passes [first, end) on one program; all are program passes. `has` is what earlier passes gave. */
static bool run_program(program *p, const pass *first, const pass *end, unsigned has) {
    for (const pass *s = first; s < end; s++) {
        if (!run_pass(p->plan, s, p, has)) return false;
        has |= s->gives;
        if (!p->plan->options.verify) continue;
        /* the graph's rules (G), and before gradients exist that values which users have named survived */
        if (!(has & HAS_GRADIENTS) && !graph_check_names(p->source, p->graph, s->name)) return false;
        if (!graph_check(p->graph, s->name)) return false;
    }
    return true;
}

/* Runs the list to its end, or up to stop_after. Consecutive program passes are run program by program: all
 * of them on the first, then all on the next. */
static bool run_pipeline(weft_plan *plan) {
    const char *stop = plan->options.stop_after;
    const pass *last = pipeline;
    unsigned has = 0;
    while (last + 1 < pipeline + N_PASSES && !(stop && strcmp(last->name, stop) == 0)) last++;
    for (const pass *s = pipeline, *end; s <= last; s = end) {
        for (end = s + 1; s->program && end <= last && end->program;) end++;
        for (int i = 0; s->program && i < plan->n_programs; i++)
            if (!run_program(&plan->programs[i], s, end, has)) return false;
        if (s->plan && !run_pass(plan, s, NULL, has)) return false;
        for (; s < end; s++) has |= s->gives;
    }
    return true;
}

/* Afterwards the caller may free the model. */
static void forget_source(weft_plan *plan) {
    plan->source = NULL;
    plan->strategy.call = NULL;
    plan->strategy.gradient = NULL;
    for (int i = 0; i < plan->n_programs; i++) plan->programs[i].source = NULL;
    for (int i = 0; i < plan->n_trainings; i++) {
        plan->trainings[i].graph = NULL;
        plan->trainings[i].minimize = NULL;
    }
}

/* Calibration is allocated from the plan's model; NULL path: none, which is fine. */
static bool load_calibration(weft_plan *plan, const char *path) {
    weft_error error = {0};
    if (!path) return true;
    plan->kernels.calibration = calibration_load(path, &plan->model->arena, &error);
    return plan->kernels.calibration ||
           model_fail(plan->model, NULL, error.status, "compile: calibration: %s", error.text);
}

/* After the passes: figures, and of a plan that can run what ranks compare, a resumed training compares, and
 * sessions need. False: no memory. */
static bool finish(weft_plan *plan, const weft_model *source) {
    plan_measure(plan);
    return plan->options.stop_after || (plan_find_library(plan) && plan_collect_settings(plan) &&
                                        plan_identify(plan, source) && share_measure(plan));
}

static void log_plan(const weft_plan *plan) {
    env_log(&plan->env, "compiled %.100s: batch %jd, %d threads, %s, %d programs, %.1f MiB, %.1f ms",
            plan->model->name, plan->options.batch, plan->options.threads, isa_name(plan->options.isa),
            plan->n_programs, (double)plan->memory.total / (1 << 20), plan->compile_ms);
}

/* Returns NULL and sets *error when the model is broken, an option is out of range, or a pass fails. The
 * caller frees the plan with weft_plan_free. Pointers of the options are not kept. */
weft_plan *weft_compile(const weft_model *model, const weft_compile_options *options, weft_error *error) {
    static const weft_compile_options defaults = {0};
    const weft_compile_options *o = options ? options : &defaults;
    uint64_t start = weft_clock_ns();
    const weft_error *e = weft_model_error(model);
    if (!model_ok(model)) return error_set(error, e->status, "%s", e->text), NULL;
    if (compile_options_check(model, o, error) || check_stop(o->stop_after, error)) return NULL;
    weft_plan *plan = mem_new(&model->env, sizeof *plan);
    if (!plan) return error_memory(error, "compile"), NULL;
    plan->env = model->env;
    plan->options = compile_options_filled(model, o);
    plan->device = device_of(plan->options.device);
    plan->source = model;
    plan->kernels = (kernel_env){.isa = plan->options.isa,
                                 .threads = plan->options.threads,
                                 .env = &plan->env,
                                 .device = o->device,
                                 .deterministic = o->deterministic,
                                 .tf32 = o->tf32};
    plan->model = model_clone_variables(model, plan->options.batch, plan->options.world, plan->options.rank);
    if (!plan->model || !strategy_choose(plan, o) || !load_calibration(plan, o->calibration) ||
        !run_pipeline(plan) || !finish(plan, model)) {
        if (plan->model && !model_ok(plan->model))
            error_set(error, plan->model->error.status, "%s", plan->model->error.text);
        else
            error_memory(error, "compile");
        weft_plan_free(plan);
        return NULL;
    }
    forget_source(plan);
    plan->can_run = !o->stop_after;
    plan->options.graph = plan->options.flow = plan->options.stop_after = plan->options.calibration = NULL;
    plan->options.strategy = NULL;
    plan->options.own_strategy = NULL;
    plan->compile_ms = 1e-6 * (double)(weft_clock_ns() - start);
    log_plan(plan);
    return plan;
}
