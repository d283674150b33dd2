/* import.c - graphtool import: an ONNX file becomes model.bin and weights; with --loss it trains. */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/output/names.h"

#include "graph/core/graph.h"
#include "graph/core/nearest.h"

#include <stdlib.h>
#include <string.h>

/* ---- losses ---- */

/* A loss of a file's output by a target, which is an input of the model. */
typedef struct loss_kind {
    const char *name, *input; /* of the target */
    weft_dtype target;
    weft_value *(*build)(weft_value *output, weft_value *target, const weft_loss *options);
} loss_kind;

static const loss_kind losses[] = {
    {"cross_entropy", "label", WEFT_I64, weft_cross_entropy},
    {"mse", "target", WEFT_F32, weft_mse},
    {"l1", "target", WEFT_F32, weft_l1},
    {"huber", "target", WEFT_F32, weft_huber},
    {"bce_with_logits", "target", WEFT_F32, weft_bce_with_logits},
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

/* The loss of --loss, and in *value the name after its ':', or NULL. */
static const loss_kind *loss_of(const options *o, const char **value) {
    const char *colon = o->loss ? strchr(o->loss, ':') : NULL;
    const char *name = colon ? tool_cut(o->loss, colon) : o->loss;
    *value = colon ? colon + 1 : NULL;
    if (!name) return NULL;
    nearest near = nearest_to(name, strlen(name));
    for (int i = 0; i < N_LOSSES; i++) {
        if (!strcmp(losses[i].name, name)) return &losses[i];
        nearest_try(&near, losses[i].name);
    }
    near_text ask = nearest_ask(&near);
    tool_fail("--loss=%.60s%s%s are cross_entropy, mse, l1, huber, bce_with_logits", name, ask.question,
              ask.there);
}

/* Classes lie on the last axis of rows and of texts, [N, C] and [B, T, C], and on axis 1 of images. */
static weft_value *loss_value(const loss_kind *kind, weft_graph *g, weft_value *output) {
    int64_t shape[WEFT_MAX_NDIM];
    int n = 0, ndim = weft_ndim(output);
    bool has_classes = kind->target == WEFT_I64, is_text = has_classes && ndim == 3;
    int classes = is_text ? 2 : 1;
    int64_t length = ndim ? weft_dim(output, 0) : 0, per_batch = 0, rest;
    bool is_known = ndim && weft_dim_batch(output, 0, &per_batch, &rest);
    if (is_known && !per_batch && length != weft_model_batch(weft_graph_model(g)))
        tool_fail(
            "import: --loss: the file's batch is %lld: give -b %lld, or export it with a free first axis",
            (long long)length, (long long)length);
    for (int i = 0; i < ndim; i++)
        if (!has_classes || i != classes) shape[n++] = i ? weft_dim(output, i) : WEFT_BATCH;
    weft_value *target = weft_input(g, kind->input, kind->target, n, shape);
    if (is_text) {
        output = weft_reshape(output, WEFT_SHAPE(-1, weft_dim(output, 2)));
        target = weft_reshape(target, WEFT_SHAPE(-1));
    }
    return kind->build(output, target, NULL);
}

/* ---- options ---- */

typedef struct import {
    weft_onnx *file;
    weft_model *model;
    weft_onnx_options how;
    const loss_kind *loss;
    const char *value; /* what the loss is of; NULL: the first output */
} import;

static const weft_onnx_axis *axes_of(const options *o) {
    weft_onnx_axis *axes = tool_new((size_t)o->axis.n + 1, sizeof *axes);
    for (int i = 0; i < o->axis.n; i++) {
        const char *equals = strchr(o->axis.v[i], '='), *rest = "";
        int64_t n = equals ? option_count(equals + 1, &rest) : 0;
        bool is_batch = equals && !strcmp(equals + 1, "batch");
        if (!is_batch && (n < 1 || *rest))
            tool_fail("--axis=%.80s: NAME=N is needed, with N at least 1 or batch", o->axis.v[i]);
        axes[i] = (weft_onnx_axis){tool_cut(o->axis.v[i], equals), is_batch ? WEFT_BATCH : n};
    }
    return axes;
}

static void head_of(const options *o, weft_onnx_options *how) {
    const char *colon = o->head ? strrchr(o->head, ':') : NULL, *rest = "";
    if (!o->head) return;
    how->head_length = colon ? option_count(colon + 1, &rest) : 0;
    if (how->head_length < 1 || *rest)
        tool_fail("--head=%.80s: VALUE:N is needed, with N at least 1", o->head);
    how->head = tool_cut(o->head, colon);
}

/* What files expect of images: bytes of 0 to 255 become (x - mean) / std, a number for each channel. */
static const struct {
    const char *name;
    double mean[3], std[3];
} scales[] = {
    {"unit", {0, 0, 0}, {255, 255, 255}},
    {"signed", {127.5, 127.5, 127.5}, {127.5, 127.5, 127.5}},
    {"imagenet", {123.675, 116.28, 103.53}, {58.395, 57.12, 57.375}}, /* as torchvision's models */
};
enum { N_SCALES = sizeof scales / sizeof *scales };

static void images_of(const options *o, weft_onnx_options *how) {
    const char *colon = o->images ? strchr(o->images, ':') : NULL, *scale = colon ? colon + 1 : "unit";
    weft_onnx_images *images = tool_new(1, sizeof *images);
    int i = 0;
    if (!o->images) return;
    while (i < N_SCALES && strcmp(scales[i].name, scale)) i++;
    if (i == N_SCALES)
        tool_fail("--images=%.60s: INPUT, or INPUT:SCALE with unit, signed or imagenet is needed", o->images);
    images->name = colon ? tool_cut(o->images, colon) : o->images;
    memcpy(images->how.mean, scales[i].mean, sizeof scales[i].mean);
    memcpy(images->how.std, scales[i].std, sizeof scales[i].std);
    how->images = images;
    how->n_images = 1;
}

static weft_optimizer optimizer_of(const options *o) {
    weft_optimizer made = {.type = "adamw", .lr = 1e-3};
    const char *colon = o->minimize ? strchr(o->minimize, ':') : NULL;
    if (o->minimize) made.type = colon ? tool_cut(o->minimize, colon) : o->minimize;
    if (colon)
        tool_must(weft_fields_read(weft_optimizer_fields(), tool_text("%s", colon + 1), &made, "--minimize",
                                   &tool_why));
    return made;
}

/* ---- graphs ---- */

static weft_graph *graph_of(import *in, const char *name, weft_mode mode) {
    return tool_got(weft_onnx_graph(in->file, in->model, name, mode, &in->how, &tool_why));
}

static weft_value *trained(import *in, const char *said, weft_graph *g) {
    const graph_output *first = g->outputs;
    weft_value *of = in->value ? weft_onnx_value(in->file, in->value) : first ? first->value : NULL;
    if (!of && in->value) {
        names known = names_for(in->value);
        for (const graph_output *p = first; p; p = p->next) names_add(&known, p->name);
        names_refuse(&known, "--loss=%.200s: the file has no value '%.80s'", said, in->value);
    }
    if (!of) tool_fail("--loss: the file has no output");
    return loss_value(in->loss, g, of);
}

static bool matches_parameter(const weft_model *m, const char *pattern) {
    weft_parameter_info p = {.is_state = true};
    for (int i = 0; p.is_state; i++)
        if (!weft_model_parameter(m, pattern, i, &p)) return false;
    return true;
}

/* Each pattern must match a parameter: one that matches nothing is misspelt. */
static void check_trainable(const weft_model *m, const char *patterns) {
    char one[PATTERN_ROOM];
    for (size_t at = 0; patterns && pattern_next(patterns, &at, one);) {
        if (matches_parameter(m, one)) continue;
        const weft_variable *near = pattern_nearest(m, one);
        if (!near) tool_fail("--trainable has no effect: the file has no parameters");
        tool_fail(
            "--trainable=%.80s: no parameter matches '%.80s': they have names like %.200s (import without "
            "--trainable, and graphtool info --parameters lists all)",
            patterns, one, near->path);
    }
}

static void training_graphs(import *in, const options *o) {
    weft_optimizer optimizer = optimizer_of(o);
    weft_graph *train = graph_of(in, "train", WEFT_TRAIN);
    weft_value *loss = trained(in, o->loss, train);
    check_trainable(in->model, o->trainable);
    weft_minimize(loss, o->trainable, &optimizer);
    weft_output(loss, "loss");
    weft_output(trained(in, o->loss, graph_of(in, "val", WEFT_EVAL)), "loss");
}

/* ---- the command ---- */

/* "m.safetensors" beside "m.bin". */
static const char *weights_beside(const char *output) {
    return tool_text("%.*s.safetensors", (int)path_stem(output), output);
}

/* "resnet18" of "models/resnet18.onnx". */
static const char *name_of(const char *path) {
    const char *name = path_leaf(path);
    return tool_text("%.*s", (int)path_stem(name), name);
}

/* "predict: image f32[8,3,64,64] -> logits f32[8,10]", for each graph; then what was written. */
static void show_graphs(const weft_model *m, const char *output, const char *weights) {
    int64_t n = 0;
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        printf("%s:", g->name);
        for (const weft_node *node = g->first; node; node = node->next)
            if (node->op == &weft_op_input) printf(" %s %s", input_name(node), TYPE(&node->out[0].type));
        printf(" ->");
        for (const graph_output *p = g->outputs; p; p = p->next)
            printf(" %s %s", p->name, TYPE(&p->value->type));
        printf("\n");
    }
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) n += type_elements(&v->type);
    printf("%s and %s written: %lld parameters\n", output, weights, (long long)n);
}

