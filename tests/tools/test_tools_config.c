/* test_tools_config.c - what a training run gets, on the command line, in a file and in the model: the
 * same words give the same bits wherever they stand; schedules end with the run; wrong files name file, key
 * and the nearest key. */
#include "support/programs.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MLP "graphtool train mlp.bin --batch 10 --threads 1 "
#define GAN "graphtool train dcgan28.bin --batch 4 --threads 1 --data image=images.idx "

static void write_file(const char *name, const char *content) {
    char path[300];
    path_of(name, path);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(content, f) >= 0);
    if (f) fclose(f);
}

/* Both commands succeed and leave the same weights; or others, where `differs`. */
static void check_bits(const char *a, const char *b, bool differs) {
    run("rm -f a.safetensors b.safetensors");
    ends(run("%s -o a.safetensors", a), 0);
    ends(run("%s -o b.safetensors", b), 0);
    CHECK_SAYS(exists("a.safetensors") && run("cmp -s a.safetensors b.safetensors") == differs, "%s\n%s", a,
               b);
}

/* 70 samples by 10 are 7 updates an epoch; a GAN's 17 batches of 4 are 8 iterations of two. */
TEST(a_schedule_without_an_end_ends_with_the_run) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    check_bits(MLP DATA " --epochs 3 --schedule cosine,warmup=5",
               MLP DATA " --epochs 3 --schedule cosine:0-21,warmup=5", false);
    check_bits(MLP DATA " --epochs 3 --schedule cosine,warmup=5",
               MLP DATA " --epochs 3 --schedule cosine:0-22,warmup=5", true);
    check_bits(MLP DATA " --epochs 3 --steps 9 --schedule cosine",
               MLP DATA " --epochs 3 --steps 9 --schedule cosine:0-9", false);
    check_bits(MLP DATA " --accumulate 3 --epochs 3 --schedule cosine",
               MLP DATA " --accumulate 3 --epochs 3 --schedule cosine:0-6", false);
    check_bits(MLP DATA " --epochs 3 --schedule linear,by_epoch,from=0.5,to=0",
               MLP DATA " --epochs 3 --schedule linear:0-3,by_epoch,from=0.5,to=0", false);
    check_bits(GAN "--flow 'd_step*2 g_step' --schedule cosine",
               GAN "--flow 'd_step*2 g_step' --schedule discriminator=cosine:0-16 --schedule "
                   "adam:generator=cosine:0-8",
               false);
    check_bits(GAN "--schedule step,period=2 --schedule generator=cosine",
               GAN "--schedule generator=cosine:0-17 --schedule discriminator=step,period=2", false);
    refuses(run(MLP DATA " --schedule cosine,warmup=7"), "adam:all has 7 updates in it");
    refuses(run(MLP DATA " --schedule cosin"), "--schedule=cosin: schedule part 1");
    refuses(run(GAN "--schedule generatr=cosine"), "no optimizer 'generatr': did you mean 'generator'?");
    refuses(run(GAN "--schedule cosine --schedule step,period=3"), "given twice for this optimizer");
}

/* The steps make the epochs: 21 of 7 are 3; without an end the rate would be 0 from the second one on. */
TEST(an_open_schedule_counts_the_epochs_of_the_steps) {
    make_data();
    NEED(make_model("mlp"));
    check_bits(MLP DATA " --steps 21 --schedule cosine,by_epoch",
               MLP DATA " --steps 21 --schedule cosine:0-3,by_epoch", false);
    check_bits(MLP DATA " --steps 15 --schedule cosine,by_epoch",
               MLP DATA " --steps 15 --schedule cosine:0-3,by_epoch", false);
    check_bits(MLP DATA " --epochs 5 --steps 14 --schedule cosine,by_epoch",
               MLP DATA " --epochs 5 --steps 14 --schedule cosine:0-2,by_epoch", false);
}

/* The second run continues at update 14, epoch 2, and ends 7 updates, 1 epoch later. */
TEST(an_open_schedule_ends_with_the_run_that_goes_on) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(MLP DATA " --epochs 2 --schedule cosine --optimizer-state -o s.safetensors"), 0));
    NEED(ends(run(MLP DATA " --epochs 2 --schedule cosine,by_epoch --optimizer-state -o e.safetensors"), 0));
    check_bits(MLP DATA " --weights s.safetensors --schedule cosine",
               MLP DATA " --weights s.safetensors --schedule cosine:0-21", false);
    check_bits(MLP DATA " --weights e.safetensors --schedule cosine,by_epoch",
               MLP DATA " --weights e.safetensors --schedule cosine:0-3,by_epoch", false);
    NEED(ends(run(MLP DATA " --epochs 2 --schedule cosine -o w.safetensors"), 0)); /* no state: from 0 */
    check_bits(MLP DATA " --weights w.safetensors --schedule cosine",
               MLP DATA " --weights w.safetensors --schedule cosine:0-7", false);
}

