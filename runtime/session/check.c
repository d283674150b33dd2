/* check.c - finding faults: after every node its floating-point results are searched for NaN and infinities.
 * Slow: every result is copied out piece by piece. */
#include "runtime/session/state.h"

#include "ops/kit/op_kit.h"

#include <math.h>

void weft_session_set_check(weft_session *s, bool on) {
    if (s) s->checks = on;
}

/* For finding faults on a GPU: without capture each launch goes node by node. */
void weft_session_set_capture(weft_session *s, bool on) {
    if (s) s->no_capture = !on;
}

/* Only dense results are searched: views and values with other strides were searched where they were made. */
static bool is_looked_at(const tensor *t) {
    int64_t dense[WEFT_MAX_NDIM];
    if (!dtype_is_float(t->type.dtype) || !t->data) return false;
    /* Row-major or channels-last without gaps: then memory order covers all elements. */
    stride_row_major(&t->type, dense);
    if (stride_same(&t->type, t->stride, dense)) return true;
    stride_channels_last(&t->type, dense);
    return type_is_image(&t->type) && stride_same(&t->type, t->stride, dense);
}

/* `count` elements from element `from` of t on, copied to `data`. */
static weft_status check_piece(const bound_program *r, const weft_node *n, const tensor *t, int64_t from,
                               int64_t count, const void *data, weft_error *error) {
    char node[200];
    const tensor piece = {.data = (void *)(uintptr_t)data,
                          .type = {.dtype = t->type.dtype, .ndim = 1, .shape = {count}},
                          .stride = {1}};
    for (int64_t i = 0; i < count; i++) {
        double x = element_get(&piece, &i);
        if (!isfinite(x))
            return error_set(error, WEFT_DATA, "graph %s: %s made %s at element %jd (in memory order) of %s",
                             r->p->name, node_show(n, node), isnan(x) ? "NaN" : "an infinity", (from + i),
                             TYPE(&t->type));
    }
    return WEFT_OK;
}

/* Copies PIECE elements at a time, so that checking takes little memory. */
weft_status session_check_results(weft_session *s, const bound_program *r, const step *st,
                                  weft_error *error) {
    enum { PIECE = 1 << 16 };
    weft_status status = WEFT_OK;
    void *piece = mem_raw(&s->env, (size_t)PIECE * sizeof(double));
    if (!piece) return error_memory(error, "session");
    for (int k = 0; k < st->node->n_out && !status && st->kernel; k++) {
        const tensor *t = &st->out[k];
        int64_t elements = is_looked_at(t) ? type_elements(&t->type) : 0;
        size_t width = dtype_bytes(t->type.dtype);
        for (int64_t at = 0; at < elements && !status; at += PIECE) {
            int64_t count = elements - at < PIECE ? elements - at : PIECE;
            status = store_fetch(s->store, piece, (const char *)t->data + (size_t)at * width,
                                 (size_t)count * width, error);
            if (!status) status = check_piece(r, st->node, t, at, count, piece, error);
        }
    }
    mem_free(&s->env, piece, (size_t)PIECE * sizeof(double));
    return status;
}
