/* test_room.c - what will not fit is reported before it is allocated: what is free by the files of a machine
 * that a folder plays, the error of a plan that is too large, and that each way out that is named is true. */
#include "examples/zoo.h"
#include "runtime/store/room.h"
#include "support/faults.h"
#include "support/folder.h"
#include "support/test.h"
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is free ---- */

static char root[40];

/* A file of the machine; its folders are made. */
static void put(const char *path, const char *text) {
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(whole, 0777);
        *at = '/';
    }
    FILE *f = fopen(whole, "w");
    NEED(f != NULL);
    fputs(text, f);
    fclose(f);
}

static void begin_machine(void) {
    strcpy(root, "/tmp/weft_roomXXXXXX");
    NEED(mkdtemp(root));
    put("/proc/meminfo", "MemTotal:  900000 kB\nMemFree: 1 kB\nMemAvailable:    800000 kB\nCached: 5 kB\n");
}

static void is_free(int ranks, double kib, const char *by) {
    room r = room_at(root, ranks, 1);
    CHECK_SAYS((double)r.bytes == 1024 * kib, "%.1f KiB by %s, not %.1f by %s", (double)r.bytes / 1024, r.by,
               kib, by);
    CHECK_TEXT(r.by, by);
}

TEST(the_machine_has_what_is_available) {
    begin_machine();
    is_free(1, 800000, "this machine");
    is_free(4, 200000, "this machine");
    remove_tree(root);
    CHECK(room_at(root, 1, 1).bytes == UINT64_MAX); /* nothing says */
}

TEST(a_control_group_and_those_above_it_limit) {
    const char *group = "/sys/fs/cgroup/a/b/memory";
    char path[100];
    begin_machine();
    put("/proc/self/cgroup", "0::/a/b\n");
    snprintf(path, sizeof path, "%s.max", group);
    put(path, "max\n");
    is_free(1, 800000, "this machine");
    put(path, "614400000\n"); /* 600,000 KiB, of which 100,000 are used, 30,000 + 20,000 of them caches */
    put("/sys/fs/cgroup/a/b/memory.current", "102400000\n");
    put("/sys/fs/cgroup/a/b/memory.stat", "anon 51200000\ninactive_file 30720000\nactive_file 20480000\n");
    is_free(1, 550000, "control group /a/b");
    is_free(2, 275000, "control group /a/b");
    put("/sys/fs/cgroup/a/memory.max", "409600000\n");
    put("/sys/fs/cgroup/a/memory.current", "204800000\n");
    is_free(1, 200000, "control group /a");
    put("/sys/fs/cgroup/a/memory.current", "999999999\n"); /* above its limit */
    is_free(1, 0, "control group /a");
    remove_tree(root);
}

