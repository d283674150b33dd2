/* calibrate.c - graphtool calibrate: times the algorithms that a GPU's libraries have for a model's nodes,
 * and writes the fastest for each as a table for --calibration. */
#include "tools/graphtool/common/tools.h"

#include "ops/cuda/cuda.h"
#include "runtime/session/calibrate.h"

#include <string.h>

#include <stdio.h>

/* Names the model and the GPU in the table's first lines. */
static weft_status begin(calibrating *c, weft_session *s, const weft_model *m, weft_error *error) {
    char comment[300];
    const cuda_context *gpu = s->kernels.cuda;
    if (!gpu)
        return error_set(error, WEFT_UNSUPPORTED,
                         "calibrate: a plan for the CPU has no algorithms to measure: use --device=cuda");
    snprintf(comment, sizeof comment, "%.100s, batch %lld: compute capability %d.%d, %d multiprocessors",
             weft_model_name(m), (long long)s->plan->options.batch, gpu->capability / 10,
             gpu->capability % 10, gpu->multiprocessors);
    return calibrate_begin(c, s, comment, error);
}

/* A line of progress for the last node. */
static void tell(const calibrating *c) {
    const tuned *t = &c->last;
    const char *skipped = t->skipped.data;
    if (c->why.status) {
        fprintf(stderr, "node %d of %d: %s: skipped: %s\n", c->n_done, c->n_nodes,
                c->nodes[c->n_done - 1].key, c->why.text);
        return;
    }
    fprintf(stderr, "node %d of %d: %s: %.4g ms; %d ways, %d dropped after one call%s%s\n", c->n_done,
            c->n_nodes, c->nodes[c->n_done - 1].key, t->ms, t->ways, t->dropped,
            skipped ? "; excluded: " : "", skipped ? skipped : "");
}

/* Measures all nodes. With -o the file is replaced after each, so that a run that is killed leaves a table of
 * what it has measured. */
static int measure(const options *o, calibrating *c) {
    weft_error error = {0};
    int end = o->output ? out_write(o->output, c->table.data, c->table.length) : EXIT_FINE;
    while (c->n_done < c->n_nodes && end == EXIT_FINE) {
        if (calibrate_next(c, &error)) return tool_error(&error);
        tell(c);
        if (o->output) end = out_write(o->output, c->table.data, c->table.length);
    }
    if (end == EXIT_FINE && calibrate_check(c, &error)) return tool_error(&error);
    return o->output || end != EXIT_FINE ? end : out_write(NULL, c->table.data, c->table.length);
}

static int write_table(const options *o, weft_session *s, const weft_model *m) {
    weft_error error = {0};
    calibrating c = {0};
    weft_status status = begin(&c, s, m, &error);
    int end = status == WEFT_OK ? measure(o, &c) : tool_error(&error);
    if (end == EXIT_FINE && o->output) printf("%s: %d nodes\n", SHOW_PATH(o->output), c.n_done - c.n_skipped);
    calibrate_end(&c);
    return end;
}

/* The output is tried first, as calibrating takes minutes. */
static int calibrate_run(const options *o) {
    int status = EXIT_FINE;
    weft_error error = {0};
    weft_store *store = NULL;
    weft_session *session = NULL;
    options streamed = *o; /* the table at the end, once */
    if (o->output && strcmp(o->output, "/dev/stdout") == 0) streamed.output = NULL, o = &streamed;
    if (o->output && (status = out_check(o->output)) >= 0) return status;
    weft_model *m = tool_load(o, &status);
    weft_plan *plan = m ? tool_compile(m, o, o->graph, &status) : NULL;
    if (plan && (store = tool_store(plan, o, &status))) {
        session = weft_session_open(plan, store, &error);
        status = session ? write_table(o, session, m) : tool_error(&error);
    }
    weft_session_close(session);
    weft_plan_free(plan);
    weft_store_free(store);
    weft_model_free(m);
    return status;
}

const command command_calibrate = {
    .name = "calibrate",
    .summary = "Times a GPU's algorithms for the nodes of a model and writes the fastest as a table",
    .takes_model = true,
    .options = "graph batch threads isa device deterministic tf32 dtype precision output",
    .details =
        "Use the table with --calibration=FILE; it is valid for one model, batch size and kind of GPU.",
    .example = "graphtool calibrate gpt2_124m.bin --dtype=bf16 -o h200.calibration",
    .writes_text = true,
    .run = calibrate_run,
    .defaults = {.compile.device = WEFT_DEVICE_CUDA},
};
