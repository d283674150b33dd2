/* feed.c - batches of a data set, and graphs whose inputs are bound to them by name. */
#include "runtime/data/convert.h"
#include "runtime/train/trainer.h"

/* ---- ports ---- */

int find_port(const weft_plan *plan, const char *graph, bool is_input, const char *name, weft_port *port,
              const char **near) {
    bool (*at)(const weft_plan *, const char *, int, weft_port *) =
        is_input ? weft_plan_input : weft_plan_output;
    for (int i = 0; at(plan, graph, i, port); i++) {
        if (strcmp(port->name, name) == 0) return i;
        if (near) *near = weft_nearest(name, *near, port->name);
    }
    return -1;
}

static tensor port_type(const weft_port *port) {
    return tensor_of(port->dtype, port->ndim, port->shape);
}

/* ---- batches ---- */

/* Type and shape of array i, with the axis of samples. */
static tensor array_type(const batches *b, int i) {
    const weft_source_array *a = weft_loader_array(b->loader, i);
    return tensor_of_samples(b->samples, a->dtype, a->ndim, a->shape);
}

/* Sources that are not sources are found by the loader. */
static int arrays_of(const weft_source *s) {
    return s->n < 0 ? 0 : s->n > WEFT_SOURCE_ARRAYS ? WEFT_SOURCE_ARRAYS : s->n;
}

int64_t dataset_samples(const weft_dataset *d) {
    return d->n ? d->sources[0]->count : 0;
}

/* Array `at` of all sources, the input that it feeds (NULL: none), and whose it is; NULL: there is none. */
static const weft_source_array *dataset_array(const weft_dataset *d, int at, const char **name,
                                              const weft_source **source) {
    for (int s = 0, first = 0; s < d->n; first += arrays_of(d->sources[s++])) {
        if (at - first >= arrays_of(d->sources[s])) continue;
        const weft_source_array *a = &d->sources[s]->arrays[at - first];
        *name = d->names ? d->names[at] : a->name;
        *source = d->sources[s];
        return a;
    }
    return NULL;
}

const weft_source_array *dataset_find(const weft_dataset *d, const char *input, const weft_source **source) {
    const weft_source_array *a;
    const char *name;
    for (int at = 0; (a = dataset_array(d, at, &name, source)); at++)
        if (name && strcmp(name, input) == 0) break;
    return a;
}

/* Behind the arrays of the sources come the draws that the loader makes. */
static weft_status name_arrays(batches *b, const weft_dataset *of, bool has_draws, weft_error *error) {
    for (int i = 0; i < b->n; i++) {
        const weft_source_array *a = weft_loader_array(b->loader, i);
        bool is_draws = has_draws && i == b->n - 1;
        b->names[i] = of->names && !is_draws ? of->names[i] : a->name;
        for (int k = 0; b->names[i] && k < i; k++)
            if (b->names[k] && strcmp(b->names[k], b->names[i]) == 0)
                return kit_fail(error, WEFT_NAME, "data %.80s: two arrays feed this input", b->names[i]);
    }
    return WEFT_OK;
}

/* ---- types ---- */

/* Graph i of those that take batches: `only`, or those of the flow; NULL: there is none. */
static const char *taker(const weft_plan *plan, const char *only, int i) {
    weft_flow_step s;
    if (only) return i ? NULL : only;
    return weft_plan_flow(plan, i, &s) ? s.graph : NULL;
}

/* The type in which the graphs take an array that is of type `has`: this one where any of them does, else the
 * first that holds its numbers. */
static weft_dtype taken_as(const weft_plan *plan, const char *only, const char *name, weft_dtype has) {
    const char *graph;
    weft_port p;
    weft_dtype found = has;
    for (int i = 0; (graph = taker(plan, only, i)); i++) {
        if (find_port(plan, graph, true, name, &p, NULL) < 0) continue;
        if (p.dtype == has) return has;
        if (found == has && convert_is_exact(has, p.dtype)) found = p.dtype;
    }
    return found;
}

