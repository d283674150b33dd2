/* call.c - what the row of an operator asks about a node: import.h. */
#include "interchange/onnx/import/import.h"

#include <math.h>

/* ---- operands ---- */

int onnx_operands(const onnx_call *c) {
    return c->node->n_in;
}

bool onnx_has(const onnx_call *c, int i) {
    return i < c->node->n_in && c->operands[i];
}

static void ask(onnx_call *c, int i) {
    if (i < 64) c->asked_operands |= (uint64_t)1 << i;
}

void onnx_pass_over(onnx_call *c, int i) {
    for (; i < c->node->n_in; i++) ask(c, i);
}

weft_value *onnx_in(onnx_call *c, int i) {
    ask(c, i);
    if (!onnx_has(c, i)) return NULL;
    return c->scratch_graph ? c->scratch[i] : onnx_value_in(c->in, c->operands[i], c->side);
}

const onnx_known *onnx_known_in(onnx_call *c, int i) {
    ask(c, i);
    return onnx_has(c, i) ? onnx_known_of(c->in, c->operands[i], c->side) : NULL;
}

weft_value *onnx_state(onnx_call *c, int i) {
    ask(c, i);
    onnx_value *v = onnx_has(c, i) ? c->operands[i] : NULL;
    if (!v || !v->initializer || v->initializer->type != ONNX_FLOAT || v->known[0] || c->scratch_graph)
        return NULL;
    return onnx_state_in(c->in, v, c->side);
}

/* Operand i, which must be known; NULL: left out, or an error stands. */
static const onnx_known *needed(onnx_call *c, int i, int *n) {
    const onnx_known *k = onnx_known_in(c, i);
    *n = 0;
    if (!onnx_has(c, i)) return NULL;
    if (!k) {
        onnx_refuse(
            c,
            "its operand %d, '%.80s', is computed when the graph runs; it must be known here: a constant, or "
            "what follows from constants and shapes",
            i, c->operands[i]->name);
        return NULL;
    }
    int64_t count = tensor_elements(&k->type);
    if (count > INT32_MAX) {
        onnx_refuse(c, "its operand %d, '%.80s', has %jd numbers", i, c->operands[i]->name, count);
        return NULL;
    }
    *n = (int)count;
    return k;
}

static const double *numbers_in(onnx_call *c, int i, int *n) {
    const onnx_known *k = needed(c, i, n);
    double *numbers = k ? kit_take(c->in->arena, (size_t)*n + 1, sizeof *numbers) : NULL;
    for (int j = 0; numbers && j < *n; j++) numbers[j] = onnx_known_number(k, j);
    return numbers;
}

/* Without its fraction; what 64 bits do not hold is cut to their range. */
static int64_t whole(double x) {
    const double most = 9223372036854774784.0; /* the largest double below 2^63 */
    return isnan(x) ? 0 : (int64_t)(x > most ? most : x < -most ? -most : x);
}

const int64_t *onnx_side_integers(onnx_call *c, int i, int *n) {
    const onnx_known *k = needed(c, i, n);
    int64_t *numbers = k ? kit_take(c->in->arena, (size_t)*n + 1, sizeof *numbers) : NULL;
    for (int j = 0; numbers && j < *n; j++)
        numbers[j] =
            k->type.dtype == WEFT_I64 ? ((const int64_t *)k->data)[j] : whole(onnx_known_number(k, j));
    return numbers;
}

/* Whether operand i is the same on both sides: a number of a node of the graph must not be that of one
 * batch. */
static bool is_one(onnx_call *c, int i) {
    const onnx_known *a = onnx_known_in(c, i);
    c->side = !c->side;
    const onnx_known *b = onnx_known_in(c, i);
    c->side = !c->side;
    if (c->scratch_graph || onnx_known_equal(a, b)) return true;
    return onnx_refuse(
        c, "its operand %d, '%.80s', depends on the batch: import with the batch as a number (axes)", i,
        c->operands[i]->name);
}

