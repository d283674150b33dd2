/* source.c - opens sources: finds the form of a path, checks that the options are that form's, and reads
 * options from text. A new form is a file, a row in `forms` and its options' rows in `fields`. */
#include "runtime/data/form.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What weft_source_open returns. */
typedef struct opened {
    weft_source source; /* first, so that both have one address */
    weft_env env;
    const form *form;
    char *path;
} opened;

/* ---- the form ---- */

static const struct {
    const char *name;
    const form *form;
} forms[] = {{"npy", &form_array},     {"idx", &form_array},     {"npz", &form_npz},
             {"images", &form_images}, {"tokens", &form_tokens}, {"text", &form_text}};
enum { FORMS = sizeof forms / sizeof *forms };

static const char *form_names = "npy, idx, npz, images, tokens, text";

static const char *form_by_name(const char *name) {
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return forms[i].name;
    return NULL;
}

static bool name_ends(const char *path, const char *end) {
    size_t n = strlen(path), e = strlen(end);
    return n >= e && strcmp(path + n - e, end) == 0;
}

/* By the first bytes; "npy" stands for gzip too: array.c finds out what is in it. */
static const char *form_of_bytes(const unsigned char first[4]) {
    if (memcmp(first, "\x93NUM", 4) == 0 || memcmp(first, "\x1f\x8b", 2) == 0) return "npy";
    if (memcmp(first, "PK\3\4", 4) == 0 || memcmp(first, "PK\5\6", 4) == 0) return "npz";
    return first[0] == 0 && first[1] == 0 ? "idx" : NULL;
}

/* Folders, files whose name says it, and files by their first bytes. An array that a window is cut from is
 * tokens. */
static weft_status form_find(const form_request *r, const char **name, weft_error *error) {
    stream s;
    struct stat about;
    unsigned char first[4] = {1};
    if (!r->env.io && stat(r->path, &about) == 0 && S_ISDIR(about.st_mode)) return *name = "images", WEFT_OK;
    if (name_ends(r->path, ".bin")) return *name = "tokens", WEFT_OK;
    if (name_ends(r->path, ".txt")) return *name = "text", WEFT_OK;
    weft_status status = stream_open(&s, r->path, &r->env, error);
    if (status) return status;
    if (s.file_bytes >= sizeof first) status = stream_read_at(&s, 0, first, sizeof first, error);
    stream_close(&s);
    if (status) return status;
    *name = form_of_bytes(first);
    bool is_torchs =
        (*name && strcmp(*name, "npz") == 0 && !name_ends(r->path, ".npz")) /* a zip, or a pickle */
        || (first[0] == 0x80 && first[1] <= 5);
    if (is_torchs && (name_ends(r->path, ".pt") || name_ends(r->path, ".pth")))
        return kit_fail(
            error, WEFT_FILE,
            "%.600s: a file of torch.save: write its tensors by numpy.save(\"x.npy\", tensor.numpy())",
            r->path);
    if (*name && r->options.window && strcmp(*name, "npy") == 0) *name = "tokens";
    if (*name) return WEFT_OK;
    return kit_fail(error, WEFT_FILE, "%.600s: no form of data is recognized: form=NAME says it, one of %s",
                    r->path, form_names);
}

/* ---- options ---- */

typedef enum field_kind { FIELD_TEXT, FIELD_I64, FIELD_INT, FIELD_BOOL } field_kind;