TEST(optimizers_change_one_by_one_or_all) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    check_bits(GAN "--clip-norm generator=0.01 --clip-norm 0.5",
               GAN "--optimizer adam:generator:clip_norm=0.01 --optimizer discriminator:clip_norm=0.5",
               false);
    check_bits(GAN "--clip-norm generator=0.01 --clip-norm 0.5", GAN "--clip-norm 0.5", true);
    check_bits(MLP DATA " --optimizer :lr=0.01", MLP DATA " --lr 0.01", false);
    refuses(run(MLP DATA " --optimizer :lr_=0.01"), "did you mean 'lr'?");
    refuses(run(MLP DATA " --optimizer net:momentum=1"), "no optimizer 'net'");
    refuses(run(MLP DATA " --optimizer :learning_rate=0.01"), "adam:all: learning_rate: did you mean lr?");
    refuses(run(MLP DATA " --optimizer ':schedule=\"linear:0-9,from=0,to=1\",wd=0.01'"),
            "adam:all: wd: did you mean weight_decay?");
    refuses(run(MLP DATA " --optimizer :schedule=cosine:0-10"),
            "the value of schedule cannot be read: it stands in quotation marks, as in schedule=\"...\"");
    refuses(run(MLP DATA " --optimizer ':schedule=\"cosine\"'"), "part 1, cosine: it needs an end");
    refuses(run("graphtool plan mlp.bin --graph val --clip-norm 1"),
            "--clip-norm has no effect where no graph");
}

/* Order and option do not matter, for any field. */
TEST(what_is_for_one_optimizer_wins_over_what_is_for_all) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    check_bits(MLP DATA " --optimizer adam:all:clip_norm=0.01 --clip-norm 1", MLP DATA " --clip-norm 0.01",
               false);
    check_bits(MLP DATA " --clip-norm adam:all=0.01 --optimizer :clip_norm=1", MLP DATA " --clip-norm 0.01",
               false);
    check_bits(MLP DATA " --optimizer adam:all:lr=0.01 --lr 0.5", MLP DATA " --lr 0.01", false);
    check_bits(GAN "--steps 3 --lr 0.01 --optimizer generator:lr=0.001",
               GAN "--steps 3 --optimizer generator:lr=0.001 --optimizer discriminator:lr=0.01", false);
    check_bits(MLP DATA " --optimizer 'adam:all:schedule=\"cosine:0-9\"' --schedule step,period=2",
               MLP DATA " --schedule cosine:0-9", false);
    ends(run("graphtool plan mlp.bin --optimizer adam:all:ema=0.5 --ema 0.9 --dump | grep -q 'factor=0.5'"),
         0);
}

TEST(a_field_is_given_once_for_an_optimizer) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    refuses(run(MLP DATA " --lr 0.001 --optimizer :lr=0.0005"),
            "--optimizer=:lr=0.0005: lr of all optimizers is given twice, in --lr too");
    refuses(run(MLP DATA " --clip-norm 1 --optimizer :clip_norm=2"),
            "--clip-norm=1: clip_norm of all optimizers is given twice, in --optimizer=:clip_norm=2 too");
    refuses(run(MLP DATA " --schedule cosine:0-10 --optimizer ':schedule=\"cosine:0-20,warmup=2\",lr=1'"),
            "schedule of all optimizers is given twice");
    refuses(run(MLP DATA " --optimizer adam:all:lr=0.01 --optimizer adam:all:lr=0.02 --print-config"),
            "lr of adam:all is given twice");
    refuses(run(GAN "--ema generator=0.9 --ema adam:generator=0.8"), "ema of adam:generator is given twice");
    ends(run(GAN "--steps 1 --ema generator=0.9 --ema discriminator=0.8 --optimizer "
                 "'generator:schedule=\"cosine:0-9,warmup=2\",lr=1' --lr 2"),
         0);
}

/* ---- files ---- */

