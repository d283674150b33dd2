/* tools.c - loading and compiling as the command line says. */
#include "tools/tools.h"

#include "graph/graph.h"
#include "runtime/program.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --ddp PATH:FIELDS, in order: a later one adds to what an earlier one says of the same path. */
static bool spread(weft_model *m, const text_list *ddp) {
    for (int i = 0; i < ddp->n; i++) {
        const char *colon = strchr(ddp->v[i], ':');
        char *path = strndup(ddp->v[i], (size_t)(colon - ddp->v[i]));
        if (!path) return false;
        weft_status status = weft_ddp_text(m, path, colon + 1);
        free(path);
        if (status) return false;
    }
    return true;
}

weft_model *tool_load(const options *o, int *status) {
    weft_error error = {0};
    weft_model *m = weft_load(o->model, NULL, &error);
    if (!m) {
        *status = tool_error(&error);
    } else if (!spread(m, &o->ddp)) {
        *status = weft_model_error(m)->status ? tool_error(weft_model_error(m))
                                              : tool_fail("memory could not be had");
        weft_model_free(m);
        m = NULL;
    }
    return m;
}

int tool_choice(const char *option, const char *word, const char *const *words) {
    text list = {0};
    for (int i = 0; words[i]; i++)
        if (!word || strcmp(words[i], word) == 0) return i;
    for (int i = 0; words[i]; i++)
        text_add(&list, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    char *all = text_take(&list);
    tool_fail("--%s=%.40s: %s is needed", option, word, all ? all : "another word");
    free(all);
    return -1;
}

static const char *const devices[] = {"cpu", "cuda", NULL};

int tool_device(const options *o, weft_device *device) {
    int index = tool_choice("device", o->device, devices);
    if (index < 0) return EXIT_MISUSED;
    *device = (weft_device)index;
    return -1;
}

/* Options that are one of a few words. */
static int words_of(const options *o, weft_compile_options *into) {
    static const char *const isas[] = {"auto", "reference", "sse2", "avx2", "avx512", NULL};
    static const char *const shards[] = {"greedy", "flat", NULL}, *const sums[] = {"auto", "ordered", "fast",
                                                                                   NULL};
    static const char *const dtypes[] = {"f32", "bf16", "f16", NULL};
    static const weft_dtype precisions[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    int isa = tool_choice("isa", o->isa, isas), dtype, shard, sum;
    if (isa < 0 || (dtype = tool_choice("dtype", o->dtype, dtypes)) < 0 ||
        (shard = tool_choice("shard", o->shard, shards)) < 0 ||
        (sum = tool_choice("reduce", o->reduce, sums)) < 0)
        return EXIT_MISUSED;
    into->isa = (weft_isa)isa;
    into->precision = precisions[dtype];
    into->shard = (weft_shard)shard;
    into->reduce = (weft_reduce)sum;
    bool by_host = o->comm && strcmp(o->comm->kind, "nccl") != 0; /* nothing is faster there */
    if (!sum && by_host) into->reduce = WEFT_REDUCE_ORDERED;
    return tool_device(o, &into->device);
}

int tool_compile_options(const options *o, weft_compile_options *into) {
    *into = (weft_compile_options){.batch = o->batch,
                                   .threads = (int)o->threads,
                                   .accumulate = (int)o->accumulate,
                                   .world = o->comm ? o->comm->world : (int)o->world,
                                   .rank = o->comm ? o->comm->rank : (int)o->rank,
                                   .zero = (int)o->zero,
                                   .bucket_cap_mb = o->bucket_cap_mb,
                                   .serial = o->serial,
                                   .deterministic = o->deterministic,
                                   .tf32 = o->tf32,
                                   .calibration = o->calibration,
                                   .stop_after = o->after};
    int wrong = words_of(o, into);
    weft_error error;
    if (wrong < 0 && into->isa > WEFT_ISA_REFERENCE && weft_limit_isa(into->isa, &error))
        return tool_fail("%s", error.text);
    return wrong;
}

weft_plan *tool_compile(const weft_model *m, const options *o, const char *graph, int64_t batch,
                        int *status) {
    weft_compile_options c;
    weft_error error = {0};
    int wrong = tool_compile_options(o, &c);
    if (wrong >= 0) {
        *status = wrong;
        return NULL;
    }
    c.graph = graph;
    if (batch) c.batch = batch;
    weft_plan *plan = weft_compile(m, &c, &error);
    if (!plan) *status = tool_error(&error);
    return plan;
}

weft_store *tool_store(const weft_model *m, const options *o, int *status) {
    weft_error error = {0};
    weft_plan *plan = tool_compile(m, o, m->graphs ? m->graphs->name : NULL, 0, status);
    if (!plan) return NULL;
    bool is_cuda = plan->options.device == WEFT_DEVICE_CUDA;
    if (is_cuda && weft_cuda_select(o->comm ? o->comm->local_rank : 0, &error)) {
        weft_plan_free(plan);
        *status = tool_error(&error);
        return NULL;
    }
    weft_store *store = weft_store_new(plan, (uint64_t)o->seed, &error);
    weft_plan_free(plan);
    if (store && o->weights && weft_weights_load(store, o->weights, &error) != WEFT_OK) {
        weft_store_free(store);
        store = NULL;
    }
    if (!store) *status = tool_error(&error);
    return store;
}

void tool_watch(weft_session *session, const options *o) {
    weft_session_check(session, o->check);
    weft_session_capture(session, !o->no_capture);
}

int tool_keep_mode(weft_model *m, weft_mode mode) {
    int kept = 0;
    weft_graph **link = &m->graphs;
    for (weft_graph *g = m->graphs; g; g = g->next) {
        if (g->mode != mode) continue;
        *link = g;
        link = &g->next;
        kept++;
    }
    *link = NULL;
    m->graphs_end = link;
    return kept;
}

const char *tool_graph(const weft_model *m, const options *o, const char *wanted) {
    if (o->graph) return o->graph;
    if (graph_find(m, wanted)) return wanted;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        if (g->mode == WEFT_EVAL) return g->name;
    return NULL;
}

/* libgomp's threads spin for milliseconds before they sleep. On a machine with other work that holds up the very
 * thread they wait for: with one busy process on 2 cores a step of mlp took 208 to 401 ms, with short spins 20 ms;
 * on an idle machine both are alike (graphtool bench mlp.bin --threads 2). */
void tool_calm_threads(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (setenv("GOMP_SPINCOUNT", "10000", 1) == 0) execv("/proc/self/exe", argv);
}

byte_text show_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    byte_text t;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(t.text, sizeof t.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return t;
}

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
