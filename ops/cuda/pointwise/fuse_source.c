/* fuse_source.c - a pointwise node, or a `fused` one, as CUDA C. Element types and layouts are in the source;
 * lengths and strides are arguments. Each node of the body is a line, with its expression word for word from
 * ops/pointwise/pointwise_list.h:
 *
 *     { const float x = v0, y = number(a1.v[e]); v1 = x + y; }
 *
 * Between the nodes of a body only `cast` rounds, as in the CPU's tiles. A thread loads all its elements
 * before it stores any, so that a result may share an operand's memory. */
#include "ops/kit/op_kit.h"
#include "ops/cuda/pointwise/fuse.h"

#include "graph/core/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const weft_op *op;
    const char *expression;
} formulas[] =
    {
#define X(op, operands, numbers, expression) {&weft_op_##op, #expression},
#include "ops/pointwise/pointwise_list.h"
#undef X
},
  integer_formulas[] = {
#define X(op, expression) {&weft_op_##op, #expression},
#include "ops/pointwise/integer_list.h"
#undef X
};

/* NULL: the op has none. */
static const char *formula_of(const weft_node *n) {
    for (size_t i = 0; node_is_integer(n) && i < sizeof integer_formulas / sizeof *integer_formulas; i++)
        if (integer_formulas[i].op == n->op) return integer_formulas[i].expression;
    for (size_t i = 0; !node_is_integer(n) && i < sizeof formulas / sizeof *formulas; i++)
        if (formulas[i].op == n->op) return formulas[i].expression;
    return NULL;
}

/* The type of an element in the source. */
static const char *element_type(weft_dtype dtype) {
    switch (dtype) {
    case WEFT_F32:
        return "float";
    case WEFT_F64:
        return "double";
    case WEFT_I32:
        return "int";
    case WEFT_BOOL:
        return "boolean";
    default:
        return dtype_name(dtype); /* bf16, f16, i64, u8, i8, u16, u32 */
    }
}

/* What a value is inside a kernel. */
static const char *number_type(weft_dtype dtype) {
    return dtype == WEFT_F64 ? "double" : dtype_is_wide(dtype) || dtype == WEFT_U32 ? "i64" : "float";
}

static bool is_double(weft_dtype dtype) {
    return dtype == WEFT_F64 || dtype_is_wide(dtype) || dtype == WEFT_U32;
}

/* What a node computes in: f64 where f32 cannot hold a value. */
static const char *computing_type(const weft_node *n) {
    bool is_wide = is_double(n->out[0].type.dtype);
    for (int i = 0; i < n->n_in; i++) is_wide |= is_double(n->in[i]->type.dtype);
    return node_is_integer(n) ? "i64" : is_wide ? "double" : "float";
}

/* The source as it grows, and what it is made from; body of one for a plain node. */
typedef struct writer {
    text t;
    const weft_node *n;
    const fuse_plan *p;
    weft_node *const *body;
    int n_body;
} writer;

/* ---- operands ---- */

static bool has_way(const fuse_plan *p, fuse_way way) {
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].way == way) return true;
    return false;
}

/* Appends load<float, N>(p.in[1], (i64)c[0] * p.stride[1][0] + ...): the operand at coordinates c. */
static void put_load_at(writer *w, int i, const char *count) {
    text_add(&w->t, "load<%s, %s>(p.in[%d], ", element_type(w->p->in[i].dtype), count, i);
    bool is_first = true;
    for (int k = 0; k < w->p->n_axes; k++) {
        if (w->p->in[i].stride[k] == 0) continue;
        text_add(&w->t, "%s(i64)c[%d] * p.stride[%d][%d]", is_first ? "" : " + ", k, i, k);
        is_first = false;
    }
    text_add(&w->t, ")");
}

/* Declares a1, operand 1, with its elements loaded (gathered operands get theirs later). */
static void put_load(writer *w, int i) {
    weft_dtype dtype = w->p->in[i].dtype;
    const char *type = element_type(dtype);
    switch (w->p->in[i].way) {
    case FUSE_FLAT:
        text_add(&w->t, "    const pack<%s, N> a%d = load<%s, N>(p.in[%d], at);\n", type, i, type, i);
        return;
    case FUSE_ROW:
        text_add(&w->t, "    const pack<%s, N> a%d = ", type, i);
        put_load_at(w, i, "N");
        text_add(&w->t, ";\n");
        return;
    case FUSE_REPEAT:
        text_add(&w->t, "    const %s a%d = number(", number_type(dtype), i);
        put_load_at(w, i, "1");
        text_add(&w->t, ".v[0]);\n");
        return;
    case FUSE_GATHER:
        text_add(&w->t, "    pack<%s, N> a%d;\n", type, i);
        return;
    /* a parameter of the function */
    case FUSE_SCALAR:
        return;
    }
}