TEST(a_file_says_what_the_command_line_does_not) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    write_file("mlp.json",
               "{\"model\": \"mlp.bin\", \"data\": {\"image\": \"images.idx\", \"label\": \"labels.npy\"},"
               " \"batch\": 10, \"threads\": 1, \"epochs\": 2, \"dtype\": \"bf16\","
               " \"schedule\": \"cosine\", \"clip-norm\": 0.5, \"keep-going\": false}");
    check_bits("graphtool train --config mlp.json",
               MLP DATA " --epochs 2 --dtype bf16 --schedule cosine --clip-norm 0.5", false);
    check_bits("graphtool train mlp.bin --config mlp.json --epochs 1 --dtype f32",
               MLP DATA " --schedule cosine --clip-norm 0.5", false);
    write_file("gan.json", "{\"data\": [\"image=images.idx\"], \"batch\": 4, \"threads\": 1,"
                           " \"clip-norm\": {\"generator\": 0.01, \"\": 0.5},"
                           " \"optimizer\": {\"discriminator\": {\"lr\": 1e-3, \"schedule\": \"cosine:0-9\","
                           " \"amsgrad\": true}, \"adam:generator\": \"beta1=0\"}}");
    check_bits("graphtool train dcgan28.bin --config gan.json",
               GAN "--clip-norm 0.5 --clip-norm generator=0.01 --optimizer generator:beta1=0 --optimizer "
                   "'discriminator:lr=1e-3,schedule=\"cosine:0-9\",amsgrad=1'",
               false);
}

/* What is printed is read again, and prints the same except for where it is from. */
TEST(what_holds_is_printed_and_read_again) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    write_file("c.json", "{\"epochs\": 3, \"seed\": 5}");
    NEED(ends(run(MLP DATA
                  " --config c.json --seed 4 --schedule cosine,warmup=2 --val-every 2steps --val-data "
                  "image=images.idx --val-data label=labels.npy --optimizer adam:all:beta1=0.5 "
                  "--print-config >first.json"),
              0));
    NEED(ends(run("graphtool train --config first.json --print-config"), 0));
    json_t *printed = json_out("first.json"), *again = json_out("out");
    json_t *from = json_object_get(printed, "from");
    CHECK_TEXT(json_string_value(json_object_get(from, "epochs")), "c.json");
    CHECK_TEXT(json_string_value(json_object_get(from, "seed")), "command line");
    CHECK(json_integer_value(json_object_get(printed, "seed")) == 4);
    CHECK(json_integer_value(json_object_get(printed, "schema")) == 1);
    json_object_del(printed, "from");
    json_object_del(again, "from");
    CHECK(json_equal(printed, again));
    json_decref(printed);
    json_decref(again);
    NEED(ends(
        run("graphtool train mlp.bin --steps 1 --precision train:bf16 --precision train:f16 --print-config "
            ">first.json && graphtool train --config first.json --print-config"),
        0));
    ends(run("tr -d ' \\n' <first.json | grep -q '\"precision\":..train:bf16.,.train:f16..'"), 0);
    refuses(run("graphtool train mlp.bin --schedule cosin --print-config"), "schedule part 1");
    refuses(run("graphtool train mlp.bin --schedule nix=cosine --print-config"), "no optimizer 'nix'");
    NEED(ends(run("graphtool train dcgan28.bin --flow 'd_step*2 g_step' --print-config"), 0));
    printed = json_out("out");
    json_t *models = json_object_get(json_object_get(printed, "not_given"), "model");
    CHECK(json_integer_value(json_object_get(models, "batch")) == 128);
    CHECK(!json_object_get(models, "flow"));
    CHECK_HOLDS(json_string_value(json_object_get(json_object_get(models, "optimizer"), "adam:generator")),
                "lr=0.0002 beta1=0.5");
    json_decref(printed);
}

