/* test_tools_files.c - what graphtool and weft-zoo do to files and to a terminal: links and devices stay,
 * inputs are never overwritten, outputs are tried before a training, a failing log costs no weights, and
 * names never send control codes to the terminal. */
#include "support/programs.h"

#include <stdlib.h>
#include <string.h>

#define TRAIN "graphtool train mlp.bin " DATA " --batch 10 --steps 3"

TEST(links_and_pipes_are_written_through) {
    NEED(make_model("mlp"));
    ends(run("ln -s real.txt link.txt && graphtool info mlp.bin -o link.txt && test -L link.txt && test -s "
             "real.txt"),
         0);
    ends(run("graphtool info mlp.bin -o /dev/stdout | cmp - real.txt"), 0);
    ends(
        run("{ echo first; graphtool info mlp.bin -o /dev/stdout; } >both && test $(head -1 both) = first && "
            "test $(wc -l <both) -gt 3"),
        0);
    ends(run("mkfifo pipe && { cat pipe >copy & } && graphtool plan mlp.bin --dump -o pipe && wait && test "
             "-p pipe && "
             "graphtool plan mlp.bin --dump | cmp - copy"),
         0);
    ends(run("weft-zoo mlp -o /dev/stdout | cmp - mlp.bin"), 0);
    ends(run("mknod null c 1 3 || exit 0; graphtool info mlp.bin -o null && test -c null"), 0);
}

TEST(inputs_are_never_overwritten) {
    make_data();
    NEED(make_model("mlp"));
    NEED(ends(run(TRAIN " -o w.st"), 0));
    ends(run("sum mlp.bin w.st images.idx labels.npy >before; ln -f mlp.bin hard; ln -sf mlp.bin soft; mkdir "
             "-p sub"),
         0);
    refuses(run("graphtool info mlp.bin -o mlp.bin"), "--output mlp.bin: it is the model too");
    refuses(run("graphtool info mlp.bin -o hard"), "it is the model too");
    refuses(run("graphtool plan soft -o ./sub/../mlp.bin"), "it is the model too");
    refuses(run("graphtool plan mlp.bin -o soft"), "it is the model too");
    refuses(run(TRAIN " --weights w.st -o w.st"), "--output w.st: it is the file of --weights too");
    refuses(run(TRAIN " -o images.idx"), "a file of --data too");
    refuses(run(TRAIN " --log mlp.bin"), "--log mlp.bin: it is the model too");
    refuses(run(TRAIN " --log w.st --weights w.st"), "the file of --weights");
    refuses(run(TRAIN " --val-data image=images.idx --val-data label=labels.idx -o labels.idx"),
            "a file of --val-data too");
    refuses(run(TRAIN " --log new -o sub/../new"), "--log new: it is the file of --output too");
    refuses(run("graphtool trace mlp.bin --batch 4 -o mlp.bin"), "it is the model too");
    refuses(run("graphtool predict mlp.bin --weights w.st --data image=labels.npy -o labels.npy"),
            "a file of --data too");
    ends(run("sum mlp.bin w.st images.idx labels.npy | cmp - before && test ! -e new"), 0);
}

/* ---- every output beside every input, from the table of options ---- */

/* What the table says that an option does with files: "reads", "writes" ...; "": it names none. */
static const char *file_of(const json_t *option) {
    return json_string_value(json_object_get(option, "file"));
}

static const char *name_of(const json_t *option) {
    return json_string_value(json_object_get(option, "name"));
}

static bool is_input(const json_t *option) {
    return strcmp(file_of(option), "reads") == 0 || strcmp(file_of(option), "data") == 0 ||
           strcmp(file_of(option), "checkpoints") == 0;
}

static bool is_output(const json_t *option) {
    return strcmp(file_of(option), "writes") == 0 || strcmp(file_of(option), "pictures") == 0;
}

