/* manifest.c - the manifest of a checkpoint as JSON. Its last entry is the XXH3 of all bytes before it, so a
 * changed byte is found wherever it is. It may be hostile all the same, so every entry is checked.
 *
 *     {
 *      "format": "weft checkpoint 2",
 *      "step": 100,
 *      "model": "gpt",
 *      "fingerprint": "0123456789abcdef",
 *      "seed": "0",
 *      "files": [{"name": "rank-0.safetensors", "bytes": 1024, "xxh3": "0123456789abcdef"}],
 *      "settings": {"threads": "2"},
 *      "notes": {"trainer/iteration": 100.0},
 *      "xxh3": "fedcba9876543210"
 *     }
 */
#include "runtime/checkpoint/checkpoint.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

#define FORMAT    "weft checkpoint 2"
#define SEAL_HEAD ",\n \"xxh3\": \""
#define SEAL_TAIL "\"\n}\n"

enum {
    HEX = 16, /* digits of a checksum */
    SEAL_BYTES = sizeof SEAL_HEAD - 1 + HEX + sizeof SEAL_TAIL - 1,
    MOST_BYTES = 64 << 20,
    MOST_FILES = 1 << 20
};

/* ---- writing ---- */

static json_t *hash_json(uint64_t hash) {
    char digits[HEX + 1];
    snprintf(digits, sizeof digits, "%016jx", hash);
    return json_string(digits);
}

static json_t *files_json(const manifest *m) {
    json_t *list = json_array();
    for (int i = 0; i < m->n_files; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:o}", "name", m->files[i].name, "bytes",
                                        (json_int_t)m->files[i].bytes, "xxh3", hash_json(m->files[i].hash)));
    return list;
}

/* NULL: no memory, or a text that is not UTF-8. */
static json_t *settings_json(const manifest *m) {
    json_t *settings = json_object();
    for (int i = 0; i < m->n_settings; i++)
        if (json_object_set_new(settings, m->settings[i].name, json_string(m->settings[i].value)))
            return json_decref(settings), NULL;
    return settings;
}

/* JSON has no infinities and no NaN. NULL: no memory, or a name that is not UTF-8. */
static json_t *notes_json(const manifest *m) {
    json_t *notes = json_object();
    for (int i = 0; i < m->n_notes; i++)
        if (isfinite(m->notes[i].value) &&
            json_object_set_new(notes, m->notes[i].name, json_real(m->notes[i].value)))
            return json_decref(notes), NULL;
    return notes;
}

/* Without the seal; the caller frees it with free(). NULL: no memory, or a text that is not UTF-8. */
static char *manifest_text(const manifest *m) {
    char seed[24];
    snprintf(seed, sizeof seed, "%ju", m->seed);
    json_t *root =
        json_pack("{s:s, s:I, s:s, s:o, s:s, s:o, s:o, s:o}", "format", FORMAT, "step", (json_int_t)m->step,
                  "model", m->model, "fingerprint", hash_json(m->form), "seed", seed, "files", files_json(m),
                  "settings", settings_json(m), "notes", notes_json(m));
    char *all =
        root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    return all;
}

/* jansson ends the text with "\n}", which goes after the seal. */
weft_status manifest_write(const manifest *m, const char *path, const weft_env *env, weft_error *error) {
    char *all = manifest_text(m), seal[SEAL_BYTES + 1];
    if (!all) return error_memory(error, path);
    size_t bytes = strlen(all) - strlen("\n}");
    snprintf(seal, sizeof seal, SEAL_HEAD "%016jx" SEAL_TAIL, hash_bytes(all, bytes, 0));
    file_writer w;
    file_begin(&w, env, path, error);
    file_append(&w, all, bytes);
    file_append(&w, seal, SEAL_BYTES);
    free(all);
    return file_finish(&w, WEFT_OK);
}

/* ---- reading ---- */

static weft_status no_manifest(weft_error *error, const char *path, const char *rule) {
    return error_set(error, WEFT_FILE, "%.600s: %s", path, rule);
}

static bool is_sealed(const char *data, size_t bytes) {
    char seal[SEAL_BYTES + 1];
    if (bytes < SEAL_BYTES) return false;
    size_t before = bytes - SEAL_BYTES;
    snprintf(seal, sizeof seal, SEAL_HEAD "%016jx" SEAL_TAIL, hash_bytes(data, before, 0));
    return memcmp(data + before, seal, SEAL_BYTES) == 0;
}

