/* room.c - see room.h: what the machine, the control groups of this process and its limits leave. Files of
 * /proc tell no length and are the operating system's own, so they are not read through weft_env. What
 * cannot be read does not limit. */
#include "runtime/store/room.h"

#include "runtime/plan/program.h"
#include "runtime/plan/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_ROOM = 1024, FILE_ROOM = 16 << 10 };

/* ---- files of numbers ---- */

/* The text of a small file; false: it cannot be read. */
static bool read_text(const char *root, const char *path, char text[FILE_ROOM]) {
    char whole[PATH_ROOM];
    size_t n = 0;
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return false;
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    for (ssize_t more; n < FILE_ROOM - 1 && (more = read(fd, text + n, FILE_ROOM - 1 - n)) > 0;)
        n += (size_t)more;
    close(fd);
    text[n] = 0;
    return n > 0;
}

/* The number after `key` at the beginning of a line; 0: there is none. */
static uint64_t number_of(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && strchr(": \t", line[n])) return strtoull(line + n + 1, NULL, 10);
    }
    return 0;
}

static void take_less(room *r, uint64_t bytes, const char *kind, const char *name) {
    if (bytes >= r->bytes) return;
    r->bytes = bytes;
    snprintf(r->by, sizeof r->by, "%s%.200s", kind, name);
}

/* ---- the machine ---- */

static void look_at_machine(room *r, const char *root, char text[FILE_ROOM]) {
    uint64_t free = read_text(root, "/proc/meminfo", text) ? number_of(text, "MemAvailable") : 0;
    if (free) take_less(r, free * 1024, "this machine", "");
}

/* ---- control groups ---- */

/* The names of one of the two versions. */
typedef struct cgroup_files {
    const char *most, *used, *caches[2]; /* files, and lines of memory.stat */
} cgroup_files;
static const cgroup_files first_version = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
static const cgroup_files second_version = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

/* A group without a limit says "max", or a number beyond any memory. */
static void look_at_group(room *r, const char *root, const char *mount, const char *group, int length,
                          const cgroup_files *f, char text[FILE_ROOM]) {
    char path[PATH_ROOM], name[PATH_ROOM];
    snprintf(path, sizeof path, "%s%.*s/%s", mount, length, group, f->most);
    if (!read_text(root, path, text) || text[0] < '0' || text[0] > '9') return;
    uint64_t most = strtoull(text, NULL, 10), used, caches = 0;
    snprintf(path, sizeof path, "%s%.*s/%s", mount, length, group, f->used);
    if (!read_text(root, path, text)) return;
    used = strtoull(text, NULL, 10);
    snprintf(path, sizeof path, "%s%.*s/memory.stat", mount, length, group);
    for (int i = 0; i < 2; i++)
        if (read_text(root, path, text)) caches += number_of(text, f->caches[i]);
    used = used > caches ? used - caches : 0;
    snprintf(name, sizeof name, "%.*s", length ? length : 1, length ? group : "/");
    take_less(r, most > used ? most - used : 0, "control group ", name);
}

/* A limit holds for all groups below, so each one on the way up may be the one that counts. In a container
 * the path may be the host's, of which only the end, the root of what is mounted here, is there. */
static void look_up(room *r, const char *root, const char *mount, const char *group, const cgroup_files *f,
                    char text[FILE_ROOM]) {
    int length = (int)strlen(group);
    while (length && group[length - 1] == '/') length--;
    for (; length >= 0; length--)
        if (!length || group[length] == '/' || !group[length])
            look_at_group(r, root, mount, group, length, f, text);
}

/* Lines "4:memory:/job/1" of the first version, "0::/job/1" of the second. */
static void look_at_groups(room *r, const char *root, char text[FILE_ROOM]) {
    char lines[FILE_ROOM], *rest = NULL;
    if (!read_text(root, "/proc/self/cgroup", lines)) return;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *kind = strchr(line, ':'), *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!kind[1]) look_up(r, root, "/sys/fs/cgroup", group, &second_version, text);
        if (!kind[1]) look_up(r, root, "/sys/fs/cgroup/unified", group, &second_version, text);
        if (strstr(kind, "memory")) look_up(r, root, "/sys/fs/cgroup/memory", group, &first_version, text);
    }
}

/* ---- limits of this process alone ---- */

/* This one counts address space, so stacks of threads and what libraries map count too; oneDNN and OpenMP end
 * the process where they get none. A GAN of 1.4 GB with two threads needed 70 MB. */
static void look_at_limit(room *r, const char *root, int threads, char text[FILE_ROOM]) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return;
    uint64_t used = read_text(root, "/proc/self/status", text) ? number_of(text, "VmSize") * 1024 : 0;
    used += (uint64_t)(64 + 16 * threads) << 20;
    take_less(r, limit.rlim_cur > used ? limit.rlim_cur - used : 0,
              "ulimit -v, beside what threads and libraries need", "");
}

