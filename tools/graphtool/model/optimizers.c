/* optimizers.c - each option becomes a text of weft_model_set_optimizer. */
#include "tools/graphtool/model/optimizers.h"

#include "tools/graphtool/options/checkpoints.h"
#include "tools/graphtool/model/weights.h"

#include "graph/settings/minimize.h"
#include "graph/settings/schedule.h"

#include <string.h>

/* Options of one field, [NAME=]VALUE, after the one of several. */
static const struct given {
    const char *option, *field;
    size_t list; /* in struct options */
} givens[] = {{"optimizer", NULL, offsetof(options, optimizer)},
              {"clip-norm", "clip_norm", offsetof(options, clip_norm)},
              {"ema", "ema", offsetof(options, ema)},
              {"schedule", "schedule", offsetof(options, schedule)}};
enum { SCHEDULE = 3, GIVENS };

static const text_list *list_of(const options *o, int k) {
    return (const text_list *)((const char *)o + givens[k].list);
}

const weft_node *optimizers_next(const weft_model *m, const weft_node *n) {
    for (const weft_graph *g = n ? n->graph : m->graphs; g; g = g->next)
        for (n = n ? n->next : g->first; n; n = n->next)
            if (n->op == &weft_op_minimize) return n;
    return NULL;
}

/* The function, not the macro: errors must not name a source line of this file. */
static void change(weft_model *m, const char *name, const char *settings) {
    if ((weft_model_set_optimizer)(m, name, settings)) tool_error(weft_model_error(m));
}

/* What is for all optimizers comes before what is for one, whatever the order in which they were given. */
static void apply_all(weft_model *m, const options *o, bool is_for_one) {
    for (int k = 0; k < SCHEDULE; k++)
        for (int i = 0; i < list_of(o, k)->n; i++) {
            const char *rest, *value = list_of(o, k)->v[i], *field = givens[k].field;
            const char *name = field ? option_name_of(value, &rest) : option_name_before(value, &rest);
            if ((*name != 0) == is_for_one) change(m, name, field ? tool_text("%s=%s", field, rest) : rest);
        }
}

/* ---- what is said twice ---- */

static void gather_settings(option_fields *all, const options *o) {
    all->n = 0;
    if (o->lr > 0) option_add_field(all, (option_given){"lr", NULL, "", "lr"});
    for (int k = 0; k < GIVENS; k++)
        for (int i = 0; i < list_of(o, k)->n; i++) {
            const char *rest, *value = list_of(o, k)->v[i];
            const struct given *g = &givens[k];
            if (g->field)
                option_add_field(all,
                                 (option_given){g->option, value, option_name_of(value, &rest), g->field});
            else
                option_add_fields(all, g->option, value);
        }
}

/* The optimizer that both are for; NULL: there is none, or only one of the two is for all. */
static const char *in_common(const weft_model *m, const char *a, const char *b) {
    if (!*a || !*b) return *a == *b ? "all optimizers" : NULL;
    for (const weft_node *n = NULL; (n = optimizers_next(m, n));) {
        const minimize_attrs *of = n->attrs;
        if (optimizer_is_meant(m, of->name, a) && optimizer_is_meant(m, of->name, b)) return of->name;
    }
    return NULL;
}

static void check_twice(const weft_model *m, const options *o) {
    option_fields all;
    gather_settings(&all, o);
    for (int i = 1; i < all.n; i++)
        for (int k = 0; k < i; k++) {
            const option_given *a = &all.list[k], *b = &all.list[i];
            const char *whose = strcmp(a->field, b->field) == 0 ? in_common(m, a->name, b->name) : NULL;
            if (whose) option_refuse_twice(a, b, whose);
        }
}

/* Reads [NAME=]PARTS: NAME. */
static const char *read_schedule(weft_model *m, const char *value, weft_schedule parts[WEFT_MAX_SCHEDULES]) {
    weft_error error = {0};
    const char *said, *name = option_name_of(value, &said);
    if (weft_schedule_text(said, parts, &error)) tool_fail("--schedule=%s: %s", value, error.text);
    change(m, name, ""); /* nothing: it tells what is wrong with a name */
    return name;
}

