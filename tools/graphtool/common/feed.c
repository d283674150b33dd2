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

/* Which of a source's arrays the k-th of n names is for: the one of that name, where all have such ones;
 * else the k-th. */
static int array_of(const weft_source *s, char *const *names, int n, int k) {
    int found = k;
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < s->n && !(s->arrays[at].name && strcmp(s->arrays[at].name, names[i]) == 0)) at++;
        if (at == s->n) return k;
        if (i == k) found = at;
    }
    return found;
}

/* Gives names to the arrays of a source, which begin at b->n. */
static int name_arrays(batches *b, const char *option, const weft_source *s, char **names, int n) {
    if (n > s->n) return tool_fail("--data %s: %d names, but %d arrays", option, n, s->n);
    if (b->n + s->n > OPTIONS_MAX_DATA)
        return tool_fail("--data %s: more than %d arrays", option, OPTIONS_MAX_DATA);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < b->n + s->n; i++)
            if (b->names[i] && strcmp(b->names[i], names[k]) == 0)
                return tool_fail("--data %s: input %s has a file already", option, names[k]);
        int at = b->n + array_of(s, names, n, k);
        free(b->names[at]);
        if (!(b->names[at] = strdup(names[k]))) return tool_fail("out of memory");
    }
    for (int k = 0; k < s->n; k++, b->n++) {
        tensor_type row = type_of(s->arrays[k].dtype, s->arrays[k].ndim, s->arrays[k].shape);
        b->rows_of[b->n] = row;
        b->row_bytes[b->n] = type_bytes(&row);
    }
    return -1;
}

/* Opens one NAME[,NAME...]=FILE. All sources must have the same number of samples. */
static int load_one(batches *b, const char *option) {
    weft_error error = {0};
    char *names[OPTIONS_MAX_DATA], *copy = strdup(option), *rest = copy;
    if (!copy) return tool_fail("out of memory");
    const char *file = strchr(option, '=') + 1;
    copy[file - 1 - option] = 0;
    int n = 0;
    for (char *name; n < OPTIONS_MAX_DATA && (name = strsep(&rest, ","));) names[n++] = name;
    weft_source *s = weft_source_open_text(file, NULL, &error);
    int status = s ? -1 : tool_error(&error);
    if (s) b->sources[b->n_sources++] = s;
    if (s) status = name_arrays(b, option, s, names, n);
    free(copy);
    if (status >= 0) return status;
    if (b->n_sources > 1 && s->count != b->samples)
        return tool_fail("%s: %lld samples, but %s has %lld", file, (long long)s->count, SHOW(b->names[0]),
                         (long long)b->samples);
    b->samples = s->count;
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
    if (!(b->loader =
              weft_loader_new(b->n_sources, (const weft_source *const *)b->sources, &mine, NULL, &error)) ||
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

int batches_next(batches *b) {
    weft_error error = {0};
    int64_t number = ++b->taken % SYNTHETIC_BATCHES;
    if (b->loader && weft_loader_next(b->loader, b->data, &b->rows, &error)) return -1;
    if (b->loader) return error.status ? tool_error(&error) : BATCHES_END;
    b->rows = b->batch;
    for (int i = 0; i < b->n; i++)
        b->data[i] = (const char *)b->synthetic[i] + (size_t)number * (size_t)b->batch * b->row_bytes[i];
    return -1;
}

void batches_free(batches *b) {
    weft_loader_free(b->loader);
    for (int i = 0; i < b->n_sources; i++) weft_source_free(b->sources[i]);
    for (int i = 0; i < OPTIONS_MAX_DATA; i++) {
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
        if (!b->names[i] || strcmp(b->names[i], port->name)) continue;
        if (b->synthetic[i]) return i;
        tensor_type have = b->rows_of[i];
        memmove(have.shape + 1, have.shape, (size_t)have.ndim++ * sizeof *have.shape);
        have.shape[0] = b->samples;
        tensor_type batch = have;
        batch.shape[0] = want.shape[0];
        if (type_equal(&batch, &want)) return takes_rows(b, graph, port, rows) ? i : -1;
        tool_fail("--data %s: the file holds %s, graph %s takes %s", port->name, TYPE(&have), graph,
                  TYPE(&want));
        return -1;
    }
    text given = {0};
    for (int i = 0; i < b->n; i++)
        if (b->names[i])
            text_add(&given, "%s%s", given.length ? ", " : "; these inputs are fed: ", SHOW(b->names[i]));
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
        bool used = !b->names[i]; /* an array of a folder or a .npz that nobody asked for */
        for (int g = 0; g < n; g++)
            for (int k = 0; k < runs[g].n_in; k++) used = used || runs[g].source[k] == i;
        if (!used) return tool_fail("--data %s: no graph that runs has an input of this name", b->names[i]);
    }
    return -1;
}
