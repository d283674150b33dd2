/* models.c - makes models that know the catalog: empty ones, and those of a file or a text. */
#include "graph/core/limits.h"
#include "graph/file/io.h"
#include "graph/file/packed.h"
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "weft/file.h"

weft_model *weft_model_new(const char *name) {
    return weft_model_new_in(name, NULL);
}

weft_model *weft_model_new_in(const char *name, const weft_env *env) {
    return model_new(name, env, &weft_catalog);
}

weft_model *weft_model_parse(const char *string, const char *where, const weft_env *env, weft_error *error) {
    return model_parse(string, where, env, &weft_catalog, error);
}

weft_model *weft_load(const char *path, const weft_env *env, weft_error *error) {
    char *data;
    size_t bytes;
    if (error) *error = (weft_error){0};
    if (file_read_all(env, path, MODEL_MAX_FILE_BYTES, &data, &bytes, error)) return NULL;
    weft_model *m = model_unpack(path, data, bytes, env, &weft_catalog, error);
    mem_free(env, data, bytes + 1);
    return m;
}
