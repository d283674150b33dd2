/* write.c - writes checkpoints while training continues.
 *
 *     begin   rank 0 makes FOLDER/step-N.tmp; each rank copies its share (the snapshot) and starts a thread
 *     thread  writes rank-R.safetensors and flushes it
 *     end     all ranks tell size and checksum; rank 0 writes the manifest, renames the folder, and prunes:
 *             it removes older ones, on a thread where it has to read those of an earlier run before
 *
 * Without memory for the snapshot, begin writes the file itself from the store, and the step waits; env.log
 * tells how long. */
#include "runtime/checkpoint/checkpoint.h"

#include "graph/core/utf8.h"
#include "weft/support.h"

#include <pthread.h>
#include <stdatomic.h>

struct weft_checkpoint_writer {
    weft_env env;
    weft_session *session;
    int rank, world;
    char folder[CHECKPOINT_ROOM];
    int keep;
    weft_checkpoint_lock *lock; /* the writer's own; NULL: options.lock has the folder */
    int64_t best;               /* step of the best one; 0: none */
    kept known;                 /* of rank 0; while it prunes, the pruner's */
    bool is_full;               /* the last one had no room of its own: it was reported */
    bool has_given;             /* one was removed since a checkpoint was completed */
    share share;
    char *snapshot; /* share.bytes; NULL: none */
    /* of the one under way: */
    bool is_begun, has_thread;
    bool is_best;
    int64_t step;
    char path[CHECKPOINT_ROOM]; /* this rank's file */
    arena notes_arena;
    int n_notes;
    weft_checkpoint_note *notes; /* copies */
    uint64_t *seals;             /* [2 * world]: size and checksum of each rank's file */
    pthread_t thread;
    atomic_bool is_written;
    /* of the thread, to be read when it has ended: */
    weft_error error;
    safetensors_seal seal;
    /* of the pruner: */
    bool has_pruner;
    atomic_bool is_pruned; /* its work is done */
    pthread_t pruner;
    int64_t prune_best, prune_newest;
};

/* Whether all ranks succeeded; alone, this one. */
static weft_status settle_all(weft_checkpoint_writer *w, const char *name, weft_status own,
                              weft_error *error) {
    return w->world > 1 ? ranks_settle(w->session, name, own, error) : own;
}

