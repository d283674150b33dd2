/* test_tools_effects.c - the effect of every option of every command, as --help lists them, is shown. A new
 * option fails until it is in this table; where an option would have no effect the command fails
 * (test_tools_options.c). */
#include "graph/settings/field.h"
#include "support/comm_world.h"
#include "support/programs.h"
#include "runtime/plan/compile_fields.h"
#include "tools/graphtool/options/option_table.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONNX     TEST_DATA "/onnx/small.onnx "
#define TRAINS   "mlp.bin " DATA " --threads 1 "
#define STEPS    TRAINS "--batch 10 --steps 3 "
#define KEPT     "-o o >/dev/null; md5sum <o"
#define DIVERGES TRAINS "--batch 10 --steps 5 --lr 1e30 -o o 2>&1 >/dev/null"
/* the same for two equal runs */
#define TIMELESS                                                                                             \
    " | sed -E '/(samples|interval|quartiles)_ms/,/\\]/d; /_ms|_mib|gflops|gb_per_s|_cpus|of_limit/d'"
#define FED        "fed.bin " DATA " --threads 1 "
#define TRACE      "mlp.bin --batch 4 --warmup 0 --threads 1 "
#define EVENTS     "-o o >/dev/null; grep -o '\"name\":\"[^\"]*\"' o | sort"
#define PLAN_DRAWN "mlp.bin --view=plan "
#define VALIDATED  "--val-data image=images.idx --val-data label=labels.npy "
#define IS_SHORT   " 2>&1 | grep -c 'are free'; true" /* of memory */
#define NANS       "byol.bin --batch 4 --threads 1 --data view_a=nan.npy --data view_b=nan.npy "
/* What one rank alone says of options for several: test_tools_mpi.sh and test_tools_ranks.sh have these. */
#define ALONE "2>&1 >/dev/null | grep 'without effect'"

/* `graphtool COMMAND OPTION REST` and without OPTION: another output, or a command that fails without it;
 * with a '!' after the option it fails with it. */