static weft_status open_loader(batches *b, const weft_dataset *of, const weft_plan *plan, const char *only,
                               const weft_loader_options *how, weft_error *error) {
    weft_loader_options mine = *how;
    weft_dtype *types = kit_take(&b->memory, of->n * WEFT_SOURCE_ARRAYS, sizeof *types);
    const weft_source_array *a;
    const weft_source *source;
    const char *name;
    if (!types) return kit_no_memory(error, "trainer");
    for (int at = 0; (a = dataset_array(of, at, &name, &source)); at++)
        types[at] = name ? taken_as(plan, only, name, a->dtype) : a->dtype;
    mine.names = of->names;
    mine.dtypes = types;
    mine.memory = weft_plan_feed_memory(plan);
    b->loader = weft_loader_new(of->n, of->sources, &mine, &b->memory.env, error);
    return b->loader ? WEFT_OK : error->status;
}

/* Whether a line is new; notes it. Without memory it is. */
static bool is_new(weft_trainer *t, const char *line) {
    uint64_t hash = kit_hash(line, strlen(line), 0);
    for (size_t i = 0; i < t->n_told; i++)
        if (t->told[i] == hash) return false;
    uint64_t *told = kit_grow(&t->memory, t->told, t->n_told + 1, sizeof *told);
    if (!told) return true;
    t->told = told;
    t->told[t->n_told++] = hash;
    return true;
}

void batches_tell(const batches *b, const weft_dataset *of, weft_trainer *t) {
    char line[300];
    const weft_source_array *a;
    const weft_source *source;
    const char *name;
    for (int at = 0; b->loader && (a = dataset_array(of, at, &name, &source)); at++) {
        weft_dtype has = a->dtype, is = weft_loader_array(b->loader, at)->dtype;
        if (has == is) continue;
        snprintf(line, sizeof line, "data %.80s: %s is read as %s, each number as it is (nothing is scaled)",
                 b->names[at], weft_dtype_name(has), weft_dtype_name(is));
        if (is_new(t, line)) trainer_log(t, "%s", line);
    }
}

weft_status batches_open(batches *b, const weft_dataset *of, const weft_plan *plan, const char *only,
                         const weft_loader_options *how, weft_comm *comm, const weft_env *env,
                         weft_error *error) {
    *b = (batches){.memory = kit_arena_of(env), .batch = how->batch, .samples = dataset_samples(of)};
    if (!of->n) return WEFT_OK;
    weft_status status = open_loader(b, of, plan, only, how, error);
    if (status) return status;
    while (weft_loader_array(b->loader, b->n)) b->n++;
    b->names = kit_take(&b->memory, b->n, sizeof *b->names);
    b->data = kit_take(&b->memory, b->n, sizeof *b->data);
    if (b->memory.is_out) return kit_no_memory(error, "trainer");
    status = name_arrays(b, of, how->draws > 0, error);
    return status || !comm ? status : weft_loader_agree(b->loader, comm, error);
}

void batches_close(batches *b) {
    weft_loader_free(b->loader);
    kit_release(b->memory);
    *b = (batches){0};
}

void batches_epoch(batches *b, int64_t epoch) {
    b->taken = 0;
    weft_loader_set_epoch(b->loader, epoch);
}

void batches_seek(batches *b, int64_t number) {
    b->taken = number;
    weft_loader_seek(b->loader, number);
}

weft_status batches_next(batches *b, bool *is_there, weft_error *error) {
    b->taken++;
    b->rows = b->batch;
    *error = (weft_error){0};
    *is_there = !b->loader || weft_loader_next(b->loader, b->data, &b->rows, error);
    return error->status;
}

int64_t batches_count(const batches *b) {
    return b->loader ? weft_loader_batches(b->loader) : INT64_MAX;
}

/* ---- graphs ---- */

