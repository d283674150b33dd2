/* subgraph.c - the subgraph of a parameter, and this rank's range of each of its buckets. */
#include "runtime/plan/program.h"

#include <stdio.h>
#include <string.h>

/* Tries the whole path, then cuts off the last name again and again: a look-up a name, the longest path
 * first. The last one tried is "", the subgraph of the whole model. */
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

/* s->shards[r] is the length of rank r's range; ranges follow one another without gaps. */
void shard_range(const weft_plan *plan, const weft_variable *s, int64_t *begin, int64_t *end) {
    *begin = 0;
    for (int r = 0; r < plan->subgraphs[s->subgraph].rank; r++) *begin += (int64_t)s->shards[r];
    *end = *begin + (int64_t)s->shards[plan->subgraphs[s->subgraph].rank];
}