static const struct effect {
    const char *commands, *options; /* parted by blanks; = and a value where an option has one */
    const char *rest;               /* for the shell */
} effects[] = {
    {"info", "--json --output=o --depth=1 --parameters", "mlp.bin"},
    {"ops", "--json --output=o --markdown", ""},
    {"import", "--output=o.bin", ONNX},
    {"import", "--batch=3 --axis=batch=4 --loss=mse --head=logits:5 --images=image:signed",
     ONNX "-o o.bin; md5sum <o.bin"},
    {"import", "--minimize=sgd:lr=0.1 --trainable=fc --batch-norm=eval",
     ONNX "--loss mse -o o.bin; md5sum <o.bin"},
    /* plan */
    {"plan",
     "--graph=val --batch=3 --threads=3 --isa=reference --device=cuda --dtype=bf16 --precision=net:bf16 "
     "--accumulate=2 --world=2 "
     "--flow=val --bucket-cap-mb=0.1 --ddp=net:bucket_cap_mb=0.1 --after=autodiff! --output=o --clip-norm=1 "
     "--ema=0.9 "
     "--optimizer=:beta1=0.5",
     "mlp.bin --dump"},
    {"plan", "--dump --json", "mlp.bin"},
    {"plan", "--guard=nan", "mlp.bin --dump"},
    {"plan", "--bytes --estimate=h200", "mlp.bin --device cuda"},
    {"plan", "--zero=1 --serial --strategy=zero", "mlp.bin --dump --world 2"},
    {"plan", "--shard=flat --rank=1", "mlp.bin --dump --world 2 --zero 1"},
    {"plan", "--reduce=fast", "mlp.bin --json --world 2 | grep -v fingerprint"},
    {"plan", "--deterministic --tf32 --calibration=table!",
     "mlp.bin --json --device cuda | grep fingerprint"},
    /* view: the page has the plan's fingerprint */
    {"view", "--output=o", "mlp.bin"},
    {"view",
     "--graph=val --batch=3 --threads=3 --isa=reference --device=cuda --dtype=bf16 --precision=net:bf16 "
     "--accumulate=2 --world=2 --flow=val --bucket-cap-mb=0.1 --ddp=net:bucket_cap_mb=0.1 --clip-norm=1 "
     "--ema=0.9 --optimizer=:beta1=0.5 --guard=nan --against=--batch=9",
     "mlp.bin -o - | md5sum"},
    {"view", "--profile", "mlp.bin --batch 8 -o - | grep -o '\"kind\":\"[a-z]*\"'"},
    {"view", "--zero=1 --serial --strategy=zero --reduce=fast", "mlp.bin -o - --world 2 | md5sum"},
    {"view", "--shard=flat --rank=1", "mlp.bin -o - --world 2 --zero 1 | md5sum"},
    {"view", "--deterministic --tf32 --calibration=table!", "mlp.bin -o - --device cuda | md5sum"},
    /* diff */
    {"diff",
     "--graph=val --precision=net:bf16 --flow=val --ddp=net:bucket_cap_mb=0.1 --output=o --clip-norm=1 "
     "--ema=0.9 --guard=nan --optimizer=:beta1=0.5 --json --all --view=program",
     "mlp.bin --against --accumulate=2; true"},
    {"diff", "--rank=1", "mlp.bin --world 2 --zero 1 --against --serial; true"},
    {"diff", "--against=--batch=9", "mlp.bin; true"},
    {"diff", "--calibration=table!", "mlp.bin --device cuda --against --tf32"},
    /* dot */
    {"dot",
     "--graph=val --batch=3 --all --depth=0 --max-nodes=10 --focus=net/fc2 --type=svg --output=o "
     "--view=program",
     "mlp.bin"},
    {"dot", "--hops=1", "mlp.bin --focus=net/fc2"},
    {"dot", "--expand=target/block2", "byol.bin --depth 1"},
    {"dot",
     "--isa=reference --device=cuda --dtype=bf16 --precision=net:bf16 --flow=val --accumulate=2 --world=2 "
     "--bucket-cap-mb=0.1 "
     "--ddp=net:bucket_cap_mb=0.1",
     PLAN_DRAWN},
    {"dot", "--threads=3", PLAN_DRAWN "--batch 256"}, /* scratch of each */
    {"dot", "--zero=1 --serial --strategy=zero", PLAN_DRAWN "--world 2"},
    {"dot", "--shard=flat --rank=1", PLAN_DRAWN "--world 2 --zero 1"},
    /* verify */
    {"verify", "--json", "mlp.bin"},
    {"verify",
     "--graph=val --batch=3 --threads=3 --isa=reference --device=cuda --dtype=bf16 --precision=net:bf16 "
     "--flow=train*2 --accumulate=2 --world=2 --strategy=zero --bucket-cap-mb=0.1 --optimizer=:beta1=0.5 "
     "--clip-norm=1 --ema=0.9 --ddp=net:bucket_cap_mb=0.1",
     "mlp.bin --json | grep fingerprint"},
    {"verify", "--zero=1 --serial --reduce=fast", "mlp.bin --world 2 --json | grep fingerprint"},
    {"verify", "--shard=flat", "mlp.bin --world 2 --zero 1 --json | grep fingerprint"},
    {"verify", "--rank=1", "mlp.bin --world 2 --json"},
    {"verify", "--deterministic --tf32 --calibration=table",
     "mlp.bin --device cuda --json | grep fingerprint"},
    /* train */
    {"train",
     "--clip-norm=0.01 --schedule=cosine --optimizer=:beta1=0.5 --lr=0.1 --seed=1 --weights=w --flow=train*2 "
     "--accumulate=2 --dtype=bf16 --precision=:bf16 --isa=reference --optimizer-state "
     "--output=p!",
     STEPS KEPT},
    {"train eval", "--rename=net.fc1:x!", "mlp.bin " DATA " --weights w --batch 10"},
    {"train eval", "--partial", "mlp.bin " DATA " --weights w --rename net.fc1:x --batch 10"},
    {"bench", "--rename=net.fc1:x!", "mlp.bin --weights w --batch 4 --steps 1 --warmup 0"},
    {"bench", "--partial", "mlp.bin --weights w --rename net.fc1:x --batch 4 --steps 1 --warmup 0"},
    {"predict", "--rename=net.fc1:x!", "mlp.bin --data image=images.idx --weights w -o o.npy"},
    {"predict", "--partial", "mlp.bin --data image=images.idx --weights w --rename net.fc1:x -o o.npy"},
    {"train", "--steps=3 --epochs=2 --batch=20", "mlp.bin " DATA " --threads 1 " KEPT},
    {"train", "--log-every=2", STEPS "| grep -c ^epoch"},
    {"train", "--log=l", STEPS ">/dev/null; cat l"},
    {"train", "--data=label=labels.npy", "mlp.bin --data image=images.idx --batch 10 --threads 1"},
    {"train", "--val-data=label=labels.npy", STEPS "--val-data image=images.idx"},
    {"train", "--val-every=2steps",
     TRAINS "--batch 10 --val-data image=images.idx --val-data label=labels.npy --epochs 3 | grep -c valid"},
    {"train", "--csv=p --tensorboard=p", STEPS ">/dev/null; ls p* p/*"},
    {"train", "--curves=p.svg", STEPS ">/dev/null; ls p*"},
    {"train", "--samples=p.png:every=1",
     "dcgan28.bin --data image=images.idx --batch 4 --steps 2 --threads 1 >/dev/null; ls p*"},
    {"train", "--metric=accuracy:top=3",
     STEPS "--val-data image=images.idx --val-data label=labels.npy | grep valid"},
    {"eval", "--metric=accuracy:top=3", "mlp.bin " DATA " --random-weights --threads 1"},
    {"train", "--ema=0.5", STEPS "--val-data image=images.idx --val-data label=labels.npy | grep valid"},
    {"train", "--best=accuracy",
     STEPS "--val-data image=images.idx --val-data label=labels.npy -o w.x >/dev/null; ls w*; rm -f w.*"},
    {"train", "--early-stop=loss:max",
     TRAINS "--batch 10 --val-data image=images.idx --val-data label=labels.npy --epochs 9 | grep -c valid"},
    {"bench", "--guard=off --ema=0.9 --bucket-cap-mb=0.1 --strategy=zero",
     "mlp.bin --steps 1 --warmup 0 --json | grep fingerprint"},
    {"trace",
     "--guard=off --ema=0.9 --bucket-cap-mb=0.1 --strategy=zero --batch=3 --threads=3 --isa=reference "
     "--optimizer=:beta1=0.5 --clip-norm=1",
     "mlp.bin --steps 1 --warmup 0 --json -o o | grep fingerprint"},
    {"train", "--config=c", TRAINS KEPT},
    {"train", "--print-config", STEPS "| grep '\"steps\": 3'"},
    {"train", "--work-dir=d", STEPS ">/dev/null; ls d/*; rm -rf d"},
    {"train", "--checkpoint-dir=c.d", STEPS ">/dev/null; ls c.d; rm -rf c.d"},
    {"train", "--checkpoint-every=1", STEPS "--checkpoint-dir c.d >/dev/null; ls c.d; rm -rf c.d"},
    {"train", "--keep=1", STEPS "--checkpoint-dir c.d --checkpoint-every 1 >/dev/null; ls c.d; rm -rf c.d"},
    {"train", "--resume=resumable", STEPS "2>&1 | grep -c resumed"},
    {"train", "--keep-best=loss:max",
     STEPS VALIDATED
     "--val-every 1steps --checkpoint-dir c.d --checkpoint-every 1 --keep 1 >/dev/null; ls c.d; "
     "rm -rf c.d"},
    {"train", "--guard=off", DIVERGES "; true"},
    {"train", "--on-bad-step=skip", DIVERGES "; true"},
    {"train", "--keep-going", DIVERGES "; md5sum <o"},
    {"train", "--check", DIVERGES "; true"},
    /* ckpt; c.e is a checkpoint with averages */
    {"ckpt", "--json", "list resumable | grep -v written"},
    {"ckpt", "--averages", "export c.e -o o; md5sum <o"},
    {"ckpt", "--output=o", "export c.e"},
    {"ckpt", "--world=2", "reshard c.e -o c.r; ls c.r/*; rm -rf c.r"},
    /* eval and predict */
    {"eval", "--weights=w --random-weights", "mlp.bin " DATA " --threads 1"},
    {"eval", "--seed=1 --dtype=bf16 --precision=val:bf16 --graph=train! --json",
     "mlp.bin " DATA " --random-weights --threads 1"},
    {"eval", "--batch=16", "mlp.bin " DATA " --random-weights --threads 1 --json"},
    {"eval", "--data=label=labels.npy", "mlp.bin --data image=images.idx -w w"},
    {"predict", "--weights=w --random-weights", "mlp.bin --data image=images.idx --threads 1 -o o.npy"},
    {"predict",
     "--seed=1 --dtype=bf16 --precision=:bf16 --isa=reference --graph=train! --fetch=class "
     "--argmax",
     "mlp.bin --data image=images.idx --random-weights --threads 1 -o o.npy; md5sum <o.npy"},
    {"predict", "--data=image=images.idx", "mlp.bin --random-weights -o o.npy"},
    {"predict", "--output=o.npy", "mlp.bin --random-weights --data image=images.idx"},
    {"export", "--weights=w --random-weights", "mlp.bin -o o.onnx"},
    {"export", "--seed=1 --fixed-batch --external-data --graph=val",
     "mlp.bin --random-weights -o o.onnx; md5sum <o.onnx"},
    {"export", "--output=o.onnx", "mlp.bin --random-weights"},
    {"export", "--rename=net.fc1:x!", "mlp.bin --weights w -o o.onnx"},
    {"export", "--partial", "mlp.bin --weights w --rename net.fc1:x -o o.onnx"},
    {"export", "--random-inputs", "dcgan28.bin --random-weights -o o.onnx 2>&1"},
    {"predict", "--grid=2x2 --scale=2 --batch=3",
     "dcgan28.bin --random-weights --threads 1 -o o.png; md5sum <o.png"},
    {"eval", "--check!", NANS "--random-weights"},
    {"predict", "--check!", "byol.bin --batch 4 --threads 1 --data image=nan.npy --random-weights -o o.npy"},
    /* report */
    {"report",
     "--picture=Step=step.svg --batch=8 --threads=3 --isa=reference --device=cuda --dtype=bf16 "
     "--precision=net:bf16 --flow=val --accumulate=2 --optimizer=:amsgrad=1 --clip-norm=1 --ema=0.9 "
     "--guard=off --world=2 --bucket-cap-mb=0.1 --ddp=net:bucket_cap_mb=0.1",
     "mlp.bin -o page && cat page"},
    {"report", "--zero=1 --serial --strategy=zero --reduce=fast", "mlp.bin --world 2 -o page && cat page"},
    {"report", "--shard=flat --rank=1", "mlp.bin --world 2 --zero 1 -o page && cat page"},
    {"report", "--deterministic --tf32 --calibration=table!", "mlp.bin --device cuda -o page && cat page"},
    {"report", "--output=new", "mlp.bin && cat new"},
    /* bench and trace */
    {"bench", "--batch=4", "mlp.bin --steps 1 --warmup 0 --json" TIMELESS},
    {"bench", "--steps=2", "mlp.bin --batch 4 --warmup 0 --json" TIMELESS},
    {"bench", "--optimizer=:lr=0.1 --clip-norm=0.01",
     "mlp.bin --batch 4 --steps 3 --warmup 0 --threads 1 --json" TIMELESS},
    {"bench",
     "--flow=train*2 --accumulate=2 --seed=1 --weights=w --dtype=bf16 --precision=:bf16 "
     "--isa=sse2",
     "mlp.bin --batch 4 --steps 1 --warmup 0 --threads 1 --json" TIMELESS},
    {"bench", "--threads=3", "mlp.bin --steps 1 --warmup 0 --batch 8 --json" TIMELESS},
    {"bench", "--warmup=2", "mlp.bin --steps 1 --batch 8 --threads 1 | grep -c '^1 steps after 2 '; true"},
    {"bench", "--json", "mlp.bin --steps 1 --batch 8 | grep losses"},
    {"bench", "--until=0.0001%",
     "mlp.bin --steps 2 --warmup 0 --batch 4 --threads 1 | grep -o '^[0-9]* steps'"},
    {"bench", "--against=--guard=off",
     "mlp.bin --steps 2 --warmup 0 --batch 4 --threads 1 | grep -c '^time'; true"},
    {"bench", "--compare=m.json", "m.json"},
    {"bench", "--fail-above=0.5!", "m.json --compare m.json"},
    {"bench", "--suite=small", "-o p.jsonl --with '--steps 1 --warmup 0' 2>/dev/null"},
    {"bench", "--output=p.jsonl", "--suite small --with '--steps 1 --warmup 0' 2>/dev/null"},
    {"bench", "--with=--batch=none", "--suite small -o p.jsonl --with --dtype=x 2>/dev/null; true"},
    {"bench", "--profile", "mlp.bin --steps 1 --batch 8 2>&1 >/dev/null"},
    {"bench", "--op='relu(f32[8])'", "--steps 1 2>/dev/null"},
    {"bench", "--check-accuracy",
     "mlp.bin --steps 1 --warmup 0 --batch 2 --threads 1 | grep -c 'beside f64'; true"},
    {"bench", "--depth=1", "mlp.bin --steps 1 --batch 8 --profile 2>&1 >/dev/null | grep -c '^  '"},
    {"bench", "--data=label=labels.npy", "mlp.bin --steps 1 --batch 8 --data image=images.idx"},
    {"trace", "--flow=train*2 --accumulate=2 --dtype=bf16 --precision=:bf16 --output=p",
     TRACE "--steps 1 " EVENTS},
    {"trace", "--steps=1", TRACE EVENTS},
    {"trace", "--json", TRACE "-o o | grep step_ms"},
    {"trace", "--data=label=labels.npy", TRACE "--steps 1 -o o --data image=images.idx"},
    {"trace", "--weights=labels.npy!", TRACE "--steps 1 -o o"},
    {"trace", "--rename=net.fc1:x!", TRACE "--steps 1 -o o --weights w"},
    {"trace", "--partial", TRACE "--steps 1 -o o --weights w --rename net.fc1:x"},
    /* the steps before those that it times diverge */
    {"trace", "--warmup=0", "mlp.bin --batch 4 --threads 1 --steps 1 --optimizer=:lr=1e30 -o o"},
    {"trace", "--check", NANS "--steps 1 --warmup 0 -o o 2>&1 >/dev/null; true"},
    {"bench", "--check", NANS "--steps 1 --warmup 0 2>&1 >/dev/null; true"},
    {"train", "--set=tau=0.5", FED "--steps 3 --set k=1 2>&1"},
    {"eval", "--set=tau=0.5", FED "--random-weights --set k=1 2>&1"},
    {"predict", "--set=tau=0.5", "fed.bin --data image=images.idx --random-weights -o o.npy 2>&1"},
    {"bench", "--set=tau=0.25", "fed.bin --steps 1 --warmup 0 --threads 1 --json" TIMELESS},
    {"trace", "--set=k=5", "fed.bin --steps 1 --warmup 0 --threads 1 -o o 2>&1 >/dev/null"},
    /* of all that run */
    {"train eval bench predict", "--launcher=env", "mlp.bin 2>&1 | grep launcher"},
    {"trace", "--launcher=env", TRACE "-o o 2>&1 | grep launcher"},
    /* tests/cuda has what they do on a GPU */
    {"train", "--calibration=table! --no-capture!", STEPS},
    {"eval", "--calibration=table! --no-capture!", "mlp.bin " DATA " --random-weights"},
    {"predict", "--calibration=table! --no-capture!",
     "mlp.bin --data image=images.idx --random-weights -o o.npy"},
    {"bench", "--calibration=table! --no-capture!", "mlp.bin --steps 1 --batch 8 --warmup 0"},
    {"trace", "--calibration=table! --no-capture!", TRACE "--steps 1 -o o"},
    {"calibrate", "--graph=nothere --precision=nothere:bf16 --output=/nowhere/x", "mlp.bin 2>&1; true"},
    {"launch", "--ranks=7", "echo rank"},
    /* rank 1 fails, and rank 0 ends by itself, without SIGTERM, after five seconds */
    {"launch", "--grace=0.2",
     "sh -c 'trap \"\" TERM; if [ $RANK = 1 ]; then until [ -e o ]; do sleep 0.05; done; exit 7; fi; "
     "touch o; i=0; while kill -0 $PPID && [ $((i += 1)) -lt 50 ]; do sleep 0.1; done' 2>&1 >/dev/null | "
     "grep killed"},
    /* one allocation of 388 TiB, which no machine of today has addresses for */
    {"train bench", "--no-memory-check", "dcgan28.bin --flow g_step --batch 1400000000 --steps 1" IS_SHORT},
    {"trace", "--no-memory-check", "dcgan28.bin --flow g_step --batch 1400000000 --steps 1 -o o" IS_SHORT},
    /* a batch of which only 70 samples are there */
    {"eval", "--no-memory-check", "mlp.bin " DATA " --random-weights --threads 1 --batch 1000000000"},
    {"predict", "--no-memory-check",
     "mlp.bin --data image=images.idx --random-weights --threads 1 --batch 1000000000 -o o.npy"},
    {"train", "--comm=mpi --timeout=60 --rings=r --ddp=net:zero=1", STEPS ALONE},
    {"eval", "--comm=mpi --timeout=60 --rings=r", "mlp.bin " DATA " --random-weights " ALONE},
    {"bench", "--comm=mpi --timeout=60 --rings=r --ddp=net:zero=1",
     "mlp.bin --steps 1 --batch 8 --warmup 0 " ALONE},
    {"trace", "--comm=mpi --timeout=60 --rings=r --ddp=net:zero=1", TRACE "--steps 1 -o o " ALONE},
    {"blame", "--json", "lost"},
};
enum { EFFECTS = sizeof effects / sizeof *effects };

