/* loops.c - Loop and Scan, whose bodies are built once for each step. How many steps there are must be
 * known. */
#include "interchange/onnx/operators/families.h"

/* ---- values on both sides ---- */

static onnx_value *value_new(onnx_call *c) {
    onnx_value *v = kit_take(c->in->arena, 1, sizeof *v);
    if (v)
        v->name = c->node->op;
    else
        kit_no_memory(c->in->error, c->node->op);
    return v;
}

/* A scalar that is known, of i64 or bool. */
static onnx_value *scalar(onnx_call *c, weft_dtype dtype, int64_t number) {
    tensor type = tensor_of(dtype, 0, NULL);
    onnx_value *v = value_new(c);
    onnx_known *k = v ? onnx_known_new(c->in, &type) : NULL;
    if (!k) return NULL;
    if (dtype == WEFT_BOOL)
        *(uint8_t *)k->data = number != 0;
    else
        *(int64_t *)k->data = number;
    v->known[0] = v->known[1] = k;
    return v;
}

/* Whether a value is known and no parameter. */
static bool is_known(onnx_call *c, onnx_value *v) {
    return !onnx_is_parameter(v) && onnx_known_of(c->in, v, 0) && onnx_known_of(c->in, v, 1);
}

/* The type of a value on a side; false after an error. */
static bool type_of(onnx_call *c, onnx_value *v, int side, tensor *type) {
    const onnx_known *k = is_known(c, v) ? v->known[side] : NULL;
    weft_value *x = k ? NULL : onnx_value_in(c->in, v, side);
    if (k) *type = k->type;
    if (k || !x) return k;
    *type = (tensor){.dtype = weft_value_dtype(x), .ndim = weft_ndim(x)};
    for (int i = 0; i < type->ndim; i++) type->shape[i] = weft_dim(x, i);
    return true;
}

/* Copies element i of `axis` from or into a tensor that has the axis. */
static void copy_part(const onnx_known *whole, const onnx_known *part, int axis, int64_t i, bool is_into) {
    int64_t before = 1;
    size_t bytes = weft_dtype_bytes(whole->type.dtype);
    for (int j = 0; j < axis; j++) before *= whole->type.shape[j];
    for (int j = axis + 1; j < whole->type.ndim; j++) bytes *= (size_t)whole->type.shape[j];
    for (int64_t j = 0; j < before; j++) {
        char *in_whole = (char *)whole->data + (size_t)(j * whole->type.shape[axis] + i) * bytes;
        char *in_part = (char *)part->data + (size_t)j * bytes;
        memcpy(is_into ? in_whole : in_part, is_into ? in_part : in_whole, bytes);
    }
}

static const onnx_known *part_of_known(onnx_call *c, const onnx_known *whole, int axis, int64_t i) {
    tensor type = {.dtype = whole->type.dtype, .ndim = whole->type.ndim - 1};
    for (int j = 0; j < type.ndim; j++) type.shape[j] = whole->type.shape[j + (j >= axis)];
    type = tensor_of(type.dtype, type.ndim, type.shape);
    onnx_known *part = onnx_known_new(c->in, &type);
    if (part) copy_part(whole, part, axis, i, false);
    return part;
}

/* Element i of `axis`, without the axis. */
static onnx_value *part_of(onnx_call *c, onnx_value *whole, int axis, int64_t i) {
    onnx_value *v = value_new(c);
    bool is_number = v && is_known(c, whole);
    for (int side = 0; v && side < SIDES; side++) {
        bool is_one = side && whole->known[0] == whole->known[1];
        if (is_number)
            v->known[side] = is_one ? v->known[0] : part_of_known(c, whole->known[side], axis, i);
        else
            v->value[side] =
                weft_squeeze(weft_slice(onnx_value_in(c->in, whole, side), axis, i, i + 1), axis);
        if (onnx_failed(c->in, side, c)) return NULL;
    }
    return v;
}

