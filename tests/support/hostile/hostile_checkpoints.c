/* hostile_checkpoints.c - checkpoints whose manifest or files were changed by someone who also put the
 * checksums right: all other rules still hold. A store that refuses one is as it was, and numbers of
 * optimizers that it takes are those that an optimizer can have. And the notes by which a trainer
 * continues. */
#include "support/folder.h"
#include "support/hostile/hostile.h"
#include "support/world.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, RANKS = 2, STEP = 3 };
enum { MANIFEST, FIRST_FILE, SECOND_FILE };

#define STEP_NAME  "step-00000003"
#define CHECKPOINT "c/" STEP_NAME
static const char *const names[] = {
    [MANIFEST] = "manifest.json", [FIRST_FILE] = "rank-0.safetensors", [SECOND_FILE] = "rank-1.safetensors"};

/* ---- a checkpoint of two ranks, one of them with parts of tensors ---- */

static weft_model *small_model(const weft_env *env) {
    weft_model *m = weft_model_new_in("m", env);
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){BATCH, 4});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){BATCH});
    WEFT_SCOPE(x, "net") x = weft_batch_norm(weft_linear(x, 3, "fc1", NULL), "bn", NULL);
    weft_minimize(weft_cross_entropy(weft_linear(x, 3, "fc2", NULL), y, NULL), "",
                  &(weft_optimizer){.type = "adam",
                                    .name = "a",
                                    .ema = 0.9,
                                    .schedule = {{WEFT_SCHEDULE_STEP, .period = 3, .gamma = 0.5}}});
    return m;
}

static void save(world_rank *r) {
    const char *folder = r->job->context;
    weft_checkpoint_note note = {"test/step", STEP};
    world_train(r);
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(
        r->session, &(weft_checkpoint_options){.folder = folder, .no_snapshot = true}, &r->error);
    if (w && !weft_checkpoint_begin(w, STEP, false, &note, 1, &r->error)) weft_checkpoint_end(w, &r->error);
    weft_checkpoint_writer_close(w);
}

/* A file of the folder on the disk becomes good/NAME. */
static void keep_file(hostile *h, const char *folder, const char *name) {
    static unsigned char data[65536];
    char path[300];
    snprintf(path, sizeof path, "%s/" STEP_NAME "/%s", folder, name);
    FILE *f = fopen(path, "rbe");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (f) fclose(f);
    snprintf(path, sizeof path, "good/%s", name);
    fake_put(&h->f, path, data, n);
}

static void make_files(hostile *h) {
    char folder[] = "/tmp/weft_hostile_XXXXXX";
    if (!mkdtemp(folder)) return;
    weft_model *m = small_model(NULL);
    world_job job = {.model = m,
                     .options = {.world = RANKS, .zero = 2, .shard = WEFT_SHARD_FLAT},
                     .steps = STEP,
                     .classes = 3,
                     .run = save,
                     .context = folder};
    world_free(world_run_any(&job, true));
    weft_model_free(m);
    for (int i = 0; i <= RANKS; i++) keep_file(h, folder, names[i]);
    remove_tree(folder);
}

/* What a changed checkpoint is loaded into. */
typedef struct target {
    weft_model *model;
    weft_plan *plan;
    weft_store *store;
} target;

static const fake_file *good_file(const faults *f, int which) {
    char name[100];
    snprintf(name, sizeof name, "good/%s", names[which]);
    return fake_get(f, name);
}

static void make_checkpoint(hostile *h) {
    weft_error error = {0};
    make_files(h);
    target *t = test_memory(sizeof *t);
    t->model = small_model(&h->f.env);
    t->plan = weft_compile(t->model, &(weft_compile_options){.threads = 1}, &error);
    t->store = weft_store_new(t->plan, 5, &error);
    h->kept = t;
    weft_weights_save(t->store, "before", true, &error);
    const fake_file *good = good_file(&h->f, h->format->variant);
    if (good) hostile_put(h, good->data, good->bytes);
}

