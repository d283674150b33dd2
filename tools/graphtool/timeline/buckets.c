/* buckets.c - see buckets.h: reads subgraphs and buckets from a plan, and puts them into words. */
#include "tools/graphtool/timeline/buckets.h"

#include "tools/graphtool/model/tools.h"

#include <string.h>

void number_text(text *t, double n) {
    if (n >= 1e6)
        text_add(t, "%.1f M", n / 1e6);
    else if (n >= 1e4)
        text_add(t, "%.0f k", n / 1e3);
    else
        text_add(t, "%.0f", n);
}

/* ---- subgraphs ---- */

/* The options as in a `ddp` line of a dump, but with the cap rounded, as a plan may choose it. */
static const char *options_of(const weft_plan *plan, const subgraph *g) {
    text t = {0};
    ddp_attrs attrs = g->ddp;
    attrs.bucket_cap_mb = 0;
    if (!attrs.zero) attrs.shard = WEFT_SHARD_GREEDY;
    if (plan->options.world > 1) text_add(&t, " bucket_cap_mb=%.3g", g->ddp.bucket_cap_mb);
    attrs_write(&t, &ddp_fields, &attrs);
    const char *words = tool_take(&t);
    return words + (*words == ' ');
}

/* Without buckets: it has none. */
static subgraph_view view_of(const weft_plan *plan, int index) {
    const subgraph *g = &plan->subgraphs[index];
    subgraph_view v = {.name = g->name, .index = index, .options = options_of(plan, g)};
    v.buckets = tool_new((size_t)plan->model->n_variables + 1, sizeof *v.buckets);
    for (const weft_variable *s = plan->model->variables; s; s = s->next) {
        if (s->subgraph != index) continue;
        if (s->kind == VARIABLE_BUCKET) {
            v.buckets[v.n_buckets++] = s;
            v.is_sharded |= s->shards != NULL;
        }
        if (s->kind != VARIABLE_PARAMETER) continue;
        v.n_parameters++;
        v.numbers += type_elements(&s->type);
        v.bytes += type_bytes(&s->type);
    }
    return v;
}

bucket_list bucket_list_of(const weft_plan *plan) {
    bucket_list l = {.v = tool_new((size_t)plan->n_subgraphs + 1, sizeof *l.v)};
    for (int i = 0; i < plan->n_subgraphs; i++) {
        l.v[l.n] = view_of(plan, i);
        l.n += l.v[l.n].n_buckets > 0;
    }
    return l;
}

/* ---- in words ---- */

/* A parameter's path below its subgraph. */
static const char *short_name(const subgraph_view *s, const weft_variable *parameter) {
    size_t n = strlen(s->name);
    bool below = strncmp(parameter->path, s->name, n) == 0 && parameter->path[n] == '/';
    return below ? parameter->path + n + 1 : parameter->path;
}

/* Names omit the subgraph's own. */
static void members_text(text *t, const subgraph_view *s, const weft_variable *bucket) {
    enum { FEW = 3 };
    int n = bucket->n_members;
    if (n > FEW) {
        text_add(t, "%s \xe2\x80\xa6 %s", short_name(s, bucket->members[0]),
                 short_name(s, bucket->members[n - 1]));
        return;
    }
    for (int i = 0; i < n; i++) text_add(t, i ? ", %s" : "%s", short_name(s, bucket->members[i]));
}

/* "rank 3: 0 to 4095" */
static void range_text(text *t, int rank, int64_t begin, int64_t end) {
    text_add(t, "rank %d: ", rank);
    if (begin == end)
        text_add(t, "nothing");
    else
        text_add(t, "%lld to %lld", (long long)begin, (long long)end - 1);
}

/* bucket->shards holds the number of elements of each rank of the group, in order. */
static void owners_text(text *t, const weft_plan *plan, const weft_variable *bucket, const char *gap) {
    enum { FEW = 4 };
    const subgraph *g = &plan->subgraphs[bucket->subgraph];
    int owners = 0, shown = 0;
    int64_t at = 0, begin, end;
    if (!bucket->shards) return;
    for (int r = 0; r < g->n_ranks; r++) owners += bucket->shards[r] > 0;
    for (int r = 0; r < g->n_ranks && owners <= FEW; at += (int64_t)bucket->shards[r++]) {
        if (!bucket->shards[r]) continue;
        if (shown++) text_add(t, "%s", gap);
        range_text(t, g->ranks[r], at, at + (int64_t)bucket->shards[r]);
    }
    if (owners <= FEW) return;
    shard_range(plan, bucket, &begin, &end);
    text_add(t, "%d of %d ranks%s", owners, g->n_ranks, gap);
    range_text(t, plan->options.rank, begin, end);
}

void bucket_row(text *t, const weft_plan *plan, const subgraph_view *s, int i, const char *gap) {
    const weft_variable *b = s->buckets[i];
    text_add(t, "%s\t%s\t%d\t", b->path, BYTES(type_bytes(&b->type)), b->n_members);
    members_text(t, s, b);
    text_add(t, "\t");
    owners_text(t, plan, b, gap);
}
