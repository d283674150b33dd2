/* ckpt_show.c - what is in one checkpoint: where its training is, its settings, its optimizers' numbers, its
 * tensors. */
#include "tools/graphtool/common/ckpt.h"

#include "runtime/checkpoint/checkpoint.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/common/tools.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- as text ---- */

static void numbers_write(text *t, entries *all) {
    weft_error error = {0};
    double value;
    table rows = {.columns = 2};
    for (int i = 0; i < all->n_wholes; i++)
        if (is_number(&all->wholes[i]) &&
            !entries_read(all, &all->wholes[i], 0, &value, sizeof value, &error)) {
            table_word(&rows, all->wholes[i].name);
            table_print(&rows, "%.9g", value);
        }
    text_add(t, "\nnumbers of optimizers\n");
    table_write(t, &rows);
}

static void notes_write(text *t, const weft_checkpoint *c) {
    weft_note note;
    table rows = {.columns = 2};
    for (int i = 0; weft_checkpoint_note_at(c, i, &note); i++) {
        table_word(&rows, SHOW(note.name));
        table_print(&rows, "%.9g", note.value);
    }
    text_add(t, "\nposition\n");
    table_write(t, &rows);
}

static void fields_write(text *t, const weft_checkpoint *c) {
    const char *name, *value;
    table rows = {.columns = 2};
    for (int i = 0; weft_checkpoint_setting_at(c, i, &name, &value); i++) {
        table_word(&rows, SHOW(name));
        table_word(&rows, SHOW(value));
    }
    if (!rows.n) return;
    text_add(t, "\nsettings\n");
    table_write(t, &rows);
}

static void tensors_write(text *t, const entries *all) {
    table rows = {.columns = 4, .is_right = {false, false, true}};
    static const char *const heads[] = {"tensor", "type", "bytes", "ranks"};
    for (int i = 0; i < 4; i++) table_word(&rows, heads[i]);
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        text ranks = {0};
        if (is_number(w)) continue;
        table_word(&rows, SHOW(w->name));
        table_word(&rows, TYPE(&w->type));
        table_print(&rows, "%llu", (unsigned long long)type_bytes(&w->type));
        ranks_text(&ranks, all, w);
        table_cell(&rows, &ranks);
    }
    text_add(t, "\n");
    table_write(t, &rows);
}

static int show_text(const weft_checkpoint *c, entries *all) {
    text t = {0};
    int world = ckpt_world(c);
    text_add(&t, "%s: model %s (fingerprint %016llx), step %lld, seed %llu, %d rank%s, %s, written %s UTC\n",
             SHOW_PATH(weft_checkpoint_path(c)), SHOW(c->m.model), (unsigned long long)c->m.form,
             (long long)weft_checkpoint_step(c), (unsigned long long)weft_checkpoint_seed(c), world,
             world == 1 ? "" : "s", bytes_show(ckpt_bytes(c)).text,
             ckpt_written(weft_checkpoint_path(c)).text);
    notes_write(&t, c);
    fields_write(&t, c);
    numbers_write(&t, all);
    tensors_write(&t, all);
    char *text = text_detach(&t);
    int status = text ? out_write(NULL, text, strlen(text)) : tool_fail("out of memory");
    free(text);
    return status;
}

/* ---- as JSON ---- */

static json_t *tensor_json(const entries *all, const whole *w) {
    json_t *shape = json_array(), *ranks = json_array();
    for (int i = 0; i < w->type.ndim; i++) json_array_append_new(shape, json_integer(w->type.shape[i]));
    for (int i = w->first; i < w->first + w->n; i++)
        json_array_append_new(ranks, json_integer(all->list[i].file));
    return json_pack("{s:s, s:s, s:o, s:I, s:o}", "name", w->name, "type", weft_dtype_name(w->type.dtype),
                     "shape", shape, "bytes", (json_int_t)type_bytes(&w->type), "ranks", ranks);
}

static int show_json(const weft_checkpoint *c, entries *all) {
    weft_error error = {0};
    weft_note note;
    const char *name, *set;
    double value;
    json_t *position = json_object(), *settings = json_object(), *numbers = json_object();
    json_t *tensors = json_array();
    for (int i = 0; weft_checkpoint_note_at(c, i, &note); i++)
        json_object_set_new(position, note.name, json_number(note.value));
    for (int i = 0; weft_checkpoint_setting_at(c, i, &name, &set); i++)
        json_object_set_new(settings, name, json_string(set));
    for (int i = 0; i < all->n_wholes; i++) {
        const whole *w = &all->wholes[i];
        if (!is_number(w))
            json_array_append_new(tensors, tensor_json(all, w));
        else if (!entries_read(all, w, 0, &value, sizeof value, &error))
            json_object_set_new(numbers, w->name, json_number(value));
    }
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:I, s:o, s:i, s:I, s:s, s:o, s:o, s:o, s:o}", "path", weft_checkpoint_path(c),
        "model", c->m.model, "fingerprint", json_sprintf("%016llx", (unsigned long long)c->m.form), "step",
        (json_int_t)weft_checkpoint_step(c), "seed",
        json_sprintf("%llu", (unsigned long long)weft_checkpoint_seed(c)), "world", ckpt_world(c), "bytes",
        (json_int_t)ckpt_bytes(c), "written", ckpt_written(weft_checkpoint_path(c)).text, "position",
        position, "settings", settings, "numbers", numbers, "tensors", tensors);
    return out_json_digits(NULL, root, 17);
}

int ckpt_show(const options *o) {
    int status = EXIT_FINE;
    weft_error error = {0};
    entries all;
    weft_checkpoint *c = ckpt_find(o, 0, &status);
    if (!c) return status;
    if (entries_open(&all, c, &error))
        status = tool_error(&error);
    else
        status = o->json ? show_json(c, &all) : show_text(c, &all);
    entries_close(&all);
    weft_checkpoint_close(c);
    return status;
}
