/* weights.c - see weights.h. A --rename that fits no name and a --partial that loads nothing are errors, as
 * they would have no effect; names that --partial leaves are told, so that none is lost unseen. */
#include "tools/graphtool/common/weights.h"

#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/paths.h"

#include "graph/core/error.h"
#include "runtime/store/stored.h"

#include <stdlib.h>
#include <string.h>

/* The texts of --rename FROM:TO, cut in two. */
typedef struct renames {
    int n;
    weft_rename list[OPTIONS_MAX_DATA];
    char *from[OPTIONS_MAX_DATA];
} renames;

static void renames_free(renames *r) {
    for (int i = 0; i < r->n; i++) free(r->from[i]);
}

/* -1, or the exit status. The caller frees them in both cases. */
static int renames_read(renames *r, const text_list *options) {
    for (int i = 0; i < options->n; i++) {
        const char *said = options->v[i], *colon = strchr(said, ':');
        char *from = strndup(said, (size_t)(colon - said));
        if (!from) return tool_fail("out of memory");
        r->from[r->n] = from;
        r->list[r->n++] = (weft_rename){from, colon + 1};
    }
    return -1;
}

/* Whether a name in the file begins with `from`, and with no FROM before it, which would count. */
static bool is_used(const weft_tensors *file, const renames *r, int which) {
    weft_port port;
    for (int i = 0; weft_tensors_at(file, i, &port); i++) {
        int first = 0;
        while (first < r->n && strncmp(port.name, r->from[first], strlen(r->from[first]))) first++;
        if (first == which) return true;
    }
    return false;
}

static int check_used(const char *path, const renames *r) {
    weft_error error;
    int status = -1;
    weft_tensors *file = r->n ? weft_tensors_open(path, NULL, &error) : NULL;
    if (r->n && !file) return tool_error(&error);
    for (int i = 0; i < r->n && status < 0; i++)
        if (!is_used(file, r, i))
            status = tool_fail("--rename=%s:%s has no effect: no name in %s begins with '%s'%s",
                               show_name(r->from[i], strlen(r->from[i])).text, SHOW(r->list[i].to),
                               SHOW_PATH(path), SHOW(r->from[i]),
                               i ? ", but those that a --rename before it takes" : "");
    weft_tensors_close(file);
    return status;
}

/* Where names were left: how many of each, and the first. */
static void tell_left(const char *path, const weft_weights_report *report) {
    const char *missing = report->missing ? report->missing : "";
    const char *unexpected = report->unexpected ? report->unexpected : "";
    if (!report->n_missing && !report->n_unexpected) return;
    tool_warn("%s: %d tensors are loaded; it lacks %d of the model's (%s), and the model %d of its (%s)",
              SHOW_PATH(path), report->n_loaded, report->n_missing,
              report->n_missing ? show_name(missing, strcspn(missing, "\n")).text : "none",
              report->n_unexpected,
              report->n_unexpected ? show_name(unexpected, strcspn(unexpected, "\n")).text : "none");
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
static int tell_averages(const weft_store *store, const options *o) {
    weft_error error;
    safetensors file;
    if (keeps_averages(store)) return -1;
    if (safetensors_open(&file, o->weights, NULL, &error)) return tool_error(&error);
    bool has = find_said(&file, WEFT_STORED_AVERAGE, NULL) != NULL;
    safetensors_close(&file);
    bool is_first = !o->comm || o->comm->rank == 0, trains = command_has_option(o->command, "ema");
    if (has && is_first)
        tool_warn(
            "%s: it has averages of the parameters, as --ema keeps them, and the model keeps none: they "
            "are ignored, and the parameters %s",
            SHOW_PATH(o->weights),
            trains ? "are trained without; --ema continues them"
                   : "are read; a file that was saved without --optimizer-state has averages in their "
                     "place");
    return -1;
}

static int load(weft_store *store, const options *o, const renames *r) {
    weft_error error;
    weft_weights_report report = {0};
    weft_weights_options how = {o->partial, r->n, r->n ? r->list : NULL};
    int status = -1;
    if (path_is_folder(o->weights))
        return tool_fail("%s: it is a folder: --weights takes a file; of a checkpoint it is made by "
                         "graphtool ckpt export %s -o FILE",
                         SHOW_PATH(o->weights), SHOW_PATH(o->weights));
    if (weft_weights_load_with(store, o->weights, &how, &report, &error))
        status = tool_error(&error);
    else if (o->partial && !report.n_loaded)
        status =
            tool_fail("%s: no tensor of it has a name of the model: its first is %s", SHOW_PATH(o->weights),
                      report.unexpected && *report.unexpected
                          ? show_name(report.unexpected, strcspn(report.unexpected, "\n")).text
                          : "none");
    else if (o->partial && (!o->comm || o->comm->rank == 0))
        tell_left(o->weights, &report);
    if (status < 0) status = tell_averages(store, o);
    free(report.missing);
    free(report.unexpected);
    return status;
}

int weights_load(weft_store *store, const options *o) {
    renames r = {0};
    if (!o->weights) return -1;
    int status = renames_read(&r, &o->rename);
    if (status < 0) status = check_used(o->weights, &r);
    if (status < 0) status = load(store, o, &r);
    renames_free(&r);
    return status;
}

int weights_counter(const options *o, const char *optimizer, weft_stored_kind counter, int64_t *value) {
    weft_error error = {0};
    safetensors file;
    double read = 0;
    *value = 0;
    if (!o->weights) return -1;
    if (safetensors_open(&file, o->weights, NULL, &error)) return tool_error(&error);
    const safetensors_tensor *t = find_said(&file, counter, optimizer);
    bool is_number = t && t->type.dtype == WEFT_F64 && !t->type.ndim;
    weft_status status = is_number ? safetensors_read(&file, t, &read, &error) : WEFT_OK;
    safetensors_close(&file);
    if (status) return tool_error(&error);
    if (read >= 0 && read <= 0x1p53) *value = (int64_t)read;
    return -1;
}
