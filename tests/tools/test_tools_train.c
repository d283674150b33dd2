/* test_tools_train.c - graphtool train, eval and predict on small data. */
#include "support/programs.h"
#include "weft/weft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *last_line(const char *name) {
    char *all = read_all(name), *last = all;
    for (char *p = all; p && *p; p++)
        if (*p == '\n' && p[1]) last = p + 1;
    json_t *json = last ? json_loads(last, 0, NULL) : NULL;
    free(all);
    return json;
}

TEST(training_logs_saves_and_is_repeatable) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --epochs 4 --seed 3 --threads 2 --log";
    NEED(ends(run("%s a.jsonl -o a.safetensors", train), 0));
    NEED(ends(run("%s b.jsonl -o b.safetensors", train), 0));
    ends(run("cmp a.safetensors b.safetensors"), 0);
    ends(run("test $(wc -l <a.jsonl) = 28"), 0); /* 4 epochs of 7 steps */
    json_t *line = last_line("a.jsonl");
    CHECK(json_integer_value(json_object_get(line, "step")) == 28);
    CHECK(json_integer_value(json_object_get(line, "epoch")) == 4);
    double loss = json_real_value(json_object_get(line, "loss"));
    CHECK_SAYS(loss > 0 && loss < 2, "loss %g after 4 epochs", loss);
    json_decref(line);
    ends(run("graphtool train mlp.bin " DATA " --batch 10 --steps 3 --weights a.safetensors --lr 1e-4 "
             "--val-data image=images.idx --val-data label=labels.idx --log c.jsonl"),
         0);
    line = last_line("c.jsonl");
    CHECK(json_object_get(line, "val_accuracy") != NULL);
    json_decref(line);
}

/* One source feeds both inputs; an input's array may be named, or be the next. */
TEST(a_source_of_several_arrays_feeds_several_inputs) {
    NEED(ends(run("weft-zoo gpt --layers=1 --d=16 --heads=2 --ctx=8 --vocab=128 -o gpt.bin"), 0));
    NEED(ends(run("for i in 1 2 3 4 5 6 7 8 9; do echo 'the cat sat on a mat'; done >t.txt"), 0));
    const char *train = "graphtool train gpt.bin --epochs 2 --seed 3 --batch 4 --threads 1 --data";
    ends(run("%s tokens,target=t.txt:window=8,pairs=1,dtype=i32 -o a.safetensors", train), 0);
    ends(run("%s tokens,target=t.txt:window=8,stride=8,pairs=1,dtype=i32,form=text "
             "-o b.safetensors",
             train),
         0);
    ends(run("cmp a.safetensors b.safetensors"), 0);
    refuses(run("%s tokens=t.txt:window=8,dtype=i32", train), "input target i32[4,8] is not fed");
    refuses(run("%s tokens,target,third=t.txt:window=8,pairs=1", train), "3 names, but 2 arrays");
    refuses(run("%s tokens,tokens=t.txt:window=8,pairs=1", train), "input tokens has a file already");
    refuses(run("%s tokens=t.txt:window=8,colour=1", train), "there is no option 'colour'");
    ends(run("%s tokens,target=t.txt:window=8,pairs=1 -o c.safetensors", train),
         0); /* i64, which i32 holds */
    ends(run("cmp a.safetensors c.safetensors"), 0);
}

/* The images and labels of make_data as numbers of 8 bytes, as NumPy has them by default. */
static void make_wide_data(void) {
    enum { COUNT = 70, PIXELS = 28 * 28 };
    weft_error error = {0};
    char path[300];
    path_of("images.idx", path);
    weft_array *images = weft_array_load(path, NULL, &error);
    path_of("labels.idx", path);
    weft_array *labels = weft_array_load(path, NULL, &error);
    NEED(images && labels);
    static double pixels[COUNT * PIXELS];
    int64_t classes[COUNT];
    const uint8_t *pixel = weft_array_data(images), *label = weft_array_data(labels);
    for (int i = 0; i < COUNT * PIXELS; i++) pixels[i] = pixel[i];
    for (int i = 0; i < COUNT; i++) classes[i] = label[i];
    put_npy("images64.npy", "<f8", "(70, 28, 28)", pixels, sizeof pixels);
    put_npy("labels64.npy", "<i8", "(70,)", classes, sizeof classes);
    classes[69] = 256;
    put_npy("labels256.npy", "<i8", "(70,)", classes, sizeof classes);
    weft_array_free(images);
    weft_array_free(labels);
}

