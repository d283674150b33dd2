/* dataset.c - files of the command line as sources. */
#include "tools/graphtool/training/dataset.h"

#include <string.h>

/* Which of a source's arrays the k-th of n names is for: the one of that name, where all have such ones;
 * else the k-th. */
static int array_of(const weft_source *s, char *const *names, int n, int k) {
    int found = k;
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < s->n && !(s->arrays[at].name && strcmp(s->arrays[at].name, names[i]) == 0)) at++;
        if (at == s->n) return k;
        if (i == k) found = at;
    }
    return found;
}

/* Gives names to the arrays of a source, which begin at d->n_names. */
static void name_arrays(dataset *d, const char *option, const weft_source *s, char **names, int n) {
    if (n > s->n) tool_fail("--data %s: %d names, but %d arrays", option, n, s->n);
    if (d->n_names + s->n > OPTIONS_MAX_DATA)
        tool_fail("--data %s: more than %d arrays", option, OPTIONS_MAX_DATA);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < d->n_names + s->n; i++)
            if (d->names[i] && strcmp(d->names[i], names[k]) == 0)
                tool_fail("--data %s: input %s has a file already", option, names[k]);
        d->names[d->n_names + array_of(s, names, n, k)] = names[k];
    }
    d->n_names += s->n;
}

/* Opens one NAME[,NAME...]=FILE. All sources must have the same number of samples. */
static void load_one(dataset *d, const char *option) {
    const char *file = strchr(option, '=') + 1;
    char *names[OPTIONS_MAX_DATA], *rest = tool_text("%.*s", (int)(file - 1 - option), option);
    int n = 0;
    for (char *name; n < OPTIONS_MAX_DATA && (name = strsep(&rest, ","));) names[n++] = name;
    weft_source *s = tool_got(weft_source_open_text(file, NULL, &tool_why));
    d->sources[d->of.n] = d->files[d->of.n] = s, d->of.n++;
    name_arrays(d, option, s, names, n);
    if (s->count != d->sources[0]->count)
        tool_fail("%s: %lld samples, but %s has %lld", file, (long long)s->count, d->names[0],
                  (long long)d->sources[0]->count);
}

static void close_data(void *data) {
    dataset *d = data;
    for (int i = 0; i < OPTIONS_MAX_DATA; i++) {
        weft_source_free(d->files[i]);
        weft_array_free(d->arrays[i]);
    }
}

dataset *dataset_new(void) {
    dataset *d = tool_keep(tool_new(1, sizeof *d), close_data);
    d->of.sources = d->sources;
    d->of.names = (const char *const *)d->names;
    return d;
}

dataset *dataset_load(const text_list *files) {
    dataset *d = dataset_new();
    for (int i = 0; i < files->n; i++) load_one(d, files->v[i]);
    return d;
}