static double mib(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

/* ---- opening ---- */

/* Room on the disk of the folder; false: nobody knows. */
static bool ask_room(const weft_checkpoint_writer *w, uint64_t *has) {
    const weft_io *io = io_of(&w->env);
    return io->free_bytes && io->free_bytes(io->context, w->folder, has) == 0;
}

/* The step that makes room for another one, below `below`; -1: none. */
static int64_t find_oldest(weft_checkpoint_writer *w, int64_t below) {
    return w->keep ? kept_oldest(&w->known, w->folder, w->best, below) : -1;
}

/* Before the first step: the disk has room for those that stay and the one that is written. Those of this
 * model that an earlier run left make room; others stay. */
static weft_status check_disk(weft_checkpoint_writer *w, weft_error *error) {
    uint64_t bytes = w->share.all_bytes, has = 0;
    if (!ask_room(w, &has)) return WEFT_OK;
    if (has < bytes && find_oldest(w, INT64_MAX) < 0)
        return error_set(
            error, WEFT_IO,
            "%.400s: a checkpoint has %.1f MiB, and the disk has room for %.1f MiB: make room, or "
            "choose another folder",
            w->folder, mib(bytes), mib(has));
    int there = kept_count(&w->known, w->folder), more = w->keep + 1 > there ? w->keep + 1 - there : 1;
    if (!w->keep || has / (uint64_t)more >= bytes) return WEFT_OK;
    env_log(&w->env,
            "checkpoints: %.400s: %d more of %.1f MiB each will be there at once, and the disk has room for "
            "%.1f MiB: make room, or keep fewer than %d; else the oldest goes for the newest",
            w->folder, more, mib(bytes), mib(has), w->keep);
    return WEFT_OK;
}

/* What weft_plan_memory() says; a rank may have nothing to write. */
static size_t snapshot_bytes(const weft_checkpoint_writer *w) {
    return w->share.bytes ? w->share.bytes : 1;
}

/* The copy that a checkpoint is taken of: from here on a step needs no memory. */
static void make_snapshot(weft_checkpoint_writer *w) {
    w->snapshot = mem_raw(&w->env, snapshot_bytes(w));
    if (!w->snapshot)
        env_log(
            &w->env,
            "checkpoints: there is no memory for a copy of what is saved, %.1f MiB: steps wait until it is "
            "written",
            mib(w->share.bytes));
}

static const weft_field fields[] = {
    WEFT_FIELD(weft_checkpoint_options, folder, TEXT, 0, 0, NULL, "where checkpoints are"),
    WEFT_FIELD(weft_checkpoint_options, keep, INT, 1, INT32_MAX, "all",
               "how many stay, the newest that are whole"),
    WEFT_FIELD(weft_checkpoint_options, best, COUNT, 1, WEFT_COUNT_MOST, NULL, "step of the best one so far"),
    WEFT_FIELD(weft_checkpoint_options, no_snapshot, FLAG, 0, 1, NULL, "no memory for a copy"),
    WEFT_FIELD_END(weft_checkpoint_options),
};

const weft_field *weft_checkpoint_fields(void) {
    return fields;
}

/* On rank 0. */
static weft_status open_folder(weft_checkpoint_writer *w, const weft_checkpoint_lock *lock,
                               weft_error *error) {
    if (folder_make(w->folder, &w->env, error)) return error->status;
    if (!lock_is_held(lock) && !(w->lock = weft_checkpoint_lock_take(w->folder, &w->env, error)))
        return error->status;
    folder_clean(w->folder, &w->env); /* what a kill left */
    return check_disk(w, error);
}

static weft_status open_parts(weft_checkpoint_writer *w, const weft_checkpoint_options *o,
                              weft_error *error) {
    if ((o && weft_fields_check(fields, o, "checkpoints", error)) ||
        path_check(o ? o->folder : NULL, BEHIND_FOLDER, error))
        return error->status;
    snprintf(w->folder, sizeof w->folder, "%s", o->folder);
    for (size_t n = strlen(w->folder); n > 1 && w->folder[n - 1] == '/';) w->folder[--n] = 0;
    w->keep = o->keep;
    w->best = o->best;
    if (share_collect(&w->share, w->session->plan, w->session->store, w->folder, error) ||
        (w->rank == 0 && open_folder(w, o->lock, error)))
        return error->status;
    if (!o->no_snapshot) make_snapshot(w);
    return WEFT_OK;
}

weft_checkpoint_writer *weft_checkpoint_writer_open(weft_session *session,
                                                    const weft_checkpoint_options *options,
                                                    weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!session) return error_set(error, WEFT_ARGUMENT, "checkpoints: there is no session"), NULL;
    const weft_env *env = options && options->env ? options->env : &session->env;
    weft_checkpoint_writer *w = mem_new(env, sizeof *w);
    if (!w) {
        weft_status status = error_memory(error, "checkpoints");
        if (session->comm && session->comm->world > 1) ranks_settle(session, "checkpoints", status, error);
        return NULL;
    }
    w->env = *env;
    w->session = session;
    w->rank = session->comm ? session->comm->rank : 0;
    w->world = session->comm ? session->comm->world : 1;
    w->known = (kept){.env = &w->env, .form = session->plan->form};
    arena_init(&w->notes_arena, &w->env);
    if (!settle_all(w, "checkpoints", open_parts(w, options, error), error)) return w;
    weft_checkpoint_writer_close(w);
    return NULL;
}

static void end_thread(weft_checkpoint_writer *w) {
    if (w->has_thread) pthread_join(w->thread, NULL);
    w->has_thread = false;
}

static void end_pruner(weft_checkpoint_writer *w) {
    if (w->has_pruner) pthread_join(w->pruner, NULL);
    w->has_pruner = false;
}

