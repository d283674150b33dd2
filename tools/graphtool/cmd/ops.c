/* ops.c - graphtool ops: prints every op, from the list that the library itself is made from (ops/list.h). */
#include "ops/catalog/catalog.h"
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/tools.h"

#include "graph/core/kernel.h"

#include <stdlib.h>
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
                                       "summed"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(op->name, none[i]) == 0) return false;
    return !(op->flags & OP_COMMUNICATES);
}

/* Can autodiff pass the op? Then it can pass the nodes which that adds, too (tests/test_gradients.c). */
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
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(op->name));
    json_object_set_new(o, "summary", json_string(op->summary ? op->summary : ""));
    json_object_set_new(o, "torch", op->torch ? json_string(op->torch) : json_null());
    json_object_set_new(o, "min_in", json_integer(op->min_in));
    json_object_set_new(o, "max_in", json_integer(op_max_in(op)));
    json_object_set_new(o, "attributes", attributes_json(op));
    json_object_set_new(o, "flags", flags_json(op));
    json_object_set_new(o, "gradient", json_boolean(has_gradient(op)));
    json_object_set_new(o, "second_gradient", json_boolean(has_gradient(op)));
    json_object_set_new(o, "precision", json_string(precision_names[op->precision]));
    json_object_set_new(o, "f32_in", json_integer(op->f32_in));
    json_object_set_new(o, "f32_out", json_integer(op->f32_out));
    json_object_set_new(o, "kernels", kernels_json(op, WEFT_DEVICE_CPU));
    json_object_set_new(o, "cuda_kernels", kernels_json(op, WEFT_DEVICE_CUDA));
    return o;
}

/* ---- one writer for each column ---- */

/* Appends an item to a list: "stride, pad", "pointwise, view", "simd, reference" */
static void joined(text *t, const char *item, bool *first) {
    text_add(t, *first ? "%s" : ", %s", item);
    *first = false;
}

static void write_torch(text *t, const weft_op *op) {
    static const char *const prefix = "torch.nn.functional.";
    if (op->torch && strncmp(op->torch, prefix, strlen(prefix)) == 0)
        text_add(t, "F.%s", op->torch + strlen(prefix));
    else if (op->torch)
        text_add(t, "%s", op->torch);
}

/* "2", "1 to 3", "2 or more" */
static void write_operands(text *t, const weft_op *op) {
    int most = op_max_in(op);
    if (most < 0)
        text_add(t, "%d or more", op->min_in);
    else if (most != op->min_in)
        text_add(t, "%d to %d", op->min_in, most);
    else
        text_add(t, "%d", op->min_in);
}

static void write_attributes(text *t, const weft_op *op) {
    bool first = true;
    for (const op_attr *a = op->attrs; a && a->name; a++) joined(t, a->name, &first);
}

static void write_flags(text *t, const weft_op *op) {
    bool first = true;
    for (int i = 0; i < FLAGS; i++)
        if (op->flags & flag_names[i].flag) joined(t, flag_names[i].name, &first);
}

static void write_gradient(text *t, const weft_op *op) {
    if (has_gradient(op)) text_add(t, "yes, second%s", op->flags & OP_FROM_RESULT ? ", of y" : "");
}

/* The set bits: "1, 2". */
static void bits_write(text *t, unsigned bits) {
    bool first = true;
    for (int i = 0; i < 32; i++) {
        char number[12];
        snprintf(number, sizeof number, "%d", i);
        if (bits >> i & 1) joined(t, number, &first);
    }
}

/* The op's behaviour in a bf16 or f16 graph, with the operands and results that stay f32 (graph/core/op.h):
 * "reduced, f32 2, 3 -> 1". */
static void write_precision(text *t, const weft_op *op) {
    text_add(t, "%s", precision_names[op->precision]);
    if (op->f32_in || op->f32_out) text_add(t, ", f32 ");
    bits_write(t, op->f32_in);
    if (!op->f32_out) return;
    text_add(t, "%s-> ", op->f32_in ? " " : "");
    bits_write(t, op->f32_out);
}

static void kernels_write(text *t, const weft_op *op, weft_device device) {
    const char *names[KERNELS_SHOWN];
    bool first = true;
    for (int i = 0, n = kernel_names(op, device, names); i < n; i++) joined(t, names[i], &first);
}

static void write_cpu(text *t, const weft_op *op) {
    kernels_write(t, op, WEFT_DEVICE_CPU);
}

static void write_cuda(text *t, const weft_op *op) {
    kernels_write(t, op, WEFT_DEVICE_CUDA);
}

static void write_summary(text *t, const weft_op *op) {
    text_add(t, "%s", op->summary ? op->summary : "");
}

