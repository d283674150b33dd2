/* verify_lanes.c - proves what concerns the communication lane of a scheduled program. The lane runs its collectives
 * one after the other, beside the compute lane; `wait` is the only event between them. Rules:
 *   L1   a wait names the results of one collective before it, and every collective has exactly one wait; but for an
 *        all_gather, which has none: it outlasts the run
 *   L2   collectives stand in the order of their numbers, 0, 1, 2 ..., as many as the program counts
 *   L3   while a collective is under way, from its start to its wait, no other node touches its buffer or scratch
 *   L6   an all_gather sends what this rank's update has made; no later node of the program touches the segment,
 *        unless the gather is awaited
 *   L10  a collective goes over the ranks of its subgraph, sums by that one's wire and with scratch enough
 */
#include "runtime/verify.h"

#include "ops/collective.h"

#include <string.h>

bool ranges_meet(verify_range a, verify_range b) {
    return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

weft_status verify_broken(const program *p, weft_error *error, const char *rule, const weft_node *n,
                          const char *what) {
    char node[200];
    return error_set(error, WEFT_INTERNAL, "%s: graph %s, step %d, %s: %s", rule, p->graph->name, n->order,
                     node_show(n, node), what);
}

const weft_node *verify_wait_of(const weft_node *start, int *count) {
    const weft_node *found = NULL;
    *count = 0;
    for (const weft_node *n = start->graph->first; n; n = n->next)
        if (n->op == &weft_op_wait && n->in[0]->node == start) {
            found = n;
            ++*count;
        }
    return found;
}

bool verify_is_carried(const weft_node *n) {
    int waits;
    return n->op == &weft_op_all_gather && !verify_wait_of(n, &waits);
}

bool verify_sums_gradients(const weft_node *n) {
    if (n->op == &weft_op_reduce_scatter) return true;
    return n->op == &weft_op_all_reduce && n->variable && n->variable->kind == VARIABLE_SEGMENT;
}

/* ---- L3, L6 ---- */

static bool touches(const weft_node *n, verify_range busy) {
    verify_range r, work = {NULL, n->workspace_offset, n->workspace_offset + (int64_t)n->workspace_bytes};
    if (n->workspace_bytes && ranges_meet(work, busy)) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && verify_locate(n->in[i], &r) && ranges_meet(r, busy)) return true;
    for (int k = 0; k < n->n_out; k++)
        if (verify_locate(&n->out[k], &r) && ranges_meet(r, busy)) return true;
    return false;
}

/* The newest value of this rank's range: its update's, or on a rank without one what that would have waited for. */
static bool sends_update(const program *p, const weft_node *gather) {
    int64_t begin, end;
    verify_range r, own = {gather->variable, 0, 0};
    verify_own(p->plan, gather->variable, &begin, &end);
    own.begin = begin * 4;
    own.end = end * 4;
    const weft_node *last = NULL;
    for (const weft_node *n = p->graph->first; n != gather; n = n->next)
        if (n->op->writes & 1 && n->in[0] && verify_locate(n->in[0], &r) && ranges_meet(r, own)) last = n;
    const weft_node *sent = gather->in[0]->node;
    if (begin != end) return last && sent == last;
    return sent->op == &weft_op_wait && sent->in[0]->node->variable == gather->variable;
}

static weft_status check_gather(const program *p, weft_error *error, const weft_node *gather) {
    verify_range busy;
    if (!gather->variable || !gather->variable->shards || !sends_update(p, gather))
        return verify_broken(p, error, "L6", gather, "does not send what this rank has updated");
    if (!verify_is_carried(gather)) return WEFT_OK;
    verify_locate(&gather->out[0], &busy);
    for (const weft_node *n = gather->next; n; n = n->next)
        if (!node_is_silent(n) && touches(n, busy))
            return verify_broken(p, error, "L6", n, "touches a segment behind its all_gather");
    return WEFT_OK;
}

