/* store.h - the values of a model: the memory of variables, the counts of their changes, and the parts that
 * users can name. */
#ifndef WEFT_RUNTIME_STORE_STORE_H
#define WEFT_RUNTIME_STORE_STORE_H

#include "graph/settings/minimize.h"
#include "runtime/plan/program.h"
#include "runtime/store/device.h"

#include <pthread.h>

/* How the optimizer state of a bucket is divided among its process group (ZeRO). */
typedef struct store_cut {
    int n_ranks;
    /* [n_ranks + 1]: rank r has the bucket's elements [starts[r], starts[r + 1]); of a state that is shorter
     * than the bucket (slot_shape), the state's */
    const int64_t *starts;
} store_cut;

/* A variable in the store. */
typedef struct store_entry {
    /* its version counts this entry's changes: the entry itself, or its bucket's */
    struct store_entry *owner;
    const char *path;
    variable_kind kind;
    tensor_type type;
    weft_init init;
    uint64_t offset;      /* bytes from the start of the store's memory */
    uint64_t version;     /* number of changes, from 1 */
    const store_cut *cut; /* of a sharded bucket; NULL: every rank has all of it */
    /* above 0, it may not be read yet: so many gathers or pending deferred parts will still write it */
    int arriving;
} store_entry;

/* A part is what a user can name: a parameter, state, or one parameter's share of an optimizer's state. This
 * rank holds its elements [begin, end): all, or with ZeRO those in its range. */
typedef struct store_part {
    const char *path;
    weft_stored_kind kind;
    tensor_type type;
    int64_t begin, end;
    char *memory;       /* of element `begin`, on the store's device; NULL: this rank holds none */
    store_entry *owner; /* counts its changes; NULL likewise */
    /* the parameter or state that it is, or whose optimizer state it is; NULL: a number of an optimizer */
    const char *parameter;
    const char *optimizer; /* whose number it is; NULL: of none */
    /* of its bucket, or the state over it, in which the part begins at element `offset`; NULL: not sharded */
    const store_cut *cut;
    int64_t offset;
    /* the first rank of the process group that has these values; 0 also for what all ranks have */
    int first_rank;
} store_part;

/* Which kinds of values came from files. */
enum { LOADED_VALUES = 1, LOADED_STATE = 2 };

struct weft_store {
    weft_env env;
    int sessions; /* that hold it, by atomic operations: weft_store_free() leaves it to the last one */
    arena arena;
    const device *device;
    uint64_t form; /* of the plan */
    uint64_t seed; /* fixed once a session is open on it */
    char *memory;  /* on the device */
    uint64_t bytes;
    /* Entries are variables; parts (n_public of them) are what users can name. */
    int n_entries, n_public;
    int n_arriving;    /* sum of the entries' counts */
    unsigned loaded;   /* LOADED_VALUES, LOADED_STATE */
    bool has_averages; /* in the place of parameters */
    store_entry *entries;
    name_table by_path; /* store_entry by path */
    store_part *parts;
    name_table named; /* store_part by path */
    bool has_lock;
    pthread_mutex_t lock; /* of `work` */
    device_work *work;    /* of the sessions that are open on it */
};

/* The parts of a store of the plan, without their memory: nothing can be read, and no session opens on it.
 * NULL: no memory. The caller frees it with weft_store_free. */
weft_store *store_outline(const weft_plan *plan);
/* Parts in a fixed order, the same on all ranks; NULL past the end. */
const store_part *store_part_at(const weft_store *store, int index);
/* The part of this path; NULL: there is none. */
const store_part *store_part_of(const weft_store *store, const char *path);
/* Whether the parameter or state of this path has an average (weft_optimizer.ema). */
bool store_has_average(const weft_store *store, const char *path);
/* WEFT_ORDER while averages are in the place of parameters. */
weft_status store_check_parameters(const weft_store *store, const char *what, weft_error *error);
/* Why a number of an optimizer (step, lr, ...) cannot be `value`; NULL: it can, or the part is no such
 * number. */
const char *store_number_rule(const store_part *part, double value);
/* Copies `bytes` of a part's memory, from byte `at` after its element `begin`, to or from the host. Writing
 * counts as a change. */
weft_status store_read(const weft_store *store, const store_part *part, size_t at, void *into, size_t bytes,
                       weft_error *error);
weft_status store_write(weft_store *store, const store_part *part, size_t at, const void *from, size_t bytes,
                        weft_error *error);
/* A session's queues on the device, from its opening to its closing. Removing what was not added does
 * nothing. Sessions on one store may be in several threads, as long as none of them writes. */
void store_add_work(weft_store *store, device_work *work);
void store_remove_work(weft_store *store, const device_work *work);
/* Copies from the store's device, after the work of all its sessions: memory of the store or of a session. */
weft_status store_fetch(const weft_store *store, void *into, const void *from, size_t bytes,
                        weft_error *error);

/* The memory of a variable; NULL: the store has none of this path and type. */
void *store_memory(const weft_store *store, const char *path, const tensor_type *type);
/* The number of changes of a variable's memory (for a parameter: of its bucket), from 1. Whoever writes the
 * memory increments it. */
uint64_t *store_version(const weft_store *store, const weft_variable *v);
/* The entry that counts a variable's changes; NULL: the store has none of that path. */
store_entry *store_owner(const weft_store *store, const weft_variable *v);
/* A session reports that new values will arrive in a variable (1), or have arrived (-1). */
void store_note_arriving(weft_store *store, store_entry *entry, int change);
/* WEFT_ORDER while values of any variable are arriving. */
weft_status store_check_settled(const weft_store *store, const char *what, weft_error *error);
/* WEFT_ORDER unless the ranges of sharded buckets are the plan's. */
weft_status store_check_cuts(const weft_store *store, const weft_plan *plan, weft_error *error);
bool store_has_parameter(const weft_store *store, const char *path); /* false also for state */

#endif
