/* test_relations_trainer.c - trainings by a trainer that must have the same bits: a random model
 * (support/models/random_training.h) with a random flow, whose graphs have micro-batches of their own,
 * other batches and other steps in later iterations, is trained once, and again in a way that changes
 * nothing: in another layout, from its text or its file, with validations, which use averages of parameters
 * and write state, and in parts, each of which resumes from the last one's checkpoint in another layout.
 * Some data have samples that no loss takes, whose steps are skipped. Parameters and the state of all
 * optimizers are compared. */
#include "support/folder.h"
#include "support/kernels/golden.h"
#include "support/models/random_training.h"
#include "support/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = TRAINING_BATCH, ITERATIONS = 5, MOST_GRAPHS = 3, MOST_PARTS = 3 };

/* ---- data ---- */

/* A guard of gradients is not for process groups. */
static weft_guard draw_guard(test_random *r, const random_training *d) {
    static const weft_guard guards[] = {WEFT_GUARD_NAN, WEFT_GUARD_SPIKE, WEFT_GUARD_GRAD};
    return guards[random_below(r, d->is_local ? 2 : 3)];
}

/* What is wrong with some samples. */
typedef enum flaw { FLAW_NONE, FLAW_NAN, FLAW_LABEL, FLAWS } flaw;

typedef struct samples {
    weft_source source;
    flaw flaw;
    int64_t elements; /* of x */
} samples;

/* One sample in 19 is flawed. */
static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    const samples *s = context;
    test_random r = {(uint64_t)i * 0x9e3779b97f4a7c15u + 1};
    bool is_flawed = i % 19 == 7;
    (void)error;
    for (int64_t k = 0; k < s->elements; k++) ((float *)into[0])[k] = (float)random_in(&r, -1, 1);
    if (is_flawed && s->flaw == FLAW_NAN) *(float *)into[0] = (float)NAN;
    if (s->source.n < 2) return WEFT_OK;
    int32_t label = (int32_t)random_below(&r, TRAINING_CLASSES);
    *(int32_t *)into[1] = is_flawed && s->flaw == FLAW_LABEL ? 1000 : label;
    return WEFT_OK;
}

static bool has_labels(const weft_model *m) {
    char *text = weft_model_text(m);
    bool has = strstr(text, "name=\"label\"") != NULL;
    weft_text_free(text);
    return has;
}

/* ---- flows ---- */

typedef struct step {
    const char *graph;
    int micros;  /* over all ranks; 0: no batches */
    bool is_own; /* and not the plan's number */
    int repeat;
    weft_flow_batch batch;
} step;

/* Iterations before `change` have the first list of steps, the others the second. */
typedef struct flow {
    int n, change; /* change 0: one list */
    step steps[2][MOST_GRAPHS];
    int micros[MOST_GRAPHS + 1]; /* of the training graphs, up to a 0 */
} flow;

/* A part of all micro-batches, of which each rank has as many. */
static int draw_micros(test_random *r, int all, int world) {
    int part = 2 + random_below(r, 3);
    return all % part || all / part % world ? all : all / part;
}

static void draw_steps(test_random *r, flow *f, step *steps) {
    int there = 0; /* micro-batches of the last step with new ones */
    for (int i = f->n - 1; i > 0; i--) {
        int k = random_below(r, i + 1);
        step held = steps[i];
        steps[i] = steps[k], steps[k] = held;
    }
    for (int i = 0; i < f->n; i++) {
        step *s = &steps[i];
        s->repeat = 1 + random_one_in(r, 4);
        s->batch = WEFT_FLOW_AUTO;
        if (!s->micros) continue;
        if (there && (random_one_in(r, 4) || there % s->micros)) s->batch = WEFT_FLOW_NEXT;
        if (!there || s->batch == WEFT_FLOW_NEXT) there = s->micros;
    }
}

static flow draw_flow(test_random *r, const random_training *d) {
    flow f = {.change = random_one_in(r, 3) ? 1 + random_below(r, ITERATIONS - 1) : 0};
    int all = d->options.world * d->options.accumulate, trained = 0;
    for (int i = 0; i < weft_graph_count(d->model); i++) {
        step s = {.graph = weft_graph_name(d->model, i)};
        if (strcmp(s.graph, "val") == 0) continue;
        if (strcmp(s.graph, "move") != 0) {
            s.is_own = random_one_in(r, 2);
            s.micros = s.is_own ? draw_micros(r, all, d->options.world) : all;
            f.micros[trained++] = s.micros;
        }
        f.steps[0][f.n] = f.steps[1][f.n] = s;
        f.n++;
    }
    draw_steps(r, &f, f.steps[0]);
    draw_steps(r, &f, f.steps[1]);
    return f;
}

