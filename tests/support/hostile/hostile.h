/* hostile.h - files of strangers: for each format a good file and the loader that is given changed ones. What
 * a loader may do is said here once: it returns a value or one clean error, keeps nothing, and takes no
 * memory that the file's length does not justify. test_hostile.c changes files at random, fuzz/fuzz.c is
 * guided by what runs.
 *
 * A new format is a row in a hostile_*.c beside this file: `make` puts a good file, `act` gives what is there
 * to its loader. */
#ifndef WEFT_TEST_HOSTILE_H
#define WEFT_TEST_HOSTILE_H

#include "support/faults.h"
#include "support/hostile/mutation.h"

#define HOSTILE_FILE "x" /* the file's name among h->f's */

struct hostile_format;

/* A format that is being attacked. */
typedef struct hostile {
    const struct hostile_format *format;
    faults f;
    void *kept;    /* the format's own: what it needs for each file */
    mutant good;   /* the file as it should be */
    mutant mended; /* room for hostile_mend */
} hostile;

/* One file, given to its loader. */
typedef struct subject {
    hostile *h;
    faults *f; /* &h->f */
    weft_error error;
    bool good;           /* it was accepted */
    char complaint[500]; /* what is wrong with how it was taken; empty: nothing */
} subject;

typedef struct hostile_format {
    const char *name;
    void (*make)(hostile *h); /* puts the good file, by hostile_put; may set h->kept */
    void (*act)(subject *s);  /* sets good and error, and whatever it has to complain about */
    void (*free)(hostile *h); /* releases h->kept; NULL: nothing */
    /* Puts lengths and checksums right, so that changes after them are seen; NULL: there are none. */
    void (*mend)(mutant *m, const mutant *good);
    int variant;       /* for rows that share functions */
    bool takes_nearly; /* most files are good ones */
    int slow;          /* this many times fewer cases; 0: all */
} hostile_format;

/* By families; each ends with a row without a name. */
extern const hostile_format hostile_models[], hostile_settings[], hostile_arrays[], hostile_images[],
    hostile_checkpoints[];
extern const hostile_format *const hostile_families[]; /* all of them, and NULL */

/* Opens a format with its good file. False: that file is refused, and *s says why. */
bool hostile_open(hostile *h, const hostile_format *format, subject *s);
void hostile_close(hostile *h);
/* Gives a file to the loader; false when there is a complaint. */
bool hostile_try(hostile *h, const void *data, size_t n, subject *s);
/* The same after format->mend; true where it has none. */
bool hostile_try_mended(hostile *h, const void *data, size_t n, subject *s);
/* All rows of a family with test_count(normal, quick) mutants each, as checks and cases of a test. */
void hostile_attack(const hostile_format *family, int normal, int quick);

/* ---- for the formats ---- */

void hostile_put(hostile *h, const void *data, size_t n);
/* A file of the machine that runs the test. */
void hostile_put_from(hostile *h, const char *path);
const fake_file *hostile_file(const subject *s);
/* The file as a text with its NUL; the caller frees it. */
char *hostile_text(const subject *s);
void hostile_complain(subject *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
