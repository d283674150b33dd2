/* test_tools.c - graphtool and weft-zoo on the command line: help, wrong use, lists. */
#include "support/programs.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line ---- */

TEST(help_tells_options_and_an_example) {
    static const char *const commands[] = {"info", "dot",     "plan",  "ops",   "train",
                                           "eval", "predict", "bench", "verify"};
    ends(run("graphtool --help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *list = NULL, *help = NULL;
        if (ends(run("graphtool --help"), 0)) list = read_all("out");
        CHECK_HOLDS(list, commands[i]);
        if (ends(run("graphtool %s --help", commands[i]), 0)) help = read_all("out");
        CHECK_HOLDS(help, "Example:\n  graphtool");
        CHECK_HOLDS(help, "--help");
        free(list);
        free(help);
    }
    ends(run("weft-zoo --help"), 0);
    ends(run("graphtool --version"), 0);
}

/* Of train, which has most options: headings, and at most two lines for an option. */
TEST(help_fits_a_terminal) {
    static const char *const every =
        "for c in $(graphtool --help | awk '/^  [a-z]/{print $1}'); do graphtool $c --help "
        "|| exit 1; done";
    ends(run("%s >all; graphtool --help >>all; test $(wc -l <all) -gt 200", every), 0);
    ends(run("! awk 'length > 80' all | grep ."), 0);
    ends(run("! awk 'substr($0, 1, 27) ~ /^ +$/ && /[^ ]/ {if (++n > 1) print; next} {n = 0}' all | grep ."),
         0);
    ends(run("! graphtool train --help | grep -oE '^ +(-., )?--[a-z-]+' | sort | uniq -d | grep ."), 0);
    ends(run("graphtool train --help | grep -A1 '^What runs$' | grep -q -e --flow"), 0);
    ends(run("! graphtool info --help | grep -E '^(What runs|Output)$'"), 0); /* few need none */
    if (run("command -v script")) return;
    for (int columns = 70; columns <= 130; columns += 30) {
        int most = columns < 110 ? columns : 110;
        ends(run("script -qc 'stty cols %d; graphtool train --help' t && sed -n '2,/^Example/p' t | tr -d "
                 "'\r' >u",
                 columns),
             0);
        ends(run("! awk 'length > %d' u | grep . && awk 'length > %d' u | grep -q .", most, most - 8), 0);
    }
    ends(run("COLUMNS=100 script -qc 'graphtool train --help' t && awk 'length > 90' t | grep -q ."), 0);
}

/* Folded and cut on a terminal, whole where it is piped. */
TEST(a_plan_fits_the_terminal) {
    NEED(make_model("dcgan28"));
    if (run("command -v script")) return;
    const char *plan = "graphtool plan dcgan28.bin --threads 1 --world 4 --zero 1";
    ends(run("%s >whole; awk 'length > 120' whole | grep -q collective", plan), 0);
    for (int columns = 60; columns <= 200; columns += 20) {
        ends(run("script -qc 'stty cols %d; %s' t && sed -e 1d -e '/^Script done/d' t | tr -d '\r' >u",
                 columns, plan),
             0);
        ends(
            run("LC_ALL=C.UTF-8 python3 -c 'import sys; sys.exit(any(len(l) > %d + 1 for l in open(\"u\")))'",
                columns),
            0);
        ends(run("grep -q 'next run' u && grep -q 'nodes between' u && grep -q 'rank 3: 6272 to 6543' u"), 0);
    }
    ends(run("grep -v '^$' u >a; grep -v '^$' whole | cmp - a"),
         0); /* 200 columns are enough for all of it */
}

TEST(wrong_use_is_one_line_and_exit_2) {
    NEED(make_model("mlp"));
    refuses(run("graphtool"), "a command is needed");
    refuses(run("graphtool fly"), "no command 'fly'");
    refuses(run("graphtool info"), "a model file is needed");
    refuses(run("graphtool replay"), "replay: it takes one file, the bad.step of a training");
    ends(run("graphtool replay --help | grep -q '^Usage: graphtool replay FILE '"), 0);
    refuses(run("graphtool replay mlp.bin"),
            "mlp.bin: it is a model, and replay takes the bad.step of a training");
    refuses(run("graphtool info mlp.bin mlp.bin"), "one model is enough");
    refuses(run("graphtool info mlp.bin --colour"), "no option --colour");
    refuses(run("graphtool info mlp.bin -z"), "no option -z");
    refuses(run("graphtool plan mlp.bin --batch"), "--batch needs a value");
    refuses(run("graphtool plan mlp.bin --batch=0"), "from 1 to 2147483647");
    refuses(run("graphtool plan mlp.bin --batch=12x"), "a whole number");
    refuses(run("graphtool plan mlp.bin --isa=mmx"), "avx512 is needed");
    refuses(run("WEFT_ISA=mmx graphtool plan mlp.bin"),
            "WEFT_ISA=mmx: auto, reference, sse2, avx2 or avx512");
    refuses(run("graphtool plan mlp.bin --after=lunch"), "lunch");
    refuses(run("graphtool plan mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin -T gif"), "dot, svg, png or pdf");
    refuses(run("graphtool dot mlp.bin --view=moon"), "graph, program or plan");
    refuses(run("graphtool dot mlp.bin --focus=net/fc"),
            "no value, scope or variable of that name: did you mean 'net/fc1'?");
    refuses(run("graphtool dot mlp.bin --expand=nett"), "no scope of that name: did you mean 'net'?");
    refuses(run("graphtool train mlp.bin --data image"), "NAME=FILE is needed");
    refuses(run("graphtool train mlp.bin --lr=-1"), "a number above 0");
    refuses(run("graphtool info nothing.bin"), "nothing.bin");
    refuses(run("printf nonsense >junk.bin; graphtool info junk.bin"), "junk.bin");
    refuses(run("weft-zoo nothing -o x.bin"), "no such model");
    refuses(run("weft-zoo gpt --heads 7 -o x.bin"), "multiple of --heads");
}

/* Of the command line, and of WEFT_ISA for all commands: no error on a graph that is not compiled. */
TEST(the_instruction_set_is_that_of_the_option_or_of_the_variable) {
    NEED(make_model("mlp"));
    ends(run("WEFT_ISA=reference graphtool plan mlp.bin --dump >plan && ! grep 'by onednn' plan"), 0);
    ends(run("WEFT_ISA=reference graphtool plan mlp.bin --isa=sse2 --dump | grep 'by onednn'"), 0);
    ends(run("WEFT_ISA=reference graphtool plan mlp.bin --isa=auto --dump | grep 'by onednn'"), 0);
    ends(run("WEFT_ISA= graphtool plan mlp.bin --isa=sse2 --dump | grep 'by onednn'"), 0);
    ends(run("WEFT_ISA=reference graphtool dot mlp.bin --graph train"), 0);
    /* a training that is repeated from its settings has the same one without the variable */
    ends(run("WEFT_ISA=reference graphtool train mlp.bin --steps 1 --print-config >c.json && "
             "grep 'variable WEFT_ISA' c.json && env -u WEFT_ISA graphtool train --config c.json "
             "--print-config | grep '\"isa\": \"reference\"'"),
         0);
}

TEST(outputs_that_cannot_be_written_leave_nothing) {
    make_data();
    NEED(make_model("mlp"));
    refuses(run("graphtool plan mlp.bin -o no/such/plan.txt"), "no/such/plan.txt");
    refuses(run("graphtool dot mlp.bin -T svg -o no/such/x.svg"), "no/such/x.svg");
    refuses(run("graphtool train mlp.bin " DATA " --batch 10 -o no/such/w.safetensors"),
            "no/such/w.safetensors");
    refuses(run("graphtool train mlp.bin " DATA " --batch 10 --log no/such/log"), "no/such/log");
    refuses(run("weft-zoo mlp -o no/such/mlp.bin"), "no/such/mlp.bin");
    ends(run("graphtool plan mlp.bin >/dev/full"), 2);
    ends(run("! ls | grep -q part"), 0);
}

TEST(zoo_lists_and_writes_its_models) {
    char *list = NULL;
    if (ends(run("weft-zoo --list"), 0)) list = read_all("out");
    for (int i = 0; i < ZOO; i++) {
        CHECK_HOLDS(list, zoo[i]);
        if (!make_model(zoo[i]) || !ends(run("graphtool info %s.bin --json", zoo[i]), 0)) continue;
        json_t *info = json_out("out");
        CHECK_TEXT(json_string_value(json_object_get(info, "model")), zoo[i]);
        CHECK(json_array_size(json_object_get(info, "graphs")) >= 3);
        json_decref(info);
        ends(run("! graphtool plan %s.bin --batch 2 | grep -A3 ^note", zoo[i]), 0);
        ends(run("graphtool info %s.bin", zoo[i]), 0);
    }
    free(list);
}

/* 124,439,808 with a vocabulary of 50,257, which is padded by 47 rows of 768; torchvision.models.resnet50. */
TEST(big_models_have_as_many_parameters_as_in_pytorch) {
    NEED(make_model("gpt2_124m") && make_model("resnet50"));
    ends(run("graphtool info gpt2_124m.bin | grep -q ' 148 parameters, 124475904 numbers'"), 0);
    ends(run("graphtool plan resnet50.bin --world 2 | grep -q 'model: 161 parameters, 25557032 numbers'"), 0);
}

/* Four in each graph: of an eval graph they are expressions. */
TEST(a_batch_norm_is_called_so_in_every_graph) {
    NEED(make_model("convnet"));
    ends(run("test $(graphtool info convnet.bin | grep -cE '^ +bn +batch_norm ') = 12"), 0);
    ends(run("test $(graphtool info convnet.bin | grep -cE '^ +conv +conv2d ') = 12"), 0);
}

static int64_t number_of(const json_t *row, const char *key) {
    return json_integer_value(json_object_get(row, key));
}

/* An unknown name: the nearest one, and the valid ones. */
TEST(unknown_names_are_told_with_the_nearest) {
    static const char *const rows[][2] = {
        {"trian mlp.bin", "no command 'trian': did you mean 'train'? There are info, import, dot, plan, "},
        {"help trian", "no command 'trian': did you mean 'train'?"},
        {"plan mlp.bin --graph trai", "no graph 'trai': did you mean 'train'? There are train, val, predict"},
        {"plan mlp.bin --graph zzz", "no graph 'zzz'; there are train, val, predict"},
        {"dot mlp.bin --graph trai", "did you mean 'train'?"},
        {"eval mlp.bin --random-weights --graph vall", "did you mean 'val'?"},
        {"plan mlp.bin --flow Train", "did you mean 'train'?"},
        {"plan mlp.bin --after autodif", "did you mean 'autodiff'? There are flow, "},
        {"predict mlp.bin --random-weights --fetch clas -o x.npy",
         "no output, scope or op 'clas': did you mean 'class'?"},
        {"plan mlp.bin --acumulate 2", "no option --acumulate: did you mean --accumulate?"},
        {"train mlp.bin --learning-rate 1", "no option --learning-rate: did you mean --lr?"},
        {"train mlp.bin --learning_rate=1", "no option --learning_rate=1: did you mean --lr?"},
        {"plan mlp.bin --batch-size 2", "no option --batch-size: did you mean --batch?"},
        {"plan mlp.bin --max-grad-norm 2", "no option --max-grad-norm: did you mean --clip-norm?"},
        {"info mlp.bin --batch-size 2", "no option --batch-size; graphtool info --help lists all"},
        {"train mlp.bin --batch 8 --data imgae=images.idx --data label=labels.npy",
         "data imgae: graph train has no input of this name: did you mean 'image'?"},
        {"train mlp.bin --batch 8 " DATA " --optimizer adma:lr=1",
         "no optimizer 'adma': did you mean 'adam:all'? It has adam:all"},
        {"train mlp.bin --batch 8 " DATA " --optimizer :type=sgd",
         "type: it is the model's: a text cannot change it"},
        {"train mlp.bin --batch 8 " DATA " --schedule cosin",
         "at 'cosin': did you mean 'cosine'? a part begins with a kind"},
        {"train mlp.bin --batch 8 " DATA " --schedule cosine,wamup=3",
         "did you mean 'warmup'? no part has such a field"},
        {"ckpt lsit x", "no action 'lsit': did you mean 'list'? There are list, show, "},
        {"ops conv", "did you mean 'conv2d'?"},
        {"plan mlp.bin --dtype b16", "did you mean 'bf16'? f32, bf16 or f16"},
        {"ops conv2", "no op 'conv2' in the list of graphtool ops: did you mean 'conv2d'?"},
        {"ops conv2d relu", "one name is enough"},
        {"train mlp.bin --graph val", "it runs a flow; --flow=NAME runs one graph alone"},
        {"train mlp.bin -g val", "it runs a flow; --flow=NAME runs one graph alone"},
    };
    make_data();
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses(run("graphtool %s", rows[i][0]), rows[i][1]);
    refuses(run("weft-zoo rsnet18"),
            "no such model (did you mean resnet18? weft-zoo --list has all): rsnet18");
}

/* ---- ONNX files ---- */

#define IMPORT "graphtool import " TEST_DATA "/onnx/small.onnx -o s.bin "

TEST(what_an_import_is_given_wrong_is_told_with_what_there_is) {
    static const char *const rows[][2] = {
        {"--loss mse --trainable fc,con*,layer4*",
         "no parameter matches 'layer4*': they have names like conv/"},
        {"--loss mse --trainable bn.*", "no parameter matches 'bn.*': they have names like bn/weight"},
        {"--loss mse --trainable bn/running_mean", "no parameter matches 'bn/running_mean'"},
        {"--loss mse --trainable fc,", "no parameter matches ','"},
        {"--images img", "there is no input 'img'; there is image"},
        {"--axis bach=3", "there is no axis of an input 'bach': did you mean 'batch'? There is batch"},
        {"--head logitz:3", "no linear layer that makes 'logitz': did you mean 'logits'? There is logits"},
        {"--head c:3", "'c' is made by Conv: a new head takes the place of a linear layer"},
        {"--loss mse:logit", "the file has no value 'logit': did you mean 'logits'? There are logits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) refuses(run(IMPORT "%s", rows[i][0]), rows[i][1]);
}

TEST(parameters_are_listed_by_the_names_of_patterns) {
    ends(run(IMPORT "--loss mse --trainable 'fc,bn' && graphtool info s.bin --parameters"), 0);
    char *all = read_all("out");
    CHECK_HOLDS(all, "  conv/bias        f32[2]              2\n");
    CHECK_HOLDS(all, "  bn/bias          f32[2]              2  trained\n");
    CHECK_HOLDS(all, "  bn/running_mean  f32[2]              2  state\n");
    free(all);
}

TEST(a_file_without_a_loss_is_told_how_to_train) {
    NEED(ends(run(IMPORT), 0));
    refuses(run("graphtool train s.bin -w s.safetensors --steps 1"),
            "graphtool import --loss makes such a graph");
}

/* The data of a training are those of a prediction: labels are left. */
TEST(classes_are_predicted_from_labelled_images) {
#define PREDICT "graphtool predict s.bin -w s.safetensors --argmax -o o.npy --data "
#define IMAGES  TEST_DATA "/golden/images:height=4,width=4,channels=1"
    NEED(ends(run(IMPORT "--loss cross_entropy --images image"), 0));
    char *note = read_all("err");
    CHECK_HOLDS(note, "--images: input image takes bytes (u8) in all graphs");
    free(note);
    ends(run(PREDICT
             "image=" IMAGES " && mv o.npy p.npy && " PREDICT "image,label=" IMAGES
             " && cmp o.npy p.npy && grep -q \"'<i8', 'fortran_order': False, 'shape': ([0-9]*,)\" o.npy"),
         0);
    refuses(run(PREDICT "image,lable=" IMAGES), "data lable: no graph that runs has an input of this name");
    refuses(run(PREDICT "image=" IMAGES " --data label=" IMAGES), "data label: no graph that runs");
#undef PREDICT
#undef IMAGES
}

TEST(a_file_of_pytorch_says_what_it_is) {
    make_data();
    NEED(make_model("mlp") &&
         ends(run("printf 'PK\\003\\004%%0100d' 0 >x.pt; printf '\\200\\002%%0100d' 0 >y.pt"), 0));
    refuses(run("graphtool train mlp.bin --batch 8 " DATA " -w x.pt"),
            "a file of torch.save: write its tensors by safetensors");
    refuses(run("graphtool train mlp.bin --batch 8 " DATA " -w y.pt"),
            "a file of torch.save: write its tensors by safetensors");
    refuses(run("graphtool train mlp.bin --data image=x.pt"),
            "a file of torch.save: write its tensors by numpy.save");
    refuses(run("graphtool train mlp.bin --data image=y.pt"),
            "a file of torch.save: write its tensors by numpy.save");
}

/* With --json an error is an object on stderr, before the command line has been read, too. */
TEST(errors_are_json_where_output_is) {
    static const char *const rows[] = {"info none.bin --json", "plan mlp.bin -j --graph none", "plan --json",
                                       "info mlp.bin --none --json"};
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(ends(run("graphtool %s", rows[i]), 2));
        json_t *error = json_out("err");
        CHECK_SAYS(json_is_string(json_object_get(error, "error")), "%s", rows[i]);
        CHECK(number_of(error, "schema") == 1 && json_is_integer(json_object_get(error, "rank")));
        json_decref(error);
    }
    refuses(run("graphtool dot mlp.bin --json"), "graphtool: dot: no option --json"); /* it prints none */
    ends(run("for c in 'info mlp.bin' 'plan mlp.bin' 'ops' 'ops relu' 'plan mlp.bin --bytes' 'verify "
             "mlp.bin'; do "
             "graphtool $c --json | grep -q '\"schema\": 1' || exit 1; done"),
         0);
}

TEST(colours_are_for_terminals_that_want_them) {
    if (run("command -v script") ||
        !ends(run("unset NO_COLOR; TERM=xterm script -qc 'graphtool info none' t"), 0))
        return;
    ends(run("grep -q '1;31mgraphtool:' t"), 0);
    ends(run("NO_COLOR=1 TERM=xterm script -qc 'graphtool info none' t; ! grep -q '31m' t"), 0);
    ends(run("unset NO_COLOR; TERM=dumb script -qc 'graphtool info none' t; ! grep -q '31m' t"), 0);
    ends(run("! graphtool info none 2>&1 | grep '31m'"), 0);
}

TEST(dashes_and_names_say_where_and_what) {
    NEED(make_model("mlp"));
    for (int i = 0; i < 4; i++) {
        const char *command = ((const char *[]){"info mlp.bin", "plan mlp.bin", "ops", "dot mlp.bin"})[i];
        ends(run("graphtool %s >a && graphtool %s -o - >b && cmp a b && [ ! -e ./- ]", command, command), 0);
    }
    ends(run("graphtool dot mlp.bin -o y.png && head -c 4 y.png | grep -q PNG"), 0);
    ends(run("graphtool dot mlp.bin -o y.PDF && head -c 5 y.PDF | grep -q %%PDF-"), 0);
    ends(run("graphtool dot mlp.bin -o y.gv && head -n 1 y.gv | grep -q digraph"), 0);
    ends(run("mkdir -p a.b && graphtool dot mlp.bin -o a.b/y && head -n 1 a.b/y | grep -q digraph"), 0);
    ends(run("graphtool dot mlp.bin -T svg -o y.tmp && head -c 5 y.tmp | grep -q '<?xml'"), 0);
    refuses(run("graphtool dot mlp.bin -o y.pfd"),
            "dot: --output=y.pfd: 'pfd' is not a format: did you mean 'pdf'? There are dot, svg, png, pdf");
    refuses(run("graphtool dot mlp.bin -o y.gif"), "'gif' is not a format; there are dot, svg, png, pdf");
    CHECK(!exists("y.pfd") && !exists("y.gif"));
    ends(run("graphtool dot mlp.bin -o y.svg && grep -q '<svg' y.svg"), 0);
    ends(run("graphtool dot mlp.bin -o y.PNG -T dot && grep -q digraph y.PNG"), 0);
    refuses(run("graphtool dot mlp.bin -o y.txt"), "'txt' is not a format; there are");
    ends(run("graphtool trace mlp.bin --batch 4 --steps 1 --warmup 0 -o - | python3 -m json.tool >/dev/null"),
         0);
    refuses(run("graphtool predict mlp.bin -o -"), "a file is needed");
    ends(run("graphtool -V | grep -q Weft && graphtool help plan >a && graphtool plan --help | cmp a -"), 0);
    ends(run("graphtool ops conv2d | grep -q '^  CPU kernels .*onednn'"), 0);
}

TEST(plans_show_their_flow) {
    NEED(make_model("dcgan28"));
    ends(
        run("graphtool plan dcgan28.bin --flow '0-9: d_step; 10-: d_step{accumulate=2}*5 g_step' | grep -qxF "
            "'flow: 0-9: d_step, 2 micro-batches, 10-: d_step*5, 2 micro-batches, 10-: g_step'"),
        0);
    NEED(ends(run("graphtool plan dcgan28.bin --flow 'd_step*5 g_step' --json"), 0));
    json_t *plan = json_out("out");
    const json_t *flow = json_object_get(plan, "flow"), *first = json_array_get(flow, 0);
    CHECK(json_array_size(flow) == 2 && number_of(first, "repeat") == 5 &&
          number_of(first, "accumulate") == 1);
    CHECK_TEXT(json_string_value(json_object_get(first, "graph")), "d_step");
    CHECK(json_is_null(json_object_get(first, "to")));
    json_decref(plan);
}

/* The row of `path` in a graph's layers. */
static const json_t *layer_of(const json_t *info, size_t graph, const char *path) {
    const json_t *layers = json_object_get(json_array_get(json_object_get(info, "graphs"), graph), "layers");
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(layers, i), "path")), path) == 0)
            return json_array_get(layers, i);
    return NULL;
}