enum { WORDS = 300 };
/* The option with this file, and what may stand around its name. */
static const char *words_of(const json_t *option, const char *file, char words[WORDS]) {
    const char *argument = json_string_value(json_object_get(option, "argument"));
    snprintf(words, WORDS, "%s --%s=%s%s%s", strcmp(name_of(option), "calibration") ? "" : " --device=cuda",
             name_of(option), strchr(argument, '=') ? "image=" : "", file,
             strcmp(file_of(option), "data") == 0       ? ":form=npy"
             : strcmp(file_of(option), "pictures") == 0 ? ":every=5"
                                                        : "");
    return words;
}

static void is_refused(const char *command) {
    int status = run("graphtool %s", command);
    char *err = read_all("err");
    CHECK_SAYS(strstr(err, " too, which would be overwritten\n") && status == 2,
               "graphtool %s: status %d, %s", command, status, err);
    free(err);
}

/* The command must be refused, and the file stay as it was. */
static void keeps(const char *file, const char *command) {
    ends(run("cp %s was", file), 0);
    is_refused(command);
    ends(run("cmp %s was", file), 0);
}

/* `file` is named by `reads`, and by each option for an output or a folder of outputs. */
static int check_outputs(const char *command, const json_t *options, const char *reads, const char *file) {
    char line[3 * WORDS], words[WORDS];
    int n = 0;
    size_t i;
    const json_t *option;
    json_array_foreach(options, i, option) {
        if (!is_output(option) && strcmp(file_of(option), "fills")) continue;
        snprintf(line, sizeof line, "%s %s %s", command, reads, words_of(option, file, words));
        keeps(file, line);
        n++;
    }
    return n;
}

/* Two options for outputs name one file, which is not there. */
static int check_pairs(const char *command, const json_t *options) {
    char line[3 * WORDS], a[WORDS], b[WORDS];
    int n = 0;
    size_t i, k;
    const json_t *one, *other;
    json_array_foreach(options, i, one) {
        json_array_foreach(options, k, other) {
            if (k <= i || !is_output(one) || !is_output(other)) continue;
            snprintf(line, sizeof line, "%s mlp.bin %s %s", command, words_of(one, "twice", a),
                     words_of(other, "./twice", b));
            is_refused(line);
            CHECK(!exists("twice"));
            n++;
        }
    }
    return n;
}

/* The model and each option for an input, in turn. */
static int check_inputs(const char *command, const json_t *options) {
    char reads[2 * WORDS], words[WORDS];
    size_t i;
    const json_t *option;
    int n = check_outputs(command, options, "copy.bin", "copy.bin");
    json_array_foreach(options, i, option) {
        if (!is_input(option)) continue;
        bool is_folder = strcmp(file_of(option), "checkpoints") == 0;
        const char *file = is_folder ? "steps/step-00000001/rank-0.safetensors" : "input";
        snprintf(reads, sizeof reads, "mlp.bin %s", words_of(option, is_folder ? "steps" : file, words));
        n += check_outputs(command, options, reads, file);
    }
    return n;
}

static void check_declared(const json_t *options) {
    size_t i;
    const json_t *option;
    json_array_foreach(options, i, option) {
        const char *argument = json_string_value(json_object_get(option, "argument"));
        bool names_one = strstr(argument, "FILE") || strstr(argument, "DIR");
        CHECK_SAYS(names_one == (*file_of(option) != 0), "--%s=%s: its row says '%s' of files",
                   name_of(option), argument, file_of(option));
    }
}

TEST(no_option_for_an_output_takes_what_another_option_names) {
    NEED(make_model("mlp"));
    NEED(ends(run("cp mlp.bin copy.bin; echo '{}' >input; mkdir -p steps/step-00000001; echo values "
                  ">steps/step-00000001/rank-0.safetensors; graphtool --table"),
              0));
    json_t *table = json_out("out"), *command;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(table, "commands"), i, command) {
        const json_t *options = json_object_get(command, "options");
        const char *name = name_of(command),
                   *arguments = json_string_value(json_object_get(command, "arguments"));
        check_declared(options);
        if (strcmp(arguments, "MODEL") == 0) n += check_inputs(name, options) + check_pairs(name, options);
    }
    CHECK_SAYS(n > 70, "%d pairs of options: the table is not read", n);
    json_decref(table);
}

