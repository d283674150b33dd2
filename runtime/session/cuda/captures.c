/* captures.c - keeps captures apart from calls that wait for the whole device, which break every capture
 * on it, in any thread and whatever its mode. Weft itself waits for streams of its own only, and captures
 * in thread-local mode, in which other threads may allocate, free and load. What is left are libraries:
 * freeing a handle of cuDNN or cuBLAS waits for the device (cudnnDestroy's documentation). Sessions that
 * close wait here until no other captures; so do reads of a store, which wait for streams of sessions that
 * may be in other threads, as waiting for a stream breaks its capture. So this is a lock of the process, as
 * the rule is CUDA's for the process; there is one for each GPU, since closing a session on one must not wait
 * for a rank on another. */
#include "runtime/session/cuda/session.h"

#include <pthread.h>

#define ONE   PTHREAD_RWLOCK_INITIALIZER
#define EIGHT ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE
/* GPU 16 shares the lock of GPU 0, and so on: there closing may wait for a capture elsewhere, no longer. */
static pthread_rwlock_t locks[] = {EIGHT, EIGHT};

static pthread_rwlock_t *lock_of(int device) {
    return &locks[(size_t)device % (sizeof locks / sizeof *locks)];
}

void cuda_capture_enter(int device) {
    pthread_rwlock_rdlock(lock_of(device));
}

void cuda_capture_leave(int device) {
    pthread_rwlock_unlock(lock_of(device));
}

void cuda_captures_hold(int device) {
    pthread_rwlock_wrlock(lock_of(device));
}

void cuda_captures_release(int device) {
    pthread_rwlock_unlock(lock_of(device));
}
