/* place.c - where values are: the ranges of bytes that nodes touch. */
#include "runtime/verify/verify.h"

#include "runtime/plan/value.h"

bool ranges_meet(verify_range a, verify_range b) {
    return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

bool verify_locate(const weft_value *v, verify_range *r) {
    int64_t offset = 0, last = 0;
    for (int i = 0; i < v->type.ndim; i++) last += (v->type.shape[i] - 1) * v->stride[i];
    int64_t bytes = (last + 1) * (int64_t)dtype_bytes(v->type.dtype);
    const weft_value *at = v;
    while (at->base) {
        offset += at->base_offset * (int64_t)dtype_bytes(at->type.dtype);
        at = at->base;
    }
    if (at->variable) {
        const weft_variable *s = at->variable;
        bool member = variable_is_part(s);
        r->space = member ? s->bucket : s;
        r->begin = offset + (member ? s->offset * 4 : 0);
    } else if (at->node->op == &weft_op_input) {
        return false; /* the caller's memory: nothing of the session can touch it */
    } else {
        r->space = NULL;
        r->begin = offset + at->arena_offset;
        if (at->arena_offset < 0) r->begin = -1;
    }
    r->end = r->begin + bytes;
    return true;
}

/* The workspace is number 0. */
int verify_touches(const weft_node *n) {
    return 1 + n->n_in + n->n_out;
}

bool verify_touched(const weft_node *n, int i, verify_range *r) {
    const weft_value *v = i ? node_value_at(n, i - 1) : NULL;
    *r = (verify_range){NULL, n->workspace_offset, n->workspace_offset + (int64_t)n->workspace_bytes};
    return i ? v && verify_locate(v, r) : n->workspace_bytes > 0;
}

bool verify_lies_in(const weft_value *v, const weft_value *whole) {
    while (v && v != whole) v = v->base;
    return v != NULL;
}

const weft_variable *verify_sharded(const weft_value *v) {
    verify_range r;
    if (!v || !verify_locate(v, &r) || !r.space) return NULL;
    const weft_variable *s = r.space;
    return s->kind == VARIABLE_BUCKET && s->shards ? s : NULL;
}