/* Whether one of `words` is `word`, up to = or !. */
static const char *word_in(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " =!") == n && strncmp(p, word, n) == 0) return p;
    return NULL;
}

/* What a command has written, after its status; the caller frees it. */
static char *leaves(const char *command, const char *option, const char *rest, int *status) {
    run("rm -rf o p l o.* p.*");
    *status = run("timeout 600 graphtool %s %s %s", command, option, rest);
    return read_all("out");
}

/* Whether two runs without an option leave the same: else any option would seem to change it. */
static void check_alike(const char *command, const char *rest, const char *first) {
    int status;
    char *again = leaves(command, "", rest, &status);
    CHECK_SAYS(again && first && strcmp(again, first) == 0, "graphtool %s %s: two runs differ", command,
               rest);
    free(again);
}

static bool always(const struct effect *e, const char *option) {
    (void)e, (void)option;
    return true;
}

/* Whether no row before this one, of any command, shows the option. */
static bool is_first(const struct effect *e, const char *option) {
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option);
    for (const struct effect *other = effects; other < e; other++)
        if (word_in(other->options, name)) return false;
    return true;
}

/* Of one row in one command: each option that is to be shown, against none. */
static void show_effects(const char *command, const struct effect *e,
                         bool shows(const struct effect *e, const char *option)) {
    int before = 0, after;
    bool is_alike = test_is_quick(); /* long runs show it */
    char *without = NULL, option[80];
    for (const char *p = e->options; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        snprintf(option, sizeof option, "%.*s", (int)strcspn(p, " !"), p);
        if (!shows(e, option)) continue;
        if (!without) without = leaves(command, "", e->rest, &before);
        bool is_refused = p[strcspn(p, " !")] == '!';
        char *with = leaves(command, option, e->rest, &after);
        CHECK_SAYS(is_refused ? !before && after : before || !after,
                   "graphtool %s %s %s: exit %d, without it %d", command, option, e->rest, after, before);
        if (before == after && !is_alike) check_alike(command, e->rest, without), is_alike = true;
        CHECK_SAYS(before != after || (with && without && strcmp(with, without)),
                   "graphtool %s %s %s: nothing is different with it", command, option, e->rest);
        free(with);
    }
    free(without);
}