static const struct column {
    const char *title;
    int width; /* at least, in text */
    void (*write)(text *t, const weft_op *op);
} columns[] = {
    {"PyTorch", 24, write_torch},           {"operands", 9, write_operands},
    {"attributes", 0, write_attributes},    {"flags", 0, write_flags},
    {"gradient", 11, write_gradient},       {"[precision](precision.md)", 0, write_precision},
    {"CPU kernels", 0, write_cpu},          {"GPU kernels", 0, write_cuda},
    {"what it computes", 0, write_summary},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Adds a cell; "-" if it is empty. Escapes '|', which would end the cell of a Markdown table. */
static void cell_write(text *t, const struct column *c, const weft_op *op, bool markdown) {
    text cell = {0};
    c->write(&cell, op);
    char *made = text_detach(&cell);
    const char *all = made && *made ? made : "-";
    text_add(t, markdown ? " | " : "  ");
    for (const char *at = all; markdown && *at; at++) text_add(t, *at == '|' ? "\\|" : "%c", *at);
    if (!markdown) text_add(t, "%-*s", c->width, all);
    free(made);
}

/* One op as a line of text or a row of Markdown. */
static void op_row(text *t, const weft_op *op, bool markdown) {
    text_add(t, markdown ? "| `%s`" : "%-24s", op->name);
    for (int i = 0; i < COLUMNS; i++) cell_write(t, &columns[i], op, markdown);
    text_add(t, markdown ? " |\n" : "\n");
}

static void head_write(text *t) {
    text_add(
        t,
        "# Ops\nMade by `graphtool ops --markdown`; the formulas are in the files of the ops, in "
        "the folders of `ops/`. `F` is `torch.nn.functional`;\nwhat is made of several ops (`weft_mean`, "
        "losses, layers) has no row here.\n\nAll gradients have second ones. Those \"of y\" are computed "
        "from the result, so that a second gradient by the result\nitself reaches them. They are those of "
        "PyTorch, but for `prod` and `cumprod`: there PyTorch computes the gradient from the\nresult where "
        "no number is 0, and here it is of the operand, whatever the numbers are. Of attention and "
        "recurrent ops\nusers get a view or a copy of the result, which no gradient reads, as in PyTorch."
        "\n\n| op");
    for (int i = 0; i < COLUMNS; i++) text_add(t, " | %s", columns[i].title);
    text_add(t, " |\n|---");
    for (int i = 0; i < COLUMNS; i++) text_add(t, "|---");
    text_add(t, "|\n");
}

/* Lists the ops that GPUs cannot run: they have no reference kernels. */
static void lacking_write(text *t) {
    const char *names[KERNELS_SHOWN];
    bool first = true;
    for (int i = 0; i < op_count(); i++) {
        if (!needs_kernel(op_at(i)) || kernel_names(op_at(i), WEFT_DEVICE_CUDA, names)) continue;
        if (first) text_add(t, "no kernel for GPUs: ");
        joined(t, op_at(i)->name, &first);
    }
    if (!first) text_add(t, "\n");
}

/* One op, a line for each of its columns. */
static void op_lines(text *t, const weft_op *op) {
    text_add(t, "%s\n", op->name);
    for (int i = 0; i < COLUMNS; i++) {
        const char *title = columns[i].write == write_precision ? "precision" : columns[i].title;
        text cell = {0};
        columns[i].write(&cell, op);
        char *made = text_detach(&cell);
        text_add(t, "  %-17s %s\n", title, made && *made ? made : "-");
        free(made);
    }
}

/* NULL after printing the nearest ones. */
static const weft_op *op_named(const char *name) {
    names known = names_for(name);
    for (int i = 0; i < op_count(); i++) {
        if (strcmp(op_at(i)->name, name) == 0) return op_at(i);
        nearest_try(&known.near, op_at(i)->name);
    }
    names_refuse(&known, "ops: there is no op '%.60s' in the list of graphtool ops", name);
    return NULL;
}

static int write_out(const options *o, text *t) {
    char *all = text_detach(t);
    if (!all) return tool_fail("out of memory");
    int status = out_write(o->output, all, strlen(all));
    free(all);
    return status;
}

static int ops_text(const options *o) {
    text t = {0};
    if (o->markdown) head_write(&t);
    for (int i = 0; i < op_count(); i++) op_row(&t, op_at(i), o->markdown);
    lacking_write(&t);
    return write_out(o, &t);
}

static int ops_one(const options *o) {
    const weft_op *op = op_named(o->word);
    if (!op) return EXIT_MISUSED;
    if (o->json) return out_json(o->output, json_pack("{s:[o]}", "ops", op_json(op)));
    text t = {0};
    if (o->markdown)
        op_row(&t, op, true);
    else
        op_lines(&t, op);
    return write_out(o, &t);
}

static int ops_run(const options *o) {
    if (o->word) return ops_one(o);
    if (!o->json) return ops_text(o);
    json_t *list = json_array();
    for (int i = 0; i < op_count(); i++) json_array_append_new(list, op_json(op_at(i)));
    return out_json(o->output, json_pack("{s:o}", "ops", list));
}

const command command_ops = {
    .name = "ops",
    .summary = "Lists every op with its PyTorch function, operands, attributes, gradients and kernels",
    .takes_model = false,
    .word = "OP",
    .options = "markdown json output",
    .example = "graphtool ops --json",
    .writes_text = true,
    .run = ops_run,
};
