/* world.c - see world.h. */
#include "support/world.h"

#include "runtime/plan/program.h"
#include "runtime/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS = 8 };

/* ---- inputs of ranks ---- */

/* Images of u8 have three axes or more, labels one. */
static int64_t below(const world_job *job, const weft_port *port) {
    bool is_image = port->dtype == WEFT_U8 && port->ndim >= 3;
    return is_image ? 256 : job->classes ? job->classes : 10;
}

/* The same numbers for the same graph, input and micro-batch, whoever asks. */
static void fill(const world_rank *r, const char *graph, const weft_port *port, int64_t number, void *data) {
    test_random random = {hash_text(port->name, hash_text(graph, 0)) + (uint64_t)number};
    int64_t elements = 1, top = below(r->job, port);
    double low = strcmp(port->name, "draws") == 0 ? 0 : -1; /* those of weft_preprocess are not negative */
    for (int i = 0; i < port->ndim; i++) elements *= port->shape[i];
    for (int64_t i = 0; i < elements; i++) {
        int64_t whole = (int64_t)(random_bits(&random) % (uint64_t)top);
        if (port->dtype == WEFT_F32) ((float *)data)[i] = (float)random_in(&random, low, 1);
        if (port->dtype == WEFT_U8) ((uint8_t *)data)[i] = (uint8_t)whole;
        if (port->dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)whole;
    }
}

weft_status world_micro(world_rank *r, const char *graph, int64_t number, float *loss) {
    weft_feed feeds[PORTS];
    weft_port port;
    int n = 0;
    for (; n < PORTS && weft_plan_input(r->plan, graph, n, &port); n++) {
        void *data = test_memory(port.bytes);
        fill(r, graph, &port, number, data);
        feeds[n] = (weft_feed){port.name, data, port.bytes};
    }
    weft_fetch fetch = {.data = loss, .bytes = sizeof *loss};
    bool is_asked = loss && weft_plan_output(r->plan, graph, 0, &port);
    fetch.name = is_asked ? port.name : NULL;
    weft_run(r->session, graph, feeds, n, &fetch, is_asked, &r->error);
    for (int i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
    return r->error.status;
}

/* ---- training ---- */

static int64_t number_of(const world_rank *r, int64_t step, int micro) {
    const weft_compile_options *o = &r->job->options;
    int64_t world = o->world > 1 ? o->world : 1, a = o->accumulate > 1 ? o->accumulate : 1;
    int64_t usual = (step * world + r->rank) * a + micro;
    return r->job->first + (r->job->number ? r->job->number(r, step, micro) : usual);
}

static void keep_loss(world_rank *r, float loss) {
    r->losses = realloc(r->losses, sizeof *r->losses * (size_t)(r->n_losses + 1));
    if (!r->losses) abort();
    r->losses[r->n_losses++] = loss;
}

static bool is_training(const weft_plan *plan, const char *graph) {
    for (int i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].trains && strcmp(plan->programs[i].name, graph) == 0) return true;
    return false;
}

void world_train(world_rank *r) {
    int a = r->job->options.accumulate > 1 ? r->job->options.accumulate : 1;
    for (int64_t step = 0; step < r->job->steps; step++)
        for (int g = 0; g < weft_graph_count(r->job->model); g++) {
            const char *graph = weft_graph_name(r->job->model, g);
            float loss = 0;
            if (!is_training(r->plan, graph)) continue;
            for (int i = 0; i < a && !r->error.status; i++)
                world_micro(r, graph, number_of(r, step, i), &loss);
            if (r->job->options.manual && !r->error.status) weft_run_update(r->session, graph, &r->error);
            keep_loss(r, loss);
        }
}

/* ---- what is kept ---- */

static void keep_parts(world_rank *r) {
    const store_part *p;
    while (store_part_at(r->store, r->n_parts)) r->n_parts++;
    r->parts = test_memory(sizeof *r->parts * (size_t)r->n_parts);
    for (int i = 0; i < r->n_parts; i++) {
        p = store_part_at(r->store, i);
        size_t width = dtype_bytes(p->type.dtype), bytes = (size_t)(p->end - p->begin) * width;
        r->parts[i] = (world_part){strdup(p->path),         p->begin, p->end,
                                   type_elements(&p->type), width,    test_memory(bytes)};
        if (bytes) CHECK(store_read(r->store, p, 0, r->parts[i].data, bytes, NULL) == WEFT_OK);
    }
}

const world_part *world_find(const world_rank *r, const char *path) {
    for (int i = 0; i < r->n_parts; i++)
        if (strcmp(r->parts[i].path, path) == 0) return &r->parts[i];
    return NULL;
}

/* ---- ranks ---- */

