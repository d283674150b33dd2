/* session_lane.c - a session among other ranks: agreement before the first step, collectives of a run, and broadcasts
 * that outlast their run until a later node needs what they bring. */
#include "runtime/session_state.h"

#include "ops/collective.h"

#include <stdio.h>

bool lane_agree(weft_session *s, weft_error *error) {
    char fingerprint[40];
    uint64_t bytes;
    snprintf(fingerprint, sizeof fingerprint, "plan %016llx", (unsigned long long)plan_fingerprint(s->plan));
    weft_collective same = {.kind = WEFT_BARRIER, .name = fingerprint};
    if (weft_comm_run(s->comm, &same, error)) return false;
    weft_collective values = {.kind = WEFT_BROADCAST, .dtype = WEFT_U8, .name = "store"};
    values.buffer = store_block(s->store, &bytes);
    values.count = bytes;
    if (weft_comm_run(s->comm, &values, error)) return false;
    uint64_t number =
        store_seed(s->store); /* random nodes draw alike on all ranks: by micro-batch, not by rank */
    weft_collective seed = {
        .kind = WEFT_BROADCAST, .dtype = WEFT_U8, .name = "seed", .buffer = &number, .count = sizeof number};
    if (weft_comm_run(s->comm, &seed, error)) return false;
    for (int i = 0; i < s->plan->n_programs; i++) s->programs[i].run.seed = number;
    return true;
}

static bool is_sum(const weft_node *n) {
    return n->op == &weft_op_all_reduce || n->op == &weft_op_reduce;
}

void lane_drain(weft_session *s, runnable *r, int reached) {
    for (int i = 0; i < reached; i++)
        if (is_sum(r->steps[i].node))
            weft_comm_wait(s->comm, r->tickets[((const collective_attrs *)r->steps[i].node->attrs)->order],
                           NULL);
}

/* Carried broadcasts of segment `index` have arrived when this returns. */
static weft_status arrive(weft_session *s, int index, weft_error *error) {
    if (!s->carried[index]) return WEFT_OK;
    weft_status status = weft_comm_wait(s->comm, s->carried[index] - 1, error);
    s->carried[index] = 0;
    s->n_carried--;
    return status;
}

static weft_status arrive_all(weft_session *s, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; s->n_carried && i < s->plan->model->n_variables && !status; i++)
        status = arrive(s, i, error);
    return status;
}

weft_status lane_arrive(weft_session *s, const step *st, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int k = 0; s->n_carried && k < st->n_touched && !status; k++)
        status = arrive(s, st->touched[k], error);
    return status;
}

weft_status weft_sync(weft_session *s, weft_error *error) {
    return s ? arrive_all(s, error) : error_set(error, WEFT_ARGUMENT, "sync: there is no session");
}

weft_status lane_run(weft_session *s, runnable *r, const step *st, weft_error *error) {
    const weft_node *n = st->node;
    if (n->op == &weft_op_wait) {
        const collective_attrs *a = n->in[0]->node->attrs;
        return weft_comm_wait(s->comm, r->tickets[a->order], error);
    }
    const collective_attrs *a = n->attrs;
    weft_collective c = {.kind = n->op == &weft_op_broadcast ? WEFT_BROADCAST
                                 : n->op == &weft_op_reduce  ? WEFT_REDUCE
                                                             : WEFT_ALL_REDUCE,
                         .dtype = WEFT_F32,
                         .buffer = st->in[0].data,
                         .count = (size_t)type_elements(&st->in[0].type),
                         .root = (int)a->root,
                         .scratch = is_sum(n) ? st->out[1].data : NULL,
                         .scratch_bytes = is_sum(n) ? (size_t)a->scratch : 0,
                         .order = (uint64_t)a->order,
                         .run = s->run,
                         .program = r->p->name,
                         .name = a->path};
    weft_status status = weft_comm_start(s->comm, &c, &r->tickets[a->order], error);
    if (status || is_sum(n)) return status;
    s->carried[n->variable->index] = r->tickets[a->order] + 1;
    s->n_carried++;
    return WEFT_OK;
}