TEST(data_of_another_type_are_converted_or_the_way_is_told) {
    make_data();
    make_wide_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin --batch 10 --epochs 1 --threads 1 --data";
    NEED(ends(run("%s image=images.idx --data label=labels.idx -o a.safetensors", train), 0));
    ends(run("%s image=images64.npy:dtype=u8 --data label=labels64.npy -o b.safetensors 2>log", train), 0);
    ends(run("cmp a.safetensors b.safetensors"), 0);
    ends(run("test $(grep -c 'data label: i64 is read as u8' log) = 1"), 0);
    refuses(run("%s image=images64.npy --data label=labels64.npy", train),
            "graph train takes u8[10,28,28]; u8 does not hold every f64: save it with .astype(\"uint8\") in "
            "NumPy, or convert it here by the option dtype=u8 of the data (graphtool: --data "
            "image=FILE:dtype=u8)");
    ends(run("%s image=images.idx --data label=labels256.npy 2>log", train), 1);
    ends(run("grep -q 'label: sample 69 has 256, which u8 does not hold' log"), 0);
}

/* A folder of images feeds image and label; the loader itself draws what crops and flips. */
TEST(images_are_preprocessed_in_the_graph) {
    char path[300];
    weft_error error = {0};
    weft_preprocess_options how = {
        .crop_height = 20, .crop_width = 20, .flip = true, .mean = {120, 120, 120}, .std = {60, 60, 60}};
    path_of("pictures.bin", path);
    weft_model *m = weft_model_new("pictures");
    weft_model_set_batch(m, 4);
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 3, 24, 24));
        weft_value *label = weft_input(g, "label", WEFT_I64, WEFT_SHAPE(WEFT_BATCH));
        weft_value *draws =
            i ? NULL : weft_input(g, "draws", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, WEFT_PREPROCESS_DRAWS));
        x = weft_linear(weft_flatten(weft_preprocess(x, draws, &how), 1), 2, "fc", NULL);
        weft_value *loss = weft_cross_entropy(x, label, NULL);
        if (!i) weft_minimize(loss, "", &(weft_optimizer){.type = "sgd", .lr = 1e-3});
        weft_output(loss, "loss");
    }
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
    const char *data = "image,label=" TEST_DATA "/golden/images:height=24",
               *train = "graphtool train pictures.bin --threads 1 --data";
    ends(run("%s %s --val-data %s --epochs 3 --seed 3 -o a.safetensors", train, data, data), 0);
    ends(run("%s %s --epochs 3 --seed 3 -o b.safetensors", train, data), 0);
    ends(run("cmp a.safetensors b.safetensors"), 0);
    ends(run("%s %s --epochs 3 --seed 4 -o c.safetensors", train, data), 0);
    ends(run("cmp -s a.safetensors c.safetensors"), 1);
    refuses(run("%s image=" TEST_DATA "/golden/images:height=24", train), "input label i64[4] is not fed");
    /* without data, too: draws that are made lie in [0, 1), so no crop is outside of its image */
    ends(run("graphtool bench pictures.bin --batch 64 --threads 1 --steps 2 --warmup 1"), 0);
    ends(run("graphtool trace pictures.bin --batch 64 --threads 1 --steps 2 -o t.json"), 0);
}

/* What the zoo's classifiers take by --pictures is what a folder gives. */
TEST(the_zoo_s_classifiers_train_on_folders_of_pictures) {
    static const char *const small[] = {"resnet18 --pictures", "mobilenet_v2 --pictures"};
    for (int i = 0; i < 2; i++) {
        ends(run("weft-zoo %s --batch 2 -o folder.bin", small[i]), 0);
        ends(run("graphtool train folder.bin --data image,label=" TEST_DATA
                 "/golden/images:height=%d --steps 1 --threads 1",
                 i ? 224 : 32),
             0);
    }
}

/* It would change the weights on its way over the data, and give the loss of no weights at all. */
TEST(graphs_that_train_are_not_evaluated) {
    static const char *const commands[] = {"eval", "predict -o x.npy"};
    make_data();
    NEED(make_model("mlp"));
    for (int i = 0; i < 2; i++) {
        CHECK(ends(run("graphtool %s mlp.bin --graph train --random-weights " DATA, commands[i]), 2));
        char *all = read_all("err");
        CHECK_HOLDS(all, "graph train trains");
        free(all);
    }
}

/* Frees the model, too. */
static void save_in_folder(weft_model *m, const char *name) {
    char path[300];
    weft_error error = {0};
    path_of(name, path);
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
}

/* loss = mean((w x)^2) over 16 samples, whatever --batch says: no shape is WEFT_BATCH. */
static void make_fixed(const char *name) {
    weft_model *m = weft_model_new("fixed");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "val" : "train", i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *x = weft_cast(weft_input(g, "label", WEFT_U8, 1, (int64_t[]){16}), WEFT_F32);
        x = weft_square(weft_linear(weft_reshape(x, 2, (int64_t[]){-1, 1}), 1, "fc", NULL));
        x = weft_mean(x, WEFT_ALL, false);
        if (!i) weft_minimize(x, "", &(weft_optimizer){.type = "sgd", .lr = 1e-9});
        weft_output(x, "loss");
    }
    save_in_folder(m, name);
}

