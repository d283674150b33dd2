/* test_guard.c - bad steps (weft_compile_options.guard): a training that meets one, on any rank, in any
 * micro-batch, ends with the bits of the training that never saw it; the report names the node. */
#include "support/models/guarded.h"
#include "tools/graphtool/model/replayed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(a_training_ends_with_the_bits_of_one_that_never_saw_its_bad_steps) {
    static const weft_optimizer optimizers[] = {
        {.type = "sgd", .lr = 0.1, .momentum = 0.9},
        {.type = "adam", .lr = 0.01, .clip_norm = 0.1, .schedule = {{WEFT_SCHEDULE_STEP, .period = 2}}},
        {.type = "lamb", .lr = 0.01, .ema = 0.9, .ema_buffers = true},
        {.type = "rmsprop", .lr = 0.01, .clip_value = 0.1},
        {.type = "nadam", .lr = 0.01},
    };
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3, .isa = WEFT_ISA_REFERENCE},
        {.accumulate = 2, .manual = true},
        {.world = 2, .accumulate = 1},
        {.world = 2, .accumulate = 2, .zero = 1},
        {.world = 2, .accumulate = 1, .zero = 2},
        {.world = 2, .accumulate = 2, .manual = true, .zero = 2},
        {.world = 4, .accumulate = 1, .zero = 1, .shard = WEFT_SHARD_FLAT},
        {.world = 4, .accumulate = 2, .serial = true},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        weft_model *m = guarded_gan(&optimizers[i]);
        for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
            world_job job = {.model = m, .options = worlds[w], .steps = 3};
            if (job.options.shard && i == 2) continue; /* lamb cannot be cut */
            if (test_is_quick() && (w + i) % 3) continue;
            if (i % 2 == w % 2) job.options.guard = WEFT_GUARD_GRAD;
            guarded_job(job, optimizers[i].type);
            n++;
        }
        weft_model_free(m);
    }
    printf("guard: %d worlds\n", n);
}

TEST(a_rank_without_memory_for_the_report_leaves_no_other_waiting) {
    guarded_memory();
}

/* ---- what is found ---- */

TEST(the_node_that_made_it_is_named) {
    guarded_nodes(WEFT_DEVICE_CPU);
}

static const char *bad_path(void) {
    static char path[80];
    snprintf(path, sizeof path, "/tmp/weft_guard.%ld.step", (long)getpid());
    return path;
}

/* Nobody waits for the rank that has it. */
TEST(a_wrong_id_or_label_is_a_bad_step_on_all_ranks) {
    guarded_labels(WEFT_DEVICE_CPU, bad_path());
}

TEST(the_rank_that_made_a_loss_of_all_ranks_bad_is_named) {
    guarded_synchronized(WEFT_DEVICE_CPU);
}

TEST(a_spike_is_bad_once_there_is_a_mean) {
    guarded_spike(WEFT_DEVICE_CPU);
}

TEST(spikes_are_the_same_in_every_world) {
    guarded_spikes(WEFT_DEVICE_CPU);
}

TEST(a_spike_is_judged_by_its_own_losses_mean) {
    guarded_shared(WEFT_DEVICE_CPU);
}

/* The loss scale at the end of a job's training. */
static double last_scale(world_job job) {
    double scale = 0;
    job.run = guarded_train;
    world_rank *r = world_run(&job);
    for (int p = 0; p < r->n_parts; p++)
        if (strstr(r->parts[p].path, "optimizer.other/") && strstr(r->parts[p].path, "/loss_scale"))
            memcpy(&scale, r->parts[p].data, sizeof scale);
    world_free(r);
    return scale;
}

/* From a loss scale of 2^100 the gradients of each step overflow on all ranks, which halves it. From 2^4 none
 * do, but those of a bad loss are not numbers either, and must not move it. */
