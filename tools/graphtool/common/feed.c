/* feed.c - arrays from files as batches, and graphs bound to them. */
#include "tools/graphtool/common/feed.h"

#include "tools/graphtool/common/world.h"

#include "graph/core/error.h"
#include "graph/core/mem.h"
#include "graph/core/type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

/* Loads one NAME=FILE. All arrays must have the same first axis, the samples. */
static int load_one(batches *b, const char *option) {
    weft_error error = {0};
    const char *equals = strchr(option, '=');
    char *name = strndup(option, (size_t)(equals - option));
    if (!name) return tool_fail("out of memory");
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->names[i], name) == 0) {
            int status = tool_fail("--data %s: input %s has a file already", option, name);
            free(name);
            return status;
        }
    int i = b->n++;
    b->names[i] = name;
    if (!(b->arrays[i] = weft_array_load(equals + 1, NULL, &error))) return tool_error(&error);
    tensor_type row = {.dtype = weft_array_dtype(b->arrays[i])};
    int64_t shape[WEFT_MAX_NDIM];
    int ndim = weft_array_shape(b->arrays[i], shape);
    if (ndim < 1) return tool_fail("%s: one number has no samples: the first axis counts them", equals + 1);
    row.ndim = ndim - 1;
    for (int k = 1; k < ndim; k++) row.shape[k - 1] = shape[k];
    b->row_bytes[i] = type_bytes(&row);
    if (i > 0 && shape[0] != b->samples)
        return tool_fail("%s: %lld samples, but %s has %lld", equals + 1, (long long)shape[0], b->names[0],
                         (long long)b->samples);
    b->samples = shape[0];
    return -1;
}

int batches_load(batches *b, const text_list *files) {
    *b = (batches){0};
    for (int i = 0; i < files->n; i++) {
        int status = load_one(b, files->v[i]);
        if (status >= 0) return status;
    }
    return -1;
}

/* Only the cut differs between ranks; weft_loader_agree checks that the data are the same. */
int batches_cut(batches *b, const weft_loader_options *how, const options *o) {
    weft_error error = {0};
    weft_loader_options mine = *how;
    mine.rank = world_rank(o);
    mine.num_replicas = world_size(o);
    mine.names = (const char *const *)b->names;
    b->batch = how->batch;
    if (!b->n) return -1;
    if (!(b->loader = weft_loader_new(b->n, (const weft_array *const *)b->arrays, &mine, NULL, &error)) ||
        weft_loader_agree(b->loader, o->comm, &error))
        return tool_error(&error);
    return -1;
}

void batches_epoch(batches *b, int64_t epoch) {
    b->taken = 0;
    weft_loader_epoch(b->loader, epoch);
}

void batches_seek(batches *b, int64_t number) {
    b->taken = number;
    weft_loader_seek(b->loader, number);
}

bool batches_next(batches *b) {
    int64_t number = ++b->taken % SYNTHETIC_BATCHES;
    if (b->loader) return weft_loader_next(b->loader, b->data, &b->rows);
    b->rows = b->batch;
    for (int i = 0; i < b->n; i++)
        b->data[i] = (const char *)b->synthetic[i] + (size_t)number * (size_t)b->batch * b->row_bytes[i];
    return true;
}

void batches_free(batches *b) {
    weft_loader_free(b->loader);
    for (int i = 0; i < b->n; i++) {
        weft_array_free(b->arrays[i]);
        free(b->synthetic[i]);
        free(b->names[i]);
    }
    *b = (batches){0};
}

/* ---- graphs ---- */

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), e = strlen(end);
    return n >= e && strcmp(name + n - e, end) == 0;
}

/* Is this output fetched? See graph_run_bind. */
static bool is_wanted(const weft_port *p, const char *fetch) {
    if (fetch) return strcmp(p->name, fetch) == 0;
    return p->dtype == WEFT_F32 && p->bytes == sizeof(float) &&
           (ends_in(p->name, "loss") || ends_in(p->name, "accuracy"));
}

/* Does the input take this many rows? A graph whose shapes do not name WEFT_BATCH takes batches of one size
 * only. */