/* dcgan28's d_step applies its discriminator twice: 28x28 to 64x14x14 by 4x4 windows. */
TEST(layers_count_what_a_forward_computes) {
    NEED(ends(run("weft-zoo dcgan28 -b 8 -o dcgan28.bin && graphtool info dcgan28.bin --json"), 0));
    json_t *info = json_out("out");
    const json_t *conv = layer_of(info, 0, "discriminator/conv1"), *all = layer_of(info, 0, "discriminator");
    CHECK(number_of(conv, "flops") == 2 * 2LL * 8 * 64 * 14 * 14 * 4 * 4);
    CHECK(number_of(conv, "parameters") == 64 * 4 * 4 + 64);
    CHECK_TEXT(json_string_value(json_object_get(conv, "output")), "f32[8,64,14,14]");
    CHECK_TEXT(json_string_value(json_object_get(conv, "op")), "conv2d");
    /* the running statistics come later, and nobody outside reads them */
    const json_t *norm = layer_of(info, 0, "discriminator/bn2");
    CHECK_TEXT(json_string_value(json_object_get(norm, "output")), "f32[8,128,7,7]");
    CHECK_TEXT(json_string_value(json_object_get(all, "output")), "f32[8,1]");
    CHECK(number_of(all, "parameters") == 138689 &&
          number_of(layer_of(info, 0, "generator"), "parameters") == 540161);
    int64_t flops = 0;
    static const char *const parts[] = {"conv1", "conv2", "bn2", "fc"};
    for (int i = 0; i < 4; i++) {
        char path[60];
        snprintf(path, sizeof path, "discriminator/%s", parts[i]);
        flops += number_of(layer_of(info, 0, path), "flops");
    }
    CHECK(flops == number_of(all, "flops"));
    double share = json_real_value(json_object_get(all, "share")) +
                   json_real_value(json_object_get(layer_of(info, 0, "generator"), "share"));
    CHECK_SAYS(share > 0.999 && share < 1.001, "%g", share); /* nothing else has products */
    const json_t *first = json_array_get(json_object_get(info, "parameters"), 0);
    CHECK_TEXT(json_string_value(json_object_get(first, "path")), "discriminator/conv1/weight");
    CHECK_TEXT(json_string_value(json_object_get(first, "subgraph")), "discriminator");
    json_decref(info);
    NEED(ends(run("graphtool info dcgan28.bin --json --depth 1"), 0));
    info = json_out("out");
    CHECK(!layer_of(info, 0, "discriminator/conv1"));
    CHECK(number_of(layer_of(info, 0, "discriminator"), "flops") == flops);
    json_decref(info);
}

