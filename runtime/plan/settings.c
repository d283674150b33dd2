/* settings.c - two lists of names and values of a plan. What all ranks must have in common is compared by
 * name (session/agree.c). What the numbers of a training depend on beside its model, its data and its
 * learning rates a checkpoint keeps, so that a training that resumes with others can say so: how values are
 * spread over ranks (world, ZeRO, buckets) is left out, as it changes no bit.
 *
 * First each is a text of lines, a name and its value by turns; no name has a newline. */
#include "graph/settings/precision.h"
#include "ops/calibration.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/program.h"

#include <stdlib.h>
#include <string.h>

static void option_write(text *t, const weft_field *s, const weft_compile_options *o) {
    text_add(t, "%s\n", s->name);
    field_write(t, s, o);
    text_add(t, "\n");
}

/* Without the library its lines are there, too: ranks compare their lists item by item. */
static void agreed_write(text *t, const weft_plan *plan) {
    weft_compile_options o = plan->options;
    const plan_library *l = &plan->library;
    o.strategy = plan->strategy.text;
    o.flow = plan->flow_name;
    text_add(t, "version\n%s\n", weft_version());
    for (const weft_field *s = compile_fields; s->name; s++)
        if (s->uses & COMPILE_OF_RANKS) option_write(t, s, &o);
    text_add(t, "onednn\n%s\nonednn_isa\n%s\nonednn_implementations\n%s\n", l->name ? l->version : "unused",
             l->name ? l->set : "unused", l->name ? l->implementations : "unused");
    text_add(t, "calibration\n%016jx\n",
             plan->kernels.calibration ? calibration_hash(plan->kernels.calibration) : 0);
}

/* Options that are not set are left out, except for those that the plan has filled in. */
static void options_write(text *t, const weft_plan *plan) {
    const weft_compile_options *o = &plan->options;
    const calibration *chosen = plan->kernels.calibration;
    unsigned uses = o->device == WEFT_DEVICE_CPU ? COMPILE_OF_CPU : COMPILE_OF_GPU;
    text_add(t, "version\n%s\n", weft_version());
    for (const weft_field *s = compile_fields; s->name; s++) {
        if (!(s->uses & uses)) continue;
        if (s->kind != WEFT_FIELD_FLAG)
            option_write(t, s, o);
        else if (weft_field_is_set(s, o))
            text_add(t, "%s\non\n", s->name);
    }
    const plan_library *library = &plan->library;
    if (library->name)
        text_add(t, "%s\n%s\n%s isa\n%s\n%s implementations\n%s\n", library->name, library->version,
                 library->name, library->isa, library->name, library->implementations);
    if (plan->strategy.is_compressed) text_add(t, "strategy\n%s\n", plan->strategy.text);
    if (chosen) text_add(t, "calibration\n%016jx\n", calibration_hash(chosen));
}

static void precisions_write(text *t, const weft_plan *plan) {
    if (!precision_at(plan->model, "")) text_add(t, "precision\n%s\n", dtype_name(plan->options.precision));
    for (const precision_entry *e = plan->model->precisions; e; e = e->next)
        text_add(t, "precision%s%s\n%s\n", *e->path ? " of " : "", e->path, dtype_name(e->dtype));
}

/* What is trained by which optimizer is the model's; a rate is a value of the store, which the trainer's
 * rates.c follows; and a training that continues does not take what is read before the first update alone. */
static bool is_left_out(const char *field) {
    static const char *const names[] = {"pattern", "type", "name", "lr", "loss_scale", "initial_accumulator"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) is_one |= strcmp(field, names[i]) == 0;
    return is_one;
}

static void optimizer_write(text *t, const training *of) {
    for (const op_attr *f = weft_op_minimize.attrs; f->name; f++) {
        text field = {0};
        if (is_left_out(f->name)) continue;
        attr_write(&field, f, of->minimize->attrs); /* " clip_norm=1"; nothing where it is 0 */
        const char *equals = field.length ? strchr(field.data, '=') : NULL;
        t->failed |= field.failed;
        if (equals && strcmp(equals, "=\"\"") != 0) /* no text is NULL in a model that no file was read for */
            text_add(t, "%s of %s\n%s\n", f->name, of->optimizer, equals + 1);
        free(field.data);
    }
}

/* Trainings that name one optimizer agree in its settings: the first of them tells. */
static bool is_first(const weft_plan *plan, int i) {
    bool is_one = true;
    for (int k = 0; k < i; k++)
        is_one &= strcmp(plan->trainings[k].optimizer, plan->trainings[i].optimizer) != 0;
    return is_one;
}

/* Cuts the lines apart; NULL: no memory. */
static const weft_setting *take_lines(weft_plan *plan, text *t, int *n) {
    char *all = text_detach(t), *lines = all ? arena_copy(&plan->model->arena, all) : NULL;
    free(all);
    *n = 0;
    for (const char *c = lines; c && *c; c++) *n += *c == '\n';
    *n /= 2;
    weft_setting *list = lines ? model_array(plan->model, *n, sizeof *list) : NULL;
    for (int i = 0; list && i < *n; i++) {
        list[i].name = strsep(&lines, "\n");
        list[i].value = strsep(&lines, "\n");
    }
    return list;
}

bool plan_collect_settings(weft_plan *plan) {
    text agreed = {0}, t = {0};
    agreed_write(&agreed, plan);
    plan->agreed = take_lines(plan, &agreed, &plan->n_agreed);
    options_write(&t, plan);
    precisions_write(&t, plan);
    for (int i = 0; i < plan->n_trainings; i++)
        if (is_first(plan, i)) optimizer_write(&t, &plan->trainings[i]);
    plan->settings = take_lines(plan, &t, &plan->n_settings);
    return plan->agreed && plan->settings;
}

bool weft_plan_setting_at(const weft_plan *plan, int index, const char **name, const char **value) {
    if (!plan || index < 0 || index >= plan->n_settings) return false;
    if (name) *name = plan->settings[index].name;
    if (value) *value = plan->settings[index].value;
    return true;
}