static const onnx_known *stack_of_known(onnx_call *c, int64_t n, onnx_value **parts, int axis, int side) {
    tensor type = parts[0]->known[side]->type;
    int64_t shape[WEFT_MAX_NDIM];
    for (int j = 0; j <= type.ndim; j++) shape[j] = j == axis ? n : type.shape[j - (j > axis)];
    tensor whole_type = tensor_of(type.dtype, type.ndim + 1, shape);
    onnx_known *whole = onnx_known_new(c->in, &whole_type);
    for (int64_t i = 0; whole && i < n; i++) {
        const onnx_known *part = parts[i]->known[side];
        bool fits = part->type.dtype == type.dtype && part->type.ndim == type.ndim &&
                    !memcmp(part->type.shape, type.shape, sizeof *shape * (size_t)type.ndim);
        if (!fits) return onnx_refuse(c, "the shape of what it collects changes from step to step"), NULL;
        copy_part(whole, part, axis, i, true);
    }
    return whole;
}

static weft_value *stack_in_graph(onnx_call *c, int64_t n, onnx_value **parts, int axis, int side) {
    weft_value **values = kit_take(c->in->arena, (size_t)n, sizeof *values);
    if (!values) return kit_no_memory(c->in->error, c->node->op), NULL;
    for (int64_t i = 0; i < n; i++) values[i] = onnx_value_in(c->in, parts[i], side);
    return weft_stack((int)n, values, axis);
}

/* What the steps made, along a new axis. */
static onnx_value *stack_of(onnx_call *c, int64_t n, onnx_value **parts, int64_t axis) {
    onnx_value *v = value_new(c);
    tensor type;
    int at;
    bool is_number = true, is_one = true; /* the same on both sides */
    if (n < 1) return onnx_refuse(c, "it has no steps, so what it collects has no shape"), NULL;
    if (!v || !type_of(c, parts[0], 0, &type) || !onnx_axis_of(c, axis, type.ndim + 1, &at)) return NULL;
    if (type.ndim == WEFT_MAX_NDIM) return onnx_refuse(c, "what it collects has too many axes"), NULL;
    for (int64_t i = 0; i < n; i++) {
        is_number = is_number && is_known(c, parts[i]);
        is_one = is_one && parts[i]->known[0] == parts[i]->known[1];
    }
    for (int side = 0; side < SIDES; side++) {
        if (is_number)
            v->known[side] = side && is_one ? v->known[0] : stack_of_known(c, n, parts, at, side);
        else
            v->value[side] = stack_in_graph(c, n, parts, at, side);
        if (onnx_failed(c->in, side, c)) return NULL;
    }
    return v;
}

/* ---- what both have: values that a step takes from the one before it, and values that are collected ---- */

typedef struct loop {
    const onnx_graph *body;
    int carried, collected;
    onnx_value **state;  /* carried: what they are now */
    onnx_value **inputs; /* of the body */
    onnx_value **outputs;
    int64_t steps;
    onnx_value **made; /* steps x collected */
} loop;

static bool loop_new(onnx_call *c, loop *l) {
    kit_arena *arena = c->in->arena;
    l->state = kit_take(arena, (size_t)l->carried + 1, sizeof *l->state);
    l->inputs = kit_take(arena, (size_t)l->body->n_inputs + 1, sizeof *l->inputs);
    l->outputs = kit_take(arena, (size_t)l->body->n_outputs + 1, sizeof *l->outputs);
    if (l->state && l->inputs && l->outputs) return true;
    return kit_no_memory(c->in->error, c->node->op), false;
}

/* Operands from `first` on as what is carried. */
static bool take_state(onnx_call *c, loop *l, int first) {
    for (int i = 0; i < l->carried; i++) {
        c->asked_operands |= first + i < 64 ? (uint64_t)1 << (first + i) : 0;
        l->state[i] = onnx_has(c, first + i) ? c->operands[first + i] : NULL;
        if (!l->state[i]) return onnx_refuse(c, "its operand %d is left out", first + i);
    }
    return true;
}

/* One step, whose inputs are set. `first`: the output that is the first one carried. */
static bool take_step(onnx_call *c, loop *l, int first) {
    if (!onnx_body(c, l->body, l->inputs, l->outputs)) return false;
    size_t room = ((size_t)l->steps + 1) * (size_t)l->collected + 1;
    onnx_value **made = kit_grow(c->in->arena, l->made, room, sizeof *made);
    if (!made) return kit_no_memory(c->in->error, c->node->op), false;
    l->made = made;
    for (int i = 0; i < l->carried; i++) l->state[i] = l->outputs[first + i];
    for (int i = 0; i < l->collected; i++)
        l->made[l->steps * l->collected + i] = l->outputs[first + l->carried + i];
    l->steps++;
    return true;
}