static weft_status check_quiet(const program *p, weft_error *error, const weft_node *start,
                               const weft_node *wait) {
    verify_range buffer, scratch = {start, 0, 0};
    verify_locate(&start->out[0], &buffer);
    if (start->n_out > 1) verify_locate(&start->out[1], &scratch);
    if (buffer.begin < 0 || scratch.begin < 0 || ranges_meet(buffer, scratch))
        return verify_broken(p, error, "L3", start, "its buffer and scratch overlap or have no place");
    for (const weft_node *n = start->next; n && n != wait; n = n->next)
        if (!node_is_silent(n) && (touches(n, buffer) || touches(n, scratch)))
            return verify_broken(p, error, "L3", n, "touches what a collective under way works on");
    return WEFT_OK;
}

/* ---- L10 ---- */

static bool goes_over_group(const program *p, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    if (a->group >= p->plan->n_subgraphs) return false;
    const subgraph *g = &p->plan->subgraphs[a->group];
    bool is_segment = n->op == &weft_op_all_gather || verify_sums_gradients(n);
    const char *home = is_segment ? n->variable->members[0]->path : a->path;
    return (!is_segment && strcmp(home, g->name) == 0) || verify_home(p->plan, home) == g;
}

static bool has_room(const program *p, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    if (n->op == &weft_op_all_gather) return n->n_out == 1;
    if (n->n_out != 2 || n->out[1].type.dtype != WEFT_U8 || type_elements(&n->out[1].type) != a->scratch)
        return false;
    weft_collective_kind kind = n->op == &weft_op_broadcast        ? WEFT_BROADCAST
                                : n->op == &weft_op_reduce_scatter ? WEFT_REDUCE_SCATTER
                                                                   : WEFT_ALL_REDUCE;
    size_t count = (size_t)type_elements(&n->out[0].type);
    return (size_t)a->scratch >= weft_collective_scratch(kind, n->out[0].type.dtype,
                                                         a->bf16 ? WEFT_BF16 : (weft_dtype)0, count,
                                                         p->plan->subgraphs[a->group].n_ranks);
}

static weft_status check_way(const program *p, weft_error *error, const weft_node *n) {
    const collective_attrs *a = n->attrs;
    bool is_gradient = verify_sums_gradients(n);
    if (!goes_over_group(p, n))
        return verify_broken(p, error, "L10", n, "goes over ranks of another subgraph");
    const ddp_attrs *ddp = &p->plan->subgraphs[a->group].ddp;
    if (a->bf16 != (is_gradient && ddp->bf16_wire) ||
        a->unordered != (is_gradient && p->plan->options.reduce == WEFT_REDUCE_FAST))
        return verify_broken(p, error, "L10", n, "sums in another way than its subgraph says");
    if (!has_room(p, n)) return verify_broken(p, error, "L10", n, "has not the scratch that it needs");
    return WEFT_OK;
}

/* ---- L1, L2 ---- */

static weft_status check_start(const program *p, weft_error *error, const weft_node *n, int64_t number) {
    int waits;
    const weft_node *wait = verify_wait_of(n, &waits);
    bool is_carried = n->op == &weft_op_all_gather && waits == 0;
    if (!is_carried && (waits != 1 || wait->order <= n->order))
        return verify_broken(p, error, "L1", n, "does not have one wait behind it");
    if (((const collective_attrs *)n->attrs)->order != number || number >= p->n_collectives)
        return verify_broken(p, error, "L2", n, "stands out of the order of collectives");
    weft_status status = check_way(p, error, n);
    if (!status && n->op == &weft_op_all_gather) status = check_gather(p, error, n);
    return status || is_carried ? status : check_quiet(p, error, n, wait);
}

static bool waits_well(const weft_node *wait) {
    const weft_node *start = wait->in[0]->node;
    if (!node_starts_collective(start) || wait->n_in != start->n_out) return false;
    for (int i = 0; i < wait->n_in; i++)
        if (wait->in[i] != &start->out[i]) return false;
    return true;
}

weft_status verify_lanes(const program *p, weft_error *error) {
    weft_status status = WEFT_OK;
    int64_t next = 0;
    for (const weft_node *n = p->graph->first; n && !status; n = n->next) {
        if (n->op == &weft_op_wait && !waits_well(n))
            return verify_broken(p, error, "L1", n, "waits for what is no collective");
        if (node_starts_collective(n)) status = check_start(p, error, n, next++);
    }
    if (!status && next != p->n_collectives)
        status = error_set(error, WEFT_INTERNAL, "L2: graph %s has %lld collectives and counts %d",
                           p->graph->name, (long long)next, p->n_collectives);
    return status;
}
