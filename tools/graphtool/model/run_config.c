/* run_config.c - see run_config.h: what options give, and what the model and the defaults say where they give
 * nothing. */
#include "tools/graphtool/model/run_config.h"

#include "tools/graphtool/model/optimizers.h"
#include "tools/graphtool/options/config.h"
#include "tools/graphtool/options/rules.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"
#include "graph/settings/precision.h"

#include <string.h>

/* ---- options ---- */

/* "2" as a number. */
static json_t *text_json(const char *value) {
    json_t *number = json_loads(value, JSON_DECODE_ANY, NULL);
    if (json_is_number(number)) return number;
    json_decref(number);
    return json_string(value);
}

/* NAME of a value of a list, and what follows it. */
static const char *name_in(const option_row *row, const char *value, const char **rest) {
    char gap = row->argument[strcspn(row->argument, "=:")];
    if (row->form == OPTION_NAMED) return option_name_of(value, rest);
    if (strchr(row->argument, '[')) return option_kind_of(value, rest);
    if (strstr(row->argument, "FIELDS")) return option_name_before(value, rest);
    const char *at = row->field.words ? strrchr(value, gap) : strchr(value, gap);
    *rest = at + 1;
    return tool_cut(value, at);
}

/* A list as an object by NAME, or as one value without; as texts where a NAME stands twice. */
static json_t *list_json(const option_row *row, const text_list *list) {
    const char *rest;
    if (row->form == OPTION_NAMED && list->n == 1 && !*option_name_of(list->v[0], &rest))
        return text_json(rest);
    json_t *object = json_object(), *array = json_array();
    for (int i = 0; i < list->n; i++) {
        const char *name = name_in(row, list->v[i], &rest);
        json_object_set_new(object, name, json_string(rest));
        json_array_append_new(array, json_string(list->v[i]));
    }
    bool has_twice = (int)json_object_size(object) < list->n;
    json_decref(has_twice ? object : array);
    return has_twice ? array : object;
}

static json_t *value_json(const option_row *row, const options *o) {
    text t = {0};
    if (option_is_flag(row)) return json_true();
    if (option_is_list(row)) return list_json(row, (const text_list *)((const char *)o + row->field.offset));
    field_write(&t, &row->field, o);
    const char *value = tool_take(&t);
    return config_is_word(row) ? json_string(value) : text_json(value);
}

/* ---- what the model says ---- */

/* What writes of attributes give, without the blank before the first. */
static json_t *attrs_json(text *t) {
    const char *all = tool_take(t);
    return json_string(all + strspn(all, " "));
}

/* The settings of an optimizer as weft_model_set_optimizer reads them, except for those that options give. */
static json_t *settings_json(const options *o, const weft_model *m, const minimize_attrs *a) {
    text t = {0};
    for (const op_attr *f = weft_op_minimize.attrs; f->name; f++)
        if (!has_word("pattern type name groups", f->name) && !optimizers_give(m, o, a->name, f->name))
            attr_write(&t, f, a);
    return attrs_json(&t);
}

static json_t *optimizers_json(const options *o, const weft_model *m) {
    json_t *all = json_object();
    for (const weft_node *n = NULL; (n = optimizers_next(m, n));) {
        const minimize_attrs *a = n->attrs;
        json_object_set_new(all, a->name, settings_json(o, m, a));
    }
    return all;
}

json_t *ddp_json(const weft_model *m, const char *whole) {
    json_t *all = json_object();
    for (const ddp_entry *e = m->ddps; e; e = e->next) {
        text t = {0};
        attrs_write(&t, &ddp_fields, &e->attrs);
        json_object_set_new(all, *e->path ? e->path : whole, attrs_json(&t));
    }
    return all;
}

json_t *precisions_json(const weft_model *m) {
    json_t *all = json_object();
    for (const precision_entry *e = m->precisions; e; e = e->next)
        json_object_set_new(all, e->path, json_string(dtype_name(e->dtype)));
    return all;
}

/* Without a flow an iteration has each training graph once. */
static json_t *flow_json(const weft_model *m) {
    const flow_entry *e = flow_find(m, FLOW_DEFAULT);
    text t = {0};
    if (e) flow_steps_write(&t, e->n, e->steps);
    for (const weft_graph *g = m->graphs; g && !e; g = g->next)
        if (graph_trains(g)) text_add(&t, "%s%s", t.length ? " " : "", g->name);
    return attrs_json(&t);
}