/* Files that no option names as they are called, or that lie in a folder. */
TEST(no_output_takes_a_name_that_follows_from_another) {
    static const char *const rows[][2] = {
        {"w.best.st", "--data image=w.best.st:form=npy --val-data image=input --best loss -o w.st"},
        {"photo-5.png", "--data image=photo-5.png:form=npy --samples photo.png:every=5"},
        {"photo-5.png", "--samples photo.png:every=5 -o photo-5.png"},
        {"photo.png", "--samples photo.png:strip=8 --curves photo.png"},
        {"input", "--data image=input:form=npy --samples linked.png:every=5"},
        {"pics/a/1.png", "--data image=pics:height=8 -o pics/a/1.png"},
        {"steps/step-00000001/x", "--resume steps/step-00000001 --log steps/step-00000001/x"},
        {"steps/step-00000001/x", "--checkpoint-dir steps --resume auto --csv steps/step-00000001/x"},
        {"input", "--work-dir runs --csv runs/log.jsonl"},
        {"input", "--work-dir runs --csv runs/config.json"},
        {"input", "--work-dir new --csv ./new//log.jsonl"},
    };
    char command[400];
    NEED(make_model("mlp"));
    NEED(ends(run("mkdir -p pics/a steps/step-00000001 runs; for f in w.best.st photo-5.png photo.png input "
                  "pics/a/1.png steps/step-00000001/x steps/step-00000001/manifest.json; do echo kept >$f; "
                  "done; ln -sf input linked-7.png"),
              0));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(command, sizeof command, "train mlp.bin %s", rows[i][1]);
        keeps(rows[i][0], command);
    }
    keeps("steps/step-00000001/x", "ckpt export steps -o steps/step-00000001/x");
    keeps("input", "launch -n 2 train mlp.bin --data image=input:form=npy -o input");
    /* the first start of a run resumes, too, and what lies beside checkpoints is ignored */
    ends(run(TRAIN " --checkpoint-dir begun --resume auto"), 0);
    ends(
        run("! graphtool train mlp.bin --steps 1 --resume steps --log steps/log 2>said && ! grep overw said"),
        0);
    ends(run("rm -r w.best.st pics steps runs begun"), 0);
}

TEST(outputs_are_tried_before_the_training) {
    char name[256];
    make_data();
    NEED(make_model("mlp"));
    memset(name, 'n', 250);
    name[250] = 0;
    const char *train = "graphtool train mlp.bin " DATA " --batch 10 --epochs 1000000";
    refuses(run("%s -o /dev/full", train), "/dev/full: cannot be written: No space left");
    refuses(run("%s --log /dev/full", train), "/dev/full: cannot be written: No space left");
    refuses(run("%s -o %s", train, name), "File name too long");
    refuses(run("%s -o .", train), "Is a directory");
    refuses(run("%s --csv /dev/full", train), "/dev/full: cannot be written: No space left");
    refuses(run("%s --csv no/log.csv", train), "no/log.csv: cannot be written");
    refuses(run("%s --curves %s.svg", train, name), "File name too long");
    refuses(run("%s --samples %s.png:every=500", train, name), "File name too long");
    refuses(run("%s --samples no/photo.png:every=500", train), "no/photo-100000000.png: cannot be written");
    refuses(run("mkdir w.best.st && %s --val-data image=images.idx --val-data label=labels.npy --best loss "
                "-o w.st",
                train),
            "w.best.st: cannot be written: Is a directory");
    refuses(run("%s --tensorboard /proc/self", train), "/proc/self/.weft: cannot be written");
    refuses(run("%s --checkpoint-dir /proc/self", train), "/proc/self/.weft: cannot be written");
    refuses(run("%s --work-dir /proc/self/x", train), "/proc/self/x: the folder cannot be made");
    refuses(run("graphtool trace mlp.bin --batch 4 --steps 1000000 -o /dev/full"), "No space left");
    refuses(run("graphtool calibrate mlp.bin -o no/such.table"), "no/such.table: cannot be written");
    refuses(run("graphtool predict mlp.bin --random-weights --data image=images.idx -o no/such.npy"),
            "no/such.npy");
    ends(run("! ls -A | grep -q part"), 0);
}