/* Seventy samples. */
/* Its batch is that of its inputs, whatever --batch says. */
TEST(a_model_of_one_batch_size_says_which) {
    make_data();
    make_fixed("fixed.bin");
    ends(run("graphtool train fixed.bin --data label=labels.npy"), 0);
    refuses(run("graphtool eval fixed.bin --random-weights --data label=labels.npy"),
            "no axis of the model is WEFT_BATCH");
    refuses(run("graphtool plan fixed.bin --batch 3"), "no axis of the model is WEFT_BATCH");
}

TEST(a_huge_loss_is_shown_in_few_characters) {
    make_data();
    make_fixed("fixed.bin");
    ends(run("graphtool train fixed.bin --batch 16 --data label=labels.npy --lr 1e3 --steps 4 --keep-going | "
             "grep -E "
             "'loss [0-9.]+e\\+[0-9]+ '"),
         0);
}

/* The loss of eval with these options. What they warn is in `err` then. */
static double loss_of(const char *options) {
    CHECK(ends(run("graphtool eval mlp.bin " DATA " --weights w.safetensors %s --json", options), 0));
    char *all = read_all("out");
    json_t *json = json_loads(all, 0, NULL);
    double loss = json_number_value(json_object_get(json, "loss"));
    CHECK_SAYS(loss > 0, "%s", all);
    json_decref(json);
    free(all);
    return loss;
}

TEST(weights_are_loaded_in_part_and_under_other_names) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("graphtool train mlp.bin " DATA " --batch 10 --steps 5 -o w.safetensors"), 0);
    double whole = loss_of("");
    CHECK(loss_of("--rename net.:net.") == whole && loss_of("--partial") == whole);
    CHECK(loss_of("--partial --rename net.fc1:x --seed 3") != whole);
    char *all = read_all("err");
    CHECK_HOLDS(all,
                "w.safetensors: 4 tensors are loaded; 2 of the model are not in it and begin with initial "
                "values (net.fc1.bias, ...); 2 are not of the model and are skipped (x.bias, ...)");
    free(all);
    refuses(run("graphtool eval mlp.bin " DATA " --weights w.safetensors --rename net.fc1:x"), "x.bias");
    refuses(run("graphtool eval mlp.bin " DATA " --weights w.safetensors --rename nets:x"),
            "--rename=nets:x has no effect: no name in w.safetensors begins with 'nets'");
    refuses(run("graphtool eval mlp.bin " DATA " --weights w.safetensors --rename net:net --rename net.fc1:"),
            "--rename=net.fc1: has no effect: no name in w.safetensors begins with 'net.fc1', but those");
    refuses(run("graphtool eval mlp.bin " DATA " --weights w.safetensors --partial --rename :module."),
            "w.safetensors: no tensor of it has a name of the model: its first is module.net.fc1.bias");
}

TEST(weights_that_are_a_model_and_grids_that_stay_empty_are_refused) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    refuses(run("graphtool eval mlp.bin " DATA " --weights mlp.bin"),
            "mlp.bin: it is a model, weights are needed");
    refuses(run("graphtool predict dcgan28.bin --random-weights --batch 4 --grid 3x3 -o grid.png"),
            "--grid=3x3: 9 images are wanted, the data give 4");
    CHECK(!exists("grid.png"));
    ends(run("graphtool predict dcgan28.bin --random-weights --grid 3x3 -o grid.png"), 0);
}

TEST(eval_counts_every_sample_once) {
    make_data();
    NEED(make_model("mlp"));
    double loss[2] = {0};
    for (int i = 0; i < 2; i++) { /* 70 = 4 x 16 + 6 = 1 x 70: the same mean */
        NEED(ends(
            run("graphtool eval mlp.bin " DATA " --batch %d --seed 3 --random-weights --json", i ? 70 : 16),
            0));
        json_t *out = json_out("out");
        CHECK(json_integer_value(json_object_get(out, "samples")) == SAMPLES);
        CHECK(json_object_get(out, "accuracy") != NULL);
        loss[i] = json_real_value(json_object_get(out, "loss"));
        json_decref(out);
    }
    CHECK_SAYS(loss[0] > 0 && loss[0] - loss[1] < 1e-5 && loss[1] - loss[0] < 1e-5, "%g and %g", loss[0],
               loss[1]);
}