static char *put_steps(char *to, const flow *f, const step *steps, int world) {
    static const char *const batches[] = {"", "batch=next", "batch=same"};
    for (int i = 0; i < f->n; i++) {
        const step *s = &steps[i];
        to += sprintf(to, " %s", s->graph);
        if (s->is_own && s->batch)
            to += sprintf(to, "{accumulate=%d,%s}", s->micros / world, batches[s->batch]);
        else if (s->is_own)
            to += sprintf(to, "{accumulate=%d}", s->micros / world);
        else if (s->batch)
            to += sprintf(to, "{%s}", batches[s->batch]);
        if (s->repeat > 1) to += sprintf(to, "*%d", s->repeat);
    }
    return to;
}

static void flow_text(const flow *f, int world, char text[300]) {
    char *to = text;
    *to = 0;
    if (f->change) to += sprintf(to, "0-%d:", f->change - 1);
    to = put_steps(to, f, f->steps[0], world);
    if (!f->change) return;
    to += sprintf(to, "; %d-:", f->change);
    put_steps(to, f, f->steps[1], world);
}

/* Micro-batches that an iteration takes. */
static int taken(const flow *f, const step *steps) {
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if (steps[i].micros && (!n || steps[i].batch == WEFT_FLOW_NEXT))
            n += steps[i].micros * steps[i].repeat;
    return n;
}

/* ---- a model with its data ---- */

typedef struct drawn {
    random_training t;
    flow flow;
    samples train, val;
    weft_guard guard; /* where samples are flawed; else a variant may have any */
} drawn;

/* The first network in eval mode, and perhaps a state that only validations write. */
static void add_validation(test_random *r, random_training *d) {
    weft_parameter_info p = {0};
    char last[60];
    snprintf(last, sizeof last, "%s/last/bias", d->nets[0].name);
    weft_model_parameter(d->model, last, 0, &p);
    weft_value *x = training_input(d, "val", WEFT_EVAL);
    weft_value *size = weft_mean(weft_square(net_build(x, &d->nets[0], p.shape[0])), WEFT_ALL, false);
    weft_output(size, "size");
    if (d->averages_state || random_one_in(r, 2)) return;
    weft_value *s = weft_state(x, "running_val", 0, NULL, (weft_init){WEFT_INIT_ZEROS, 0, 0});
    weft_assign(s, weft_add(weft_scale(s, 0.9), weft_scale(size, 0.1)));
}

static samples samples_of(const random_training *d, int64_t count, bool has_label, flaw f) {
    samples s = {
        .source = {.count = count, .n = 1 + has_label, .read = read_sample}, .flaw = f, .elements = 1};
    weft_source_array x = {.name = "x", .dtype = WEFT_F32};
    int64_t shape[4];
    x.ndim = training_axes(d, shape) - 1;
    for (int i = 0; i < x.ndim; i++) s.elements *= x.shape[i] = shape[1 + i];
    s.source.arrays[0] = x;
    s.source.arrays[1] = (weft_source_array){.name = "label", .dtype = WEFT_I32};
    return s;
}

static drawn draw(uint64_t seed, test_random *r) {
    drawn d = {.t = training_draw(seed, r)};
    add_validation(r, &d.t);
    d.flow = draw_flow(r, &d.t);
    bool has_label = has_labels(d.t.model);
    flaw f = random_one_in(r, 3) ? (flaw)(FLAW_NAN + (has_label && random_one_in(r, 2))) : FLAW_NONE;
    d.guard = f ? draw_guard(r, &d.t) : WEFT_GUARD_OFF;
    int first = taken(&d.flow, d.flow.steps[0]), second = taken(&d.flow, d.flow.steps[1]);
    int64_t rows = BATCH * (first > second ? first : second);
    d.train = samples_of(&d.t, rows + random_below(r, (int)(2 * rows)), has_label, f);
    d.val = samples_of(&d.t, 2 * BATCH, false, FLAW_NONE);
    d.t.options.guard = d.guard;
    return d;
}