#define FIELD(name, kind, forms)                                                                             \
    { #name, forms, kind, offsetof(weft_source_options, name) }
/* Each option, and the forms that take it. */
static const struct {
    const char *name, *forms;
    field_kind kind;
    size_t offset;
} fields[] = {
    FIELD(form, FIELD_TEXT, "npy idx npz images tokens text"),
    FIELD(members, FIELD_TEXT, "npz"),
    FIELD(window, FIELD_I64, "tokens text"),
    FIELD(stride, FIELD_I64, "tokens text"),
    FIELD(pairs, FIELD_BOOL, "tokens text"),
    FIELD(token_bytes, FIELD_INT, "tokens"),
    FIELD(dtype, FIELD_TEXT, "npy idx npz tokens text"),
    FIELD(height, FIELD_I64, "images"),
    FIELD(width, FIELD_I64, "images"),
    FIELD(channels, FIELD_I64, "images"),
    FIELD(shorter_side, FIELD_I64, "images"),
    FIELD(crop_x, FIELD_INT, "images"),
    FIELD(crop_y, FIELD_INT, "images"),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool takes(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static bool is_set(const weft_source_options *o, int field) {
    const char *at = (const char *)o + fields[field].offset;
    switch (fields[field].kind) {
    case FIELD_TEXT:
        return *(const char *const *)(const void *)at != NULL;
    case FIELD_I64:
        return *(const int64_t *)(const void *)at != 0;
    case FIELD_INT:
        return *(const int *)(const void *)at != 0;
    case FIELD_BOOL:
        return *at != 0;
    }
    return false;
}

static weft_status check_fields(const form_request *r, const char *form, weft_error *error) {
    for (int i = 0; i < FIELDS; i++)
        if (is_set(&r->options, i) && !takes(fields[i].forms, form))
            return kit_fail(error, WEFT_ARGUMENT, "%.600s: %s has no effect on %s: it is for %s", r->path,
                            fields[i].name, form, fields[i].forms);
    return WEFT_OK;
}

/* Sets one option from text, which must outlive the options. */
static weft_status set_field(weft_source_options *o, const char *name, char *value, weft_error *error) {
    int i = 0;
    const char *near = NULL;
    while (i < FIELDS && strcmp(fields[i].name, name) != 0) near = weft_nearest(name, near, fields[i++].name);
    if (i == FIELDS)
        return kit_fail(error, WEFT_NAME, "data: there is no option '%s'%s",
                        kit_show(name, strlen(name)).text, NEAR(near));
    char *end = value, *at = (char *)o + fields[i].offset;
    long long number = strtoll(value, &end, 10);
    if (fields[i].kind == FIELD_TEXT) {
        for (char *c = value; (c = strchr(c, '+'));) *c = ','; /* a list: "," stands between options */
        *(const char **)(void *)at = value;
        return WEFT_OK;
    }
    int64_t most = fields[i].kind == FIELD_I64 ? INT64_MAX : fields[i].kind == FIELD_INT ? INT32_MAX : 1;
    int64_t least = fields[i].kind == FIELD_BOOL ? 0 : -most;
    if (!*value || *end || number < least || number > most)
        return kit_fail(error, WEFT_ARGUMENT, "data: %s=%s: a number from %lld to %lld is needed", name,
                        kit_show(value, strlen(value)).text, (long long)least, (long long)most);
    if (fields[i].kind == FIELD_I64)
        *(int64_t *)(void *)at = number;
    else if (fields[i].kind == FIELD_INT)
        *(int *)(void *)at = (int)number;
    else
        *(bool *)(void *)at = number;
    return WEFT_OK;
}

/* ---- opening ---- */

static weft_status open_form(opened *o, const weft_source_options *options, weft_error *error) {
    form_request r = {.path = o->path, .env = o->env};
    const char *name = NULL;
    if (options) r.options = *options;
    if (r.options.form && !(name = form_by_name(r.options.form)))
        return kit_fail(error, WEFT_NAME, "%.600s: there is no form '%s' of data: %s", r.path,
                        kit_show(r.options.form, strlen(r.options.form)).text, form_names);
    weft_status status = name ? WEFT_OK : form_find(&r, &name, error);
    if (!status) status = check_fields(&r, name, error);
    for (int i = 0; !status && i < FORMS; i++)
        if (forms[i].name == name) o->form = forms[i].form;
    return status ? status : o->form->open(&r, &o->source, error);
}

weft_source *weft_source_open(const char *path, const weft_source_options *options, const weft_env *env,
                              weft_error *error) {
    weft_error nobody_asks;
    if (!error) error = &nobody_asks;
    *error = (weft_error){0};
    if (!path || !*path) return kit_fail(error, WEFT_ARGUMENT, "weft_source_open: a path is needed"), NULL;
    opened *o = kit_new(env, sizeof *o);
    size_t bytes = strlen(path) + 1;
    if (!o || !(o->path = weft_memory_new(env, bytes))) {
        weft_memory_free(env, o, sizeof *o);
        return kit_no_memory(error, path), NULL;
    }
    memcpy(o->path, path, bytes);
    o->env = env ? *env : (weft_env){0};
    if (open_form(o, options, error) == WEFT_OK) return &o->source;
    weft_memory_free(env, o->path, bytes);
    weft_memory_free(env, o, sizeof *o);
    return NULL;
}

/* Options begin after the last ":" that a "name=" follows. */
size_t source_path_bytes(const char *text) {
    const char *colon = strrchr(text, ':');
    size_t name = colon ? strspn(colon + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    return name && colon[1 + name] == '=' ? (size_t)(colon - text) : strlen(text);
}

weft_source *weft_source_open_text(const char *text, const weft_env *env, weft_error *error) {
    weft_source_options o = {0};
    if (error) *error = (weft_error){0};
    size_t bytes = text ? strlen(text) + 1 : 0;
    char *copy = bytes ? weft_memory_new(env, bytes) : NULL;
    if (!copy)
        return bytes ? kit_no_memory(error, "data")
                     : kit_fail(error, WEFT_ARGUMENT, "data: a path is needed"),
               NULL;
    memcpy(copy, text, bytes);
    char *at = copy + source_path_bytes(text);
    weft_status status = WEFT_OK;
    while (!status && *at) {
        *at++ = 0; /* the ":" or "," before an option */
        char *end = at + strcspn(at, ","), *equals = strchr(at, '=');
        char *next = *end ? end : NULL;
        if (next) *next = 0;
        if (!equals || equals > end) {
            status = kit_fail(error, WEFT_ARGUMENT, "data: '%s': option=value is needed",
                              kit_show(at, strlen(at)).text);
            break;
        }
        *equals = 0;
        status = set_field(&o, at, equals + 1, error);
        at = next ? next : end;
        if (next) *next = ',';
    }
    weft_source *source = status ? NULL : weft_source_open(copy, &o, env, error);
    weft_memory_free(env, copy, bytes);
    return source;
}

void weft_source_free(weft_source *source) {
    opened *o = (opened *)(void *)source;
    if (!o) return;
    weft_env env = o->env;
    o->form->close(o->source.context);
    weft_memory_free(&env, o->path, strlen(o->path) + 1);
    weft_memory_free(&env, o, sizeof *o);
}

const char *weft_source_class(const weft_source *source, int64_t label) {
    const opened *o = (const opened *)(const void *)source;
    return o && o->form->class_name ? o->form->class_name(o->source.context, label) : NULL;
}
