/* test_tools.c - graphtool and weft-zoo on the command line: help, wrong use, lists. */
#include "support/programs.h"

#include <stdio.h>
#include <stdlib.h>

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
        CHECK_HOLDS(help, "Example: graphtool");
        CHECK_HOLDS(help, "--help");
        free(list);
        free(help);
    }
    ends(run("weft-zoo --help"), 0);
    ends(run("graphtool --version"), 0);
}

TEST(wrong_use_is_one_line_and_exit_2) {
    NEED(make_model("mlp"));
    refuses(run("graphtool"), "a command is needed");
    refuses(run("graphtool fly"), "no command 'fly'");
    refuses(run("graphtool info"), "a model file is needed");
    refuses(run("graphtool info mlp.bin mlp.bin"), "one model is enough");
    refuses(run("graphtool info mlp.bin --colour"), "no option --colour");
    refuses(run("graphtool info mlp.bin -z"), "no option -z");
    refuses(run("graphtool plan mlp.bin --batch"), "--batch needs a value");
    refuses(run("graphtool plan mlp.bin --batch=0"), "from 1 to 2147483647");
    refuses(run("graphtool plan mlp.bin --batch=12x"), "a whole number");
    refuses(run("graphtool plan mlp.bin --isa=mmx"), "avx512 is needed");
    refuses(run("graphtool plan mlp.bin --after=lunch"), "lunch");
    refuses(run("graphtool plan mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin --graph=lunch"), "lunch");
    refuses(run("graphtool dot mlp.bin -T gif"), "dot, svg or png");
    refuses(run("graphtool dot mlp.bin --view=moon"), "graph, program or plan");
    refuses(run("graphtool train mlp.bin --data image"), "NAME=FILE is needed");
    refuses(run("graphtool train mlp.bin --lr=-1"), "a number above 0");
    refuses(run("graphtool info nothing.bin"), "nothing.bin");
    refuses(run("printf nonsense >junk.bin; graphtool info junk.bin"), "junk.bin");
    refuses(run("weft-zoo nothing -o x.bin"), "no such model");
    refuses(run("weft-zoo gpt --heads 7 -o x.bin"), "multiple of --heads");
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
        ends(run("graphtool info %s.bin", zoo[i]), 0);
    }
    free(list);
}

TEST(a_model_file_without_a_seal_is_known_for_it) {
    NEED(make_model("mlp"));
    ends(run("graphtool info %s/attack/mean_grad_wrong.bin", TEST_DATA), 0);
    char *out = read_all("out");
    CHECK_HOLDS(out, "an old file without length and checksum\n");
    free(out);
    ends(run("! graphtool info mlp.bin | grep 'old file'"), 0);
}

/* 124,439,808 with a vocabulary of 50,257, which is padded by 47 rows of 768; torchvision.models.resnet50. */
TEST(big_models_have_as_many_parameters_as_in_pytorch) {
    NEED(make_model("gpt2_124m") && make_model("resnet50"));
    ends(run("graphtool info gpt2_124m.bin | grep -q ' 148 parameters, 124475904 numbers'"), 0);
    ends(run("graphtool plan resnet50.bin --world 2 | grep -q 'model: 161 parameters, 25557032 numbers'"), 0);
}

TEST(ops_are_listed_for_people_and_machines) {
    ends(run("graphtool ops --json"), 0);
    json_t *ops = json_out("out");
    CHECK(json_array_size(json_object_get(ops, "ops")) > 40);
    json_decref(ops);
    ends(run("graphtool ops --markdown -o ops.md && grep -q '| `conv2d` |' ops.md"), 0);
    ends(run("graphtool ops | grep -q cross_entropy"), 0);
}

SUITE("tools",
      {T(help_tells_options_and_an_example), T(wrong_use_is_one_line_and_exit_2),
       T(outputs_that_cannot_be_written_leave_nothing), T(zoo_lists_and_writes_its_models),
       T(a_model_file_without_a_seal_is_known_for_it), T(big_models_have_as_many_parameters_as_in_pytorch),
       T(ops_are_listed_for_people_and_machines)})