/* ---- readers that leave ----
 * However late a busy machine runs them: 560 steps write a log of 88 kB, more than a pipe holds (64 KiB) and
 * a reader takes at once, so the training is not over before its reader has left. */
#define LONG "--batch 10 --epochs 80"

/* The log is read when the reader of the lines has left. */
TEST(a_reader_that_leaves_ends_no_training) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("mkfifo all; timeout 300 sh -c 'exec <all; until test -e left; do sleep 0.05; done; cat "
             ">logged' & "
             "{ graphtool train mlp.bin " DATA " " LONG " --log all -o kept.st; echo $? >status; } "
             "| { head -1; echo >left; }; wait; cat status; "
             "test $(cat status) = 2 && test $(wc -l <logged) = 560 && test $(wc -c <logged) -gt 80000"),
         0);
    char *err = read_all("err");
    CHECK_TEXT(err, "graphtool: standard output: writing failed: Broken pipe\n");
    free(err);
    CHECK(exists("kept.st"));
}

/* The status by which a scheduler starts a training again does not depend on who reads its lines. */
TEST(an_interrupted_training_has_its_status_without_a_reader) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("rm -f kept.st left; { graphtool train mlp.bin " DATA
             " --batch 10 --epochs 100000 --log steps -o kept.st & "
             "echo $! >pid; wait $!; echo $? >status; } | { head -1; echo >left; } & "
             "until test -s pid && test -e left && test -s steps && test $(wc -l <steps) -gt 200; do sleep "
             "0.05; done; "
             "kill -TERM $(cat pid); kill -HUP $(cat pid); kill -TERM $(cat pid); wait; test $(cat status) = "
             "130"),
         0);
    CHECK(exists("kept.st"));
}

/* A reader that leaves after one line of the log. */
TEST(a_log_that_fails_costs_no_weights) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("mkfifo log; { head -1 log >first & }; graphtool train mlp.bin " DATA " " LONG
             " --log log -o kept.st; status=$?; wait; exit $status"),
         1);
    char *err = read_all("err"), *out = read_all("out");
    CHECK_HOLDS(err, "graphtool: log: writing failed at step ");
    CHECK_HOLDS(err, ", and the log ends there: Broken pipe\n");
    CHECK_HOLDS(out, "trained 560 steps");
    free(err);
    free(out);
    CHECK(exists("kept.st"));
}

TEST(files_past_their_limit_are_errors_of_writing) {
    make_data();
    NEED(make_model("mlp"));
    ends(run("ulimit -f 1; graphtool plan mlp.bin --dump -o big.txt"), 2);
    char *err = read_all("err");
    CHECK_TEXT(err, "graphtool: big.txt: cannot be written: File too large\n");
    free(err);
    ends(run("ulimit -f 2; graphtool plan mlp.bin --dump >big.txt"), 2);
    ends(run("ulimit -f 1; weft-zoo convnet -o big.bin"), 2);
    CHECK(!exists("big.bin"));
}

/* Address space counts libraries and stacks of threads too. */
TEST(every_command_tells_that_memory_is_too_small) {
#ifndef __SANITIZE_ADDRESS__ /* which needs terabytes of addresses */
    static const char *const commands[] = {
        "info mlp.bin",
        "plan mlp.bin",
        "verify mlp.bin",
        "dot mlp.bin -o o.dot",
        "ops",
        "train mlp.bin " DATA " --batch 10 -t 1",
        "eval mlp.bin " DATA " --random-weights -t 1",
        "predict mlp.bin --data image=images.idx --random-weights -o o.npy -t 1",
        "bench mlp.bin --batch 4 --steps 1 --warmup 0 -t 1",
        "trace mlp.bin --batch 4 --steps 1 --warmup 0 -o o.json -t 1"};
    make_data();
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        for (int mib = 60; mib <= 240; mib += test_is_quick() ? 90 : 30) {
            int status = run("ulimit -v %d; graphtool %s", mib << 10, commands[i]);
            char *err = read_all("err");
            bool is_told = status == 2 && strstr(err, "graphtool: ") == err && strstr(err, "memory");
            CHECK_SAYS(status == 0 || is_told || !starts_with(mib << 10), "%s with %d MiB: %d, %s",
                       commands[i], mib, status, err);
            free(err);
        }
    int little = starting_kib() + 73000, enough = little + 130000;
    refuses(run("ulimit -v %d; graphtool train mlp.bin " DATA " --batch 10 -t 1", little),
            "mlp.bin: model mlp with batch 10 needs ");
    ends(run("ulimit -v %d; graphtool train mlp.bin " DATA " --batch 10 -t 1", enough), 0);
    ends(run("ulimit -v %d; graphtool train mlp.bin " DATA " --batch 10 -t 1 --steps 2 --no-memory-check",
             little),
         0);
#endif
}