static void close_file(void *file) {
    weft_onnx_close(file);
}

static int import_run(const options *o) {
import in = {.how = {.n_axes = o->axis.n, .axes = axes_of(o), .batch_norm_eval = o->batch_norm && !strcmp(o->batch_norm, "eval") } };
    in.loss = loss_of(o, &in.value);
    head_of(o, &in.how);
    images_of(o, &in.how);
    if (!o->output) tool_fail("import: -o FILE is needed, for the model");
    in.file = tool_keep(tool_got(weft_onnx_open(o->model, &tool_shows, &tool_why)), close_file);
    in.model = tool_keep_model(tool_got(weft_model_new_in(name_of(o->model), &tool_shows)));
    if (o->compile.batch) weft_model_set_batch(in.model, o->compile.batch);
    if (in.loss) training_graphs(&in, o);
    graph_of(&in, "predict", WEFT_EVAL);
    if (weft_model_error(in.model)->status) tool_error(weft_model_error(in.model));
    tool_must(weft_save(in.model, o->output, &tool_why));
    const char *weights = weights_beside(o->output);
    tool_must(weft_onnx_weights(in.file, weights, &tool_why));
    show_graphs(in.model, o->output, weights);
    const char *note;
    for (int i = 0; in.loss && (note = weft_onnx_note(in.file, i)); i++) tool_note("%s: %s", o->model, note);
    if (in.how.images)
        tool_note("--images: input %s takes bytes (u8) in all graphs, and so in a file that export writes",
                  in.how.images->name);
    return EXIT_FINE;
}

const command command_import = {
    .name = "import",
    .summary = "Make a model and its weights from an ONNX file",
    .file = "an ONNX file",
    .options = "axis batch images loss minimize trainable head batch-norm output",
    .details =
        "Graph predict is the file's. With --loss there are train and val, too, whose input label or target "
        "is what the loss compares with. The weights stand beside the model: m.safetensors beside m.bin.",
    .example = "graphtool import resnet18.onnx -o m.bin --head logits:10 --loss cross_entropy",
    .run = import_run,
};
