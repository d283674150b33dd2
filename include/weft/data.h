/** @file
 * data.h - tensors in .npy and IDX files (plain, or gzip as .gz), and batches of any source in shuffled
 * order.
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include "weft/session.h"
#include "weft/source.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A whole file in memory. As a source, the first axis counts samples. */
typedef struct weft_array weft_array;
/** Reads a .npy or IDX file, packed by gzip if its name ends in .gz. `env` may be NULL. NULL on
 * failure. Free it with weft_array_free(). */
WEFT_API weft_array *weft_array_load(const char *path, const weft_env *env, weft_error *error);
/** Makes an array of a copy of `data`, row-major; NULL: zeros. `env` may be NULL. NULL on failure. */
WEFT_API weft_array *weft_array_new(weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                                    const weft_env *env, weft_error *error);
/** Makes an array of the elements at `data`, row-major, which are not copied: they must outlive the array and
 * what reads from it. Otherwise as weft_array_new(). */
WEFT_API weft_array *weft_array_on(weft_dtype dtype, int ndim, const int64_t *shape, void *data,
                                   const weft_env *env, weft_error *error);
/** The elements of an array, to be changed. The array owns them. */
WEFT_API void *weft_array_mutable_data(weft_array *array);
/** Frees an array. NULL is fine. */
WEFT_API void weft_array_free(weft_array *array);
/** Type of its elements. */
WEFT_API weft_dtype weft_array_dtype(const weft_array *array);
/** Writes its shape and returns the number of axes. */
WEFT_API int weft_array_shape(const weft_array *array, int64_t shape[WEFT_MAX_NDIM]);
/** Its elements, row-major. The array owns them. */
WEFT_API const void *weft_array_data(const weft_array *array);
/** Fills a source with the array's rows. Nothing is allocated: the array must outlive it. WEFT_SHAPE without
 * an axis that counts samples. */
WEFT_API weft_status weft_array_source(const weft_array *array, weft_source *source, weft_error *error);

/** Batches of one or more sources with the same number of samples, in an order that depends on seed and epoch
 * alone. Its own threads read the next batches ahead. Each call is for one thread at a time. */
typedef struct weft_loader weft_loader;
/** Options of weft_loader_new(). Ranks that share the data each take their part: rank 0 takes the first
 * in_a_row batches of the common order, then rank 1 does, and so on. */
