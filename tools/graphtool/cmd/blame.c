/* blame.c - graphtool blame: the first collective that a rank did not enter, or entered differently, from the
 * rings that the ranks of a failed job have left. */
#include "tools/graphtool/output/output.h"
#include "tools/graphtool/ranks/ring_file.h"

#include "tools/graphtool/options/options.h"

enum { SHOWN = 16 }; /* ranks that are listed as text */

/* How a rank stands to the first difference: for people, the same where a signal has ended the job, so that
 * nobody is to blame, of the ranks that the first line names, and in JSON. */
static const struct stand {
    const char *loud, *calm, *verdict, *word;
} stands[] = {
    [STAND_OUTSIDE] = {"is not a member, or unknown", "is not a member, or unknown", NULL, "unknown"},
    [STAND_ENTERED] = {"has entered it", "has entered it", NULL, "entered"},
    [STAND_LATE] = {"ENTERED IT LATE", "entered it late", "entered it late", "late"},
    [STAND_ABSENT] = {"HAS NOT ENTERED IT", "has not entered it", "has not entered it", "absent"},
    [STAND_DIFFERS] = {"ENTERED ANOTHER", "entered another", "entered another", "differs"},
    [STAND_GONE] = {"IS GONE", "was not heard", "is gone: dead, stopped, or its machine cannot be reached",
                    "gone"},
};

static bool has_error(const ring_set *s) {
    bool has = false;
    for (int i = 0; i < s->n; i++) has |= *s->files[i].head.text != 0;
    return has;
}

/* A rank that is gone, one that ended in order, or one whose file was passed over. */
static const char *why_no_file(const ring_set *s, int rank) {
    return ring_set_is_damaged(s, rank) ? "its file is damaged"
           : has_error(s)               ? "no file: it was killed, or its file lies elsewhere"
                                        : "no file";
}

/* Terminals get no control characters of a file. */
static void say(text *t) {
    size_t room = t->length * 4 + 1;
    char *line = tool_new(room, 1);
    show_line(line, room, tool_take(t));
    printf("%s\n", line);
}

/* "all_reduce #17 (net.0) of run 5 of train, collective 1234 of world" */
static void add_title(text *t, const ring_record *r) {
    const descriptor *d = &r->descriptor;
    text_add(t, "%s", descriptor_title(d).text);
    if (d->run) text_add(t, " of run %llu", (unsigned long long)d->run);
    if (*d->program) text_add(t, " of %s", d->program);
    text_add(t, ", collective %llu of ", (unsigned long long)r->sequence);
    if (r->group)
        text_add(t, "group %u", r->group);
    else
        text_add(t, "world");
}

static const char *state_of(const ring_record *r) {
    return r->finished_ns ? "finished" : r->met_ns ? "moving data" : r->began_ns ? "waiting" : "queued";
}

static double seconds_before(const ring_file *f, uint64_t ns) {
    return (double)(int64_t)(f->head.written_ns - ns) * 1e-9;
}

/* The newest collective of a rank, of any group. */
static const ring_record *newest_of(const ring_file *f) {
    return f->head.records ? &f->records[f->head.records - 1] : NULL;
}

/* ---- text ---- */

static void say_rank(const ring_set *s, const ring_blame *b, int rank) {
    const ring_file *f = ring_set_of(s, rank);
    text t = {0};
    text_add(&t, "rank %d", rank);
    const struct stand *stand = b->of ? &stands[ring_stand_of(s, b, rank)] : NULL;
    if (stand) text_add(&t, " %s", has_error(s) ? stand->loud : stand->calm);
    if (!f) {
        text_add(&t, "; %s", why_no_file(s, rank));
        say(&t);
        return;
    }
    const ring_record *newest = newest_of(f);
    if (newest && newest->number) {
        text_add(&t, "; its newest is ");
        add_title(&t, newest);
        text_add(&t, ", %s, started %.1f s before its file", state_of(newest),
                 seconds_before(f, newest->started_ns));
    }
    if (*f->head.place) text_add(&t, "; at \"%s\"", f->head.place);
    text_add(&t, "; process %u on %s", f->head.pid, *f->head.host ? f->head.host : "?");
    say(&t);
}

/* What explains the others. */
static ring_stand worst_stand(const ring_set *s, const ring_blame *b) {
    ring_stand worst = STAND_OUTSIDE;
    for (int r = 0; r < s->world; r++) {
        ring_stand one = ring_stand_of(s, b, r);
        if (one > worst) worst = one;
    }
    return worst;
}

