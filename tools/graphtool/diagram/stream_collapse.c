/* stream_collapse.c - see stream_collapse.h. Repetitions are found greedily from the top, by the hashes of
 * steps. */
#include "tools/graphtool/diagram/stream_collapse.h"

#include "tools/graphtool/output/end.h"

/* The wait, the update and the start of the way back of one bucket form one step. */
static bool joins_previous(const streams *l, int row) {
    const stream_row *r = &l->rows[row], *before = r - 1;
    return row && r->bucket && r->bucket == before->bucket &&
           (before->kind == ROW_WAIT || before->kind == ROW_UPDATE);
}

/* A row's kind, whatever its size: with the phase of most of its nodes for a span, with the subgraph for
 * others. */
static uint64_t row_kind_of(const stream_row *r) {
    int of = r->kind == ROW_SPAN ? stream_phase_of(r) : r->bucket ? r->bucket->subgraph + 1 : 0;
    return (uint64_t)r->kind * 1009 + (uint64_t)of + 1;
}

/* Cuts the rows into steps, each its own representative. */
static void cut_steps(stream_collapse *f, const streams *l) {
    stream_step *s = NULL;
    for (int i = 0; i < l->n_rows; i++) {
        if (!joins_previous(l, i)) {
            s = &f->steps[f->n_steps++];
            *s = (stream_step){.row = i, .representative = s, .rounds = 1};
        }
        s->n_rows++;
        s->kinds = s->kinds * 1000003 + row_kind_of(&l->rows[i]);
        f->step_of[i] = s;
    }
}

/* How many rounds of `length` steps there are from `at`, at least 1. */
static int rounds_from(const stream_collapse *f, int at, int length) {
    int next = at + length;
    while (next < f->n_steps && f->steps[next].kinds == f->steps[next - length].kinds) next++;
    return (next - at) / length;
}

/* Takes, at each step, the period that saves the most steps, if it saves at least WORTH; less is not worth a
 * frame. */
static void find_rounds(stream_collapse *f) {
    enum { LONGEST = 8, WORTH = 3 };
    int runs = 0;
    for (int at = 0; at < f->n_steps;) {
        int best = 0, rounds = 1;
        for (int length = 1; length <= LONGEST; length++) {
            int r = rounds_from(f, at, length);
            if (length * (r - 1) > best * (rounds - 1)) best = length, rounds = r;
        }
        if (best * (rounds - 1) < WORTH) {
            at++;
            continue;
        }
        runs++;
        for (int k = 0; k < best * rounds; k++) {
            stream_step *s = &f->steps[at + k];
            s->representative = &f->steps[at + k % best];
            s->next = k + best < best * rounds ? s + best : NULL;
            s->run = runs;
            s->rounds = rounds;
        }
        at += best * rounds;
    }
}

stream_collapse stream_collapse_of(const streams *l, bool collapse) {
    size_t room = (size_t)l->n_rows + 1;
    stream_collapse f = {.steps = tool_new(room, sizeof *f.steps),
                         .step_of = tool_new(room, sizeof *f.step_of)};
    cut_steps(&f, l);
    if (collapse) find_rounds(&f);
    return f;
}