/* Strong colours in a picture, of which each subgraph has one. */
static int colours_of(const char *command) {
    if (!ends(run("%s | grep -oE '#(2f6db3|b3541e|3f8f3a|8344a8|a88a00|b02a5b)' | sort -u | wc -l", command),
              0))
        return -1;
    char *out = read_all("out");
    int n = atoi(out);
    free(out);
    return n;
}

TEST(subgraphs_are_those_of_weft_ddp) {
    NEED(make_model("resnet50") && make_model("dcgan28") && make_model("resnet18"));
    ends(run("graphtool info resnet50.bin | grep -q '(whole model) *161 parameters, 25557032 numbers'"), 0);
    CHECK(colours_of("graphtool dot resnet50.bin") == 1);
    CHECK(colours_of("graphtool dot dcgan28.bin --graph d_step") == 2);
    CHECK(colours_of("graphtool dot resnet18.bin --view=program") == 1);
    CHECK(colours_of("graphtool dot resnet18.bin --view=program --ddp net/layer1:bucket_cap_mb=1") == 2);
}

/* Three layers without a scope around them, or in one. */
static void make_layers(const char *name, bool in_scope) {
    char path[300];
    weft_error error = {0};
    path_of(name, path);
    weft_model *m = weft_model_new("layers");
    weft_graph *g = weft_graph_new(m, "train", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
    if (in_scope) weft_graph_scope_enter(g, "net");
    for (int i = 0; i < 3; i++) x = weft_linear(x, 3, (const char *const[]){"fc1", "fc2", "fc3"}[i], NULL);
    if (in_scope) weft_scope_leave(g);
    weft_minimize(weft_mean(x, WEFT_ALL, false), "", &(weft_optimizer){.type = "sgd", .lr = 0.1});
    if (in_scope) weft_model_set_ddp(m, "net", &(weft_ddp_options){.bucket_cap_mb = 1});
    if (in_scope) weft_model_set_precision(m, "net", WEFT_BF16);
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
}

TEST(info_shows_subgraphs_and_what_the_model_says_of_them) {
    make_layers("apart.bin", false);
    make_layers("whole.bin", true);
    ends(run("graphtool info apart.bin | grep '3 subgraphs, each with its own DDP'"), 0);
    ends(run("! graphtool info whole.bin | grep 'subgraphs, each with'"), 0);
    ends(run("graphtool info whole.bin | grep -x 'ddp net bucket_cap_mb=1'"), 0);
    ends(run("graphtool info whole.bin | grep -x 'precision net bf16'"), 0);
    ends(run("graphtool info whole.bin --json | grep '\"net\": \"bucket_cap_mb=1\"'"), 0);
    ends(run("graphtool info whole.bin --json | grep '\"net\": \"bf16\"'"), 0);
}

static weft_status never_run(weft_op_run *run) {
    (void)run;
    return WEFT_INTERNAL;
}

/* A model that calls an op of the program that made it. */
static bool make_own_op(void) {
    weft_error e = {0};
    char path[300];
    weft_op_set *ops = weft_op_set_new(NULL, &e);
    weft_op_definition d = {.name = "test.same", .n_operands = 1, .kernel = never_run};
    weft_define_op(ops, &d, &e);
    weft_model *m = weft_model_new_in("own", &(weft_env){.ops = ops});
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, WEFT_SHAPE(WEFT_BATCH, 4)),
               *y = weft_linear(x, 3, "fc", NULL);
    weft_value *loss = weft_mean(weft_call_op("test.same", 1, &y, NULL), WEFT_ALL, false);
    weft_minimize(loss, NULL, &(weft_optimizer){.type = "sgd"});
    path_of("own.bin", path);
    bool is_saved = weft_save(m, path, &e) == WEFT_OK;
    weft_model_free(m);
    weft_op_set_free(ops);
    return CHECK_SAYS(is_saved, "%s", e.text);
}

