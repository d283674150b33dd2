/* ops.c - graphtool ops: prints every op, from the list that the library itself is made from (ops/list.h). */
#include "ops/catalog/catalog.h"
#include "tools/graphtool/output/names.h"
#include "tools/graphtool/model/tools.h"

#include <string.h>

static const struct flag_name {
    unsigned flag;
    const char *name;
} flag_names[] = {
    {OP_POINTWISE, "pointwise"}, {OP_COMMUTES, "commutes"}, {OP_RANDOM, "random"},
    {OP_EFFECT, "effect"},       {OP_VIEW, "view"},         {OP_VARIABLE, "names a variable"},
    {OP_WRITES, "writes"},
};
static const char *const precision_names[] = {
    [PRECISION_F32] = "f32", [PRECISION_REDUCED] = "reduced", [PRECISION_FOLLOWS] = "follows"};
enum { FLAGS = sizeof flag_names / sizeof *flag_names, KERNELS_SHOWN = 16 };

static const char *const kind_names[] = {"int",    "real", "bool",      "dtype", "ints",
                                         "string", "key",  "schedules", "bytes"};
_Static_assert(sizeof kind_names / sizeof *kind_names == ATTR_BYTES + 1, "a name for each op_attr_kind");

/* The names of an op's kernels on the best processor, or on GPUs, best first and each once. Returns how
 * many. */
static int kernel_names(const weft_op *op, weft_device device, const char *names[KERNELS_SHOWN]) {
    const weft_kernel *list[KERNELS_SHOWN];
    kernel_env env = {.isa = WEFT_ISA_AVX512, .threads = 1, .device = device};
    int n = kernels_of(&weft_catalog, op, &env, list, KERNELS_SHOWN), kept = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < kept && strcmp(names[k], list[i]->name)) k++;
        if (k == kept) names[kept++] = list[i]->name;
    }
    return kept;
}

/* Does a plan run this op as a kernel? Not the ops that graphs read and declare, those that passes expand,
 * and those of the communication stream. */
static bool needs_kernel(const weft_op *op) {
    static const char *const none[] = {"input",     "parameter", "state", "constant_tensor",
                                       "gradients", "minimize",  "wait",  "stop_gradient",
                                       "summed",    "rank",      "world", "rank_rows"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(op->name, none[i]) == 0) return false;
    return !(op->flags & OP_COMMUNICATES);
}

/* Can autodiff pass the op? Then it can pass the nodes which that adds, too (tests/ops/test_gradients.c). */
static bool has_gradient(const weft_op *op) {
    return op->gradient && !(op->flags & OP_NO_GRADIENT);
}

