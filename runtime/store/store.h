/* store.h - the values of a model: where variables lie, what changes them, and what a user can name. */
#ifndef WEFT_RUNTIME_STORE_STORE_H
#define WEFT_RUNTIME_STORE_STORE_H

#include "runtime/plan/program.h"
#include "runtime/store/device.h"

/* How the optimizer's state of a bucket is spread over its process group (ZeRO). */
typedef struct store_cut {
    int n_ranks;
    const int64_t
        *starts; /* [n_ranks + 1]: rank r has the bucket's elements from starts[r] to starts[r + 1] */
} store_cut;

typedef struct store_entry {
    struct store_entry *owner; /* whose version counts its changes: itself, or its bucket */
    const char *path;
    variable_kind kind;
    tensor_type type;
    weft_init init;
    uint64_t offset;      /* bytes */
    uint64_t version;     /* changes so far, from 1 */
    const store_cut *cut; /* of a bucket; NULL: all ranks have all */
    int arriving; /* why it may not be read yet: a gather brings parameters, a deferred part is to update it */
} store_entry;

/* What a user can name: a parameter, state, or a parameter's part of an optimizer's state, of which this rank holds
 * elements [begin, end): all, or with ZeRO its own. */
typedef struct store_part {
    const char *path;
    tensor_type type;
    int64_t begin, end;
    char *memory;          /* of element `begin`, on the store's device; NULL: none is here */
    store_entry *owner;    /* likewise */
    const char *parameter; /* itself, or whose optimizer state it is; NULL: a number that belongs to nobody */
    const store_cut *cut;  /* of its bucket, in which the parameter begins at element `offset` */
    int64_t offset;
} store_part;
/* In a fixed order, the same on all ranks; NULL past the end. */
const store_part *store_part_at(const weft_store *store, int index);
/* Why a number of an optimizer (step, lr, ...) cannot be `value`; NULL: it can, or it is not one of these. */
const char *store_number_rule(const store_part *part, double value);
/* Bytes of a part's memory (from its element `begin` on), to and from the host's; writing counts as a change. */
weft_status store_read(const weft_store *store, const store_part *part, size_t at, void *into, size_t bytes,
                       weft_error *error);
weft_status store_write(weft_store *store, const store_part *part, size_t at, const void *from, size_t bytes,
                        weft_error *error);
const device *store_device(const weft_store *store);

/* The memory of a variable in a store, NULL when there is none of this path and type. */
void *store_memory(const weft_store *store, const char *path, const tensor_type *type);
uint64_t store_seed(const weft_store *store);
/* Counts the changes of a variable's memory (a parameter's: of its bucket's), from 1; writers add to it. */
uint64_t *store_version(const weft_store *store, const weft_variable *v);
const weft_env *store_env(const weft_store *store);
/* Where a variable's changes are counted; NULL: the store has none of that path. */
store_entry *store_owner(const weft_store *store, const weft_variable *v);
/* A session says that new values are on their way into a variable (1), or are there (-1). */
void store_note_arriving(weft_store *store, store_entry *entry, int change);
int store_arriving(const weft_store *store); /* how many are on their way */
/* WEFT_ORDER while any are on their way. */
weft_status store_check_settled(const weft_store *store, const char *what, weft_error *error);
/* WEFT_ORDER unless buckets are shared out as the plan has them. */
weft_status store_check_cuts(const weft_store *store, const weft_plan *plan, weft_error *error);
/* What has come from files. */
enum { LOADED_VALUES = 1, LOADED_STATE = 2 };
unsigned *store_loaded(weft_store *store);
bool store_has_parameter(const weft_store *store,
                         const char *path); /* false for state, and for no such path */

#endif
