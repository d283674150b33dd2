/* world_proof.c - proves a world. What the compiler makes of a rank is settled by the pass "states": its
 * process groups, its range of each bucket, the state of that range. So plans are compiled up to there for
 * every rank, and whole for one rank of each class of ranks for which these are the same; of very many
 * classes a sample is compiled whole. That nothing later looks at the rank is checked, too: the last rank of
 * a class gets the plan of the first, letter by letter. */
#include "tools/graphtool/ranks/world_proof.h"

#include "graph/core/error.h"
#include "graph/core/table.h"
#include "runtime/verify/verify.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest world in which each rank is a class, and how many classes are proved whole at most: flat shards
 * of resnet18 over 4,096 ranks have 1,538 classes, and each takes 24 ms. */
enum { EACH_ALONE = 16, PROVED_WHOLE = 256 };

static weft_plan *compile_rank(const world_proof *p, int rank, const char *pass, weft_error *error) {
    weft_compile_options c = *p->compile;
    c.rank = rank;
    c.stop_after = pass;
    return weft_compile(p->model, &c, error);
}

/* ---- every rank ---- */

static const weft_plan *outline_of(world_proof *p, int rank, weft_error *error) {
    if (!p->outlines[rank]) p->outlines[rank] = compile_rank(p, rank, "states", error);
    return p->outlines[rank];
}

static void forget_outline(world_proof *p, int rank) {
    weft_plan_free((weft_plan *)p->outlines[rank]);
    p->outlines[rank] = NULL;
}

/* The first ranks of the rank's process groups are compiled beside it. Only rank 0's outline is kept. */
static weft_status check_ranges(world_proof *p, int rank, weft_error *error) {
    const weft_plan *own = outline_of(p, rank, error);
    int heads = own ? own->n_subgraphs : 0;
    for (int i = 0; i < heads && !error->status; i++) outline_of(p, own->subgraphs[i].ranks[0], error);
    if (own && !error->status) verify_rank_ranges(p->outlines, rank, error);
    for (int i = 0; i < heads; i++) {
        int head = own->subgraphs[i].ranks[0];
        if (head && head != rank) forget_outline(p, head);
    }
    return error->status;
}

static void add_to_class(world_proof *p, int rank, uint64_t hash) {
    bool is_alone = p->compile->world <= EACH_ALONE;
    for (int i = 0; i < p->n && !is_alone; i++) {
        if (p->classes[i].text != hash) continue;
        p->classes[i].last = rank;
        return;
    }
    p->classes[p->n++] = (rank_class){hash, rank, rank};
}

static weft_status sort_rank(world_proof *p, int rank, weft_error *error) {
    weft_status status = check_ranges(p, rank, error);
    char *words = status ? NULL : verify_rank_text(p->outlines[rank]);
    if (words) add_to_class(p, rank, hash_text(words, 0));
    if (!words && !status) status = error_memory(error, "verify");
    free(words);
    if (rank) forget_outline(p, rank);
    return status;
}

/* ---- one rank of each class ---- */

/* A rule that a plan breaks by itself, with its rank before it. */
static weft_status prove_plan(const weft_plan *plan, weft_error *error) {
    weft_error own = {0};
    if (!weft_plan_verify(plan, &own)) return WEFT_OK;
    return error_set(error, own.status, "rank %d: %s", plan->options.rank, own.text);
}

static weft_status compare_last(const world_proof *p, const rank_class *c, const weft_plan *first,
                                weft_error *error) {
    weft_plan *last = compile_rank(p, c->last, NULL, error);
    char *one = last ? weft_plan_text(first) : NULL, *other = last ? weft_plan_text(last) : NULL;
    if (last && (!one || !other)) error_memory(error, "verify");
    if (one && other && strcmp(one, other))
        error_set(error, WEFT_INTERNAL,
                  "L12: rank %d: its ranges are those of rank %d, but its plan is another", c->last,
                  c->first);
    weft_text_free(one);
    weft_text_free(other);
    weft_plan_free(last);
    return error->status;
}

/* Later passes have left ranges as they were. */
static weft_status check_whole_ranges(world_proof *p, const weft_plan *plan, weft_error *error) {
    const weft_plan **own = &p->outlines[plan->options.rank], *kept = *own;
    *own = plan;
    weft_status status = check_ranges(p, plan->options.rank, error);
    *own = kept;
    return status;
}

static weft_status prove_class(world_proof *p, const rank_class *c, weft_error *error) {
    weft_plan *plan = c->first ? compile_rank(p, c->first, NULL, error) : p->whole;
    weft_status status = plan ? prove_plan(plan, error) : error->status;
    if (!status) status = check_whole_ranges(p, plan, error);
    if (!status) status = verify_rank_order(p->whole, plan, error);
    if (!status && c->last != c->first) status = compare_last(p, c, plan, error);
    if (plan != p->whole) weft_plan_free(plan);
    return status;
}

/* Thousands of plans come and go: glibc would return the memory of each to the system, which takes a quarter
 * of the time (dcgan28, 4,096 ranks, ZeRO 2, flat). Other C libraries have no such setting. */
static void keep_memory(void) {
#ifdef M_TRIM_THRESHOLD
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
#endif
}

/* All classes, or a sample at equal distances with the first and the last. */
static weft_status prove_classes(world_proof *p, weft_error *error) {
    weft_status status = WEFT_OK;
    p->n_whole = p->n < PROVED_WHOLE ? p->n : PROVED_WHOLE;
    for (int i = 0; i < p->n_whole && !status; i++) {
        int class = p->n_whole == p->n ? i : (int)((int64_t)i * (p->n - 1) / (p->n_whole - 1));
        status = prove_class(p, &p->classes[class], error);
    }
    return status;
}

weft_status world_prove(world_proof *p, weft_error *error) {
    size_t world = (size_t)p->compile->world;
    keep_memory();
    p->outlines = calloc(world, sizeof(weft_plan *));
    p->classes = calloc(world, sizeof *p->classes);
    weft_status status = p->outlines && p->classes ? WEFT_OK : error_memory(error, "verify");
    for (int r = 0; r < p->compile->world && !status; r++) status = sort_rank(p, r, error);
    if (!status && !(p->whole = compile_rank(p, 0, NULL, error))) status = error->status;
    return status ? status : prove_classes(p, error);
}

void world_proof_free(world_proof *p) {
    for (int r = 0; p->outlines && r < p->compile->world; r++) forget_outline(p, r);
    free(p->outlines);
    free(p->classes);
    weft_plan_free(p->whole);
}
