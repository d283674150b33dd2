/* test_tools_options.c - every option of every command, as --help lists them: empty, twice, negative, huge,
 * not a number, an unknown word; options without effect or in conflict; what a run needs. */
#include "support/programs.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const commands[] = {
#define X(name) #name,
#include "tools/graphtool/cmd/list.h"
#undef X
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* The command must be refused in one line that names the option. */
static void check_refused(const char *command, const char *option, const char *words) {
    char named[60];
    bool is_launch = strcmp(command, "launch") == 0; /* options after what it launches are not its own */
    const char *model = strcmp(command, "ops") && !is_launch ? "mlp.bin" : "";
    snprintf(named, sizeof named, "--%s", option);
    int status = run("graphtool %s %s %s%s", command, model, words, is_launch ? " info mlp.bin" : "");
    char *err = read_all("err");
    CHECK_SAYS(status == 2 && err && strstr(err, named) && strchr(err, '\n') == err + strlen(err) - 1,
               "graphtool %s %s: exit %d, %s", command, words, status, err ? err : "");
    free(err);
}

static void attack_option(const char *command, const char *option, const char *argument) {
    static const char *const numbers[] = {"-1", "1x", "99999999999999999999", "nan", "0x10"};
    char words[200];
    snprintf(words, sizeof words, "--%s=", option);
    check_refused(command, option, words);
    bool is_word =
        strcmp(argument, "NAME") == 0 || strcmp(argument, "HOW") == 0 || strcmp(argument, "WAY") == 0;
    bool is_free = strcmp(option, "graph") == 0 || strcmp(option, "fetch") == 0; /* known when the model is */
    bool is_list = strchr(argument, '=') || strchr(argument, ':');
    bool is_number = strlen(argument) == 1 || strcmp(argument, "STAGE") == 0 ||
                     strcmp(argument, "MIB") == 0 || strcmp(argument, "RATE") == 0;
    const char *good = is_list            ? NULL
                       : is_free          ? "x"
                       : is_number        ? "2"
                       : *argument == 'V' ? "plan"
                       : *argument == 'T' ? "svg"
                       : is_word          ? NULL
                                          : "some.file";
    if (is_word && !is_free) {
        snprintf(words, sizeof words, "--%s=moon", option);
        check_refused(command, option, words);
    }
    if (good) {
        snprintf(words, sizeof words, "--%s=%s --%s=%s", option, good, option, good);
        check_refused(command, option, words);
    }
    for (size_t i = 0; is_number && i < sizeof numbers / sizeof *numbers; i++) {
        if (i == 4 && (strcmp(argument, "MIB") == 0 || strcmp(argument, "RATE") == 0)) continue;
        snprintf(words, sizeof words, "--%s=%s", option, numbers[i]);
        if (i == 2 && strcmp(argument, "RATE") == 0) continue; /* 1e20 is a rate, of a kind */
        if (i == 2 && strcmp(argument, "MIB") == 0) continue;
        check_refused(command, option, words);
    }
}

/* A crash, or a status that graphtool does not have, would be above 2. */
TEST(commands_without_their_options_succeed_or_are_refused) {
    static const char *const rest[] = {"", " mlp.bin", " nowhere.bin", " mlp.bin -o odd.out"};
    NEED(make_model("mlp"));
    for (int c = 0; c < COMMANDS; c++)
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
            int status = run("graphtool %s%s", commands[c], rest[i]);
            CHECK_SAYS(status >= 0 && status <= 2, "%s%s: status %d", commands[c], rest[i], status);
        }
}

TEST(every_option_refuses_what_makes_no_sense) {
    int options = 0;
    NEED(make_model("mlp"));
    for (int c = 0; c < COMMANDS; c++) {
        NEED(ends(run("graphtool %s --help", commands[c]), 0));
        char *help = read_all("out");
        for (char *line = help, *next; line && *line; line = next) {
            char option[40], argument[40];
            next = line + strcspn(line, "\n");
            if (*next) *next++ = 0;
            if (sscanf(line, " -%*c, --%39[a-z0-9-]=%39[A-Za-z:=]", option, argument) != 2 &&
                sscanf(line, " --%39[a-z0-9-]=%39[A-Za-z:=]", option, argument) != 2)
                continue;
            if (test_is_quick() && options++ % 5) continue;
            attack_option(commands[c], option, argument);
            options++;
        }
        free(help);
    }
    CHECK_SAYS(options > 100, "%d options: --help is not read", options);
}

/* Four numbers, at random or all 1, and nothing to train. */
/* A forward without parameters: of random numbers, of constants, of state whose first values are random. */
typedef enum only_kind { ONLY_RANDOM, ONLY_ONES, ONLY_STATE } only_kind;