void optimizers_apply(weft_model *m, const options *o) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    check_twice(m, o);
    for (int i = 0; i < o->schedule.n; i++) read_schedule(m, o->schedule.v[i], parts);
    apply_all(m, o, false);
    apply_all(m, o, true);
}

/* Which options give a field of an optimizer; bits. */
enum { GIVEN_TO_ALL = 1, GIVEN_TO_IT = 2, GIVEN_BY_LR = 4 /* of --lr, which is for all */ };

static unsigned givers(const weft_model *m, const options *o, const char *optimizer, const char *field) {
    option_fields all;
    unsigned by = 0;
    gather_settings(&all, o);
    for (const option_given *s = all.list; s < all.list + all.n; s++)
        if (strcmp(s->field, field) == 0 && optimizer_is_meant(m, optimizer, s->name))
            by |= *s->name ? GIVEN_TO_IT : s->value ? GIVEN_TO_ALL : GIVEN_BY_LR;
    return by;
}

bool optimizers_give(const weft_model *m, const options *o, const char *optimizer, const char *field) {
    return givers(m, o, optimizer, field) != 0;
}

/* ---- rates ---- */

static bool reads_lr_once(const weft_model *m, const minimize_attrs *a) {
    const optimizer_kind *kind = optimizer_find(m, a->type);
    return kind && kind->reads_lr_once;
}

/* What --optimizer gives is the model's by now. */
int optimizers_rates(const weft_model *m, const options *o, weft_optimizer_lr **rates) {
    int room = 0, n = 0;
    for (const weft_node *v = NULL; (v = optimizers_next(m, v));) room++;
    *rates = tool_new((size_t)room, sizeof **rates);
    for (const weft_node *v = NULL; (v = optimizers_next(m, v));) {
        const minimize_attrs *a = v->attrs;
        unsigned by = givers(m, o, a->name, "lr");
        bool is_late = reads_lr_once(m, a) && o->resume && checkpoints_there(o);
        if (by && !is_late)
            (*rates)[n++] =
                (weft_optimizer_lr){a->name, by & GIVEN_TO_IT || !(by & GIVEN_BY_LR) ? a->lr : o->lr};
    }
    return n;
}

/* Whether the store has this number of an optimizer, as it is given. */
static bool has_number(const weft_store *store, const char *optimizer, const char *field, double given) {
    double now = 0;
    return weft_store_get(store, tool_text("optimizer.%s/%s", optimizer, field), &now, sizeof now, NULL) ==
               WEFT_OK &&
           now == given;
}

/* Fields that are only read before the first update. */
static void tell_fields(const weft_model *m, const options *o, const minimize_attrs *a,
                        const weft_store *store) {
    const struct {
        const char *name;
        double given;
    } fields[] = {
        {"initial_accumulator", a->initial_accumulator}, {"loss_scale", a->loss_scale}, {"lr", a->lr}};
    for (int i = 0; i < 2 + reads_lr_once(m, a); i++)
        if (optimizers_give(m, o, a->name, fields[i].name) &&
            !has_number(store, a->name, fields[i].name, fields[i].given))
            tool_note("%s of %s is read at the start of a training: this one keeps its own", fields[i].name,
                      a->name);
}

/* Whether a node before it, of another graph, steps the same optimizer. */
static bool is_stepped_before(const weft_model *m, const weft_node *n) {
    const minimize_attrs *a = n->attrs;
    for (const weft_node *v = NULL; (v = optimizers_next(m, v)) != n;)
        if (strcmp(((const minimize_attrs *)v->attrs)->name, a->name) == 0) return true;
    return false;
}

void optimizers_tell_begun(const weft_model *m, const options *o, const weft_store *store) {
    for (const weft_node *n = NULL; (n = optimizers_next(m, n));)
        if (!is_stepped_before(m, n)) tell_fields(m, o, n->attrs, store);
}

/* ---- schedules ---- */

/* A --schedule, and the run that it is for. */
typedef struct schedule {
    weft_model *m;
    const options *o;
    const weft_trainer_options *how;
    const char *value; /* as given */
    weft_schedule parts[WEFT_MAX_SCHEDULES];
} schedule;