TEST(wrong_files_name_file_key_and_the_nearest_key) {
    static const struct {
        const char *file, *says;
    } rows[] = {
        {"{\"epoch\": 3}", "wrong.json: \"epoch\": there is no option of this name: did you mean 'epochs'?"},
        {"{\"clip_norm\": 3}", "did you mean 'clip-norm'?"},
        {"{\"modle\": \"x\"}", "did you mean 'model'?"},
        {"{\"warmup\": 3}", "\"warmup\": there is no option of this name"}, /* bench has it */
        {"{\"config\": \"x\"}", "wrong.json: \"config\": it is for the command line alone"},
        {"{\"help\": true}", "wrong.json: \"help\": it is for the command line alone"},
        {"{\"hlep\": true}", "\"hlep\": there is no option of this name; graphtool train --help lists them"},
        {"{\"data\": {\"image\": null, \"label\": null}}", "\"data\": a text is needed"}, /* said once */
        {"{\"epochs\": 0}", "wrong.json: \"epochs\": 0: a whole number from 1"},
        {"{\"epochs\": 1.5}", "\"epochs\": 1.5: a whole number"},
        {"{\"epochs\": [1]}", "\"epochs\": a text or a number is needed"},
        {"{\"epochs\": null}", "\"epochs\": a text or a number is needed"},
        {"{\"dtype\": \"f8\"}", "\"dtype\": f8: f32, bf16 or f16 is needed"},
        {"{\"serial\": 1}", "\"serial\": true or false is needed"},
        {"{\"serial\": \"true\"}", "\"serial\": true or false is needed"},
        {"{\"epochs\": true}", "\"epochs\": a text or a number is needed"},
        {"{\"lr\": true}", "\"lr\": a text or a number is needed"},
        {"{\"csv\": false}", "\"csv\": a text is needed"},
        {"{\"csv\": 5}", "\"csv\": a text is needed"},
        {"{\"dtype\": 16}", "\"dtype\": a text is needed"},
        {"{\"data\": {\"image\": 5}}", "\"data\": a text is needed"},
        {"{\"rename\": [5]}", "\"rename\": a text is needed"},
        {"{\"metric\": {\"accuracy\": {\"top\": 5}}}", "--metric has no effect without --val-data"},
        {"{\"ema\": {\"all\": true}}", "\"ema\": a text or a number is needed"},
        {"{\"model\": true}", "\"model\": a text is needed"},
        {"{\"optimizer\": {\"adam:all\": {\"schedule\": \"cosine\"}}}", "part 1, cosine: it needs an end"},
        {"{\"data\": {\"image\": 3}, \"data\": 1}", "duplicate"},
        {"{\"data\": \"image\"}", "\"data\": image: NAME=FILE is needed"},
        {"{\"optimizer\": {\"a\": {}}}", "NAME:FIELDS is needed"},
        {"{\"optimizer\": {\"all\": {\"lr\": [1]}}}", "\"optimizer\": a text or a number is needed"},
        {"{\"val-every\": \"2 epochs\"}", "a number of epochs, or of steps"},
        {"{\"val-every\": 2}", "--val-every has no effect without --val-data"},
        {"[1]", "an object of options is needed"},
        {"{\n\"epochs\": }", "wrong.json:2: "},
        {"", "wrong.json:1: "},
    };
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("wrong.json", rows[i].file);
        refuses(run("graphtool train mlp.bin --config wrong.json"), rows[i].says);
    }
    refuses(run("graphtool train mlp.bin --config none.json"), "none.json: it cannot be read: No such file");
    refuses(run("graphtool train --config /dev/null"), "/dev/null:");
}

/* No name of the table is reported as unknown, or as near to itself. */
TEST(each_option_is_known_in_a_file) {
    char text[200], told[200];
    size_t i, k;
    int n = 0;
    json_t *command, *option;
    NEED(make_model("mlp"));
    NEED(ends(run("graphtool --table"), 0));
    json_t *table = json_out("out");
    json_array_foreach(json_object_get(table, "commands"), i, command) {
        if (strcmp(json_string_value(json_object_get(command, "name")), "train") != 0) continue;
        json_array_foreach(json_object_get(command, "options"), k, option) {
            const char *name = json_string_value(json_object_get(option, "name"));
            snprintf(text, sizeof text, "{\"%s\": [{}]}", name);
            snprintf(told, sizeof told, "wrong.json: \"%s\": ", name);
            write_file("wrong.json", text);
            run("graphtool train mlp.bin --config wrong.json");
            char *err = read_all("err");
            CHECK_SAYS(strstr(err, told) && !strstr(err, "no option of this name"), "%s: %s", name, err);
            free(err);
            n++;
        }
    }
    CHECK_SAYS(n > 50, "%d options", n);
    json_decref(table);
}

/* ---- what watches a run ---- */

#define VALIDATED " --val-data image=images.idx --val-data label=labels.npy"

