/* test_cuda_resume.c - a training that continues from a checkpoint on another device: what is loaded has the
 * same bits, and what follows is as near to the CPU's as a training on the GPU is. */
#include "cuda/support/gpu.h"
#include "cuda/support/narrow.h"
#include "support/folder.h"

#include "runtime/checkpoint/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char top[64]; /* the folder of a test */

static void begin(void) {
    snprintf(top, sizeof top, "/tmp/weft_devices_XXXXXX");
    CHECK(mkdtemp(top) != NULL);
}

typedef struct part {
    world_job job;
    char load[128], save[128]; /* folders; "": none */
} part;

static void load(world_rank *r, const char *folder) {
    weft_checkpoint *c = weft_checkpoint_newest(folder, r->plan, r->comm, NULL, &r->error);
    if (c) weft_checkpoint_load(c, r->store, &r->error);
    weft_checkpoint_close(c);
}

static void save(world_rank *r, const char *folder) {
    weft_checkpoint_options o = {.folder = folder};
    weft_checkpoint_writer *w = weft_checkpoint_writer_open(r->session, &o, &r->error);
    if (w && !weft_checkpoint_begin(w, 1, false, NULL, 0, &r->error)) weft_checkpoint_end(w, &r->error);
    weft_checkpoint_writer_close(w);
}

static void go(world_rank *r) {
    const part *p = r->job->context;
    if (*p->load) load(r, p->load);
    if (!r->error.status) world_train(r);
    if (*p->save && !r->error.status) save(r, p->save);
}

/* Steps from NARROW_STEPS on see other batches than the first ones. NULL: no file. */
static world_rank *run(const weft_model *m, weft_compile_options options, int steps, const char *from,
                       const char *to) {
    part p = {.job = {.model = m, .options = options, .steps = steps, .run = go}};
    int micros = (options.world ? options.world : 1) * (options.accumulate ? options.accumulate : 1);
    p.job.context = &p;
    if (from) p.job.first = NARROW_STEPS * micros;
    if (from) snprintf(p.load, sizeof p.load, "%s/%s", top, from);
    if (to) snprintf(p.save, sizeof p.save, "%s/%s", top, to);
    return world_run(&p.job);
}

static const weft_compile_options on_cpu = {0};
static const weft_compile_options on_gpu = {
    .device = WEFT_DEVICE_CUDA, .deterministic = true, .verify = true};

/* The checksum of a checkpoint's only file. */
static uint64_t hash_in(const char *name) {
    char path[128];
    weft_error error = {0};
    snprintf(path, sizeof path, "%s/%s/step-00000001", top, name);
    weft_checkpoint *c = weft_checkpoint_open(path, NULL, &error);
    uint64_t hash = CHECK_SAYS(c && c->m.n_files == 1, "%s", error.text) ? c->m.files[0].hash : 0;
    weft_checkpoint_close(c);
    return hash;
}

/* From the one device to the other and back, without a step between: parameters, state, optimizers, numbers
 * are the same to the bit, in the stores and in the files. */
TEST(what_is_loaded_on_another_device_has_the_same_bits) {
    for (int i = 0; i < NARROW_MODELS; i++)
        for (int way = 0; way < 2; way++) {
            const char *name = narrow_models[i].name;
            weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
            begin();
            const weft_compile_options *one = way ? &on_gpu : &on_cpu, *other = way ? &on_cpu : &on_gpu;
            world_rank *first = run(m, *one, NARROW_STEPS, NULL, "first");
            world_rank *there = run(m, *other, 0, "first", "there");
            world_rank *back = run(m, *one, 0, "there", "back");
            world_check(first, there, 1, world_all, name);
            world_check(first, back, 1, world_all, name);
            CHECK(hash_in("first") == hash_in("there") && hash_in("first") == hash_in("back"));
            world_free(first);
            world_free(there);
            world_free(back);
            weft_model_free(m);
            remove_tree(top);
        }
}

/* `late`: the second half of the losses, of a training that continued from a checkpoint. */
static void check_late(const narrow_model *c, const world_rank *whole, const world_rank *late) {
    int n = late->n_losses, before = whole->n_losses - n;
    for (int i = 0; CHECK(n > 0 && before == n) && i < n; i++)
        CHECK_SAYS(fabsf(whole->losses[before + i] - late->losses[i]) <=
                       1e-5f * (float)c->most * (1 + fabsf(whole->losses[before + i])),
                   "%s: loss %d is %g on the CPU alone, %g on two devices", c->name, before + i,
                   (double)whole->losses[before + i], (double)late->losses[i]);
}

TEST(training_goes_on_on_another_device_as_on_the_cpu) {
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        world_rank *whole = run(m, on_cpu, 2 * NARROW_STEPS, NULL, NULL);
        for (int way = 0; way < 2; way++) {
            begin();
            world_rank *early = run(m, way ? on_gpu : on_cpu, NARROW_STEPS, NULL, "first");
            world_rank *late = run(m, way ? on_cpu : on_gpu, NARROW_STEPS, "first", NULL);
            check_late(&narrow_models[i], whole, late);
            world_free(early);
            world_free(late);
            remove_tree(top);
        }
        world_free(whole);
        weft_model_free(m);
    }
}

/* Two ranks on GPUs, with ZeRO, and one on the CPU. */
TEST(so_it_does_in_another_world) {
    weft_model *m = narrow_build(&narrow_models[0], &narrow_clipped);
    begin();
    weft_compile_options two = on_gpu, one = on_cpu;
    two.world = 2, two.zero = 1, two.bucket_cap_mb = 0.02;
    one.accumulate = 2;
    world_rank *whole = run(m, one, 2 * NARROW_STEPS, NULL, NULL);
    world_rank *first = run(m, one, NARROW_STEPS, NULL, "first");
    world_rank *there = run(m, two, 0, "first", "there"), *back = run(m, one, 0, "there", NULL);
    world_check(first, there, 2, world_trained, "two ranks on GPUs");
    world_check(first, back, 1, world_trained, "and back");
    world_rank *late = run(m, two, NARROW_STEPS, "first", NULL);
    check_late(&narrow_models[0], whole, &late[1]); /* the last micro-batch of a step is rank 1's */
    world_free(whole);
    world_free(first);
    world_free(there);
    world_free(back);
    world_free(late);
    weft_model_free(m);
    remove_tree(top);
}

GPU_SUITE("resuming on another device",
          {T(what_is_loaded_on_another_device_has_the_same_bits),
           T(training_goes_on_on_another_device_as_on_the_cpu), T(so_it_does_in_another_world)})