static int rows_of(const char *command, const char *option) {
    int rows = 0;
    for (int i = 0; i < EFFECTS; i++)
        rows += word_in(effects[i].options, option) && word_in(effects[i].commands, command);
    return rows;
}

/* A compile option that all ranks share is part of the plan's fingerprint, by its row of
 * runtime/plan/compile_list.h, in each command that compiles: settings_change_the_fingerprint shows it for
 * all, and a command needs a row only for what it shows besides. */
static bool is_in_fingerprint(const char *option) {
    for (const option_row *row = option_rows; row->field.name; row++)
        if (strcmp(row->field.name, option + 2) == 0) return row->field.uses & COMPILE_OF_RANKS;
    return false;
}

/* Of one option in --help: whether it has a row. */
static bool check_option(const char *command, const char *option) {
    int rows = rows_of(command, option);
    CHECK_SAYS(rows == 1 || (rows == 0 && is_in_fingerprint(option)),
               "graphtool %s %s: %d rows say what it changes", command, option, rows);
    return rows > 0;
}

/* What an option needs beside it to have an effect. */
static const char *partner_of(const char *option) {
    static const char *const partners[][2] = {{"--deterministic", "--device cuda"},
                                              {"--tf32", "--device cuda"},
                                              {"--shard", "--zero 1"},
                                              {"--world", ""},
                                              {"--accumulate", ""}};
    for (size_t i = 0; i < sizeof partners / sizeof *partners; i++)
        if (strcmp(partners[i][0], option) == 0) return partners[i][1];
    return "--world 2";
}

