/* eval.c - graphtool eval: mean losses and accuracies of the evaluation graph over all samples of some
 * files. */
#include "tools/graphtool/training/dataset.h"
#include "tools/graphtool/training/evaluators.h"
#include "tools/graphtool/model/weights.h"

static void report(const options *o, const weft_model *m, const char *graph, const weft_metrics *means) {
    if (o->json) {
        json_t *all = json_pack("{s:s, s:s, s:I}", "model", weft_model_name(m), "graph", graph, "samples",
                                (json_int_t)means->samples);
        for (int i = 0; i < means->n; i++)
            json_object_set_new(all, means->list[i].name, json_number(means->list[i].value));
        out_json(NULL, all);
        return;
    }
    printf("%lld samples", (long long)means->samples);
    for (int i = 0; i < means->n; i++)
        printf("  %s %s", means->list[i].name, show_mean(means->list[i].value, 5).text);
    printf("\n");
}

/* Opens the data before the weights, so that errors in files come first. */
static int eval_run(const options *o) {
    weft_metrics means;
    const weft_model *m = tool_load(o);
    const char *graph = tool_graph(m, o, "val");
    evaluators *measured = evaluators_read(o);
    tool_need_weights(m, o);
    const dataset *d = dataset_load(&o->data);
    weft_trainer_options how = tool_trainer_options(m, o);
    how.compile.graph = how.val_graph = graph;
    how.val = d->of;
    evaluators_make(measured, &how);
    weft_trainer *t = tool_trainer(m, o, &how);
    weights_load(weft_trainer_store(t), o);
    tool_must(weft_trainer_validate(t, &means, &tool_why));
    if (!means.n) tool_fail("graph %s has no output that is one number", graph);
    report(o, m, graph, &means);
    return EXIT_FINE;
}

const command command_eval = {
    .name = "eval",
    .summary = "Runs the evaluation graph once over all samples and prints the mean losses",
    .options = OPTIONS_COMPILE OPTIONS_FEED OPTIONS_TALK "seed graph metric random-weights json",
    .example = "graphtool eval convnet.bin --weights weights.safetensors \\\n"
               "          --data image=t10k-images.gz --data label=t10k-labels.gz --json",
    .run = eval_run,
    .ranks = COMMAND_JOINS,
};