/* Exactly 16 lower-case digits. */
static bool read_hash(const char *digits, uint64_t *hash) {
    if (strlen(digits) != HEX || strspn(digits, "0123456789abcdef") != HEX) return false;
    *hash = strtoull(digits, NULL, 16);
    return true;
}

static bool read_seed(const char *digits, uint64_t *seed) {
    if (!*digits || strspn(digits, "0123456789") != strlen(digits)) return false;
    errno = 0;
    *seed = strtoull(digits, NULL, 10);
    return errno == 0;
}

/* A name is that of a file beside the manifest: never a path. */
static bool is_file_name(const char *name) {
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < 200;
}

static bool read_files(manifest *m, const json_t *list) {
    size_t n = json_array_size(list);
    if (!n || n > MOST_FILES) return false;
    manifest_file *files = arena_new_array(&m->arena, n, sizeof *files);
    m->files = files;
    for (size_t i = 0; files && i < n; i++) {
        const char *name, *digits;
        json_int_t bytes;
        if (json_unpack_ex(json_array_get(list, i), NULL, JSON_STRICT, "{s:s, s:I, s:s}", "name", &name,
                           "bytes", &bytes, "xxh3", &digits) ||
            !is_file_name(name) || bytes < 0 || !read_hash(digits, &files[i].hash))
            return false;
        files[i].bytes = (uint64_t)bytes;
        if (!(files[i].name = arena_copy(&m->arena, name))) return false;
        m->n_files++;
    }
    return files != NULL;
}

static bool read_notes(manifest *m, json_t *from) {
    const char *name;
    json_t *value;
    if (!json_is_object(from)) return false;
    weft_checkpoint_note *notes = arena_new_array(&m->arena, json_object_size(from), sizeof *notes);
    m->notes = notes;
    if (!notes) return false;
    json_object_foreach(from, name, value) {
        if (!json_is_number(value)) return false;
        weft_checkpoint_note *to = &notes[m->n_notes++];
        *to = (weft_checkpoint_note){arena_copy(&m->arena, name), json_number_value(value)};
        if (!to->name) return false;
    }
    return true;
}

/* None at all is fine: earlier versions kept none. */
static bool read_settings(manifest *m, json_t *from) {
    const char *name;
    json_t *value;
    if (!json_is_object(from)) return !from;
    weft_setting *settings = arena_new_array(&m->arena, json_object_size(from), sizeof *settings);
    m->settings = settings;
    if (!settings) return false;
    json_object_foreach(from, name, value) {
        if (!json_is_string(value)) return false;
        weft_setting *to = &settings[m->n_settings++];
        *to = (weft_setting){arena_copy(&m->arena, name), arena_copy(&m->arena, json_string_value(value))};
        if (!to->name || !to->value) return false;
    }
    return true;
}

static bool read_root(manifest *m, json_t *root) {
    const char *format, *model, *form, *seed, *seal;
    json_int_t step;
    json_t *files, *settings = NULL, *notes;
    if (json_unpack_ex(root, NULL, JSON_STRICT, "{s:s, s:I, s:s, s:s, s:s, s:o, s?o, s:o, s:s}", "format",
                       &format, "step", &step, "model", &model, "fingerprint", &form, "seed", &seed, "files",
                       &files, "settings", &settings, "notes", &notes, "xxh3", &seal))
        return false;
    m->step = step;
    m->model = arena_copy(&m->arena, model);
    return m->model && step >= 0 && read_hash(form, &m->form) && read_seed(seed, &m->seed) &&
           read_files(m, files) && read_settings(m, settings) && read_notes(m, notes);
}

static weft_status parse(manifest *m, const char *path, const char *data, size_t bytes, weft_error *error) {
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *format = json_string_value(json_object_get(root, "format"));
    weft_status status = WEFT_OK;
    if (!format || strcmp(format, FORMAT) != 0)
        status = no_manifest(error, path, "it is not a manifest of a checkpoint that this version reads");
    else if (!read_root(m, root))
        status = no_manifest(error, path, "an entry is missing, or not what it must be");
    json_decref(root);
    return status;
}

weft_status manifest_read(manifest *m, const char *path, const weft_env *env, weft_error *error) {
    char *data;
    size_t bytes;
    *m = (manifest){0};
    arena_init(&m->arena, env);
    weft_status status = file_read_all(env, path, MOST_BYTES, &data, &bytes, error);
    if (status) return status;
    if (!is_sealed(data, bytes))
        status = no_manifest(error, path, "its checksum does not fit: it was damaged, or changed by hand");
    else
        status = parse(m, path, data, bytes, error);
    mem_free(env, data, bytes + 1);
    return status;
}