TEST(gradients_that_overflow_in_f16_are_no_bad_step) {
    static const weft_compile_options worlds[] = {{.world = 2, .accumulate = 1},
                                                  {.world = 2, .accumulate = 2, .zero = 2}};
    for (int i = 0; i < 4; i++) {
        double first = i / 2 ? 0x1p100 : 0x1p4, last;
        weft_model *m = guarded_gan(&(weft_optimizer){.type = "adam", .lr = 0.01, .loss_scale = first});
        world_job job = {.model = m, .options = worlds[i % 2], .steps = 3};
        job.options.precision = WEFT_F16;
        last = last_scale(job);
        CHECK_SAYS(first < 0x1p100 ? last == first : last == first / 8, "%a became %a", first, last);
        guarded_job(job, first < 0x1p100 ? "f16" : "f16 that overflows");
        job.options.guard = WEFT_GUARD_GRAD;
        guarded_job(job, "f16, guard=grad");
        weft_model_free(m);
    }
}

/* Ranks of two groups would judge other gradients. */
TEST(guarded_gradients_of_process_groups_are_refused) {
    weft_model *m = guarded_gan(&(weft_optimizer){.type = "sgd", .lr = 0.1});
    weft_compile_options options = {.world = 2, .guard = WEFT_GUARD_GRAD};
    weft_error error = {0};
    CHECK(weft_model_set_ddp(m, "judge", &(weft_ddp_options){.process_group = "0;1"}) == WEFT_OK);
    weft_plan *plan = weft_compile(m, &options, &error);
    CHECK_SAYS(!plan && error.status == WEFT_UNSUPPORTED &&
                   strstr(error.text, "but judge has process groups"),
               "%s", error.text);
    weft_plan_free(plan);
    options.guard = WEFT_GUARD_SPIKE;
    plan = weft_compile(m, &options, &error);
    CHECK_SAYS(plan != NULL, "%s", error.text);
    weft_plan_free(plan);
    weft_model_free(m);
}

/* ---- bad.step ---- */

TEST(a_saved_step_is_bad_with_the_same_bits_on_one_machine) {
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3, .precision = WEFT_BF16},
        {.accumulate = 2, .manual = true},
        {.world = 2, .accumulate = 1, .zero = 1},
        {.world = 4, .accumulate = 2, .zero = 2},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) guarded_replay(&worlds[i], bad_path());
    remove(bad_path());
}

/* The error where the plan is another one; the text is the test's until the next call. */
static const char *told_of(replayed *r) {
    static weft_error error;
    char *report = replayed_run(r, &error);
    CHECK(!report && error.status == WEFT_FILE);
    free(report);
    return error.text;
}

static const char *made_by(const char *library) {
    static char text[200];
    snprintf(text, sizeof text, ": its plan is another one: it was made by Weft %s%s; this is Weft %s",
             weft_version(), library, weft_version());
    return text;
}

TEST(a_plan_that_another_library_made_is_told_with_both) {
    weft_error error = {0};
    replayed r;
    char longer[2100];
    free(guarded_save(&(weft_compile_options){.accumulate = 1}, bad_path()));
    CHECK_SAYS(replayed_open(&r, bad_path(), &error), "%s", error.text);
    replayed_library here = r.library;
    CHECK(*here.version && *here.isa && *here.implementations);
    r.plan ^= 1;
    r.library = (replayed_library){"", "", ""};
    CHECK_HOLDS(told_of(&r), made_by(" (its oneDNN is not known)"));
    r.library = (replayed_library){"unused", "unused", "unused"};
    CHECK_HOLDS(told_of(&r), made_by(" without oneDNN"));
    r.library = (replayed_library){"1.2.3", "some_isa", "some:a,some:b"};
    CHECK_HOLDS(told_of(&r), made_by(" with oneDNN 1.2.3 for some_isa (some:a,some:b)"));
    /* of lists that are long and alike what differs is reported */
    snprintf(longer, sizeof longer, "%.2000s,some:c", here.implementations);
    r.library.implementations = longer;
    CHECK_HOLDS(told_of(&r), made_by(" with oneDNN 1.2.3 for some_isa (some:c)"));
    replayed_close(&r);
    remove(bad_path());
}