static void *run_rank(void *argument) {
    world_rank *r = argument;
    weft_compile_options options = r->job->options;
    options.rank = r->rank;
    if (!options.threads) options.threads = 1;
    if (r->job->begin) r->job->begin(r);
    r->plan = r->error.status ? NULL : weft_compile(r->job->model, &options, &r->error);
    r->store = r->plan ? weft_store_new(r->plan, r->job->seed + (uint64_t)r->rank, &r->error) : NULL;
    if (r->store && r->job->stored) r->job->stored(r);
    bool is_ready = r->store && !r->error.status;
    r->session = is_ready ? weft_session_open_on(r->plan, r->store, r->comm, &r->error) : NULL;
    if (r->session) (r->job->run ? r->job->run : world_train)(r);
    if (r->session && !r->error.status) weft_sync(r->session, &r->error);
    if (r->error.status && r->comm) weft_comm_abort(r->comm, r->error.text);
    weft_session_close(r->session);
    if (r->store) keep_parts(r);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
    weft_comm_free(r->comm);
    return NULL;
}

world_rank *world_run_any(const world_job *job, bool may_fail) {
    int world = job->options.world > 1 ? job->options.world : 1;
    world_rank *ranks = test_memory(sizeof *ranks * (size_t)world);
    weft_comm **comms = test_memory(sizeof *comms * (size_t)world);
    weft_error error = {0};
    memset(comms, 0, sizeof *comms * (size_t)world);
    if (world > 1 && weft_comm_threads(world, job->comm, comms, &error)) abort();
    for (int i = 0; i < world; i++) {
        ranks[i] = (world_rank){.job = job, .rank = i, .world = world, .comm = comms[i]};
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i])) abort();
    }
    for (int i = 0; i < world; i++) {
        if (pthread_join(ranks[i].thread, NULL)) abort();
        CHECK_SAYS(may_fail || !ranks[i].error.status, "rank %d: %s", i, ranks[i].error.text);
    }
    free(comms);
    return ranks;
}

world_rank *world_run(const world_job *job) {
    return world_run_any(job, false);
}

void world_free(world_rank *ranks) {
    int world = ranks->world;
    for (int i = 0; i < world; i++) {
        for (int k = 0; k < ranks[i].n_parts; k++) {
            free(ranks[i].parts[k].path);
            free(ranks[i].parts[k].data);
        }
        free(ranks[i].parts);
        free(ranks[i].losses);
    }
    free(ranks);
}

/* ---- comparing ---- */

bool world_all(const char *path) {
    (void)path;
    return true;
}

bool world_trained(const char *path) {
    return !strstr(path, "/running_");
}

bool world_parameters(const char *path) {
    return world_trained(path) && strncmp(path, "optimizer.", 10);
}

static bool parts_agree(const world_part *want, const world_part *got) {
    size_t skip = (size_t)(got->begin - want->begin) * want->width;
    bool is_inside = got->begin >= want->begin && got->end <= want->end && got->width == want->width;
    return got->begin == got->end || (is_inside && memcmp((char *)want->data + skip, got->data,
                                                          (size_t)(got->end - got->begin) * got->width) == 0);
}

bool world_agrees(const world_rank *want, const world_rank *got, world_filter filter, char where[300]) {
    snprintf(where, 300, "nothing was kept");
    if (!want->n_parts || !got->n_parts) return false;
    for (int i = 0; i < got->n_parts; i++) {
        const world_part *p = &got->parts[i], *other = world_find(want, p->path);
        if (!filter(p->path) || (other && parts_agree(other, p))) continue;
        snprintf(where, 300, "%s[%lld to %lld]", p->path, (long long)p->begin, (long long)p->end);
        return false;
    }
    return true;
}

/* Each element of what is sharded is held once; what is not, by everyone. */
static bool hold_all(const world_rank *ranks, int n, char where[300]) {
    for (int i = 0; i < ranks->n_parts; i++) {
        const world_part *first = &ranks->parts[i];
        int64_t held = 0;
        for (int r = 0; r < n; r++) {
            const world_part *p = world_find(&ranks[r], first->path);
            held += p ? p->end - p->begin : 0;
        }
        if (held == first->elements || held == first->elements * n) continue;
        snprintf(where, 300, "%s, of which %lld elements of %lld are held", first->path, (long long)held,
                 (long long)first->elements);
        return false;
    }
    return true;
}

bool world_check(const world_rank *want, const world_rank *ranks, int n, world_filter filter,
                 const char *what) {
    char where[300];
    bool good = true;
    for (int i = 0; i < n && good; i++)
        good = CHECK_SAYS(world_agrees(want, &ranks[i], filter, where), "%s: rank %d of %d differs in %s",
                          what, i, n, where);
    return good && CHECK_SAYS(hold_all(ranks, n, where), "%s: %s", what, where);
}