static bool has_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* The machine's and the groups' memory is for all ranks; so many threads or processes have their share. */
room room_at(const char *root, int local_world, int threads) {
    char text[FILE_ROOM];
    room r = {.bytes = UINT64_MAX};
    look_at_machine(&r, root, text);
    look_at_groups(&r, root, text);
    if (local_world > 1 && r.bytes != UINT64_MAX) r.bytes /= (uint64_t)local_world;
    look_at_limit(&r, root, threads, text);
    return r;
}

/* That the plan's device leaves to each rank. */
static room room_of(const weft_plan *plan, const device *d, int local_world) {
    const weft_allocator *own = plan->env.allocator;
    room r = {.bytes = UINT64_MAX};
    size_t left, all;
    if (d->room) {
        if (!d->room(&left, &all, NULL)) r.bytes = left;
        snprintf(r.by, sizeof r.by, "the GPU");
        return r;
    }
    if (!own) return room_at("", local_world, plan->kernels.threads);
    if (own->room) r.bytes = own->room(own->context);
    snprintf(r.by, sizeof r.by, "the program's allocator");
    return r;
}

/* ---- what takes most ---- */

/* The largest value of the arena of the program that needs most; NULL: nothing is in it. */
static const weft_value *largest_value(const weft_plan *plan) {
    const program *most = NULL;
    const weft_value *largest = NULL;
    for (int i = 0; i < plan->n_programs; i++)
        if (!most || plan->programs[i].arena_bytes > most->arena_bytes) most = &plan->programs[i];
    for (const weft_node *n = most ? most->graph->first : NULL; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *v = &n->out[k];
            if (value_is_arenas(v) && (!largest || type_bytes(&v->type) > type_bytes(&largest->type)))
                largest = v;
        }
    return largest;
}

/* A kind of memory. */
typedef struct taker {
    const char *name;
    uint64_t bytes;
    const weft_value *largest; /* of it; NULL: not reported */
} taker;

static int by_bytes(const void *a, const void *b) {
    const taker *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->name, y->name);
}

/* "activations 6.1 GiB (the largest: conv2d in net/conv2, 1.2 GiB), parameters 1.0 GiB, ..." */
static void tell_takers(const weft_plan *plan, uint64_t more, const char *name, char *into, size_t room) {
    const weft_memory *m = &plan->memory;
    enum { KINDS = 7, MOST = 3 };
    taker all[KINDS] = {{"activations", m->activations, largest_value(plan)},
                        {"optimizer state", m->optimizer, NULL},
                        {"parameters", m->parameters, NULL},
                        {"gradients of micro-batches", m->gradients, NULL},
                        {"copies of parameters in other layouts", m->derived, NULL},
                        {"inputs", m->inputs, NULL},
                        {name ? name : "other sessions and a checkpoint's copy", more, NULL}};
    size_t n = 0;
    qsort(all, KINDS, sizeof *all, by_bytes);
    for (int i = 0; i < MOST && all[i].bytes && n < room; i++) {
        const weft_value *v = all[i].largest;
        n += (size_t)snprintf(into + n, room - n, "%s%s %s", i ? ", " : "", all[i].name, BYTES(all[i].bytes));
        if (n < room && v)
            n += (size_t)snprintf(into + n, room - n, " (the largest: %s in %.100s, %s)", v->node->op->name,
                                  v->node->scope && *v->node->scope ? v->node->scope : "no scope",
                                  BYTES(type_bytes(&v->type)));
    }
}

weft_status room_check(const weft_plan *plan, const char *what, uint64_t bytes, uint64_t more,
                       const char *name, int local_world, room *free, weft_error *error) {
    char takers[500] = "nothing", ranks[80] = "";
    const device *d = plan->device;
    const weft_allocator *own = plan->env.allocator;
    bool is_asked = bytes + more >= ROOM_LEAST || (own ? own->room != NULL : has_limit());
    if (plan->options.no_memory_check || !d || !is_asked) return WEFT_OK;
    room r = room_of(plan, d, local_world);
    if (free) *free = r;
    if (bytes + more <= r.bytes) return WEFT_OK;
    tell_takers(plan, more, name, takers, sizeof takers);
    if (local_world > 1) snprintf(ranks, sizeof ranks, " for each of %d ranks here", local_world);
    return error_set(error, WEFT_MEMORY,
                     "%s with batch %jd needs %s of memory, and %s are free%s (%s); most of it is for: %s",
                     what, plan->options.batch, BYTES(bytes + more), BYTES(r.bytes), ranks, r.by, takers);
}