/* What was collected by output i, in the order of the steps or against it. */
static onnx_value *collected(onnx_call *c, const loop *l, int i, int64_t axis, bool reverse) {
    onnx_value **parts = kit_take(c->in->arena, (size_t)l->steps + 1, sizeof *parts);
    if (!parts) return kit_no_memory(c->in->error, c->node->op), NULL;
    for (int64_t t = 0; t < l->steps; t++)
        parts[reverse ? l->steps - 1 - t : t] = l->made[t * l->collected + i];
    return stack_of(c, l->steps, parts, axis);
}

static bool give_state(onnx_call *c, const loop *l) {
    for (int i = 0; i < l->carried; i++)
        if (!onnx_result_is(c, i, l->state[i])) return false;
    return true;
}

/* ---- Scan: steps along an axis of its inputs ---- */

typedef struct scan {
    loop l;
    int scanned;                                                /* inputs with an element for each step */
    const int64_t *axes, *backwards, *out_axes, *out_backwards; /* NULL: zeros */
    int64_t length;
} scan;

/* An attribute with n numbers; *list is NULL where it is not given. */
static bool numbers(onnx_call *c, const char *name, int n, const int64_t **list) {
    int given;
    *list = onnx_ints(c, name, &given);
    return !*list || given == n || onnx_refuse(c, "%s has %d numbers for %d values", name, given, n);
}

static bool take_scan(onnx_call *c, scan *s) {
    int n = onnx_operands(c);
    int64_t scanned = onnx_int(c, "num_scan_inputs", 0);
    *s = (scan){.l = {.body = onnx_body_of(c, "body")}};
    if (!s->l.body) return false;
    if (scanned < 1 || scanned > n) return onnx_refuse(c, "num_scan_inputs is %jd", scanned);
    s->scanned = (int)scanned;
    s->l.carried = n - s->scanned;
    s->l.collected = s->l.body->n_outputs - s->l.carried;
    if (s->l.body->n_inputs != n || s->l.collected < 0 || c->node->n_out > s->l.body->n_outputs)
        return onnx_refuse(c, "its graph has %d inputs and %d outputs for %d and %d of the node",
                           s->l.body->n_inputs, s->l.body->n_outputs, n, c->node->n_out);
    return loop_new(c, &s->l) && take_state(c, &s->l, 0) &&
           numbers(c, "scan_input_axes", s->scanned, &s->axes) &&
           numbers(c, "scan_input_directions", s->scanned, &s->backwards) &&
           numbers(c, "scan_output_axes", s->l.collected, &s->out_axes) &&
           numbers(c, "scan_output_directions", s->l.collected, &s->out_backwards);
}

/* The axis of scanned input i, and how many steps it has: as many as the others. */
static bool take_scanned(onnx_call *c, scan *s, int i, int *axis) {
    tensor here, there;
    int place = s->l.carried + i;
    c->asked_operands |= place < 64 ? (uint64_t)1 << place : 0;
    if (!onnx_has(c, place)) return onnx_refuse(c, "its operand %d is left out", place);
    onnx_value *v = c->operands[place];
    if (!type_of(c, v, 0, &here) || !type_of(c, v, 1, &there)) return false;
    if (!onnx_axis_of(c, s->axes ? s->axes[i] : 0, here.ndim, axis)) return false;
    int64_t n = here.shape[*axis];
    if (n != there.shape[*axis]) return onnx_refuse(c, "how many steps it has depends on the batch");
    if (i && n != s->length) return onnx_refuse(c, "its inputs have %jd and %jd steps", s->length, n);
    s->length = n;
    return true;
}

static bool scan_step(onnx_call *c, scan *s, const int *axis, int64_t t) {
    loop *l = &s->l;
    for (int i = 0; i < l->carried; i++) l->inputs[i] = l->state[i];
    for (int i = 0; i < s->scanned; i++) {
        int64_t at = s->backwards && s->backwards[i] ? s->length - 1 - t : t;
        onnx_value *part = part_of(c, c->operands[l->carried + i], axis[i], at);
        if (!part) return false;
        l->inputs[l->carried + i] = part;
    }
    return take_step(c, l, 0);
}