/* What would fit at a limit of so many KiB; "" where nothing would, or all does. */
static void way_out(int kib, const char *command, char *options, size_t room) {
    *options = 0;
    if (run("ulimit -v %d; graphtool %s", kib, command) == 0) return;
    char *err = read_all("err"), *way = strstr(err, ", --batch ");
    if (way) snprintf(options, room, "%.*s", (int)strcspn(way + 2, "("), way + 2);
    free(err);
}

/* With more memory than a plan alone takes and less than batches and all that a trainer keeps beside it. */
TEST(what_would_fit_fits_at_every_limit) {
#ifndef __SANITIZE_ADDRESS__
    int told = 0;
    NEED(make_model("mlp"));
    for (int kib = 240000; kib <= 360000; kib += test_is_quick() ? 60000 : 16000) {
        char options[80];
        way_out(kib, "bench mlp.bin --steps 1 --warmup 0 -t 1 --batch 20000", options, sizeof options);
        if (!*options) continue;
        told++;
        CHECK_SAYS(run("ulimit -v %d; graphtool bench mlp.bin --steps 1 --warmup 0 -t 1 %s", kib, options) ==
                       0,
                   "%d KiB: %s", kib, options);
    }
    CHECK(told >= (test_is_quick() ? 1 : 4));
#endif
}

TEST(a_small_stack_is_told) {
    NEED(make_model("mlp"));
    refuses(run("ulimit -s 64; graphtool plan mlp.bin"),
            "the stack may have 64 KiB (ulimit -s), and 256 are needed");
#ifndef __SANITIZE_ADDRESS__ /* whose frames are larger */
    ends(run("ulimit -s 256; graphtool bench mlp.bin --steps 1 --warmup 0 -t 2 --batch 4"), 0);
#endif
}

/* What would fit is said in options, and does; batches are made after the question. */
TEST(what_does_not_fit_is_told_in_options) {
#ifndef __SANITIZE_ADDRESS__
    NEED(make_model("mlp"));
    for (int i = test_is_quick(); i < 2; i++) {
        const char *command = i ? "trace mlp.bin --steps 1 --warmup 0 -t 1 -o o.json"
                                : "bench mlp.bin --steps 1 --warmup 0 -t 1";
        refuses(run("ulimit -v 440000; graphtool %s --batch 60000", command),
                "graphtool: mlp.bin: model mlp with batch 60000 needs ");
        char *err = read_all("err"), *way = strstr(err, ", --batch "), options[80] = "";
        CHECK_HOLDS(err, "; it would fit with --batch ");
        CHECK_HOLDS(err, "; --no-memory-check runs all the same\n");
        if (CHECK(way != NULL))
            snprintf(options, sizeof options, "%.*s", (int)strcspn(way + 2, "("), way + 2);
        CHECK_HOLDS(options, " --accumulate ");
        ends(run("ulimit -v 440000; graphtool %s %s", command, options), 0);
        free(err);
        refuses(run("ulimit -v 1250000; graphtool %s --batch 60000", command),
                "synthetic batches 494.1 MiB, ");
    }
    make_data();
    refuses(run("ulimit -v %d; graphtool train mlp.bin " DATA " --batch 10 -t 1", starting_kib() + 73000),
            "--no-memory-check runs");
#endif
}

