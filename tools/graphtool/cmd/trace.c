/* trace.c - graphtool trace: some training steps as a trace of events (timeline.h), and how much of each
 * collective was exposed: the time in which the compute stream waited for it. The rest of its time was
 * overlapped (exposure.c). */
#include "tools/graphtool/timeline/exposure.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/training/workload.h"
#include "tools/graphtool/ranks/world.h"

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

/* Sets the common start. Ranks of one machine share a clock; with several machines each takes its time at the
 * end of a broadcast. */
static void begin_trace(tracing *t) {
    const weft_comm *c = t->o->comm;
    t->zero_ns = weft_clock_ns();
    world_broadcast(t->o, 0, &t->zero_ns, sizeof t->zero_ns, "trace");
    if (c && c->local_world != c->world) t->zero_ns = weft_clock_ns();
}

static void run_steps(tracing *t) {
    for (int64_t i = 0; i < t->o->warmup; i++) workload_step(&t->work, NULL);
    begin_trace(t);
    weft_session_trace(t->work.session, timeline_on_node, &t->time);
    weft_loader_trace(weft_trainer_loader(t->work.trainer), timeline_on_data, &t->time);
    uint64_t start = weft_clock_ns();
    for (int64_t i = 0; i < t->o->steps; i++) {
        timeline_on_step(&t->time, weft_clock_ns());
        workload_step(&t->work, NULL);
    }
    workload_sync(&t->work); /* work in flight after the last run belongs to its step */
    t->step_ms = (double)(weft_clock_ns() - start) * 1e-6 / (double)t->o->steps;
    weft_session_trace(t->work.session, NULL, NULL);
    weft_loader_trace(weft_trainer_loader(t->work.trainer), NULL, NULL);
    t->data_ms = timeline_data_ms(&t->time) / (double)t->o->steps;
    if (t->time.is_out_of_memory) tool_fail("out of memory for the events");
    t->plan = stream_list_of(t->work.plan);
    timeline_join(&t->time, &t->plan);
}

/* ---- the file: each rank in turn broadcasts its events, and rank 0 writes them ---- */

/* One rank's events, which that rank makes; on ranks that are neither that one nor 0 nothing is added. */
static void add_rank(const tracing *t, text *file, int rank) {
    const options *o = t->o;
    text own = {0};
    if (rank == world_rank(o)) timeline_text(&own, &t->time, t->work.plan, rank, t->zero_ns);
    uint64_t bytes = own.length;
    if (rank) world_broadcast(o, rank, &bytes, sizeof bytes, "trace");
    char *all = rank == world_rank(o) ? tool_take(&own) : tool_new(bytes + 1, 1);
    if (rank) world_broadcast(o, rank, all, bytes, "trace");
    if (!world_rank(o)) text_bytes(file, all, bytes);
}

/* The whole file is made in memory first, so that it is written completely or not at all. It ends with an
 * event without a comma, as JSON allows none there. */
static void write_file(const tracing *t) {
    text file = {0};
    text_add(&file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int rank = 0; rank < world_size(t->o); rank++) add_rank(t, &file, rank);
    text_add(&file,
             "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"args\":{\"sort_index\":0}}\n]}\n");
    const char *all = tool_take(&file);
    if (!world_rank(t->o)) out_write(t->o->output, all, strlen(all));
}

/* ---- the summary ---- */

static double sum(const json_t *rows, const char *key) {
    size_t i;
    const json_t *row;
    double all = 0;
    json_array_foreach(rows, i, row) all += json_at(row, key);
    return all;
}

/* The table of collectives for people; sums are over all rows. */
static void print_rows(const tracing *t, const json_t *rows) {
    static const table_column columns[] = {{"graph", "graph"},
                                           {"op", "op"},
                                           {"bucket", "bucket"},
                                           {"bytes", "bytes", 1},
                                           {"on the stream", "stream_ms", 1, 3, " ms"},
                                           {"exposed", "exposed_ms", 1, 3, " ms"},
                                           {"hidden", "hidden_ms", 1, 3, " ms"}};
    text lines = {0};
    text_add(&lines, "%lld steps of %.2f ms on %d rank%s; events in %s\n", (long long)t->o->steps, t->step_ms,
             world_size(t->o), world_size(t->o) > 1 ? "s" : ": no collectives",
             t->o->output ? SHOW_PATH(t->o->output) : "-");
    if (t->time.n_data)
        text_add(&lines, "waiting for data: %.3f ms a step, %.2f%% of it\n", t->data_ms,
                 t->step_ms > 0 ? 100 * t->data_ms / t->step_ms : 0);
    if (json_array_size(rows)) {
        json_t *all = json_copy((json_t *)rows);
        json_array_append_new(all, json_pack("{s:s, s:f, s:f}", "graph", "all", "exposed_ms",
                                             sum(rows, "exposed_ms"), "hidden_ms", sum(rows, "hidden_ms")));
        table_json(&lines, all, 7, columns);
        json_decref(all);
    }
    out_text(NULL, &lines);
}

/* All ranks take part in exposure_rows; only rank 0's output is visible. */
static void report(const tracing *t) {
    json_t *rows = exposure_rows(t->o, &t->time, &t->plan, t->zero_ns);
    bool is_stream = t->o->output && strcmp(t->o->output, "/dev/stdout") == 0; /* it has the timeline alone */
    json_t *all = json_pack("{s:o, s:i, s:I, s:f, s:f, s:o}", "fingerprint", tool_fingerprint(t->work.plan),
                            "world", world_size(t->o), "steps", (json_int_t)t->o->steps, "step_ms",
                            t->step_ms, "data_ms", t->data_ms, "collectives", rows);
    if (!is_stream && !t->o->json) print_rows(t, rows);
    if (!is_stream && t->o->json) out_json(NULL, json_incref(all));
    json_decref(all);
}

/* ---- the command ---- */

static void close_timeline(void *time) {
    timeline_free(time);
}

/* It joins the world itself, because the communicator needs the callback for its events, and is closed before
 * what it writes to. */
static int trace_run(const options *given) {
    if (!given->output) tool_fail("trace: -o FILE.json is needed");
    tracing *t = tool_new(1, sizeof *t);
    options *o = tool_new(1, sizeof *o);
    *o = *given;
    t->o = o;
    tool_keep(&t->time, close_timeline);
    world_open(o, &(weft_comm_options){.event = timeline_on_collective, .event_context = &t->time});
    if (world_rank(o) == 0) out_check(given->output);
    t->work = workload_open(tool_load(o), o);
    run_steps(t);
    write_file(t);
    report(t);
    return EXIT_FINE;
}

const command command_trace = {
    .name = "trace",
    .summary = "Writes a timeline of the nodes and collectives of some training steps",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_FEED OPTIONS_TALK
    "guard steps warmup json output",
    .details = "Open the file in ui.perfetto.dev or chrome://tracing.",
    .example = "mpirun -n 2 graphtool trace gpt.bin --threads 1 -o trace.json",
    .writes_text = true,
    .run = trace_run,
    .ranks = COMMAND_JOINS_LATER,
    .defaults = {.steps = 5, .warmup = 3},
};
