/* words.h - what parsers of small texts share: words and counts at a place in a text. */
#ifndef WEFT_GRAPH_CORE_WORDS_H
#define WEFT_GRAPH_CORE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Are the n characters at `at`, which need not end in NUL, the word? */
bool word_is(const char *word, const char *at, size_t n);
/* The place of that word among `words`, which NULL ends; -1: it is not there. */
int word_find(const char *const *words, const char *at, size_t n);
/* Whether it has printable ASCII alone, and neither spaces nor one of `others`. */
bool text_is_plain(const char *text, const char *others);
/* Whether the text comes next; if so, moves *at past it. */
bool text_accept(const char **at, const char *text);
/* Reads a number, which one too large makes a limit of int64_t, and moves *at past it. */
bool integer_parse(const char **at, int64_t *v);
/* Reads a number of 1 to 18 digits, which cannot overflow, and moves *at past it. */
bool count_parse(const char **at, int64_t *count);

#endif
