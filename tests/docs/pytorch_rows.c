/* pytorch_rows.c - runs the rows of docs/from/pytorch.md, which tests/pytorch/test_from_pytorch.py has
 * written to lines.h, and prints what each gives: "NUMBER TYPE [SHAPE] VALUES", and "NUMBER parameter NAME
 * [SHAPE]". */
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 16 };

typedef struct operand {
    const char *name;
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
    const void *data;
    size_t bytes;
} operand;

static weft_value *given(weft_graph *g, const operand *o) {
    return weft_input(g, o->name, o->dtype, o->ndim, o->shape);
}

#include "lines.h" /* operands[], rows[] */

static const char *const dtypes[] = {"float32", "float64", "bfloat16", "float16",
                                     "int64",   "int32",   "uint8",    "bool"};

static void die(int number, const weft_error *error) {
    fprintf(stderr, "docs/from/pytorch.md:%d: %s\n", number, error->text);
    exit(1);
}

static void print_shape(int ndim, const int64_t *shape) {
    printf(" [");
    for (int i = 0; i < ndim; i++) printf(i ? ",%lld" : "%lld", (long long)shape[i]);
    printf("]");
}

static int64_t count(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

/* Every parameter gets the numbers that the script gives PyTorch's. */
static void fill_parameters(int number, weft_store *store) {
    weft_error error = {0};
    weft_stored value;
    for (int i = 0; weft_store_at(store, i, &value); i++) {
        weft_dtype dtype;
        int64_t shape[WEFT_MAX_NDIM];
        const char *path = value.path;
        if (value.kind == WEFT_STORED_COUNTER) continue; /* of random numbers */
        int ndim = weft_store_shape(store, path, &dtype, shape);
        int64_t n = count(ndim, shape);
        float *values = malloc((size_t)n * sizeof *values);
        for (int64_t k = 0; k < n; k++) values[k] = (float)(0.3 * sin(0.5 + 0.7 * (double)k));
        bool is_state = strstr(path, "running_");
        if (!is_state && weft_store_set(store, path, values, (size_t)n * sizeof *values, &error))
            die(number, &error);
        free(values);
        printf("%d parameter %s", number, path);
        print_shape(ndim, shape);
        printf("\n");
    }
}

static void print_output(int number, const weft_plan *plan, int index, const char *dtype,
                         const double *values) {
    weft_port port;
    weft_plan_output(plan, "row", index, &port);
    printf("%d %s", number, dtype);
    print_shape(port.ndim, port.shape);
    for (int64_t i = 0; i < count(port.ndim, port.shape); i++) printf(" %.9g", values[i]);
    printf("\n");
}

static int feed_inputs(const weft_plan *plan, weft_feed *feeds) {
    weft_port port;
    int n = 0;
    for (; weft_plan_input(plan, "row", n, &port); n++)
        for (size_t k = 0; k < sizeof operands / sizeof *operands; k++)
            if (strcmp(operands[k].name, port.name) == 0)
                feeds[n] = (weft_feed){operands[k].name, operands[k].data, operands[k].bytes};
    return n;
}

static void run_row(int number, row_function *build) {
    weft_error error = {0};
    weft_model *model = weft_model_new("row");
    weft_graph *g = weft_graph_new(model, "row", WEFT_TRAIN);
    weft_value *values[PARTS] = {NULL};
    const char *types[PARTS];
    int n = build(g, values);
    char name[PARTS][16];
    weft_fetch fetches[PARTS];
    for (int i = 0; i < n; i++) {
        types[i] = dtypes[weft_value_dtype(values[i])];
        snprintf(name[i], sizeof name[i], "v%d", i);
        weft_output(weft_cast(values[i], WEFT_F64), name[i]);
    }
    if (weft_model_error(model)->status) die(number, weft_model_error(model));
    weft_plan *plan = weft_compile(model, NULL, &error);
    weft_store *store = plan ? weft_store_new(plan, 1, &error) : NULL;
    if (!store) die(number, &error);
    fill_parameters(number, store);
    weft_session *session = weft_session_open(plan, store, &error);
    if (!session) die(number, &error);
    weft_feed feeds[8];
    int n_feeds = feed_inputs(plan, feeds);
    for (int i = 0; i < n; i++) {
        weft_port port;
        weft_plan_output(plan, "row", i, &port);
        fetches[i] = (weft_fetch){name[i], malloc(port.bytes), port.bytes};
    }
    if (weft_run(session, "row", feeds, n_feeds, fetches, n, &error)) die(number, &error);
    for (int i = 0; i < n; i++) print_output(number, plan, i, types[i], fetches[i].data);
    for (int i = 0; i < n; i++) free(fetches[i].data);
    weft_session_close(session);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(model);
}

int main(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) run_row(rows[i].number, rows[i].build);
    return 0;
}