typedef struct weft_loader_options {
    int64_t batch; /**< samples a batch; at least 1 */
    bool shuffle;  /**< deal samples in a new random order each epoch */
    /** Leave out a last batch that is smaller. With several ranks all get equally many batches then, at least
     * one each; without it every batch is dealt to exactly one rank. */
    bool drop_last;
    uint64_t seed;    /**< of the shuffling and the draws; no effect without them */
    int rank;         /**< this rank, from 0 */
    int num_replicas; /**< ranks that share the data; 0: 1 */
    int in_a_row;     /**< batches that a rank takes at once: the micro-batches of a step; 0: 1 */
    /** Every rank sees all batches, and chooses its own by weft_loader_seek(). rank and num_replicas are only
     * for weft_loader_agree() then; in_a_row must be 0. */
    bool all;
    /** Deal samples, not batches: rank r takes samples r, r + num_replicas ... of the common order. With
     * drop_last this is PyTorch's DistributedSampler(drop_last=True); without it each sample is dealt once,
     * so the first ranks may have one more, where PyTorch repeats samples until all have as many. Not with
     * `all`; in_a_row must be 0. */
    bool by_sample;
    /** What messages call the arrays of the sources; NULL: what the sources call them, or "array 0" ... The
     * list is copied; its texts must outlive the loader. */
    const char *const *names;
    /** The type that each array has in batches, for a graph that takes another than the source gives; NULL:
     * those of the sources. Numbers keep their values: integers become any type that holds them (an error
     * names the sample whose number is too large), floating point a wider type. What loses digits is refused
     * here: weft_source_options.dtype asks for it. The types are copied. */
    const weft_dtype *dtypes;
    /** An order of your own instead of `shuffle`: fills order[0] to order[n - 1] with the numbers of samples
     * of an epoch, any of them, also twice; NULL: none. Called by weft_loader_new() and
     * weft_loader_set_epoch(). */
    void (*sampler)(void *context, int64_t epoch, int64_t *order, int64_t n);
    void *sampler_context; /**< the first argument of sampler */
    int64_t sampler_count; /**< samples of an epoch of the sampler's; 0: as many as the sources have */
    /** With draws=n there is one array more, "draws", after those of the sources: f32[n], uniform in [0, 1),
     * a function of seed, epoch and sample alone, whatever the rank and the batch: for weft_preprocess(). */
    int draws;
    /** Where batches lie: weft_plan_feed_memory() is the fastest to feed to a GPU; NULL: memory of `env`. It
     * must outlive the loader. */
    const weft_allocator *memory;
    int ahead;   /**< batches that are read ahead; 0: 2; WEFT_NONE: each is read when it is needed */
    int threads; /**< threads that read; 0: 1 */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_loader_options;
/** Its plain fields (field.h). */
WEFT_API const weft_field *weft_loader_fields(void);
/** Makes a loader of n sources, which must outlive it. NULL on failure. Free it with weft_loader_free(). */
WEFT_API weft_loader *weft_loader_new(int n, const weft_source *const *sources,
                                      const weft_loader_options *options, const weft_env *env,
                                      weft_error *error);
/** Checks that all ranks load the same data in the same order: WEFT_PEER on all ranks when seeds, options or
 * data differ, with the first difference and both ranks. It compares the data's types, shapes, and a hash
 * of samples at both ends, a MiB each. All ranks that share the data call it before the first batch.
 * Without it nobody would see a rank with another seed or another file, which repeats some samples and
 * leaves out others. A sampler must give the same order on all ranks; it is compared at epoch 0. */
WEFT_API weft_status weft_loader_agree(const weft_loader *loader, weft_comm *comm, weft_error *error);
/** Ends its threads and frees a loader. NULL is fine. */
WEFT_API void weft_loader_free(weft_loader *loader);
/** Starts an epoch, numbered from 0. */
WEFT_API void weft_loader_set_epoch(weft_loader *loader, int64_t epoch);
/** Batches in an epoch, for this rank. */
WEFT_API int64_t weft_loader_batches(const weft_loader *loader);
/** Makes batch 0, 1, ... of the epoch the next one. Batches that were read ahead stay where they are among
 * the next ones. */
WEFT_API void weft_loader_seek(weft_loader *loader, int64_t batch);
/** Makes these the next batches, in this order, and then those after the last of them: for callers that know
 * what comes, a step of several graphs or a rank that sees `all`, so that nothing else is read ahead.
 * Numbers may repeat. What was read already stays. */
WEFT_API weft_status weft_loader_follow(weft_loader *loader, int n, const int64_t *batches,
                                        weft_error *error);
/** Seconds that the caller has spent in weft_loader_next() and weft_loader_set_epoch() since the loader was
 * made: what a training waits for its data. */
WEFT_API double weft_loader_waited(const weft_loader *loader);
/** When a caller was in weft_loader_next() or weft_loader_set_epoch(). Times are nanoseconds of the monotonic
 * clock, as in weft_node_event. */
typedef struct weft_loader_event {
    int64_t batch;                    /**< number of the batch in this rank's epoch; -1: an epoch begins */
    uint64_t began_ns;                /**< when it was called */
    uint64_t finished_ns;             /**< when it returned */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_loader_event;
/** Calls `event` after each batch that is given and each epoch that is begun, in the caller's thread. NULL
 * switches it off. */
WEFT_API void weft_loader_trace(weft_loader *loader,
                                void (*event)(void *context, const weft_loader_event *event), void *context);
/** Gives the next batch: data[i] points to the rows of array i, where the arrays of all sources are numbered
 * in their order; `*rows` is their number. False at the epoch's end, where `error` is cleared, and after an
 * error, which it has.
 * The loader owns the memory, which stays as it is until the next call. */
WEFT_API bool weft_loader_next(weft_loader *loader, const void **data, int64_t *rows, weft_error *error);
/** Array i of the loader; NULL: there is none. */
WEFT_API const weft_source_array *weft_loader_array(const weft_loader *loader, int i);

#ifdef __cplusplus
}
#endif
#endif
