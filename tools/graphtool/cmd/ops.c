/* ops.c - graphtool ops: prints every op, from the list that the library itself is made from (ops/list.h). */
#include "tools/graphtool/common/tools.h"

#include "graph/core/kernel.h"

#include <stdlib.h>
#include <string.h>

static const struct flag_name {
    unsigned flag;
    const char *name;
} flag_names[] = {
    {OP_POINTWISE, "pointwise"}, {OP_COMMUTES, "commutes"},         {OP_RANDOM, "random"},
    {OP_EFFECT, "effect"},       {OP_NO_GRADIENT, "no gradient"},   {OP_GRADIENT_ONCE, "gradient once"},
    {OP_VIEW, "view"},           {OP_VARIABLE, "names a variable"}, {OP_WRITES, "writes"},
};
static const char *const precision_names[] = {
    [PRECISION_F32] = "f32", [PRECISION_REDUCED] = "reduced", [PRECISION_FOLLOWS] = "follows"};
enum { FLAGS = sizeof flag_names / sizeof *flag_names, KERNELS_SHOWN = 16 };

static const char *const kind_names[] = {"int", "real", "bool", "dtype", "ints", "string", "key"};

/* The names of an op's kernels on the best processor, or on GPUs, best first and each once. Returns how
 * many. */
static int kernel_names(const weft_op *op, weft_device device, const char *names[KERNELS_SHOWN]) {
    const weft_kernel *list[KERNELS_SHOWN];
    kernel_env env = {.isa = WEFT_ISA_AVX512, .threads = 1, .device = device};
    int n = kernels_of(op, &env, list, KERNELS_SHOWN), kept = 0;
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
    static const char *const none[] = {"input",    "parameter", "state",        "gradients",
                                       "minimize", "wait",      "stop_gradient"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(op->name, none[i]) == 0) return false;
    return !(op->flags & OP_COMMUNICATES);
}

/* "2", "1 to 3", "2 or more" */
static void operands(char *into, size_t room, const weft_op *op) {
    if (op->max_in < 0)
        snprintf(into, room, "%d or more", op->min_in);
    else if (op->max_in != op->min_in)
        snprintf(into, room, "%d to %d", op->min_in, op->max_in);
    else
        snprintf(into, room, "%d", op->min_in);
}

/* One op as an object; keys are stable. */
static json_t *op_json(const weft_op *op, weft_device device) {
    json_t *attrs = json_array(), *flags = json_array(), *kernels = json_array();
    for (const op_attr *a = op->attrs; a && a->name; a++) {
        json_t *row = json_pack("{s:s, s:s}", "name", a->name, "kind", kind_names[a->kind]);
        if (a->min || a->max) {
            json_object_set_new(row, "min", json_integer(a->min));
            json_object_set_new(row, "max", json_integer(a->max));
        }
        json_array_append_new(attrs, row);
    }
    for (int i = 0; i < FLAGS; i++)
        if (op->flags & flag_names[i].flag) json_array_append_new(flags, json_string(flag_names[i].name));
    const char *names[KERNELS_SHOWN];
    for (int i = 0, n = kernel_names(op, device, names); i < n; i++)
        json_array_append_new(kernels, json_string(names[i]));
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:i, s:i, s:b, s:o, s:o, s:o}", "name", op->name, "precision",
                     precision_names[op->precision], "reduced_in", (json_int_t)op->reduced_in, "reduced_out",
                     (json_int_t)op->reduced_out, "summary", op->summary ? op->summary : "", "min_in",
                     op->min_in, "max_in", op->max_in, "gradient", op->gradient != NULL, "attributes", attrs,
                     "flags", flags, "kernels", kernels);
}

/* Appends an item to a list: "stride, pad", "pointwise, view", "simd, reference" */
static void joined(text *t, const char *item, bool *first) {
    text_add(t, *first ? "%s" : ", %s", item);
    *first = false;
}