/* A loss that should grow does not: three validations after the first one the training ends, as it should. */
TEST(the_best_weights_are_kept_and_a_run_stops_early) {
    make_data();
    NEED(make_model("mlp"));
    ends(run(MLP DATA VALIDATED " --epochs 9 --early-stop loss:max | grep -q 'stopped early after 28 steps'"),
         0);
    NEED(ends(run(MLP DATA VALIDATED " --epochs 9 --early-stop loss"), 0));
    /* of a loss that should grow the first validation is the best */
    NEED(ends(run(MLP DATA VALIDATED " --epochs 3 --best loss:max -o k.safetensors"), 0));
    NEED(ends(run(MLP DATA VALIDATED " --epochs 1 -o one.safetensors"), 0));
    ends(run("cmp k.best.safetensors one.safetensors"), 0);
    NEED(ends(run(MLP DATA VALIDATED " --epochs 3 --best loss -o k.safetensors"), 0));
    ends(run("cmp k.best.safetensors k.safetensors"), 0);
    refuses(run(MLP DATA " --best loss -o k.safetensors"), "--best has no effect without --val-data");
    NEED(ends(run("cp k.best.safetensors kept && ln -sf k.best.safetensors link"), 0));
    refuses(run(MLP DATA VALIDATED " --best loss --weights k.best.safetensors -o k.safetensors"),
            "--best k.best.safetensors: it is the file of --weights too");
    refuses(run(MLP DATA VALIDATED " --best loss --weights link -o k.safetensors"), "the file of --weights");
    refuses(run(MLP DATA VALIDATED " --best loss --log new.best.safetensors -o new.safetensors"),
            "the file of --log");
    ends(run("cmp k.best.safetensors kept"), 0);
    refuses(run(MLP DATA VALIDATED " --best loss"), "--best has no effect without -o FILE or --work-dir");
    refuses(run(MLP DATA VALIDATED " --metric mean:output=loss,name=ssim --best ssim -o k.safetensors"),
            "--best=ssim: whether higher or lower is better is not known: write ssim:max or ssim:min");
    refuses(run(MLP DATA VALIDATED " --metric mean:output=loss --best accuracy_loss -o k --print-config"),
            "not known");
    ends(run(MLP DATA VALIDATED " --metric recall_at:output=logits,target=logits --metric auc --best auc "
                                "--early-stop recall_at_1 -o k --print-config"),
         0); /* both grow */
}

/* Before the first step, and before a direction is asked for. */
TEST(wrong_names_and_directions_of_metrics_are_told) {
    static const struct {
        const char *given, *says;
    } rows[] = {
        {"--best acuracy -o k", "train: --best=acuracy: graph val gives no metric 'acuracy': did you mean "
                                "'accuracy'? There are loss, accuracy"},
        {"--best acuracy:max -o k", "--best=acuracy: graph val gives no metric 'acuracy': did you mean"},
        {"--early-stop auc", "--early-stop=auc: graph val gives no metric 'auc'; there are loss, accuracy"},
        {"--keep-best val_loss --checkpoint-dir k", "--keep-best=val_loss: graph val gives no metric"},
        {"--best acc:maxi -o k", "train: --best=acc:maxi: METRIC:max or METRIC:min is needed"},
        {"--early-stop loss:", "--early-stop=loss:: METRIC:max or METRIC:min is needed"},
        {"--best :max -o k", "--best=:max: METRIC:max or METRIC:min is needed"},
    };
    make_data();
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses(run(MLP DATA VALIDATED " %s", rows[i].given), rows[i].says);
}

static double number_of(const char *file, const char *key) {
    json_t *json = json_out(file);
    double value = json_number_value(json_object_get(json, key));
    json_decref(json);
    return value;
}

/* The file has what the last validation read: with averages these, and parameters only beside their state. */
TEST(weights_of_a_run_with_averages_are_the_averages) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(MLP DATA VALIDATED " --epochs 3 --ema 0.8 --log l.jsonl -o a.safetensors && tail -1 "
                                     "l.jsonl >last"),
              0));
    NEED(ends(run("graphtool eval mlp.bin " DATA " --batch 10 --threads 1 --weights a.safetensors --json"),
              0));
    double said = number_of("last", "val_loss"), is = number_of("out", "loss");
    CHECK_SAYS(said > 0 && said - is < 1e-6 && is - said < 1e-6, "%.9g, but %.9g is validated", is, said);
    NEED(ends(run(MLP DATA " --epochs 3 -o p.safetensors"), 0));
    NEED(ends(run(MLP DATA " --epochs 3 --ema 0.8 --optimizer-state -o s.safetensors"), 0));
    const char *eval = "graphtool eval mlp.bin " DATA " --batch 10 --threads 1 --partial --json --weights";
    ends(run("%s p.safetensors >p && %s s.safetensors >s && cmp p s", eval, eval), 0);
}

/* Graph "predict" shows its images as they are: so the first four of the validation. */
static void make_mirror(const char *name) {
    char path[300];
    weft_error error = {0};
    path_of(name, path);
    weft_model *m = weft_model_new("mirror");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"train", "val", "predict"};
        weft_graph *g = weft_graph_new(m, names[i], i ? WEFT_EVAL : WEFT_TRAIN);
        weft_value *image = weft_input(g, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 28, 28));
        weft_value *x = weft_reshape(weft_cast(image, WEFT_F32), WEFT_SHAPE(-1, 784));
        if (i == 2) {
            weft_output(weft_cast(weft_cast(image, WEFT_F32), WEFT_U8), "shown");
            continue;
        }
        weft_value *label = weft_input(g, "label", WEFT_U8, WEFT_SHAPE(WEFT_BATCH));
        x = weft_cross_entropy(weft_linear(x, 10, "fc", NULL), label, NULL);
        if (!i) weft_minimize(x, "", &(weft_optimizer){.type = "sgd", .lr = 1e-6});
        weft_output(x, "loss");
    }
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
}

