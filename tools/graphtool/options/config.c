/* config.c - options in a file of JSON. Each value becomes the text that the command line would have, and is
 * read as that one. Lists are objects by NAME, or arrays of texts; FIELDS may be an object, too:
 *
 *     {"model": "gan.bin", "epochs": 5, "data": {"image": "train.npy"},
 *      "optimizer": {"generator": {"lr": 1e-4, "clip_norm": 1}}}
 *
 * What --print-config prints beside options ("schema", "command", "from", "not_given") is passed over. */
#include "tools/graphtool/options/config.h"

#include "tools/graphtool/options/option_table.h"
#include "tools/graphtool/output/output.h"

#include "graph/core/graph.h"

#include <errno.h>
#include <string.h>

static const char passed_over[] = "schema command from not_given";

typedef struct file {
    options *o;
    const char *path; /* shown */
} file;

/* ---- values ---- */

static _Noreturn void refuse(const file *f, const char *key, const char *rule) {
    tool_fail("%s: %s: \"%s\": %s", f->o->command->name, f->path, key, rule);
}

/* What a value of this key is on the command line, of a text or a number. */
static const char *text_of(const file *f, const char *key, const json_t *value) {
    text t = {0};
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_integer(value)) return tool_text("%lld", (long long)json_integer_value(value));
    if (!json_is_real(value)) refuse(f, key, "a text or a number is needed");
    real_write(&t, json_real_value(value));
    return tool_take(&t);
}

/* The same where only a text makes sense: a file whose name is a number is written as one. */
static const char *word_of(const file *f, const char *key, const json_t *value) {
    if (!json_is_string(value)) refuse(f, key, "a text is needed");
    return json_string_value(value);
}

bool config_is_word(const option_row *row) {
    bool is_text = row->field.kind == WEFT_FIELD_TEXT || option_words(row);
    bool may_be_number = strstr(row->argument, "FIELDS") || strstr(row->argument, "NUMBER");
    return row->form == OPTION_ONE ? is_text : row->form == OPTION_LIST && !may_be_number;
}

static const char *value_of(const file *f, const option_row *row, const json_t *value) {
    return config_is_word(row) ? word_of(f, row->field.name, value) : text_of(f, row->field.name, value);
}

/* Settings of optimizers and of weft_model_set_ddp may be flags, 0 or 1. */
static const char *field_of(const file *f, const char *key, const json_t *value) {
    return json_is_boolean(value) ? json_is_true(value) ? "1" : "0" : text_of(f, key, value);
}

/* "zero=1,shard=flat": what is neither a number nor a word is quoted, and a schedule is, too. */
static const char *fields_of(const file *f, const char *key, json_t *fields) {
    text t = {0};
    const char *name;
    json_t *value;
    json_object_foreach(fields, name, value) {
        const char *one = field_of(f, key, value);
        bool is_word = *one && !one[strspn(one, "abcdefghijklmnopqrstuvwxyz_")] && strcmp(name, "schedule");
        is_word = is_word || !json_is_string(value);
        text_add(&t, is_word ? "%s%s=%s" : "%s%s=\"%s\"", t.length ? "," : "", name, one);
    }
    return tool_take(&t);
}

/* NAME and its value with what is between them. */
static const char *joined(const option_row *row, const char *name, const char *value) {
    if (row->form == OPTION_NAMED && !*name) return value;
    return tool_text("%s%c%s", name, row->argument[strcspn(row->argument, "=:")], value);
}

static void read_value(const file *f, const option_row *row, const char *value) {
    const char *rule = option_read(row, value, f->o);
    if (rule) refuse(f, row->field.name, tool_text("%s: %s", value, rule));
}

static void read_object(const file *f, const option_row *row, json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        const char *one =
            json_is_object(value) ? fields_of(f, row->field.name, value) : value_of(f, row, value);
        read_value(f, row, joined(row, name, one));
    }
}

static void read_any(const file *f, const option_row *row, json_t *value) {
    bool is_list = option_is_list(row);
    if (option_is_flag(row) && !json_is_boolean(value)) refuse(f, row->field.name, "true or false is needed");
    if (json_is_true(value) && option_is_flag(row))
        read_value(f, row, "1");
    else if (is_list && json_is_object(value))
        read_object(f, row, value);
    else if (is_list && json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            read_value(f, row, value_of(f, row, json_array_get(value, i)));
    else if (!option_is_flag(row))
        read_value(f, row, value_of(f, row, value));
}

/* ---- the file ---- */

/* Options that would say nothing in a file: it is read already, and is not a question. */
static bool is_of_line(const char *name) {
    return strcmp(name, "config") == 0 || strcmp(name, "help") == 0;
}

static _Noreturn void refuse_key(const file *f, const char *key) {
    nearest near = nearest_to(key, strlen(key));
    nearest_try(&near, "model");
    options_near(f->o->command, &near);
    if (near.name && is_of_line(near.name)) near.name = NULL;
    refuse(f, key,
           tool_text("there is no option of this name%s%sgraphtool %s --help lists them",
                     nearest_ask(&near).question, near.name ? " " : "; ", f->o->command->name));
}

static void read_key(const file *f, const char *key, json_t *value) {
    options *o = f->o;
    const option_row *row = option_find(o->command, key);
    if (has_word(passed_over, key)) return;
    if (strcmp(key, "model") == 0) {
        o->model = word_of(f, key, value);
        return;
    }
    if (!row) refuse_key(f, key);
    if (is_of_line(key)) refuse(f, key, "it is for the command line alone");
    if (option_from(row, o)) return; /* the command line wins */
    read_any(f, row, value);
    if (!json_is_false(value)) o->from[row - option_rows] = ORIGIN_FILE;
}

static void free_json(void *json) {
    json_decref(json);
}

/* The object in the file. */
static json_t *load_object(const options *o, const char *shown) {
    json_error_t error;
    FILE *f = fopen(o->config, "re");
    if (!f) tool_fail("%s: %s: it cannot be read: %s", o->command->name, shown, strerror(errno));
    json_t *all = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    fclose(f);
    if (!all) tool_fail("%s: %s:%d: %s", o->command->name, shown, error.line, error.text);
    tool_keep(all, free_json);
    if (!json_is_object(all))
        tool_fail("%s: %s: an object of options is needed: {\"epochs\": 5}", o->command->name, shown);
    return all;
}

void config_read(options *o) {
    shown_path path = show_path(o->config);
    file f = {o, path.text};
    json_t *all = load_object(o, path.text), *value;
    const char *key;
    json_object_foreach(all, key, value) read_key(&f, key, value);
}
