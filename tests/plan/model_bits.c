/* model_bits.c - the exact numbers of trainings that are given as text (tests/models/README.md). Reads cases
 * as model_cases.c does, and writes lines: what each rank of a configuration got from a run, and what its
 * store holds at the end, as a hash of the bytes.
 *
 *     configuration 1 {"isa":2,"accumulate":2}
 *     rank 0 run 3: loss, 4 bytes e8c33be5e90ff659
 *     rank 0 end: optimizer.t.b/b/p4/exp_avg, 16 bytes c2b0d0ccd6074b8a
 *     good
 *
 * tools/nightly.sh builds compares these lines of two builds, and puts this file into an older tree. So it
 * uses public functions alone, and of the tests case_run(): the runner of the tree that it lies in is
 * included, with functions of ours in the place of five of the library. */
#include "support/models/model_case.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 8 }; /* at least those of a case */

static FILE *said[RANKS]; /* the lines of each rank, which are threads */
static _Thread_local int rank_here, runs;

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static void say(const char *name, const void *data, size_t bytes) {
    fprintf(said[rank_here], "%s, %zu bytes %016llx\n", name, bytes,
            (unsigned long long)hash_of(data, bytes));
}

static weft_plan *seen_compile(const weft_model *model, const weft_compile_options *options,
                               weft_error *error) {
    rank_here = options->rank;
    runs = 0;
    return weft_compile(model, options, error);
}

/* ---- what runs give ---- */

static void say_fetches(const weft_fetch *fetches, int n) {
    runs++;
    for (int i = 0; i < n; i++) {
        fprintf(said[rank_here], "rank %d run %d: ", rank_here, runs);
        say(fetches[i].name, fetches[i].data, fetches[i].bytes);
    }
}

static weft_status seen_run(weft_session *session, const char *graph, const weft_feed *feeds, int n_feeds,
                            const weft_fetch *fetches, int n_fetches, weft_error *error) {
    weft_status status = weft_run(session, graph, feeds, n_feeds, fetches, n_fetches, error);
    if (!status) say_fetches(fetches, n_fetches);
    return status;
}

static weft_status seen_run_no_sync(weft_session *session, const char *graph, const weft_feed *feeds,
                                    int n_feeds, const weft_fetch *fetches, int n_fetches,
                                    weft_error *error) {
    weft_status status = weft_run_no_sync(session, graph, feeds, n_feeds, fetches, n_fetches, error);
    if (!status) say_fetches(fetches, n_fetches);
    return status;
}

static weft_status seen_run_loss(weft_session *session, const char *graph, const weft_feed *feeds,
                                 int n_feeds, const weft_fetch *fetches, int n_fetches, weft_error *error) {
    weft_status status = weft_run_loss(session, graph, feeds, n_feeds, fetches, n_fetches, error);
    if (!status) say_fetches(fetches, n_fetches);
    return status;
}

/* ---- what stores hold ---- */

/* With ZeRO other ranks hold some optimizer state. */
static void say_value(const weft_store *store, const char *path) {
    weft_error error = {0};
    weft_dtype dtype;
    int64_t shape[WEFT_MAX_NDIM];
    int ndim = weft_store_shape(store, path, &dtype, shape);
    size_t bytes = weft_dtype_bytes(dtype);
    for (int i = 0; i < ndim; i++) bytes *= (size_t)shape[i];
    void *data = test_memory(bytes ? bytes : 1);
    weft_status status = weft_store_get(store, path, data, bytes, &error);
    fprintf(said[rank_here], "rank %d end: ", rank_here);
    if (status)
        fprintf(said[rank_here], "%s, %s\n", path, status == WEFT_ORDER ? "of another rank" : error.text);
    else
        say(path, data, bytes);
    free(data);
}

static void seen_store_free(weft_store *store) {
    const char *path;
    for (int i = 0; store && (path = weft_store_path(store, i)); i++) say_value(store, path);
    weft_store_free(store);
}

/* ---- cases ---- */

#define weft_compile     seen_compile
#define weft_store_free  seen_store_free
#define weft_run         seen_run
#define weft_run_no_sync seen_run_no_sync
#define weft_run_loss    seen_run_loss
#include "support/models/model_case_run.c"

static void run_configuration(const json_t *c, size_t config) {
    char *lines[RANKS] = {0};
    size_t bytes[RANKS];
    case_outcome outcome;
    char *how = json_dumps(json_array_get(json_object_get(c, "configs"), config), JSON_COMPACT);
    printf("configuration %zu %s\n", config, how);
    free(how);
    for (int i = 0; i < RANKS; i++)
        if (!(said[i] = open_memstream(&lines[i], &bytes[i]))) abort();
    case_run(c, config, &outcome);
    for (int i = 0; i < RANKS; i++) {
        fclose(said[i]);
        fputs(lines[i], stdout);
        free(lines[i]);
    }
    puts(outcome.is_good ? "good" : "wrong");
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_error_t where;
        json_t *c = json_loads(line, 0, &where);
        if (!c) {
            fprintf(stderr, "model_bits: %s\n", where.text);
            return 2;
        }
        size_t n = json_array_size(json_object_get(c, "configs"));
        for (size_t i = 0; i < n; i++) run_configuration(c, i);
        json_decref(c);
    }
    free(line);
    return 0;
}