TEST(samples_of_a_graph_with_inputs_are_the_first_of_the_validation) {
    make_data();
    make_mirror("mirror.bin");
    NEED(make_model("dcgan28"));
    NEED(ends(run("graphtool predict dcgan28.bin --random-weights --batch 70 -o others.npy"), 0));
    const char *train = "graphtool train mirror.bin --batch 10 --threads 1 --steps 2 " DATA,
               *predict = "graphtool predict mirror.bin --random-weights --grid 2x2 --data";
    NEED(ends(run("%s --samples m.png:every=2,rows=2,columns=2 --val-data image=others.npy --val-data "
                  "label=labels.idx && %s --samples t.png:every=2,rows=2,columns=2",
                  train, train),
              0));
    NEED(
        ends(run("%s image=others.npy -o four.png && %s image=images.idx -o five.png", predict, predict), 0));
    ends(run("cmp m-2.png four.png && cmp t-2.png five.png && ! cmp -s m-2.png t-2.png"), 0);
}

/* A wrong option leaves no folder behind. */
TEST(numbers_and_pictures_of_a_run_stand_in_a_file) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    write_file(
        "numbers.json",
        "{\"val-data\": {\"image\": \"images.idx\", \"label\": \"labels.idx\"}, \"best\": \"accuracy_top3\", "
        "\"metric\": {\"accuracy\": {\"top\": 3}, \"confusion\": {}, "
        "\"mean\": {\"output\": \"logits\", \"name\": \"l2\"}}}");
    NEED(ends(run(MLP DATA " --epochs 2 --config numbers.json --work-dir measured"), 0));
    char *out = read_all("out");
    CHECK_HOLDS(out, "accuracy_top3 ");
    CHECK_HOLDS(out, "confusion/f1 ");
    CHECK_HOLDS(out, "l2 ");
    free(out);
    NEED(ends(run(MLP DATA " --epochs 2 --config numbers.json --work-dir m --print-config >holds.json"), 0));
    CHECK(!exists("m"));
    NEED(ends(run("graphtool train --config holds.json"), 0)); /* with its own folder */
    ends(run("tail -n 1 measured/log.jsonl >a; tail -n 1 m/log.jsonl | cmp - a"), 0);
    CHECK(exists("measured/weights.best.safetensors"));

    NEED(ends(
        run(GAN "--steps 4 --samples shown.png:every=2,rows=2,columns=2 --curves c.png --tensorboard t/b"),
        0));
    CHECK(exists("shown-2.png") && exists("shown-4.png") && !exists("shown-3.png") && exists("c.png"));
    ends(run("ls t/b/*.weft t/b/samples/*.weft"), 0);
    ends(run(GAN "--steps 4 --samples strip.png:strip=3,columns=2,scale=2,real=image && test -s strip.png"),
         0);
    refuses(run(GAN "--steps 4 --samples strip.png:strip=3,real=noise"),
            "real=noise: no data of the training");
    refuses(run(GAN "--steps 4 --samples strip.png:strip=3,rows=2"), "leave every and rows out");
    refuses(run(GAN "--samples shown.png:evry=2"), "there is no option 'evry': did you mean 'every'?");
    refuses(run(GAN "--samples shown.png:every=0"), "every=0: it must be a whole number from 1");
    refuses(run(GAN "--samples shown.png:graph=d_step,every"),
            "every has no value: it must be a whole number");
    refuses(run(GAN "--samples no/shown.png"), "no/shown-100000000.png: cannot be written");
    refuses(run(MLP DATA " --samples shown.png:output=class"), "a PNG needs [N,H,W] or [N,C,H,W]");
    refuses(run(GAN "--curves c.jpg"), ".svg");
    refuses(run(MLP DATA VALIDATED " --metric f1 --work-dir never"),
            "--metric=f1: there is no metric 'f1'; there are accuracy, confusion, perplexity, auc, mean, "
            "mse, psnr, recall_at");
    refuses(run(MLP DATA VALIDATED " --metric accuracy:topk=3 --work-dir never"),
            "there is no option 'topk': did you mean 'top'? There are top, scores, label");
    refuses(run(MLP DATA VALIDATED " --metric mse:output=logits --work-dir never"), "target=NAME is needed");
    refuses(run(MLP DATA VALIDATED " --metric perplexity:losses=a,label=b"),
            "in the place of scores and label");
    CHECK(!exists("never"));
}

