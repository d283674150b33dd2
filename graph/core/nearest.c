/* nearest.c - near is what few changes of a letter make equal: one for each three letters. The distance is
 * that of optimal string alignment (a letter more, less, other, or two swapped), without regard to capitals,
 * and '-' is '_'. A name that contains the word is near, too: "bucket" and "bucket-cap-mb". */
#include "graph/core/nearest.h"

#include <ctype.h>
#include <stdbool.h>
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

/* Whether `name` has the word in it. */
static bool contains(const char *name, const char *word, size_t length) {
    for (const char *at = name; *at; at++) {
        size_t i = 0;
        while (i < length && at[i] && letter(at[i]) == letter(word[i])) i++;
        if (i == length) return true;
    }
    return false;
}

nearest nearest_to(const char *word, size_t length) {
    return (nearest){.word = word, .length = length, .distance = LETTERS};
}

void nearest_try(nearest *n, const char *name) {
    size_t m = strlen(name);
    if (n->length > LETTERS || m > LETTERS || !n->length) return;
    int distance = alignment(n->word, (int)n->length, name, (int)m);
    int most = n->length < 3 ? 1 : (int)(n->length + 2) / 3;
    if (distance > most && n->length >= 3 && contains(name, n->word, n->length))
        distance = most + 1;
    else if (distance > most)
        return;
    if (distance >= n->distance) return;
    n->distance = distance;
    n->name = name;
}
