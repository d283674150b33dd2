/* calibrate.c - graphtool calibrate: times the algorithms that a GPU's libraries have for a model's nodes,
 * and writes the fastest for each as a table for --calibration. */
#include "tools/graphtool/model/tools.h"

#include "ops/cuda/cuda.h"
#include "runtime/session/calibrate.h"

#include <string.h>

/* Names the model and the GPU in the table's first lines. */
static weft_status begin(calibrating *c, weft_session *s, const weft_model *m, weft_error *error) {
    const cuda_context *gpu = s->kernels.cuda;
    if (!gpu)
        return error_set(error, WEFT_UNSUPPORTED,
                         "calibrate: a plan for the CPU has no algorithms to measure: use --device=cuda");
    const char *comment = tool_text("%.100s, batch %lld: compute capability %d.%d, %d multiprocessors",
                                    weft_model_name(m), (long long)s->plan->options.batch,
                                    gpu->capability / 10, gpu->capability % 10, gpu->multiprocessors);
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
static void measure(const char *output, calibrating *c) {
    if (output) out_write(output, c->table.data, c->table.length);
    while (c->n_done < c->n_nodes) {
        tool_must(calibrate_next(c, &tool_why));
        tell(c);
        if (output) out_write(output, c->table.data, c->table.length);
    }
    tool_must(calibrate_check(c, &tool_why));
    if (!output) out_write(NULL, c->table.data, c->table.length);
    if (output) printf("%s: %d nodes\n", SHOW_PATH(output), c->n_done - c->n_skipped);
}

static void free_store(void *store) {
    weft_store_free(store);
}
static void close_session(void *session) {
    weft_session_close(session);
}

/* The output is tried first, as calibrating takes minutes. To standard output the table is written once. */
static int calibrate_run(const options *o) {
    calibrating c = {0};
    const char *output = o->output && strcmp(o->output, "/dev/stdout") ? o->output : NULL;
    if (output) out_check(output);
    weft_model *m = tool_load(o);
    weft_plan *plan = tool_compile(m, o, o->graph);
    tool_select_device(o);
    weft_store *store = tool_keep(tool_got(weft_store_new(plan, o->seed, &tool_why)), free_store);
    weft_session *session = tool_keep(tool_got(weft_session_open(plan, store, &tool_why)), close_session);
    tool_must(begin(&c, session, m, &tool_why));
    measure(output, &c);
    calibrate_end(&c);
    return EXIT_FINE;
}

const command command_calibrate = {
    .name = "calibrate",
    .summary = "Times a GPU's algorithms for the nodes of a model and writes the fastest as a table",
    .options = "graph batch threads isa device deterministic tf32 dtype precision output",
    .details =
        "Use the table with --calibration=FILE; it is valid for one model, batch size and kind of GPU.",
    .example = "graphtool calibrate gpt2_124m.bin --dtype=bf16 -o h200.calibration",
    .writes_text = true,
    .run = calibrate_run,
    .defaults = {.compile.device = WEFT_DEVICE_CUDA},
};