const double *onnx_numbers(onnx_call *c, int i, int *n) {
    const double *numbers = numbers_in(c, i, n);
    return numbers && is_one(c, i) ? numbers : NULL;
}

const int64_t *onnx_integers(onnx_call *c, int i, int *n) {
    const int64_t *numbers = onnx_side_integers(c, i, n);
    return numbers && is_one(c, i) ? numbers : NULL;
}

double onnx_number(onnx_call *c, int i, double otherwise) {
    int n;
    const double *numbers = onnx_numbers(c, i, &n);
    if (numbers && n != 1) onnx_refuse(c, "its operand %d has %d numbers; one is needed", i, n);
    return numbers && n == 1 ? *numbers : otherwise;
}

int64_t onnx_integer(onnx_call *c, int i, int64_t otherwise) {
    int n;
    const int64_t *numbers = onnx_integers(c, i, &n);
    if (numbers && n != 1) onnx_refuse(c, "its operand %d has %d numbers; one is needed", i, n);
    return numbers && n == 1 ? *numbers : otherwise;
}

/* What a length is, from what it is on both sides. */
static int64_t length_of(const importer *in, int64_t here, int64_t there, int side) {
    if (here == there)
        return here > ONNX_DEPENDS ? here : ONNX_DEPENDS + 1; /* no number of a file is WEFT_BATCH */
    return here == in->batch[side] && there == in->batch[!side] ? WEFT_BATCH : ONNX_DEPENDS;
}

const int64_t *onnx_lengths(onnx_call *c, int i, int *n) {
    int others;
    const int64_t *here = onnx_side_integers(c, i, n);
    if (!here || c->scratch_graph) return here;
    c->side = !c->side;
    const int64_t *there = onnx_side_integers(c, i, &others);
    c->side = !c->side;
    int64_t *lengths = there ? kit_take(c->in->arena, (size_t)*n + 1, sizeof *lengths) : NULL;
    if (there && others != *n) return onnx_refuse(c, "how many lengths it has depends on the batch"), NULL;
    for (int j = 0; lengths && j < *n; j++) lengths[j] = length_of(c->in, here[j], there[j], c->side);
    return lengths;
}

void onnx_shape_of(onnx_call *c, int i, int64_t lengths[WEFT_MAX_NDIM]) {
    weft_value *here = onnx_in(c, i), *there = here;
    if (!c->scratch_graph) {
        c->side = !c->side;
        there = onnx_in(c, i);
        c->side = !c->side;
    }
    for (int j = 0; j < weft_ndim(here); j++)
        lengths[j] = length_of(c->in, weft_dim(here, j), weft_dim(there, j), c->side);
}

/* ---- attributes ---- */

