/* ckpt_show.c - what is in one checkpoint: where its training is, its settings, its optimizers' numbers, its
 * tensors. */
#include "tools/graphtool/checkpoints/ckpt.h"

#include "runtime/checkpoint/checkpoint.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/model/tools.h"

#include <math.h>

/* A number of an optimizer: its rate, its step. */
static bool is_number(const whole *w) {
    return stored_is_number(w->value.kind) && !w->type.ndim && w->type.dtype == WEFT_F64;
}

/* The ranks whose files have it: "0", "0-3", "0 2". */
static void ranks_text(text *t, const entries *all, const whole *w) {
    int from = -1, last = -1;
    for (int i = w->first; i <= w->first + w->n; i++) {
        int file = i < w->first + w->n ? all->list[i].file : -2;
        if (file == last + 1 && last >= 0) {
            last = file;
            continue;
        }
        if (last >= 0) text_add(t, from == last ? "%s%d" : "%s%d-%d", t->length ? " " : "", from, last);
        from = last = file;
    }
}

/* Names and values, under a title. */
static void section_write(text *t, const char *title, json_t *values) {
    const char *name;
    json_t *value;
    table rows = {.columns = 2};
    json_object_foreach(values, name, value) {
        if (json_is_string(value))
            table_row(&rows, "%s\t%s", SHOW(name), SHOW(json_string_value(value)));
        else
            table_row(&rows, "%s\t%.9g", SHOW(name), json_is_null(value) ? NAN : json_number_value(value));
    }
    text_add(t, "\n%s\n", title);
    table_write(t, &rows);
}

static void tensors_write(text *t, const entries *all) {
    table rows = {.columns = 4, .is_right = {false, false, true}};
    table_row(&rows, "tensor\ttype\tbytes\tranks");
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        text ranks = {0};
        if (is_number(w)) continue;
        ranks_text(&ranks, all, w);
        table_row(&rows, "%s\t%s\t%llu\t%s", SHOW(w->name), TYPE(&w->type),
                  (unsigned long long)type_bytes(&w->type), tool_take(&ranks));
    }
    text_add(t, "\n");
    table_write(t, &rows);
}

static json_t *tensor_json(const entries *all, const whole *w) {
    json_t *shape = json_array(), *ranks = json_array();
    for (int i = 0; i < w->type.ndim; i++) json_array_append_new(shape, json_integer(w->type.shape[i]));
    for (int i = w->first; i < w->first + w->n; i++)
        json_array_append_new(ranks, json_integer(all->list[i].file));
    return json_pack("{s:s, s:s, s:o, s:I, s:o}", "name", w->name, "type", weft_dtype_name(w->type.dtype),
                     "shape", shape, "bytes", (json_int_t)type_bytes(&w->type), "ranks", ranks);
}

/* What the text has, too, is by name: where the training is, its settings, its optimizers' numbers. */
typedef struct parts {
    json_t *position, *settings, *numbers, *tensors;
} parts;

static parts parts_of(const weft_checkpoint *c, entries *all) {
    weft_error error = {0};
    weft_checkpoint_note note;
    const char *name, *set;
    double value;
    parts p = {json_object(), json_object(), json_object(), json_array()};
    for (int i = 0; weft_checkpoint_note_at(c, i, &note); i++)
        json_object_set_new(p.position, note.name, json_number(note.value));
    for (int i = 0; weft_checkpoint_setting_at(c, i, &name, &set); i++)
        json_object_set_new(p.settings, name, json_string(set));
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        if (!is_number(w))
            json_array_append_new(p.tensors, tensor_json(all, w));
        else if (!entries_read(all, w, 0, &value, sizeof value, &error))
            json_object_set_new(p.numbers, w->name, json_number(value));
    }
    return p;
}

static void show_text(const weft_checkpoint *c, const entries *all, const parts *p) {
    text t = {0};
    int world = ckpt_world(c);
    text_add(&t, "%s: model %s (fingerprint %016llx), step %lld, seed %llu, %d rank%s, %s, written %s UTC\n",
             SHOW_PATH(weft_checkpoint_path(c)), SHOW(c->m.model), (unsigned long long)c->m.form,
             (long long)weft_checkpoint_step(c), (unsigned long long)weft_checkpoint_seed(c), world,
             world == 1 ? "" : "s", BYTES(ckpt_bytes(c)), ckpt_written(weft_checkpoint_path(c)));
    section_write(&t, "position", p->position);
    if (json_object_size(p->settings)) section_write(&t, "settings", p->settings);
    section_write(&t, "numbers of optimizers", p->numbers);
    tensors_write(&t, all);
    out_text(NULL, &t);
}

int ckpt_show(const options *o) {
    entries all;
    weft_checkpoint *c = ckpt_find(o, 0);
    tool_must(entries_open(&all, c, &tool_why));
    parts p = parts_of(c, &all);
    if (!o->json) show_text(c, &all, &p);
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:I, s:o, s:i, s:I, s:s, s:o, s:o, s:o, s:o}", "path", weft_checkpoint_path(c),
        "model", c->m.model, "fingerprint", json_sprintf("%016llx", (unsigned long long)c->m.form), "step",
        (json_int_t)weft_checkpoint_step(c), "seed",
        json_sprintf("%llu", (unsigned long long)weft_checkpoint_seed(c)), "world", ckpt_world(c), "bytes",
        (json_int_t)ckpt_bytes(c), "written", ckpt_written(weft_checkpoint_path(c)), "position", p.position,
        "settings", p.settings, "numbers", p.numbers, "tensors", p.tensors);
    if (o->json) out_json_digits(NULL, json_incref(root), 17);
    json_decref(root);
    entries_close(&all);
    return EXIT_FINE;
}