/* Of the highest three probabilities, which predict writes in the order of the files. */
TEST(a_metric_of_eval_is_that_of_the_predictions) {
    enum { CLASSES = 10, HEAD = 128, TOP = 3 };
    make_data();
    NEED(make_model("mlp"));
    const char *model = "mlp.bin --random-weights --seed 5 --batch 16 --threads 1 --data image=images.idx";
    NEED(ends(run("graphtool predict %s --fetch probabilities -o scores.npy", model), 0));
    NEED(ends(run("graphtool eval %s --data label=labels.npy --metric accuracy:top=3 --json", model), 0));
    char *scores = read_all("scores.npy"), *labels = read_all("labels.npy");
    json_t *out = json_out("out");
    int right = 0;
    for (int i = 0; i < SAMPLES; i++) {
        int above = 0;
        float row[CLASSES];
        memcpy(row, scores + HEAD + (size_t)i * sizeof row, sizeof row);
        float own = row[(unsigned char)labels[HEAD + i]];
        for (int k = 0; k < CLASSES; k++) above += row[k] > own;
        right += above < TOP;
    }
    double is = json_number_value(json_object_get(out, "accuracy_top3"));
    CHECK_SAYS(right > 0 && fabs(is - (double)right / SAMPLES) < 1e-9, "%g, but %d of %d", is, right,
               SAMPLES);
    json_decref(out);
    free(scores);
    free(labels);
}

/* A graph without parameters: column 1 of x is a score, x and y are vectors of samples. */
static bool make_pairs(void) {
    char path[300];
    weft_error e = {0};
    weft_model *m = weft_model_new("pairs");
    weft_model_set_batch(m, 3);
    weft_graph *g = weft_graph_new(m, "val", WEFT_EVAL);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2));
    weft_value *y = weft_input(g, "y", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 2));
    weft_value *label = weft_input(g, "label", WEFT_U8, WEFT_SHAPE(WEFT_BATCH));
    weft_output(weft_slice(x, 1, 1, 2), "score");
    weft_output(weft_neg(weft_neg(x)), "logits");
    weft_output(weft_neg(weft_neg(y)), "texts");
    weft_output(weft_mean(weft_cast(label, WEFT_F32), WEFT_ALL, false), "ones");
    path_of("pairs.bin", path);
    bool is_made = CHECK_SAYS(weft_save(m, path, &e) == WEFT_OK, "%s", e.text);
    weft_model_free(m);
    return is_made;
}

/* The scores of scikit-learn's example, and differences of columns in the reverse order. Products with y are
 * 1 and 8, of which samples 2 and 3 have the higher one. */
TEST(metrics_of_all_samples_at_once) {
    static const float x[4][2] = {{0.f, 0.1f}, {1, 0.4f}, {2, 0.35f}, {3, 0.8f}},
                       y[4][2] = {{0, 1}, {0, 1}, {0, 8}, {0, 8}};
    static const uint8_t label[4] = {0, 0, 1, 1};
    const struct {
        const char *name;
        double value;
    } want[] = {{"area", 0.75}, {"auc", 0}, {"recall_at_1", 0}, {"recall_at_2", 0.5}, {"back", 0.25}};
    make_data();
    put_npy("x.npy", "<f4", "(4, 2)", x, sizeof x);
    put_npy("y.npy", "<f4", "(4, 2)", y, sizeof y);
    put_npy("l.npy", "|u1", "(4,)", label, sizeof label);
    NEED(make_pairs());
    NEED(ends(run("graphtool eval pairs.bin --data x=x.npy --data y=y.npy --data label=l.npy --metric auc "
                  "--metric auc:scores=score,name=area --metric recall_at:output=logits,target=texts "
                  "--metric recall_at:output=logits,target=texts,top=2 "
                  "--metric recall_at:output=texts,target=logits,name=back --json"),
              0));
    json_t *out = json_out("out");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        double is = json_number_value(json_object_get(out, want[i].name));
        CHECK_SAYS(json_object_get(out, want[i].name) && fabs(is - want[i].value) < 1e-9, "%s is %g, not %g",
                   want[i].name, is, want[i].value);
    }
    json_decref(out);
    refuses(run("graphtool eval pairs.bin --data x=x.npy --data y=y.npy --data label=l.npy --metric "
                "recall_at:output=logits"),
            "--metric=recall_at:output=logits: target=NAME is needed");
    refuses(run("graphtool eval pairs.bin --data x=x.npy --data y=y.npy --data label=l.npy --metric "
                "auc:scores=ones"),
            "evaluator auc: ones is f32[], and label is u8[3]: scores are f32 or f64 [3], [3,1] or [3,2]");
}