static void put_new(json_t *object, const options *o, const char *name, json_t *value) {
    bool is_empty = json_is_object(value) && !json_object_size(value);
    if (command_has_option(o->command, name) && !option_is_given(o, name) && !is_empty)
        json_object_set_new(object, name, value);
    else
        json_decref(value);
}

/* An optimizer stands there whether options give some of its settings or not. */
static json_t *models_json(const options *o, const weft_model *m) {
    json_t *all = json_object(), *optimizers = optimizers_json(o, m);
    put_new(all, o, "batch", json_integer((json_int_t)m->batch));
    put_new(all, o, "flow", flow_json(m));
    if (json_object_size(optimizers)) json_object_set(all, "optimizer", optimizers);
    json_decref(optimizers);
    put_new(all, o, "ddp", ddp_json(m, ""));
    put_new(all, o, "precision", precisions_json(m));
    return all;
}

/* What holds without the option, as a value of it; NULL: that is not a value, such as the model's batch. */
static const char *default_of(const option_row *row) {
    weft_field f = row->field;
    union {
        double number;
        const char *text;
    } scratch;
    f.offset = 0;
    if (option_words(row)) return f.words[0];
    return f.otherwise && field_read(&f, f.otherwise, &scratch) ? f.otherwise : NULL;
}

/* What holds where nothing is said; not of an option that would have no effect, as the number of checkpoints
 * where none are written. */
static json_t *defaults_json(const options *o) {
    json_t *all = json_object();
    for (const option_row *row = NULL; (row = option_next(o->command, row));) {
        const char *value = default_of(row);
        if (value && !option_from(row, o) && rules_allow(o, row->field.name))
            json_object_set_new(all, row->field.name, text_json(value));
    }
    return all;
}

/* Whether what --print-config prints has the option. */
static bool is_printed(const option_row *row, const options *o) {
    option_origin origin = option_from(row, o);
    return origin != ORIGIN_NONE && !has_word("print-config config", row->field.name) &&
           (origin != ORIGIN_VARIABLE || rules_allow(o, row->field.name));
}

/* The model is loaded again: options have not changed this one. */
static json_t *all_json(const options *o) {
    static const char *const origins[] = {
        [ORIGIN_LINE] = "command line", [ORIGIN_DIR] = "work-dir", [ORIGIN_VARIABLE] = "variable WEFT_ISA"};
    weft_model *m = tool_got(weft_load(o->model, &tool_shows, &tool_why));
    json_t *all = json_object(), *from = json_object();
    json_object_set_new(all, "command", json_string(o->command->name));
    json_object_set_new(all, "model", json_string(o->model));
    for (const option_row *row = NULL; (row = option_next(o->command, row));) {
        option_origin origin = option_from(row, o);
        if (!is_printed(row, o)) continue;
        json_object_set_new(from, row->field.name,
                            json_string(origin == ORIGIN_FILE ? o->config : origins[origin]));
        if (origin != ORIGIN_DIR) json_object_set_new(all, row->field.name, value_json(row, o));
    }
    json_object_set_new(all, "from", from);
    json_object_set_new(all, "not_given",
                        json_pack("{s:o, s:o}", "model", models_json(o, m), "default", defaults_json(o)));
    weft_model_free(m);
    return all;
}

enum { DIGITS = 15 /* which keep what people write */ };

void config_print(const options *o, const char *path) {
    out_json_digits(path, all_json(o), DIGITS);
}

/* As they are written: numbers with so many digits. */
bool config_is_in(const options *o, const char *path) {
    enum { HOW = JSON_SORT_KEYS | JSON_REAL_PRECISION(DIGITS) };
    json_t *there = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    if (!there) return false;
    json_t *all = all_json(o);
    json_object_set_new(all, "schema", json_integer(OUT_SCHEMA));
    char *a = json_dumps(there, HOW), *b = json_dumps(all, HOW);
    bool is_same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    json_decref(there);
    json_decref(all);
    return is_same;
}
