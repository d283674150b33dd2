/* blocks.c - what the row of an op makes: nodes of ONNX and initializers. See export.h. */
#include "interchange/onnx/export/export.h"

#include "runtime/data/convert.h"

static void *take_room(export_call *c, size_t count, size_t width) {
    void *made = kit_take(c->e->arena, count ? count : 1, width);
    if (!made && !c->e->error->status) kit_no_memory(c->e->error, c->e->path);
    return made;
}

/* ---- nodes ---- */

edge *export_new(export_call *c, const char *op, int n_in, edge *const *in, int n_out) {
    export_node *n = take_room(c, 1, sizeof *n);
    if (!n) return NULL;
    *n = (export_node){.before = c->e->last, .op = op, .scope = c->about.scope, .n_in = n_in, .n_out = n_out};
    n->in = take_room(c, (size_t)n_in, sizeof *n->in);
    n->out = take_room(c, (size_t)n_out, sizeof *n->out);
    if (!n->in || !n->out) return NULL;
    for (int i = 0; i < n_in; i++) n->in[i] = in[i];
    for (int i = 0; i < n_out; i++) n->out[i] = (edge){.from = n, .index = i};
    *(c->e->last ? &c->e->last->next : &c->e->first) = n;
    c->e->last = n;
    return n->out;
}

edge *export_1(export_call *c, const char *op, edge *a) {
    return export_new(c, op, 1, &a, 1);
}

edge *export_2(export_call *c, const char *op, edge *a, edge *b) {
    return export_new(c, op, 2, (edge *[]){a, b}, 1);
}

edge *export_3(export_call *c, const char *op, edge *a, edge *b, edge *d) {
    return export_new(c, op, 3, (edge *[]){a, b, d}, 1);
}

edge *export_out(edge *first, int i) {
    return first ? &first->from->out[i] : NULL;
}

/* At the end of the list. */
static export_attribute *add_attribute(export_call *c, edge *e, const char *name, onnx_attribute_type type) {
    export_attribute *a = e ? take_room(c, 1, sizeof *a) : NULL, **end = e ? &e->from->attributes : NULL;
    if (!a) return NULL;
    *a = (export_attribute){.name = name, .type = type};
    while (*end) end = &(*end)->next;
    return *end = a;
}

edge *with_ints(export_call *c, edge *e, const char *name, int n, const int64_t *values) {
    export_attribute *a = add_attribute(c, e, name, ONNX_ATTRIBUTE_INTS);
    int64_t *copy = a ? take_room(c, (size_t)n, sizeof *copy) : NULL;
    if (!copy) return NULL;
    for (int i = 0; i < n; i++) copy[i] = values[i];
    a->n = n;
    a->integers = copy;
    return e;
}

edge *with_int(export_call *c, edge *e, const char *name, int64_t value) {
    if (!with_ints(c, e, name, 1, &value)) return NULL;
    export_attribute *a = e->from->attributes;
    while (a->next) a = a->next;
    a->type = ONNX_ATTRIBUTE_INT;
    return e;
}

edge *with_real(export_call *c, edge *e, const char *name, double value) {
    export_attribute *a = add_attribute(c, e, name, ONNX_ATTRIBUTE_FLOAT);
    if (a) a->real = (float)value;
    return a ? e : NULL;
}

edge *with_text(export_call *c, edge *e, const char *name, const char *text) {
    export_attribute *a = add_attribute(c, e, name, ONNX_ATTRIBUTE_STRING);
    if (a) a->text = text;
    return a ? e : NULL;
}

edge *with_list(export_call *c, edge *e, const char *name, const char *text) {
    export_attribute *a = add_attribute(c, e, name, ONNX_ATTRIBUTE_STRINGS);
    if (a) a->text = text;
    return a ? e : NULL;
}

/* ---- initializers ---- */

typedef struct known_constant {
    struct known_constant *next;
    uint64_t hash;
    edge *is;
} known_constant;