/* Any one allocation fails: all of the output, or an error. (Graphviz crashes when memory is out.) */
TEST(no_output_lacks_a_part_for_want_of_memory) {
#ifdef FAIL_MALLOC
    static const struct {
        const char *command;
        bool may_crash;
    } cases[] = {
        {"info --json mlp.bin", false},
        {"dot mlp.bin", true},
        {"view mlp.bin --isa reference -o -", false},
        {"diff mlp.bin --against --batch=9 --view=program --isa reference; s=$?; test $s != 1 || exit 0; "
         "exit $s",
         false}};
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int refused = 0;
        ends(run("graphtool %s", cases[i].command), 0);
        char *whole = read_all("out");
        for (int n = 1; n < 800; n += (i ? 2 : 7) * (test_is_quick() ? 3 : 1)) {
            int status = run("FAIL_AT=%d LD_PRELOAD=%s graphtool %s", n, FAIL_MALLOC, cases[i].command);
            char *out = read_all("out");
            CHECK_SAYS(status || strcmp(out, whole) == 0, "%s without allocation %d lacks a part",
                       cases[i].command, n);
            CHECK_SAYS(status == 0 || status == 2 || cases[i].may_crash, "%s: %d", cases[i].command, status);
            refused += status == 2;
            free(out);
            if (i && n > 300) break;
        }
        CHECK_SAYS(refused > (test_is_quick() ? 0 : 3), "%s: %d refused", cases[i].command, refused);
        free(whole);
    }
#endif
}

TEST(a_full_standard_output_is_an_error_of_every_command) {
    static const char *const commands[] = {
        "graphtool --version",
        "graphtool --help",
        "graphtool plan --help",
        "graphtool info mlp.bin",
        "graphtool info mlp.bin --json",
        "graphtool plan mlp.bin",
        "graphtool diff mlp.bin mlp.bin",
        "graphtool dot mlp.bin",
        "graphtool ops",
        "graphtool verify mlp.bin",
        "graphtool verify mlp.bin --json",
        "graphtool train mlp.bin " DATA " --batch 10",
        "graphtool eval mlp.bin " DATA " --random-weights",
        "graphtool bench mlp.bin --batch 4 --steps 1 --warmup 0",
        "graphtool trace mlp.bin --batch 4 --steps 1 --warmup 0 -o trace.json",
        "weft-zoo --help",
        "weft-zoo --list"};
    make_data();
    NEED(make_model("mlp"));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int status = run("%s >/dev/full", commands[i]);
        char *err = read_all("err");
        CHECK_SAYS(status == 2, "%s: exit %d", commands[i], status);
        CHECK_HOLDS(err, "standard output: writing failed");
        free(err);
        CHECK_SAYS(run("%s >&-", commands[i]) == 2, "%s with a closed standard output", commands[i]);
    }
}

/* ---- bytes that a terminal obeys ---- */

/* The position of the first byte that must not reach a terminal, C1 controls and invalid UTF-8 included; -1:
 * none. */
static long bad_byte(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        int more = *p < 0x80                 ? 0
                   : *p >= 0xc2 && *p < 0xe0 ? 1
                   : *p >= 0xe0 && *p < 0xf0 ? 2
                   : *p >= 0xf0              ? 3
                                             : -1;
        bool good = more >= 0 && (*p >= 0x20 || *p == '\n' || *p == '\t') && *p != 0x7f;
        if (*p == 0xc2 && p[1] < 0xa0) good = false;
        for (int i = 1; i <= more; i++) good = good && (p[i] & 0xc0) == 0x80;
        if (!good) return (long)(p - (const unsigned char *)text);
        p += more;
    }
    return -1;
}

static void check_clean(const char *command) {
    static const char *const streams[] = {"out", "err"};
    for (int i = 0; i < 2; i++) {
        char *text = read_all(streams[i]);
        long at = text ? bad_byte(text) : -1;
        CHECK_SAYS(at < 0, "%s: byte %ld of std%s is 0x%02x", command, at, streams[i],
                   at < 0 ? 0 : (unsigned char)text[at]);
        free(text);
    }
}