void weft_checkpoint_writer_close(weft_checkpoint_writer *w) {
    if (!w) return;
    weft_env env = w->env;
    end_thread(w);
    end_pruner(w);
    weft_checkpoint_lock_release(w->lock);
    mem_free(&env, w->snapshot, snapshot_bytes(w));
    arena_free(&w->notes_arena);
    kept_free(&w->known);
    arena_free(&w->share.w.arena);
    mem_free(&env, w, sizeof *w);
}

uint64_t weft_checkpoint_bytes(const weft_checkpoint_writer *w, bool all) {
    return !w ? 0 : all ? w->share.all_bytes : w->share.bytes;
}

/* ---- this rank's file ---- */

/* From the snapshot. */
static weft_status give_copy(void *context, int index, uint64_t at, void *into, size_t bytes,
                             weft_error *error) {
    const weft_checkpoint_writer *w = context;
    memcpy(into, w->snapshot + w->share.pieces[index].at + at, bytes);
    return WEFT_OK;
}

static weft_status read_piece(const weft_checkpoint_writer *w, const piece *p, uint64_t at, void *into,
                              size_t bytes, weft_error *error) {
    size_t before = (size_t)(p->begin - p->part->begin) * dtype_bytes(p->part->type.dtype);
    return store_read(w->session->store, p->part, before + at, into, bytes, error);
}

/* From the store. */
static weft_status give_value(void *context, int index, uint64_t at, void *into, size_t bytes,
                              weft_error *error) {
    const weft_checkpoint_writer *w = context;
    return read_piece(w, &w->share.pieces[index], at, into, bytes, error);
}

static void *write_file(void *context) {
    weft_checkpoint_writer *w = context;
    safetensors_write_sealed(w->path, &w->env, w->share.n, w->share.tensors,
                             w->snapshot ? give_copy : give_value, w, &w->seal, &w->error);
    atomic_store(&w->is_written, true);
    return NULL;
}

/* ---- begin ---- */

/* All micro-batches of a step, or none, have run. */
static weft_status check_boundary(const weft_checkpoint_writer *w, weft_error *error) {
    const weft_session *s = w->session;
    for (int i = 0; i < s->plan->n_programs; i++)
        if (s->programs[i].micro)
            return error_set(error, WEFT_ORDER,
                             "checkpoints: graph %s has run %jd micro-batches of a step: end the step first",
                             s->plan->programs[i].name, s->programs[i].micro);
    return store_check_parameters(s->store, w->folder, error);
}

static weft_status copy_notes(weft_checkpoint_writer *w, const weft_checkpoint_note *notes, int n,
                              weft_error *error) {
    if (n < 0 || (n && !notes))
        return error_set(error, WEFT_ARGUMENT, "checkpoints: %d notes, and no list", n);
    arena_free(&w->notes_arena);
    arena_init(&w->notes_arena, &w->env);
    w->notes = arena_new_array(&w->notes_arena, n, sizeof *w->notes);
    w->seals = arena_new_array(&w->notes_arena, 2 * w->world, sizeof *w->seals);
    w->n_notes = 0;
    for (int i = 0; w->notes && i < n; i++) {
        if (!notes[i].name) return error_set(error, WEFT_ARGUMENT, "checkpoints: note %d has no name", i);
        if (!utf8_is_valid(notes[i].name, strlen(notes[i].name)))
            return error_set(error, WEFT_ARGUMENT, "checkpoints: note %d: its name, '%s', is not UTF-8", i,
                             SHOW(notes[i].name));
        const char *name = arena_copy(&w->notes_arena, notes[i].name);
        if (!name) return error_memory(error, "checkpoints");
        w->notes[w->n_notes++] = (weft_checkpoint_note){name, notes[i].value};
    }
    return w->notes && w->seals ? WEFT_OK : error_memory(error, "checkpoints");
}

/* On a full disk the oldest goes for a newer one, and never the last that is whole. Where the newer one fails
 * all the same, as someone else fills the disk, no further one goes. */