TEST(the_first_version_of_control_groups_is_read_too) {
    begin_machine();
    put("/proc/self/cgroup", "7:pids:/x\n4:cpu,memory:/docker/12ab\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
    is_free(1, 800000, "this machine");
    /* in a container the group is the root of what is mounted */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "102400000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "51200000\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 10240000\ntotal_active_file 0\n");
    is_free(1, 60000, "control group /");
    put("/sys/fs/cgroup/memory/docker/12ab/memory.limit_in_bytes", "61440000\n");
    put("/sys/fs/cgroup/memory/docker/12ab/memory.usage_in_bytes", "0\n");
    is_free(1, 60000, "control group /docker/12ab");
    remove_tree(root);
}

/* ---- the error of a plan ---- */

static uint64_t left;

static uint64_t tell_left(void *context) {
    (void)context;
    return left;
}

static weft_model *build(const char *name, const weft_env *env) {
    zoo_options o = ZOO_DEFAULTS;
    weft_model *m = weft_model_new_in(name, env);
    weft_model_set_batch(m, 64);
    for (int i = 0; i < ZOO_MODELS; i++)
        if (strcmp(zoo_models[i].name, name) == 0) zoo_models[i].build(m, &o);
    return m;
}

static uint64_t total(const weft_model *m, const weft_compile_options *how) {
    weft_error error = {0};
    weft_plan *plan = weft_compile(m, how, &error);
    uint64_t bytes = weft_plan_memory(plan).total;
    CHECK_SAYS(plan != NULL, "%s", error.text);
    weft_plan_free(plan);
    return bytes;
}

/* "9.2 GiB" as bytes, with its last digit's doubt. */
static bool is_about(const char *text, uint64_t bytes) {
    char unit[8];
    double value;
    if (sscanf(text, "%lf %7[A-Za-z]", &value, unit) != 2) return false;
    double one = strcmp(unit, "GiB") == 0 ? 1 << 30 : strcmp(unit, "MiB") == 0 ? 1 << 20 : 1024;
    return value * one > (double)bytes - one * 0.051 && value * one < (double)bytes + one * 0.051;
}

/* The way out "NAME (BYTES)" is named, with the bytes of a plan that fits. */
static void is_way(const weft_model *m, const char *text, const char *name, weft_compile_options how) {
    char mark[100];
    snprintf(mark, sizeof mark, " %s (", name);
    uint64_t bytes = total(m, &how);
    const char *at = strstr(text, mark);
    CHECK_SAYS(at && is_about(at + strlen(mark), bytes), "%s with %llu bytes is not in: %s", name,
               (unsigned long long)bytes, text);
    CHECK(bytes <= left);
}

static weft_error fits(const weft_model *m, weft_compile_options how, weft_fit_options of) {
    weft_error error = {0}, none = {0};
    weft_plan *plan = weft_compile(m, &how, &none);
    of.model = m;
    of.compile = &how;
    weft_plan_fits(plan, &of, &error);
    weft_plan_free(plan);
    return error;
}

TEST(what_would_fit_is_compiled) {
    faults f;
    faults_init(&f);
    f.allocator.room = tell_left;
    weft_model *m = build("gpt", &f.env);
    const weft_compile_options how = {.threads = 1}, half = {.threads = 1, .batch = 32};
    uint64_t whole = total(m, &how);
    left = whole;
    CHECK_TEXT(fits(m, how, (weft_fit_options){0}).text, "");
    left = whole - 1;
    weft_error e = fits(m, how, (weft_fit_options){0});
    CHECK(e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, "model gpt with batch 64 needs ");
    CHECK(is_about(e.text + strlen("model gpt with batch 64 needs "), whole));
    CHECK_HOLDS(e.text, "are free (the program's allocator)");
    CHECK_HOLDS(e.text, "activations");
    CHECK_HOLDS(e.text, "(the largest: ");
    CHECK_HOLDS(e.text, "parameters");
    is_way(m, e.text, "batch=32", half);
    is_way(m, e.text, "batch=32 accumulate=2",
           (weft_compile_options){.threads = 1, .batch = 32, .accumulate = 2});
    is_way(m, e.text, "bf16", (weft_compile_options){.threads = 1, .precision = WEFT_BF16});
    left = total(m, &half) - 1; /* then a quarter does */
    e = fits(m, how, (weft_fit_options){0});
    CHECK(!strstr(e.text, "batch=32 "));
    is_way(m, e.text, "batch=16", (weft_compile_options){.threads = 1, .batch = 16});
    weft_fit_options data = {.more_per_sample = 1 << 20}; /* 64 MiB, and 32 MiB of half a batch */
    left = whole + (64 << 20);
    CHECK_TEXT(fits(m, how, data).text, "");
    left = total(m, &half) + (32 << 20);
    e = fits(m, how, data);
    CHECK_HOLDS(e.text, "batch=32 (");
    left--;
    e = fits(m, how, data);
    CHECK(!strstr(e.text, "batch=32 "));
    left = 1000;
    e = fits(m, how, (weft_fit_options){0});
    CHECK_HOLDS(e.text, "no smaller batch, ZeRO stage or bf16 alone makes it fit (batch=1 needs ");
    weft_compile_options any = how;
    any.no_memory_check = true;
    CHECK_TEXT(fits(m, any, (weft_fit_options){0}).text, "");
    weft_model_free(m);
    faults_end(&f);
}

TEST(a_world_is_offered_zero) {
    faults f;
    faults_init(&f);
    f.allocator.room = tell_left;
    weft_model *m = build("mlp", &f.env);
    weft_compile_options how = {.threads = 1, .world = 4}, zero = {.threads = 1, .world = 4, .zero = 1};
    left = total(m, &how) - 1;
    weft_error e = fits(m, how, (weft_fit_options){.local_world = 4});
    CHECK_HOLDS(e.text, "for each of 4 ranks here");
    is_way(m, e.text, "zero=1", zero);
    left = total(m, &how);
    e = fits(m, how, (weft_fit_options){.more = 1});
    CHECK(e.status == WEFT_MEMORY);
    weft_model_free(m);
    faults_end(&f);
}

/* Each word is the caller's, and those that he leaves out are C's. */
TEST(a_user_reads_words_of_his_own) {
    faults f;
    faults_init(&f);
    f.allocator.room = tell_left;
    const weft_fit_words words = {"-b ", "-a ", "-z ", "--half", "--try"};
    const weft_compile_options alone = {.threads = 1};
    weft_model *m = build("gpt", &f.env);
    left = total(m, &alone) - 1;
    weft_error e = fits(m, alone, (weft_fit_options){.words = &words});
    is_way(m, e.text, "-b 32", (weft_compile_options){.threads = 1, .batch = 32});
    is_way(m, e.text, "-b 32 -a 2", (weft_compile_options){.threads = 1, .batch = 32, .accumulate = 2});
    is_way(m, e.text, "--half", (weft_compile_options){.threads = 1, .precision = WEFT_BF16});
    CHECK_HOLDS(e.text, "; --try runs all the same");
    CHECK(!strchr(e.text, '='));
    left = 1000;
    e = fits(m, alone, (weft_fit_options){.words = &words, .more = 1 << 30, .more_name = "pictures"});
    CHECK_HOLDS(e.text, " makes it fit (-b 1 needs ");
    CHECK_HOLDS(e.text, "pictures 1.0 GiB");
    weft_model_free(m);
    m = build("mlp", &f.env);
    const weft_compile_options how = {.threads = 1, .world = 4};
    left = total(m, &how) - 1;
    e = fits(m, how, (weft_fit_options){.words = &(weft_fit_words){.zero = "-z "}});
    CHECK_HOLDS(e.text, " batch=32 (");
    CHECK_HOLDS(e.text, " -z 1 (");
    CHECK_HOLDS(e.text, "; no_memory_check runs all the same");
    weft_model_free(m);
    faults_end(&f);
}

/* ---- who asks ---- */

static weft_status read_zeroes(void *context, int64_t i, void *const *into, weft_error *error) {
    (void)context, (void)i, (void)error;
    memset(into[0], 0, 28 * 28);
    memset(into[1], 0, 1);
    return WEFT_OK;
}

static const weft_source nothing = {.count = 64,
                                    .n = 2,
                                    .arrays = {{"image", WEFT_U8, 2, {28, 28}}, {"label", WEFT_U8, 0, {0}}},
                                    .read = read_zeroes};

TEST(nothing_large_is_allocated_where_it_would_not_fit) {
    faults f;
    faults_init(&f);
    f.allocator.room = tell_left;
    weft_error e = {0};
    weft_model *m = build("convnet", &f.env);
    weft_plan *plan = weft_compile(m, &(weft_compile_options){.threads = 1}, &e);
    uint64_t whole = weft_plan_memory(plan).total, arena = weft_plan_memory(plan).activations;
    f.largest = 0;
    left = whole - 1;
    CHECK(!weft_store_new(plan, 1, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, "a store and a session with batch 64 needs ");
    left = whole;
    weft_store *store = weft_store_new(plan, 1, &e);
    NEED(store != NULL);
    left = arena - 1;
    e = (weft_error){0};
    CHECK(!weft_session_open(plan, store, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, "a session with batch 64 needs ");
    left = whole - 1;
    e = (weft_error){0};
    weft_trainer_options how = {.train = {1, (const weft_source *[]){&nothing}}, .iterations = 1};
    CHECK(!weft_trainer_new(m, &how, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, "it would fit with batch=32 (");
    CHECK_SAYS(f.largest < arena, "%zu bytes at once", f.largest);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(m);
    faults_end(&f);
}

/* A trainer counts the sessions of its evaluations, and the copy of a checkpoint. */
TEST(a_trainer_counts_what_it_will_open) {
    faults f;
    faults_init(&f);
    f.allocator.room = tell_left;
    weft_error e = {0};
    weft_model *m = build("convnet", &f.env);
    left = total(m, &(weft_compile_options){.threads = 1, .flow = "train", .guard = WEFT_GUARD_NAN}) + 1000;
    weft_trainer_options how = {
        .compile = {.threads = 1}, .train = {1, (const weft_source *[]){&nothing}}, .iterations = 1};
    weft_trainer *t = weft_trainer_new(m, &how, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    weft_trainer_free(t);
    how.val = how.train;
    CHECK(!weft_trainer_new(m, &how, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, ", evaluations ");
    how.checkpoints.folder = "never_made";
    how.fit_words = &(weft_fit_words){.no_memory_check = "--try"};
    CHECK(!weft_trainer_new(m, &how, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, ", evaluations and a checkpoint's copy ");
    CHECK_HOLDS(e.text, "; --try runs all the same");
    how.val = (weft_dataset){0};
    CHECK(!weft_trainer_new(m, &how, &e) && e.status == WEFT_MEMORY);
    CHECK_HOLDS(e.text, "a checkpoint's copy ");
    CHECK(!strstr(e.text, "evaluations"));
    how.checkpoints.no_snapshot = true;
    how.checkpoints.folder = NULL;
    how.compile.no_memory_check = true;
    left = 0;
    t = weft_trainer_new(m, &how, &e);
    CHECK_SAYS(t != NULL, "%s", e.text);
    weft_trainer_free(t);
    weft_model_free(m);
    faults_end(&f);
}

SUITE("room", {T(the_machine_has_what_is_available), T(a_control_group_and_those_above_it_limit),
               T(the_first_version_of_control_groups_is_read_too), T(what_would_fit_is_compiled),
               T(a_world_is_offered_zero), T(a_user_reads_words_of_his_own),
               T(nothing_large_is_allocated_where_it_would_not_fit), T(a_trainer_counts_what_it_will_open)})