/* Each of them alone, in `verify`: the value after the default, or the least but one. */
TEST(settings_change_the_fingerprint) {
    int tried = 0;
    NEED(ends(run("weft-zoo mlp -b 10 -o mlp.bin"), 0));
    for (const option_row *row = option_rows; row->field.name; row++) {
        char dashed[40], given[80], rest[120];
        const char *const *words = row->field.words;
        snprintf(dashed, sizeof dashed, "--%s", row->field.name);
        if (!is_in_fingerprint(dashed) || row->field.kind == WEFT_FIELD_TEXT) continue;
        if (!row->argument)
            snprintf(given, sizeof given, "%s", dashed);
        else if (words)
            snprintf(given, sizeof given, "%s=%s", dashed,
                     words[strcmp(row->field.name, "reduce") == 0 ? 2 : 1]);
        else
            snprintf(given, sizeof given, "%s=%.17g", dashed, row->field.least + 1);
        if (strcmp(row->field.name, "threads") == 0) strcat(given, "3");
        snprintf(rest, sizeof rest, "mlp.bin %s %s --json | grep fingerprint", partner_of(dashed),
                 strcmp(partner_of(dashed), "--world 2") && strcmp(row->field.name, "world") ? "--world 2"
                                                                                             : "");
        show_effects("plan", &(struct effect){"plan", given, rest}, always);
        tried++;
    }
    CHECK_SAYS(tried > 10, "%d options", tried);
}

