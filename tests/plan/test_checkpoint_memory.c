/* test_checkpoint_memory.c - the memory of checkpoints: what a plan says (weft_memory.checkpoint) is what the
 * writer of each rank allocates, what it writes, and what weft_plan_fits counts, to the byte. */
#include "support/folder.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a writer's memory ---- */

/* How many blocks of so many bytes were asked for. */
typedef struct sought {
    size_t bytes;
    int blocks;
} sought;

static void *sought_alloc(void *context, size_t bytes, size_t alignment) {
    sought *s = context;
    void *memory = NULL;
    s->blocks += bytes == s->bytes;
    return posix_memalign(&memory, alignment, bytes) ? NULL : memory;
}

static void sought_free(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    free(memory);
}

/* Bytes of tensors in a rank's file: all after its header, whose length it begins with. */
static uint64_t bytes_in_file(const char *folder, int rank) {
    char path[200];
    uint64_t header = 0;
    snprintf(path, sizeof path, "%s/step-00000001/rank-%d.safetensors", folder, rank);
    FILE *f = fopen(path, "rb");
    bool good = f && fread(&header, sizeof header, 1, f) == 1 && !fseek(f, 0, SEEK_END);
    uint64_t all = good ? (uint64_t)ftell(f) : 0;
    if (f) fclose(f);
    CHECK_SAYS(good, "%s cannot be read", path);
    return all - sizeof header - header;
}

/* ---- worlds ---- */

static weft_model *build(const char *group) {
    weft_model *m = weft_model_new("m");
    weft_graph *g = weft_graph_new(m, "step", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 96});
    weft_value *y = weft_input(g, "y", WEFT_U8, 1, (int64_t[]){4});
    WEFT_SCOPE(x, "net") x = weft_batch_norm(weft_linear(x, 130, "a", NULL), "norm", NULL);
    WEFT_SCOPE(x, "head") x = weft_linear(x, 77, "b", NULL);
    weft_minimize(weft_cross_entropy(x, y, NULL), "", &(weft_optimizer){.type = "adam", .ema = 0.9});
    if (group) weft_model_set_ddp(m, "head", &(weft_ddp_options){.process_group = group});
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

/* What a world saves, and what each rank's plan says of it: plans end with their ranks. */
typedef struct saved {
    const char *folder;
    uint64_t said[4];
} saved;

static void save(world_rank *r) {
    saved *all = (saved *)(uintptr_t)r->job->context;
    uint64_t said = weft_plan_memory(r->plan).checkpoint;
    sought copy = {.bytes = said};
    weft_allocator allocator = {sought_alloc, sought_free, &copy};
    weft_env env = {.allocator = &allocator};
    all->said[r->rank] = said;
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(
        r->session, &(weft_checkpoint_options){.folder = all->folder, .env = &env}, &r->error);
    if (!w) return;
    CHECK_SAYS(copy.blocks == 1 && weft_checkpoint_bytes(w, false) == said,
               "rank %d: the plan says %llu bytes: %d blocks, %llu bytes to write", r->rank,
               (unsigned long long)said, copy.blocks, (unsigned long long)weft_checkpoint_bytes(w, false));
    if (!weft_checkpoint_begin(w, 1, false, NULL, 0, &r->error)) weft_checkpoint_end(w, &r->error);
    weft_checkpoint_writer_close(w);
}

static void check_world(weft_compile_options how, const char *group) {
    char folder[] = "/tmp/weft_memory_XXXXXX";
    NEED(mkdtemp(folder));
    weft_model *m = build(group);
    saved told = {.folder = folder};
    world_job job = {.model = m, .options = how, .steps = 1, .run = save, .context = &told};
    world_rank *ranks = world_run(&job);
    uint64_t all = 0;
    int world = how.world > 1 ? how.world : 1;
    for (int i = 0; i < world; i++) {
        uint64_t said = told.said[i], written = bytes_in_file(folder, i);
        CHECK_SAYS(said == written && said > 0,
                   "world %d, zero %d, rank %d: the plan says %llu bytes, %llu are in its file", world,
                   how.zero, i, (unsigned long long)said, (unsigned long long)written);
        all += said;
    }
    /* a, norm and b with their averages; adam's two states of what is trained */
    uint64_t trained = 96 * 130 + 130 + 130 + 130 + 130 * 77 + 77, values = 4 * (4 * trained + 2 * 130);
    CHECK_SAYS(group || (all >= values && all < values + 4096), "%llu bytes, %llu expected",
               (unsigned long long)all, (unsigned long long)values);
    world_free(ranks);
    weft_model_free(m);
    remove_tree(folder);
}

TEST(a_plan_says_to_the_byte_what_each_rank_copies_and_writes) {
    static const int worlds[] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        for (int zero = 0; zero <= 2; zero++)
            for (int flat = 0; flat < 2; flat++)
                check_world((weft_compile_options){.world = worlds[i],
                                                   .zero = zero,
                                                   .shard = flat ? WEFT_SHARD_FLAT : WEFT_SHARD_GREEDY,
                                                   .bucket_cap_mb = 0.01,
                                                   .accumulate = 1 + flat},
                            NULL);
    for (int zero = 0; zero <= 2; zero++)
        check_world((weft_compile_options){.world = 4, .zero = zero}, "0-1;2-3");
}

/* ---- what fits ---- */

static uint64_t left;

static uint64_t tell_room(void *context) {
    (void)context;
    return left;
}

TEST(the_copy_is_counted_where_checkpoints_are_asked_for) {
    sought any = {0};
    weft_allocator allocator = {sought_alloc, sought_free, &any, tell_room};
    weft_env env = {.allocator = &allocator};
    weft_error error = {0};
    weft_model *plain = build(NULL);
    char *text = weft_model_text(plain);
    weft_model *m = weft_model_parse(text, "m", &env, &error);
    weft_plan *plan = weft_compile(m, NULL, &error);
    NEED(plan != NULL);
    weft_memory memory = weft_plan_memory(plan);
    left = memory.total + memory.checkpoint;
    CHECK(!weft_plan_fits(plan, &(weft_fit_options){.checkpoints = true}, &error));
    left--;
    CHECK(weft_plan_fits(plan, &(weft_fit_options){.checkpoints = true}, &error) == WEFT_MEMORY);
    CHECK(!weft_plan_fits(plan, NULL, &error));
    weft_plan_free(plan);
    weft_model_free(m);
    weft_model_free(plain);
    weft_text_free(text);
}

SUITE("memory of checkpoints", {T(a_plan_says_to_the_byte_what_each_rank_copies_and_writes),
                                T(the_copy_is_counted_where_checkpoints_are_asked_for)})
