/* support.c - weft/support.h: what code around the library shares with it, by the names that it may use. */
#define _GNU_SOURCE /* clock_gettime */
#include "weft/support.h"

#include "graph/core/graph.h"
#include "graph/core/nearest.h"
#include "graph/core/type.h"
#include "graph/file/io.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

weft_status weft_error_set(weft_error *error, weft_status status, const char *text) {
    return error_set(error, status, "%s", text ? text : weft_status_text(status));
}

weft_status weft_error_io(weft_error *error, const char *path, const char *what, int code) {
    return io_fail(error, path ? path : "?", what ? what : "cannot be used", code);
}

weft_status weft_reserved_check(const uint64_t *reserved, size_t bytes, const char *what, weft_error *error) {
    return reserved_check(reserved, bytes, what, error);
}

const char *weft_nearest(const char *word, const char *best, const char *name) {
    nearest near = nearest_to(word ? word : "", word ? strlen(word) : 0);
    if (best) nearest_try(&near, best);
    if (name) nearest_try(&near, name);
    return near.name;
}

void *weft_memory_new(const weft_env *env, size_t bytes) {
    return mem_raw(env, bytes);
}

void weft_memory_free(const weft_env *env, void *memory, size_t bytes) {
    mem_free(env, memory, bytes);
}

void weft_text_free(char *text) {
    free(text);
}

const weft_io *weft_files(const weft_env *env) {
    return io_of(env);
}

size_t weft_dtype_bytes(weft_dtype dtype) {
    return dtype_bytes(dtype);
}

const char *weft_dtype_name(weft_dtype dtype) {
    return dtype_name(dtype);
}

void weft_graph_fail(weft_graph *graph, weft_status status, const char *text) {
    if (graph) graph_fail(graph, status, "%s", text ? text : weft_status_text(status));
}

uint64_t weft_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