static void give_up_oldest(weft_checkpoint_writer *w, int64_t step) {
    bool was_full = w->is_full;
    uint64_t has = 0, values = w->share.all_bytes;
    uint64_t bytes = values + values / 64 + (64 << 10); /* with names, the manifest, and blocks of the disk */
    w->is_full = ask_room(w, &has) && has < bytes;
    if (!w->is_full || w->has_given) return;
    end_pruner(w);
    int64_t oldest = find_oldest(w, step);
    if (oldest < 0) return;
    kept_remove(&w->known, w->folder, oldest);
    w->has_given = true;
    if (!was_full)
        env_log(&w->env,
                "checkpoints: %.400s: the disk has room for %.1f MiB, and a checkpoint has %.1f MiB: the "
                "oldest, step %jd, was removed for step %jd, and so on until there is room",
                w->folder, mib(has), mib(bytes), oldest, step);
}

static weft_status prepare(weft_checkpoint_writer *w, int64_t step, const weft_checkpoint_note *notes, int n,
                           weft_error *error) {
    char tmp[CHECKPOINT_ROOM], name[64];
    if (step < 0 || step > 999999999999999999)
        return error_set(error, WEFT_ARGUMENT, "checkpoints: step %jd is not from 0 to 10^18 - 1", step);
    snprintf(name, sizeof name, "rank-%d.safetensors", w->rank);
    checkpoint_path(tmp, w->folder, step, ".tmp");
    checkpoint_file_path(w->path, tmp, name);
    if (check_boundary(w, error)) return error->status;
    if (w->rank == 0 && kept_is_others(&w->known, w->folder, step))
        return error_set(error, WEFT_ORDER,
                         "%.400s/step-%08jd: it is a checkpoint of another model: choose another folder",
                         w->folder, step);
    weft_status status = copy_notes(w, notes, n, error);
    if (status || w->rank) return status;
    give_up_oldest(w, step);
    return folder_make_tmp(w->folder, step, &w->env, error);
}

static weft_status take_snapshot(weft_checkpoint_writer *w, weft_error *error) {
    for (int i = 0; w->snapshot && i < w->share.n; i++) {
        const piece *p = &w->share.pieces[i];
        size_t bytes = (size_t)(p->end - p->begin) * dtype_bytes(p->part->type.dtype);
        if (read_piece(w, p, 0, w->snapshot + p->at, bytes, error)) return error->status;
    }
    return WEFT_OK;
}

/* A thread that cannot be started is not a failure: the file is written here, and the step waits. */
static void start(weft_checkpoint_writer *w) {
    w->error = (weft_error){0};
    atomic_store(&w->is_written, false);
    w->has_thread = w->snapshot && pthread_create(&w->thread, NULL, write_file, w) == 0;
    if (w->has_thread) return;
    uint64_t begin = weft_clock_ns();
    write_file(w);
    env_log(&w->env, "checkpoints: training waited %.3f s until step %jd was written",
            1e-9 * (double)(weft_clock_ns() - begin), w->step);
}

weft_status weft_checkpoint_begin(weft_checkpoint_writer *w, int64_t step, bool is_best,
                                  const weft_checkpoint_note *notes, int n_notes, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!w) return error_set(error, WEFT_ARGUMENT, "checkpoints: there is no writer");
    if (w->is_begun)
        return error_set(error, WEFT_ORDER,
                         "checkpoints: step %jd is under way: call weft_checkpoint_end first", w->step);
    weft_status status = weft_sync(w->session, error);
    if (!status) status = prepare(w, step, notes, n_notes, error);
    status = settle_all(w, "checkpoint", status, error);
    if (status) return status;
    w->step = step;
    w->is_best = is_best;
    w->is_begun = true;
    if (!take_snapshot(w, error)) {
        start(w);
        return WEFT_OK;
    }
    w->error = *error; /* the others learn of it at the end */
    atomic_store(&w->is_written, true);
    return WEFT_OK;
}

