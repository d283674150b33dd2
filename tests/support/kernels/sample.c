/* sample.c - see sample.h. */
#include "support/kernels/sample.h"

#include "ops/kit/op_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int types_parse(const char *list, tensor_type *types, int room) {
    int n = 0;
    for (const char *at = list; *at;) {
        if (n == room) return -1;
        if (*at == '-') {
            types[n++] = (tensor_type){.ndim = -1};
            at++;
        } else if (!type_parse(&at, &types[n++])) {
            return -1;
        }
        if (*at == ',')
            at++;
        else if (*at)
            return -1;
        while (*at == ' ') at++;
    }
    return n;
}

/* What a sample's f32 becomes. */
typedef struct change {
    weft_dtype to;
    unsigned operands; /* bit i: operand i; the last bit is for all operands after it */
    bool attrs, wide;  /* dtype attributes too; the attribute `f32_output` is set */
} change;

static void change_attrs(const weft_op *op, const change *c, void *attrs) {
    for (const op_attr *f = op->attrs; f && f->name; f++) {
        char *field = (char *)attrs + f->offset;
        if (c->attrs && f->kind == ATTR_DTYPE && *(weft_dtype *)field == WEFT_F32)
            *(weft_dtype *)field = c->to;
        if (c->wide && f->kind == ATTR_BOOL && strcmp(f->name, "f32_output") == 0) *(bool *)field = true;
    }
}

/* What a sample's `path` may name: the bucket "sample" with members of more axes and of more than a chunk of
 * squares (NORM_CHUNK), gaps between them and one after the last. */
static bool bucket_declare(weft_model *m) {
    static const struct {
        const char *path, *type;
        int64_t offset;
    } rows[] = {
        {"a", "f32[5000]", 0}, {"b", "f32[3,7,2]", 5008}, {"c", "f32[]", 5056}, {"d", "f32[4100]", 5072}};
    enum { MEMBERS = sizeof rows / sizeof *rows };
    weft_variable **members = arena_new(&m->arena, sizeof *members * MEMBERS);
    tensor_type whole = type_of(WEFT_F32, 1, (int64_t[]){9184});
    weft_variable *bucket = variable_new(m, "sample", VARIABLE_BUCKET, &whole, (weft_init){0});
    for (int i = 0; bucket && members && i < MEMBERS; i++) {
        tensor_type type;
        if (types_parse(rows[i].type, &type, 1) != 1) return false;
        members[i] = variable_new(m, rows[i].path, VARIABLE_PARAMETER, &type, (weft_init){0});
        if (!members[i]) return false;
        members[i]->offset = rows[i].offset;
    }
    if (!bucket || !members) return false;
    bucket->members = members;
    bucket->n_members = MEMBERS;
    return true;
}

static bool inputs_build(sample *s, const change *c) {
    tensor_type types[SAMPLE_MAX_IN];
    s->n_in = types_parse(s->spec->in, types, SAMPLE_MAX_IN);
    if (s->n_in < 0) {
        snprintf(s->error_text, sizeof s->error_text, "the sample's types cannot be read: %s", s->spec->in);
        return false;
    }
    for (int i = 0; i < s->n_in; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        if (types[i].ndim < 0) continue;
        bool changes = types[i].dtype == WEFT_F32 && c->operands >> (i < 31 ? i : 31) & 1;
        s->n_changed += changes;
        s->in[i] = weft_input(s->g, name, changes ? c->to : types[i].dtype, types[i].ndim, types[i].shape);
    }
    return true;
}

static void build(sample *s, const weft_op *op, const op_sample *spec, const change *c) {
    *s = (sample){.op = op, .spec = spec, .m = weft_model_new("sample")};
    s->g = weft_graph_new(s->m, "sample", WEFT_TRAIN);
    if (!s->g || !inputs_build(s, c)) return;
    if (op->flags & OP_VARIABLE && !bucket_declare(s->m)) return;
    void *attrs = arena_new(&s->m->arena, op->attrs_bytes + 1);
    const char *at = spec->attrs ? spec->attrs : "";
    char why[200];
    if (!attrs_parse(&at, op, attrs, &s->m->arena, why)) {
        snprintf(s->error_text, sizeof s->error_text, "%s", why);
        return;
    }
    change_attrs(op, c, attrs);
    s->n = node_new(s->g, op, s->n_in, s->in, attrs);
    if (!s->n) snprintf(s->error_text, sizeof s->error_text, "%s", weft_model_error(s->m)->text);
}

void sample_build(sample *s, const weft_op *op, const op_sample *spec, bool as_f64) {
    build(s, op, spec, as_f64 ? &(change){WEFT_F64, ~0u, .attrs = true} : &(change){0});
}

void sample_build_reduced(sample *s, const weft_op *op, const op_sample *spec, weft_dtype reduced,
                          bool wide) {
    unsigned operands = op->precision == PRECISION_F32 ? ~0u : ~op->f32_in;
    build(s, op, spec, &(change){reduced, operands, .wide = wide});
}

