/* eval.c - graphtool eval: mean losses and accuracies of the evaluation graph over all samples of some
 * files. */
#include "tools/graphtool/common/dataset.h"
#include "tools/graphtool/common/evaluators.h"
#include "tools/graphtool/common/weights.h"

static int report(const options *o, const weft_model *m, const char *graph, const weft_metrics *means) {
    if (o->json) {
        json_t *all = json_pack("{s:s, s:s, s:I}", "model", weft_model_name(m), "graph", graph, "samples",
                                (json_int_t)means->samples);
        for (int i = 0; all && i < means->n; i++)
            json_object_set_new(all, means->list[i].name, json_number(means->list[i].value));
        return out_json(NULL, all);
    }
    printf("%lld samples", (long long)means->samples);
    for (int i = 0; i < means->n; i++)
        printf("  %s %s", means->list[i].name, show_mean(means->list[i].value, 5).text);
    printf("\n");
    return EXIT_FINE;
}

static int validate(weft_trainer *t, const weft_model *m, const options *o, const char *graph) {
    weft_error error = {0};
    weft_metrics means;
    int status = weights_load(weft_trainer_store(t), o);
    if (status >= 0) return status;
    if (weft_trainer_validate(t, &means, &error)) return tool_error(&error);
    if (!means.n) return tool_fail("graph %s has no output that is one number", graph);
    return report(o, m, graph, &means);
}

/* Opens the data before the weights, so that errors in files come first. */
static int evaluate(const weft_model *m, const options *o, const char *graph) {
    dataset d = {0};
    evaluators measured = {0};
    weft_trainer_options how;
    weft_trainer *t = NULL;
    int status = evaluators_read(&measured, o);
    if (status < 0) status = tool_need_weights(m, o);
    if (status < 0) status = dataset_load(&d, &o->data);
    if (status < 0) status = tool_trainer_options(m, o, &how);
    if (status < 0) {
        how.compile.graph = how.val_graph = graph;
        how.val = d.of;
        evaluators_make(&measured, &how);
        if ((t = tool_trainer(m, o, &how, &status))) status = validate(t, m, o, graph);
    }
    weft_trainer_free(t);
    dataset_close(&d);
    evaluators_free(&measured);
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
    .options = OPTIONS_COMPILE OPTIONS_FEED OPTIONS_TALK "seed graph metric random-weights json",
    .example = "graphtool eval convnet.bin --weights weights.safetensors \\\n"
               "          --data image=t10k-images.gz --data label=t10k-labels.gz --json",
    .run = eval_run,
    .ranks = COMMAND_JOINS,
};