static void free_checkpoint(hostile *h) {
    target *t = h->kept;
    weft_store_free(t->store);
    weft_plan_free(t->plan);
    weft_model_free(t->model);
    free(t);
}

/* ---- checksums ---- */

#define SEAL_HEAD ",\n \"xxh3\": \""
#define SEAL_TAIL "\"\n}\n"
enum { SEAL_BYTES = sizeof SEAL_HEAD - 1 + 16 + sizeof SEAL_TAIL - 1 };

static void seal(char into[SEAL_BYTES + 1], const void *text, size_t n) {
    snprintf(into, SEAL_BYTES + 1, SEAL_HEAD "%016llx" SEAL_TAIL, (unsigned long long)XXH3_64bits(text, n));
}

static void mend_manifest(mutant *m, const mutant *good) {
    char right[SEAL_BYTES + 1];
    (void)good;
    if (m->n < SEAL_BYTES) return;
    seal(right, m->data, m->n - SEAL_BYTES);
    memcpy(m->data + m->n - SEAL_BYTES, right, SEAL_BYTES);
}

static void put_file(subject *s, int which, const fake_file *file) {
    char name[100];
    snprintf(name, sizeof name, CHECKPOINT "/%s", names[which]);
    if (file) fake_put(s->f, name, file->data, file->bytes);
}

/* A manifest for the files that are there; the model's fingerprint is that of the good one. */
static void put_manifest(subject *s) {
    char text[1000], right[SEAL_BYTES + 1];
    const fake_file *good = good_file(s->f, MANIFEST);
    size_t at = 0;
    while (at + 33 < good->bytes && memcmp(good->data + at, "\"fingerprint\"", 13) != 0) at++;
    int n = snprintf(text, sizeof text,
                     "{\n \"format\": \"weft checkpoint 2\",\n \"step\": %d,\n \"model\": \"m\",\n"
                     " %.33s,\n \"seed\": \"5\",\n \"files\": [",
                     STEP, good->data + at);
    for (int i = FIRST_FILE; i <= SECOND_FILE; i++) {
        char name[100];
        snprintf(name, sizeof name, CHECKPOINT "/%s", names[i]);
        const fake_file *file = fake_get(s->f, name);
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s{\"name\": \"%s\", \"bytes\": %zu, \"xxh3\": \"%016llx\"}",
                      i > FIRST_FILE ? ", " : "", names[i], file->bytes,
                      (unsigned long long)XXH3_64bits(file->data, file->bytes));
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "],\n \"notes\": {}");
    seal(right, text, (size_t)n);
    memcpy(text + n, right, SEAL_BYTES);
    fake_put(s->f, CHECKPOINT "/manifest.json", text, (size_t)n + SEAL_BYTES);
}

/* ---- loading ---- */

/* What an optimizer counts and multiplies by (docs/formats.md). */
static void check_numbers(subject *s, const weft_store *store) {
    double step = NAN, rate = NAN;
    weft_error error = {0};
    if (weft_store_get(store, "optimizer.a/step", &step, sizeof step, &error) ||
        weft_store_get(store, "optimizer.a/lr", &rate, sizeof rate, &error))
        hostile_complain(s, "%s", error.text);
    if (!(step >= 0 && step <= 0x1p53 && step == floor(step)))
        hostile_complain(s, "it was loaded, and its step is %g", step);
    if (!(rate >= 0 && rate <= 3.5e38)) hostile_complain(s, "it was loaded, and its rate is %g", rate);
}

/* The store's values now, as a file; the earlier ones are kept beside it. */
static void check_store(subject *s) {
    const target *t = s->h->kept;
    weft_error error = {0};
    if (weft_weights_save(t->store, "after", true, &error)) {
        hostile_complain(s, "the store cannot be saved: %s", error.text);
        return;
    }
    const fake_file *before = fake_get(s->f, "before"), *after = fake_get(s->f, "after");
    bool is_same = before->bytes == after->bytes && !memcmp(before->data, after->data, after->bytes);
    if (!s->good && !is_same) hostile_complain(s, "it was refused, but values changed: %s", s->error.text);
    if (s->good) check_numbers(s, t->store);
    fake_put(s->f, "before", after->data, after->bytes);
}

