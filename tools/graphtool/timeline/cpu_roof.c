/* cpu_roof.c - see cpu_roof.h. The two are graphs of a model, so they run by the kernels that are looked at:
 * a share of 100% is what this library reaches where nothing else is in the way. */
#include "tools/graphtool/timeline/cpu_roof.h"

#include <math.h>

enum { SIDE = 1024, ELEMENTS = 24 << 20 /* 96 MiB of f32 */, RUNS = 6 };

static void add_product(weft_model *m) {
    weft_graph *g = weft_graph_new(m, "product", WEFT_EVAL);
    weft_init ones = {WEFT_INIT_ONES};
    weft_value *a = weft_parameter_in(g, "a", 2, (int64_t[]){SIDE, SIDE}, ones);
    weft_value *b = weft_parameter_in(g, "b", 2, (int64_t[]){SIDE, SIDE}, ones);
    weft_output(weft_matmul(a, b, false, false), "y");
}

static void add_sum(weft_model *m) {
    weft_graph *g = weft_graph_new(m, "sum", WEFT_EVAL);
    weft_init ones = {WEFT_INIT_ONES};
    weft_value *a = weft_parameter_in(g, "c", 1, (int64_t[]){ELEMENTS}, ones);
    weft_value *b = weft_parameter_in(g, "d", 1, (int64_t[]){ELEMENTS}, ones);
    weft_output(weft_add(a, b), "y");
}

/* Seconds of the fastest run; 0: it failed. */
static double time_graph(weft_session *s, const char *graph) {
    double best = 1e30;
    weft_error why;
    for (int i = 0; i < RUNS; i++) {
        double start = clock_seconds();
        if (weft_run(s, graph, NULL, 0, NULL, 0, &why)) return 0;
        best = fmin(best, clock_seconds() - start);
    }
    return best;
}

/* Of both graphs in one type; false: there is no memory for them. */
static bool time_both(const weft_model *m, const weft_compile_options *how, double best[2]) {
    weft_error why;
    weft_plan *plan = weft_compile(m, how, &why);
    weft_store *store = plan ? weft_store_new(plan, 0, &why) : NULL;
    weft_session *s = store ? weft_session_open(plan, store, &why) : NULL;
    best[0] = s ? time_graph(s, "product") : 0;
    best[1] = s ? time_graph(s, "sum") : 0;
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    return best[0] > 0 && best[1] > 0;
}

bool cpu_roof(const weft_compile_options *like, roof *r) {
    weft_compile_options how = {.threads = like->threads, .isa = like->isa};
    weft_model *m = weft_model_new("roof");
    double best[2], reduced[2];
    const double operations = 2.0 * SIDE * SIDE * SIDE;
    add_product(m);
    add_sum(m);
    bool good = time_both(m, &how, best);
    how.precision = like->precision;
    bool is_reduced = like->precision != WEFT_F32;
    if (is_reduced) good = good && time_both(m, &how, reduced);
    weft_model_free(m);
    if (!good) return false;
    double f32 = operations / best[0];
    *r = (roof){.name = "this processor",
                .f32 = f32,
                .tf32 = f32,
                .tensor = is_reduced ? operations / reduced[0] : f32,
                .memory = 3.0 * ELEMENTS * sizeof(float) / best[1]};
    return true;
}