TEST(gans_train_both_graphs_and_sample) {
    make_data();
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool train dcgan28.bin --data image=images.idx --batch 16 --steps 3 --log g.jsonl "
                  "-o g.safetensors"),
              0));
    json_t *line = last_line("g.jsonl");
    CHECK(json_is_real(json_object_get(line, "d_loss")) && json_is_real(json_object_get(line, "g_loss")));
    json_decref(line);
    ends(run("graphtool predict dcgan28.bin --weights g.safetensors --fetch samples --grid 2x3 -o s.png"), 0);
    ends(run("head -c 4 s.png | grep -q PNG"), 0);
    ends(run("graphtool predict dcgan28.bin --weights g.safetensors --batch 4 -o s.npy"), 0);
    ends(run("test $(wc -c <s.npy) = %d", 128 + 4 * 28 * 28), 0);
}

TEST(predictions_cover_all_data) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(
        run("graphtool predict mlp.bin --data image=images.idx --batch 16 --random-weights --fetch class "
            "-o c.npy"),
        0));
    ends(run("test $(wc -c <c.npy) = %d", 128 + SAMPLES * 8), 0);
}

static weft_array *fetched(const char *path) {
    weft_error error;
    char file[300];
    ends(run("graphtool predict mlp.bin --data image=images.idx --random-weights --fetch %s -o fetched.npy",
             path),
         0);
    path_of("fetched.npy", file);
    weft_array *array = weft_array_load(file, NULL, &error);
    CHECK_SAYS(array != NULL, "%s: %s", path, error.text);
    return array;
}

/* What layers give in the middle of a model, by the paths of scopes and ops. */
TEST(predictions_show_values_in_the_middle) {
    int64_t shape[WEFT_MAX_NDIM];
    make_data();
    NEED(make_model("mlp"));
    weft_array *class = fetched("class"), *logits = fetched("net"), *hidden = fetched("net/fc1"),
               *relu = fetched("net/relu");
    if (class && logits && hidden && relu) {
        const int64_t *best = weft_array_data(class);
        const float *all = weft_array_data(logits), *before = weft_array_data(hidden),
                    *after = weft_array_data(relu);
        CHECK(weft_array_shape(logits, shape) == 2 && shape[0] == SAMPLES && shape[1] == 10);
        for (int n = 0; n < SAMPLES; n++)
            for (int c = 0; c < 10; c++) CHECK(all[n * 10 + c] <= all[n * 10 + best[n]]);
        CHECK(weft_array_shape(hidden, shape) == 2 && shape[0] == SAMPLES);
        int64_t width = shape[1], negative = 0;
        for (int64_t i = 0; i < SAMPLES * width; i++) negative += before[i] < 0;
        CHECK(weft_array_shape(relu, shape) == 2 && negative > 0);
        for (int64_t i = 0; i < SAMPLES * shape[1]; i++) CHECK(after[i] >= 0);
    }
    weft_array_free(class), weft_array_free(logits), weft_array_free(hidden), weft_array_free(relu);
    ends(run("graphtool predict mlp.bin --data image=images.idx --random-weights --fetch net/fc9 -o x.npy"),
         2);
}

/* Once it trains, however long that takes on a busy machine. A shell lets its background jobs ignore
 * SIGINT. */
TEST(an_interrupt_keeps_the_weights) {
    make_data();
    NEED(make_model("mlp"));
    static const char *const signals[] = {"INT", "TERM"};
    for (int i = 0; i < 2; i++) {
        ends(run("rm -f steps; env --default-signal=INT graphtool train mlp.bin " DATA
                 " --batch 10 --epochs 1000000 --log steps -o %s.safetensors & "
                 "until test -s steps; do kill -0 $! || exit 1; sleep 0.05; done; kill -%s $!; wait $!",
                 signals[i], signals[i]),
             130);
        ends(run("test -s %s.safetensors", signals[i]), 0);
    }
}

TEST(wrong_feeds_are_told_before_training) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin -o never.safetensors --batch 10";
    refuses(run("%s --data image=images.idx", train), "input label u8[10] is not fed");
    refuses(run("%s --data image=images.idx --data lable=labels.idx", train),
            "data lable: graph train has no input of this name: did you mean 'label'?");
    refuses(run("%s --data image=images.idx --data other=labels.idx", train),
            "these inputs are fed: image, other");
    refuses(run("%s " DATA " --data more=labels.idx", train), "more: no graph");
    refuses(run("%s " DATA " --data imaeg=labels.idx", train),
            "data imaeg: no graph that runs has an input of this name: did you mean 'image'?");
    refuses(run("%s --data image=labels.idx --data label=labels.idx", train), "takes u8[10,28,28]");
    refuses(run("%s " DATA " --data image=images.idx", train), "a file already");
    refuses(run("%s --data image=images.idx --data label=none.npy", train), "none.npy");
    refuses(run("graphtool train mlp.bin -o never.safetensors " DATA " --batch 71"), "fewer than a batch");
    refuses(run("%s", train), "--steps=N");
    CHECK(!exists("never.safetensors"));
}