static const onnx_attribute *attribute_in(const onnx_attribute *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* An attribute of a call that a node of a function's body refers to: the call's, or the function's
 * default. */
static const onnx_attribute *referred(const onnx_frame *frame, const onnx_attribute *a) {
    for (; a && a->reference && frame && frame->call; frame = frame->call_frame) {
        const onnx_attribute *given =
            attribute_in(frame->call->attributes, frame->call->n_attributes, a->reference);
        a = given ? given
                  : attribute_in(frame->function->attributes, frame->function->n_attributes, a->reference);
    }
    return a && a->reference ? NULL : a;
}

const onnx_attribute *onnx_attribute_of(onnx_call *c, const char *name) {
    const onnx_attribute *a = attribute_in(c->node->attributes, c->node->n_attributes, name);
    if (!a) return NULL;
    ptrdiff_t place = a - c->node->attributes;
    if (place < 64) c->asked_attributes |= (uint64_t)1 << place;
    return referred(c->in->frame, a);
}

/* The attribute, which must be of a type, or have neither type nor value: then it is 0, or empty. */
static const onnx_attribute *typed(onnx_call *c, const char *name, onnx_attribute_type type) {
    const onnx_attribute *a = onnx_attribute_of(c, name);
    if (!a || !a->type || a->type == (int)type) return a;
    onnx_refuse(c, "its attribute '%.60s' has another type than the operator's", name);
    return NULL;
}

int64_t onnx_int(onnx_call *c, const char *name, int64_t otherwise) {
    const onnx_attribute *a = typed(c, name, ONNX_ATTRIBUTE_INT);
    return a ? a->integer : otherwise;
}

double onnx_real(onnx_call *c, const char *name, double otherwise) {
    const onnx_attribute *a = typed(c, name, ONNX_ATTRIBUTE_FLOAT);
    return a ? (double)a->real : otherwise;
}

const char *onnx_word(onnx_call *c, const char *name, const char *otherwise) {
    const onnx_attribute *a = typed(c, name, ONNX_ATTRIBUTE_STRING);
    return a ? a->text : otherwise;
}

const int64_t *onnx_ints(onnx_call *c, const char *name, int *n) {
    const onnx_attribute *a = typed(c, name, ONNX_ATTRIBUTE_INTS);
    *n = a ? a->n : 0;
    return a ? a->integers : NULL;
}

const float *onnx_reals(onnx_call *c, const char *name, int *n) {
    const onnx_attribute *a = typed(c, name, ONNX_ATTRIBUTE_FLOATS);
    *n = a ? a->n : 0;
    return a ? a->reals : NULL;
}

const int64_t *onnx_list(onnx_call *c, int i, const char *name, int *n) {
    return onnx_has(c, i) ? onnx_integers(c, i, n) : onnx_ints(c, name, n);
}

bool onnx_axes(onnx_call *c, const int64_t *list, int n, int ndim, int axes[WEFT_MAX_NDIM]) {
    if (n > WEFT_MAX_NDIM) return onnx_refuse(c, "it names %d axes; %d are the most", n, WEFT_MAX_NDIM);
    for (int i = 0; i < n; i++) {
        if (!onnx_axis_of(c, list ? list[i] : i, ndim, &axes[i])) return false;
        for (int j = 0; j < i; j++)
            if (axes[j] == axes[i]) return onnx_refuse(c, "it names axis %d twice", axes[i]);
    }
    return true;
}

/* ---- results ---- */

weft_graph *onnx_graph_of(const onnx_call *c) {
    return c->scratch_graph ? c->scratch_graph : c->in->graph[c->side];
}

bool onnx_trains(const onnx_call *c) {
    return weft_graph_mode(onnx_graph_of(c)) == WEFT_TRAIN;
}

bool onnx_wants(const onnx_call *c, int i) {
    return i < c->node->n_out && *c->node->out[i];
}

void onnx_result(onnx_call *c, int i, weft_value *value) {
    if (i < c->node->n_out) c->results[i] = value;
}

/* ---- what many rows need ---- */

weft_value *onnx_constant(onnx_call *c, weft_value *near, double number) {
    return near ? weft_constant(onnx_graph_of(c), weft_value_dtype(near), 0, NULL, number) : NULL;
}

bool onnx_axis_of(onnx_call *c, int64_t axis, int ndim, int *resolved) {
    *resolved = (int)(axis < 0 ? axis + ndim : axis);
    if (axis >= -ndim && axis < ndim) return true;
    return onnx_refuse(c, "axis %jd of a value with %d axes", axis, ndim);
}

weft_value *onnx_reshape(onnx_call *c, weft_value *x, int n, const int64_t *lengths) {
    int64_t shape[WEFT_MAX_NDIM];
    int open = 0;
    if (n > WEFT_MAX_NDIM) return onnx_refuse(c, "a shape of %d axes; %d are the most", n, WEFT_MAX_NDIM);
    for (int i = 0; i < n; i++) {
        shape[i] = lengths[i] == ONNX_DEPENDS ? -1 : lengths[i];
        open += shape[i] == -1;
    }
    if (open > 1) return onnx_refuse(c, "two lengths of the shape depend on the batch");
    return weft_reshape(x, n, shape);
}