static weft_value *only_value(weft_graph *g, only_kind kind) {
    static const int64_t shape[] = {4};
    if (kind == ONLY_RANDOM) return weft_random_normal(g, 1, shape, 0, 1);
    weft_value *ones = weft_constant(g, WEFT_F32, 1, shape, 1);
    if (kind == ONLY_ONES) return ones;
    return weft_add(ones, weft_state(ones, "s", 1, shape, (weft_init){WEFT_INIT_NORMAL, 0, 1}));
}

static void make_only_forward(const char *name, only_kind kind) {
    char path[300];
    weft_error error = {0};
    path_of(name, path);
    weft_model *m = weft_model_new("only");
    weft_graph *g = weft_graph_new(m, "predict", WEFT_EVAL);
    weft_output(only_value(g, kind), "x");
    CHECK_SAYS(weft_save(m, path, &error) == WEFT_OK, "%s", error.text);
    weft_model_free(m);
}

TEST(options_without_effect_are_refused) {
    make_data();
    make_only_forward("only.bin", ONLY_RANDOM);
    make_only_forward("ones.bin", ONLY_ONES);
    make_only_forward("state.bin", ONLY_STATE);
    NEED(make_model("mlp"));
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"ops --json --markdown", "--markdown has no effect with --json"},
        {"info mlp.bin --json --parameters", "--parameters has no effect with --json"},
        {"info mlp.bin --depth 1 --parameters", "--depth has no effect with --parameters"},
        {"predict mlp.bin --random-weights --argmax -o o.png",
         "predict: --argmax is for .npy, not for o.png"},
        {"predict mlp.bin --random-weights --argmax --fetch class -o o.npy",
         "--argmax has no effect on an output without an axis of classes"},
        {"plan mlp.bin --dump --json", "--dump has no effect with --json"},
        {"plan mlp.bin --rank 1", "--rank has no effect without --world"},
        {"plan mlp.bin --world 2 --rank 2", "rank"},
        {"plan mlp.bin --world 2 --shard flat", "--shard has no effect without --zero"},
        {"plan mlp.bin --world 2 --zero 1 --ddp net:zero=2",
         "--zero has no effect where every subgraph has its own zero"},
        {"plan mlp.bin --tf32", "--tf32 has no effect without --device=cuda"},
        {"plan mlp.bin --calibration=none", "--calibration has no effect without --device=cuda"},
        {"bench mlp.bin --no-capture", "--no-capture has no effect without --device=cuda"},
        {"bench mlp.bin --comm=nccl", "--comm=nccl has no effect without --device=cuda"},
        {"plan mlp.bin --deterministic", "--deterministic has no effect without --device=cuda"},
        {"plan mlp.bin --dump --after=autodiff", "--dump has no effect with --after"},
        {"plan mlp.bin --zero 1", "--zero has no effect on one rank alone: --world=N is needed"},
        {"plan mlp.bin --world 1 --zero 1", "--zero has no effect on one rank alone"},
        {"verify mlp.bin --serial", "--serial has no effect on one rank alone: --world=N is needed"},
        {"plan mlp.bin --threads 0", "--threads=0: a whole number from 1 to 1024 is needed"},
        {"plan mlp.bin --accumulate 0", "--accumulate=0: a whole number from 1 to"},
        {"train mlp.bin " DATA " --batch 10 --flow val --steps 1",
         "no graph of the flow minimizes a loss or writes state"},
        {"train mlp.bin " DATA " --steps 1 -o w.npz", "weights are written as safetensors: end the name so"},
        {"blame nowhere", "nowhere: the folder cannot be read: No such file or directory"},
        {"blame .", ".: it has no file rank-N.ring"},
        {"plan mlp.bin --reduce=fast", "--reduce has no effect on one rank alone"},
        {"plan mlp.bin --ddp net:zero=1", "--ddp=net:zero=1 has no effect on one rank alone"},
        {"predict mlp.bin --random-weights --rings here -o p.npy", "no option --rings"},
        {"train mlp.bin " DATA " --flow train{accumulate=2} --accumulate 3",
         "--accumulate has no effect with a flow that says it for each graph"},
        {"train mlp.bin " DATA " --flow trian",
         "no flow and no graph of this name: did you mean 'train'? There are train, val"},
        {"plan mlp.bin --graph val --accumulate 2", "--accumulate has no effect where no graph trains"},
        {"plan mlp.bin --graph val --world 2 --serial", "--serial has no effect where no graph trains"},
        {"plan mlp.bin --graph val --world 2 --reduce=fast", "--reduce has no effect where no graph trains"},
        {"dot mlp.bin --view=program --graph val --accumulate 2", "--accumulate has no effect where no"},
        {"plan only.bin --world 2", "--world has no effect on a model without a graph that trains"},
        {"plan only.bin --bucket-cap-mb 2", "--bucket-cap-mb has no effect on a model without a graph"},
        {"predict only.bin --random-weights -o p.npy",
         "--random-weights has no effect on a model without parameters"},
        {"predict only.bin --weights w -o p.npy", "--weights has no effect on a model without parameters"},
        {"eval mlp.bin " DATA " --weights w --seed 1",
         "--seed has no effect on a graph that draws no random"},
        {"predict ones.bin --seed 1 -o p.npy", "--seed has no effect on a graph that draws no random"},
        {"dot mlp.bin --world 2", "--world has no effect on a graph as written"},
        {"dot mlp.bin --isa avx2", "--isa has no effect on a graph as written"},
        {"dot mlp.bin --view=plan --depth 2", "--depth has no effect with --view=plan"},
        {"dot mlp.bin --view=plan --all", "--all has no effect with --view=plan"},
        {"train mlp.bin " DATA " --partial", "--partial has no effect without --weights"},
        {"eval mlp.bin " DATA " --random-weights --rename a:b", "--rename has no effect without --weights"},
        {"eval mlp.bin " DATA " --weights w --rename net", "--rename=net: FROM:TO is needed"},
        {"train mlp.bin " DATA " --optimizer-state", "--optimizer-state has no effect without --output"},
        {"launch -n 2 --grace=0 true", "--grace=0: a number above 0"},
        {"train mlp.bin --timeout=0", "--timeout=0: a number above 0"},
        {"plan mlp.bin --world 2 --bucket-cap-mb=0", "--bucket-cap-mb=0: a number above 0"},
        {"plan mlp.bin --threads=0", "--threads=0: a whole number from 1 to 1024 is needed"},
        {"train mlp.bin --epochs 4 --steps 4611686018427387903", "--epochs has no effect without --data"},
        {"eval mlp.bin " DATA, "its 6 parameters have no values: use --weights=FILE, or --random-weights"},
        {"predict mlp.bin --data image=images.idx -o p.npy", "use --weights=FILE, or --random-weights"},
        {"eval mlp.bin " DATA " --weights w --random-weights",
         "--random-weights has no effect with --weights"},
        {"predict mlp.bin --random-weights --data image=images.idx --grid 2x2 -o p.npy",
         "--grid is for a PNG"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(run("graphtool %s", cases[i].words), cases[i].says);
    CHECK(ends(run("graphtool predict state.bin --seed 1 -o s.npy"),
               0)); /* it decides what the state begins with */
    refuses(run("weft-zoo mlp --layers 3 -o no.bin"), "have no effect on: mlp");
    refuses(run("weft-zoo mlp --schedule-steps 3 -o no.bin"), "--schedule-steps has no effect on: mlp");
    refuses(run("weft-zoo gpt --pictures -o no.bin"), "--pictures has no effect on: gpt");
    refuses(run("weft-zoo gpt --batch 3 --batch 4 -o no.bin"), "given twice");
    refuses(run("weft-zoo gpt --batch 0 -o no.bin"), "a number from 1");
    refuses(run("weft-zoo gpt -o ''"), "must not be empty");
    refuses(run("graphtool train mlp.bin " DATA " -o -"), "/dev/stdout");
    CHECK(!exists("no.bin") && !exists("p.npy"));
}

