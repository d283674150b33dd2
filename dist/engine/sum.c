/* sum.c - sums whose order does not matter, by the transport's own collectives (MPI's). Data that travel as
 * bf16 are converted into the scratch and back. */
#include "dist/engine/engine.h"

#include "dist/core/ordered.h"
#include "graph/core/type.h"

#include <string.h>

enum { MOST_ELEMENTS = 1 << 30 }; /* of one call, as MPI counts in an int */

bool sum_is_possible(const engine *e, const weft_collective *c) {
    return c->unordered && collective_is_sum(c->kind) && e->t->calls->sum && c->count <= MOST_ELEMENTS;
}

/* Starts one sum of `count` elements at `at`, and waits for it. e->work holds the ranges of a
 * reduce_scatter. */
static weft_status run_sum(engine *e, const stream_op *op, weft_dtype dtype, void *at, size_t count,
                           weft_error *error) {
    unordered_sum sum = {.kind = op->c.kind, .dtype = dtype, .buffer = at, .count = count};
    sum.n = op->group->n;
    sum.root = op->c.root;
    sum.counts = op->c.kind == WEFT_COLLECTIVE_REDUCE_SCATTER ? e->work : NULL;
    weft_status status = e->t->calls->sum(e->t, op->group->id, &sum, error);
    return status ? status : engine_transfer(e, op, error);
}

/* The whole buffer in one call, in place. A reduce_scatter leaves the result at its start, so it is moved to
 * the own range. */
static weft_status sum_whole(engine *e, const stream_op *op, weft_error *error) {
    const weft_collective *c = &op->c;
    if (!c->count) return WEFT_OK;
    cut_room room = {.sum = c->count, .range = c->count, .to_owners = true};
    cut k = cut_of(c, op->group->n, &room);
    cut_round(&k, 0, e->work, e->dest);
    weft_status status = run_sum(e, op, c->dtype, c->buffer, c->count, error);
    range own = e->work[op->group->own];
    if (!status && c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
        memmove(collective_at(c, own.begin), c->buffer, range_length(own) * dtype_bytes(c->dtype));
    return status;
}

/* One round in bf16: the scratch holds the pieces of all ranks, one after another. */
static weft_status sum_narrow(engine *e, const stream_op *op, const cut *k, size_t round, weft_error *error) {
    const weft_collective *c = &op->c;
    float *buffer = c->buffer;
    uint16_t *narrow = c->scratch;
    size_t count = 0;
    int own = op->group->own;
    cut_round(k, round, e->work, e->dest);
    for (int r = 0; r < op->group->n; count += range_length(e->work[r++]))
        bf16_from_f32(narrow + count, buffer + e->work[r].begin, range_length(e->work[r]));
    weft_status status = run_sum(e, op, WEFT_BF16, narrow, count, error);
    if (status) return status;
    if (c->kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
        f32_from_bf16(buffer + e->work[own].begin, narrow, range_length(e->work[own]));
    else if (c->kind == WEFT_COLLECTIVE_ALL_REDUCE ||
             own == c->root) /* the pieces are slices of one window */
        f32_from_bf16(buffer + e->work[0].begin, narrow, count);
    return WEFT_OK;
}

weft_status sum_unordered(engine *e, stream_op *op, weft_error *error) {
    if (op->c.wire != WEFT_BF16) return sum_whole(e, op, error);
    cut_room room = cut_room_of_messages(&op->c, op->group->n);
    room.to_owners = true;
    cut k = cut_of(&op->c, op->group->n, &room);
    weft_status status = WEFT_OK;
    for (size_t round = 0; !status && round < k.rounds; round++) status = sum_narrow(e, op, &k, round, error);
    return status;
}
