/** @file
 * file.h - models and weights on disk.
 *
 * Every file may be hostile and is checked before anything is allocated from it. Every file is written under
 * another name beside its own, flushed, and renamed into place. Links are followed; devices, pipes and
 * /dev/stdout are written directly.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Saves a model as model.bin (docs/formats.md), with its length and a checksum. */
WEFT_API weft_status weft_save(const weft_model *model, const char *path, weft_error *error);
/** Loads a model.bin by replaying the builder calls. `env` may be NULL. NULL on failure. Free the model with
 * weft_model_free(). */
WEFT_API weft_model *weft_load(const char *path, const weft_env *env, weft_error *error);

/** Makes a model of the text that weft_model_text() made. Errors call the text `where`. NULL on failure. */
WEFT_API weft_model *weft_model_parse(const char *text, const char *where, const weft_env *env,
                                      weft_error *error);

/** Saves parameters and state as safetensors with PyTorch's dotted names. With `training` it saves optimizer
 * state, step counters and learning rates too, under names that begin with "optimizer." and the optimizer's
 * name; the file's metadata say what each of these is. WEFT_ORDER when ZeRO has spread what is to be saved
 * over ranks (use weft_session_save()), and while a session's gathers are in flight (call weft_sync() first).
 */
WEFT_API weft_status weft_weights_save(const weft_store *store, const char *path, bool training,
                                       weft_error *error);
/** Another name for what a file holds: a name that begins with `from` begins with `to` instead. */
typedef struct weft_rename {
    const char *from; /**< as in the file: "module."; "" for every name */
    const char *to;   /**< as the model's names in a file: "encoder."; "" takes `from` off */
} weft_rename;
/** Options of weft_weights_load(); NULL or zeroes: every name and shape must fit. */
typedef struct weft_weights_options {
    /** A parameter that the file lacks keeps its value, and a name that the model does not have is passed
     * over, as in PyTorch with strict=False. Another shape is an error all the same. */
    bool not_strict;
    int n_renames;                    /**< number of renames; 0: none, and `renames` NULL */
    const weft_rename *renames;       /**< n_renames of them; of those that fit a name the first counts */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_weights_options;
/** What weft_weights_load() found. Free the two texts with weft_text_free(). */
typedef struct weft_weights_report {
    int n_loaded;     /**< tensors that were loaded; 0 after an error */
    int n_missing;    /**< parameters and state that the file lacks */
    int n_unexpected; /**< names, after renaming, that the model does not have */
    char *missing;    /**< their names as in a file, one a line; "" for none; NULL when memory was out */
    char *unexpected; /**< the same */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_weights_report;
/** Loads a safetensors file into a store. Every parameter must be in the file, with its shape (types f64,
 * bf16 and f16 are converted); optimizer state may be. A name that the model does not have is an error. A
 * store takes its rank's part of what ZeRO spreads over ranks: every rank loads, whatever the world, stage
 * and shard that the file was saved with. `report` may be NULL; it is filled when names are missing or
 * unexpected in a strict load, too.
 *
 *     weft_rename rename = {"module.backbone.", "encoder."};
 *     weft_weights_options part = {.not_strict = true, .n_renames = 1, .renames = &rename};
 *     weft_weights_load(store, "resnet.safetensors", &part, &report, &error); */
WEFT_API weft_status weft_weights_load(weft_store *store, const char *path,
                                       const weft_weights_options *options, weft_weights_report *report,
                                       weft_error *error);

/** An open safetensors file. */
typedef struct weft_tensors weft_tensors;
/** Opens a safetensors file and checks its header. `env` may be NULL. NULL on failure. */
WEFT_API weft_tensors *weft_tensors_open(const char *path, const weft_env *env, weft_error *error);
/** Closes it. NULL is fine. */
WEFT_API void weft_tensors_close(weft_tensors *tensors);
/** Writes name, type and shape of tensor 0, 1, ... in the order of their names to `*port`, whose name lives
 * as long as the file is open; false past the end. */
WEFT_API bool weft_tensors_at(const weft_tensors *tensors, int index, weft_port *port);
/** Reads a tensor, row-major and in its own type, into exactly its bytes. WEFT_NAME when there is none. */
WEFT_API weft_status weft_tensors_read(const weft_tensors *tensors, const char *name, void *into,
                                       size_t bytes, weft_error *error);

/** weft_weights_save() for all ranks of a session's world together, as consolidate_state_dict of
 * ZeroRedundancyOptimizer. All ranks call it; rank 0 writes `path`, and the others' may be NULL. Where the
 * bits are the same, the file is byte for byte the one that a single rank would write. Optimizer state that
 * ZeRO has spread over ranks comes to rank 0 in pieces of 4 MiB, so that no rank holds all of it. Where a
 * subgraph has process groups, the values of rank 0's group are saved. Waits for what is in flight, as
 * weft_sync(). When any rank fails, all ranks get an error, and a file that was there stays. */
WEFT_API weft_status weft_session_save(weft_session *session, const char *path, bool training,
                                       weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