bool onnx_scan(onnx_call *c) {
    scan s;
    if (!take_scan(c, &s)) return false;
    int *axis = kit_take(c->in->arena, (size_t)s.scanned, sizeof *axis);
    if (!axis) return kit_no_memory(c->in->error, "Scan"), false;
    for (int i = 0; i < s.scanned; i++)
        if (!take_scanned(c, &s, i, &axis[i])) return false;
    for (int64_t t = 0; t < s.length; t++)
        if (!scan_step(c, &s, axis, t)) return false;
    for (int i = 0; i < s.l.collected; i++) {
        int place = s.l.carried + i;
        if (!onnx_wants(c, place)) continue;
        bool reverse = s.out_backwards && s.out_backwards[i];
        onnx_value *all = collected(c, &s.l, i, s.out_axes ? s.out_axes[i] : 0, reverse);
        if (!all || !onnx_result_is(c, place, all)) return false;
    }
    return give_state(c, &s.l);
}

/* ---- Loop: as many steps as a number says, while a condition holds ---- */

enum { TRIPS, CONDITION, FIRST_CARRIED };

/* Whether a condition holds; it must be known and the same for every batch. */
static bool holds(onnx_call *c, onnx_value *v, bool *is_true) {
    tensor type;
    if (!is_known(c, v)) return onnx_refuse(c, "whether it continues is computed when the graph runs");
    if (!type_of(c, v, 0, &type)) return false;
    if (type.dtype != WEFT_BOOL || tensor_elements(&type) != 1)
        return onnx_refuse(c, "its condition is not one bool");
    bool here = *(uint8_t *)v->known[0]->data, there = *(uint8_t *)v->known[1]->data;
    if (here != there) return onnx_refuse(c, "how many steps it has depends on the batch");
    *is_true = here;
    return true;
}

/* How many steps it has at most; false after an error. */
static bool take_trips(onnx_call *c, int64_t *trips) {
    *trips = INT64_MAX;
    for (c->side = 0; c->side < SIDES; c->side++) {
        int64_t n = onnx_integer(c, TRIPS, INT64_MAX);
        if (c->in->error->status) return false;
        if (c->side && n != *trips) return onnx_refuse(c, "how many steps it has depends on the batch");
        *trips = n;
    }
    c->side = 0;
    return true;
}

static bool take_loop(onnx_call *c, loop *l) {
    *l = (loop){.body = onnx_body_of(c, "body")};
    if (!l->body) return false;
    l->carried = onnx_operands(c) > FIRST_CARRIED ? onnx_operands(c) - FIRST_CARRIED : 0;
    l->collected = l->body->n_outputs - 1 - l->carried;
    if (l->body->n_inputs != l->carried + 2 || l->collected < 0 || c->node->n_out > l->body->n_outputs - 1)
        return onnx_refuse(c, "its graph has %d inputs and %d outputs for %d and %d of the node",
                           l->body->n_inputs, l->body->n_outputs, onnx_operands(c), c->node->n_out);
    return loop_new(c, l) && take_state(c, l, FIRST_CARRIED);
}

/* All steps. Without an operand for the condition, what the body says of it has no meaning. */
static bool run_loop(onnx_call *c, loop *l, int64_t trips) {
    int n;
    bool has_condition = onnx_has(c, CONDITION), is_true = true;
    onnx_value *condition = has_condition ? c->operands[CONDITION] : scalar(c, WEFT_BOOL, 1);
    onnx_integers(c, CONDITION, &n); /* names it where it is not known */
    if (!condition || c->in->error->status || (has_condition && !holds(c, condition, &is_true))) return false;
    if (trips == INT64_MAX && !has_condition) return onnx_refuse(c, "it has no end");
    for (int64_t t = 0; t < trips && is_true; t++) {
        l->inputs[0] = scalar(c, WEFT_I64, t);
        l->inputs[1] = condition;
        if (!l->inputs[0]) return false;
        for (int i = 0; i < l->carried; i++) l->inputs[2 + i] = l->state[i];
        if (!take_step(c, l, 1)) return false;
        if (has_condition) condition = l->outputs[0];
        if (has_condition && t + 1 < trips && !holds(c, condition, &is_true)) return false;
    }
    return true;
}

bool onnx_loop(onnx_call *c) {
    loop l;
    int64_t trips;
    if (!take_loop(c, &l) || !take_trips(c, &trips) || !run_loop(c, &l, trips)) return false;
    for (int i = 0; i < l.collected; i++) {
        if (!onnx_wants(c, l.carried + i)) continue;
        onnx_value *all = collected(c, &l, i, 0, false);
        if (!all || !onnx_result_is(c, l.carried + i, all)) return false;
    }
    return give_state(c, &l);
}
