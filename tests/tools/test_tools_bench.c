/* test_tools_bench.c - graphtool bench: what it reports, and which flows it runs. Times are not tested. */
#include "support/programs.h"

#include <stdlib.h>
#include <string.h>

/* The first loss of `bench` by that name; NaN is never one. */
static double first_loss(const char *command, const char *name) {
    if (!ends(run("%s", command), 0)) return 0;
    json_t *out = json_out("out");
    const json_t *list = json_object_get(json_object_get(out, "losses"), name);
    double value = json_number_value(json_array_get(list, 0));
    json_decref(out);
    return value;
}

/* Batches have labels below the number of classes: a guess among ten costs log 10 = 2.3. */
TEST(flows_that_evaluate_run_on_synthetic_batches) {
    NEED(make_model("mlp") && make_model("dcgan28") && make_fed());
    double loss =
        first_loss("graphtool bench mlp.bin --flow val --batch 8 --steps 1 --warmup 0 -t 1 --json", "loss");
    CHECK_SAYS(loss > 1.5 && loss < 3.5, "%g", loss);
    ends(run("graphtool bench mlp.bin --flow predict --batch 8 --steps 1 --warmup 0 -t 1"), 0);
    ends(run("graphtool bench dcgan28.bin --flow predict --batch 2 --steps 1 --warmup 0 -t 1"), 0);
    ends(run("graphtool trace mlp.bin --flow predict --batch 8 --steps 1 --warmup 0 -t 1 -o t.json"), 0);
    /* an input that a graph outside the flow has is neither made nor reported */
    NEED(ends(run("graphtool bench fed.bin --flow predict --steps 1 --warmup 0 -t 1 --json"), 0));
    json_t *out = json_out("out");
    CHECK_TEXT(json_string_value(json_object_get(out, "set")), "tau=0.5");
    json_decref(out);
}

SUITE("tools: bench", {T(flows_that_evaluate_run_on_synthetic_batches)})