/* Runs of a graph, or (NULL) iterations. */
static int64_t count(const schedule *s, const weft_trainer_options *how, const char *graph) {
    int64_t n;
    tool_must(weft_trainer_count(s->m, how, graph, &n, &tool_why));
    return n;
}

/* The optimizer of `name` updates once in each run of each graph that has it. */
static int64_t count_updates(const schedule *s, const char *name) {
    int64_t updates = 0;
    const weft_graph *counted = NULL;
    for (const weft_node *n = NULL; (n = optimizers_next(s->m, n));) {
        const minimize_attrs *a = n->attrs;
        if (n->graph == counted || strcmp(a->name, name)) continue;
        counted = n->graph;
        updates += count(s, s->how, counted->name);
    }
    return updates;
}

/* The epochs that the run begins, which its steps may cut; without data there is one. */
static int64_t count_epochs(const schedule *s) {
    weft_trainer_options one = *s->how;
    one.epochs = 1, one.iterations = 0;
    int64_t each = one.train.n ? count(s, &one, NULL) : 0;
    return each ? (count(s, s->how, NULL) + each - 1) / each : 1;
}

/* Where this run ends: after what came before the state in --weights, and what the run adds. */
static int64_t find_end(const schedule *s, const char *name, bool by_epoch) {
    return weights_counter(s->o, name, by_epoch ? WEFT_STORED_EPOCH : WEFT_STORED_STEP) +
           (by_epoch ? count_epochs(s) : count_updates(s, name));
}

/* Gives the parts that need it an end: that of the run, in updates of this optimizer or in epochs. */
static void end_parts(const schedule *s, const char *name, weft_schedule parts[WEFT_MAX_SCHEDULES]) {
    memcpy(parts, s->parts, sizeof s->parts);
    for (int i = 0; i < schedule_count(parts); i++) {
        weft_schedule *part = &parts[i];
        if (!schedule_needs_end(part)) continue;
        part->end = find_end(s, name, part->by_epoch);
        if (part->end <= part->begin + part->warmup)
            tool_fail("--schedule=%s: part %d ends with the run, and %s has %lld %s in it: give the part "
                      "an end, as in 0-1000, or a longer run",
                      s->value, i + 1, name, (long long)part->end, part->by_epoch ? "epochs" : "updates");
    }
}

static void give_one(const schedule *s, const char *name) {
    weft_schedule parts[WEFT_MAX_SCHEDULES];
    text t = {0};
    end_parts(s, name, parts);
    text_add(&t, "schedule=\"");
    schedules_write(&t, parts);
    text_add(&t, "\"");
    change(s->m, name, tool_take(&t));
}

/* Each optimizer that NAME means, which is at least one; what is for one goes before what is for all. */
static void give_all(const schedule *s, const char *name) {
    for (const weft_node *n = NULL; (n = optimizers_next(s->m, n));) {
        const minimize_attrs *a = n->attrs;
        bool has_own = !*name && givers(s->m, s->o, a->name, "schedule") & GIVEN_TO_IT;
        if (optimizer_is_meant(s->m, a->name, name) && !has_own) give_one(s, a->name);
    }
}

/* By the first optimizer that updates in the flow's first iteration. */
void optimizers_behind(weft_model *m, const options *o, weft_trainer_options *how) {
    weft_trainer_options one = *how;
    const schedule s = {.m = m, .o = o, .how = &one};
    one.epochs = 0, one.iterations = 1;
    for (const weft_node *n = NULL; o->weights && !how->first_iteration && (n = optimizers_next(m, n));) {
        const minimize_attrs *a = n->attrs;
        int64_t before = weights_counter(o, a->name, WEFT_STORED_STEP);
        int64_t updates = before ? count_updates(&s, a->name) : 0;
        if (updates) how->first_iteration = before / updates;
    }
}

void optimizers_schedule(weft_model *m, const options *o, const weft_trainer_options *how) {
    for (int is_for_one = 0; is_for_one < 2; is_for_one++)
        for (int i = 0; i < o->schedule.n; i++) {
            schedule s = {.m = m, .o = o, .how = how, .value = o->schedule.v[i]};
            const char *name = read_schedule(m, s.value, s.parts);
            if ((*name != 0) == is_for_one) give_all(&s, name);
        }
}
