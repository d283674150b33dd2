/* test_cuda_guard.c - test_guard.c on a GPU: launches end at the gate, and a bad step changes nothing,
 * whether it meets launches that go node by node, are captured or replayed, alone, by way of the host and
 * over NCCL. */
#include "cuda/support/gpu.h"
#include "support/models/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cuda_host.h"
#endif

static const weft_optimizer optimizers[] = {
    {.type = "adam", .lr = 0.01, .clip_norm = 0.1, .schedule = {{WEFT_SCHEDULE_STEP, .period = 2}}},
    {.type = "sgd", .lr = 0.1, .momentum = 0.9, .ema = 0.9, .ema_buffers = true},
    {.type = "nadam", .lr = 0.01},
};

/* The same bits only where a library adds in one order. */
static weft_compile_options on_gpu(weft_compile_options o) {
    o.device = WEFT_DEVICE_CUDA;
    o.deterministic = true;
    o.reduce = WEFT_REDUCE_ORDERED;
    return o;
}

/* Bad are the second, the third and the fourth run of a graph: captured, just captured, replayed. */
TEST(a_training_ends_with_the_bits_of_one_that_never_saw_its_bad_steps) {
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3},
        {.accumulate = 2, .manual = true},
        {.world = 2, .accumulate = 1},
        {.world = 2, .accumulate = 2, .zero = 1},
        {.world = 2, .accumulate = 1, .zero = 2, .serial = true},
    };
    int n = 0;
    for (size_t i = 0; i < (test_is_quick() ? 1 : sizeof optimizers / sizeof *optimizers); i++) {
        weft_model *m = guarded_gan(&optimizers[i]);
        for (size_t w = i % 2; w < sizeof worlds / sizeof *worlds; w += 1 + (i > 0)) {
            world_job job = {.model = m, .options = on_gpu(worlds[w]), .steps = 2 + 2 * (int)(w % 3)};
            if ((i + w) % 2) job.options.guard = WEFT_GUARD_GRAD;
            guarded_job(job, optimizers[i].type);
            n++;
        }
        weft_model_free(m);
    }
    printf("guard: %d worlds\n", n);
}

TEST(gradients_that_overflow_in_f16_are_no_bad_step) {
    for (int i = 0; i < 2; i++) {
        weft_model *m =
            guarded_gan(&(weft_optimizer){.type = "adam", .lr = 0.01, .loss_scale = i ? 0x1p100 : 0x1p4});
        world_job job = {.model = m, .options = on_gpu((weft_compile_options){.accumulate = 1}), .steps = 6};
        job.options.precision = WEFT_F16;
        guarded_job(job, i ? "f16 that overflows" : "f16");
        weft_model_free(m);
    }
}

#ifdef WEFT_CUDA_HOST
/* A GPU for each rank, and NCCL in place of the host's communicator. */
static void join(world_rank *r) {
    weft_comm *nccl = NULL;
    if (!weft_cuda_select(r->rank, &r->error)) nccl = weft_comm_nccl(r->comm, NULL, &r->error);
    if (nccl) r->comm = nccl;
}

TEST(a_bad_step_over_nccl_changes_nothing) {
    cuda_host_devices(2);
    weft_model *m = guarded_gan(&optimizers[0]);
    for (int zero = test_is_quick() ? 2 : 0; zero < 3; zero++) {
        weft_compile_options o = {.world = 2, .accumulate = 1 + zero % 2, .zero = zero};
        world_job job = {.model = m, .options = on_gpu(o), .steps = 2 + 2 * zero, .begin = join};
        if (zero == 2) job.options.guard = WEFT_GUARD_GRAD;
        guarded_job(job, "nccl");
    }
    CHECK_TEXT(cuda_host_trouble(), "");
    weft_model_free(m);
    cuda_host_devices(1);
}
#endif

TEST(the_node_that_made_it_is_named) {
    guarded_nodes(WEFT_DEVICE_CUDA);
}

static const char *bad_path(void) {
    static char path[80];
    snprintf(path, sizeof path, "/tmp/weft_cuda_guard.%ld.step", (long)getpid());
    return path;
}

/* Without a guard a GPU updates by class 0, and tells it when something is fetched. */
TEST(a_wrong_id_or_label_is_a_bad_step_on_all_ranks) {
    guarded_labels(WEFT_DEVICE_CUDA, bad_path());
}

TEST(the_rank_that_made_a_loss_of_all_ranks_bad_is_named) {
    guarded_synchronized(WEFT_DEVICE_CUDA);
}

TEST(a_spike_is_bad_once_there_is_a_mean) {
    guarded_spike(WEFT_DEVICE_CUDA);
}

TEST(spikes_are_the_same_in_every_world) {
    guarded_spikes(WEFT_DEVICE_CUDA);
    guarded_shared(WEFT_DEVICE_CUDA);
}

TEST(a_saved_step_is_bad_with_the_same_bits_on_one_gpu) {
    static const weft_compile_options worlds[] = {
        {.accumulate = 1},
        {.accumulate = 3, .precision = WEFT_BF16},
        {.world = 2, .accumulate = 2, .zero = 2},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        weft_compile_options o = on_gpu(worlds[i]);
        guarded_replay(&o, bad_path());
    }
    remove(bad_path());
}

GPU_SUITE("guard on a GPU",
          {T(a_training_ends_with_the_bits_of_one_that_never_saw_its_bad_steps),
           T(gradients_that_overflow_in_f16_are_no_bad_step),
#ifdef WEFT_CUDA_HOST
           T(a_bad_step_over_nccl_changes_nothing),
#endif
           T(the_node_that_made_it_is_named), T(a_wrong_id_or_label_is_a_bad_step_on_all_ranks),
           T(the_rank_that_made_a_loss_of_all_ranks_bad_is_named), T(a_spike_is_bad_once_there_is_a_mean),
           T(spikes_are_the_same_in_every_world), T(a_saved_step_is_bad_with_the_same_bits_on_one_gpu)})
