/* weights.c - see weights.h. A --rename that fits no name and a --partial that loads nothing are errors, as
 * they would have no effect; names that --partial leaves are reported, so that none is lost unseen. */
#include "tools/graphtool/model/weights.h"

#include "tools/graphtool/output/output.h"
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/ranks/world.h"

#include "runtime/store/stored.h"

#include <string.h>

/* The texts of --rename FROM:TO, cut in two. */
typedef struct renames {
    int n;
    weft_rename list[OPTIONS_MAX_DATA];
} renames;

static renames renames_read(const text_list *options) {
    renames r = {.n = options->n};
    for (int i = 0; i < r.n; i++) r.list[i].from = option_kind_of(options->v[i], &r.list[i].to);
    return r;
}

static void close_file(void *file) {
    safetensors_close(file);
}

/* The file of --weights, until the end. */
static safetensors *open_file(const options *o) {
    safetensors *file = tool_new(1, sizeof *file);
    if (path_is_folder(o->weights))
        tool_fail("%s: it is a folder: --weights takes a file; of a checkpoint it is made by graphtool ckpt "
                  "export %s -o FILE",
                  o->weights, o->weights);
    tool_must(safetensors_open(file, o->weights, NULL, &tool_why));
    return tool_keep(file, close_file);
}

/* Whether a name in the file begins with `from`, and with no FROM before it, which would count. */
static bool is_used(const safetensors *file, const renames *r, int which) {
    for (int i = 0; i < file->n; i++) {
        int first = 0;
        while (first < r->n &&
               strncmp(file->tensors[i].name, r->list[first].from, strlen(r->list[first].from)))
            first++;
        if (first == which) return true;
    }
    return false;
}

static void check_used(const safetensors *file, const renames *r) {
    for (int i = 0; i < r->n; i++)
        if (!is_used(file, r, i))
            tool_fail("--rename=%s:%s has no effect: no name in %s begins with '%s'%s", r->list[i].from,
                      r->list[i].to, file->path, r->list[i].from,
                      i ? ", but those that a --rename before it takes" : "");
}

/* The first of names with a newline between. */
static shown first_name(const char *names) {
    return show_name(names, strcspn(names, "\n"));
}

/* "; 2 that the model lacks are skipped (x.bias, ...)" */
static void add_left(text *t, int n, const char *which, const char *names) {
    if (n) text_add(t, "; %d %s (%s%s)", n, which, first_name(names).text, n > 1 ? ", ..." : "");
}

/* Where names were left: how many of each, and the first. */
static void tell_left(const char *path, const weft_weights_report *report) {
    text t = {0};
    add_left(&t, report->n_missing, "of the model are not in it and begin with initial values",
             report->missing);
    add_left(&t, report->n_unexpected, "are not of the model and are skipped", report->unexpected);
    if (t.length) tool_warn("%s: %d tensors are loaded%s", path, report->n_loaded, tool_take(&t));
}

static bool keeps_averages(const weft_store *store) {
    weft_stored value;
    for (int i = 0; weft_store_at(store, i, &value); i++)
        if (value.kind == WEFT_STORED_AVERAGE) return true;
    return false;
}

/* A tensor of the file, by what the file says of it. of: whose it is; NULL: of any. */
static const safetensors_tensor *find_said(const safetensors *file, weft_stored_kind kind, const char *of) {
    for (int i = 0; i < file->n; i++) {
        weft_stored value;
        if (stored_read(file->path, &file->tensors[i], &value, NULL) || value.kind != kind) continue;
        if (!of || strcmp(value.of, of) == 0) return &file->tensors[i];
    }
    return NULL;
}

/* Averages in the file that nothing keeps are left aside, and what reads weights reads others than the
 * validations of the training that wrote it. */
static void tell_averages(const safetensors *file, const weft_store *store, const options *o) {
    if (keeps_averages(store) || !find_said(file, WEFT_STORED_AVERAGE, NULL)) return;
    tool_warn("%s: it has averages of the parameters, as --ema keeps them, and the model keeps none: they "
              "are ignored, and the parameters %s",
              o->weights,
              command_has_option(o->command, "ema")
                  ? "are trained without; --ema continues them"
                  : "are read; a file that was saved without --optimizer-state has averages in their place");
}

void weights_load(weft_store *store, const options *o) {
    weft_weights_report report = {0};
    if (!o->weights) return;
    const renames r = renames_read(&o->rename);
    const weft_weights_options how = {o->partial, r.n, r.n ? r.list : NULL};
    const safetensors *file = open_file(o);
    bool tells = world_rank(o) == 0;
    check_used(file, &r);
    tool_must(weft_weights_load(store, o->weights, &how, &report, &tool_why));
    if (o->partial && !report.n_loaded)
        tool_fail("%s: no tensor of it has a name of the model: its first is %s", o->weights,
                  first_name(report.unexpected).text);
    if (o->partial && tells) tell_left(o->weights, &report);
    if (tells) tell_averages(file, store, o);
    weft_text_free(report.missing);
    weft_text_free(report.unexpected);
}

int64_t weights_counter(const options *o, const char *optimizer, weft_stored_kind counter) {
    double read = 0;
    if (!o->weights) return 0;
    safetensors *file = open_file(o);
    const safetensors_tensor *t = find_said(file, counter, optimizer);
    bool is_number = t && t->type.dtype == WEFT_F64 && !t->type.ndim;
    if (is_number) tool_must(safetensors_read(file, t, &read, &tool_why));
    return read >= 0 && read <= 0x1p53 ? (int64_t)read : 0;
}