static void say_first(const ring_set *s, const ring_blame *b) {
    text t = {0};
    if (!b->of) {
        text_add(&t, "no difference: the ranks with a file have entered the same collectives");
        for (int r = 0; has_error(s) && r < s->world; r++)
            if (!ring_set_of(s, r))
                text_add(&t, "; rank %d has left %s", r,
                         ring_set_is_damaged(s, r) ? "a damaged one" : "none");
        say(&t);
        return;
    }
    text_add(&t, "first difference: ");
    add_title(&t, b->record);
    const char *join = ": rank";
    ring_stand worst = worst_stand(s, b);
    for (int r = 0; worst > STAND_ENTERED && r < s->world; r++)
        if (ring_stand_of(s, b, r) == worst) {
            text_add(&t, "%s %d", join, r);
            join = ",";
        }
    if (*join == ',') text_add(&t, " %s", stands[worst].verdict);
    if (*b->difference) text_add(&t, ": %s", b->difference);
    say(&t);
    if (*b->record->contents) {
        text_add(&t, "its parameters: %s", b->record->contents);
        say(&t);
    }
}

static void say_all(const ring_set *s, const ring_blame *b) {
    if (!has_error(s))
        printf("no rank had an error: the job was ended by a signal, and what follows is where the ranks "
               "were then\n");
    say_first(s, b);
    for (int r = 0; r < s->world && r < SHOWN; r++) say_rank(s, b, r);
    if (s->world > SHOWN) printf("and %d ranks more: --json has all\n", s->world - SHOWN);
    for (int i = 0; i < s->n && i < SHOWN; i++)
        if (*s->files[i].head.text) {
            text t = {0};
            text_add(&t, "rank %u said: %s", s->files[i].head.rank, s->files[i].head.text);
            say(&t);
        }
    if (s->n_earlier) printf("%d files of an earlier job are skipped\n", s->n_earlier);
}

/* ---- JSON ---- */

/* A text from a file, which need not be UTF-8. */
static json_t *json_shown(const char *from) {
    char line[4 * RING_TEXT];
    show_line(line, sizeof line, from);
    return json_string(line);
}

static json_t *record_json(const ring_record *r) {
    const descriptor *d = &r->descriptor;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:s}", "kind",
                     weft_collective_name((weft_collective_kind)d->kind), "order", (json_int_t)d->order,
                     "run", (json_int_t)d->run, "sequence", (json_int_t)r->sequence, "group",
                     (json_int_t)r->group, "elements", (json_int_t)d->elements, "program",
                     json_shown(d->program), "name", json_shown(d->name), "parameters",
                     json_shown(r->contents), "state", state_of(r));
}

static json_t *rank_json(const ring_set *s, const ring_blame *b, int rank) {
    const ring_file *f = ring_set_of(s, rank);
    json_t *one = json_pack("{s:i, s:b, s:b}", "rank", rank, "has_file", f != NULL, "is_damaged",
                            !f && ring_set_is_damaged(s, rank));
    if (b->of) json_object_set_new(one, "first", json_string(stands[ring_stand_of(s, b, rank)].word));
    if (!f) return one;
    const ring_record *newest = newest_of(f);
    if (newest && newest->number) json_object_set_new(one, "newest", record_json(newest));
    json_object_update_new(one, json_pack("{s:o, s:o, s:o, s:I}", "place", json_shown(f->head.place), "host",
                                          json_shown(f->head.host), "said", json_shown(f->head.text),
                                          "process", (json_int_t)f->head.pid));
    return one;
}

static void print_json(const ring_set *s, const ring_blame *b) {
    json_t *ranks = json_array();
    for (int r = 0; r < s->world; r++) json_array_append_new(ranks, rank_json(s, b, r));
    json_t *all = json_pack("{s:i, s:i, s:b, s:o}", "world", s->world, "files_of_earlier_jobs", s->n_earlier,
                            "has_error", has_error(s), "ranks", ranks);
    json_object_set_new(all, "first", b->of ? record_json(b->record) : json_null());
    json_t *blamed = json_array();
    ring_stand worst = b->of ? worst_stand(s, b) : STAND_OUTSIDE;
    for (int r = 0; r < s->world; r++) {
        bool is_worst = b->of && worst > STAND_ENTERED && ring_stand_of(s, b, r) == worst;
        bool is_silent = !ring_set_of(s, r) && !ring_set_is_damaged(s, r);
        bool is_dead = !b->of && has_error(s) && is_silent; /* while the others computed */
        if (is_worst || is_dead) json_array_append_new(blamed, json_integer(r));
    }
    json_object_set_new(all, "blamed", blamed);
    if (*b->difference) json_object_set_new(all, "difference", json_shown(b->difference));
    out_json(NULL, all);
}

static int blame_run(const options *o) {
    ring_set s;
    tool_must(ring_set_read(o->word ? o->word : "weft-rings", &s, &tool_why));
    ring_blame b = ring_set_blame(&s);
    if (o->json)
        print_json(&s, &b);
    else
        say_all(&s, &b);
    ring_set_free(&s);
    return EXIT_FINE;
}

const command command_blame = {
    .name = "blame",
    .summary = "Names the rank that a failed job of several was waiting for",
    .word = "DIR",
    .options = "json",
    .details =
        "DIR is the folder of --rings, where each rank has left its last collectives when one was lost "
        "(weft-rings).",
    .example = "graphtool blame weft-rings",
    .run = blame_run,
};
