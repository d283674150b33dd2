/* file.h - models and weights on disk. Every file may be hostile and is checked before anything is allocated
 * from it; every file is written beside its name, flushed, and renamed into place. Links are followed; devices, pipes and
 * /dev/stdout are written through.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* model.bin (graph/file/model.proto), with its length and a checksum; files of before those load too. Loading replays the builder
 * calls. NULL on failure. `env` may be NULL. */
WEFT_API weft_status weft_save(const weft_model *model, const char *path, weft_error *error);
WEFT_API weft_model *weft_load(const char *path, const weft_env *env, weft_error *error);

/* The text of weft_model_text back into a model. `where` names it in errors. */
WEFT_API weft_model *weft_model_parse(const char *text, const char *where, const weft_env *env,
                                      weft_error *error);

/* Parameters and state as safetensors with PyTorch's dotted names. With `training`, optimizer state, step
 * counters and learning rates too, under "optimizer.<name>." names. WEFT_ORDER when ZeRO has shared out what is to be
 * saved (weft_session_save), and while a session's broadcasts are under way (weft_sync). */
WEFT_API weft_status weft_weights_save(const weft_store *store, const char *path, bool training,
                                       weft_error *error);
/* Loads what the file holds; every parameter must be there with its shape (types f64, bf16 and f16 convert);
 * optimizer state where present. A name that the model does not have is an error. Of what ZeRO shares out a store takes
 * its rank's range: every rank loads, whatever world, stage and shard the file was saved in. */
WEFT_API weft_status weft_weights_load(weft_store *store, const char *path, weft_error *error);

/* weft_weights_save for all ranks of a session's world together (ZeroRedundancyOptimizer's consolidate_state_dict): all
 * call it, rank 0 writes `path` (the others' may be NULL). The file is the one that a single rank would write, byte for
 * byte where the bits are the same. Optimizer state that ZeRO has shared out comes to rank 0 in pieces of 4 MiB, and no
 * rank holds all of it. Where a subgraph has process groups, that of rank 0 is saved. Waits for broadcasts
 * under way (weft_sync). When any rank fails all get an error, and a file that was there stays. */
WEFT_API weft_status weft_session_save(weft_session *session, const char *path, bool training,
                                       weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
