/* bad_file.c - bad.step: all that the last step needs to be run again elsewhere (docs/formats.md). One
 * safetensors file, which rank 0 writes:
 *      step            u8: NAME=VALUE lines: the plan's settings and fingerprint, the graph, how many runs
 *      model           u8: the model, as model.bin
 *      store.NAME      values before the step, as weft_session_save() has them
 *      feed.R.M.NAME   input NAME of rank R in run M of the step
 *      xxh3            u8[8]: XXH3 of all bytes before it; as its name is the last, nothing follows
 * The inputs of other ranks travel to rank 0 piece by piece. */
#include "runtime/session/state.h"

#include "graph/file/packed.h"
#include "weft/bad_step.h"

#include <stdlib.h>
#include <string.h>

enum { STEP, MODEL, CHECK, FEEDS };

typedef struct bad_file {
    weft_session *s;
    arena arena;
    char *step;     /* the text */
    uint8_t *model; /* the bytes */
    size_t model_bytes;
    int n_feeds;    /* of one rank; a run of the update alone has none */
    byte_hash hash; /* of what is in the file so far */
    safetensors_tensor *tensors;
} bad_file;

/* The piece of input `index` of a run, on this rank. */
static const char *input_at(const bad_step *b, int run, int index) {
    return b->head->kept->inputs + (size_t)run * b->head->input_bytes + b->head->inputs[index].at;
}

static weft_status fill_feed(bad_file *f, int index, uint64_t at, void *into, size_t bytes,
                             weft_error *error) {
    const bad_step *b = &f->s->bad;
    int rank = index / f->n_feeds, run = index % f->n_feeds / b->head->n_inputs;
    const weft_comm *comm = f->s->comm;
    weft_status status = WEFT_OK;
    if (!comm || comm->rank == rank)
        status = session_fetch(f->s, b->head, into, input_at(b, run, index % b->head->n_inputs) + at, bytes,
                               error);
    return rank && !status ? comm_share(f->s->comm, rank, "bad.step", into, bytes, error) : status;
}

static weft_status fill(void *context, int index, uint64_t at, void *into, size_t bytes, weft_error *error) {
    bad_file *f = context;
    if (index >= FEEDS) return fill_feed(f, index - FEEDS, at, into, bytes, error);
    uint64_t hash = index == CHECK ? byte_hash_value(&f->hash) : 0;
    const void *from[] = {f->step, f->model, &hash}; /* little-endian, as all of Weft */
    memcpy(into, (const char *)from[index] + at, bytes);
    return WEFT_OK;
}

static char *step_text(const weft_session *s) {
    text t = {0};
    for (int i = 0; i < s->plan->n_agreed; i++)
        text_add(&t, "%s=%s\n", s->plan->agreed[i].name, s->plan->agreed[i].value);
    text_add(&t, "fingerprint=%016jx\n", s->plan->fingerprint);
    text_add(&t, "graph=%s\nruns=%d\nseed=%ju\n", s->bad.head->p->name, s->bad.runs, s->bad.head->run.seed);
    return text_detach(&t);
}

static bool list_feeds(bad_file *f) {
    const bound_program *head = f->s->bad.head;
    int world = f->s->comm ? f->s->comm->world : 1;
    for (int i = 0; i < world * f->n_feeds; i++) {
        const input_binding *in = &head->inputs[i % head->n_inputs];
        f->tensors[FEEDS + i] =
            (safetensors_tensor){.name = arena_printf(&f->arena, "feed.%d.%d.%s", i / f->n_feeds,
                                                      i % f->n_feeds / head->n_inputs, in->name),
                                 .type = in->value->type};
        if (!f->tensors[FEEDS + i].name) return false;
    }
    return true;
}

static weft_status collect(bad_file *f, const weft_model *model, const char *path, weft_error *error) {
    const bad_step *b = &f->s->bad;
    size_t world = f->s->comm ? (size_t)f->s->comm->world : 1;
    f->n_feeds = (b->runs - (b->last->p->phase == PHASE_UPDATE)) * b->head->n_inputs;
    f->step = step_text(f->s);
    f->tensors = arena_new_array(&f->arena, FEEDS + world * (size_t)f->n_feeds, sizeof *f->tensors);
    if (!f->step || !f->tensors || !list_feeds(f)) return error_memory(error, path);
    weft_status status = model_pack(model, path, &f->model, &f->model_bytes, error);
    int64_t step_bytes = (int64_t)strlen(f->step), model_bytes = (int64_t)f->model_bytes;
    f->tensors[STEP] = (safetensors_tensor){.name = "step", .type = type_of(WEFT_U8, 1, &step_bytes)};
    int64_t hash_bytes = sizeof(uint64_t);
    f->tensors[MODEL] = (safetensors_tensor){.name = "model", .type = type_of(WEFT_U8, 1, &model_bytes)};
    f->tensors[CHECK] = (safetensors_tensor){.name = "xxh3", .type = type_of(WEFT_U8, 1, &hash_bytes)};
    return status;
}

weft_status weft_bad_step_save(weft_session *s, const weft_model *model, const char *path,
                               weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!s || !model)
        return error_set(error, WEFT_ARGUMENT, "weft_bad_step_save: a session and its model are needed");
    if (!s->bad.head)
        return error_set(error, WEFT_ORDER,
                         "weft_bad_step_save: the last run was not a bad step: call it after a run that was");
    const char *name = path ? path : "bad.step";
    bad_file f = {.s = s};
    arena_init(&f.arena, &s->env);
    weft_status status = collect(&f, model, name, error);
    int world = s->comm ? s->comm->world : 1;
    status = ranks_settle(s, "bad.step", status, error);
    save_more more = {"store.", FEEDS + world * f.n_feeds, f.tensors, fill, &f, &f.hash};
    if (!status) status = session_save_with(s, path, true, &more, error);
    mem_free(&model->env, f.model, f.model_bytes);
    free(f.step);
    arena_free(&f.arena);
    return status;
}