/* Coordinates are computed once for all operands that need them. */
static void put_loads(writer *w) {
    const fuse_plan *p = w->p;
    if (has_way(p, FUSE_ROW) || has_way(p, FUSE_REPEAT))
        text_add(&w->t, "    place c[%d];\n    locate(p, at, c);\n", p->n_axes);
    for (int i = 0; i < p->n_in; i++) put_load(w, i);
    if (!has_way(p, FUSE_GATHER)) return;
    text_add(&w->t, "#pragma unroll\n    for (int e = 0; e < N; e++) {\n");
    text_add(&w->t, "        place c[%d];\n        locate(p, at + e, c);\n", p->n_axes);
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].way != FUSE_GATHER) continue;
        text_add(&w->t, "        a%d.v[e] = ", i);
        put_load_at(w, i, "1");
        text_add(&w->t, ".v[0];\n");
    }
    text_add(&w->t, "    }\n");
}

/* ---- the body ---- */

/* Appends "v3" for the value of body node 3, or "number(a1.v[e])" for an operand of the node. */
static void put_operand(writer *w, const weft_value *v) {
    for (int k = 0; k < w->n_body; k++)
        if (v == &w->body[k]->out[0]) {
            text_add(&w->t, "v%d", k);
            return;
        }
    for (int i = 0; i < w->n->n_in; i++)
        if (v == w->n->in[i]) {
            bool is_number = w->p->in[i].way == FUSE_SCALAR || w->p->in[i].way == FUSE_REPEAT;
            text_add(&w->t, is_number ? "a%d" : "number(a%d.v[e])", i);
            return;
        }
    /* does not compile; graph_check lets no such node through */
    text_add(&w->t, "an_operand_from_nowhere");
}

/* Appends a number of a formula, with the digits that give the same value back. */
static void put_number(writer *w, double value, const char *type) {
    bool as_double = *type == 'd';
    double k = as_double ? value : (double)(float)value;
    text digits = {0};
    if (*type == 'i') { /* in hex the least integer is a constant, too */
        text_add(&w->t, "(i64)0x%jxull", (uintmax_t)(int64_t)value);
        return;
    }
    if (isinf(k)) {
        text_add(&w->t, k < 0 ? "-INFINITE" : "INFINITE");
        return;
    }
    real_write(&digits, k);
    char *shown = text_detach(&digits);
    if (shown) text_add(&w->t, "%s%s%s", shown, strpbrk(shown, ".e") ? "" : ".0", as_double ? "" : "f");
    w->t.failed |= !shown;
    free(shown);
}

/* Appends "to_bf16(x)" for a cast, else the expression of the list; of i32 its low bits. */
static void put_formula(writer *w, const weft_node *n) {
    weft_dtype to = n->out[0].type.dtype;
    bool is_cast = n->op->attrs && n->op->attrs->kind == ATTR_DTYPE;
    const char *formula = formula_of(n);
    if (is_cast && to != WEFT_F32 && to != WEFT_F64)
        text_add(&w->t, "to_%s(x)", dtype_name(to));
    else if (formula && to == WEFT_I32 && node_is_integer(n))
        text_add(&w->t, "(int)(%s)", formula);
    else
        text_add(&w->t, "%s", formula ? formula : "an_op_without_a_formula");
}

/* Appends the report of a divisor that is 0. Its number is its place in memory, if that is row-major. */
static void put_check(writer *w, const weft_node *n) {
    if (!(n->op->flags & OP_DIVIDES) || !node_is_integer(n)) return;
    const char *place = "-1";
    for (int i = 0; i < w->n->n_in; i++) {
        if (w->n->in[i] != n->in[1] || !lies_row_major(n->in[1])) continue;
        place = w->p->in[i].way == FUSE_FLAT ? "(i64)at + e" : w->p->in[i].way == FUSE_SCALAR ? "0" : "-1";
    }
    text_add(&w->t, " if (y == 0) note_zero(p, %s);", place);
}

