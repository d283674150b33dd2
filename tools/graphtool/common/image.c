/* image.c - PNG by the trainer's grid, and .npy format version 1.0. */
#include "tools/graphtool/common/image.h"

#include "tools/graphtool/common/output.h"

#include "runtime/hooks/grid.h"

#include <string.h>

/* ---- PNG ---- */

/* Encoded in memory, so that out_write can replace the file as a whole. */
void image_write_grid(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                      image_grid grid) {
    grid_file file;
    grid_shape in = {grid.rows, grid.columns, grid.scale, 0};
    weft_error error = {0};
    kit_arena memory = kit_arena_of(NULL);
    tensor type = tensor_of(dtype, ndim, shape);
    if (!grid_encode(&memory, &file, &type, data, in, &error)) out_write(path, file.bytes, file.n);
    kit_release(memory);
    if (error.status) tool_fail("%s: %s", path, error.text);
}

/* ---- .npy ---- */

/* The header is a Python literal, padded with blanks and ending with a newline. */
void image_write_npy(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                     size_t bytes) {
    static const char *const descr[WEFT_DTYPES] = {
        [WEFT_F32] = "<f4", [WEFT_F64] = "<f8", [WEFT_F16] = "<f2", [WEFT_I64] = "<i8",
        [WEFT_I32] = "<i4", [WEFT_U8] = "|u1",  [WEFT_BOOL] = "|b1"};
    text header = {0};
    if (!descr[dtype]) tool_fail("%s: .npy has no such element type", path);
    text_add(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[dtype]);
    for (int i = 0; i < ndim; i++) text_add(&header, i ? " %lld," : "%lld,", (long long)shape[i]);
    text_add(&header, "), }");
    size_t n = header.length, padded = size_align(10 + n + 1, 64) - 10; /* the data at a multiple of 64 */
    unsigned char *file = tool_new(10 + padded + bytes, 1);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(padded & 255);
    file[9] = (unsigned char)(padded >> 8);
    memset(file + 10, ' ', padded - 1);
    memcpy(file + 10, tool_take(&header), n);
    file[10 + padded - 1] = '\n';
    if (bytes) memcpy(file + 10 + padded, data, bytes);
    out_write(path, file, 10 + padded + bytes);
}
