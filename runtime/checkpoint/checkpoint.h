/* checkpoint.h - what the files of this folder share: the manifest, and the names of folders, files and
 * tensors.
 *
 *     FOLDER/step-00000100/manifest.json       written last (manifest.c)
 *     FOLDER/step-00000100/rank-0.safetensors  a rank's share (share.c says which)
 *
 * write.c writes; read.c finds the one to read and proves it whole, entries.c has its tensors, load.c loads
 * them into a store, rewrite.c writes them to other files; folder.c knows which checkpoints a folder has,
 * kept.c which of them count. */
#ifndef WEFT_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define WEFT_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/session/state.h"
#include "runtime/store/stored.h"
#include "runtime/store/weights.h"
#include "weft/checkpoint.h"

/* What most files need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_NAME "manifest.json"

enum { CHECKPOINT_ROOM = 4096 /* bytes of a path */ };

/* ---- manifest.c ---- */

typedef struct manifest_file {
    const char *name;
    uint64_t bytes, hash; /* XXH3, 64 bits */
} manifest_file;

typedef struct manifest {
    arena arena; /* has the texts; of one that was read */
    int64_t step;
    uint64_t seed;     /* of the store */
    const char *model; /* its name */
    uint64_t form;     /* of what it computes (model_form) */
    int n_files, n_settings, n_notes;
    const manifest_file *files;
    const weft_setting *settings; /* of the plan that was trained */
    const weft_checkpoint_note *notes;
} manifest;

weft_status manifest_write(const manifest *m, const char *path, const weft_env *env, weft_error *error);
/* Frees nothing but m->arena, which the caller does, after a failure too. */
weft_status manifest_read(manifest *m, const char *path, const weft_env *env, weft_error *error);

/* ---- read.c ---- */

struct weft_checkpoint {
    weft_env env;
    char path[CHECKPOINT_ROOM];
    manifest m;
};

/* ---- load.c ---- */

/* What to do with one of another model. */
#define ANOTHER_MODEL                                                                                        \
    "resume with the model that it is of, or begin a training from its weights (graphtool ckpt "             \
    "export, train --weights; weft_checkpoint_export)"
/* WEFT_FILE where it is of a model that computes something else; `advice` ends the text. */
weft_status checkpoint_check_form(const weft_checkpoint *c, uint64_t form, const char *advice,
                                  weft_error *error);

/* ---- kept.c ---- */

/* The steps of a folder that are known to be whole. */
typedef struct kept {
    const weft_env *env;
    uint64_t form; /* of the model */
    size_t n, room;
    int64_t *steps;
} kept;

void kept_free(kept *k);
bool kept_has(const kept *k, int64_t step);
/* One that is not noted, as memory is out, is proven again. */
void kept_add(kept *k, int64_t step);
/* Whether it can be read, and is of another model. */
bool kept_is_others(const kept *k, const char *folder, int64_t step);
/* How many of this model a folder has, by manifests and the sizes of files; 0 where it cannot be listed. */
int kept_count(const kept *k, const char *folder);
/* Looks at the steps below `below`, from the newest on, until `most` are whole: none that cannot be read.
 * With reads = false it ends, and is false, before one that is not known, whose every byte would be read. */
bool kept_prove(kept *k, const char *folder, int most, int64_t below, bool reads);
/* Of the complete ones up to step `newest`, removes all but the last `keep` that are known to be whole, what
 * is newer than these, step `best`, and those of other models. Best effort. */
void kept_prune(kept *k, const char *folder, int keep, int64_t best, int64_t newest);
/* The step that goes first where the disk is full: the oldest of this model but `best`, if a whole one that
 * is newer, and below `below`, stays. -1: none. May read one checkpoint. */
int64_t kept_oldest(kept *k, const char *folder, int64_t best, int64_t below);
void kept_remove(kept *k, const char *folder, int64_t step);

/* ---- folder.c ---- */

/* Bytes that paths have after that of a folder, or of one of its checkpoints, at most. */
enum { BEHIND_FOLDER = 400, BEHIND_STEP = 300 };
/* WEFT_ARGUMENT where the path is NULL, empty, or so long that names after it have no room. */
weft_status path_check(const char *path, int behind, weft_error *error);
/* "FOLDER/step-00000100" and then `end`: "" for one that is complete. */
void checkpoint_path(char into[CHECKPOINT_ROOM], const char *folder, int64_t step, const char *end);
void checkpoint_file_path(char into[CHECKPOINT_ROOM], const char *path, const char *name);
/* Makes FOLDER, if it is not there. */
weft_status folder_make(const char *folder, const weft_env *env, weft_error *error);
/* Whether it has a folder: one that was not there belongs to nobody. */
bool lock_is_held(const weft_checkpoint_lock *lock);
/* Makes an empty FOLDER/step-N.tmp: what a killed process left there is removed first. */
weft_status folder_make_tmp(const char *folder, int64_t step, const weft_env *env, weft_error *error);
/* Renames step-N.tmp to step-N. One of that name makes room: a run that resumed from an earlier one comes by
 * again. */
