/* image.c - PNG by the trainer's grid, and .npy format version 1.0. */
#include "tools/graphtool/training/image.h"

#include "tools/graphtool/output/output.h"

#include "runtime/hooks/grid.h"

static tensor tensor_of_array(const weft_array *a) {
    int64_t shape[WEFT_MAX_NDIM];
    int ndim = weft_array_shape(a, shape);
    return tensor_of(weft_array_dtype(a), ndim, shape);
}

/* Encoded in memory, so that out_write can replace the file as a whole. */
void image_write_png(const char *path, const weft_array *images, image_grid grid) {
    grid_file file;
    grid_shape in = {grid.rows, grid.columns, grid.scale, 0};
    weft_error error = {0};
    kit_arena memory = kit_arena_of(NULL);
    tensor type = tensor_of_array(images);
    if (!grid_encode(&memory, &file, &type, weft_array_data(images), in, &error))
        out_write(path, file.bytes, file.n);
    kit_release(memory);
    if (error.status) tool_fail("%s: %s", path, error.text);
}

/* The header is a Python literal, padded with blanks and ending with a newline, so that the data are at a
 * multiple of 64; before it, its length. */
void image_write_npy(const char *path, const weft_array *numbers) {
    static const char *const descr[WEFT_DTYPES] = {
        [WEFT_F32] = "<f4", [WEFT_F64] = "<f8",  [WEFT_F16] = "<f2", [WEFT_I64] = "<i8", [WEFT_I32] = "<i4",
        [WEFT_U8] = "|u1",  [WEFT_BOOL] = "|b1", [WEFT_I8] = "|i1",  [WEFT_U16] = "<u2", [WEFT_U32] = "<u4"};
    static const char begin[10] = "\x93NUMPY\x01";
    tensor type = tensor_of_array(numbers);
    text file = {0};
    if (!descr[type.dtype]) tool_fail("%s: .npy has no such element type", path);
    text_bytes(&file, begin, sizeof begin);
    text_add(&file, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[type.dtype]);
    for (int i = 0; i < type.ndim; i++) text_add(&file, i ? " %lld," : "%lld,", (long long)type.shape[i]);
    text_add(&file, "), }");
    text_add(&file, "%*s\n", (int)(63 - file.length % 64), "");
    size_t header = file.length - sizeof begin, bytes = file.length + tensor_bytes(&type);
    text_bytes(&file, weft_array_data(numbers), tensor_bytes(&type));
    char *all = tool_take(&file);
    all[8] = (char)(header & 255);
    all[9] = (char)(header >> 8);
    out_write(path, all, bytes);
}