/* ---- end ---- */

bool weft_checkpoint_is_written(const weft_checkpoint_writer *w) {
    if (!w || !w->is_begun) return true;
    return atomic_load(&w->is_written) && (!w->has_pruner || atomic_load(&w->is_pruned));
}

static weft_status gather_seals(weft_checkpoint_writer *w, weft_error *error) {
    int rank = w->rank;
    w->seals[2 * rank] = w->seal.bytes;
    w->seals[2 * rank + 1] = w->seal.hash;
    weft_collective all = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                           .dtype = WEFT_I64,
                           .name = "checkpoint",
                           .buffer = w->seals,
                           .count = 2 * (size_t)w->world};
    return w->world > 1 ? weft_comm_run(w->session->comm, &all, error) : WEFT_OK;
}

/* Rank 0: from here on the checkpoint is complete. */
static weft_status complete(weft_checkpoint_writer *w, weft_error *error) {
    arena *a = &w->notes_arena;
    int world = w->world;
    char tmp[CHECKPOINT_ROOM], path[CHECKPOINT_ROOM];
    manifest_file *files = arena_new_array(a, world, sizeof *files);
    for (int i = 0; files && i < world; i++) {
        files[i] =
            (manifest_file){arena_printf(a, "rank-%d.safetensors", i), w->seals[2 * i], w->seals[2 * i + 1]};
        if (!files[i].name) files = NULL;
    }
    if (!files) return error_memory(error, w->folder);
    manifest m = {.step = w->step,
                  .seed = w->session->store->seed,
                  .model = weft_model_name(w->session->plan->model),
                  .form = w->session->plan->form,
                  .n_files = world,
                  .files = files,
                  .n_settings = w->session->plan->n_settings,
                  .settings = w->session->plan->settings,
                  .n_notes = w->n_notes,
                  .notes = w->notes};
    checkpoint_path(tmp, w->folder, w->step, ".tmp");
    checkpoint_file_path(path, tmp, MANIFEST_NAME);
    weft_status status = manifest_write(&m, path, &w->env, error);
    return status ? status : folder_complete(w->folder, w->step, &w->env, error);
}

static void *prune(void *context) {
    weft_checkpoint_writer *w = context;
    kept_prove(&w->known, w->folder, w->keep - 1, w->prune_newest, true);
    kept_prune(&w->known, w->folder, w->keep, w->prune_best, w->prune_newest);
    atomic_store(&w->is_pruned, true);
    return NULL;
}

/* Once in a run that continues, older ones are read before any of them goes: the new one is complete before
 * that, and the training does not wait for it. */
static void start_pruner(weft_checkpoint_writer *w) {
    end_pruner(w);
    kept_add(&w->known, w->step);
    w->prune_best = w->best;
    w->prune_newest = w->step;
    atomic_store(&w->is_pruned, false);
    bool is_quick = kept_prove(&w->known, w->folder, w->keep - 1, w->step, false);
    w->has_pruner = !is_quick && pthread_create(&w->pruner, NULL, prune, w) == 0;
    if (!w->has_pruner) prune(w);
}

weft_status weft_checkpoint_end(weft_checkpoint_writer *w, weft_error *error) {
    weft_error own;
    error = error_here(error, &own);
    if (!w || !w->is_begun)
        return error_set(error, w ? WEFT_ORDER : WEFT_ARGUMENT, "checkpoints: none was begun");
    end_thread(w);
    w->is_begun = false;
    *error = w->error;
    weft_status status = settle_all(w, "checkpoint written", error->status, error);
    if (!status) status = gather_seals(w, error);
    if (!status) {
        status = w->rank == 0 ? complete(w, error) : WEFT_OK;
        status = settle_all(w, "checkpoint complete", status, error);
    }
    if (!status && w->is_best) w->best = w->step;
    if (!status) w->has_given = false;
    if (w->rank == 0) folder_clean(w->folder, &w->env);
    if (w->rank == 0 && !status && w->keep) start_pruner(w);
    return status;
}
