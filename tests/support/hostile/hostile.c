/* hostile.c - see hostile.h. */
#include "support/hostile/hostile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_CAP = 64 << 20 };

const hostile_format *const hostile_families[] = {hostile_models, hostile_settings,    hostile_arrays,
                                                  hostile_images, hostile_checkpoints, NULL};

void hostile_put(hostile *h, const void *data, size_t n) {
    mutant_new(&h->good, n);
    mutant_set(&h->good, data, n);
}

void hostile_put_from(hostile *h, const char *path) {
    unsigned char data[65536];
    FILE *f = fopen(path, "rbe");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (f) fclose(f);
    hostile_put(h, data, n);
}

const fake_file *hostile_file(const subject *s) {
    return fake_get(s->f, HOSTILE_FILE);
}

char *hostile_text(const subject *s) {
    const fake_file *file = hostile_file(s);
    char *string = test_memory(file->bytes + 1);
    memcpy(string, file->data, file->bytes);
    return string;
}

/* The first complaint is kept. */
void hostile_complain(subject *s, const char *format, ...) {
    va_list args;
    if (*s->complaint) return;
    va_start(args, format);
    vsnprintf(s->complaint, sizeof s->complaint, format, args);
    va_end(args);
}

bool hostile_open(hostile *h, const hostile_format *format, subject *s) {
    *h = (hostile){.format = format};
    faults_init(&h->f);
    h->f.cap = MEMORY_CAP;
    format->make(h);
    mutant_new(&h->mended, h->good.n);
    bool is_fine = hostile_try(h, h->good.data, h->good.n, s);
    if (!s->good) hostile_complain(s, "the good file is refused: %s", s->error.text);
    return is_fine && s->good;
}

void hostile_close(hostile *h) {
    if (h->format->free) h->format->free(h);
    free(h->good.data);
    free(h->mended.data);
    faults_end(&h->f);
}

bool hostile_try(hostile *h, const void *data, size_t n, subject *s) {
    *s = (subject){.h = h, .f = &h->f};
    fake_put(&h->f, HOSTILE_FILE, data, n);
    size_t live = h->f.live;
    h->format->act(s);
    const weft_error *e = &s->error;
    bool has_text = memchr(e->text, 0, sizeof e->text) && *e->text;
    if (!s->good && (e->status == WEFT_OK || !has_text))
        hostile_complain(s, "refused without a sentence: status %d", (int)e->status);
    if (!s->good && (e->status == WEFT_INTERNAL || e->status == WEFT_MEMORY))
        hostile_complain(s, "status %d: %s", (int)e->status, e->text); /* WEFT_MEMORY: beyond the cap */
    if (h->f.live != live || h->f.handles)
        hostile_complain(s, "%zu bytes and %ld files are left", h->f.live - live, h->f.handles);
    return !*s->complaint;
}

bool hostile_try_mended(hostile *h, const void *data, size_t n, subject *s) {
    *s = (subject){.h = h, .f = &h->f};
    if (!h->format->mend || n > h->mended.room) return true;
    mutant_set(&h->mended, data, n);
    h->format->mend(&h->mended, &h->good);
    return hostile_try(h, h->mended.data, h->mended.n, s);
}

/* ---- at random ---- */

static void attack(const hostile_format *format, int mutations) {
    hostile h;
    subject s;
    mutant m;
    uint64_t first = test_seed(1);
    int accepted = 0;
    CHECK_SAYS(hostile_open(&h, format, &s), "%s: %s", format->name, s.complaint);
    mutant_new(&m, h.good.n);
    for (int i = 0; i < mutations && h.good.n; i++) {
        uint64_t seed = first + (uint64_t)i;
        test_random r = {seed};
        test_case_begin();
        mutate(&m, h.good.data, h.good.n, &r);
        bool mends = format->mend && seed % 2;
        bool is_fine = mends ? hostile_try_mended(&h, m.data, m.n, &s) : hostile_try(&h, m.data, m.n, &s);
        accepted += s.good;
        CHECK_SAYS(is_fine, "%s, seed %llu: %s", format->name, (unsigned long long)seed, s.complaint);
        test_case_end(false);
    }
    CHECK_SAYS(format->takes_nearly || accepted <= mutations / 2 + 2, "%s: %d of %d mutants were accepted",
               format->name, accepted, mutations);
    free(m.data);
    hostile_close(&h);
}

void hostile_attack(const hostile_format *family, int normal, int quick) {
    for (const hostile_format *format = family; format->name; format++) {
        int slow = format->slow ? format->slow : 1;
        attack(format, test_count(normal / slow, quick / slow));
    }
}
