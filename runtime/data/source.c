/* source.c - opens sources: finds the form of a path, checks that the options are that form's, and reads
 * options from text. A new form is a file, a row in FORMS, and its options' rows in `fields`
 * (docs/adding-a-source.md). */
#include "runtime/data/form.h"

#include <stddef.h>
#include <sys/stat.h>

/* What weft_source_open returns. */
typedef struct opened {
    weft_source source; /* first, so that both have one address */
    kit_arena memory;
    const form *form;
    char *path;
} opened;

/* ---- the form ---- */

/* A row for each: a bit, as weft_field.uses is the forms that read an option, the name, and what opens it. */
#define FORMS(X)                                                                                             \
    X(NPY, "npy", form_array)                                                                                \
    X(IDX, "idx", form_array)                                                                                \
    X(NPZ, "npz", form_npz)                                                                                  \
    X(IMAGES, "images", form_images)                                                                         \
    X(TOKENS, "tokens", form_tokens)                                                                         \
    X(TEXT, "text", form_text)

enum {
#define X(bit, name, form) AT_##bit,
    FORMS(X) AT_END
#undef X
};
enum {
#define X(bit, name, form) bit = 1 << AT_##bit,
    FORMS(X) WINDOWS = TOKENS | TEXT,
    ANY = (1 << AT_END) - 1,
#undef X
};
#define X(bit, name, form) name,
static const char *const form_names[] = {FORMS(X) NULL};
#undef X
#define X(bit, name, form) &form,
static const form *const forms[] = {FORMS(X)};
#undef X

/* Its place in both lists; the name is valid. */
static int form_place(const char *name) {
    int i = 0;
    while (strcmp(form_names[i], name) != 0) i++;
    return i;
}

/* "npy, idx or npz", of bits of forms. */
static void forms_show(unsigned of, kit_line *into) {
    for (int i = 0; form_names[i]; i++) {
        const char *gap = !into->length ? "" : of >> (i + 1) ? ", " : " or ";
        if (of >> i & 1) kit_add(into, "%s%s", gap, form_names[i]);
    }
}

static bool name_ends(const char *path, const char *end) {
    size_t n = strlen(path), e = strlen(end);
    return n >= e && strcmp(path + n - e, end) == 0;
}

weft_status source_first_bytes(const form_request *r, unsigned char first[4], weft_error *error) {
    stream s;
    weft_status status = stream_open(&s, r->path, &r->env, error);
    if (status) return status;
    memset(first, 1, 4); /* of a shorter file: no form begins so */
    if (s.file_bytes >= 4) status = stream_read_at(&s, 0, first, 4, error);
    stream_close(&s);
    return status;
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
    struct stat about;
    unsigned char first[4];
    kit_line all = {0};
    if (!r->env.io && stat(r->path, &about) == 0 && S_ISDIR(about.st_mode)) return *name = "images", WEFT_OK;
    if (name_ends(r->path, ".bin")) return *name = "tokens", WEFT_OK;
    if (name_ends(r->path, ".txt")) return *name = "text", WEFT_OK;
    if (source_first_bytes(r, first, error)) return error->status;
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
    forms_show(ANY, &all);
    return kit_fail(error, WEFT_FILE, "%.600s: no form of data is recognized: form=NAME chooses %s", r->path,
                    all.text);
}

/* ---- options ---- */

enum { PIXELS = 65535 };
#define COUNTS  (double)INT32_MAX
#define OPTIONS weft_source_options
static const weft_field fields[] = {
    WEFT_FIELD(OPTIONS, form, TEXT, 0, 0, "found by the file's name and first bytes", "how the file is read",
               .words = form_names, .uses = ANY),
    WEFT_FIELD(OPTIONS, members, TEXT, 0, 0, "all", "the arrays wanted, with '+' between", .uses = NPZ),
    WEFT_FIELD(OPTIONS, window, COUNT, 1, COUNTS, NULL, "elements of a sample", .uses = WINDOWS),
    WEFT_FIELD(OPTIONS, stride, COUNT, 1, WEFT_COUNT_MOST, "window", "from one sample's begin to the next's",
               .uses = WINDOWS),
    WEFT_FIELD(OPTIONS, pairs, FLAG, 0, 1, NULL, "two arrays: the input, and the target one element later",
               .uses = WINDOWS),
    WEFT_FIELD(OPTIONS, token_bytes, INT, 2, 4, "2", "bytes of a token in a file without a header, 2 or 4",
               .uses = TOKENS),
    WEFT_FIELD(OPTIONS, dtype, TEXT, 0, 0, "the file's; of tokens i64", "type of a sample's numbers",
               .uses = NPY | IDX | NPZ | WINDOWS),
    WEFT_FIELD(OPTIONS, height, COUNT, 1, PIXELS, NULL, "rows of an image", .uses = IMAGES),
    WEFT_FIELD(OPTIONS, width, COUNT, 1, PIXELS, "height", "columns of an image", .uses = IMAGES),
    WEFT_FIELD(OPTIONS, channels, COUNT, 1, 4, "3", "1 grey, 3 RGB, 4 RGBA", .uses = IMAGES),
    WEFT_FIELD(OPTIONS, shorter_side, COUNT, 1, PIXELS, "the larger of height and width",
               "length of the shorter side before the crop", .uses = IMAGES),
    WEFT_FIELD(OPTIONS, crop_x, INT, -500, 500, NULL, "where the crop begins: -500 left, 0 middle, 500 right",
               .uses = IMAGES),
    WEFT_FIELD(OPTIONS, crop_y, INT, -500, 500, NULL, "the same from top to bottom", .uses = IMAGES),
    WEFT_FIELD_END(OPTIONS),
};
#undef OPTIONS

