/* calibration.c - see calibration.h. Tables are short (a line for each product of a model), so a lookup is a
 * walk over a list. */
#include "ops/calibration.h"

#include "graph/file/io.h"
#include "graph/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "weft calibration 1\n", arrow[] = " -> ";
enum { CALIBRATION_MOST = 16 << 20 /* largest file, in bytes */ };

/* One line: the node's name and the text after the arrow. */
typedef struct choice {
    struct choice *next;
    const char *node, *says;
} choice;

struct calibration {
    choice *choices;
    uint64_t hash;
};

/* ---- reading ---- */

/* Splits the line in place and appends it to the list at *end. */
static weft_status line_read(char *line, arena *a, choice ***end) {
    char *split = strstr(line, arrow);
    if (!split || split == line) return WEFT_FILE;
    *split = 0;
    choice *c = arena_new(a, sizeof *c);
    if (!c) return WEFT_MEMORY;
    *c = (choice){.node = line, .says = split + sizeof arrow - 1};
    **end = c;
    *end = &c->next;
    return WEFT_OK;
}

const calibration *calibration_read(const char *data, const char *where, arena *a, weft_error *error) {
    calibration *c = arena_new(a, sizeof *c);
    char *at = c ? arena_copy(a, data) : NULL;
    if (!at) {
        error_memory(error, "calibration");
        return NULL;
    }
    if (strncmp(at, head, sizeof head - 1)) {
        error_set(error, WEFT_FILE, "%s: it does not begin with \"%.18s\"", where, head);
        return NULL;
    }
    c->hash = hash_text(data, 0);
    choice **end = &c->choices;
    at += sizeof head - 1;
    for (int number = 2; *at; number++) {
        char *line = at, *newline = strchr(at, '\n');
        at = newline ? newline + 1 : at + strlen(at);
        if (newline) *newline = 0;
        weft_status status = *line == 0 || *line == '#' ? WEFT_OK : line_read(line, a, &end);
        if (status == WEFT_OK) continue;
        if (status == WEFT_MEMORY)
            error_memory(error, "calibration");
        else
            error_set(error, status, "%s: line %d: it is not \"node -> choice\"", where, number);
        return NULL;
    }
    return c;
}

const calibration *calibration_load(const char *path, arena *a, weft_error *error) {
    char *data;
    size_t bytes;
    if (file_read_all(a->env, path, CALIBRATION_MOST, &data, &bytes, error)) return NULL;
    const calibration *c = calibration_read(data, path, a, error);
    mem_free(a->env, data, bytes + 1);
    return c;
}

uint64_t calibration_hash(const calibration *c) {
    return c ? c->hash : 0;
}

/* ---- nodes ---- */

/* Products of f32 use other algorithms where TF32 is allowed, so these are separate lines. */
char *calibration_key(const weft_node *n, const kernel_env *env) {
    text t = {0};
    node_signature(&t, n);
    if (env->tf32) text_add(&t, " tf32");
    return text_detach(&t);
}

const char *calibration_find(const weft_node *n, const kernel_env *env) {
    if (!env->calibration) return NULL;
    char *key = calibration_key(n, env);
    const choice *c = env->calibration->choices;
    while (key && c && strcmp(c->node, key)) c = c->next;
    free(key);
    return key && c ? c->says : NULL;
}

/* ---- writing ---- */

void calibration_head(text *t, const char *comment) {
    text_add(t, "%s# %s\n", head, comment);
}

void calibration_write(text *t, const char *key, const char *choice) {
    text_add(t, "%s%s%s\n", key, arrow, choice);
}
