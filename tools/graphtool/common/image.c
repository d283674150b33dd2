/* image.c - PNG by the trainer's grid, and .npy format version 1.0. */
#include "tools/graphtool/common/image.h"

#include "tools/graphtool/common/options.h"
#include "tools/graphtool/common/output.h"

#include "runtime/hooks/grid.h"

#include <stdlib.h>
#include <string.h>

/* ---- PNG ---- */

/* Encoded in memory, so that out_write can replace the file as a whole. */
int image_write_grid(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                     image_grid grid) {
    grid_file file;
    grid_shape in = {grid.rows, grid.columns, grid.scale, 0};
    weft_error error = {0};
    kit_arena memory = kit_arena_of(NULL);
    tensor type = tensor_of(dtype, ndim, shape);
    bool is_made = !grid_encode(&memory, &file, &type, data, in, &error);
    int status = is_made ? out_write(path, file.bytes, file.n) : tool_fail("%s: %s", path, error.text);
    kit_release(memory);
    return status;
}

/* ---- .npy ---- */

/* The header is a Python literal, padded with blanks and ending with a newline. */
int image_write_npy(const char *path, weft_dtype dtype, int ndim, const int64_t *shape, const void *data,
                    size_t bytes) {
    static const char *const descr[WEFT_DTYPES] = {
        [WEFT_F32] = "<f4", [WEFT_F64] = "<f8", [WEFT_F16] = "<f2", [WEFT_I64] = "<i8",
        [WEFT_I32] = "<i4", [WEFT_U8] = "|u1",  [WEFT_BOOL] = "|b1"};
    if (!descr[dtype]) return tool_fail("%s: .npy has no such element type", path);
    char header[512];
    int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[dtype]);
    for (int i = 0; i < ndim; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, i ? " %lld," : "%lld,", (long long)shape[i]);
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    int padded = (10 + n + 1 + 63) / 64 * 64 - 10; /* the format wants the data at a multiple of 64 */
    unsigned char *file = malloc(10 + (size_t)padded + bytes);
    if (!file) return tool_fail("out of memory");
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(padded & 255);
    file[9] = (unsigned char)(padded >> 8);
    memset(file + 10, ' ', (size_t)padded);
    memcpy(file + 10, header, (size_t)n);
    file[10 + padded - 1] = '\n';
    if (bytes) memcpy(file + 10 + padded, data, bytes);
    int status = out_write(path, file, 10 + (size_t)padded + bytes);
    free(file);
    return status;
}