TEST(losses_that_are_not_numbers_stop_training) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --epochs 3 --lr 1e30 -o nan.safetensors";
    ends(run("%s", train), 8);
    char *err = read_all("err");
    CHECK_HOLDS(err, "training stops");
    free(err);
    CHECK(!exists("nan.safetensors"));
    ends(run("%s --keep-going", train), 1);
    CHECK(exists("nan.safetensors"));
}

/* Sample 17 has the class 200 of 10: a bad step, which ends the training or is passed over; without a guard
 * it is an error, whose row is the sample's place in the list. */
TEST(a_wrong_label_is_told_with_its_samples) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run("cp labels.npy wrong.npy && printf '\\310' | dd of=wrong.npy bs=1 seek=145 conv=notrunc"),
              0));
    const char *train = "rm -f bad.step; graphtool train mlp.bin --data image=images.idx --data "
                        "label=wrong.npy --batch 10 --seed 3 -o never.safetensors";
    const char *const found[] = {": target 200 is outside the classes 0 to 9",
                                 "; first wrong value, on rank 0", " [epoch 1, iteration ",
                                 ", sample 17, row "};
    ends(run("%s", train), 8);
    for (int way = 0; way < 2; way++) {
        char *said = read_all("err");
        for (size_t i = 0; i < sizeof found / sizeof *found; i++) CHECK_HOLDS(said, found[i]);
        if (way) CHECK_HOLDS(said, "]: skipped, 1 of at most 3 in a row");
        free(said);
        CHECK(exists("never.safetensors") == way && exists("bad.step") == !way);
        if (!way)
            ends(run("graphtool replay . | grep -q '^first wrong value, on rank 0 in micro-batch 0'"), 0);
        if (!way) ends(run("%s --on-bad-step skip", train), 0);
    }
    ends(run("rm never.safetensors; %s --guard off", train), 1);
    char *err = read_all("err"), *row = strstr(err, ": row "), *list = strstr(err, ", samples ");
    CHECK_HOLDS(err, found[0]);
    CHECK_HOLDS(err, found[2]);
    if (CHECK_SAYS(row && list, "%s", err)) {
        long n = strtol(row + 6, NULL, 10);
        for (list += 9; n-- && list;) list = strchr(list + 1, ',');
        CHECK_SAYS(list && strtol(list + 1, NULL, 10) == 17, "%s", err);
    }
    free(err);
    CHECK(!exists("never.safetensors"));
}

/* What was trained is whole: the weights are written, averages too. */
TEST(a_wrong_label_of_a_validation_loses_no_weights) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run("cp labels.npy wrong.npy && printf '\\310' | dd of=wrong.npy bs=1 seek=145 conv=notrunc"),
              0));
    for (int k = 0; k < 2; k++) {
        const char *ema = k ? "--ema 0.9" : "";
        const char *train = "graphtool train mlp.bin " DATA " --batch 10 --seed 3";
        ends(run("%s %s --epochs 1 -o want.st", train, ema), 0);
        ends(run("%s %s --epochs 2 -o got.st --val-data image=images.idx --val-data label=wrong.npy", train,
                 ema),
             1);
        char *err = read_all("err"), *out = read_all("out");
        CHECK_HOLDS(err, ": target 200 is outside the classes 0 to 9");
        CHECK_HOLDS(out, "stopped after 7 steps, 70 samples, ");
        CHECK_HOLDS(out, "; weights in got.st\n");
        free(err);
        free(out);
        ends(run("cmp want.st got.st"), 0);
    }
}

TEST(wrong_words_for_bad_steps_are_told) {
    make_data();
    NEED(make_model("mlp"));
    const char *const wrong[] = {"skip=0", "skip=", "skip=1x", "skip=99999999", "sk", "skip2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses(run("graphtool train mlp.bin " DATA " --batch 10 --on-bad-step '%s'", wrong[i]),
                "it must be stop, skip or skip=N, with N from 1 to 1000000");
    refuses(run("graphtool train mlp.bin " DATA " --batch 10 --on-bad-step skip --guard off"),
            "--on-bad-step has no effect with --guard=off");
}

/* y = w x, whose mean decreases without end; its loss is not an output. is_bad: and is not a number. */
static void make_unnamed(const char *name, bool is_bad) {
    weft_model *m = weft_model_new("unnamed");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "label", WEFT_U8, 1, (int64_t[]){WEFT_BATCH});
    x = weft_linear(weft_reshape(weft_cast(x, WEFT_F32), 2, (int64_t[]){-1, 1}), 1, "fc", NULL);
    x = weft_mean(weft_mul(x, weft_mul(x, x)), WEFT_ALL, false);
    if (is_bad) x = weft_log(weft_offset(weft_scale(x, 0), -1));
    weft_minimize(x, "", &(weft_optimizer){.type = "sgd", .lr = 1e10});
    save_in_folder(m, name);
}

