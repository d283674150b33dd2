/* fuzz.c - the formats of support/hostile/hostile.h for afl++, which changes files by what runs.
 *
 *     fuzz --list              the formats
 *     fuzz --seeds FOLDER      writes the good file of each, as FOLDER/FORMAT/good
 *     fuzz --pack RUNS FOLDER  what afl++ has found in RUNS/FORMAT, the smallest files, as FOLDER/FORMAT.gz
 *     fuzz --replay FOLDER     gives all of these to their loaders
 *     fuzz FORMAT FILE...      gives files to a loader; what is wrong ends it by abort(), after a line
 *     fuzz FORMAT              the same with standard input; compiled by afl-cc, again and again
 *
 * Names of formats have '-' for each blank, and no other marks. A format whose files have checksums is given
 * each file twice, the second time with right ones. tools/nightly.sh fuzz runs it. */
#include "fuzz/hostile_config.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();
#endif

enum { MOST_BYTES = 1 << 20, NAME_BYTES = 60, PACKED_BYTES = 256 << 10 /* of a format, unpacked */ };

/* "file of a rank" is "file-of-a-rank". */
static void name_of(const hostile_format *format, char into[NAME_BYTES]) {
    size_t n = 0;
    for (const char *c = format->name; *c && n < NAME_BYTES - 1; c++)
        if (isalnum((unsigned char)*c) || strchr(".- ", *c)) into[n++] = *c == ' ' ? '-' : *c;
    into[n] = 0;
}

/* Format number `index`; NULL past the end. */
static const hostile_format *format_at(int index) {
    for (const hostile_format *const *family = hostile_families; *family; family++)
        for (const hostile_format *format = *family; format->name; format++)
            if (!index--) return format;
    for (const hostile_format *format = hostile_configs; format->name; format++)
        if (!index--) return format;
    for (const hostile_format *format = hostile_lost; format->name; format++)
        if (!index--) return format;
    return NULL;
}

static const hostile_format *find(const char *wanted) {
    char name[NAME_BYTES];
    const hostile_format *format;
    for (int i = 0; (format = format_at(i)); i++) {
        name_of(format, name);
        if (strcmp(name, wanted) == 0) return format;
    }
    return NULL;
}

static int list(void) {
    char name[NAME_BYTES];
    const hostile_format *format;
    for (int i = 0; (format = format_at(i)); i++) {
        name_of(format, name);
        puts(name);
    }
    return 0;
}

static hostile h;
static unsigned char room[MOST_BYTES];

static void open_format(const hostile_format *format) {
    subject s;
    if (hostile_open(&h, format, &s)) return;
    fprintf(stderr, "%s: %s\n", format->name, s.complaint);
    exit(2);
}

static int write_seeds(const char *folder) {
    char name[NAME_BYTES], path[400];
    const hostile_format *format;
    for (int i = 0; (format = format_at(i)); i++) {
        name_of(format, name);
        open_format(format);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/%s/good", folder, name);
        FILE *f = fopen(path, "wbe");
        if (!f || fwrite(h.good.data, 1, h.good.n, f) != h.good.n || fclose(f)) return perror(path), 2;
        hostile_close(&h);
    }
    return 0;
}

static void give(const char *where, const void *data, size_t n) {
    subject s;
    if (hostile_try(&h, data, n, &s) && hostile_try_mended(&h, data, n, &s)) return;
    fprintf(stderr, "%s: %s\n", where, s.complaint);
    abort();
}

static size_t load(const char *path) {
    FILE *f = fopen(path, "rbe");
    size_t n = f ? fread(room, 1, sizeof room, f) : 0;
    if (f) fclose(f);
    return n;
}

static int give_file(const char *path) {
    if (access(path, R_OK)) return perror(path), 2;
    give(path, room, load(path));
    return 0;
}

/* ---- corpora: files one after the other, each after its length of 4 bytes, packed by gzip ---- */

typedef struct found {
    char path[700];
    off_t bytes;
} found;

