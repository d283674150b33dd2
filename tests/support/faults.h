/* faults.h - files in memory, and counted memory, both of which can fail on demand: at the n-th call, once or
 * from then on. So every path through a failure runs without a full disk or a small machine. Any thread may
 * allocate, and use files of its own. */
#ifndef WEFT_TEST_FAULTS_H
#define WEFT_TEST_FAULTS_H

#include "weft/env.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fake_file {
    struct fake_file *next;
    char *name, *data;
    size_t bytes;
    bool is_synced;
} fake_file;

typedef struct faults {
    weft_env env; /* for the library */
    weft_allocator allocator;
    weft_io io;
    /* Memory. */
    _Atomic size_t live, peak, largest; /* bytes: now, at most at once, in one piece */
    size_t cap;                         /* allocations beyond this many live bytes fail; 0: no limit */
    atomic_long allocations;
    long fail_allocation;
    /* Files. */
    fake_file *files;
    pthread_mutex_t lock; /* of the list of files */
    atomic_long calls, handles;
    long fail_call;
    uint64_t disk;     /* bytes that weft_io.free_bytes tells; 0: no end of them */
    uint64_t capacity; /* bytes that all files may have together, which it tells then; 0: no end of them */
    bool fail_from_then_on;
} faults;

void faults_init(faults *f);
void faults_end(faults *f); /* frees the files */
/* Resets the counters and sets the next failures; 0: never. */
void faults_arm(faults *f, long allocation, long call, bool from_then_on);
/* Has an armed call been reached since faults_arm? */
bool faults_hit(const faults *f);

/* Runs `act` with its n-th allocation or file call failing, n = 1, 2, ... until none is left to fail. */
void faults_inject(faults *f, bool memory, weft_status (*act)(faults *f, weft_error *error),
                   void (*after)(faults *f));

void fake_put(faults *f, const char *name, const void *data, size_t bytes);
const fake_file *fake_get(const faults *f, const char *name); /* NULL when there is none */
int fake_count(const faults *f);

#endif
