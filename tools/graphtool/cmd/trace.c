/* trace.c - graphtool trace: some training steps as a trace of events (timeline.h), and how much of each
 * collective was exposed: the time in which the compute stream waited for it. The rest of its time was
 * overlapped (exposure.c). */
#include "tools/graphtool/timeline/exposure.h"
#include "tools/graphtool/common/workload.h"
#include "tools/graphtool/common/world.h"
#include "weft/support.h"

#include <stdlib.h>
#include <string.h>

typedef struct tracing {
    const options *o;
    workload work;
    stream_list plan;
    timeline time;
    uint64_t zero_ns; /* start of the picture, on this rank's clock */
    double step_ms;   /* mean over this rank's steps */
    double data_ms;   /* of it, in which it waited for data */
} tracing;

/* Nothing to do when alone; -1, or the exit status. */
static int broadcast(const options *o, int root, void *data, size_t bytes) {
    weft_error error = {0};
    weft_collective all = {.kind = WEFT_BROADCAST,
                           .dtype = WEFT_U8,
                           .buffer = data,
                           .count = bytes,
                           .root = root,
                           .name = "trace"};
    return o->comm && weft_comm_run(o->comm, &all, &error) ? tool_error(&error) : -1;
}

/* Sets the common start. Ranks of one machine share a clock; with several machines each takes its time at the
 * end of a broadcast. */
static int begin_trace(tracing *t) {
    const weft_comm *c = t->o->comm;
    t->zero_ns = weft_clock_ns();
    int status = broadcast(t->o, 0, &t->zero_ns, sizeof t->zero_ns);
    if (c && c->local_world != c->world) t->zero_ns = weft_clock_ns();
    return status;
}

static int run_steps(tracing *t) {
    int status = -1;
    for (int64_t i = 0; i < t->o->warmup && status < 0; i++) status = workload_step(&t->work, NULL);
    if (status < 0) status = begin_trace(t);
    weft_session_trace(t->work.session, timeline_on_node, &t->time);
    weft_loader_trace(weft_trainer_loader(t->work.trainer), timeline_on_data, &t->time);
    uint64_t start = weft_clock_ns();
    for (int64_t i = 0; i < t->o->steps && status < 0; i++) status = workload_step(&t->work, NULL);
    weft_error error = {0}; /* work in flight after the last run belongs to its step */
    if (status < 0 && weft_sync(t->work.session, &error)) status = tool_error(&error);
    t->step_ms = (double)(weft_clock_ns() - start) * 1e-6 / (double)t->o->steps;
    weft_session_trace(t->work.session, NULL, NULL);
    weft_loader_trace(weft_trainer_loader(t->work.trainer), NULL, NULL);
    t->data_ms = timeline_data_ms(&t->time) / (double)t->o->steps;
    if (status < 0 && (t->time.is_out_of_memory || !stream_list_make(&t->plan, t->work.plan)))
        return tool_fail("out of memory for the events");
    if (status < 0) timeline_join(&t->time, &t->plan);
    return status;
}

/* ---- the file: each rank in turn broadcasts its events, and rank 0 writes them ---- */

/* One rank's events: that rank makes the text and broadcasts it, unless it is rank 0, which writes it at
 * once. */
static int write_rank(tracing *t, FILE *f, int rank) {
    const options *o = t->o;
    int status;
    uint64_t bytes = 0;
    char *text = NULL;
    if (rank == world_rank(o)) {
        if (!(text = timeline_text(&t->time, rank, t->zero_ns)))
            return tool_fail("out of memory for the events");
        bytes = strlen(text);
    }
    if ((status = rank ? broadcast(o, rank, &bytes, sizeof bytes) : -1) < 0) {
        if (!text && rank && !(text = malloc(bytes))) status = tool_fail("out of memory for the events");
        if (status < 0 && rank) status = broadcast(o, rank, text, bytes);
    }
    if (status < 0 && f && fwrite(text, 1, bytes, f) != bytes)
        status = tool_fail("out of memory for the events");
    free(text);
    return status;
}

/* Writes the file into memory; f is NULL on the ranks that do not write. */
static int write_ranks(tracing *t, FILE *f) {
    int status = -1;
    if (f) fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", f);
    for (int rank = 0; rank < world_size(t->o) && status < 0; rank++) status = write_rank(t, f, rank);
    /* a last event without a comma, as JSON allows none at the end */
    if (f)
        fputs("{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"args\":{\"sort_index\":0}}\n]}\n",
              f);
    return status;
}