/* Each line of --help; how many there are. */
static int check_command(const char *command) {
    int n = 0;
    if (!ends(run("graphtool %s --help", command), 0)) return 0;
    char *help = read_all("out"), *rest = NULL;
    for (char *line = strtok_r(help, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char option[40];
        const char *dashes = strstr(line, "--");
        if (*line != ' ' || !dashes || dashes - line > 8 || sscanf(dashes, "%39[a-z0-9-]", option) != 1)
            continue;
        if (strcmp(option, "--help") == 0) continue;
        n += check_option(command, option);
    }
    free(help);
    return n;
}

TEST(every_option_of_help_has_its_row) {
    static const char *const commands[] = {
#define X(name) #name,
#include "tools/graphtool/cmd/list.h"
#undef X
    };
    int options = 0, places = 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        options += check_command(commands[i]);
        for (const struct effect *e = effects; e < effects + EFFECTS; e++)
            for (const char *p = word_in(e->commands, commands[i]) ? e->options : ""; *p;
                 p += strcspn(p, " "), p += strspn(p, " "))
                places++;
    }
    CHECK_SAYS(options > 130, "%d options: --help is not read", options);
    CHECK_SAYS(options == places, "%d options, %d places in rows: some are of options that are gone", options,
               places);
}

static atomic_bool is_written;

