/* faults.c - see faults.h. */
#include "support/faults.h"

#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_due(long now, long armed, bool from_then_on) {
    return armed && (now == armed || (from_then_on && now > armed));
}

/* ---- memory ---- */

enum { FILLED = 256 << 10 /* bytes of rubbish: in buffers of files it would take most of the time */ };

static void *counted_alloc(void *context, size_t bytes, size_t alignment) {
    faults *f = context;
    if (is_due(++f->allocations, f->fail_allocation, f->fail_from_then_on)) return NULL;
    if (f->cap && (bytes > f->cap || f->live > f->cap - bytes)) return NULL;
    /* Exactly as long as asked for, so that the sanitizer sees one byte too many. */
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes)) return NULL;
    memset(memory, 0xa5, bytes < FILLED ? bytes : FILLED);
    f->live += bytes;
    if (f->live > f->peak) f->peak = f->live;
    if (bytes > f->largest) f->largest = bytes;
    return memory;
}

static void counted_free(void *context, void *memory, size_t bytes) {
    faults *f = context;
    f->live -= bytes;
    free(memory);
}

/* ---- files ---- */

static bool fails(faults *f) {
    return is_due(++f->calls, f->fail_call, f->fail_from_then_on);
}

static fake_file *find(const faults *f, const char *name) {
    for (fake_file *file = f->files; file; file = file->next)
        if (strcmp(file->name, name) == 0) return file;
    return NULL;
}

static int fake_open_read(void *context, const char *path, void **file, uint64_t *bytes) {
    faults *f = context;
    if (fails(f)) return EACCES;
    const fake_file *found = fake_get(f, path);
    if (!found) return ENOENT;
    f->handles++;
    *file = (void *)(uintptr_t)found;
    *bytes = found->bytes;
    return 0;
}

static int fake_open_write(void *context, const char *path, void **file) {
    faults *f = context;
    if (fails(f)) return EROFS;
    fake_put(f, path, "", 0);
    f->handles++;
    *file = (void *)(uintptr_t)fake_get(f, path);
    return 0;
}

static int fake_open_append(void *context, const char *path, uint64_t bytes, void **file) {
    faults *f = context;
    if (fails(f)) return EROFS;
    fake_file *found = (fake_file *)(uintptr_t)fake_get(f, path);
    if (!found) return ENOENT;
    if (found->bytes > bytes) found->bytes = bytes;
    f->handles++;
    *file = found;
    return 0;
}

static int fake_read(void *context, void *file, uint64_t offset, void *into, size_t bytes) {
    faults *f = context;
    fake_file *from = file;
    if (fails(f)) return EIO;
    if (offset > from->bytes || bytes > from->bytes - offset) return ENODATA;
    memcpy(into, from->data + offset, bytes);
    return 0;
}

static uint64_t left_on_disk(faults *f) {
    uint64_t used = 0;
    if (!f->capacity) return UINT64_MAX;
    pthread_mutex_lock(&f->lock);
    for (const fake_file *file = f->files; file; file = file->next) used += file->bytes;
    pthread_mutex_unlock(&f->lock);
    return used < f->capacity ? f->capacity - used : 0;
}

/* A write that fails leaves half of its bytes, as a full disk does. */
static int fake_write(void *context, void *file, const void *from, size_t bytes) {
    faults *f = context;
    fake_file *to = file;
    uint64_t left = left_on_disk(f);
    bool bad = fails(f) || bytes > left;
    size_t kept = !bad ? bytes : bytes / 2 < left ? bytes / 2 : (size_t)left;
    char *data = realloc(to->data, to->bytes + kept + 1);
    if (!data) return ENOMEM;
    memcpy(data + to->bytes, from, kept);
    to->data = data;
    to->bytes += kept;
    to->is_synced = false;
    return bad ? ENOSPC : 0;
}

static int fake_sync(void *context, void *file) {
    if (fails(context)) return EIO;
    ((fake_file *)file)->is_synced = true;
    return 0;
}

static int fake_close(void *context, void *file) {
    faults *f = context;
    (void)file;
    f->handles--;
    return fails(f) ? EIO : 0;
}

static void drop(faults *f, const char *name) {
    for (fake_file **at = &f->files; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) {
            fake_file *gone = *at;
            *at = gone->next;
            free(gone->name);
            free(gone->data);
            free(gone);
            return;
        }
}

/* What stands after "FOLDER/" in a name; NULL: it is not in the folder. */
static const char *inside(const char *name, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(name, folder, n) == 0 && name[n] == '/' ? name + n + 1 : NULL;
}

static void rename_one(fake_file *file, const char *to, const char *rest) {
    char name[4096];
    snprintf(name, sizeof name, "%s%s%s", to, rest ? "/" : "", rest ? rest : "");
    free(file->name);
    file->name = strdup(name);
}

/* A folder is a name with files in it. */
static int fake_rename(void *context, const char *from, const char *to) {
    faults *f = context;
    bool found = false;
    if (fails(f)) return EIO;
    pthread_mutex_lock(&f->lock);
    if (find(f, from)) drop(f, to);
    for (fake_file *file = f->files; file; file = file->next) {
        const char *rest = inside(file->name, from);
        if (!rest && strcmp(file->name, from) != 0) continue;
        rename_one(file, to, rest);
        found = true;
    }
    pthread_mutex_unlock(&f->lock);
    return found ? 0 : ENOENT;
}