/* Does the input take this many rows? One whose shape does not name WEFT_BATCH takes batches of one size. */
static weft_status takes_rows(const batches *b, const char *graph, const weft_port *port, int64_t rows,
                              weft_error *error) {
    char way_out[80];
    tensor want = port_type(port);
    int64_t takes = want.ndim ? want.shape[0] : 0;
    if (want.ndim && takes == rows) return WEFT_OK;
    bool is_rest = rows != b->batch, is_few = b->samples < takes;
    snprintf(way_out, sizeof way_out,
             is_few    ? "feed %jd"
             : is_rest ? "feed a multiple of %jd"
                       : "use a batch of %jd",
             takes);
    return kit_fail(
        error, WEFT_SHAPE,
        "graph %s: input %s is %s, and the %s of %jd samples: %s, or declare its first axis WEFT_BATCH",
        graph, port->name, TENSOR(&want), is_rest ? "last batch is" : "batches are", rows, way_out);
}

/* Whether an array gives what an input takes, except for the number of samples. */
static bool fits(const tensor *have, const tensor *want) {
    if (have->dtype != want->dtype || have->ndim != want->ndim) return false;
    for (int k = 1; k < want->ndim; k++)
        if (have->shape[k] != want->shape[k]) return false;
    return true;
}

/* The first graph of the flow that takes this input in another type, which is *as; NULL: there is none. */
static const char *other_taker(const weft_plan *plan, const weft_port *input, weft_dtype *as) {
    const char *graph;
    weft_port p;
    for (int i = 0; (graph = taker(plan, NULL, i)); i++)
        if (find_port(plan, graph, true, input->name, &p, NULL) >= 0 && p.dtype != input->dtype)
            return *as = p.dtype, graph;
    return NULL;
}

/* What converts samples to the type of the input: in NumPy, or here. */
static void conversion_way_out(const tensor *have, const weft_port *input, kit_line *into) {
    static const char *const numpy[WEFT_DTYPES] = {
        [WEFT_F32] = "float32", [WEFT_F64] = "float64", [WEFT_I64] = "int64",  [WEFT_I32] = "int32",
        [WEFT_U8] = "uint8",    [WEFT_I8] = "int8",     [WEFT_U16] = "uint16", [WEFT_U32] = "uint32"};
    const char *type = weft_dtype_name(input->dtype);
    kit_add(into, "; ");
    if (!convert_is_exact(have->dtype, input->dtype))
        kit_add(into, "%s does not hold every %s: ", type, weft_dtype_name(have->dtype));
    kit_add(into,
            "save it with .astype(\"%s\") in NumPy, or convert it here by the option dtype=%s of the data "
            "(graphtool: --data %s=FILE:dtype=%s)",
            numpy[input->dtype], type, input->name, type);
}

/* The way out for samples that do not fit by their type alone; "" where there is none. An array has one type,
 * so no data fit two graphs that take them in two. */
static void type_way_out(const weft_plan *plan, const char *graph, const tensor *have, const weft_port *input,
                         kit_line *into) {
    tensor as = *have, want = port_type(input);
    weft_dtype type;
    as.dtype = want.dtype;
    if (!fits(&as, &want)) return;
    const char *other = other_taker(plan, input, &type);
    if (other)
        kit_add(into,
                "; graphs %.80s and %.80s take it as %s and %s: declare one type in both, or feed two inputs",
                other, graph, weft_dtype_name(type), weft_dtype_name(want.dtype));
    else if (convert_gives(want.dtype))
        conversion_way_out(have, input, into);
}

/* The name of an array that feeds no input of the graph, and is near to the one that `input` needs; NULL:
 * there is none. */
static const char *near_array(const batches *b, const weft_plan *plan, const char *graph, const char *input) {
    const char *near = NULL;
    weft_port p;
    for (int i = 0; i < b->n; i++)
        if (b->names[i] && find_port(plan, graph, true, b->names[i], &p, NULL) < 0)
            near = weft_nearest(input, near, b->names[i]);
    return near;
}

/* The array that feeds this input; -1: none does. */
static int batches_find(const batches *b, const char *input) {
    for (int i = 0; i < b->n; i++)
        if (b->names[i] && strcmp(b->names[i], input) == 0) return i;
    return -1;
}

static kit_line number_way_out(const char *input) {
    kit_line way = {0};
    kit_add(&way, "options.set=\"%s=NUMBER\" (graphtool: --set %s=NUMBER)", input, input);
    return way;
}

