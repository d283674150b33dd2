/* loader.h - what the files of the loader share: what it was made of, the epoch's order, and the slots in
 * which batches are assembled. */
#ifndef WEFT_RUNTIME_DATA_LOADER_H
#define WEFT_RUNTIME_DATA_LOADER_H

#include "runtime/data/kit.h"
#include "weft/data.h"

#include <pthread.h>

/* Where a batch is assembled, kept and given to the caller. */
typedef enum slot_state { SLOT_EMPTY, SLOT_READING, SLOT_READY } slot_state;
typedef struct slot {
    slot_state state;
    int64_t batch; /* its number in this rank's epoch; -1: none */
    int64_t rows;
    char **data; /* [n_arrays]: room for `room` rows each */
    char **raw;  /* [n_arrays]: where one of a sample is read that is converted; NULL: it is not */
    weft_error error;
} slot;

struct weft_loader {
    kit_arena memory, batches;   /* batches: by the allocator of batches */
    weft_loader_options options; /* with defaults filled in */
    int n, n_arrays;
    const weft_source **sources;      /* [n] */
    const weft_source_array **arrays; /* [n_arrays], those of all sources */
    const char **names;               /* [n_arrays], options.names; NULL: messages take the sources' */
    weft_source_array *given;         /* [n_arrays], the same as they are in batches */
    size_t *row_bytes;                /* [n_arrays], in batches */
    int64_t samples, dealt;           /* samples of the sources; of an epoch */
    int64_t room;                     /* most rows that a batch can have */
    int64_t *order;                   /* order[place] is a sample; NULL: samples in their order */
    int64_t epoch;
    weft_source_array drawn; /* the array of draws, if there are any: the last one */

    /* The mutex guards what follows, and the order while threads read. */
    pthread_mutex_t mutex;
    pthread_cond_t work, done; /* there is a batch to read or the end has come; a batch has been read */
    /* This rank's next batches, from 0: those of the list from `at` on, then `next`, next + 1 ... */
    int64_t next, *list;
    int n_list, at;
    int n_slots, held; /* held: the slot that the caller looks at; -1: none */
    slot *slots;
    int n_threads;     /* that run */
    bool ends, pauses; /* pauses: no thread begins to read */
    pthread_t *threads;

    /* The caller's alone: seconds that it was in calls for data, and the reader of them. */
    double waited;
    void (*event)(void *context, const weft_loader_event *event);
    void *event_context;
};

/* loader.c: the k-th batch from now on; the sample at `row` of this rank's batch `batch`, and the batch's
 * number of rows. */
int64_t loader_coming(const weft_loader *l, int k);
int64_t loader_sample(const weft_loader *l, int64_t batch, int64_t row);
int64_t loader_rows(const weft_loader *l, int64_t batch);
/* Bytes of one sample's array. */
size_t loader_array_bytes(const weft_source_array *a);
/* Room for each array of a sample; false: out of memory. */
bool sample_room(kit_arena *memory, const weft_source *s, void *into[WEFT_SOURCE_ARRAYS]);
/* What messages call array i. */
const char *loader_array_name(const weft_loader *l, int i, char number[24]);

/* wait.c: what the caller waited in a call for this batch, or for an epoch (-1). */
void loader_note(weft_loader *l, int64_t batch, uint64_t began_ns);

/* reader.c */
weft_status slots_new(weft_loader *l, weft_error *error);
void threads_end(weft_loader *l);
/* Waits until no thread reads; then empties all slots. The mutex must be locked. */
void slots_empty(weft_loader *l);

#endif
