/* subgraph.c - which subgraph a parameter is of; which part of its buckets is this rank's. */
#include "runtime/plan/program.h"

#include <stdio.h>
#include <string.h>

/* The longest path that it is or lies under: cut off name by name. */
const subgraph *subgraph_of(const weft_plan *plan, const char *parameter) {
    char path[1400];
    size_t n = strlen(parameter);
    if (n >= sizeof path) return NULL;
    memcpy(path, parameter, n + 1);
    for (;;) {
        const subgraph *found = table_find(&plan->by_path, path);
        char *slash = strrchr(path, '/');
        if (found || !*path) return found;
        *(slash ? slash : path) = 0;
    }
}

void shard_range(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end) {
    *begin = 0;
    for (int r = 0; r < plan->subgraphs[s->subgraph].rank; r++) *begin += (int64_t)s->shards[r];
    *end = *begin + (int64_t)s->shards[plan->subgraphs[s->subgraph].rank];
}
