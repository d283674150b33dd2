/* kept.c - which checkpoints of a folder count among those that stay: the ones of this model that are whole.
 * A training knows those that it has written, and asks each time whether their files are there, with their
 * sizes. One of an earlier run is read once, every byte of it. */
#include "runtime/checkpoint/checkpoint.h"

void kept_free(kept *k) {
    mem_free(k->env, k->steps, k->room * sizeof *k->steps);
}

static size_t place_of(const kept *k, int64_t step) {
    size_t i = 0;
    while (i < k->n && k->steps[i] != step) i++;
    return i;
}

bool kept_has(const kept *k, int64_t step) {
    return place_of(k, step) < k->n;
}

void kept_add(kept *k, int64_t step) {
    if (kept_has(k, step)) return;
    int64_t *more = mem_grow(k->env, k->steps, &k->room, k->n + 1, sizeof *more);
    if (more) k->steps = more, k->steps[k->n++] = step;
}

static void kept_drop(kept *k, int64_t step) {
    size_t i = place_of(k, step);
    if (i < k->n) k->steps[i] = k->steps[--k->n];
}

static weft_checkpoint *open_step(const kept *k, const char *folder, int64_t step) {
    char path[CHECKPOINT_ROOM];
    checkpoint_path(path, folder, step, "");
    return weft_checkpoint_open(path, k->env, NULL);
}

bool kept_is_others(const kept *k, const char *folder, int64_t step) {
    weft_checkpoint *c = open_step(k, folder, step);
    bool is_others = c && c->m.form != k->form;
    weft_checkpoint_close(c);
    return is_others;
}

static bool has_sizes(const weft_checkpoint *c) {
    const weft_io *io = io_of(&c->env);
    bool has = true;
    for (int i = 0; has && i < c->m.n_files; i++) {
        char path[CHECKPOINT_ROOM];
        void *file;
        uint64_t bytes = 0;
        checkpoint_file_path(path, c->path, c->m.files[i].name);
        if (io->open_read(io->context, path, &file, &bytes)) return false;
        io->close(io->context, file);
        has = bytes == c->m.files[i].bytes;
    }
    return has;
}

int kept_count(const kept *k, const char *folder) {
    int n, count = 0;
    int64_t *steps;
    weft_checkpoint_steps(folder, k->env, &steps, &n, NULL);
    for (int i = 0; i < n; i++) {
        weft_checkpoint *c = open_step(k, folder, steps[i]);
        count += c && c->m.form == k->form && has_sizes(c);
        weft_checkpoint_close(c);
    }
    weft_checkpoint_steps_free(steps);
    return count;
}

static bool is_whole(const kept *k, const char *folder, int64_t step) {
    weft_checkpoint *c = open_step(k, folder, step);
    bool is_good = c && c->m.step == step && c->m.form == k->form;
    if (is_good) is_good = kept_has(k, step) ? has_sizes(c) : !weft_checkpoint_verify(c, NULL);
    weft_checkpoint_close(c);
    return is_good;
}

bool kept_prove(kept *k, const char *folder, int most, int64_t below, bool reads) {
    int n, found = 0;
    bool is_proven = true;
    int64_t *steps;
    weft_checkpoint_steps(folder, k->env, &steps, &n, NULL);
    for (int i = n; is_proven && i-- > 0 && found < most;) {
        if (steps[i] >= below) continue;
        if (!(is_proven = reads || kept_has(k, steps[i]))) break;
        bool is_good = is_whole(k, folder, steps[i]);
        found += is_good;
        if (is_good)
            kept_add(k, steps[i]);
        else
            kept_drop(k, steps[i]);
    }
    weft_checkpoint_steps_free(steps);
    return is_proven;
}

/* ---- removing ---- */

void kept_remove(kept *k, const char *folder, int64_t step) {
    folder_remove(folder, step, k->env);
    kept_drop(k, step);
}

/* Later ones than the newest are another training's, or damaged. */
void kept_prune(kept *k, const char *folder, int keep, int64_t best, int64_t newest) {
    int n, found = 0;
    int64_t *steps;
    weft_checkpoint_steps(folder, k->env, &steps, &n, NULL);
    while (n-- > 0) {
        int64_t step = steps[n];
        if (step > newest) continue;
        if (found < keep) {
            found += kept_has(k, step);
        } else if (step != best && !kept_is_others(k, folder, step)) {
            kept_remove(k, folder, step);
        }
    }
    weft_checkpoint_steps_free(steps);
}

int64_t kept_oldest(kept *k, const char *folder, int64_t best, int64_t below) {
    int n;
    int64_t *steps, whole = -1, oldest = -1;
    kept_prove(k, folder, 1, below, true);
    weft_checkpoint_steps(folder, k->env, &steps, &n, NULL);
    for (int i = 0; i < n && steps[i] < below; i++)
        if (kept_has(k, steps[i])) whole = steps[i]; /* at last the newest, which was looked at just now */
    for (int i = 0; i < n && steps[i] < whole && oldest < 0; i++)
        if (steps[i] != best && !kept_is_others(k, folder, steps[i])) oldest = steps[i];
    weft_checkpoint_steps_free(steps);
    return oldest;
}
