/** @file
 * checkpoint.h - checkpoints: all that a training needs to resume to the same bits, saved by all ranks while
 * it runs.
 *
 * A checkpoint is a folder, FOLDER/step-00000100. Each rank writes one safetensors file of what it holds of
 * sharded values and of its share of the values that all hold, so each value is written once. Rank 0 writes
 * the manifest: sizes and checksums (XXH3) of all files, and the notes. All is written in
 * FOLDER/step-00000100.tmp, flushed to the disk, and renamed: a folder without .tmp is complete. A file that
 * changed later is found by its checksum.
 *
 * Values do not depend on how a plan lays them out: another world, ZeRO stage, bucket cap or device loads
 * them. The ranks must see the same folder.
 */
#ifndef WEFT_CHECKPOINT_H
#define WEFT_CHECKPOINT_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @name Writing
 * @{ */

/** A number that goes with a checkpoint: where the training is. */
typedef struct weft_checkpoint_note {
    const char *name; /**< "trainer/iteration"; UTF-8 */
    double value;     /**< kept exactly; a number that is not finite is left out */
} weft_checkpoint_note;

/** A folder of checkpoints that this process has: no other one's training writes there. */
typedef struct weft_checkpoint_lock weft_checkpoint_lock;
/** Takes a folder, so that a training that is refused has opened none of its files yet. It is known on this
 * machine alone. A folder that is not there is not made, and nobody has it. NULL on failure: WEFT_ORDER where
 * another process, or another lock or writer of this one, has it. */
WEFT_API weft_checkpoint_lock *weft_checkpoint_lock_take(const char *folder, const weft_env *env,
                                                         weft_error *error);
/** Gives it back. NULL is fine. */
WEFT_API void weft_checkpoint_lock_release(weft_checkpoint_lock *lock);

/** Writes checkpoints of a session, one at a time. Close it before the session. */
typedef struct weft_checkpoint_writer weft_checkpoint_writer;
/** What weft_checkpoint_writer_open() is given. */
typedef struct weft_checkpoint_options {
    const char *folder; /**< where checkpoints are; made if it is not there, its parent is not. Copied */
    int keep;     /**< how many stay, the newest that are whole; 0: all. The best stays beside them, and what
               * is newer than the oldest of them though it is damaged. Those of other models stay, too */
    int64_t best; /**< step of the best one so far, known to a resumed run; 0: no best one */
    const weft_env *env; /**< memory, files and log of the writer; NULL: the session's */
    bool no_snapshot;    /**< no memory for a copy: each checkpoint is written before begin returns */
    /** Of this folder; release it after the writer is closed. NULL: the writer takes the folder itself. */
    const weft_checkpoint_lock *lock;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_checkpoint_options;
/** Its plain fields (field.h). */
WEFT_API const weft_field *weft_checkpoint_fields(void);
/** Allocates the copy of what this rank writes (weft_checkpoint_bytes()), so that later steps need no memory.
 * Where there is none, begin writes before it returns, and env.log tells how long. It tells, too, where the
 * disk has no room for `keep` checkpoints and one more. In a world it is collective. NULL on failure:
 * WEFT_ORDER where another process has a writer for this folder, WEFT_IO where not even one has room, and no
 * older one of this model may go for it. */
WEFT_API weft_checkpoint_writer *
weft_checkpoint_writer_open(weft_session *session, const weft_checkpoint_options *options, weft_error *error);
/** Waits for what is being written, which does not become complete, and frees the writer. NULL is fine. */
WEFT_API void weft_checkpoint_writer_close(weft_checkpoint_writer *writer);
/** Bytes of values that this rank writes in each checkpoint; of all ranks when `all`. */
WEFT_API uint64_t weft_checkpoint_bytes(const weft_checkpoint_writer *writer, bool all);

/** Copies the session's values and begins to write them as checkpoint `step`, on the writer's thread:
 * training may continue at once. Rank 0's `notes` are written. With `is_best` it stays until a later
 * one is best. With options.keep, where the disk has no room for it, the oldest of this model is removed
 * before, never the best or the last whole one, and env.log reports it. In a world it is collective.
 * WEFT_ORDER between two micro-batches of a step, and where the last one has not been ended. */
WEFT_API weft_status weft_checkpoint_begin(weft_checkpoint_writer *writer, int64_t step, bool is_best,
                                           const weft_checkpoint_note *notes, int n_notes, weft_error *error);
/** Whether weft_checkpoint_end() would not wait for this rank, or none is under way. Never waits. */
WEFT_API bool weft_checkpoint_is_written(const weft_checkpoint_writer *writer);
/** Waits for this rank's file and then for all ranks', completes the checkpoint, and then removes what
 * options.keep leaves out: where it has to read checkpoints of an earlier run before, on a thread of the
 * writer's own, which may take until the next one or the writer's closing. In a world it is collective. When
 * any rank fails, all get an error, older checkpoints stay as they are, and the next one can be begun.
 * WEFT_ORDER when no checkpoint was begun. */
WEFT_API weft_status weft_checkpoint_end(weft_checkpoint_writer *writer, weft_error *error);
/** @} */

/** @name Reading
 * @{ */

/** A checkpoint on disk whose manifest has been read and is whole. */
typedef struct weft_checkpoint weft_checkpoint;
/** Opens FOLDER/step-N. `env` may be NULL. NULL on failure. Close it with weft_checkpoint_close(). */
WEFT_API weft_checkpoint *weft_checkpoint_open(const char *path, const weft_env *env, weft_error *error);
/** Closes it. NULL is fine. */
WEFT_API void weft_checkpoint_close(weft_checkpoint *checkpoint);
/** Opens the newest checkpoint of a folder that verifies and is of the model of `plan` (NULL: of any);
 * env.log says why newer ones are not. A model is another one if the graphs that change values have other
 * ops, attributes, wiring or names; its batch, optimizers' settings, precision, subgraphs and flows may
 * change. With `comm` (NULL: alone) all ranks call it: they share the work and open the same one. NULL on
 * failure: WEFT_NAME where the folder has none, WEFT_FILE where it cannot use any of them. */
WEFT_API weft_checkpoint *weft_checkpoint_newest(const char *folder, const weft_plan *plan, weft_comm *comm,
                                                 const weft_env *env, weft_error *error);
/** Opens what a person names: FOLDER/step-N, which must verify and be of the model of `plan` (else it is
 * WEFT_FILE), or the newest one of a folder; `plan`, `comm` and failures as of weft_checkpoint_newest(). */
WEFT_API weft_checkpoint *weft_checkpoint_find(const char *path, const weft_plan *plan, weft_comm *comm,
                                               const weft_env *env, weft_error *error);
/** The numbers of the steps that a folder has complete checkpoints of, ascending, in *steps: free them with
 * weft_checkpoint_steps_free(), also after an error. A folder that is not there has no steps. */
WEFT_API weft_status weft_checkpoint_steps(const char *folder, const weft_env *env, int64_t **steps, int *n,
                                           weft_error *error);
/** Frees them. NULL is fine. */
WEFT_API void weft_checkpoint_steps_free(int64_t *steps);

/** The seed of the training's store. */
WEFT_API uint64_t weft_checkpoint_seed(const weft_checkpoint *checkpoint);
/** Its path; the checkpoint owns the text. */
WEFT_API const char *weft_checkpoint_path(const weft_checkpoint *checkpoint);
/** The number that it was begun with. */
WEFT_API int64_t weft_checkpoint_step(const weft_checkpoint *checkpoint);
/** The value of a note; NaN when no note has this name. */
WEFT_API double weft_checkpoint_note_value(const weft_checkpoint *checkpoint, const char *name);
/** Note 0, 1, ... in the order in which they were given; false past the end. */
WEFT_API bool weft_checkpoint_note_at(const weft_checkpoint *checkpoint, int index,
                                      weft_checkpoint_note *note);
/** Setting 0, 1, ... of the plan that was trained, as of weft_plan_setting_at(); false past the end. A
 * checkpoint of an older Weft has no settings. */
WEFT_API bool weft_checkpoint_setting_at(const weft_checkpoint *checkpoint, int index, const char **name,
                                         const char **value);
/** Name and bytes of file 0, 1, ...; false past the end. */
WEFT_API bool weft_checkpoint_file_at(const weft_checkpoint *checkpoint, int index, const char **name,
                                      uint64_t *bytes);

/** Reads every byte of its files: WEFT_FILE names the first that differs from the manifest. */
WEFT_API weft_status weft_checkpoint_verify(const weft_checkpoint *checkpoint, weft_error *error);
/** Loads it into a store of the same model, whatever the plan: of sharded values the store's part. Names,
 * types, shapes and the model's fingerprint are checked before the first value changes. The store's seed
 * becomes that of the training that was saved. Every rank loads before its session opens. */
WEFT_API weft_status weft_checkpoint_load(const weft_checkpoint *checkpoint, weft_store *store,
                                          weft_error *error);
/** @} */

/** @name Other files
 * They need no model. Neither asks whether the checkpoint is whole: weft_checkpoint_verify() does.
 * @{ */

/** Which of a checkpoint's tensors weft_checkpoint_export() writes. */
typedef enum weft_checkpoint_content {
    WEFT_CHECKPOINT_ALL = 0,     /**< as weft_session_save() with training: a training can begin with them */
    WEFT_CHECKPOINT_VALUES = 1,  /**< parameters and state alone */
    WEFT_CHECKPOINT_AVERAGES = 2 /**< the same with averages in their place, where there are some */
} weft_checkpoint_content;
/** Writes what all ranks hold together as one safetensors file, which weft_weights_load() reads: byte for
 * byte the one that weft_session_save() writes at this step. Where a subgraph has process groups, the values
 * of the one whose first rank is the lowest are written. WEFT_NAME where averages are wanted and there are
 * none. */
WEFT_API weft_status weft_checkpoint_export(const weft_checkpoint *checkpoint, const char *path,
                                            weft_checkpoint_content content, weft_error *error);
/** Writes FOLDER/step-N with `world` files, from 1 to 2^16, whole tensors in each, as even as they can be.
 * Any world resumes from either to the same bits. The folder is made if it is not there, its parent is not.
 * WEFT_ORDER where it has this step, or another process writes there. */
WEFT_API weft_status weft_checkpoint_reshard(const weft_checkpoint *checkpoint, const char *folder, int world,
                                             weft_error *error);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
