/* verify_lanes.c - proves what concerns the communication lane of a scheduled program. The lane runs its collectives
 * one after the other, beside the compute lane; `wait` is the only event between them. Rules:
 *   L1  a wait names the results of one sum before it, and every sum has exactly one wait; a broadcast has none
 *   L2  collectives stand in the order of their numbers, 0, 1, 2 ...: the same on all ranks
 *   L3  while a collective is under way, from its start to its wait, no other node touches its buffer or scratch
 *   L4  every gradient is in one bucket, its own segment's, and a segment holds parameters of one subgraph and type
 *   L6  no node of the program touches a segment behind its broadcast, which outlasts the run
 *   L5  in a world of several ranks an update reads its segment's gradients behind that segment's wait
 */
#include "runtime/verify.h"

#include "ops/collective.h"
#include "ops/update.h"

#include <string.h>

extern const weft_op weft_op_bucket;

bool ranges_meet(verify_range a, verify_range b) {
    return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

weft_status verify_broken(const program *p, weft_error *error, const char *rule, const weft_node *n,
                          const char *what) {
    char node[200];
    return error_set(error, WEFT_INTERNAL, "%s: graph %s, step %d, %s: %s", rule, p->graph->name, n->order,
                     node_show(n, node), what);
}

static const weft_node *wait_of(const weft_node *start, int *count) {
    const weft_node *found = NULL;
    *count = 0;
    for (const weft_node *n = start->graph->first; n; n = n->next)
        if (n->op == &weft_op_wait && n->in[0]->node == start) {
            found = n;
            ++*count;
        }
    return found;
}

/* ---- L3 ---- */

static bool touches(const weft_node *n, verify_range busy) {
    verify_range r, work = {NULL, n->workspace_offset, n->workspace_offset + (int64_t)n->workspace_bytes};
    if (n->workspace_bytes && ranges_meet(work, busy)) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && verify_locate(n->in[i], &r) && ranges_meet(r, busy)) return true;
    for (int k = 0; k < n->n_out; k++)
        if (verify_locate(&n->out[k], &r) && ranges_meet(r, busy)) return true;
    return false;
}

static weft_status check_carried(const program *p, weft_error *error, const weft_node *broadcast) {
    verify_range busy;
    verify_locate(&broadcast->out[0], &busy);
    for (const weft_node *n = broadcast->next; n; n = n->next)
        if (!node_is_silent(n) && touches(n, busy))
            return verify_broken(p, error, "L6", n, "touches a segment behind its broadcast");
    return WEFT_OK;
}

static weft_status check_quiet(const program *p, weft_error *error, const weft_node *start,
                               const weft_node *wait) {
    verify_range buffer, scratch;
    verify_locate(&start->out[0], &buffer);
    verify_locate(&start->out[1], &scratch);
    if (buffer.begin < 0 || scratch.begin < 0 || ranges_meet(buffer, scratch))
        return verify_broken(p, error, "L3", start, "its buffer and scratch overlap or have no place");
    for (const weft_node *n = start->next; n && n != wait; n = n->next)
        if (!node_is_silent(n) && (touches(n, buffer) || touches(n, scratch)))
            return verify_broken(p, error, "L3", n, "touches what a collective under way works on");
    return WEFT_OK;
}

/* ---- L1, L2 ---- */

static weft_status check_collectives(const program *p, weft_error *error) {
    int64_t next = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        int waits;
        if (n->op == &weft_op_wait &&
            (!node_starts_collective(n->in[0]->node) || n->in[1] != &n->in[0]->node->out[1]))
            return verify_broken(p, error, "L1", n, "waits for what is no collective");
        if (!node_starts_collective(n)) continue;
        const weft_node *wait = wait_of(n, &waits);
        bool is_carried = n->op == &weft_op_broadcast;
        if (is_carried ? waits != 0 : waits != 1 || wait->order <= n->order)
            return verify_broken(p, error, "L1", n, "does not have one wait behind it");
        if (((const collective_attrs *)n->attrs)->order != next++)
            return verify_broken(p, error, "L2", n, "stands out of the order of collectives");
        weft_status status = is_carried ? check_carried(p, error, n) : check_quiet(p, error, n, wait);
        if (status) return status;
    }
    return WEFT_OK;
}

/* ---- L4 ---- */

static size_t subgraph_length(const weft_variable *v) {
    return strcspn(v->path, "/");
}

static weft_status check_bucket(const program *p, weft_error *error, const weft_node *b) {
    const weft_variable *s = b->variable;
    for (const weft_node *n = p->graph->first; n != b; n = n->next)
        if (n->op == b->op && n->variable == s)
            return verify_broken(p, error, "L4", b, "its segment has two buckets");
    if (!s || s->kind != VARIABLE_SEGMENT || b->n_in != s->n_members)
        return verify_broken(p, error, "L4", b, "its operands are not its segment's members");
    for (int i = 0; i < b->n_in; i++) {
        const weft_variable *v = s->members[i], *first = s->members[0];
        if (v->segment != s || !type_equal(&b->in[i]->type, &v->type))
            return verify_broken(p, error, "L4", b,
                                 "a member belongs to another segment or has another shape");
        if (subgraph_length(v) != subgraph_length(first) ||
            strncmp(v->path, first->path, subgraph_length(v)) || v->type.dtype != first->type.dtype)
            return verify_broken(p, error, "L4", b, "its segment mixes subgraphs or types");
        if (i && v->offset < s->members[i - 1]->offset + type_elements(&s->members[i - 1]->type))
            return verify_broken(p, error, "L4", b, "members overlap");
    }
    return WEFT_OK;
}

/* ---- L5 ---- */

static bool is_update(const weft_node *n) {
    if (n->op->flags & OP_COMMUNICATES) return false;
    return n->op->writes && n->n_in > 1 && n->in[0] && n->in[0]->variable &&
           n->in[0]->variable->kind == VARIABLE_SEGMENT;
}

static weft_status check_update(const program *p, weft_error *error, const weft_node *n) {
    const weft_node *from = n->in[1]->node;
    if (p->plan->options.world == 1) return WEFT_OK;
    if (from->op != &weft_op_wait || from->in[0]->node->variable != n->in[0]->variable)
        return verify_broken(p, error, "L5", n, "does not wait for the sum of its own gradients");
    return WEFT_OK;
}

weft_status verify_lanes(const program *p, weft_error *error) {
    weft_status status = check_collectives(p, error);
    for (const weft_node *n = p->graph->first; n && !status; n = n->next) {
        if (n->op == &weft_op_bucket) status = check_bucket(p, error, n);
        if (is_update(n)) status = check_update(p, error, n);
    }
    return status;
}