/* The whole file is made in memory first, so that it is written completely or not at all. */
static int write_file(tracing *t) {
    if (world_rank(t->o)) return write_ranks(t, NULL);
    char *data = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&data, &length);
    if (!f) return tool_fail("out of memory for the events");
    int status = write_ranks(t, f);
    bool failed = ferror(f);
    if ((fclose(f) || failed) && status < 0) status = tool_fail("out of memory for the events");
    if (status < 0) status = out_write(t->o->output, data, length);
    free(data);
    return status == EXIT_FINE ? -1 : status;
}

/* ---- the summary ---- */

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

/* The table of collectives for people; sums are over all rows. */
static void print_rows(const tracing *t, const json_t *rows) {
    size_t i;
    json_t *row;
    double exposed = 0, hidden = 0;
    printf("%lld steps of %.2f ms on %d rank%s; events in %s\n", (long long)t->o->steps, t->step_ms,
           world_size(t->o), world_size(t->o) > 1 ? "s" : ": no collectives",
           t->o->output ? SHOW_PATH(t->o->output) : "-");
    if (t->time.n_data)
        printf("waiting for data: %.3f ms a step, %.2f%% of it\n", t->data_ms,
               t->step_ms > 0 ? 100 * t->data_ms / t->step_ms : 0);
    if (json_array_size(rows))
        printf("%-40s %10s %12s %12s %12s\n", "collective", "size", "on the stream", "exposed", "hidden");
    json_array_foreach(rows, i, row) {
        char name[120];
        snprintf(name, sizeof name, "%s: %s %s", json_string_value(json_object_get(row, "graph")),
                 json_string_value(json_object_get(row, "op")),
                 json_string_value(json_object_get(row, "bucket")));
        printf("%-40s %10s %9.3f ms %9.3f ms %9.3f ms\n", name,
               bytes_show((uint64_t)number(row, "bytes")).text, number(row, "stream_ms"),
               number(row, "exposed_ms"), number(row, "hidden_ms"));
        exposed += number(row, "exposed_ms");
        hidden += number(row, "hidden_ms");
    }
    if (json_array_size(rows)) printf("%-40s %10s %12s %9.3f ms %9.3f ms\n", "all", "", "", exposed, hidden);
}

/* All ranks take part in exposure_rows; only rank 0's output is visible. */
static int report(const tracing *t) {
    json_t *rows = json_array();
    int status = exposure_rows(t->o, &t->time, &t->plan, t->zero_ns, rows);
    bool is_stream = t->o->output && strcmp(t->o->output, "/dev/stdout") == 0; /* it has the timeline alone */
    if (status < 0 && is_stream) {
        json_decref(rows);
        return EXIT_FINE;
    }
    if (status < 0 && t->o->json)
        return out_json(NULL, json_pack("{s:o, s:i, s:I, s:f, s:f, s:o}", "fingerprint",
                                        tool_fingerprint(t->work.plan), "world", world_size(t->o), "steps",
                                        (json_int_t)t->o->steps, "step_ms", t->step_ms, "data_ms", t->data_ms,
                                        "collectives", rows));
    if (status < 0) {
        print_rows(t, rows);
        status = EXIT_FINE;
    }
    json_decref(rows);
    return status;
}

/* ---- the command ---- */

static int trace(tracing *t) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(t->o, &status);
    if (!m) return status;
    status = workload_open(&t->work, m, t->o);
    if (status < 0) status = run_steps(t);
    if (status < 0) status = write_file(t);
    if (status < 0) status = report(t);
    stream_list_free(&t->plan);
    workload_close(&t->work);
    weft_model_free(m);
    return status;
}

/* It joins the world itself, because the communicator needs the callback for its events. */
static int trace_run(const options *given) {
    options o = *given;
    tracing *t = calloc(1, sizeof *t);
    if (!o.output || !t) {
        free(t);
        return tool_fail(o.output ? "out of memory" : "trace: -o FILE.json is needed");
    }
    t->o = &o;
    int status = world_open(&o, WORLD_JOINS,
                            &(weft_comm_options){.event = timeline_on_collective, .event_context = &t->time});
    if (status < 0 && world_rank(&o) == 0) status = out_check(given->output);
    if (status < 0) status = trace(t);
    status = world_close(&o, status); /* before t is freed, to which the communicator's thread writes */
    timeline_free(&t->time);
    free(t);
    return status;
}

const command command_trace = {
    .name = "trace",
    .summary = "Writes a timeline of the nodes and collectives of some training steps",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "guard steps warmup json output",
    .details = "Open the file in ui.perfetto.dev or chrome://tracing.",
    .example = "mpirun -n 2 graphtool trace gpt.bin --threads 1 -o trace.json",
    .writes_text = true,
    .run = trace_run,
    .ranks = COMMAND_JOINS_LATER,
    .defaults = {.steps = 5, .warmup = 3},
};
