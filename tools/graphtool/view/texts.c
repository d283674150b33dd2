/* texts.c - texts of the view, each once, by number; and the view's memory. */
#include "tools/graphtool/view/view.h"

#include <string.h>

void *view_new(arena *a, int64_t count, size_t width) {
    return tool_need(arena_new_array(a, (size_t)count, width));
}

void *view_grow(arena *a, void *array, int count, size_t width) {
    return tool_need(arena_grow(a, array, (size_t)count, width));
}

static int text_new(view_texts *t, const char *text) {
    char *copy = tool_need(arena_copy(&t->memory, text));
    int *number = view_new(&t->memory, 1, sizeof *number);
    t->v = view_grow(&t->memory, t->v, t->n, sizeof *t->v);
    t->v[t->n] = copy;
    *number = t->n++;
    if (!table_add(&t->by_text, &t->memory, copy, number)) tool_fail("out of memory");
    return *number;
}

int view_text(view_texts *t, const char *text) {
    if (!t->n) text_new(t, "");
    if (!text || !*text) return 0;
    const int *found = table_find(&t->by_text, text);
    return found ? *found : text_new(t, text);
}

int view_take(view_texts *t, text *gathered) {
    if (gathered->failed) tool_fail("out of memory");
    const char *all = gathered->data ? gathered->data : "";
    int number = view_text(t, all + strspn(all, " "));
    free(gathered->data);
    *gathered = (text){0};
    return number;
}