/* Finds the array for an input. */
static weft_status find_source(const batches *b, const weft_plan *plan, const char *graph,
                               const weft_port *port, int64_t rows, int *source, weft_error *error) {
    kit_line fed = {0}, way_out = {0};
    tensor want = port_type(port);
    bool takes_number = fed_is_due(port, rows);
    if ((*source = batches_find(b, port->name)) >= 0) {
        tensor have = array_type(b, *source);
        if (fits(&have, &want)) return takes_rows(b, graph, port, rows, error);
        type_way_out(plan, graph, &have, port, &way_out);
        if (takes_number && !way_out.length)
            kit_add(&way_out, ", which has no batch axis, so no sample feeds it: give it a number, %s",
                    number_way_out(port->name).text);
        return kit_fail(error, WEFT_SHAPE, "data %s: the samples are %s, graph %s takes %s%s", port->name,
                        TENSOR(&have), graph, TENSOR(&want), way_out.text);
    }
    const char *near = near_array(b, plan, graph, port->name);
    if (near)
        return kit_fail(error, WEFT_NAME,
                        "data %.80s: graph %s has no input of this name: did you mean '%s'?", near, graph,
                        port->name);
    if (takes_number)
        return kit_fail(error, WEFT_NAME,
                        "graph %s: input %s %s is not fed: it has no batch axis, so give it a number, %s",
                        graph, port->name, TENSOR(&want), number_way_out(port->name).text);
    for (int i = 0; i < b->n; i++)
        if (b->names[i])
            kit_add(&fed, "%s%.60s", fed.length ? ", " : "; these inputs are fed: ", b->names[i]);
    return kit_fail(error, WEFT_NAME,
                    "graph %s: input %s %s is not fed: no data for it (graphtool: --data %s=FILE, and "
                    "--val-data for a validation)%.600s",
                    graph, port->name, TENSOR(&want), port->name, fed.text);
}

int64_t plan_rows(const weft_plan *plan, const char *graph, const fed_list *fed) {
    weft_port p;
    int i = 0;
    while (weft_plan_input(plan, graph, i, &p) && fed_find(fed, p.name)) i++;
    return weft_plan_input(plan, graph, i, &p) && p.ndim ? p.shape[0] : weft_plan_batch(plan);
}

static bool is_number(const weft_port *p) {
    bool is_known =
        p->dtype == WEFT_F32 || p->dtype == WEFT_F64 || p->dtype == WEFT_I32 || p->dtype == WEFT_I64;
    return is_known && p->bytes == weft_dtype_bytes(p->dtype);
}

/* The input at place i of the graph, to a number. */
static weft_status bind_number(bound *r, int i, const batches *b, const fed_number *number,
                               const weft_port *p, weft_error *error) {
    fed_input *f = &r->fed[r->n_fed++];
    if (fed_bind(f, number, r->graph, p, &r->memory, error)) return error->status;
    if (batches_find(b, p->name) >= 0)
        return kit_fail(
            error, WEFT_NAME,
            "graph %s: input %s has data and a number, %s=%.80s: leave out one of them (options.set, "
            "graphtool: --set)",
            r->graph, p->name, p->name, number->said);
    r->source[i] = -1;
    r->feeds[i].data = f->data;
    return WEFT_OK;
}

static weft_status bind_inputs(bound *r, const weft_plan *plan, const batches *b, const fed_list *fed,
                               int64_t rows, weft_error *error) {
    weft_port p;
    for (int i = 0; i < r->n_in; i++) {
        weft_plan_input(plan, r->graph, i, &p);
        r->feeds[i].name = p.name;
        r->feeds[i].bytes = p.bytes;
        const fed_number *number = fed_find(fed, p.name);
        if (number ? bind_number(r, i, b, number, &p, error)
                   : find_source(b, plan, r->graph, &p, rows, &r->source[i], error))
            return error->status;
    }
    return WEFT_OK;
}