TEST(a_model_with_ops_of_its_program_is_shown_and_not_run) {
    static const char *const runs[] = {"plan own.bin",   "train own.bin --steps 1",
                                       "verify own.bin", "plan own.bin --batch 3",
                                       "bench own.bin",  "dot own.bin --view=program"};
    if (!make_own_op()) return;
    ends(run("graphtool info own.bin"), 0);
    char *info = read_all("out");
    CHECK_HOLDS(info, "graph step (train, ");
    CHECK_HOLDS(info, "\nops of the program: test.same\n");
    ends(run("graphtool dot own.bin"), 0);
    char *dot = read_all("out");
    CHECK_HOLDS(dot, "same");
    free(info);
    free(dot);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        refuses(run("graphtool %s", runs[i]), "test.same: an op of the program that made the model, which is "
                                              "not defined here (weft_define_op): it can be shown, not run");
}

TEST(ops_are_listed_for_people_and_machines) {
    ends(run("graphtool ops --json"), 0);
    json_t *ops = json_out("out");
    CHECK(json_array_size(json_object_get(ops, "ops")) > 40);
    json_decref(ops);
    ends(run("graphtool ops --markdown -o ops.md && grep -q '| `conv2d` |' ops.md"), 0);
    ends(run("graphtool ops | grep -q cross_entropy"), 0);
}