/* ---- training ---- */

/* Iterations up to `to`, from the last checkpoint of `folder` on. */
typedef struct part {
    weft_compile_options options;
    int to, every, keep;
    bool no_snapshot;
} part;

typedef struct variant {
    int n; /* parts; without a folder one */
    part parts[MOST_PARTS];
    bool by_text, by_file, validates;
    int metrics_every;
    char said[800];
} variant;

/* What all ranks of a part share. */
typedef struct run {
    const drawn *d;
    const weft_model *model;
    const part *part;
    const variant *v;
    const char *folder, *weights; /* or NULL */
    weft_error errors[TRAINING_WORLD];
} run;

static char top[] = "/tmp/weft_relations_XXXXXX", want[64], got[64], checkpoints[64];

static bool make_folder(void) {
    if (!mkdtemp(top)) return false;
    snprintf(want, sizeof want, "%s/want", top);
    snprintf(got, sizeof got, "%s/got", top);
    snprintf(checkpoints, sizeof checkpoints, "%s/run", top);
    return true;
}

static void run_rank(weft_comm *comm, int rank, void *context) {
    run *r = context;
    const weft_source *train[] = {&r->d->train.source}, *val[] = {&r->d->val.source};
    weft_error *e = &r->errors[rank];
    weft_trainer_options o = {.compile = r->part->options,
                              .comm = comm,
                              .seed = 7,
                              .train = {1, train, NULL},
                              .val = {r->v->validates, val, NULL},
                              .val_iterations = 2,
                              .iterations = r->part->to,
                              .metrics_every = r->v->metrics_every,
                              .own_guard = true,
                              .skip_bad_steps = r->d->guard ? 1000 : 0,
                              .checkpoints = {.folder = r->folder,
                                              .resume = r->folder ? "auto" : NULL,
                                              .every = r->part->every,
                                              .keep = r->part->keep,
                                              .no_snapshot = r->part->no_snapshot}};
    o.compile.threads = 1;
    weft_trainer *t = weft_trainer_new(r->model, &o, e);
    if (t && !weft_trainer_fit(t, e) && r->weights) weft_trainer_save(t, rank ? NULL : r->weights, true, e);
    weft_trainer_free(t);
}

/* The first error that is not of another rank. */
static weft_error train(run *r, weft_model *m) {
    char text[300];
    int world = r->part->options.world;
    flow_text(&r->d->flow, world, text);
    weft_model_set_flow(m, text);
    r->model = m;
    memset(r->errors, 0, sizeof r->errors);
    ranks_run(world, 0, run_rank, r);
    for (int i = 0; i < world; i++)
        if (r->errors[i].status && r->errors[i].status != WEFT_PEER) return r->errors[i];
    return r->errors[0];
}

/* ---- another way to train it ---- */

static part draw_part(test_random *r, const drawn *d, weft_guard guard) {
    part p = {
        .every = 1 + random_below(r, 3), .keep = 1 + random_below(r, 2), .no_snapshot = random_one_in(r, 3)};
    training_layout(r, &d->t, d->flow.micros, &p.options);
    p.options.manual = false;
    p.options.guard = guard;
    return p;
}

static void say(variant *v, const drawn *d) {
    char text[300];
    flow_text(&d->flow, 1, text);
    int used =
        snprintf(v->said, sizeof v->said,
                 "seed %llu: flow \"%s\", flaw %d, guard %d, text %d, file %d, validates %d, metrics %d",
                 (unsigned long long)d->t.seed, text, d->train.flaw, v->parts[0].options.guard, v->by_text,
                 v->by_file, v->validates, v->metrics_every);
    for (int i = 0; i < v->n; i++) {
        const weft_compile_options *o = &v->parts[i].options;
        used += snprintf(v->said + used, sizeof v->said - (size_t)used,
                         "; to %d: world %d x %d, zero %d, shard %d, cap %g, serial %d", v->parts[i].to,
                         o->world, o->accumulate, o->zero, o->shard, o->bucket_cap_mb, o->serial);
    }
}