/* Two graphs that one optimizer steps. */
static void make_shared(const char *name) {
    weft_model *m = weft_model_new("shared");
    for (int i = 0; i < 2; i++) {
        weft_graph *g = weft_graph_new(m, i ? "second" : "first", WEFT_TRAIN);
        weft_value *x = weft_input(g, "label", WEFT_U8, 1, (int64_t[]){WEFT_BATCH});
        x = weft_linear(weft_reshape(weft_cast(x, WEFT_F32), 2, (int64_t[]){-1, 1}), 1, "fc", NULL);
        weft_minimize(weft_mean(weft_square(x), WEFT_ALL, false), "",
                      &(weft_optimizer){.type = "adagrad", .lr = 1e-3, .name = "one"});
    }
    save_in_folder(m, name);
}

TEST(what_begins_a_training_is_told_once_for_each_optimizer) {
    make_data();
    make_shared("shared.bin");
    const char *train = "graphtool train shared.bin --data label=labels.npy --batch 10 "
                        "--checkpoint-dir shared --resume auto --optimizer :initial_accumulator=0.5";
    NEED(ends(run("%s --steps 2", train), 0));
    NEED(ends(run("%s --steps 4", train), 0));
    char *err = read_all("err"),
         *first = strstr(err, "initial_accumulator of one is read at the start of a training");
    CHECK_SAYS(first && !strstr(first + 1, "initial_accumulator"), "%s", err);
    free(err);
}

TEST(a_training_of_bad_steps_alone_has_their_status) {
    make_data();
    make_unnamed("bad.bin", true);
    ends(
        run("graphtool train bad.bin --data label=labels.npy --batch 10 --on-bad-step skip=1000 -o never.st"),
        8);
    char *err = read_all("err");
    CHECK_HOLDS(err,
                "graphtool: each step was a bad one and was skipped: nothing was trained: no weights are "
                "written\n");
    free(err);
    CHECK(!exists("never.st"));
    /* what an earlier start has trained counts */
    const char *train = "graphtool train mlp.bin --data image=images.idx --batch 10 --checkpoint-dir before "
                        "--resume auto --on-bad-step skip -o after.st --data";
    NEED(make_model("mlp"));
    NEED(ends(run("(head -c 128 labels.npy; tail -c +129 labels.npy | tr '\\0-\\11' '[\\310*]') >wrong.npy"),
              0));
    NEED(ends(run("%s label=labels.npy --steps 2", train), 0));
    NEED(ends(run("rm after.st; %s label=wrong.npy --steps 3", train), 0));
    CHECK(exists("after.st"));
}

/* One step too large makes weights of which all later losses are NaN. */
TEST(bad_steps_push_no_good_checkpoint_out) {
    make_data();
    NEED(make_model("mlp"));
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --checkpoint-every 2 --checkpoint-dir";
    NEED(ends(run("%s spoilt --steps 6", train), 0));
    NEED(ends(run("%s spoilt --steps 20 --resume auto --lr 1e38", train), 8));
    char *err = read_all("err");
    CHECK_HOLDS(err,
                "if all steps from there are bad, its weights are bad too: resume from an older one, with "
                "--resume=spoilt/step-N and another --checkpoint-dir");
    free(err);
    NEED(ends(run("%s spoilt --steps 20 --resume auto --on-bad-step skip=1000", train), 0));
    CHECK(exists("spoilt/step-00000006"));
    NEED(ends(run("%s again --steps 20 --resume spoilt/step-00000006", train), 0));
    CHECK(exists("again/step-00000020"));
}