/* Folders are those that files are in, and cannot be empty. */
static int fake_make_folder(void *context, const char *path) {
    faults *f = context;
    if (fails(f)) return EROFS;
    bool found = false;
    pthread_mutex_lock(&f->lock);
    for (fake_file *file = f->files; file; file = file->next) found |= inside(file->name, path) != NULL;
    pthread_mutex_unlock(&f->lock);
    return found ? EEXIST : 0;
}

static int fake_list(void *context, const char *path, void (*each)(void *to, const char *name), void *to) {
    faults *f = context;
    if (fails(f)) return EIO;
    bool found = false;
    pthread_mutex_lock(&f->lock);
    for (fake_file *file = f->files; file; file = file->next) {
        const char *rest = inside(file->name, path);
        if (!rest) continue;
        char name[4096];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "/"), rest);
        bool is_new = true;
        for (fake_file *before = f->files; before != file; before = before->next) {
            const char *other = inside(before->name, path);
            is_new &=
                !other || strcspn(other, "/") != strlen(name) || strncmp(other, name, strlen(name)) != 0;
        }
        if (is_new) each(to, name);
        found = true;
    }
    pthread_mutex_unlock(&f->lock);
    return found ? 0 : ENOENT;
}

static int fake_remove(void *context, const char *path) {
    faults *f = context;
    if (fails(f)) return EACCES;
    bool is_full = false;
    pthread_mutex_lock(&f->lock);
    for (fake_file *file = f->files; file; file = file->next) is_full |= inside(file->name, path) != NULL;
    if (!is_full) drop(f, path);
    pthread_mutex_unlock(&f->lock);
    return is_full ? ENOTEMPTY : 0;
}

static int fake_free_bytes(void *context, const char *path, uint64_t *bytes) {
    faults *f = context;
    (void)path;
    if (fails(f)) return EIO;
    *bytes = f->disk ? f->disk : left_on_disk(f);
    return 0;
}

/* ---- the table ---- */

void faults_init(faults *f) {
    *f = (faults){.allocator = {counted_alloc, counted_free, f},
                  .io = {fake_open_read, fake_open_write, fake_open_append, fake_read, fake_write, fake_sync,
                         fake_close, fake_rename, fake_remove, fake_make_folder, fake_list, fake_free_bytes,
                         f}};
    pthread_mutex_init(&f->lock, NULL);
    f->env = (weft_env){.allocator = &f->allocator, .io = &f->io};
}

void faults_end(faults *f) {
    while (f->files) drop(f, f->files->name);
    pthread_mutex_destroy(&f->lock);
}

void faults_arm(faults *f, long allocation, long call, bool from_then_on) {
    f->allocations = f->calls = 0;
    f->peak = f->live;
    f->largest = 0;
    f->fail_allocation = allocation;
    f->fail_call = call;
    f->fail_from_then_on = from_then_on;
}

bool faults_hit(const faults *f) {
    return (f->fail_allocation && f->allocations >= f->fail_allocation) ||
           (f->fail_call && f->calls >= f->fail_call);
}

void fake_put(faults *f, const char *name, const void *data, size_t bytes) {
    fake_file *file = calloc(1, sizeof *file);
    file->name = strdup(name);
    file->data = malloc(bytes + 1);
    memcpy(file->data, data, bytes);
    file->bytes = bytes;
    pthread_mutex_lock(&f->lock);
    drop(f, name);
    file->next = f->files;
    f->files = file;
    pthread_mutex_unlock(&f->lock);
}

const fake_file *fake_get(const faults *f, const char *name) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&f->lock;
    pthread_mutex_lock(lock);
    const fake_file *found = find(f, name);
    pthread_mutex_unlock(lock);
    return found;
}

int fake_count(const faults *f) {
    int n = 0;
    for (const fake_file *file = f->files; file; file = file->next) n++;
    return n;
}

/* Runs `act` with its n-th allocation or file call failing, n = 1, 2, ... until none is left to fail; in
 * short runs each of the first 40, then every third. */
void faults_inject(faults *f, bool memory, weft_status (*act)(faults *f, weft_error *error),
                   void (*after)(faults *f)) {
    for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
        for (long n = 1;; n += test_is_quick() && n > 40 ? 3 : 1) {
            weft_error error = {0};
            size_t live = f->live;
            faults_arm(f, memory ? n : 0, memory ? 0 : n, from_then_on);
            weft_status status = act(f, &error);
            bool hit = faults_hit(f);
            faults_arm(f, 0, 0, false);
            if (!hit) break;
            CHECK_SAYS(status == WEFT_OK || (status == error.status && *error.text),
                       "call %ld: status %d, \"%s\"", n, status, error.text);
            CHECK_SAYS(f->live == live && f->handles == 0, "call %ld: %zu bytes and %ld files are left", n,
                       f->live - live, f->handles);
            if (after) after(f);
            if (!CHECK(n < 10000)) return;
        }
    }
}
