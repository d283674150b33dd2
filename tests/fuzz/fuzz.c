/* fuzz.c - the formats of support/hostile.h for afl++, which changes files by what runs.
 *
 *     fuzz --list              the formats
 *     fuzz --seeds FOLDER      writes the good file of each, as FOLDER/FORMAT/good
 *     fuzz FORMAT FILE...      gives files to a loader; what is wrong ends it by abort(), after a line
 *     fuzz FORMAT              the same with standard input; compiled by afl-cc, again and again
 *
 * Names of formats have '-' for each blank, and no other marks. A format whose files have checksums is given
 * each file twice, the second time with right ones. tools/nightly.sh fuzz runs it. */
#include "fuzz/hostile_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();
#endif

enum { MOST_BYTES = 1 << 20, NAME_BYTES = 60 };

/* "model.bin, version 1" is "model.bin-version-1". */
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

static unsigned char room[MOST_BYTES];

static int give_file(const char *path) {
    FILE *f = fopen(path, "rbe");
    if (!f) return perror(path), 2;
    size_t n = fread(room, 1, sizeof room, f);
    fclose(f);
    give(path, room, n);
    return 0;
}

/* What afl++ calls. The store, the model and whatever else a format needs are there before it forks. */
static void give_input(void) {
#ifdef __AFL_FUZZ_TESTCASE_LEN
    __AFL_INIT();
    const unsigned char *data = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(10000)) give("input", data, (size_t)__AFL_FUZZ_TESTCASE_LEN);
#else
    give("input", room, fread(room, 1, sizeof room, stdin));
#endif
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) return write_seeds(argv[2]);
    const hostile_format *format = argc > 1 ? find(argv[1]) : NULL;
    if (!format) return fprintf(stderr, "fuzz: which format? --list tells\n"), 2;
    open_format(format);
    int status = 0;
    for (int i = 2; i < argc && !status; i++) status = give_file(argv[i]);
    if (argc == 2) give_input();
    hostile_close(&h);
    return status;
}