SUITE("tools", {T(help_tells_options_and_an_example),
                T(help_fits_a_terminal),
                T(a_plan_fits_the_terminal),
                T(wrong_use_is_one_line_and_exit_2),
                T(the_instruction_set_is_that_of_the_option_or_of_the_variable),
                T(outputs_that_cannot_be_written_leave_nothing),
                T(zoo_lists_and_writes_its_models),
                T(a_batch_norm_is_called_so_in_every_graph),
                T(big_models_have_as_many_parameters_as_in_pytorch),
                T(unknown_names_are_told_with_the_nearest),
                T(what_an_import_is_given_wrong_is_told_with_what_there_is),
                T(parameters_are_listed_by_the_names_of_patterns),
                T(a_file_without_a_loss_is_told_how_to_train),
                T(classes_are_predicted_from_labelled_images),
                T(a_file_of_pytorch_says_what_it_is),
                T(errors_are_json_where_output_is),
                T(colours_are_for_terminals_that_want_them),
                T(dashes_and_names_say_where_and_what),
                T(plans_show_their_flow),
                T(layers_count_what_a_forward_computes),
                T(subgraphs_are_those_of_weft_ddp),
                T(info_shows_subgraphs_and_what_the_model_says_of_them),
                T(a_model_with_ops_of_its_program_is_shown_and_not_run),
                T(ops_are_listed_for_people_and_machines)})