static int smaller_first(const void *a, const void *b) {
    const found *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* The files of a folder; the caller frees *list. */
static size_t find_all(const char *folder, found **list) {
    size_t n = 0, at_most = 0;
    DIR *d = opendir(folder);
    *list = NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat about;
        if (n == at_most) *list = realloc(*list, (at_most = 2 * at_most + 64) * sizeof **list);
        if (!*list) abort();
        found *f = &(*list)[n];
        snprintf(f->path, sizeof f->path, "%s/%s", folder, e->d_name);
        if (stat(f->path, &about) || !S_ISREG(about.st_mode)) continue;
        f->bytes = about.st_size;
        n++;
    }
    if (d) closedir(d);
    if (n) qsort(*list, n, sizeof **list, smaller_first);
    return n;
}

static int pack_format(const char *name, const char *runs, const char *folder) {
    char path[400];
    found *list;
    snprintf(path, sizeof path, "%s/%s/default/queue", runs, name);
    size_t n = find_all(path, &list), packed = 0, i = 0;
    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    gzFile into = n ? gzopen(path, "wb9") : NULL;
    for (; into && i < n && packed + (size_t)list[i].bytes <= PACKED_BYTES; i++) {
        uint32_t bytes = (uint32_t)load(list[i].path);
        gzwrite(into, &bytes, sizeof bytes);
        if (bytes) gzwrite(into, room, bytes);
        packed += bytes;
    }
    free(list);
    printf("%s: %zu of %zu files, %zu bytes\n", name, i, n, packed);
    return into && gzclose(into) != Z_OK ? (perror(path), 2) : 0;
}

static int pack(const char *runs, const char *folder) {
    char name[NAME_BYTES];
    const hostile_format *format;
    int status = 0;
    for (int i = 0; !status && (format = format_at(i)); i++) {
        name_of(format, name);
        status = pack_format(name, runs, folder);
    }
    return status;
}

/* How many files there were; -1: the corpus cannot be read. */
static int replay_format(const char *path) {
    int n = 0, got;
    uint32_t bytes;
    gzFile from = gzopen(path, "rb");
    if (!from) return -1;
    while ((got = gzread(from, &bytes, sizeof bytes)) == (int)sizeof bytes) {
        char where[NAME_BYTES + 20];
        if (bytes > sizeof room || gzread(from, room, bytes) != (int)bytes) break;
        snprintf(where, sizeof where, "file %d", n++);
        give(where, room, bytes);
    }
    gzclose(from);
    return got ? -1 : n;
}

static int replay(const char *folder) {
    char name[NAME_BYTES], path[400];
    const hostile_format *format;
    int all = 0;
    for (int i = 0; (format = format_at(i)); i++) {
        name_of(format, name);
        snprintf(path, sizeof path, "%s/%s.gz", folder, name);
        open_format(format);
        int n = replay_format(path);
        hostile_close(&h);
        if (n < 0) return fprintf(stderr, "%s: it cannot be read\n", path), 2;
        all += n;
    }
    printf("%d files of afl++ are taken or refused as they should be\n", all);
    return 0;
}

/* ---- one format ---- */

/* What afl++ calls. The store, the model and whatever else a format needs are there before it forks; its
 * folder is that of all processes that it forks, one after the other, so none removes it. */
static void give_input(void) {
#ifdef __AFL_FUZZ_TESTCASE_LEN
    __AFL_INIT();
    const unsigned char *data = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(10000)) give("input", data, (size_t)__AFL_FUZZ_TESTCASE_LEN);
    _exit(0);
#else
    give("input", room, fread(room, 1, sizeof room, stdin));
#endif
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) return write_seeds(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--pack") == 0) return pack(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "--replay") == 0) return replay(argv[2]);
    const hostile_format *format = argc > 1 ? find(argv[1]) : NULL;
    if (!format) return fprintf(stderr, "fuzz: which format? --list tells\n"), 2;
    open_format(format);
    int status = 0;
    for (int i = 2; i < argc && !status; i++) status = give_file(argv[i]);
    if (argc == 2) give_input();
    hostile_close(&h);
    return status;
}