TEST(no_terminal_obeys_a_name_or_a_file) {
    static const char *const commands[] = {
        "graphtool $H",
        "graphtool info $H",
        "graphtool info $H.bin", /* there, and a good model */
        "graphtool info $H.bin --json",
        "graphtool info mlp.bin --$H",
        "graphtool plan mlp.bin --graph=$H",
        "graphtool plan mlp.bin --after=$H",
        "graphtool plan mlp.bin --isa=$H",
        "graphtool plan mlp.bin --batch=$H",
        "graphtool plan mlp.bin --ddp=$H:zero=1",
        "graphtool plan mlp.bin --ddp=:$H=1",
        "graphtool plan mlp.bin -o $H/no",
        "graphtool diff mlp.bin $H",
        "graphtool diff mlp.bin $H.bin --against --threads=3",
        "graphtool diff mlp.bin --against --$H=1",
        "graphtool dot mlp.bin -T $H",
        "graphtool dot mlp.bin --graph $H",
        "graphtool verify $H.bin",
        "graphtool verify mlp.bin --graph $H --json",
        "graphtool eval mlp.bin --weights $H --data image=images.idx --data label=labels.idx",
        "graphtool eval mlp.bin --data $H=images.idx --random-weights",
        "graphtool predict mlp.bin --random-weights --fetch $H --data image=images.idx -o x.npy",
        "graphtool predict mlp.bin --random-weights --grid $H --data image=images.idx -o x.png",
        "graphtool train mlp.bin --data image=$H --data label=labels.idx",
        "graphtool train mlp.bin --data image=images.idx --data label=labels.idx --batch 10 --steps 1 --log "
        "$H.log -o $H.st",
        "graphtool train mlp.bin --data image=images.idx --data label=labels.idx --batch 10 --steps 1 "
        "--weights bad.st",
        "graphtool trace mlp.bin --batch 4 --steps 1 --warmup 0 -o $H.json",
        "graphtool bench mlp.bin --launcher $H",
        "graphtool info bad.bin",
        "weft-zoo $H",
        "weft-zoo mlp --$H",
        "weft-zoo mlp --batch=$H",
        "weft-zoo mlp -o $H/no",
    };
    make_data();
    NEED(make_model("mlp"));
    const char *hostile = "H=$(printf 'x\\033[31m\\302\\233\\377\\177\\342\\200\\256\\tz')";
    ends(run("%s; cp mlp.bin \"$H.bin\"; printf "
             "'\\rWEFT\\020\\001\\032\\005a\\033[1mb\"\\003n\\033\\377\\050\\001' >bad.bin; "
             "printf "
             "'\\060\\000\\000\\000\\000\\000\\000\\000{\"x\\033[31m\\377\":{\"dtype\":\"F32\",\"shape\":[],"
             "\"data_offsets\":[0,4]}}abcd' "
             ">bad.st",
             hostile),
         0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char quoted[400], *to = quoted; /* $H as one word */
        for (const char *p = commands[i]; *p && to < quoted + sizeof quoted - 8; p++) {
            if (p[0] == '$' && p[1] == 'H') {
                to += sprintf(to, "\"$H\"");
                p++;
            } else {
                *to++ = *p;
            }
        }
        *to = 0;
        run("%s; %s", hostile, quoted);
        check_clean(commands[i]);
    }
}

SUITE("tools: files",
      {T(links_and_pipes_are_written_through), T(inputs_are_never_overwritten),
       T(no_option_for_an_output_takes_what_another_option_names),
       T(no_output_takes_a_name_that_follows_from_another), T(outputs_are_tried_before_the_training),
       T(a_reader_that_leaves_ends_no_training), T(an_interrupted_training_has_its_status_without_a_reader),
       T(a_log_that_fails_costs_no_weights), T(files_past_their_limit_are_errors_of_writing),
       T(a_small_stack_is_told), T(what_would_fit_fits_at_every_limit),
       T(what_does_not_fit_is_told_in_options), T(every_command_tells_that_memory_is_too_small),
       T(no_output_lacks_a_part_for_want_of_memory), T(a_full_standard_output_is_an_error_of_every_command),
       T(no_terminal_obeys_a_name_or_a_file)})
