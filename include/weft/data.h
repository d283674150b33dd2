/* data.h - tensors in .npy and IDX files (plain or gzip), and batches of them in shuffled order. */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole file in memory. The first axis counts samples. */
typedef struct weft_array weft_array;
WEFT_API weft_array *weft_array_load(const char *path, const weft_env *env, weft_error *error);
WEFT_API void weft_array_free(weft_array *array);
WEFT_API weft_dtype weft_array_dtype(const weft_array *array);
WEFT_API int weft_array_shape(const weft_array *array, int64_t shape[WEFT_MAX_NDIM]); /* returns ndim */
WEFT_API const void *weft_array_data(const weft_array *array);

/* Batches over arrays with one sample count, in an order that depends on seed and epoch alone. */
typedef struct weft_loader weft_loader;
typedef struct weft_loader_options {
    int64_t batch;
    bool shuffle;
    bool drop_last; /* leave out a last batch that is smaller */
    uint64_t seed; /* of the shuffling; nothing without it */
    /* Ranks that share the data, as PyTorch's DistributedSampler: rank `rank` of num_replicas (0: 1) takes in_a_row
     * (0: 1; else the micro-batches of a step) batches of the common order, then the next rank does. With drop_last
     * all get equally many; without it each batch is somebody's, none is dealt twice. */
    int rank, num_replicas, in_a_row;
    const char *const *names; /* what messages call the arrays; NULL: "array 0" ...; must outlive the loader */
} weft_loader_options;
/* arrays[n] must outlive the loader. */
WEFT_API weft_loader *weft_loader_new(int n, const weft_array *const *arrays,
                                      const weft_loader_options *options, const weft_env *env,
                                      weft_error *error);
/* Collective over the ranks that share the data, before the first batch: WEFT_PEER on all when seeds, options or data
 * differ, with the first difference and both ranks. Of the data: types, shapes, and a hash of the first and the last MiB. A
 * loader does not know of other ranks otherwise: with another seed, or a file of another order, a rank would deal samples
 * twice and leave others out, and nobody would see it. */
WEFT_API weft_status weft_loader_agree(const weft_loader *loader, weft_comm *comm, weft_error *error);
WEFT_API void weft_loader_free(weft_loader *loader);
WEFT_API void weft_loader_epoch(weft_loader *loader, int64_t epoch); /* starts this epoch */
WEFT_API int64_t weft_loader_batches(const weft_loader *loader);     /* in an epoch, for this rank */
/* The next one is this of the epoch's, from 0. */
WEFT_API void weft_loader_seek(weft_loader *loader, int64_t batch);
/* Copies the next batch: data[i] points at rows of array i, *rows says how many; false at the epoch's end.
 * The memory is the loader's and stays until the next call. */
WEFT_API bool weft_loader_next(weft_loader *loader, const void **data, int64_t *rows);

#ifdef __cplusplus
}
#endif
#endif