/* Rank 1 stays away, so rank 0 leaves its ring in the folder `lost`. */
static void lose(rank_run *r) {
    char path[300];
    weft_error error = {0};
    if (r->comm->rank == 1) {
        for (int i = 0; i < 6000 && !atomic_load(&is_written); i++) test_nap(10);
        return;
    }
    CHECK(weft_comm_run(r->comm, &(weft_collective){.name = "missed", .program = "train"}, &error) ==
          WEFT_PEER);
    path_of("lost/rank-0.ring", path);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    CHECK(fd >= 0 && weft_comm_write_ring(r->comm, fd, 77, 0));
    close(fd);
    atomic_store(&is_written, true);
}

/* What rows need beside images and labels. */
static void make_files(void) {
    enum { NUMBERS = 8 * 3 * 32 * 32 };
    rank_run ranks[MOST];
    float *nan = test_memory(NUMBERS * sizeof *nan);
    for (int i = 0; i < NUMBERS; i++) nan[i] = NAN;
    make_data();
    put_npy("nan.npy", "<f4", "(8, 3, 32, 32)", nan, NUMBERS * sizeof *nan);
    free(nan);
    NEED(ends(run("mkdir lost"), 0));
    window_run(2, 0, 1, 0, lose, ranks);
}

TEST(every_option_changes_something) {
    unsetenv("WEFT_ISA"); /* --isa beside its default, whatever WEFT_TEST_ISA says */
    make_files();
    NEED(make_fed());
    NEED(ends(run("weft-zoo mlp -b 10 -o mlp.bin && weft-zoo dcgan28 -b 4 -o dcgan28.bin && weft-zoo byol -o "
                  "byol.bin"),
              0));
    NEED(ends(run("graphtool train " STEPS "-o w --checkpoint-dir resumable && graphtool train " STEPS
                  "--ema 0.5 --checkpoint-dir c.e && echo '# nothing' >table && "
                  "graphtool dot mlp.bin -o step.svg && mkdir small && cp mlp.bin small && "
                  "echo '{\"epochs\": 3}' >c && "
                  "echo '{\"warmup\": 0, \"samples_ms\": [2, 2, 2]}' >m.json"),
              0));
    for (const struct effect *e = effects; e < effects + EFFECTS; e++) {
        for (const char *p = e->commands; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
            char command[20];
            snprintf(command, sizeof command, "%.*s", (int)strcspn(p, " "), p);
            show_effects(command, e, test_is_quick() ? is_first : always);
            if (test_is_quick()) break; /* the first command that has it */
        }
    }
}

SUITE("tools: effects of options", {T(every_option_of_help_has_its_row), T(settings_change_the_fingerprint),
                                    T(every_option_changes_something)})