/* Those that are wanted come first in r->out. */
static weft_status bind_outputs(bound *r, const weft_plan *plan, const char *output, weft_error *error) {
    weft_port p;
    for (int i = 0; weft_plan_output(plan, r->graph, i, &p); i++) {
        bool is_wanted = !output ? is_number(&p) : *output ? strcmp(p.name, output) == 0 : i == 0;
        if (!is_wanted) continue;
        int k = r->n_out++;
        r->out[k] = p;
        r->fetches[k] = (weft_fetch){p.name, output ? NULL : &r->numbers[k], p.bytes};
    }
    r->n_fetch = r->n_out;
    if (!output || r->n_out) return WEFT_OK;
    const char *near = NULL;
    find_port(plan, r->graph, false, output, &p, &near);
    return kit_fail(error, WEFT_NAME, "graph %s has no output '%.80s'%s", r->graph, output, NEAR(near));
}

weft_status bound_open(bound *r, const weft_plan *plan, const char *graph, const batches *b,
                       const fed_list *fed, int64_t rows, const char *output, weft_error *error) {
    weft_port p;
    *r = (bound){.memory = kit_arena_of(&b->memory.env), .graph = graph, .accumulate = 1};
    while (weft_plan_input(plan, graph, r->n_in, &p)) r->n_in++;
    int room = 0;
    while (weft_plan_output(plan, graph, room, &p)) room++;
    r->feeds = kit_take(&r->memory, r->n_in, sizeof *r->feeds);
    r->source = kit_take(&r->memory, r->n_in, sizeof *r->source);
    r->fed = kit_take(&r->memory, r->n_in, sizeof *r->fed);
    r->out = kit_take(&r->memory, room, sizeof *r->out);
    r->fetches = kit_take(&r->memory, room, sizeof *r->fetches);
    r->numbers = kit_take(&r->memory, room, sizeof *r->numbers);
    if (r->memory.is_out) return kit_no_memory(error, "trainer");
    weft_status status = bind_inputs(r, plan, b, fed, rows, error);
    return status ? status : bind_outputs(r, plan, output, error);
}

/* An output is fetched once, into a number or into memory of its own. */
weft_status bound_fetch(bound *r, const weft_port *output, const void **data, weft_error *error) {
    for (int i = 0; i < r->n_fetch; i++)
        if (strcmp(r->fetches[i].name, output->name) == 0) return *data = r->fetches[i].data, WEFT_OK;
    void *memory = kit_take(&r->memory, output->bytes, 1);
    if (!memory) return kit_no_memory(error, "trainer");
    r->fetches[r->n_fetch++] = (weft_fetch){output->name, memory, output->bytes};
    *data = memory;
    return WEFT_OK;
}

bool bound_reads(const bound *r) {
    return r->n_in > r->n_fed;
}

void bound_close(bound *r) {
    kit_release(r->memory);
    *r = (bound){0};
}

weft_status bound_run(bound *r, weft_session *session, const batches *b, bool fetches, weft_error *error) {
    for (int i = 0; i < r->n_fed; i++) fed_fill(&r->fed[i]);
    for (int i = 0; i < r->n_in; i++)
        if (r->source[i] >= 0) r->feeds[i].data = b->data[r->source[i]];
    return weft_run(session, r->graph, r->feeds, r->n_in, r->fetches, fetches ? r->n_fetch : 0, error);
}

double bound_number(const bound *r, int i) {
    const void *at = r->fetches[i].data;
    switch (r->out[i].dtype) {
    case WEFT_F32:
        return (double)*(const float *)at;
    case WEFT_I32:
        return (double)*(const int32_t *)at;
    case WEFT_I64:
        return (double)*(const int64_t *)at;
    default:
        return *(const double *)at;
    }
}

weft_status batches_all_used(const batches *b, int n, const bound *graphs, weft_error *error) {
    for (int i = 0; i < b->n; i++) {
        bool is_used = !b->names[i];
        const char *near = NULL;
        for (int g = 0; g < n; g++)
            for (int k = 0; k < graphs[g].n_in; k++) {
                is_used = is_used || graphs[g].source[k] == i;
                near = is_used ? NULL : weft_nearest(b->names[i], near, graphs[g].feeds[k].name);
            }
        if (!is_used)
            return kit_fail(error, WEFT_NAME, "data %.80s: no graph that runs has an input of this name%s",
                            b->names[i], NEAR(near));
    }
    return WEFT_OK;
}