const weft_field *weft_source_fields(void) {
    return fields;
}

static weft_status check_ranges(const weft_field *table, const form_request *r, weft_error *error) {
    char what[601];
    snprintf(what, sizeof what, "%s", r->path);
    return weft_fields_check(table, &r->options, what, error);
}

static weft_status check_options(const form_request *r, const char *form, weft_error *error) {
    kit_line all = {0};
    for (const weft_field *f = fields; f->name; f++) {
        if (!weft_field_is_set(f, &r->options) || f->uses >> form_place(form) & 1) continue;
        forms_show(f->uses, &all);
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: %s has no effect on %s: it is for %s", r->path,
                        f->name, form, all.text);
    }
    return check_ranges(fields, r, error);
}

/* ---- opening ---- */

static weft_status open_form(opened *o, const weft_source_options *options, weft_error *error) {
    form_request r = {.path = o->path, .env = o->memory.env};
    if (options) r.options = *options;
    const weft_field by_name[] = {fields[0], {0}}; /* the form alone: others are checked by it */
    const char *name = r.options.form;
    if (check_ranges(by_name, &r, error) || ((!name || !*name) && form_find(&r, &name, error)) ||
        check_options(&r, name, error))
        return error->status;
    kit_defaults(fields, &r.options);
    o->form = forms[form_place(name)];
    return o->form->open(&r, &o->source, error);
}

weft_source *weft_source_open(const char *path, const weft_source_options *options, const weft_env *env,
                              weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (!path || !*path) return kit_fail(error, WEFT_ARGUMENT, "weft_source_open: a path is needed"), NULL;
    if (options &&
        weft_reserved_check(options->reserved, sizeof options->reserved, "weft_source_options", error))
        return NULL;
    kit_arena memory = kit_arena_of(env);
    opened *o = kit_take(&memory, 1, sizeof *o);
    char *copy = kit_copy(&memory, path);
    if (memory.is_out) {
        kit_no_memory(error, path);
    } else {
        o->path = copy;
        o->memory = memory;
        if (open_form(o, options, error) == WEFT_OK) return &o->source;
    }
    kit_release(memory);
    return NULL;
}

static bool is_option(const char *name, size_t length) {
    for (const weft_field *f = fields; f->name; f++)
        if (strlen(f->name) == length && memcmp(f->name, name, length) == 0) return true;
    return false;
}

/* Options begin after the last ":" that "name=" follows, or "name," of a flag. */
size_t source_path_bytes(const char *text) {
    const char *colon = strrchr(text, ':'), *name = colon ? colon + 1 : "";
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
    bool begins = n && (name[n] == '=' || (name[n] == ',' && is_option(name, n)));
    return begins ? (size_t)(colon - text) : strlen(text);
}

weft_source *weft_source_open_text(const char *text, const weft_env *env, weft_error *error) {
    weft_source_options o = {0};
    weft_error own;
    weft_source *source = NULL;
    kit_arena memory = kit_arena_of(env);
    char *copy = kit_copy(&memory, text);
    error = kit_error(error, &own);
    if (!text) return kit_fail(error, WEFT_ARGUMENT, "data: a path is needed"), NULL;
    if (!copy) return kit_no_memory(error, "data"), NULL;
    size_t path = source_path_bytes(text);
    bool has_options = copy[path] == ':';
    copy[path] = 0;
    weft_status status = has_options ? weft_fields_read(fields, copy + path + 1, &o, "data", error) : WEFT_OK;
    /* "," stands between options, so a list has "+"; the text is the copy's */
    for (char *plus = (char *)o.members; plus && (plus = strchr(plus, '+'));) *plus = ',';
    if (!status) source = weft_source_open(copy, &o, env, error);
    kit_release(memory);
    return source;
}

void weft_source_free(weft_source *source) {
    opened *o = (opened *)(void *)source;
    if (!o) return;
    o->form->close(o->source.context);
    kit_release(o->memory);
}

const char *weft_source_class(const weft_source *source, int64_t label) {
    const opened *o = (const opened *)(const void *)source;
    return o && o->form->class_name ? o->form->class_name(o->source.context, label) : NULL;
}