static void try_checkpoint(subject *s) {
    const target *t = s->h->kept;
    for (int i = 0; i <= RANKS; i++)
        put_file(s, i, i == s->h->format->variant ? hostile_file(s) : good_file(s->f, i));
    if (s->h->format->variant != MANIFEST) put_manifest(s);
    weft_checkpoint *c = weft_checkpoint_open(CHECKPOINT, &s->f->env, &s->error);
    s->good = c && !weft_checkpoint_verify(c, &s->error) && !weft_checkpoint_load(c, t->store, &s->error);
    weft_checkpoint_close(c);
    check_store(s);
}

/* ---- the numbers of a trainer ---- */

enum { SAMPLES = 23, WIDTH = 4 };

static weft_status read_sample(void *context, int64_t i, void *const *into, weft_error *error) {
    float *x = into[0];
    (void)context, (void)error;
    for (int k = 0; k < WIDTH; k++) x[k] = (float)(i + k) / 20;
    *(uint8_t *)into[1] = (uint8_t)(i % 3);
    return WEFT_OK;
}

static const weft_source samples = {.count = SAMPLES,
                                    .n = 2,
                                    .arrays = {{"x", WEFT_F32, 1, {WIDTH}}, {"y", WEFT_U8, 0, {0}}},
                                    .read = read_sample};
static const weft_source *const sources[] = {&samples};

static weft_status stop(void *self, weft_trainer *t, weft_hook_point point, weft_error *error) {
    (void)self, (void)error;
    if (point == WEFT_AFTER_ITERATION) weft_trainer_stop(t);
    return WEFT_OK;
}

/* Writes checkpoints into "c", or continues from the one of step 3 for an iteration. */
static bool train(faults *f, const weft_model *m, bool resumes, weft_error *error) {
    weft_hook hooks[] = {{.name = "stop", .at = stop}};
    weft_trainer_options o = {.compile = {.threads = 1, .isa = WEFT_ISA_REFERENCE},
                              .env = &f->env,
                              .seed = 5,
                              .train = {1, sources, NULL},
                              .iterations = resumes ? 0 : STEP,
                              .epochs = resumes ? 4 : 0,
                              .hooks = hooks,
                              .n_hooks = resumes};
    o.checkpoints.folder = resumes ? NULL : "c";
    o.checkpoints.resume = resumes ? CHECKPOINT : NULL;
    o.checkpoints.no_snapshot = true;
    weft_trainer *t = weft_trainer_new(m, &o, error);
    bool is_good = t && !weft_trainer_fit(t, error) && !weft_trainer_check(t, error);
    weft_trainer_free(t);
    return is_good;
}

static void make_notes(hostile *h) {
    weft_error error = {0};
    weft_model *m = small_model(&h->f.env);
    h->kept = m;
    train(&h->f, m, false, &error);
    const fake_file *good = fake_get(&h->f, CHECKPOINT "/manifest.json");
    if (good) hostile_put(h, good->data, good->bytes);
}

static void try_notes(subject *s) {
    put_file(s, MANIFEST, hostile_file(s));
    s->good = train(s->f, s->h->kept, true, &s->error);
}

static void free_notes(hostile *h) {
    weft_model_free(h->kept);
}

const hostile_format hostile_checkpoints[] = {
    {"manifest", make_checkpoint, try_checkpoint, free_checkpoint, mend_manifest, MANIFEST},
    {"file of a rank", make_checkpoint, try_checkpoint, free_checkpoint, NULL, FIRST_FILE},
    {"file of another rank", make_checkpoint, try_checkpoint, free_checkpoint, NULL, SECOND_FILE},
    {"notes of a trainer", make_notes, try_notes, free_notes, mend_manifest, MANIFEST},
    {0}};