/* Escapes '|', which would end the cell of a Markdown table. */
static void summary_write(text *t, const char *summary, bool markdown) {
    for (const char *c = summary ? summary : ""; *c; c++) {
        if (markdown && *c == '|') text_add(t, "\\");
        text_add(t, "%c", *c);
    }
}

/* The set bits: "1, 2", or "all". */
static void bits_write(text *t, unsigned bits) {
    bool first = true;
    for (int i = 0; i < 32 && bits != ~0u; i++) {
        char number[12];
        snprintf(number, sizeof number, "%d", i);
        if (bits >> i & 1) joined(t, number, &first);
    }
    if (bits == ~0u) text_add(t, "all");
}

/* The op's behaviour in a bf16 or f16 graph, with its reduced operands and results (graph/core/op.h):
 * "reduced 0, 1 -> 0". */
static void precision_write(text *t, const weft_op *op) {
    text_add(t, "%s", precision_names[op->precision]);
    if (op->precision == PRECISION_F32) return;
    text_add(t, " ");
    bits_write(t, op->reduced_in);
    if (!op->reduced_out) return;
    text_add(t, " -> ");
    bits_write(t, op->reduced_out);
}

/* One op as a line of text or a row of Markdown. */
static void op_row(text *t, const weft_op *op, weft_device device, bool markdown) {
    char count[40];
    operands(count, sizeof count, op);
    const char *bar = markdown ? " | " : "  ";
    text_add(t, markdown ? "| `%s` | %s" : "%-24s  %-9s", op->name, count);
    bool first = true;
    text_add(t, "%s", bar);
    for (const op_attr *a = op->attrs; a && a->name; a++) joined(t, a->name, &first);
    text_add(t, first ? "-%s" : "%s", bar);
    first = true;
    for (int i = 0; i < FLAGS; i++)
        if (op->flags & flag_names[i].flag) joined(t, flag_names[i].name, &first);
    text_add(t, first ? "-%s" : "%s", bar);
    precision_write(t, op);
    text_add(t, "%s", bar);
    const char *names[KERNELS_SHOWN];
    first = true;
    for (int i = 0, n = kernel_names(op, device, names); i < n; i++) joined(t, names[i], &first);
    text_add(t, first ? "-%s" : "%s", bar);
    summary_write(t, op->summary, markdown);
    text_add(t, markdown ? " |\n" : "\n");
}

/* Lists the ops that a backend without reference kernels cannot run. */
static void lacking_write(text *t, weft_device device) {
    const char *names[KERNELS_SHOWN];
    bool first = true;
    for (int i = 0; i < op_count(); i++) {
        if (!needs_kernel(op_at(i)) || kernel_names(op_at(i), device, names)) continue;
        if (first) text_add(t, "no kernel: ");
        joined(t, op_at(i)->name, &first);
    }
    if (!first) text_add(t, "\n");
}

static int ops_text(const options *o, weft_device device) {
    text t = {0};
    if (o->markdown)
        text_add(
            &t,
            "# Ops\nMade by `graphtool ops --markdown`; the formulas are in the file of each op, "
            "`ops/*/<name>.c`.\n\n"
            "| op | operands | attributes | flags | [precision](precision.md) | kernels | what it computes "
            "|\n|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < op_count(); i++) op_row(&t, op_at(i), device, o->markdown);
    lacking_write(&t, device);
    char *all = text_detach(&t);
    if (!all) return tool_fail("out of memory");
    int status = out_write(o->output, all, strlen(all));
    free(all);
    return status;
}

static int ops_run(const options *o) {
    weft_device device = tool_device(o);
    if (!o->json) return ops_text(o, device);
    json_t *list = json_array();
    for (int i = 0; i < op_count(); i++) json_array_append_new(list, op_json(op_at(i), device));
    return out_json(o->output, json_pack("{s:o}", "ops", list));
}

const command command_ops = {
    .name = "ops",
    .summary = "Lists every op with its operands, attributes and kernels",
    .takes_model = false,
    .options = "device markdown json output",
    .example = "graphtool ops --json",
    .run = ops_run,
};
