/* eval.c - graphtool eval: mean losses and accuracies of the evaluation graph over all samples of some
 * files. */
#include "tools/graphtool/common/sweep.h"

static int report(const options *o, const weft_model *m, const graph_run *r, const double *means,
                  int64_t samples) {
    if (o->json) {
        json_t *all = json_pack("{s:s, s:s, s:I}", "model", weft_model_name(m), "graph", r->name, "samples",
                                (json_int_t)samples);
        for (int i = 0; all && i < r->n_out; i++)
            json_object_set_new(all, r->out[i].name, json_number(means[i]));
        return out_json(NULL, all);
    }
    printf("%lld samples", (long long)samples);
    for (int i = 0; i < r->n_out; i++) printf("  %s %s", r->out[i].name, show_mean(means[i], 5).text);
    printf("\n");
    return EXIT_FINE;
}

/* Opens the sweep before the store, so that errors in files come before reading weights. */
static int evaluate(const weft_model *m, const options *o, const char *graph) {
    sweep s;
    double means[RUN_MAX_PORTS] = {0};
    int64_t samples = 0;
    weft_store *store = NULL;
    int status = tool_need_weights(m, o);
    if (status >= 0) return status;
    status = sweep_open(&s, m, o, graph, &o->data, NULL);
    if (status < 0 && !s.run[0].n_out)
        status =
            tool_fail("graph %s has no output that is one f32 number named ...loss or ...accuracy", graph);
    if (status < 0) store = tool_store(m, o, &status);
    if (store) {
        status = sweep_attach(&s, store);
        if (status < 0) status = sweep_means(&s, means, &samples);
        if (status < 0) status = report(o, m, &s.run[0], means, samples);
    }
    sweep_close(&s);
    weft_store_free(store);
    return status;
}

static int eval_run(const options *o) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    const char *graph = tool_graph(m, o, "val", &status);
    if (graph) status = evaluate(m, o, graph);
    weft_model_free(m);
    return status;
}

const command command_eval = {
    .name = "eval",
    .summary = "Runs the evaluation graph once over all samples and prints the mean losses",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_FEED OPTIONS_TALK "graph random-weights json",
    .example =
        "graphtool eval convnet.bin --weights weights.safetensors --data image=t10k-images-idx3-ubyte.gz \\\n"
        "             --data label=t10k-labels-idx1-ubyte.gz --json",
    .run = eval_run,
    .ranks = COMMAND_JOINS,
};
