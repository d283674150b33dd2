/* fused_graphs.c - see fused_graphs.h. */
#include "support/kernels/fused_graphs.h"
#include "runtime/passes/passes.h"
#include "weft/ops.h"

#include <stdio.h>

enum { POOL = 24 };

typedef struct pool {
    weft_graph *g;
    test_random r;
    int n;
    weft_value *v[POOL];
} pool;

static weft_value *any_of(pool *p) {
    return p->v[random_bits(&p->r) % (uint64_t)p->n];
}

/* Results stay within a small range, so that differences do not grow along the chain. */
static weft_value *step(pool *p) {
    weft_value *a = any_of(p), *b = any_of(p), *c = any_of(p);
    switch (random_bits(&p->r) % 12) {
    case 0:
        return weft_tanh(weft_add(a, b));
    case 1:
        return weft_scale(weft_sub(a, b), 0.5);
    case 2:
        return weft_mul(a, weft_sigmoid(b));
    case 3:
        return weft_maximum(a, weft_neg(b));
    case 4:
        return weft_where(weft_greater(a, b), c, weft_scale(a, 0.25));
    case 5:
        return weft_relu(a);
    case 6:
        return weft_leaky_relu(weft_offset(a, -0.1), 0.2);
    case 7:
        return weft_sigmoid(weft_gelu(a));
    case 8:
        return weft_tanh(weft_gelu_tanh(b));
    case 9:
        return weft_div(a, weft_offset(weft_square(b), 1));
    case 10:
        return weft_exp(weft_neg(weft_abs(a)));
    default:
        return weft_cast(weft_greater(a, c), WEFT_F32);
    }
}

static void inputs_make(pool *p, int ndim, const int64_t *shape) {
    char name[16];
    for (int i = 0; i < 5; i++) {
        int64_t own[WEFT_MAX_NDIM];
        for (int k = 0; k < ndim; k++) own[k] = shape[k];
        if (i == 2)
            for (int k = 0; k < ndim; k++) own[k] = k == 1 ? shape[k] : 1;
        if (i == 3) own[ndim - 1] = 1;
        snprintf(name, sizeof name, "x%d", i);
        weft_value *x = weft_input(p->g, name, i == 4 ? WEFT_U8 : WEFT_F32, ndim, own);
        p->v[p->n++] = i == 4 ? weft_scale(weft_cast(x, WEFT_F32), 0.1) : x;
    }
    p->v[p->n++] = weft_constant(p->g, WEFT_F32, 0, NULL, 0.5);
}

static void check_fused_nodes(pool *p, uint64_t seed, node_check *check) {
    for (weft_node *n = p->g->first; n; n = n->next) {
        char what[100];
        block data[FUSED_MAX_IN];
        tensor tensors[FUSED_MAX_IN];
        if (n->op != &weft_op_fused) continue;
        snprintf(what, sizeof what, "seed %llu: fused %%%d of %d nodes", (unsigned long long)seed, n->id,
                 n->n_body);
        for (int i = 0; i < n->n_in; i++) {
            data[i] = block_new(&n->in[i]->type, LAYOUT_ROWS);
            sample_fill(NULL, &data[i].t, &p->r);
            tensors[i] = data[i].t;
        }
        check(n, what, tensors);
        for (int i = 0; i < n->n_in; i++) block_free(&data[i]);
    }
}

int fused_graph_check(uint64_t seed, int ndim, const int64_t *shape, node_check *check) {
    weft_model *m = weft_model_new("fused");
    pool p = {.g = weft_graph_new(m, "g", WEFT_TRAIN), .r = {.state = seed}};
    int fused = 0;
    inputs_make(&p, ndim, shape);
    while (p.n < POOL) {
        weft_value *made = step(&p);
        p.v[p.n++] = made;
    }
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        weft_output(p.v[POOL - 1 - 2 * i], name);
    }
    graph_remove_dead(p.g);
    if (CHECK_SAYS(pass_fuse(p.g, WEFT_DEVICE_CPU), "%s", weft_model_error(m)->text)) {
        for (weft_node *n = p.g->first; n; n = n->next) fused += n->op == &weft_op_fused;
        check_fused_nodes(&p, seed, check);
    }
    weft_model_free(m);
    return fused;
}

void fused_in_place_check(node_check *check) {
    weft_model *m = weft_model_new("in_place");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    int64_t shape[] = {2500};
    weft_value *a = weft_input(g, "a", WEFT_F32, 1, shape), *b = weft_input(g, "b", WEFT_F32, 1, shape);
    weft_value *sum = weft_add(a, b);
    weft_output(sum, "sum");
    weft_output(weft_mul(weft_relu(sum), a), "product");
    pool p = {.g = g, .r = {.state = 3}};
    CHECK(pass_fuse(g, WEFT_DEVICE_CPU));
    check_fused_nodes(&p, 0, check); /* tries every result in place of every operand */
    weft_model_free(m);
}