/* ---- a run that continues ---- */

static double last_number(const char *file, const char *key) {
    return ends(run("tail -n 1 %s >last", file), 0) ? number_of("last", key) : -1;
}

/* Seven updates an epoch; of the GAN the discriminator has three in each iteration. */
TEST(logs_of_a_run_that_goes_on_count_on) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    NEED(ends(
        run(MLP DATA " --epochs 2 --schedule step,period=9,by_epoch --optimizer-state -o s.safetensors"), 0));
    NEED(ends(run(MLP DATA
                  " --epochs 1 --schedule step,period=9,by_epoch --weights s.safetensors --log l.jsonl "
                  "--csv l.csv"),
              0));
    char *out = read_all("out");
    CHECK_HOLDS(out, "epoch 3  step 21/21 ");
    free(out);
    ends(run("grep '^21,3,train,loss,' l.csv"), 0);
    CHECK(last_number("l.jsonl", "step") == 21 && last_number("l.jsonl", "epoch") == 3 &&
          last_number("l.jsonl", "samples") == 70);
    NEED(ends(run(GAN "--flow 'd_step*3 g_step' --steps 4 --optimizer-state -o g.safetensors"), 0));
    NEED(ends(run(GAN "--flow 'd_step*3 g_step' --steps 2 --weights g.safetensors --log l.jsonl --samples "
                      "on.png:every=3"),
              0));
    CHECK(last_number("l.jsonl", "step") == 6 && exists("on-6.png") && !exists("on-3.png"));
    NEED(ends(run(GAN "--steps 1 --weights g.safetensors --flow 'd_step*4 g_step' --log l.jsonl"), 0));
    CHECK(last_number("l.jsonl", "step") == 12 / 4 + 1);
    NEED(ends(run(MLP DATA " --steps 2 -o w.safetensors"), 0));
    NEED(ends(run(MLP DATA " --steps 2 --weights w.safetensors --log l.jsonl"), 0)); /* it has no state */
    CHECK(last_number("l.jsonl", "step") == 2);
}

/* The rate in the state is 0.001. */
TEST(a_rate_that_is_given_wins_over_the_states) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(MLP DATA " --steps 2 --optimizer-state -o s.safetensors"), 0));
    static const char *const given[] = {"--optimizer :lr=0.25", "--optimizer adam:all:lr=0.25 --lr 0.5",
                                        "--lr 0.25"};
    for (int i = 0; i < 3; i++) {
        NEED(ends(run(MLP DATA " --steps 1 --weights s.safetensors --log l.jsonl %s", given[i]), 0));
        CHECK_SAYS(last_number("l.jsonl", "lr") == 0.25, "%s", given[i]);
    }
    NEED(ends(run(MLP DATA " --steps 1 --weights s.safetensors --log l.jsonl --optimizer :beta1=0.5"), 0));
    CHECK(last_number("l.jsonl", "lr") == 0.001);
}

TEST(what_is_left_aside_or_slow_is_told) {
    make_data();
    NEED(make_model("mlp") && make_model("dcgan28"));
    NEED(ends(run(MLP DATA " --steps 2 --ema 0.5 --optimizer-state -o s.safetensors"), 0));
    NEED(ends(run("graphtool eval mlp.bin " DATA " --threads 1 --weights s.safetensors 2>said"), 0));
    ends(run("grep 's.safetensors: it has averages of the parameters.*the parameters are read' said"), 0);
    NEED(ends(run(MLP DATA " --steps 2 --weights s.safetensors 2>said"), 0));
    ends(run("grep 'averages.*--ema continues them' said"), 0);
    NEED(ends(run(MLP DATA " --steps 2 --ema 0.5 --weights s.safetensors 2>said"), 0));
    ends(run("grep averages said"), 1);
    NEED(ends(run(GAN "--steps 1 -o g.safetensors"), 0));
    refuses(run("graphtool eval mlp.bin " DATA " --weights g.safetensors"),
            "it has discriminator.bn2.bias (and ");
    NEED(ends(run("graphtool train mlp.bin " DATA " --batch 10 --steps 1 --threads 300 2>said"), 0));
    ends(run("grep -- '--threads=300: this process may use [0-9]* core' said"), 0);
    NEED(ends(run(MLP DATA " --steps 1 2>said && ! test -s said"), 0));
}

