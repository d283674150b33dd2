/* verify_launches.c - proves a GPU program's launches: whatever two streams may do at once, they do not disturb each other.
 * Rules:
 *   G1   every node that puts work on a lane is in exactly one launch, of its kind, in the order of the schedule
 *   G2   two nodes on different lanes that touch the same bytes, one of them writing, are ordered: by an event
 *   G3   when a run has ended on the compute lane, every collective but carried gathers has ended too
 *   G4   a launch that touches a segment which a gather may still be filling waits for it
 *   G5   a launch waits only for one before it in the list (no run can block itself), and that one records an event
 */
#include "runtime/launches.h"
#include "runtime/verify.h"

static weft_status broken(const program *p, weft_error *error, const char *rule, int index,
                          const char *what) {
    const launch_entry *l = &p->launches[index];
    return error_set(error, WEFT_INTERNAL, "%s: graph %s, launch %d (%s, steps %d to %d): %s", rule,
                     p->graph->name, index, launch_name(l->kind), l->first, l->last, what);
}

static bool is_on_communication(const launch_entry *l) {
    return l->kind == LAUNCH_COLLECTIVE;
}

/* The launch that holds a node, by its own count; *times: how many do. */
static int find_launch(const program *p, const weft_node *n, launch_kind kind, int *times) {
    int found = -1;
    *times = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const launch_entry *l = &p->launches[i];
        bool lane = (kind == LAUNCH_COLLECTIVE) == is_on_communication(l);
        if (!lane || !l->n_nodes || n->order < l->first || n->order > l->last) continue;
        if (l->kind == kind) found = i;
        ++*times;
    }
    return found;
}

static weft_status check_nodes(const program *p, weft_error *error) {
    int in_launches = 0, nodes = 0, times;
    for (int i = 0; i < p->n_launches; i++) in_launches += p->launches[i].n_nodes;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind)) continue;
        nodes++;
        if (find_launch(p, n, kind, &times) < 0 || times != 1)
            return verify_broken(p, error, "G1", n, "it is not in exactly one launch of its kind");
    }
    if (nodes == in_launches) return WEFT_OK;
    return error_set(error, WEFT_INTERNAL, "G1: graph %s: %d nodes put work on lanes, its launches hold %d",
                     p->graph->name, nodes, in_launches);
}

static weft_status check_waits(const program *p, weft_error *error) {
    for (int i = 0; i < p->n_launches; i++) {
        const launch_entry *l = &p->launches[i];
        if (l->waits < 0) continue;
        if (l->waits >= i) return broken(p, error, "G5", i, "it waits for one that is started later");
        if (!p->launches[l->waits].records)
            return broken(p, error, "G5", i, "it waits for one that records no event");
        if (is_on_communication(l) == is_on_communication(&p->launches[l->waits]))
            return broken(p, error, "G5", i, "it waits for one of its own lane");
    }
    return WEFT_OK;
}

/* Whether launch `from` has ended when `to`, behind it on the other lane, begins: some launch of to's lane, up to it, waits
 * for `from` or for one behind it on from's lane. */
static bool is_ordered(const program *p, int from, int to) {
    bool lane = is_on_communication(&p->launches[to]);
    for (int i = 0; i <= to; i++)
        if (is_on_communication(&p->launches[i]) == lane && p->launches[i].waits >= from) return true;
    return false;
}

static bool shares_bytes(const weft_value *a, const weft_value *b) {
    verify_range ra, rb;
    return a && b && verify_locate(a, &ra) && verify_locate(b, &rb) && ranges_meet(ra, rb);
}

/* Whether a collective and a node of the compute lane touch the same bytes, and one writes: a collective writes its
 * results (in place); a node its results, its workspace and the operands that its op declares. */
static bool conflict(const weft_node *collective, const weft_node *n) {
    verify_range work = {NULL, n->workspace_offset, n->workspace_offset + (int64_t)n->workspace_bytes}, r;
    for (int k = 0; k < collective->n_out; k++) {
        const weft_value *v = &collective->out[k];
        if (n->workspace_bytes && verify_locate(v, &r) && ranges_meet(r, work)) return true;
        for (int i = 0; i < n->n_in; i++)
            if (shares_bytes(v, n->in[i])) return true;
        for (int i = 0; i < n->n_out; i++)
            if (shares_bytes(v, &n->out[i])) return true;
    }
    return false;
}

static weft_status check_conflicts(const program *p, weft_error *error) {
    int times;
    for (const weft_node *c = p->graph->first; c; c = c->next) {
        if (!node_starts_collective(c)) continue;
        int at = find_launch(p, c, LAUNCH_COLLECTIVE, &times);
        for (const weft_node *n = p->graph->first; n; n = n->next) {
            launch_kind kind;
            if (n == c || !launch_kind_of(n, &kind) || kind == LAUNCH_COLLECTIVE || !conflict(c, n)) continue;
            int other = find_launch(p, n, kind, &times);
            int first = n->order < c->order ? other : at, second = n->order < c->order ? at : other;
            if (!is_ordered(p, first, second))
                return verify_broken(p, error, "G2", n,
                                     "no event orders it and a collective on the same bytes");
        }
    }
    return WEFT_OK;
}

static weft_status check_end(const program *p, weft_error *error) {
    int times, awaited = -1;
    for (int i = 0; i < p->n_launches; i++)
        if (!is_on_communication(&p->launches[i]) && p->launches[i].waits > awaited)
            awaited = p->launches[i].waits;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (!node_starts_collective(n) || verify_is_carried(n)) continue;
        if (find_launch(p, n, LAUNCH_COLLECTIVE, &times) > awaited)
            return verify_broken(p, error, "G3", n, "the run may end before it does");
    }
    return WEFT_OK;
}

static const weft_variable *filled_segment(const weft_value *v) {
    while (v && v->base) v = v->base;
    const weft_variable *s = v ? v->variable : NULL;
    if (s && s->segment && variable_is_part(s)) s = s->segment;
    return s && s->kind == VARIABLE_SEGMENT && s->shards ? s : NULL;
}

static bool is_awaited(const program *p, const weft_variable *s, int upto) {
    for (int i = 0; i <= upto; i++)
        for (int k = 0; k < p->launches[i].n_carried && !is_on_communication(&p->launches[i]); k++)
            if (p->launches[i].carried[k] == s) return true;
    return false;
}

static weft_status check_carried(const program *p, weft_error *error) {
    int times;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        launch_kind kind;
        if (!launch_kind_of(n, &kind) || kind == LAUNCH_COLLECTIVE) continue;
        int at = find_launch(p, n, kind, &times);
        for (int i = 0; i < n->n_in + n->n_out; i++) {
            const weft_variable *s = filled_segment(i < n->n_in ? n->in[i] : &n->out[i - n->n_in]);
            if (s && !is_awaited(p, s, at))
                return verify_broken(p, error, "G4", n, "a gather may still be filling what it touches");
        }
    }
    return WEFT_OK;
}

weft_status verify_launches(const program *p, weft_error *error) {
    if (p->plan->options.device == WEFT_DEVICE_CPU) return WEFT_OK;
    weft_status status = check_nodes(p, error);
    if (!status) status = check_waits(p, error);
    if (!status) status = check_end(p, error);
    if (!status) status = check_conflicts(p, error);
    return status ? status : check_carried(p, error);
}
