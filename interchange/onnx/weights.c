/* weights.c - the initial values of a file's parameters as safetensors (huggingface.co/docs/safetensors): the
 * length of a header in 8 bytes, the header in JSON, then the elements. They go from file to file in
 * pieces. */
#include "interchange/onnx/import/import.h"
#include "interchange/onnx/format/output.h"

#include <jansson.h>
#include <stdlib.h>

static const char *word_of(int type) {
    return type == ONNX_DOUBLE     ? "F64"
           : type == ONNX_FLOAT16  ? "F16"
           : type == ONNX_BFLOAT16 ? "BF16"
                                   : "F32";
}

static json_t *entry_of(const onnx_tensor *t, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", word_of(t->type), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* The header as text, with blanks at its end so that elements begin at a multiple of 8. NULL: out of
 * memory. */
static char *header_of(weft_onnx *onnx, size_t *length) {
    json_t *all = json_object();
    size_t at = 0;
    for (int i = 0; i < onnx->n_variables; i++) {
        const onnx_variable *v = &onnx->variables[i];
        size_t bytes = onnx_tensor_bytes(v->initializer);
        char *name = onnx_dotted(&onnx->arena, v->path);
        if (!name || json_object_set_new(all, name, entry_of(v->initializer, at, at + bytes))) {
            json_decref(all);
            return NULL;
        }
        at += bytes;
    }
    char *made = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (!made) return NULL;
    *length = (strlen(made) + 7) / 8 * 8;
    char *text = kit_take(&onnx->arena, *length + 1, 1);
    if (text) snprintf(text, *length + 1, "%-*s", (int)*length, made);
    free(made);
    return text;
}

static weft_status put_elements(weft_onnx *onnx, const onnx_tensor *t, output *o, uint8_t *piece, size_t most,
                                weft_error *error) {
    size_t whole = onnx_tensor_bytes(t);
    for (size_t at = 0; at < whole; at += most) {
        size_t n = whole - at < most ? whole - at : most;
        weft_status status = onnx_tensor_read(&onnx->file, t, at, piece, n, error);
        if (!status) status = output_put(o, piece, n, error);
        if (status) return status;
    }
    return WEFT_OK;
}

static weft_status put_all(weft_onnx *onnx, output *o, weft_error *error) {
    enum { PIECE = 1 << 20 };
    size_t length = 0;
    char *header = header_of(onnx, &length);
    uint8_t *piece = kit_take_raw(&onnx->arena, PIECE, 1);
    uint64_t first = length;
    if (!header || !piece) return kit_no_memory(error, o->path);
    weft_status status = output_put(o, &first, sizeof first, error);
    if (!status) status = output_put(o, header, length, error);
    for (int i = 0; !status && i < onnx->n_variables; i++)
        status = put_elements(onnx, onnx->variables[i].initializer, o, piece, PIECE, error);
    kit_drop(&onnx->arena, piece);
    return status;
}

weft_status weft_onnx_weights(weft_onnx *onnx, const char *path, weft_error *error) {
    weft_error own;
    output o;
    error = kit_error(error, &own);
    weft_status status = output_open(&o, &onnx->arena, path, error);
    return status ? status : output_close(&o, put_all(onnx, &o, error), error);
}