static bool are_equal(const edge *e, const tensor *type, const void *data) {
    if (e->type.dtype != type->dtype || e->type.ndim != type->ndim) return false;
    for (int i = 0; i < type->ndim; i++)
        if (e->type.shape[i] != type->shape[i]) return false;
    return !memcmp(e->data, data, tensor_bytes(type));
}

static edge *new_constant(export_call *c, const tensor *type, const void *data) {
    size_t bytes = tensor_bytes(type);
    edge *made = take_room(c, 1, sizeof *made);
    void *copy = made ? take_room(c, bytes, 1) : NULL;
    if (!copy) return NULL;
    memcpy(copy, data, bytes);
    *made = (edge){.type = *type, .data = copy};
    *c->e->constants_end = made;
    c->e->constants_end = &made->next;
    return made;
}

edge *export_constant(export_call *c, weft_dtype dtype, int ndim, const int64_t *shape, const void *data) {
    tensor type = tensor_of(dtype, ndim, shape);
    uint64_t hash = kit_hash(data, tensor_bytes(&type), 0);
    known_constant **list = &c->e->known[hash % EXPORT_LISTS];
    for (known_constant *k = *list; k; k = k->next)
        if (k->hash == hash && are_equal(k->is, &type, data)) return k->is;
    known_constant *k = take_room(c, 1, sizeof *k);
    edge *made = k ? new_constant(c, &type, data) : NULL;
    if (!made) return NULL;
    *k = (known_constant){*list, hash, made};
    *list = k;
    return made;
}

edge *export_ints(export_call *c, int n, const int64_t *values) {
    int64_t length = n;
    return export_constant(c, WEFT_I64, 1, &length, values);
}

/* Types that no table converts to are cast in the file. */
edge *export_number(export_call *c, weft_dtype dtype, double value) {
    double room = 0;
    if (dtype == WEFT_BOOL) {
        bool truth = value != 0;
        return export_constant(c, dtype, 0, NULL, &truth);
    }
    if (dtype == WEFT_F64) return export_constant(c, dtype, 0, NULL, &value);
    if (dtype == WEFT_F32) {
        float narrow = (float)value;
        return export_constant(c, dtype, 0, NULL, &narrow);
    }
    if (convert_gives(dtype) && convert_numbers(WEFT_F64, &value, dtype, &room, 1, true) == 1)
        return export_constant(c, dtype, 0, NULL, &room);
    return export_cast(c, export_number(c, onnx_is_float(dtype) ? WEFT_F32 : WEFT_I64, value),
                       onnx_is_float(dtype) ? WEFT_F32 : WEFT_I64, dtype);
}

edge *export_parameter(export_call *c, const char *path, const weft_value *v) {
    edge *made = take_room(c, 1, sizeof *made);
    if (!made) return NULL;
    int64_t shape[WEFT_MAX_NDIM];
    for (int i = 0; i < weft_ndim(v); i++) shape[i] = weft_dim(v, i);
    *made = (edge){.path = path, .type = tensor_of(weft_value_dtype(v), weft_ndim(v), shape)};
    *c->e->parameters_end = made;
    c->e->parameters_end = &made->next;
    return made;
}

/* ---- shapes ---- */

edge *export_cast(export_call *c, edge *x, weft_dtype from, weft_dtype to) {
    if (from == to || !x) return x;
    return with_int(c, export_1(c, "Cast", x), "to", onnx_type_of(to));
}

edge *export_permute(export_call *c, edge *x, int n, const int64_t *axes) {
    bool moves = false;
    for (int i = 0; i < n; i++) moves |= axes[i] != i;
    return moves ? with_ints(c, export_1(c, "Transpose", x), "perm", n, axes) : x;
}

/* The length of the batch, i64[1]. */
static edge *batch_of(export_call *c) {
    exporter *e = c->e;
    if (e->batch) return e->batch;
    edge *shape = export_1(c, "Shape", export_entry_of(e, e->batch_of)->is);
    with_int(c, shape, "start", e->batch_axis);
    return e->batch = with_int(c, shape, "end", e->batch_axis + 1);
}

