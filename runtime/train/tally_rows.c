/* tally_rows.c - rows of numbers of an evaluator, for what needs all samples at once.
 *
 * A rank keeps its own rows as its batches come. At the end every rank gets those of all, and sorts them in
 * an order that depends on nothing but their bits: which rank had which batch no longer matters. They are
 * sorted in place, by J. Williams' heapsort (Algorithm 232, 1964). */
#include "runtime/train/trainer.h"

double *rows_add(weft_tally *t) {
    double *rows = kit_grow(&t->memory, t->rows, t->n_rows + 1, (size_t)t->width * sizeof *rows);
    if (!rows) {
        kit_no_memory(&t->error, "rows");
        return NULL;
    }
    t->rows = rows;
    return rows + t->n_rows++ * t->width;
}

void weft_tally_row(weft_tally *t, const double *row) {
    if (!t) return;
    if (!row || !t->width) {
        if (!t->error.status)
            kit_fail(&t->error, WEFT_ARGUMENT, row ? "a row, but `open` gave no width" : "a row is NULL");
        return;
    }
    double *into = rows_add(t);
    if (into) memcpy(into, row, (size_t)t->width * sizeof *row);
}

const double *weft_tally_rows(const weft_tally *t, int64_t *n) {
    if (n) *n = t ? t->n_rows : 0;
    return t ? t->rows : NULL;
}

void rows_drop(weft_tally *t) {
    kit_drop(&t->memory, t->rows);
    t->rows = NULL;
    t->n_rows = 0;
}

/* ---- over ranks ---- */

weft_status rows_gather(weft_tally *t, weft_comm *comm, const double *rows_of, weft_error *error) {
    size_t total = 0, first = 0, *counts = kit_take(&t->memory, comm->world, sizeof *counts);
    if (!counts) return kit_no_memory(error, "trainer");
    for (int r = 0; r < comm->world; r++) {
        counts[r] = (size_t)rows_of[r] * (size_t)t->width;
        if (r < comm->rank) first += counts[r];
        total += counts[r];
    }
    double *all = kit_take_raw(&t->memory, total, sizeof *all);
    if (!all) return kit_no_memory(error, "trainer");
    if (t->n_rows) memcpy(all + first, t->rows, counts[comm->rank] * sizeof *all);
    rows_drop(t);
    t->rows = all;
    t->n_rows = (int64_t)(total / (size_t)t->width);
    weft_collective gather = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                              .dtype = WEFT_F64,
                              .buffer = all,
                              .count = total,
                              .counts = counts,
                              .name = "rows of an evaluator",
                              .contents = t->name};
    weft_status status = weft_comm_run(comm, &gather, error);
    kit_drop(&t->memory, counts);
    return status;
}

/* ---- their order ---- */

/* Larger for larger numbers; negative NaN first, -0 before 0, NaN last. */
static int64_t key_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static bool is_before(const double *a, const double *b, int64_t width) {
    int64_t k = 0;
    while (k < width && key_of(a[k]) == key_of(b[k])) k++;
    return k < width && key_of(a[k]) < key_of(b[k]);
}

static void swap(double *a, double *b, int64_t width) {
    for (int64_t k = 0; k < width; k++) {
        double x = a[k];
        a[k] = b[k];
        b[k] = x;
    }
}

/* Row `at` moves down the heap of n rows until none below it is after it. */
static void sift(double *rows, int64_t at, int64_t n, int64_t width) {
    for (int64_t below = 2 * at + 1; below < n; at = below, below = 2 * at + 1) {
        if (below + 1 < n && is_before(rows + below * width, rows + (below + 1) * width, width)) below++;
        if (!is_before(rows + at * width, rows + below * width, width)) return;
        swap(rows + at * width, rows + below * width, width);
    }
}

void rows_sort(weft_tally *t) {
    int64_t w = t->width;
    for (int64_t i = t->n_rows / 2 - 1; i >= 0; i--) sift(t->rows, i, t->n_rows, w);
    for (int64_t n = t->n_rows - 1; n > 0; n--) {
        swap(t->rows, t->rows + n * w, w);
        sift(t->rows, 0, n, w);
    }
}