/* What an option gives is not what the model says. */
TEST(settings_that_are_given_are_not_among_those_that_are_not) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(MLP DATA " --lr 0.3 --clip-norm 2 --optimizer adam:all:beta1=0.8 --print-config >c.json"),
              0));
    json_t *all = json_out("c.json"), *model = json_object_get(json_object_get(all, "not_given"), "model");
    const char *is = json_string_value(json_object_get(json_object_get(model, "optimizer"), "adam:all"));
    CHECK_TEXT(is ? is : "none", "beta2=0.999 eps=1e-08");
    json_decref(all);
}

/* Where nothing is validated or saved nothing is said of how often. */
TEST(defaults_without_an_effect_are_not_printed) {
    static const struct {
        const char *given;
        bool data, validates, saves;
    } rows[] = {{"--steps 1", false, false, false},
                {DATA, true, false, false},
                {DATA VALIDATED, true, true, false},
                {DATA " --checkpoint-dir k", true, false, true}};
    make_data();
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED(ends(run(MLP "%s --print-config", rows[i].given), 0));
        json_t *all = json_out("out"), *holds = json_object_get(json_object_get(all, "not_given"), "default");
        const json_t *every = json_object_get(holds, "checkpoint-every");
        CHECK((json_object_get(holds, "epochs") != NULL) == rows[i].data);
        CHECK((json_object_get(holds, "val-every") != NULL) == rows[i].validates);
        CHECK((json_object_get(holds, "keep") != NULL) == rows[i].saves);
        CHECK((every != NULL) == rows[i].saves);
        if (every) CHECK_TEXT(json_string_value(every), "10m");
        CHECK(json_object_get(holds, "seed") != NULL);
        json_decref(all);
    }
}

/* ---- the folder of a run ---- */

TEST(a_run_has_a_folder) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(MLP DATA " --work-dir runs/1 --steps 2"), 0));
    CHECK(exists("runs/1/weights.safetensors") && exists("runs/1/log.jsonl") && exists("runs/1/config.json"));
    ends(run("head -c 4 runs/1/curves.svg | grep '<svg'"), 0);
    NEED(ends(run("cp -r runs/1 before"), 0));
    refuses(run(MLP DATA " --work-dir runs/1 --seed 3"),
            "--work-dir=runs/1: it has a run already (weights.safetensors), which is not overwritten");
    refuses(run(MLP DATA " --work-dir runs/1 -o w.safetensors --log l.jsonl"), "it has a run already");
    ends(run("diff -r runs/1 before"), 0);
    NEED(ends(run(MLP DATA " --work-dir runs/2 --steps 2 -o w.safetensors"), 0));
    CHECK(exists("w.safetensors") && !exists("runs/2/weights.safetensors") && exists("runs/2/log.jsonl"));
    ends(run("cmp w.safetensors runs/1/weights.safetensors"), 0);
    /* the run again, by its own note */
    NEED(ends(run("cp runs/1/config.json again.json; graphtool train --config again.json --work-dir runs/3"),
              0));
    ends(run("cmp w.safetensors runs/3/weights.safetensors"), 0);
    refuses(run(MLP DATA " --work-dir mlp.bin"), "--work-dir mlp.bin: it is the model too");
    refuses(run(MLP DATA " --config runs/1/config.json --log runs/1/config.json"), "is the file of --config");
}

SUITE("tools: configuration", {T(a_schedule_without_an_end_ends_with_the_run),
                               T(an_open_schedule_counts_the_epochs_of_the_steps),
                               T(an_open_schedule_ends_with_the_run_that_goes_on),
                               T(optimizers_change_one_by_one_or_all),
                               T(what_is_for_one_optimizer_wins_over_what_is_for_all),
                               T(a_field_is_given_once_for_an_optimizer),
                               T(a_file_says_what_the_command_line_does_not),
                               T(what_holds_is_printed_and_read_again),
                               T(wrong_files_name_file_key_and_the_nearest_key),
                               T(each_option_is_known_in_a_file),
                               T(the_best_weights_are_kept_and_a_run_stops_early),
                               T(wrong_names_and_directions_of_metrics_are_told),
                               T(weights_of_a_run_with_averages_are_the_averages),
                               T(samples_of_a_graph_with_inputs_are_the_first_of_the_validation),
                               T(numbers_and_pictures_of_a_run_stand_in_a_file),
                               T(a_run_has_a_folder),
                               T(logs_of_a_run_that_goes_on_count_on),
                               T(a_rate_that_is_given_wins_over_the_states),
                               T(what_is_left_aside_or_slow_is_told),
                               T(settings_that_are_given_are_not_among_those_that_are_not),
                               T(defaults_without_an_effect_are_not_printed)})