/* The line of body node k, in a scope of its own, so that x, y, z and k[] can be used again. */
static void put_step(writer *w, int k) {
    const weft_node *n = w->body[k];
    const char *type = computing_type(n);
    double number;
    text_add(&w->t, "        %s v%d;\n", number_type(n->out[0].type.dtype), k);
    text_add(&w->t, "        { const %s ", type);
    for (int i = 0; i < n->n_in; i++) {
        text_add(&w->t, "%s%c = ", i ? ", " : "", "xyz"[i]);
        put_operand(w, n->in[i]);
    }
    for (int i = 0; formula_number(n, i, &number); i++) {
        text_add(&w->t, i ? ", " : ", k[] = {");
        put_number(w, number, type);
    }
    text_add(&w->t, formula_number(n, 0, &number) ? "};" : ";");
    put_check(w, n);
    text_add(&w->t, " v%d = ", k);
    put_formula(w, n);
    text_add(&w->t, "; }\n");
}

/* The body node that makes result r. */
static int maker_of(const writer *w, int r) {
    for (int k = 0; w->n->n_body && k < w->n_body; k++)
        if (w->n->body_out[r] == &w->body[k]->out[0]) return k;
    return 0;
}

/* ---- the kernels ---- */

/* Appends the scalar operands, as parameters (with types) or as arguments. */
static void put_scalars(writer *w, bool with_types) {
    for (int i = 0; i < w->p->n_in; i++) {
        if (w->p->in[i].way != FUSE_SCALAR) continue;
        const char *type = number_type(w->p->in[i].dtype);
        text_add(&w->t, ", %s%s%sa%d", with_types ? "const " : "", with_types ? type : "",
                 with_types ? " " : "", i);
    }
}

/* The function that computes elements [at, at + N) of the results. */
static void put_function(writer *w) {
    text_add(&w->t, "template <int N> inline __device__ void elements(const arguments &p, place at");
    put_scalars(w, true);
    text_add(&w->t, ") {\n");
    put_loads(w);
    for (int r = 0; r < w->n->n_out; r++)
        text_add(&w->t, "    pack<%s, N> r%d;\n", element_type(w->n->out[r].type.dtype), r);
    text_add(&w->t, "#pragma unroll\n    for (int e = 0; e < N; e++) {\n");
    /* body nodes are in topological order */
    for (int k = 0; k < w->n_body; k++) put_step(w, k);
    for (int r = 0; r < w->n->n_out; r++) text_add(&w->t, "        put(r%d.v[e], v%d);\n", r, maker_of(w, r));
    text_add(&w->t, "    }\n");
    for (int r = 0; r < w->n->n_out; r++) text_add(&w->t, "    store(p.out[%d], at, r%d);\n", r, r);
    text_add(&w->t, "}\n\n");
}

/* A kernel: threads stride over the vectors; the elements after the last whole vector are done one by one. */
static void put_kernel(writer *w, const char *name, int vector) {
    text_add(&w->t, "extern \"C\" __global__ void __launch_bounds__(%d) %s(const arguments p) {\n",
             FUSE_THREADS, name);
    for (int i = 0; i < w->p->n_in; i++) {
        const char *type = element_type(w->p->in[i].dtype), *number = number_type(w->p->in[i].dtype);
        if (w->p->in[i].way == FUSE_SCALAR)
            text_add(&w->t, "    const %s a%d = number(load<%s, 1>(p.in[%d], 0).v[0]);\n", number, i, type,
                     i);
    }
    text_add(&w->t,
             "    const place first = (place)blockIdx.x * blockDim.x + threadIdx.x, vectors = p.elements");
    if (vector > 1) text_add(&w->t, " / %d", vector);
    text_add(&w->t,
             ";\n    for (place i = first; i < vectors; i += gridDim.x * blockDim.x) elements<%d>(p, i",
             vector);
    if (vector > 1) text_add(&w->t, " * %d", vector);
    put_scalars(w, false);
    text_add(&w->t, ");\n");
    if (vector > 1) {
        text_add(&w->t, "    if (first < p.elements %% %d) elements<1>(p, vectors * %d + first", vector,
                 vector);
        put_scalars(w, false);
        text_add(&w->t, ");\n");
    }
    text_add(&w->t, "}\n");
}

/* The index type, the prelude, the function of the node's elements, the two kernels. */
char *fuse_source(const weft_node *n, const fuse_plan *p) {
    weft_node *self[1] = {(weft_node *)n};
    writer w = {.n = n, .p = p, .body = n->n_body ? n->body : self, .n_body = n->n_body ? n->n_body : 1};
    text_add(&w.t, "typedef %s place;\n", p->is_wide ? "unsigned long long" : "unsigned");
    text_bytes(&w.t, fuse_prelude, strlen(fuse_prelude));
    text_add(&w.t, "\n/* ---- the node ---- */\n\n");
    put_function(&w);
    put_kernel(&w, "pointwise", p->vector);
    put_kernel(&w, "pointwise_narrow", 1);
    return text_detach(&w.t);
}
