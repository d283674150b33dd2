/* subgraph.c - the subgraph of a parameter, this rank's range of each of its buckets, and where that range is
 * in a state of the bucket. */
#include "runtime/plan/program.h"

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

int64_t slot_place(slot_shape shape, const weft_variable *bucket, int64_t at) {
    int64_t place = 0;
    tensor_type state;
    if (shape == SLOT_LIKE_PARAMETER) return at; /* any element, too */
    for (int i = 0; i < bucket->n_members && bucket->members[i]->offset < at; i++)
        if (optimizer_slot_type(shape, &bucket->members[i]->type, &state))
            place += (int64_t)size_align((size_t)type_elements(&state), BUCKET_ALIGN);
    return place;
}