static edge *one_length(export_call *c, export_length length) {
    if (!length.per_batch) return export_ints(c, 1, &length.rest);
    edge *all = batch_of(c);
    if (length.per_batch != 1) all = export_2(c, "Mul", all, export_ints(c, 1, &length.per_batch));
    return length.rest ? export_2(c, "Add", all, export_ints(c, 1, &length.rest)) : all;
}

static int followers(int n, const export_length *length) {
    int count = 0;
    for (int i = 0; i < n; i++) count += length[i].per_batch != 0;
    return count;
}

edge *export_shape(export_call *c, int n, const export_length *length) {
    int64_t fixed[WEFT_MAX_NDIM + 1];
    edge *parts[WEFT_MAX_NDIM + 1];
    for (int i = 0; i < n; i++) fixed[i] = length[i].rest;
    if (!followers(n, length)) return export_ints(c, n, fixed);
    for (int i = 0; i < n; i++) parts[i] = one_length(c, length[i]);
    return export_concat(c, n, parts, 0);
}

/* One length that follows the batch is what remains: -1. */
edge *export_reshape(export_call *c, edge *x, int n, const export_length *length) {
    int64_t shape[WEFT_MAX_NDIM + 1];
    bool has_0 = false;
    for (int i = 0; i < n; i++) {
        shape[i] = length[i].per_batch ? -1 : length[i].rest;
        has_0 |= shape[i] == 0;
    }
    bool is_plain = followers(n, length) < (has_0 ? 1 : 2);
    edge *to = is_plain ? export_ints(c, n, shape) : export_shape(c, n, length),
         *y = export_2(c, "Reshape", x, to);
    return has_0 ? with_int(c, y, "allowzero", 1) : y;
}

/* 1 in the shape of Expand leaves an axis as it is. */
edge *export_expand(export_call *c, edge *x, int n_from, const export_length *from, int n,
                    const export_length *to) {
    export_length shape[WEFT_MAX_NDIM + 1];
    bool changes = n != n_from;
    for (int i = 0; i < n; i++) {
        const export_length *own = i >= n - n_from ? &from[i - (n - n_from)] : NULL;
        bool stays = own && own->per_batch == to[i].per_batch && own->rest == to[i].rest;
        shape[i] = stays ? (export_length){0, 1} : to[i];
        changes |= !stays;
    }
    return changes ? export_2(c, "Expand", x, export_shape(c, n, shape)) : x;
}

edge *export_slice(export_call *c, edge *x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
    edge *from = export_ints(c, 1, &begin), *to = export_ints(c, 1, &end), *along = export_ints(c, 1, &axis),
         *by = step != 1 ? export_ints(c, 1, &step) : NULL, *in[] = {x, from, to, along, by};
    return export_new(c, "Slice", by ? 5 : 4, in, 1);
}

edge *export_padded(export_call *c, edge *x, int n, const int64_t *axes, const int64_t *pads, edge *value) {
    edge *lengths = export_ints(c, 2 * n, pads), *along = export_ints(c, n, axes);
    return export_new(c, "Pad", 4, (edge *[]){x, lengths, value, along}, 1);
}

edge *export_squeeze(export_call *c, edge *x, int64_t axis) {
    return export_2(c, "Squeeze", x, export_ints(c, 1, &axis));
}

edge *export_unsqueeze(export_call *c, edge *x, int64_t axis) {
    return export_2(c, "Unsqueeze", x, export_ints(c, 1, &axis));
}

edge *export_concat(export_call *c, int n, edge *const *parts, int64_t axis) {
    return n == 1 ? parts[0] : with_int(c, export_new(c, "Concat", n, parts, 1), "axis", axis);
}

edge *export_reduce(export_call *c, const char *op, edge *x, int n, const int64_t *axes, bool keep) {
    edge *y = n ? export_2(c, op, x, export_ints(c, n, axes)) : export_1(c, op, x);
    return with_int(c, y, "keepdims", keep);
}

edge *export_where(export_call *c, edge *condition, weft_dtype type, edge *a, edge *b) {
    return export_3(c, "Where", export_cast(c, condition, type, WEFT_BOOL), a, b);
}
