/* test_checkpoints.c - checkpoints: training continues to the same bits in any other world; whatever is
 * damaged is found and an older one is used; a failed or killed save leaves the older ones as they were.
 * Ranks are threads; processes that are killed are forks. */
#include "support/faults.h"
#include "support/folder.h"
#include "support/test.h"
#include "support/world.h"

#include "graph/file/io_posix.h"
#include "runtime/checkpoint/checkpoint.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 4, MICROS = 4 /* a step, over all ranks */ };

/* Two subgraphs with optimizers of their own: random numbers, clipping, averages, a schedule by epochs. */
static weft_model *small_model(const weft_env *env, int width) {
    weft_model *m = weft_model_new_in("m", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){BATCH, 24});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){BATCH});
    WEFT_SCOPE(x, "net") {
        x = weft_dropout(weft_relu(weft_linear(x, width, "fc1", NULL)), 0.2);
        x = weft_batch_norm(x, "bn", NULL);
    }
    WEFT_SCOPE(x, "head") x = weft_linear(x, 3, "fc", NULL);
    weft_value *loss = weft_cross_entropy(x, y, NULL);
    weft_minimize(loss, "net",
                  &(weft_optimizer){.type = "adam", .name = "a", .lr = 1e-2, .clip_norm = 0.5, .ema = 0.9});
    weft_minimize(loss, "head",
                  &(weft_optimizer){.type = "sgd",
                                    .name = "b",
                                    .lr = 0.1,
                                    .momentum = 0.9,
                                    .schedule = {{WEFT_SCHEDULE_STEP, .period = 3, .gamma = 0.5}}});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* ---- what ranks do ---- */

typedef struct checkpoint_job {
    world_job job; /* whose context is this */
    const char *load, *save;
    const char *weights; /* a file of what is saved, written by weft_session_save */
    int64_t from, to;    /* steps */
    bool no_snapshot;
    int keep;
} checkpoint_job;

/* Checks do not belong in a rank's thread: what is wrong becomes its error. */
static bool expect(world_rank *r, bool good, const char *what) {
    if (!good && !r->error.status) {
        r->error.status = WEFT_INTERNAL;
        snprintf(r->error.text, sizeof r->error.text, "the test wants: %s", what);
    }
    return good;
}

static void train(world_rank *r, int64_t from, int64_t to) {
    const weft_compile_options *o = &r->job->options;
    int64_t world = o->world > 1 ? o->world : 1, a = o->accumulate > 1 ? o->accumulate : 1;
    for (int64_t step = from; step < to; step++)
        for (int64_t i = 0; i < a && !r->error.status; i++)
            world_micro(r, "step", (step * world + r->rank) * a + i, NULL);
}

static void load(world_rank *r, const char *folder) {
    weft_checkpoint *c = weft_checkpoint_newest(folder, NULL, r->comm, NULL, &r->error);
    if (c) {
        expect(r, weft_checkpoint_note_value(c, "test/step") == (double)weft_checkpoint_step(c), "the note");
        weft_checkpoint_load(c, r->store, &r->error);
    }
    weft_checkpoint_close(c);
}

/* Trains two steps more while the file is written, which must not change it. */
static void save(world_rank *r, const checkpoint_job *j) {
    weft_checkpoint_note notes[] = {{"test/step", (double)j->to}, {"test/never", INFINITY}};
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(
        r->session,
        &(weft_checkpoint_options){.folder = j->save, .keep = j->keep, .no_snapshot = j->no_snapshot},
        &r->error);
    if (w && j->weights) weft_session_save(r->session, j->weights, true, &r->error);
    if (w && !r->error.status) weft_checkpoint_begin(w, j->to, false, notes, 2, &r->error);
    if (w && !r->error.status) train(r, j->to, j->to + 2);
    if (w && !r->error.status) weft_checkpoint_end(w, &r->error);
    weft_checkpoint_writer_close(w);
}

static void load_train_save(world_rank *r) {
    const checkpoint_job *j = r->job->context;
    if (j->load) load(r, j->load);
    if (!r->error.status) train(r, j->from, j->to);
    if (j->save && !r->error.status) save(r, j);
}

static world_rank *run_job(checkpoint_job *j) {
    j->job.context = j;
    j->job.seed = 5;
    j->job.classes = 3;
    if (!j->job.run) j->job.run = load_train_save;
    return world_run(&j->job);
}

/* ---- folders of a folder of its own ---- */

static char top[] = "/tmp/weft_checkpoints_XXXXXX";