/* A job's script names the same options for any number of ranks. */
TEST(one_rank_takes_the_options_of_many) {
    static const char many[] = " --timeout 60 --zero 1 --shard flat --reduce=fast --serial --rings here "
                               "--ddp net:bucket_cap_mb=1";
    static const char said[] =
        "graphtool: train: one rank alone, without effect: --zero, --reduce, --serial, "
        "--timeout, --rings\n";
    make_data();
    NEED(make_model("mlp"));
    CHECK(ends(
        run("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 graphtool train mlp.bin " DATA
            " --batch 16 --steps 3 --threads 1 -o by.mpi --timeout 60 --zero 1 --shard flat --reduce=fast"),
        0));
    CHECK(ends(run("graphtool train mlp.bin " DATA " --batch 16 --steps 3 --threads 1 -o plain"), 0));
    CHECK(ends(run("graphtool train mlp.bin " DATA " --batch 16 --steps 3 --threads 1 -o alone%s", many), 0));
    char *err = read_all("err");
    CHECK_TEXT(err, said);
    free(err);
    CHECK(ends(run("cmp plain alone && cmp plain by.mpi"), 0) && !exists("here"));
    CHECK(ends(run("graphtool bench mlp.bin --batch 4 --steps 1 --warmup 0 --serial --ddp net:zero=1 2>&1 | "
                   "grep -q 'effect: --serial, --ddp=net:zero=1$'"),
               0));
    CHECK(ends(run("graphtool eval mlp.bin " DATA " --random-weights --timeout 60 --json"), 0));
    make_only_forward("only.bin", ONLY_RANDOM);
    CHECK(ends(run("graphtool predict only.bin --seed 1 -o p.npy"), 0));
}

SUITE("tools: options",
      {T(commands_without_their_options_succeed_or_are_refused), T(every_option_refuses_what_makes_no_sense),
       T(options_without_effect_are_refused), T(one_rank_takes_the_options_of_many)})
