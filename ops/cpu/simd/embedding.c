/* embedding.c - embedding, which copies rows of any type, and its backward op in f32.
 *
 * The backward op divides columns, not rows, among threads: every thread walks all ids in order and adds its
 * columns, so no sum depends on the number of threads. The sum of a row that many ids share goes to an f64
 * total after each SUM_ROWS of them (sums.h). */
#include "ops/cpu/simd/ids.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/sums.h"
#include "ops/attention/embedding.h"

#include <string.h>

/* y [ids, d] = rows of w [rows, d]; an id outside the table is an error before anything is copied. */
static weft_status forward_run(void *state, const kernel_call *c) {
    const char *w = c->in[0].data;
    char *y = c->out[0].data;
    int64_t rows = c->in[0].type.shape[0], n = type_elements(&c->in[1].type);
    int64_t bytes = c->in[0].type.shape[1] * (int64_t)dtype_bytes(c->in[0].type.dtype);
    weft_status status = embedding_ids(c, &c->in[1], rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) memcpy(y + i * bytes, w + id_at(&c->in[1], i) * bytes, (size_t)bytes);
    return WEFT_OK;
}

SIMD_KERNEL(embedding, .run = forward_run);

/* What happens after an id: nothing; its row starts a total; its row is added to its total. */
enum { FLUSH_NONE, FLUSH_FIRST, FLUSH_MORE };

/* What one pass over the ids finds before any row is added. In the workspace. */
typedef struct places {
    double *total;  /* [n / SUM_ROWS, d]: totals of rows that have SUM_ROWS ids or more */
    int32_t *count; /* [rows]: ids of each row */
    int32_t *slot;  /* [rows]: which total is the row's, where count >= SUM_ROWS */
    uint8_t *flush; /* [n]: one of FLUSH_* after id number i */
} places;

/* Places the arrays in `room` and returns their bytes; 0 when there are too few ids for any total. */
static size_t places_at(places *p, char *room, const tensor_type *w, int64_t n) {
    int64_t rows = w->shape[0], heavy = n / SUM_ROWS * w->shape[1];
    p->total = (double *)room;
    p->count = (int32_t *)(p->total + heavy);
    p->slot = p->count + rows;
    p->flush = (uint8_t *)(p->slot + rows);
    return heavy ? (size_t)heavy * sizeof(double) + (size_t)rows * 2 * sizeof(int32_t) + (size_t)n : 0;
}

static size_t backward_workspace(const weft_node *n, const kernel_env *env) {
    static char nowhere[1];
    places p;
    return places_at(&p, nowhere, &n->out[0].type, type_elements(&n->in[1]->type));
}

/* Returns false when some id is outside the table. */
static bool places_find(const places *p, const tensor *ids, int64_t n, int64_t rows) {
    int32_t slots = 0;
    memset(p->count, 0, (size_t)rows * sizeof *p->count);
    memset(p->flush, FLUSH_NONE, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t r = id_at(ids, i);
        if (r < 0 || r >= rows) return false;
        if (++p->count[r] % SUM_ROWS) continue;
        p->flush[i] = p->count[r] == SUM_ROWS ? FLUSH_FIRST : FLUSH_MORE;
        if (p->count[r] == SUM_ROWS) p->slot[r] = slots++;
    }
    return true;
}

static void add_row(float *restrict to, const float *restrict from, int64_t n) {
    for (int64_t k = 0; k < n; k++) to[k] += from[k];
}

/* total += from (or = from), and from becomes zero. */
static void flush_row(double *restrict total, float *restrict from, int64_t n, bool is_first) {
    for (int64_t k = 0; k < n; k++) total[k] = (is_first ? 0 : total[k]) + from[k];
    memset(from, 0, (size_t)n * sizeof *from);
}

/* dw for columns [first, first + width) of all rows. */
static void columns_backward(const kernel_call *c, const places *p, int64_t first, int64_t width) {
    const float *dy = (const float *)c->in[0].data + first;
    float *dw = (float *)c->out[0].data + first;
    int64_t rows = c->out[0].type.shape[0], d = c->out[0].type.shape[1], n = type_elements(&c->in[1].type);
    bool has_totals = n >= SUM_ROWS;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = id_at(&c->in[1], i);
        add_row(dw + r * d, dy + i * d, width);
        if (has_totals && p->flush[i])
            flush_row(p->total + p->slot[r] * d + first, dw + r * d, width, p->flush[i] == FLUSH_FIRST);
    }
    for (int64_t r = 0; has_totals && r < rows; r++) {
        const double *total = p->total + (p->count[r] < SUM_ROWS ? 0 : p->slot[r] * d + first);
        for (int64_t k = 0; p->count[r] >= SUM_ROWS && k < width; k++)
            dw[r * d + k] = (float)(total[k] + dw[r * d + k]);
    }
}

/* dy [ids, d], ids -> dw [rows, d]; rows without ids are zeros. */
static weft_status backward_run(void *state, const kernel_call *c) {
    enum { STRIP = 64 }; /* columns: four cache lines, so that no two threads write to one */
    float *dw = c->out[0].data;
    int64_t rows = c->out[0].type.shape[0], d = c->out[0].type.shape[1], n = type_elements(&c->in[1].type);
    int64_t strips = (d + STRIP - 1) / STRIP, each = (strips + c->threads - 1) / c->threads * STRIP;
    places p = {0};
    /* Without totals places_find does not run and embedding_ids checks the ids; it also names a wrong one. */
    bool is_known = places_at(&p, c->workspace, &c->out[0].type, n) && places_find(&p, &c->in[1], n, rows);
    weft_status status = is_known ? WEFT_OK : embedding_ids(c, &c->in[1], rows);
    if (status) return status;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) memset(dw + i * d, 0, (size_t)d * sizeof *dw);
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int64_t first = 0; first < d; first += each)
        columns_backward(c, &p, first, first + each < d ? each : d - first);
    return WEFT_OK;
}

SIMD_KERNEL(embedding_backward, .declines = declines_all_but_f32, .workspace = backward_workspace,
            .run = backward_run);
