/* guarded.h - trainings that meet bad steps (weft_compile_options.guard), on any device: test_guard.c and
 * cuda/test_cuda_guard.c have the worlds. */
#ifndef WEFT_TEST_GUARDED_H
#define WEFT_TEST_GUARDED_H

#include "support/world.h"

/* A GAN: d_step trains two networks by a loss and an optimizer each; g_step the generator through one. Free
 * with weft_model_free. */
weft_model *guarded_gan(const weft_optimizer *optimizer);
/* A job's `run` of that model without a bad step. */
void guarded_train(world_rank *r);
/* The same training without a guard, with a guard, and with a bad step on each rank, in the middle of
 * job.steps: all have the same bits. */
void guarded_job(world_job job, const char *what);

/* A classifier's training that meets a wrong id or label on each rank in turn, with SyncBatchNorm, too: the
 * bits of one without a guard that never met it, the same error and the element's row on all ranks, the same
 * report from a replay. */
void guarded_labels(weft_device device, const char *path);

/* With SyncBatchNorm, where a NaN or an overflow of one rank makes bad losses on all: that rank is named. */
void guarded_synchronized(weft_device device);

/* Every allocation of one rank fails in turn while it tells of a bad step: all ranks have an error, and
 * continue together. */
void guarded_memory(void);

/* Bad steps of small losses: the node that made the first NaN or infinity is named. */
void guarded_nodes(weft_device device);
/* A spike is bad once there is a mean. */
void guarded_spike(weft_device device);
/* The same decisions and the same mean to the bit, in every world. */
void guarded_spikes(weft_device device);
/* Graphs and calls that share an optimizer, with losses 1 and 100. */
void guarded_shared(weft_device device);

/* Saves a bad step of the GAN to `path`. Returns rank 0's report without source lines, which the caller
 * frees. */
char *guarded_save(const weft_compile_options *options, const char *path);
/* A saved step is bad with the same bits on one machine. */
void guarded_replay(const weft_compile_options *options, const char *path);

#endif
