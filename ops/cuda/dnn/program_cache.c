/* program_cache.c - see program_cache.h. A file is: 8 letters, the key, the hash of the code, the code. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ops/cuda/dnn/program_cache.h"

#include "graph/file/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes of a file that is read at most, and of its path. */
enum { CODE_LIMIT = 64 << 20, PATH_ROOM = 1024 };

typedef struct header {
    char letters[8];
    program_key key, code;
} header;
static const char letters[8] = "WEFTCUB1";

static program_key key_from(XXH128_hash_t h) {
    return (program_key){h.high64, h.low64};
}

static bool key_equal(program_key a, program_key b) {
    return a.high == b.high && a.low == b.low;
}

/* 128 bits of the source and of the compiler's name, version and options. */
program_key program_key_of(const char *source, const char *compiler) {
    program_key options = key_from(XXH3_128bits(compiler, strlen(compiler)));
    program_key k = key_from(XXH3_128bits_withSeed(source, strlen(source), options.low));
    return (program_key){k.high ^ options.high, k.low};
}

/* The path of a key's file; with `make`, creates the folders above it. Returns false when neither variable
 * names an absolute folder, or the path is too long. */
static bool file_path(program_key key, char path[PATH_ROOM], bool make) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool has_cache = cache && *cache == '/';
    if (!has_cache && (!home || *home != '/')) return false;
    const char *folders[] = {has_cache ? "" : "/.cache", "/weft", "/nvrtc"};
    int used = snprintf(path, PATH_ROOM, "%s", has_cache ? cache : home);
    for (int i = 0; i < 3 && used < PATH_ROOM; i++) {
        used += snprintf(path + used, PATH_ROOM - (size_t)used, "%s", folders[i]);
        /* if this fails, so does opening the file */
        if (make && used < PATH_ROOM) mkdir(path, 0777);
    }
    if (used < PATH_ROOM)
        used += snprintf(path + used, PATH_ROOM - (size_t)used, "/%016llx%016llx.cubin",
                         (unsigned long long)key.high, (unsigned long long)key.low);
    return used < PATH_ROOM;
}

/* Checks the letters, the key and the hash of the code: a torn or foreign file is ignored. */
bool program_recall(const weft_env *env, program_key key, program_code *c) {
    char path[PATH_ROOM];
    header h;
    weft_error unused = {0};
    size_t bytes;
    if (!file_path(key, path, false)) return false;
    if (file_read_all(env, path, CODE_LIMIT, &c->data, &bytes, &unused) != WEFT_OK) return false;
    c->room = bytes + 1;
    c->code = c->data + sizeof h;
    c->bytes = bytes - sizeof h;
    bool is_whole = bytes > sizeof h;
    if (is_whole) {
        memcpy(&h, c->data, sizeof h);
        is_whole = memcmp(h.letters, letters, sizeof letters) == 0 && key_equal(h.key, key) &&
                   key_equal(h.code, key_from(XXH3_128bits(c->code, c->bytes)));
    }
    if (!is_whole) mem_free(env, c->data, c->room);
    return is_whole;
}

/* The cache only saves time, so all its failures are ignored. */
void program_keep(const weft_env *env, program_key key, const void *code, size_t bytes) {
    char path[PATH_ROOM];
    weft_error unused = {0};
    file_writer w;
    /* the file is written under another name and renamed, so readers see all of it or nothing */
    header h = {.key = key, .code = key_from(XXH3_128bits(code, bytes))};
    memcpy(h.letters, letters, sizeof letters);
    if (!file_path(key, path, true)) return;
    /* after a failure the calls below do nothing, and no file is left */
    file_begin(&w, env, path, &unused);
    file_append(&w, &h, sizeof h);
    file_append(&w, code, bytes);
    file_finish(&w, WEFT_OK);
}