static variant draw_variant(test_random *r, const drawn *d) {
    weft_guard guard = d->guard ? d->guard : random_one_in(r, 4) ? WEFT_GUARD_OFF : draw_guard(r, &d->t);
    variant v = {.n = d->t.is_local ? 1 : 1 + random_below(r, MOST_PARTS),
                 .by_text = random_one_in(r, 4),
                 .validates = random_one_in(r, 2),
                 .metrics_every = 1 + random_below(r, 3)};
    v.by_file = !v.by_text && random_one_in(r, 4);
    for (int i = 0; i < v.n; i++) {
        v.parts[i] = draw_part(r, d, guard);
        v.parts[i].to = i + 1 < v.n ? 1 + i + random_below(r, ITERATIONS - v.n) : ITERATIONS;
        if (i && v.parts[i].to < v.parts[i - 1].to) v.parts[i].to = v.parts[i - 1].to;
    }
    say(&v, d);
    return v;
}

/* ---- comparing ---- */

/* What each rank has for itself, the means of losses, which only one of the guards keeps, and the counter of
 * random numbers of validations. */
static bool is_compared(const golden_tensor *t) {
    return !strstr(t->name, "running_") && !strstr(t->name, "loss_mean.") && !strstr(t->name, "graph.val.");
}

/* The next that is compared, from i on; NULL: there is none. */
static const golden_tensor *next_of(const golden *g, int *i) {
    for (; *i < g->n; ++*i)
        if (is_compared(&g->tensors[*i])) return &g->tensors[(*i)++];
    return NULL;
}

static void compare(const char *said) {
    golden a = golden_read(want), b = golden_read(got);
    const golden_tensor *x, *y;
    int i = 0, k = 0;
    do {
        x = next_of(&a, &i), y = next_of(&b, &k);
        bool same = !x == !y && (!x || (!strcmp(x->name, y->name) && x->bytes == y->bytes &&
                                        !memcmp(x->data, y->data, x->bytes)));
        if (!CHECK_SAYS(same, "%s: it differs in %s", said, x ? x->name : "what it has")) break;
    } while (x && y);
    golden_free(&a);
    golden_free(&b);
}

static void try_variant(drawn *d, const variant *v) {
    weft_model *copy = v->by_text || v->by_file ? training_copy(d->t.model, v->by_file) : NULL;
    weft_error e = {0};
    for (int i = 0; i < v->n && !e.status; i++) {
        run r = {.d = d, .part = &v->parts[i], .v = v};
        r.folder = v->n > 1 ? checkpoints : NULL;
        r.weights = i + 1 == v->n ? got : NULL;
        e = train(&r, copy ? copy : d->t.model);
    }
    if (CHECK_SAYS(!e.status, "%s: %s", v->said, e.text)) compare(v->said);
    remove(got);
    remove_tree(checkpoints);
    weft_model_free(copy);
}

/* False: its losses are not finite. */
static bool check_training(uint64_t seed, int variants) {
    test_random own = {seed * 0x9e3779b97f4a7c15u + 1}, *r = &own;
    drawn d = draw(seed, r);
    d.train.source.context = &d.train, d.val.source.context = &d.val;
    variant whole = {.n = 1, .parts = {{.options = d.t.options, .to = ITERATIONS}}};
    run base = {.d = &d, .part = &whole.parts[0], .v = &whole, .weights = want};
    say(&whole, &d);
    weft_error e = *weft_model_error(d.t.model);
    if (!e.status) e = train(&base, d.t.model);
    bool is_run = !e.status;
    CHECK_SAYS(!e.status || e.status == WEFT_DATA, "%s: %s", whole.said, e.text);
    for (int i = 0; is_run && i < variants; i++) {
        variant v = draw_variant(r, &d);
        try_variant(&d, &v);
    }
    remove(want);
    weft_model_free(d.t.model);
    return is_run;
}

TEST(trainings_by_a_trainer_that_change_nothing_change_no_bit) {
    uint64_t seed = test_seed(1);
    int models = test_count(40, 8), variants = test_is_quick() ? 2 : 4, run = 0;
    NEED(make_folder());
    for (int i = 0; i < models; i++) {
        test_case_begin();
        bool is_run = check_training(seed + (uint64_t)i, variants);
        test_case_end(!is_run);
        run += is_run;
    }
    remove_tree(top);
    CHECK_SAYS(10 * run >= 9 * models, "only %d of %d models have finite losses", run, models);
}

SUITE("relations_trainer", {T(trainings_by_a_trainer_that_change_nothing_change_no_bit)})
