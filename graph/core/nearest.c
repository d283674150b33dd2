/* nearest.c - near is what few changes of a letter make equal: one for each three letters. The distance is
 * that of optimal string alignment (a letter more, less, other, or two swapped), without regard to capitals,
 * and '-' is '_'. A name that begins with the word is nearer than most: "conv" and "conv2d"; one that
 * contains it is near, too: "bucket" and "bucket-cap-mb", and one that is a part of it between separators:
 * "batch" and "batch-size". */
#include "graph/core/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS = 64 /* longer words are near to nothing */ };

static int letter(char c) {
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static int least(int a, int b, int c) {
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* n and m are at most LETTERS. d[i % 3][k]: between the first i letters of a and the first k of b. */
static int alignment(const char *a, int n, const char *b, int m) {
    int d[3][LETTERS + 1];
    for (int k = 0; k <= m; k++) d[0][k] = k;
    for (int i = 1; i <= n; i++) {
        int *row = d[i % 3], *above = d[(i + 2) % 3], *two_above = d[(i + 1) % 3];
        row[0] = i;
        for (int k = 1; k <= m; k++) {
            int differs = letter(a[i - 1]) != letter(b[k - 1]);
            row[k] = least(above[k] + 1, row[k - 1] + 1, above[k - 1] + differs);
            /* two letters in the other order */
            if (i > 1 && k > 1 && letter(a[i - 1]) == letter(b[k - 2]) &&
                letter(a[i - 2]) == letter(b[k - 1]) && two_above[k - 2] + differs < row[k])
                row[k] = two_above[k - 2] + differs;
        }
    }
    return d[n % 3][m];
}

static bool begins(const char *name, const char *word, size_t length) {
    size_t i = 0;
    while (i < length && name[i] && letter(name[i]) == letter(word[i])) i++;
    return i == length;
}

/* Whether `name` has the word in it. */
static bool contains(const char *name, const char *word, size_t length) {
    for (const char *at = name; *at; at++)
        if (begins(at, word, length)) return true;
    return false;
}

nearest nearest_to(const char *word, size_t length) {
    return (nearest){.word = word, .length = length, .distance = LETTERS};
}

/* Whether the name, of at least two letters, is a part of the word. */
static bool is_part(const nearest *n, const char *name, size_t m) {
    for (size_t i = 0; m >= 2 && i + m <= n->length; i++) {
        size_t k = 0;
        bool is_first = !i || !isalnum((unsigned char)n->word[i - 1]);
        bool is_last = i + m == n->length || !isalnum((unsigned char)n->word[i + m]);
        while (is_first && is_last && k < m && letter(n->word[i + k]) == letter(name[k])) k++;
        if (k == m) return true;
    }
    return false;
}

void nearest_try_as(nearest *n, const char *word, const char *name) {
    size_t m = strlen(word);
    if (n->length > LETTERS || m > LETTERS || !n->length) return;
    int distance = alignment(n->word, (int)n->length, word, (int)m);
    int most = n->length < 3 ? (int)n->length - 1 : (int)(n->length + 2) / 3;
    if (n->length >= 3 && distance > 1 && begins(word, n->word, n->length))
        distance = 1;
    else if (distance > most && n->length >= 3 && contains(word, n->word, n->length))
        distance = most + 1;
    else if (distance > most && is_part(n, word, m))
        distance = most + 2;
    else if (distance > most)
        return;
    if (distance >= n->distance) return;
    n->distance = distance;
    n->name = name;
}

void nearest_try(nearest *n, const char *name) {
    nearest_try_as(n, name, name);
}

near_text nearest_ask(const nearest *n) {
    near_text t = {.question = "",
                   .there = n->name ? " There" : "; there",
                   .it_has = n->name ? " It has " : "; it has "};
    if (n->name) snprintf(t.question, sizeof t.question, ": did you mean '%.90s'?", n->name);
    return t;
}