void sample_free(sample *s) {
    weft_model_free(s->m);
}

sample_range sample_range_of(const op_sample *spec) {
    bool has_range = spec && (spec->low != 0 || spec->high != 0);
    return has_range ? (sample_range){spec->low, spec->high} : (sample_range){-2, 2};
}

bool op_is_exact(const weft_op *op) {
    static const char *const names[] = {
        "cast", "permute", "slice",   "broadcast_to", "reshape", "reorder", "concat", "pad",
        "flip", "gather",  "scatter", "embedding",    "where",   "bucket",  "arange", "max_pool2d_gather"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) is_one |= strcmp(op->name, names[i]) == 0;
    return is_one;
}

void sample_fill(const op_sample *spec, const tensor *t, test_random *r) {
    sample_range range = sample_range_of(spec);
    int64_t least = spec ? spec->least : 0, at[WEFT_MAX_NDIM] = {0};
    uint64_t count = spec && (spec->below || least) ? (uint64_t)(spec->below - least) : 4;
    do {
        if (dtype_is_float(t->type.dtype))
            element_set(t, at, random_in(r, range.low, range.high));
        else if (t->type.dtype == WEFT_BOOL)
            element_set_int(t, at, (int64_t)(random_bits(r) & 1));
        else
            element_set_int(t, at, least + (int64_t)(random_bits(r) % count));
    } while (index_next(&t->type, at));
}

/* ---- memory ---- */

/* Axes rotated by one, and a gap of 3 elements after the longest step. */
static void stride_odd(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]) {
    int64_t step = 1;
    for (int k = 0; k < t->ndim; k++) {
        int axis = (k + (t->ndim > 1 ? t->ndim - 2 : 0)) % t->ndim;
        stride[axis] = step;
        step = step * t->shape[axis] + (k == 0 ? 3 : 0);
    }
}

/* Row-major with gaps: every step but the innermost is odd, or else a multiple of 8, as kernels that read
 * vectors want it. */
static void stride_gaps(const tensor_type *t, bool is_odd, int64_t stride[WEFT_MAX_NDIM]) {
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->shape[i];
        step += is_odd ? 1 + step % 2 : 16 - step % 8;
    }
}

/* Strides that no kernel may count with. */
static void stride_stray(const tensor_type *t, int64_t stride[WEFT_MAX_NDIM]) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 1) stride[i] = 1000003 + 17 * i;
}

static void stride_repeats(const tensor_type *t, int first, int64_t stride[WEFT_MAX_NDIM]) {
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        stride[i] = i % 2 == first ? 0 : step;
        if (stride[i]) step *= t->shape[i];
    }
}

void layout_strides(const tensor_type *type, layout_kind layout, int64_t stride[WEFT_MAX_NDIM]) {
    if (layout == LAYOUT_CHANNELS_LAST || layout == LAYOUT_STRAY_IMAGE)
        stride_channels_last(type, stride);
    else if (layout == LAYOUT_ODD)
        stride_odd(type, stride);
    else if (layout == LAYOUT_RAGGED || layout == LAYOUT_SPACED)
        stride_gaps(type, layout == LAYOUT_RAGGED, stride);
    else if (layout == LAYOUT_REPEATS_EVEN || layout == LAYOUT_REPEATS_ODD)
        stride_repeats(type, layout == LAYOUT_REPEATS_ODD, stride);
    else
        stride_row_major(type, stride);
    if (layout == LAYOUT_STRAY || layout == LAYOUT_STRAY_IMAGE || layout == LAYOUT_ODD)
        stride_stray(type, stride);
}

block block_new(const tensor_type *type, layout_kind layout) {
    block b = {.t = {.type = *type}};
    layout_strides(type, layout, b.t.stride);
    int64_t last = 0;
    for (int i = 0; i < type->ndim; i++) last += (type->shape[i] - 1) * b.t.stride[i];
    size_t shift = layout == LAYOUT_SHIFTED ? dtype_bytes(type->dtype) : 0;
    b.bytes = (size_t)(last + 1) * dtype_bytes(type->dtype) + shift;
    b.room = memset(test_memory(b.bytes), POISON, b.bytes);
    b.t.data = (char *)b.room + shift;
    return b;
}

void block_free(block *b) {
    free(b->room);
}

/* Row by row along the last axis. */
void block_copy(const block *to, const tensor *from) {
    int64_t at[WEFT_MAX_NDIM] = {0}, last = from->type.ndim - 1, n = last < 0 ? 1 : from->type.shape[last];
    bool is_dense = last >= 0 && to->t.stride[last] == 1 && from->stride[last] == 1;
    size_t width = dtype_bytes(from->type.dtype);
    tensor_type rows = from->type;
    if (is_dense) rows.shape[last] = 1;
    do
        if (is_dense)
            memcpy((char *)to->t.data + (size_t)element_place(&to->t, at) * width,
                   (const char *)from->data + (size_t)element_place(from, at) * width, (size_t)n * width);
        else
            element_copy(&to->t, at, from, at);
    while (index_next(&rows, at));
}
