/* hostile_models.c - models as files and texts, plans as texts, tables of kernel choices. */
#include "support/example.h"
#include "support/hostile/hostile.h"
#include "support/hostile/seal.h"
#include "weft/weft.h"

#include "ops/calibration.h"

#include <stdlib.h>
#include <string.h>

/* ---- models ---- */

/* Whatever was accepted has a text that reads back to the letter. */
static void check_back(subject *s, const weft_model *m) {
    weft_error error = {0};
    char *text = weft_model_text(m);
    weft_model *back = weft_model_parse(text, "back", NULL, &error);
    char *again = back ? weft_model_text(back) : NULL;
    if (!again || strcmp(text, again) != 0)
        hostile_complain(s, "its text does not read back: %s", error.text);
    weft_text_free(again);
    weft_model_free(back);
    weft_text_free(text);
}

static void use_model(subject *s, weft_model *m) {
    weft_error error;
    s->good = m != NULL;
    if (!m) return;
    check_back(s, m);
    weft_plan_free(weft_compile(m, &(weft_compile_options){.threads = 1, .isa = WEFT_ISA_REFERENCE}, &error));
    weft_model_free(m);
}

static void try_model(subject *s) {
    use_model(s, weft_load(HOSTILE_FILE, &s->f->env, &s->error));
}

static void try_text(subject *s) {
    char *string = hostile_text(s);
    use_model(s, weft_model_parse(string, "x", &s->f->env, &s->error));
    free(string);
}

static void make_model(hostile *h) {
    weft_model *m = example_model(&h->f.env);
    weft_error error = {0};
    CHECK_SAYS(!weft_save(m, "good", &error), "%s", error.text);
    weft_model_free(m);
    const fake_file *file = fake_get(&h->f, "good");
    if (file) hostile_put(h, file->data, file->bytes);
}

static void mend_model(mutant *m, const mutant *good) {
    (void)good;
    if (m->n >= SEALED_BYTES) seal_bytes(m->data, m->n);
}

static void put_text(hostile *h, char *string) {
    if (string) hostile_put(h, string, strlen(string));
    free(string);
}

static void make_text(hostile *h) {
    weft_model *m = example_model(NULL);
    put_text(h, weft_model_text(m));
    weft_model_free(m);
}

/* Layouts, places, fused bodies, buckets, shards: what only compiling makes. */
static void make_plan(hostile *h) {
    static const weft_compile_options options[] = {
        {.threads = 1, .graph = "g_step"},
        {.threads = 1, .graph = "g_step", .world = 4, .zero = 2, .stop_after = "optimizer"}};
    weft_error error = {0};
    weft_model *m = example_model(NULL);
    weft_plan *plan = weft_compile(m, &options[h->format->variant], &error);
    put_text(h, weft_plan_text(plan));
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- tables of kernel choices ---- */

static void make_table(hostile *h) {
    static const char good[] = "weft calibration 1\n"
                               "# NVIDIA H100, cuBLASLt 12.4\n"
                               "matmul(bf16[8,64], bf16[80,64]) transpose_b=1 -> id=66 tile=20 stages=36\n"
                               "\n"
                               "conv2d(bf16[8,3,32,32], bf16[16,3,3,3]) pad=1 -> engine=3\n"
                               "matmul(f32[8,64], f32[64,80]) tf32 -> id=1";
    hostile_put(h, good, sizeof good - 1);
}

static void try_table(subject *s) {
    arena a;
    arena_init(&a, &s->f->env);
    const calibration *c = calibration_load(HOSTILE_FILE, &a, &s->error);
    s->good = c != NULL;
    if (c && !calibration_hash(c)) hostile_complain(s, "a table has the hash 0");
    arena_free(&a);
}

/* ---- ONNX files ---- */

static void make_onnx(hostile *h) {
    hostile_put_from(h, TEST_DATA "/onnx/small.onnx");
}

/* A graph in both modes, and the weights. */
static void try_onnx(subject *s) {
    weft_onnx *file = weft_onnx_open(HOSTILE_FILE, &s->f->env, &s->error);
    weft_model *m = file ? weft_model_new_in("m", &s->f->env) : NULL;
    if (m && weft_onnx_graph(file, m, "train", WEFT_TRAIN, NULL, &s->error) &&
        weft_onnx_graph(file, m, "predict", WEFT_EVAL, NULL, &s->error))
        s->good = !weft_onnx_weights(file, "weights", &s->error);
    weft_model_free(m);
    weft_onnx_close(file);
}

const hostile_format hostile_models[] = {{"model.bin", make_model, try_model, .mend = mend_model},
                                         {"text", make_text, try_text},
                                         {"plan", make_plan, try_text, .variant = 0},
                                         {"plan of a rank", make_plan, try_text, .variant = 1},
                                         {"calibration", make_table, try_table, .takes_nearly = true},
                                         {"ONNX", make_onnx, try_onnx, .slow = 4},
                                         {0}};