static json_t *kernels_json(const weft_op *op, weft_device device) {
    const char *names[KERNELS_SHOWN];
    json_t *list = json_array();
    for (int i = 0, n = kernel_names(op, device, names); i < n; i++)
        json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *attributes_json(const weft_op *op) {
    json_t *list = json_array();
    for (const op_attr *a = op->attrs; a && a->name; a++) {
        json_t *row = json_pack("{s:s, s:s}", "name", a->name, "kind", kind_names[a->kind]);
        if (a->min || a->max) {
            json_object_set_new(row, "min", json_integer(a->min));
            json_object_set_new(row, "max", json_integer(a->max));
        }
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *flags_json(const weft_op *op) {
    json_t *list = json_array();
    for (int i = 0; i < FLAGS; i++)
        if (op->flags & flag_names[i].flag) json_array_append_new(list, json_string(flag_names[i].name));
    return list;
}

/* One op as an object; keys are stable. */
static json_t *op_json(const weft_op *op) {
    return json_pack("{s:s, s:s, s:s?, s:i, s:i, s:o, s:o, s:b, s:b, s:s, s:I, s:I, s:o, s:o}", "name",
                     op->name, "summary", op->summary ? op->summary : "", "torch", op->torch, "min_in",
                     op->min_in, "max_in", op_max_in(op), "attributes", attributes_json(op), "flags",
                     flags_json(op), "gradient", has_gradient(op), "second_gradient", has_gradient(op),
                     "precision", precision_names[op->precision], "f32_in", (json_int_t)op->f32_in, "f32_out",
                     (json_int_t)op->f32_out, "kernels", kernels_json(op, WEFT_DEVICE_CPU), "cuda_kernels",
                     kernels_json(op, WEFT_DEVICE_CUDA));
}

/* ---- columns: a key of the object, or a writer ---- */

/* Appends an item to a list: "stride, pad", "pointwise, view", "simd, reference" */
static void joined(text *t, const char *item) {
    text_add(t, t->length ? ", %s" : "%s", item);
}

/* A text, or a list of texts or of objects with names. */
static void write_value(text *t, const json_t *value) {
    size_t i;
    const json_t *item;
    if (json_is_string(value)) text_add(t, "%s", json_string_value(value));
    json_array_foreach(value, i, item)
        joined(t, json_string_value(json_is_object(item) ? json_object_get(item, "name") : item));
}

static void write_torch(text *t, const weft_op *op) {
    static const char prefix[] = "torch.nn.functional.";
    bool is_functional = op->torch && strncmp(op->torch, prefix, sizeof prefix - 1) == 0;
    if (op->torch)
        text_add(t, is_functional ? "F.%s" : "%s", op->torch + (is_functional ? sizeof prefix - 1 : 0));
}

/* "2", "1 to 3", "2 or more" */
static void write_operands(text *t, const weft_op *op) {
    int most = op_max_in(op);
    text_add(t, "%d", op->min_in);
    if (most < 0)
        text_add(t, " or more");
    else if (most != op->min_in)
        text_add(t, " to %d", most);
}

static void write_gradient(text *t, const weft_op *op) {
    if (has_gradient(op)) text_add(t, "yes, second%s", op->flags & OP_FROM_RESULT ? ", of y" : "");
}

/* The set bits: "1, 2". */
static const char *bits_text(unsigned bits) {
    text t = {0};
    for (int i = 0; i < 32; i++)
        if (bits >> i & 1) joined(&t, tool_text("%d", i));
    return tool_take(&t);
}

/* The op's behaviour in a bf16 or f16 graph, with the operands and results that stay f32 (graph/core/op.h):
 * "reduced, f32 2, 3 -> 1". */
static void write_precision(text *t, const weft_op *op) {
    text_add(t, "%s", precision_names[op->precision]);
    if (op->f32_in || op->f32_out) text_add(t, ", f32 ");
    if (op->f32_in) text_add(t, "%s", bits_text(op->f32_in));
    if (op->f32_out) text_add(t, "%s-> %s", op->f32_in ? " " : "", bits_text(op->f32_out));
}

/* ---- the same in Markdown, where the head of the page says the rest ---- */

/* Without "second", which all have. */
static void short_gradient(text *t, const weft_op *op) {
    if (has_gradient(op)) text_add(t, "%s", op->flags & OP_FROM_RESULT ? "of y" : "yes");
}

/* "simd" for our kernels of three instruction sets; without "reference" beside others. */
static void short_kernels(text *t, const weft_op *op) {
    const char *names[KERNELS_SHOWN];
    int n = kernel_names(op, WEFT_DEVICE_CPU, names);
    for (int i = 0; i < n; i++) {
        if (i && strcmp(names[i], "reference") == 0) continue;
        bool is_simd = i + 2 < n && strcmp(names[i], "avx512") == 0 && strcmp(names[i + 1], "avx2") == 0 &&
                       strcmp(names[i + 2], "sse2") == 0;
        joined(t, is_simd ? "simd" : names[i]);
        i += is_simd ? 2 : 0;
    }
}

static const struct column {
    const char *title;
    int width; /* at least, in text */
    const char *key;
    void (*write)(text *t, const weft_op *op);
    void (*shorter)(text *t, const weft_op *op); /* in Markdown; NULL: the same */
} columns[] = {
    {"PyTorch", 24, NULL, write_torch},
    {"operands", 9, NULL, write_operands},
    {"attributes", 0, "attributes", NULL},
    {"flags", 0, "flags", NULL},
    {"gradient", 11, NULL, write_gradient, short_gradient},
    {"[precision](precision.md)", 0, NULL, write_precision},
    {"CPU kernels", 0, "kernels", NULL, short_kernels},
    {"GPU kernels", 0, "cuda_kernels", NULL},
    {"what it computes", 0, "summary", NULL},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* "-" if it is empty. */
static const char *cell_of(const struct column *c, const weft_op *op, const json_t *json, bool markdown) {
    text cell = {0};
    if (markdown && c->shorter)
        c->shorter(&cell, op);
    else if (c->key)
        write_value(&cell, json_object_get(json, c->key));
    else
        c->write(&cell, op);
    const char *made = tool_take(&cell);
    return *made ? made : "-";
}

/* One op as a line of text or a row of Markdown, where a '|' would end the cell. */
static void op_row(text *t, const weft_op *op, bool markdown) {
    json_t *json = op_json(op);
    text_add(t, markdown ? "| `%s`" : "%-24s", op->name);
    for (int i = 0; i < COLUMNS; i++) {
        const char *cell = cell_of(&columns[i], op, json, markdown);
        text_add(t, markdown ? " | " : "  %-*s", columns[i].width, cell);
        for (; markdown && *cell; cell++) text_add(t, *cell == '|' ? "\\|" : "%c", *cell);
    }
    text_add(t, markdown ? " |\n" : "\n");
    json_decref(json);
}

static void head_write(text *t) {
    text_add(
        t,
        "# Ops\nMade by `graphtool ops --markdown`; the formulas are in the files of the ops, in "
        "the folders of `ops/`. `F` is `torch.nn.functional`;\nwhat is made of several ops (`weft_mean`, "
        "losses, layers) has no row here. `simd` is a kernel each for AVX-512, AVX2\nand SSE2; ops with any "
        "kernel of ours have a `reference` kernel, too.\n\nAll gradients have second ones. Those \"of y\" "
        "are computed from the result, so that a second gradient by the result\nitself reaches them. They "
        "are those of PyTorch, except for `prod` and `cumprod`: there PyTorch computes the gradient from "
        "the\nresult where no number is 0, and here it is of the operand, whatever the numbers are. Users of "
        "attention and\nrecurrent ops get a view or a copy of the result, which no gradient reads, as in "
        "PyTorch.\n\n| op");
    for (int i = 0; i < COLUMNS; i++) text_add(t, " | %s", columns[i].title);
    text_add(t, " |\n|---");
    for (int i = 0; i < COLUMNS; i++) text_add(t, "|---");
    text_add(t, "|\n");
}

/* Lists the ops that GPUs cannot run: they have no reference kernels. */
static void lacking_write(text *t) {
    const char *names[KERNELS_SHOWN];
    text lacking = {0};
    for (int i = 0; i < op_count(); i++)
        if (needs_kernel(op_at(i)) && !kernel_names(op_at(i), WEFT_DEVICE_CUDA, names))
            joined(&lacking, op_at(i)->name);
    if (lacking.length) text_add(t, "no kernel for GPUs: %s\n", tool_take(&lacking));
}

/* One op, a line for each of its columns. */
static void op_lines(text *t, const weft_op *op) {
    json_t *json = op_json(op);
    text_add(t, "%s\n", op->name);
    for (int i = 0; i < COLUMNS; i++) {
        const char *title = columns[i].write == write_precision ? "precision" : columns[i].title;
        text_add(t, "  %-17s %s\n", title, cell_of(&columns[i], op, json, false));
    }
    json_decref(json);
}

static const weft_op *op_named(const char *name) {
    names known = names_for(name);
    for (int i = 0; i < op_count(); i++) {
        if (strcmp(op_at(i)->name, name) == 0) return op_at(i);
        nearest_try(&known.near, op_at(i)->name);
    }
    names_refuse(&known, "ops: there is no op '%.60s' in the list of graphtool ops", name);
}

/* All, or the one that is named. */
static int ops_run(const options *o) {
    const weft_op *only = o->word ? op_named(o->word) : NULL;
    json_t *list = json_array();
    text t = {0};
    if (o->markdown && !only) head_write(&t);
    for (int i = 0; i < op_count(); i++) {
        if (only && op_at(i) != only) continue;
        if (o->json)
            json_array_append_new(list, op_json(op_at(i)));
        else if (only && !o->markdown)
            op_lines(&t, only);
        else
            op_row(&t, op_at(i), o->markdown);
    }
    if (!only) lacking_write(&t);
    if (o->json)
        out_json(o->output, json_pack("{s:O}", "ops", list));
    else
        out_text(o->output, &t);
    json_decref(list);
    return EXIT_FINE;
}

const command command_ops = {
    .name = "ops",
    .summary = "Lists every op with its PyTorch function, operands, attributes, gradients and kernels",
    .word = "OP",
    .options = "markdown json output",
    .example = "graphtool ops --json",
    .writes_text = true,
    .run = ops_run,
};