static bool takes_rows(const batches *b, const char *graph, const weft_port *port, int64_t rows) {
    char way_out[80];
    tensor_type want = type_of(port->dtype, port->ndim, port->shape);
    if (port->ndim && port->shape[0] == rows) return true;
    bool is_rest = rows != b->batch, is_few = b->samples < want.shape[0];
    snprintf(way_out, sizeof way_out,
             is_few    ? "feed %lld"
             : is_rest ? "feed a multiple of %lld"
                       : "use --batch=%lld",
             (long long)want.shape[0]);
    tool_fail(
        "graph %s: input %s is %s, and the %s of %lld samples: %s, or declare its first axis WEFT_BATCH",
        graph, port->name, TYPE(&want), is_rest ? "last batch is" : "batches are", (long long)rows, way_out);
    return false;
}

/* Finds the array for input `port`: its index in the batches, or -1 after printing the error. */
static int source_of(const batches *b, const char *graph, const weft_port *port, int64_t rows) {
    tensor_type want = type_of(port->dtype, port->ndim, port->shape);
    for (int i = 0; i < b->n; i++) {
        if (strcmp(b->names[i], port->name)) continue;
        if (!b->arrays[i]) return i;
        int64_t shape[WEFT_MAX_NDIM];
        int ndim = weft_array_shape(b->arrays[i], shape);
        tensor_type have = type_of(weft_array_dtype(b->arrays[i]), ndim, shape);
        tensor_type batch = have;
        batch.shape[0] = want.shape[0];
        if (type_equal(&batch, &want)) return takes_rows(b, graph, port, rows) ? i : -1;
        tool_fail("--data %s: the file holds %s, graph %s takes %s", port->name, TYPE(&have), graph,
                  TYPE(&want));
        return -1;
    }
    text given = {0};
    for (int i = 0; i < b->n; i++)
        text_add(&given, "%s%s", i ? ", " : "; these inputs are fed: ", SHOW(b->names[i]));
    char *names = text_detach(&given);
    tool_fail("graph %s: input %s %s is not fed: --data %s=FILE is needed%s", graph, port->name, TYPE(&want),
              port->name, names ? names : "");
    free(names);
    return -1;
}

int graph_run_bind(graph_run *r, const weft_plan *plan, const char *graph, const batches *b, int64_t rows,
                   const char *fetch) {
    *r = (graph_run){.name = graph};
    weft_port p;
    for (int i = 0; weft_plan_input(plan, graph, i, &p); i++) {
        if (r->n_in == RUN_MAX_PORTS) return tool_fail("graph %s: more than %d inputs", graph, RUN_MAX_PORTS);
        int source = source_of(b, graph, &p, rows);
        if (source < 0) return EXIT_MISUSED;
        r->source[r->n_in] = source;
        r->in[r->n_in++] = p;
    }
    for (int i = 0; weft_plan_output(plan, graph, i, &p) && r->n_out < RUN_MAX_PORTS; i++) {
        if (!is_wanted(&p, fetch)) continue;
        int k = r->n_out++;
        r->out[k] = p;
        /* for `fetch` the caller sets the memory */
        r->fetches[k] = (weft_fetch){p.name, NULL, p.bytes};
    }
    if (fetch && !r->n_out) return tool_fail("graph %s has no output '%.80s'", graph, fetch);
    return -1;
}

/* Outputs of one float go to values unless the caller has given memory. */
int graph_run_once(graph_run *r, weft_session *session, const batches *b) {
    weft_error error = {0};
    for (int i = 0; i < r->n_in; i++) {
        int k = r->source[i];
        r->feeds[i] = (weft_feed){r->in[i].name, b->data[k], (size_t)b->rows * b->row_bytes[k]};
    }
    for (int i = 0; i < r->n_out; i++)
        if (r->fetches[i].bytes == sizeof(float) && !r->fetches[i].data) r->fetches[i].data = &r->values[i];
    if (weft_run(session, r->name, r->feeds, r->n_in, r->fetches, r->is_silent ? 0 : r->n_out, &error))
        return tool_error(&error);
    return -1;
}

int batches_all_used(const batches *b, int n, const graph_run *runs) {
    for (int i = 0; i < b->n; i++) {
        bool used = false;
        for (int g = 0; g < n; g++)
            for (int k = 0; k < runs[g].n_in; k++) used = used || runs[g].source[k] == i;
        if (!used) return tool_fail("--data %s: no graph that runs has an input of this name", b->names[i]);
    }
    return -1;
}