static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    char *data = malloc(1 << 20);
    *bytes = f && data ? fread(data, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return data;
}

static void write_file(const char *path, const char *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, bytes, f) == bytes);
    if (f) fclose(f);
}

/* The error is one sentence, which names the file first and says what it may be. */
static void check_refused(size_t number) {
    weft_error error = {0};
    replayed r;
    bool is_open = replayed_open(&r, bad_path(), &error);
    const char *what = error.text + (is_open ? 0 : strlen(bad_path()));
    CHECK_SAYS(!is_open && error.status && strstr(error.text, bad_path()) == error.text &&
                   (strstr(what, ": it is not a bad.step, or was cut or damaged: ") == what ||
                    strstr(what, ": it is damaged: ") == what),
               "%zu: %s", number, error.text);
    replayed_close(&r);
}

static void put_byte(FILE *f, size_t at, char byte) {
    CHECK(fseek(f, (long)at, SEEK_SET) == 0 && fputc((unsigned char)byte, f) != EOF && fflush(f) == 0);
}

/* Each byte of it, one after the other; in short runs one of seven. */
static void change_each(const char *good, size_t bytes) {
    FILE *f = fopen(bad_path(), "r+b");
    NEED(f != NULL);
    for (size_t i = 0; i < bytes; i += test_is_quick() ? 7 : 1) {
        put_byte(f, i, (char)(good[i] ^ (1 << i % 8)));
        check_refused(i);
        put_byte(f, i, good[i]);
    }
    fclose(f);
}

TEST(damaged_files_are_refused) {
    enum { CUT = 300 };
    test_random random = {11};
    size_t bytes;
    free(guarded_save(&(weft_compile_options){.world = 2, .accumulate = 1}, bad_path()));
    char *good = read_file(bad_path(), &bytes), *bad = malloc(bytes + 1);
    NEED(good && bad && bytes > 1000);
    change_each(good, bytes);
    for (size_t i = 0; i < CUT; i++) {
        size_t n = i % 2 ? bytes : random_bits(&random) % bytes;
        memcpy(bad, good, bytes);
        for (size_t k = 0; k < 2 + i % 3; k++) bad[random_bits(&random) % bytes] ^= 1;
        if (n == bytes && memcmp(bad, good, n) == 0) continue; /* a byte was changed back */
        write_file(bad_path(), bad, n);
        check_refused(bytes + i);
    }
    for (size_t n = 0; n < 3; n++) {
        static const char *const others[] = {"", "\x93NUMPY\1\0 an array", "text\n"};
        write_file(bad_path(), others[n], strlen(others[n]));
        check_refused(n);
    }
    printf("bad.step: %zu bytes, each changed; %d files cut or changed more\n", bytes, CUT);
    free(good);
    free(bad);
    remove(bad_path());
}

SUITE("guard",
      {T(a_training_ends_with_the_bits_of_one_that_never_saw_its_bad_steps),
       T(the_node_that_made_it_is_named), T(a_wrong_id_or_label_is_a_bad_step_on_all_ranks),
       T(gradients_that_overflow_in_f16_are_no_bad_step), T(guarded_gradients_of_process_groups_are_refused),
       T(the_rank_that_made_a_loss_of_all_ranks_bad_is_named), T(a_spike_is_bad_once_there_is_a_mean),
       T(spikes_are_the_same_in_every_world), T(a_spike_is_judged_by_its_own_losses_mean),
       T(a_rank_without_memory_for_the_report_leaves_no_other_waiting),
       T(a_saved_step_is_bad_with_the_same_bits_on_one_machine),
       T(a_plan_that_another_library_made_is_told_with_both), T(damaged_files_are_refused)})