weft_status folder_complete(const char *folder, int64_t step, const weft_env *env, weft_error *error);
/* Whether there is something of this name. */
bool folder_is_there(const char *folder, const weft_env *env);
/* Removes all that was not completed. Best effort. */
void folder_clean(const char *folder, const weft_env *env);
/* Removes a checkpoint. Best effort. */
void folder_remove(const char *folder, int64_t step, const weft_env *env);

/* ---- share.c ---- */

/* The elements [begin, end) of a tensor of the model, as a rank's file has them. */
typedef struct piece {
    const store_part *part;
    const char *name; /* in the file */
    int64_t begin, end;
    size_t at; /* bytes before it in the snapshot */
} piece;

/* What this rank writes. */
typedef struct share {
    weights w; /* all tensors of the model */
    int n;
    piece *pieces;
    safetensors_tensor *tensors; /* [n] */
    size_t bytes;
    uint64_t all_bytes; /* of all ranks */
} share;

/* Chooses it, the same way on all ranks, by the groups of the plan. The caller frees s->w.arena, after a
 * failure too. */
weft_status share_collect(share *s, const weft_plan *plan, const weft_store *store, const char *what,
                          weft_error *error);
/* Fills plan->memory.checkpoint. False: two values would have one name in files, or there is no memory, which
 * is the model's error. */
bool share_measure(weft_plan *plan);

/* The first of n numbers that is the least: where the next value goes. */
int least_of(const uint64_t *bytes, int n);

/* The name of a piece in a file: "NAME" for a whole tensor, "NAME@4096:f32[768,3072]" for elements from 4096
 * on of such a one. Behind either stands "@rank2" where the first rank of its process group is 2, not 0.
 * NULL: no memory. */
const char *piece_name(arena *a, const char *name, const tensor_type *type, int64_t begin, int64_t end,
                       int first_rank);

/* The other way, for a tensor of a file. */
typedef struct piece_key {
    const char *name; /* that of the model's tensor; in the arena */
    tensor_type type; /* of the whole tensor */
    int64_t begin, end;
    int first_rank;
} piece_key;
/* False when it cannot be: the name ends in no such words, or the numbers do not fit. key->name is NULL where
 * memory is out. */
bool piece_parse(piece_key *key, arena *a, const safetensors_tensor *t);

/* ---- entries.c: the tensors of a checkpoint, whatever files they are spread over ---- */

/* A tensor of a file: all of one of the training's, or a piece. */
typedef struct entry {
    int file;
    const safetensors_tensor *tensor;
    piece_key key;
    int whole; /* which one it is a piece of */
} entry;

/* A tensor of the training: list[first, first + n) follow one another from its first element to its last. */
typedef struct whole {
    const char *name;
    const char *says;  /* what files say of it; NULL: nothing */
    weft_stored value; /* the same, read */
    tensor_type type;
    int first_rank; /* of the process group that has it */
    int first, n;
} whole;

typedef struct entries {
    const weft_checkpoint *c;
    arena arena;
    safetensors *files; /* [n_files of the manifest] */
    int n_open;
    int awake; /* the one file that is open, as a world may have more than a process may open; -1: none */
    int n, n_wholes;
    entry *list;   /* sorted by name, first rank and begin */
    whole *wholes; /* sorted by name and first rank */
} entries;

/* Opens all files and reads their headers. Each tensor is there from its first element to its last. Call
 * entries_close after a failure too; `c` must outlive it. */
weft_status entries_open(entries *all, const weft_checkpoint *c, weft_error *error);
void entries_close(entries *all);
/* The one of that name and process group; NULL: there is none. */
const whole *entries_find(const entries *all, const char *name, int first_rank);
/* Opens a file, and closes the one that was open. */
weft_status entries_wake(entries *all, int file, weft_error *error);
/* Copies bytes [at, at + bytes) of a tensor; whole elements. */
weft_status entries_read(entries *all, const whole *from, uint64_t at, void *into, size_t bytes,
                         weft_error *error);
#endif