TEST(weights_that_are_no_numbers_are_not_kept) {
    make_data();
    make_unnamed("unnamed.bin", false);
    const char *train = "graphtool train unnamed.bin --data label=labels.npy --batch 10 -o u.st";
    NEED(ends(run("%s --lr 1e-9 && cp u.st good", train), 0));
    ends(run("%s --epochs 3 >out", train), 8);
    char *err = read_all("err"), *out = read_all("out");
    CHECK(strncmp(err, "bad step: graph train: loss ", 28) == 0 && !strstr(out, "bad step"));
    CHECK_HOLDS(err, "\nsamples of micro-batch 0 on rank 0, epoch 1, iteration 2: ");
    CHECK_HOLDS(err,
                "\ngraphtool: to run the bad step again: graphtool replay bad.step\ngraphtool: graph train: "
                "loss is -inf on rank 0 in micro-batch 0; nothing was updated; first ");
    CHECK_HOLDS(err, "]: training stops, no weights are written (--on-bad-step=skip skips it)\n");
    free(err);
    free(out);
    ends(run("cmp u.st good"), 0);
    ends(run("graphtool replay . | grep -q '^bad step: graph train: loss is -inf'"), 0);
    ends(run("%s --epochs 3 --on-bad-step skip=2", train), 8); /* each later step is bad */
    err = read_all("err");
    CHECK_HOLDS(err, "]: skipped, 2 of at most 2 in a row\nbad step: graph train: ");
    free(err);
    ends(run("%s --epochs 3 --guard off", train), 8);
    err = read_all("err");
    CHECK_HOLDS(err, "graphtool: step 2: loss is -inf: training stops, no weights are written (--keep-going "
                     "continues)\n");
    free(err);
    ends(run("%s --epochs 3 --keep-going", train), 1);
    err = read_all("err");
    CHECK_HOLDS(err, "the weights are not finite; they are written because of --keep-going");
    free(err);
    ends(run("! cmp -s u.st good"), 0);
}

/* The two made for GPUs: small, or for one step of one image. */
TEST(big_models_train) {
    ends(run("weft-zoo gpt2_124m --layers 2 --d 32 --heads 2 --ctx 16 --vocab 96 -o gpt2.bin"), 0);
    NEED(ends(run("graphtool bench gpt2.bin --batch 4 --steps 3 --warmup 0 --json"), 0));
    json_t *out = json_out("out");
    json_t *losses = json_object_get(json_object_get(out, "losses"), "loss");
    double first = json_number_value(json_array_get(losses, 0));
    CHECK_SAYS(first > 4.3 && first < 4.8, "%g; a guess among 96 costs log 96 = 4.56", first);
    json_decref(out);
    if (test_is_quick() || !make_model("resnet50")) return;
    ends(run("graphtool bench resnet50.bin --batch 1 --steps 1 --warmup 0"), 0);
}

/* A graph that assigns is run by the flow, or the training does not begin. */
TEST(a_teacher_moves_or_the_training_is_refused) {
    enum { VIEWS = 8 };
    float *zeros = calloc(VIEWS * 3 * 32 * 32, sizeof *zeros);
    NEED(zeros && make_model("byol"));
    put_npy("v.npy", "<f4", "(8, 3, 32, 32)", zeros, VIEWS * 3 * 32 * 32 * sizeof *zeros);
    free(zeros);
    ends(run("graphtool info byol.bin >info && grep -x '  assigns target' info && grep 'flow train train "
             "teacher' info"),
         0);
    const char *train =
        "graphtool train byol.bin --batch 4 --steps 1 --data view_a=v.npy --data view_b=v.npy";
    refuses(run("%s --flow 'train*1'", train), "graph teacher assigns target/");
    ends(run("%s -o moved.safetensors && %s --flow 'train; 5-: teacher' -o still.safetensors", train, train),
         0);
    CHECK(run("cmp -s moved.safetensors still.safetensors") == 1);
}

SUITE("tools: training", {T(a_teacher_moves_or_the_training_is_refused),
                          T(training_logs_saves_and_is_repeatable),
                          T(a_source_of_several_arrays_feeds_several_inputs),
                          T(data_of_another_type_are_converted_or_the_way_is_told),
                          T(images_are_preprocessed_in_the_graph),
                          T(a_model_of_one_batch_size_says_which),
                          T(a_huge_loss_is_shown_in_few_characters),
                          T(weights_are_loaded_in_part_and_under_other_names),
                          T(weights_that_are_a_model_and_grids_that_stay_empty_are_refused),
                          T(eval_counts_every_sample_once),
                          T(the_zoo_s_classifiers_train_on_folders_of_pictures),
                          T(graphs_that_train_are_not_evaluated),
                          T(a_metric_of_eval_is_that_of_the_predictions),
                          T(metrics_of_all_samples_at_once),
                          T(gans_train_both_graphs_and_sample),
                          T(predictions_cover_all_data),
                          T(predictions_show_values_in_the_middle),
                          T(an_interrupt_keeps_the_weights),
                          T(wrong_feeds_are_told_before_training),
                          T(a_wrong_label_is_told_with_its_samples),
                          T(a_wrong_label_of_a_validation_loses_no_weights),
                          T(wrong_words_for_bad_steps_are_told),
                          T(losses_that_are_not_numbers_stop_training),
                          T(what_begins_a_training_is_told_once_for_each_optimizer),
                          T(a_training_of_bad_steps_alone_has_their_status),
                          T(bad_steps_push_no_good_checkpoint_out),
                          T(weights_that_are_no_numbers_are_not_kept),
                          T(big_models_train)})
