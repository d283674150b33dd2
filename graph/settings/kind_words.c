/* kind_words.c - kinds of parameters as text. */
#include "graph/settings/minimize.h"

#include "graph/core/words.h"

#include <string.h>

const char *const parameter_kinds[] = {"norm", "bias", "embedding", "depthwise", "flat", NULL};

void parameter_kinds_write(text *t, unsigned kinds, const char *between) {
    const char *before = "";
    for (int i = 0; parameter_kinds[i]; i++) {
        if (!(kinds >> i & 1)) continue;
        text_add(t, "%s%s", before, parameter_kinds[i]);
        before = between;
    }
}

bool parameter_kinds_parse(const char **at, unsigned *kinds) {
    for (*kinds = 0;; ++*at) {
        size_t n = strcspn(*at, "+ ;");
        int i = word_find(parameter_kinds, *at, n);
        if (i < 0) return false;
        *kinds |= 1u << i;
        *at += n;
        if (**at != '+') return true;
    }
}