static const char *in_top(const char *name) {
    static _Thread_local char paths[8][128];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static int count_in(const char *path) {
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* ---- worlds ---- */

typedef struct variant {
    int world, zero;
    weft_shard shard;
    double cap;
} variant;
static const variant variants[] = {{1, 0, 0, 2e-3},
                                   {2, 0, 0, 25},
                                   {2, 1, WEFT_SHARD_GREEDY, 2e-3},
                                   {4, 2, WEFT_SHARD_FLAT, 1e-3},
                                   {2, 2, WEFT_SHARD_FLAT, 2e-3},
                                   {4, 1, WEFT_SHARD_GREEDY, 2e-3}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static world_rank *run_variant(const weft_model *m, const variant *v, checkpoint_job j) {
    j.job.model = m;
    j.job.options = (weft_compile_options){.world = v->world,
                                           .accumulate = MICROS / v->world,
                                           .zero = v->zero,
                                           .shard = v->shard,
                                           .bucket_cap_mb = v->cap};
    return run_job(&j);
}

/* A checkpoint in other files: all ranks' in one, and those of `world` ranks, which stand in its place. */
static void rewrite(const char *folder, const char *weights, int world) {
    weft_error error = {0};
    const char *other = in_top("resharded");
    weft_checkpoint *c = weft_checkpoint_find(folder, NULL, NULL, NULL, &error);
    if (!CHECK_SAYS(c != NULL, "%s", error.text)) return;
    CHECK_SAYS(!weft_checkpoint_export(c, in_top("one"), WEFT_CHECKPOINT_ALL, &error), "%s", error.text);
    CHECK(same_files(in_top("one"), weights));
    CHECK_SAYS(!weft_checkpoint_reshard(c, other, world, &error), "%s", error.text);
    CHECK(weft_checkpoint_reshard(c, other, world, &error) == WEFT_ORDER);
    CHECK_HOLDS(error.text, "it has step 4: choose another folder");
    weft_checkpoint_close(c);
    remove_tree(folder);
    CHECK(rename(other, folder) == 0);
    c = weft_checkpoint_find(folder, NULL, NULL, NULL, &error);
    CHECK(weft_checkpoint_file_at(c, world - 1, NULL, NULL) &&
          !weft_checkpoint_file_at(c, world, NULL, NULL));
    weft_checkpoint_close(c);
    remove(in_top("one"));
    remove(weights);
}

TEST(training_goes_on_in_any_world_to_the_same_bits) {
    weft_model *m = small_model(NULL, 40);
    world_rank *want = run_variant(m, &variants[0], (checkpoint_job){.to = 8});
    for (int i = 0; i < VARIANTS; i++) {
        const char *folder = in_top("worlds");
        world_free(run_variant(
            m, &variants[i],
            (checkpoint_job){
                .to = 4, .save = folder, .weights = in_top("weights"), .no_snapshot = i % 2 == 1}));
        if (i) rewrite(folder, in_top("weights"), i);
        for (int k = 0; k < VARIANTS; k++) {
            char what[100];
            if (test_is_quick() && k != (i + 1) % VARIANTS) continue;
            snprintf(what, sizeof what, "variant %d, then %d", i, k);
            world_rank *got =
                run_variant(m, &variants[k], (checkpoint_job){.load = folder, .from = 4, .to = 8});
            world_check(want, got, variants[k].world, world_trained, what);
            world_free(got);
        }
        remove_tree(folder);
    }
    world_free(want);
    weft_model_free(m);
}

/* Running statistics are each rank's own: those that are saved are of one rank, all of them. */
TEST(state_is_that_of_the_first_rank) {
    char where[300];
    weft_model *m = small_model(NULL, 40);
    const variant two = {2, 1, WEFT_SHARD_GREEDY, 2e-3};
    world_rank *want = run_variant(m, &two, (checkpoint_job){.to = 4});
    world_free(run_variant(m, &two, (checkpoint_job){.to = 4, .save = in_top("state")}));
    world_rank *got =
        run_variant(m, &variants[0], (checkpoint_job){.load = in_top("state"), .from = 4, .to = 4});
    CHECK(!world_agrees(&want[0], &want[1], world_all, where));
    CHECK_SAYS(world_agrees(got, &want[0], world_all, where), "%s", where);
    world_free(want);
    world_free(got);
    remove_tree(in_top("state"));
    weft_model_free(m);
}

/* Each process group has values of its own, and all of them come back. */
TEST(every_process_group_is_saved) {
    weft_model *m = small_model(NULL, 40);
    weft_model_set_ddp(m, "net",
                       &(weft_ddp_options){.process_group = "2-3;1,0", .zero = 1, .shard = WEFT_SHARD_FLAT});
    const variant four = {4, 1, WEFT_SHARD_FLAT, 2e-3};
    world_rank *want = run_variant(m, &four, (checkpoint_job){.to = 6});
    world_free(run_variant(m, &four, (checkpoint_job){.to = 3, .save = in_top("groups")}));
    world_rank *got = run_variant(m, &four, (checkpoint_job){.load = in_top("groups"), .from = 3, .to = 6});
    char where[300];
    for (int i = 0; i < 4; i++)
        CHECK_SAYS(world_agrees(&want[i], &got[i], world_trained, where), "rank %d: %s", i, where);
    CHECK(!world_agrees(&want[0], &got[2], world_trained, where));
    world_free(want);
    world_free(got);
    remove_tree(in_top("groups"));
    weft_model_free(m);
}

/* ---- what is on the disk ---- */

static weft_status open_newest(const char *folder, const weft_env *env, int64_t *step, weft_error *error) {
    weft_checkpoint *c = weft_checkpoint_newest(folder, NULL, NULL, env, error);
    *step = weft_checkpoint_step(c);
    weft_checkpoint_close(c);
    return c ? WEFT_OK : error->status;
}

/* One rank that saves at steps 1, 2, ... */
static weft_checkpoint_writer *writer_of(weft_session *s, const char *folder, int keep) {
    weft_error error = {0};
    weft_checkpoint_writer *w =
        weft_checkpoint_writer_open(s, &(weft_checkpoint_options){.folder = folder, .keep = keep}, &error);
    CHECK_SAYS(w != NULL, "%s", error.text);
    return w;
}

typedef struct lone {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
    weft_session *session;
} lone;

static lone lone_open(const weft_env *env, int width) {
    lone l = {.model = small_model(env, width)};
    weft_error error = {0};
    l.plan = weft_compile(l.model, &(weft_compile_options){.threads = 1}, &error);
    l.store = weft_store_new(l.plan, 5, &error);
    l.session = weft_session_open(l.plan, l.store, &error);
    CHECK_SAYS(l.session != NULL, "%s", error.text);
    return l;
}

static void lone_close(lone *l) {
    weft_session_close(l->session);
    weft_store_free(l->store);
    weft_plan_free(l->plan);
    weft_model_free(l->model);
}

static void lone_step(lone *l, int64_t number) {
    float x[BATCH * 24];
    uint8_t y[BATCH];
    weft_error error = {0};
    test_random random = {(uint64_t)number + 1};
    for (int i = 0; i < BATCH * 24; i++) x[i] = (float)random_in(&random, -1, 1);
    for (int i = 0; i < BATCH; i++) y[i] = (uint8_t)(random_bits(&random) % 3);
    weft_feed feeds[] = {{"x", x, sizeof x}, {"y", y, sizeof y}};
    CHECK_SAYS(weft_run(l->session, "step", feeds, 2, NULL, 0, &error) == WEFT_OK, "%s", error.text);
}

static weft_status lone_save(weft_checkpoint_writer *w, int64_t step, bool is_best, weft_error *error) {
    weft_checkpoint_note note = {"test/step", (double)step};
    weft_status status = weft_checkpoint_begin(w, step, is_best, &note, 1, error);
    return status ? status : weft_checkpoint_end(w, error);
}

TEST(the_newest_and_the_best_are_kept) {
    lone l = lone_open(NULL, 8);
    weft_error error = {0};
    int64_t *steps = NULL, newest;
    int n = 0;
    const char *folder = in_top("kept");
    weft_checkpoint_writer *w = writer_of(l.session, folder, 2);
    NEED(w != NULL);
    CHECK(weft_checkpoint_bytes(w, true) == weft_checkpoint_bytes(w, false));
    for (int64_t i = 1; i <= 6; i++) CHECK(lone_save(w, 10 * i, i == 2, &error) == WEFT_OK);
    CHECK(weft_checkpoint_steps(folder, NULL, &steps, &n, &error) == WEFT_OK);
    CHECK_SAYS(n == 3 && steps[0] == 20 && steps[1] == 50 && steps[2] == 60, "%d are kept", n);
    CHECK(count_in(folder) == 3);
    weft_checkpoint_steps_free(steps);
    /* a second writer would mix two trainings */
    weft_checkpoint_options again = {.folder = folder};
    CHECK(!weft_checkpoint_writer_open(l.session, &again, &error) && error.status == WEFT_ORDER);
    CHECK_HOLDS(error.text, "another training writes its checkpoints there");
    /* one that goes back counts those up to its own */
    CHECK(lone_save(w, 55, false, &error) == WEFT_OK && count_in(folder) == 4);
    CHECK(lone_save(w, 57, false, &error) == WEFT_OK && count_in(folder) == 4);
    CHECK(access(in_top("kept/step-00000060"), F_OK) == 0 && access(in_top("kept/step-00000050"), F_OK) != 0);
    /* the same step again takes its place */
    CHECK(lone_save(w, 60, false, &error) == WEFT_OK && count_in(folder) == 3);
    CHECK(weft_checkpoint_steps(in_top("nowhere"), NULL, &steps, &n, &error) == WEFT_OK && n == 0);
    weft_checkpoint_steps_free(steps);
    weft_checkpoint_writer_close(w);
    /* a kill while a step takes the place of another leaves the old one under this name alone */
    CHECK(rename(in_top("kept/step-00000060"), in_top("kept/step-00000060.old.tmp")) == 0);
    w = writer_of(l.session, folder, 2);
    CHECK(open_newest(folder, NULL, &newest, &error) == WEFT_OK && newest == 60);
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    remove_tree(folder);
}

static void check_steps(const char *folder, const weft_env *env, int n_want, const int64_t *want) {
    weft_error error = {0};
    int64_t *steps = NULL;
    int n = 0;
    CHECK(weft_checkpoint_steps(folder, env, &steps, &n, &error) == WEFT_OK);
    if (CHECK_SAYS(n == n_want, "%d steps, not %d", n, n_want))
        for (int i = 0; i < n; i++)
            CHECK_SAYS(steps[i] == want[i], "step %lld, not %lld", (long long)steps[i], (long long)want[i]);
    weft_checkpoint_steps_free(steps);
}

/* A link to a folder elsewhere, under each name that is removed: it may be left by a kill, be replaced, or be
 * pruned. The link goes, and nothing behind it does. */
TEST(a_link_in_the_folder_is_removed_and_never_followed) {
    static const char *const names[] = {"step-00000001", "step-00000009.tmp", "step-00000004.tmp",
                                        "step-00000008.old.tmp", "step-00000007.tmp"};
    lone l = lone_open(NULL, 8);
    weft_error error = {0};
    char victim[300], link[300];
    const char *folder = in_top("links");
    weft_checkpoint_writer *w = writer_of(l.session, folder, 2);
    NEED(w != NULL);
    for (int64_t i = 1; i <= 2; i++) CHECK(lone_save(w, i, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    /* step 1 is whole, on another disk; the others are a stranger's folders, and the last leads nowhere */
    snprintf(victim, sizeof victim, "%s", in_top("victim"));
    CHECK(rename(in_top("links/step-00000001"), victim) == 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(link, sizeof link, "%s/%s", folder, names[i]);
        CHECK(symlink(i == 4 ? "nowhere" : victim, link) == 0);
    }
    mkdir(in_top("links/step-00000006.tmp"), 0777);
    snprintf(link, sizeof link, "%s/step-00000006.tmp/deep", folder);
    CHECK(symlink(victim, link) == 0 && count_in(victim) == 2);
    w = writer_of(l.session, folder, 2);
    NEED(w != NULL);
    for (int64_t i = 3; i <= 6; i++) {
        snprintf(link, sizeof link, "%s/step-%08d.tmp", folder, (int)i);
        if (i < 6) CHECK(symlink(victim, link) == 0); /* what is there when that step is begun */
        CHECK_SAYS(lone_save(w, i, false, &error) == WEFT_OK, "%s", error.text);
        CHECK_SAYS(count_in(victim) == 2, "at step %d the files behind a link are gone", (int)i);
    }
    weft_checkpoint_writer_close(w);
    /* step 8 has got its own name back, as after a kill */
    check_steps(folder, NULL, 3, (int64_t[]){5, 6, 8});
    CHECK_SAYS(count_in(folder) == 3, "%d names are left", count_in(folder));
    lone_close(&l);
    remove_tree(victim);
    remove_tree(folder);
}

/* A good one never goes for a damaged one, whether an earlier run has written it or this one. */
TEST(damaged_ones_do_not_count_among_those_that_are_kept) {
    faults f;
    faults_init(&f);
    lone l = lone_open(&f.env, 2), other = lone_open(&f.env, 3);
    weft_error error = {0};
    weft_checkpoint_writer *w = writer_of(l.session, "c", 2);
    NEED(w != NULL);
    for (int64_t i = 1; i <= 3; i++) CHECK(lone_save(w, i, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 2, (int64_t[]){2, 3});
    weft_checkpoint_writer_close(w);
    fake_get(&f, "c/step-00000003/rank-0.safetensors")->data[500] ^= 1;
    w = writer_of(l.session, "c", 2);
    CHECK(lone_save(w, 4, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 3, (int64_t[]){2, 3, 4});
    CHECK(lone_save(w, 5, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 2, (int64_t[]){4, 5});
    /* of those that this run has written, a file that was cut or is gone */
    ((fake_file *)(uintptr_t)fake_get(&f, "c/step-00000005/rank-0.safetensors"))->bytes -= 1;
    CHECK(lone_save(w, 6, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 3, (int64_t[]){4, 5, 6});
    f.io.remove(&f, "c/step-00000006/manifest.json");
    CHECK(lone_save(w, 7, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 4, (int64_t[]){4, 5, 6, 7});
    CHECK(lone_save(w, 8, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 2, (int64_t[]){7, 8});
    weft_checkpoint_writer_close(w);
    /* those of another model are not this training's to remove, or to replace */
    w = writer_of(other.session, "c", 1);
    CHECK(lone_save(w, 9, false, &error) == WEFT_OK && lone_save(w, 10, false, &error) == WEFT_OK);
    check_steps("c", &f.env, 3, (int64_t[]){7, 8, 10});
    CHECK(lone_save(w, 8, false, &error) == WEFT_ORDER);
    CHECK_HOLDS(error.text, "c/step-00000008: it is a checkpoint of another model: choose another folder");
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    lone_close(&other);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

static int (*plain_open)(void *context, const char *path, void **file, uint64_t *bytes);
static int opened_early, opened_late; /* files of step 1, before step 3 is complete and after that */

static int watched_open(void *context, const char *path, void **file, uint64_t *bytes) {
    bool is_late = fake_get(context, "c/step-00000003/manifest.json") != NULL;
    if (strcmp(path, "c/step-00000001/rank-0.safetensors") == 0)
        (*(is_late ? &opened_late : &opened_early))++;
    return plain_open(context, path, file, bytes);
}

/* To read them may take minutes, in which what is new would be lost. */
TEST(a_new_one_is_complete_before_those_of_an_earlier_run_are_read) {
    faults f;
    faults_init(&f);
    plain_open = f.io.open_read;
    f.io.open_read = watched_open;
    lone l = lone_open(&f.env, 8);
    weft_error error = {0};
    weft_checkpoint_writer *w = writer_of(l.session, "c", 2);
    NEED(w != NULL);
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    w = writer_of(l.session, "c", 2);
    opened_early = opened_late = 0;
    CHECK(lone_save(w, 3, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w); /* waits for what reads */
    CHECK_SAYS(opened_late > 0, "it was not read");
    CHECK_SAYS(opened_early == 0, "it was read %d times before step 3 was complete", opened_early);
    check_steps("c", &f.env, 2, (int64_t[]){1, 3});
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* All files of a small checkpoint, each byte of them. */
TEST(a_changed_byte_is_found_wherever_it_is) {
    faults f;
    faults_init(&f);
    lone l = lone_open(&f.env, 2);
    weft_error error = {0};
    int64_t step;
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK && lone_save(w, 2, false, &error) == WEFT_OK);
    CHECK(open_newest("c", &f.env, &step, &error) == WEFT_OK && step == 2);
    static const char *const names[] = {"c/step-00000002/manifest.json",
                                        "c/step-00000002/rank-0.safetensors"};
    for (int k = 0; k < 2; k++) {
        const fake_file *file = fake_get(&f, names[k]);
        NEED(file != NULL);
        size_t stride = k && test_is_quick() ? 97 : 1;
        for (size_t i = 0; i < file->bytes; i += stride) {
            file->data[i] ^= (char)(1 << i % 8);
            bool is_older = open_newest("c", &f.env, &step, &error) == WEFT_OK && step == 1;
            file->data[i] ^= (char)(1 << i % 8);
            if (!CHECK_SAYS(is_older, "%s, byte %zu", names[k], i)) break;
        }
        for (size_t i = 0; i < file->bytes; i += 1 + file->bytes / 200) { /* cut short */
            size_t bytes = file->bytes;
            ((fake_file *)(uintptr_t)file)->bytes = i;
            bool is_older = open_newest("c", &f.env, &step, &error) == WEFT_OK && step == 1;
            ((fake_file *)(uintptr_t)file)->bytes = bytes;
            if (!CHECK_SAYS(is_older, "%s, cut at %zu", names[k], i)) break;
        }
    }
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* Two thousand places of one that is read in many pieces. */
TEST(a_changed_bit_of_a_large_one_is_found) {
    faults f;
    faults_init(&f);
    lone l = lone_open(&f.env, 60000);
    weft_error error = {0};
    test_random random = {7};
    int n = test_is_quick() ? 50 : 2000;
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK);
    weft_checkpoint *c = weft_checkpoint_open("c/step-00000001", &f.env, &error);
    const fake_file *file = fake_get(&f, "c/step-00000001/rank-0.safetensors");
    NEED(c && file);
    CHECK(file->bytes > 5 * 4 << 20 && weft_checkpoint_verify(c, &error) == WEFT_OK);
    for (int i = 0; i < n; i++) {
        size_t at = i ? (size_t)(random_bits(&random) % file->bytes) : file->bytes - 1;
        char bit = (char)(1 << i % 8);
        file->data[at] ^= bit;
        bool is_found = weft_checkpoint_verify(c, &error) == WEFT_FILE;
        file->data[at] ^= bit;
        if (!CHECK_SAYS(is_found, "byte %zu", at)) break;
    }
    weft_checkpoint_close(c);
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* Writes a number of an optimizer into a file, and a manifest whose checksums are right. */
static void forge(faults *f, const char *name, double value) {
    weft_error error = {0};
    manifest m;
    safetensors s;
    CHECK(manifest_read(&m, "c/step-00000001/manifest.json", &f->env, &error) == WEFT_OK);
    fake_file *file = (fake_file *)(uintptr_t)fake_get(f, "c/step-00000001/rank-0.safetensors");
    CHECK(safetensors_open(&s, "c/step-00000001/rank-0.safetensors", &f->env, &error) == WEFT_OK);
    const safetensors_tensor *t = safetensors_find(&s, name);
    if (CHECK(t != NULL)) memcpy(file->data + s.data_at + t->begin, &value, sizeof value);
    safetensors_close(&s);
    ((manifest_file *)(uintptr_t)m.files)[0].hash = hash_bytes(file->data, file->bytes, 0);
    CHECK(manifest_write(&m, "c/step-00000001/manifest.json", &f->env, &error) == WEFT_OK);
    arena_free(&m.arena);
}

TEST(a_number_that_breaks_its_rule_is_refused_by_name) {
    static const struct {
        const char *name;
        double bad, good;
        const char *says;
    } cases[] = {{"optimizer.a.step", 1e300, 1,
                  "optimizer.a.step is 1e+300: it must be a whole number from 0 to 2^53"},
                 {"optimizer.a.step", 0.5, 1, "optimizer.a.step is 0.5: it must be a whole number"},
                 {"optimizer.b.lr", -1, 0.1, "optimizer.b.lr is -1: a learning rate is a finite number"},
                 {"optimizer.b.lr", NAN, 0.1, "optimizer.b.lr is nan: a learning rate"},
                 {"optimizer.b.step", -3, 1, "optimizer.b.step is -3: it must be a whole number"}};
    faults f;
    faults_init(&f);
    lone l = lone_open(&f.env, 4);
    weft_error error = {0};
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forge(&f, cases[i].name, cases[i].bad);
        weft_checkpoint *c = weft_checkpoint_newest("c", NULL, NULL, &f.env, &error);
        CHECK_SAYS(c && weft_checkpoint_load(c, l.store, &error) == WEFT_FILE, "%s", error.text);
        CHECK_HOLDS(error.text, cases[i].says);
        weft_checkpoint_close(c);
        forge(&f, cases[i].name, cases[i].good);
        c = weft_checkpoint_newest("c", NULL, NULL, &f.env, &error);
        CHECK_SAYS(c && weft_checkpoint_load(c, l.store, &error) == WEFT_OK, "%s", error.text);
        weft_checkpoint_close(c);
    }
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* What a training writes at its end, without a training. */
TEST(values_and_averages_alone_are_a_file_of_weights) {
    weft_error error = {0};
    lone l = lone_open(NULL, 4);
    const char *folder = in_top("alone"), *want = in_top("want"), *got = in_top("got");
    weft_checkpoint_writer *w = writer_of(l.session, folder, 0);
    for (int64_t i = 0; i < 3; i++) lone_step(&l, i);
    NEED(w && lone_save(w, 3, false, &error) == WEFT_OK);
    weft_checkpoint *c = weft_checkpoint_find(in_top("alone/step-00000003"), NULL, NULL, NULL, &error);
    NEED(c != NULL);
    for (int averages = 0; averages < 2; averages++) {
        CHECK(weft_use_averages(l.session, averages, &error) == WEFT_OK);
        CHECK_SAYS(!weft_session_save(l.session, want, false, &error), "%s", error.text);
        CHECK(!weft_use_averages(l.session, false, &error));
        CHECK_SAYS(!weft_checkpoint_export(
                       c, got, averages ? WEFT_CHECKPOINT_AVERAGES : WEFT_CHECKPOINT_VALUES, &error),
                   "%s", error.text);
        CHECK(same_files(want, got));
    }
    CHECK(weft_checkpoint_export(c, in_top("no/such/folder"), WEFT_CHECKPOINT_ALL, &error) == WEFT_IO);
    CHECK(weft_checkpoint_export(NULL, got, WEFT_CHECKPOINT_ALL, &error) == WEFT_ARGUMENT);
    CHECK(weft_checkpoint_export(c, got, (weft_checkpoint_content)3, &error) == WEFT_ARGUMENT);
    CHECK(weft_checkpoint_reshard(c, folder, 0, &error) == WEFT_ARGUMENT);
    CHECK(weft_checkpoint_reshard(c, in_top("other"), (1 << 16) + 1, &error) == WEFT_ARGUMENT);
    CHECK(!weft_checkpoint_find(in_top("alone/step-00000004"), NULL, NULL, NULL, &error) &&
          error.status == WEFT_IO);
    weft_checkpoint_close(c);
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    remove_tree(folder);
    remove(want);
    remove(got);
}

/* ---- names ---- */

/* Names of parameters that look like other values' names: a value is what the store and the files say. */
static const struct {
    const char *scope, *name;
} odd[] = {{"fc", "w"},         {"net", "fc.w"},      {"optimizer.x", "w"}, {"optimizer", "w"},
           {"optimizer", "lr"}, {"optimizer.o", "w"}, {"o", "w"},           {"b", "o.w"},
           {"b", "w.ema"},      {"epoch", "epoch"},   {"lr", "loss_scale"}, {"bn", "num_batches_tracked"},
           {"graph", "step"},   {"w", "good_steps"},  {"optimizer", "ema"}, {"optimizer.graph", "w.step"}};
enum { ODD = sizeof odd / sizeof *odd, ODD_WIDTH = 3 };

static void odd_path(int i, char into[100]) {
    snprintf(into, 100, "%s/%s", odd[i].scope, odd[i].name);
}

static void odd_update(weft_update *u) {
    u->slots[0] = weft_add(weft_scale(u->slots[0], 0.9), u->gradient);
    u->slots[1] = weft_add(u->slots[1], weft_square(u->gradient));
    u->parameter = weft_sub(u->parameter, weft_update_scale(u->slots[0], u->lr));
}

static weft_model *odd_model(const weft_optimizer *o, const weft_slot *slots) {
    weft_model *m = weft_model_new("m");
    weft_optimizer_definition own = {.type = "own", .slots = {slots[0], slots[1]}, .build = odd_update};
    weft_define_optimizer(m, &own);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 1, (int64_t[]){ODD_WIDTH}), *sum = NULL;
    for (int i = 0; i < ODD; i++) {
        weft_value *w = NULL;
        weft_init init = {WEFT_INIT_UNIFORM, 0.5, 1};
        WEFT_SCOPE(x, odd[i].scope) w = weft_parameter(x, odd[i].name, 1, (int64_t[]){ODD_WIDTH}, init);
        w = weft_square(weft_mul(w, x));
        sum = sum ? weft_add(sum, w) : w;
    }
    weft_minimize(weft_mean(weft_dropout(sum, 0.1), WEFT_ALL, false), NULL, o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static lone odd_open(const weft_optimizer *o, const weft_slot *slots, int steps) {
    lone l = {.model = odd_model(o, slots)};
    weft_error error = {0};
    float x[ODD_WIDTH] = {1, 0.5F, -2};
    l.plan = weft_compile(l.model, &(weft_compile_options){.threads = 1}, &error);
    l.store = weft_store_new(l.plan, (uint64_t)steps, &error);
    l.session = weft_session_open(l.plan, l.store, &error);
    CHECK_SAYS(l.session != NULL, "%s: %s", o->name, error.text);
    for (int i = 0; i < steps; i++)
        CHECK(weft_run(l.session, "step", (weft_feed[]){{"x", x, sizeof x}}, 1, NULL, 0, &error) == WEFT_OK);
    return l;
}

/* Parameters in `got` are those of `want`, or their averages there. */
static void check_odd(const weft_store *want, const weft_store *got, const char *averages_of,
                      const char *what) {
    for (int i = 0; i < ODD; i++) {
        char path[100], from[300];
        float a[ODD_WIDTH], b[ODD_WIDTH];
        odd_path(i, path);
        if (averages_of)
            snprintf(from, sizeof from, "optimizer.%s/%s/ema", averages_of, path);
        else
            snprintf(from, sizeof from, "%s", path);
        CHECK(weft_store_get(want, from, a, sizeof a, NULL) == WEFT_OK);
        CHECK(weft_store_get(got, path, b, sizeof b, NULL) == WEFT_OK);
        CHECK_SAYS(memcmp(a, b, sizeof a) == 0, "%s: %s is not %s", what, path, from);
    }
}

static void check_all(const weft_store *want, const weft_store *got, const char *what) {
    weft_stored value;
    for (int i = 0; weft_store_at(want, i, &value); i++) {
        double a[2] = {0}, b[2] = {0};
        weft_dtype dtype;
        size_t bytes = weft_store_shape(want, value.path, &dtype, NULL) ? ODD_WIDTH * sizeof(float) : 8;
        CHECK(weft_store_get(want, value.path, a, bytes, NULL) == WEFT_OK);
        CHECK(weft_store_get(got, value.path, b, bytes, NULL) == WEFT_OK);
        CHECK_SAYS(memcmp(a, b, bytes) == 0, "%s: %s differs", what, value.path);
    }
}

/* What the store says: all of `odd` are parameters, each with two slots and an average. */
static void check_kinds(const weft_store *s, const char *optimizer) {
    int counts[WEFT_STORED_COUNTER + 1] = {0};
    weft_stored value;
    for (int i = 0; weft_store_at(s, i, &value); i++) {
        counts[value.kind]++;
        if (value.kind == WEFT_STORED_LR) CHECK_TEXT(value.of, optimizer);
        CHECK(!value.of == (value.kind == WEFT_STORED_PARAMETER || value.kind == WEFT_STORED_COUNTER));
    }
    CHECK(counts[WEFT_STORED_PARAMETER] == ODD && counts[WEFT_STORED_AVERAGE] == ODD);
    CHECK(counts[WEFT_STORED_SLOT] == 2 * ODD && counts[WEFT_STORED_STATE] == 0);
    CHECK(counts[WEFT_STORED_STEP] == 1 && counts[WEFT_STORED_LR] == 1 && counts[WEFT_STORED_COUNTER] == 1);
    CHECK(counts[WEFT_STORED_EPOCH] == 1 && !counts[WEFT_STORED_LOSS_SCALE] && !counts[WEFT_STORED_PRODUCT]);
    CHECK(!weft_store_at(s, -1, &value) && !weft_store_at(s, 0, NULL) && !weft_store_at(NULL, 0, &value));
}

/* All three files of a checkpoint are those of the session, and loading each gives what it must. */
static void check_files(const lone *from, const lone *into, const char *optimizer) {
    weft_error error = {0};
    const char *got = in_top("got"), *moved = in_top("moved");
    const char *want[] = {in_top("all"), in_top("values"), in_top("averages")};
    weft_checkpoint_writer *w = writer_of(from->session, in_top("odd"), 0);
    NEED(w && lone_save(w, 3, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    weft_checkpoint *c = weft_checkpoint_find(in_top("odd"), from->plan, NULL, NULL, &error);
    NEED(c && weft_checkpoint_reshard(c, moved, 3, &error) == WEFT_OK);
    weft_checkpoint *thirds = weft_checkpoint_find(moved, from->plan, NULL, NULL, &error);
    NEED(thirds != NULL);
    for (int i = 0; i < 3; i++) {
        if (i == 2) CHECK(weft_use_averages(from->session, true, &error) == WEFT_OK);
        CHECK_SAYS(!weft_session_save(from->session, want[i], i == 0, &error), "%s", error.text);
        if (i == 2) CHECK(weft_use_averages(from->session, false, &error) == WEFT_OK);
        CHECK_SAYS(!weft_checkpoint_export(c, got, (weft_checkpoint_content)i, &error), "%s", error.text);
        CHECK_SAYS(same_files(want[i], got), "%s: content %d", optimizer, i);
        CHECK_SAYS(!weft_checkpoint_export(thirds, got, (weft_checkpoint_content)i, &error), "%s",
                   error.text);
        CHECK_SAYS(same_files(want[i], got), "%s: content %d of three files", optimizer, i);
        CHECK_SAYS(weft_weights_load(into->store, want[i], NULL, NULL, &error) == WEFT_OK, "%s", error.text);
        check_odd(from->store, into->store, i == 2 ? optimizer : NULL, optimizer);
        if (i == 0) check_all(from->store, into->store, optimizer);
    }
    CHECK_SAYS(weft_checkpoint_load(c, into->store, &error) == WEFT_OK, "%s", error.text);
    check_all(from->store, into->store, optimizer);
    weft_checkpoint_close(c);
    weft_checkpoint_close(thirds);
    remove_tree(in_top("odd"));
    remove_tree(moved);
}

TEST(no_name_decides_what_a_value_is) {
    static const char *const names[] = {"net", "b", "a.w", "graph", "optimizer", "x.ema", "epoch", "o.w"};
    static const weft_slot slots[][2] = {{{"lr", 0}, {"epoch", 0}},
                                         {{"step", 0}, {"loss_scale", 0}},
                                         {{"good_steps", 0}, {"loss_mean", 0}},
                                         {{"product", 0}, {"num_batches_tracked", 0}}};
    for (int i = 0; i < 16; i++) {
        weft_optimizer o = {.type = i % 2 ? "own" : "adam",
                            .name = names[i / 2],
                            .lr = 0.01,
                            .ema = 0.5,
                            .schedule = {{WEFT_SCHEDULE_STEP, .period = 1, .gamma = 0.5, .by_epoch = true}}};
        lone from = odd_open(&o, slots[i / 2 % 4], 3), into = odd_open(&o, slots[i / 2 % 4], 0);
        check_kinds(from.store, o.name);
        CHECK(weft_store_set_epoch(from.store, 7, NULL) == WEFT_OK);
        CHECK(weft_store_set_lr(from.store, o.name, 0.25, NULL) == WEFT_OK);
        CHECK(weft_store_set_lr(from.store, "other", 0.25, NULL) == WEFT_NAME);
        check_files(&from, &into, o.name);
        lone_close(&from);
        lone_close(&into);
    }
}

/* One text of a file each; its checksum, which an export does not ask for, is no longer right. */
TEST(what_a_file_may_not_say_is_refused) {
    static const struct {
        const char *from, *to; /* of one length */
        const char *exported, *loaded;
    } rows[] = {
        {"\"average of net.fc1.bias", "\"average of net.fc1.bium", "is not an average of its net.fc1.bium",
         ""},
        {"\"average of net.fc1.bias", "\"average of head.fc.bias", "is not an average of its head.fc.bias",
         ""},
        {"\"average of net.fc1.bias", "\"averoge of net.fc1.bias",
         "'averoge of net.fc1.bias', which no value is", "'averoge of net.fc1.bias', which no value is"},
        {"\"lr of a\"", "\"lr in a\"", "it says that optimizer.a.lr is 'lr in a'",
         "it says that optimizer.a.lr is"},
        {"\"weft:optimizer.a.lr\"", "\"weft:optimizer.c.lr\"", "",
         "optimizer.a.lr is 'parameter' there, the model's is 'lr'"},
        {"\"step of a\"", "\"slot of a\"", "", "optimizer.a.step is 'slot' there, the model's is 'step'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        faults f;
        faults_init(&f);
        lone l = lone_open(&f.env, 4);
        weft_error error = {0};
        weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
        NEED(w && lone_save(w, 1, false, &error) == WEFT_OK);
        weft_checkpoint_writer_close(w);
        const fake_file *file = fake_get(&f, "c/step-00000001/rank-0.safetensors");
        char *at = strstr(file->data + 8, rows[i].from); /* all are in the header, which is text */
        NEED(at != NULL);
        memcpy(at, rows[i].to, strlen(rows[i].to));
        weft_checkpoint *c = weft_checkpoint_open("c/step-00000001", &f.env, &error);
        NEED(c != NULL);
        weft_status status = weft_checkpoint_export(c, "w", WEFT_CHECKPOINT_AVERAGES, &error);
        CHECK_SAYS(status == (*rows[i].exported ? WEFT_FILE : WEFT_OK), "row %zu: %s", i, error.text);
        CHECK_HOLDS(error.text, rows[i].exported);
        status = weft_checkpoint_load(c, l.store, &error);
        CHECK_SAYS(!status == !*rows[i].loaded, "row %zu: %s", i, error.text);
        CHECK_HOLDS(error.text, rows[i].loaded);
        weft_checkpoint_close(c);
        lone_close(&l);
        CHECK(f.live == 0 && f.handles == 0);
        faults_end(&f);
    }
}

static char told[1000];

static void keep_line(void *context, const char *line) {
    (void)context;
    snprintf(told, sizeof told, "%s", line);
}

/* Before the first one is written. */
TEST(a_disk_without_room_is_told_at_the_start) {
    faults f;
    faults_init(&f);
    f.env.log = keep_line;
    lone l = lone_open(&f.env, 40);
    weft_error error = {0};
    weft_checkpoint_options o = {.folder = "c", .keep = 2};
    *told = 0;
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(l.session, &o, &error);
    NEED(w != NULL);
    uint64_t bytes = weft_checkpoint_bytes(w, true);
    CHECK_TEXT(told, "");
    weft_checkpoint_writer_close(w);
    f.disk = bytes - 1;
    CHECK(!weft_checkpoint_writer_open(l.session, &o, &error) && error.status == WEFT_IO);
    CHECK_HOLDS(error.text, "c: a checkpoint has 0.0 MiB, and the disk has room for 0.0 MiB: make room");
    f.disk = 3 * bytes - 1;
    w = weft_checkpoint_writer_open(l.session, &o, &error);
    NEED(w != NULL);
    CHECK_HOLDS(told, "c: 3 more of 0.0 MiB each will be there at once");
    CHECK_HOLDS(told, "or keep fewer than 2");
    *told = 0;
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK && lone_save(w, 2, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    f.disk = bytes; /* two are there, and one of them makes room */
    w = weft_checkpoint_writer_open(l.session, &o, &error);
    CHECK(w != NULL);
    CHECK_TEXT(told, "");
    weft_checkpoint_writer_close(w);
    lone other = lone_open(&f.env, 41); /* for another model none makes room */
    w = weft_checkpoint_writer_open(other.session, &o, &error);
    CHECK(!w && error.status == WEFT_IO);
    f.disk = 2 * bytes;
    w = weft_checkpoint_writer_open(other.session, &o, &error);
    CHECK_HOLDS(told, "c: 3 more of 0.0 MiB each will be there at once");
    weft_checkpoint_writer_close(w);
    lone_close(&other);
    f.disk = bytes;
    /* without memory for the copy the step waits, and it is reported how long */
    w = weft_checkpoint_writer_open(l.session, &(weft_checkpoint_options){.folder = "c", .no_snapshot = true},
                                    &error);
    NEED(w != NULL);
    CHECK(lone_save(w, 3, false, &error) == WEFT_OK);
    double seconds = -1;
    long long step = 0;
    CHECK(sscanf(told, "checkpoints: training waited %lf s until step %lld was written", &seconds, &step) ==
          2);
    CHECK(seconds >= 0 && seconds < 60 && step == 3);
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

TEST(files_of_two_steps_another_model_and_a_lost_file_are_named) {
    faults f;
    faults_init(&f);
    f.env.log = keep_line;
    lone l = lone_open(&f.env, 2), other = lone_open(&f.env, 3);
    weft_error error = {0};
    int64_t step;
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    for (int64_t i = 1; i <= 3; i++) {
        CHECK(lone_save(w, i, false, &error) == WEFT_OK);
        lone_step(&l, i);
    }
    const fake_file *second = fake_get(&f, "c/step-00000002/rank-0.safetensors");
    fake_put(&f, "c/step-00000003/rank-0.safetensors", second->data, second->bytes);
    CHECK(open_newest("c", &f.env, &step, &error) == WEFT_OK && step == 2);
    CHECK_HOLDS(told, "c/step-00000003/rank-0.safetensors: its checksum is");
    f.io.remove(&f, "c/step-00000002/rank-0.safetensors");
    CHECK(open_newest("c", &f.env, &step, &error) == WEFT_OK && step == 1);
    CHECK_HOLDS(told, "c/step-00000002/rank-0.safetensors: cannot be opened");
    weft_checkpoint *c = weft_checkpoint_open("c/step-00000001", &f.env, &error);
    NEED(c != NULL);
    CHECK(weft_checkpoint_load(c, other.store, &error) == WEFT_SHAPE);
    CHECK_HOLDS(error.text, "it is a checkpoint of another model");
    CHECK(weft_checkpoint_load(c, l.store, &error) == WEFT_OK);
    weft_checkpoint_close(c);
    /* the manifest tells another model: no file is read for that */
    fake_get(&f, "c/step-00000001/rank-0.safetensors")->data[500] ^= 1;
    CHECK(!weft_checkpoint_find("c/step-00000001", l.plan, NULL, &f.env, &error));
    CHECK_HOLDS(error.text, "c/step-00000001/rank-0.safetensors: its checksum is");
    CHECK(!weft_checkpoint_find("c/step-00000001", other.plan, NULL, &f.env, &error));
    CHECK_HOLDS(error.text, "c/step-00000001: it is a checkpoint of another model (its fingerprint is ");
    CHECK(!weft_checkpoint_newest("c", other.plan, NULL, &f.env, &error) && error.status == WEFT_FILE);
    CHECK_HOLDS(error.text, "c: it has no checkpoint of this model");
    CHECK_HOLDS(told, "c/step-00000001: it is a checkpoint of another model (its fingerprint is ");
    f.io.remove(&f, "c/step-00000001/manifest.json");
    CHECK(open_newest("c", &f.env, &step, &error) == WEFT_FILE);
    CHECK_HOLDS(error.text, "c: it has no checkpoint that is whole: each was skipped");
    CHECK(open_newest("d", &f.env, &step, &error) == WEFT_NAME);
    CHECK_HOLDS(error.text, "d: there is no such folder");
    weft_checkpoint_writer_close(w);
    lone_close(&l);
    lone_close(&other);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

TEST(a_step_is_saved_whole_and_one_at_a_time) {
    faults f;
    faults_init(&f);
    weft_error error = {0};
    lone l = {.model = small_model(&f.env, 8)};
    l.plan = weft_compile(l.model, &(weft_compile_options){.threads = 1, .accumulate = 2}, &error);
    l.store = weft_store_new(l.plan, 5, &error);
    l.session = weft_session_open(l.plan, l.store, &error);
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    lone_step(&l, 0);
    CHECK(weft_checkpoint_begin(w, 0, false, NULL, 0, &error) == WEFT_ORDER);
    CHECK_HOLDS(error.text, "graph step has run 1 micro-batches of a step");
    CHECK(weft_checkpoint_end(w, &error) == WEFT_ORDER);
    lone_step(&l, 1);
    CHECK(weft_checkpoint_begin(w, 1, false, NULL, 0, &error) == WEFT_OK);
    CHECK(weft_checkpoint_begin(w, 2, false, NULL, 0, &error) == WEFT_ORDER);
    CHECK(weft_checkpoint_end(w, &error) == WEFT_OK && weft_checkpoint_is_written(w));
    CHECK(weft_checkpoint_begin(w, -1, false, NULL, 0, &error) == WEFT_ARGUMENT);
    CHECK(weft_checkpoint_begin(w, 1, false, NULL, 1, &error) == WEFT_ARGUMENT);
    static const char *const broken[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        weft_checkpoint_note notes[] = {{"fine \xc3\xa9", 1}, {broken[i], 2}};
        CHECK(weft_checkpoint_begin(w, 1, false, notes, 2, &error) == WEFT_ARGUMENT);
        CHECK_HOLDS(error.text, "checkpoints: note 1: its name, '");
        CHECK_HOLDS(error.text, "', is not UTF-8");
        CHECK(weft_checkpoint_end(w, &error) == WEFT_ORDER);
        CHECK(weft_checkpoint_begin(w, 1, false, notes, 1, &error) == WEFT_OK);
        CHECK_SAYS(weft_checkpoint_end(w, &error) == WEFT_OK, "%s", error.text);
    }
    weft_checkpoint_writer_close(w);
    CHECK(weft_checkpoint_writer_open(l.session, NULL, &error) == NULL);
    CHECK(weft_checkpoint_open("c/step-00000009", &f.env, &error) == NULL && error.status == WEFT_IO);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* ---- failures ---- */

static lone *saved;

/* One file's thread at a time: an allocation that fails is always the same one. */
static weft_status save_once(faults *f, weft_error *error) {
    (void)f;
    weft_checkpoint_writer *w =
        weft_checkpoint_writer_open(saved->session, &(weft_checkpoint_options){.folder = "c"}, error);
    weft_status status = w ? lone_save(w, 7, false, error) : error->status;
    weft_checkpoint_writer_close(w);
    return status;
}

static weft_status load_once(faults *f, weft_error *error) {
    weft_checkpoint *c = weft_checkpoint_newest("c", NULL, NULL, &f->env, error);
    weft_status status = c ? weft_checkpoint_load(c, saved->store, error) : error->status;
    weft_checkpoint_close(c);
    return status;
}

static weft_status export_once(faults *f, weft_error *error) {
    weft_checkpoint *c = weft_checkpoint_find("c", NULL, NULL, &f->env, error);
    weft_status status =
        c ? weft_checkpoint_export(c, "weights", WEFT_CHECKPOINT_AVERAGES, error) : error->status;
    weft_checkpoint_close(c);
    return status;
}

/* Into a folder of your own, which is empty each time. */
static weft_status reshard_once(faults *f, weft_error *error) {
    f->io.rename(f, "d/step-00000007", "gone");
    weft_checkpoint *c = weft_checkpoint_find("c", NULL, NULL, &f->env, error);
    weft_status status = c ? weft_checkpoint_reshard(c, "d", 2, error) : error->status;
    weft_checkpoint_close(c);
    return status;
}

/* Step 1 can be loaded, whatever became of step 7. */
static void first_is_whole(faults *f) {
    weft_error error = {0};
    weft_checkpoint *c = weft_checkpoint_open("c/step-00000001", &f->env, &error);
    CHECK_SAYS(c && weft_checkpoint_verify(c, &error) == WEFT_OK, "%s", error.text);
    weft_checkpoint_close(c);
    c = weft_checkpoint_newest("c", NULL, NULL, &f->env, &error);
    CHECK_SAYS(c != NULL, "%s", error.text);
    weft_checkpoint_close(c);
}

TEST(saving_and_loading_survive_any_failure) {
    faults f;
    faults_init(&f);
    lone l = lone_open(&f.env, 8);
    weft_error error = {0};
    saved = &l;
    weft_checkpoint_writer *w = writer_of(l.session, "c", 0);
    NEED(w != NULL);
    CHECK(lone_save(w, 1, false, &error) == WEFT_OK);
    weft_checkpoint_writer_close(w);
    faults_inject(&f, false, save_once, first_is_whole);
    faults_inject(&f, true, save_once, first_is_whole);
    faults_inject(&f, false, load_once, first_is_whole);
    faults_inject(&f, true, load_once, first_is_whole);
    faults_inject(&f, false, export_once, first_is_whole);
    faults_inject(&f, true, export_once, first_is_whole);
    faults_inject(&f, false, reshard_once, first_is_whole);
    faults_inject(&f, true, reshard_once, first_is_whole);
    lone_close(&l);
    CHECK(f.live == 0 && f.handles == 0);
    faults_end(&f);
}

/* ---- kills ---- */

/* posix_io that kills this process before its n-th call; after half of a write. */
static long calls_left;

static bool dies(void) {
    return --calls_left == 0;
}

#define KILL_BEFORE(name, parameters, arguments)                                                             \
    static int kill_##name parameters {                                                                      \
        if (dies()) raise(SIGKILL);                                                                          \
        return posix_io.name arguments;                                                                      \
    }
KILL_BEFORE(open_write, (void *c, const char *path, void **file), (c, path, file))
KILL_BEFORE(sync, (void *c, void *file), (c, file))
KILL_BEFORE(close, (void *c, void *file), (c, file))
KILL_BEFORE(rename, (void *c, const char *from, const char *to), (c, from, to))
KILL_BEFORE(remove, (void *c, const char *path), (c, path))
KILL_BEFORE(make_folder, (void *c, const char *path), (c, path))

static int kill_write(void *c, void *file, const void *from, size_t bytes) {
    if (dies()) {
        posix_io.write(c, file, from, bytes / 2);
        raise(SIGKILL);
    }
    return posix_io.write(c, file, from, bytes);
}

enum { KILL_STEPS = 6 };

/* A training of six steps that saves each, and continues from the newest. With `calls` it is killed. Exits
 * with 0 and writes its weights when it is done. */
static void child(const char *folder, const char *weights, long calls) {
    static weft_io io;
    weft_error error = {0};
    io = posix_io;
    io.open_write = kill_open_write, io.write = kill_write, io.sync = kill_sync, io.close = kill_close;
    io.rename = kill_rename, io.remove = kill_remove, io.make_folder = kill_make_folder;
    weft_env env = {.io = &io};
    lone l = lone_open(&env, 8);
    weft_checkpoint *c = weft_checkpoint_newest(folder, NULL, NULL, NULL, &error);
    int64_t step = c ? weft_checkpoint_step(c) : 0;
    if (c && weft_checkpoint_load(c, l.store, &error)) _exit(3);
    if (!c && error.status != WEFT_NAME) _exit(4);
    weft_checkpoint_close(c);
    calls_left = calls;
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(
        l.session, &(weft_checkpoint_options){.folder = folder, .keep = 2}, &error);
    for (; w && step < KILL_STEPS; step++) {
        lone_step(&l, step);
        if (lone_save(w, step + 1, false, &error)) _exit(5);
    }
    calls_left = 0;
    if (!w || weft_session_save(l.session, weights, true, &error)) _exit(6);
    weft_checkpoint_writer_close(w);
    _exit(0);
}

static int run_child(const char *folder, const char *weights, long calls) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) child(folder, weights, calls);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(a_training_that_is_killed_at_any_call_goes_on_to_the_same_bits) {
    const char *want = in_top("want"), *got = in_top("got"), *folder = in_top("killed");
    CHECK(run_child(in_top("undisturbed"), want, 0) == 0);
    long n = 1;
    for (int status = -SIGKILL; status == -SIGKILL; n += test_is_quick() ? 7 : 1) {
        remove_tree(folder);
        remove(got);
        status = run_child(folder, got, n);
        if (!CHECK_SAYS(status == 0 || status == -SIGKILL, "call %ld: exit %d", n, status)) break;
        if (status) CHECK_SAYS(run_child(folder, got, 0) == 0, "after a kill at call %ld", n);
        if (!CHECK_SAYS(same_files(want, got), "killed at call %ld", n)) break;
        /* a kill at the very end leaves one more, as the next run has nothing to save */
        CHECK_SAYS(count_in(folder) <= 3, "killed at call %ld: %d are left", n, count_in(folder));
    }
    CHECK_SAYS(n > 60, "%ld calls", n);
    remove_tree(folder);
    remove_tree(in_top("undisturbed"));
    remove(want);
    remove(got);
}

static void make_top(void) {
    if (!mkdtemp(top)) abort();
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(training_goes_on_in_any_world_to_the_same_bits),
                                      T(state_is_that_of_the_first_rank),
                                      T(every_process_group_is_saved),
                                      T(the_newest_and_the_best_are_kept),
                                      T(a_link_in_the_folder_is_removed_and_never_followed),
                                      T(damaged_ones_do_not_count_among_those_that_are_kept),
                                      T(a_new_one_is_complete_before_those_of_an_earlier_run_are_read),
                                      T(a_changed_byte_is_found_wherever_it_is),
                                      T(a_changed_bit_of_a_large_one_is_found),
                                      T(a_number_that_breaks_its_rule_is_refused_by_name),
                                      T(values_and_averages_alone_are_a_file_of_weights),
                                      T(no_name_decides_what_a_value_is),
                                      T(what_a_file_may_not_say_is_refused),
                                      T(a_disk_without_room_is_told_at_the_start),
                                      T(files_of_two_steps_another_model_and_a_lost_file_are_named),
                                      T(a_step_is_saved_whole_and_one_at_a_time),
                                      T(saving_and_loading_survive_any_failure),
                                      T(a_training_that_is_killed_at_any_call_goes_on_to_the_same_bits)};
    make_top();
    int status = test_main("checkpoints", cases, sizeof cases / sizeof *cases, argc, argv);
    remove_tree(top);
    return status;
}
