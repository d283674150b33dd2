/* album.c - see album.h. Real images are read once, when the album is opened. */
#include "runtime/hooks/album.h"
#include "runtime/data/loader.h"

/* ---- real images ---- */

static tensor array_type(const weft_source_array *a) {
    return tensor_of_samples(1, a->dtype, a->ndim, a->shape);
}

/* One channel more or less is the same image where there is one. */
static bool is_alike(const album *a, const tensor *t) {
    if (grid_refuses(t, a->shape) || (size_t)tensor_elements(t) != a->each) return false;
    const int64_t *mine = a->type.shape + a->type.ndim - 2, *other = t->shape + t->ndim - 2;
    return mine[0] == other[0] && mine[1] == other[1];
}

/* Samples from the first on as bytes. All arrays of a sample come together; `arrays` has room for one. */
static weft_status read_samples(album *a, const weft_source *of, const weft_source_array *array,
                                void *const *arrays, size_t n, weft_error *error) {
    tensor type = array_type(array);
    for (size_t i = 0; i < n && (int64_t)i < of->count; i++) {
        weft_status status = of->read(of->context, (int64_t)i, arrays, error);
        if (status) return status;
        grid_bytes(a->real + i * a->each, &type, arrays[array - of->arrays], 1);
    }
    return WEFT_OK;
}

static weft_status read_real(album *a, const weft_source *of, const weft_source_array *array,
                             weft_error *error) {
    void *arrays[WEFT_SOURCE_ARRAYS];
    size_t n = ALBUM_REAL * (size_t)a->shape.columns;
    kit_arena sample = kit_arena_of(&a->memory.env);
    a->real = kit_take_raw(&a->memory, n, a->each);
    if (a->real) memset(a->real, 255, n * a->each);
    weft_status status = a->real && sample_room(&sample, of, arrays)
                             ? read_samples(a, of, array, arrays, n, error)
                             : kit_no_memory(error, "a picture");
    kit_release(sample);
    return status;
}

static weft_status open_real(album *a, const weft_dataset *data, const char *real, weft_error *error) {
    const weft_source *of;
    const weft_source_array *array = dataset_find(data, real, &of);
    if (!array)
        return kit_fail(error, WEFT_NAME, "real=%.80s: no data of the training feed an input of this name",
                        real);
    tensor type = array_type(array);
    if (!is_alike(a, &type))
        return kit_fail(error, WEFT_SHAPE, "real=%.80s: its samples are %s, which are not images like %s",
                        real, TENSOR(&type), TENSOR(&a->type));
    return read_real(a, of, array, error);
}

/* ---- the album ---- */

/* With the real images below this many rows, where there are some. */
static grid_shape with_real(grid_shape shape, int rows, bool has_real) {
    shape.rows = rows + (has_real ? ALBUM_REAL : 0);
    shape.apart = has_real ? rows : 0;
    return shape;
}

weft_status album_open(album *a, const tensor *type, grid_shape shape, const weft_dataset *data,
                       const char *real, const weft_env *env, weft_error *error) {
    *a = (album){.memory = kit_arena_of(env), .type = *type, .shape = shape};
    const char *why = grid_refuses(type, with_real(shape, shape.rows, real));
    if (why) return kit_fail(error, WEFT_SHAPE, "%s is needed, not %s", why, TENSOR(type));
    a->type.dtype = WEFT_U8;
    a->type.shape[0] = 1;
    a->each = (size_t)tensor_elements(&a->type);
    a->images = kit_take_raw(&a->memory, (shape.rows + ALBUM_REAL) * shape.columns, a->each);
    if (!a->images) return kit_no_memory(error, "a picture");
    return real ? open_real(a, data, real, error) : WEFT_OK;
}

/* The picture's own number of rows is not known: its size has to be that of one. */
static bool take_rows(album *a, const image *picture, int rows) {
    bool is_one = false;
    for (int n = rows; n <= a->shape.rows && !is_one; n++)
        is_one = grid_take(picture, &a->type, with_real(a->shape, n, a->real), a->images,
                           (int64_t)rows * a->shape.columns);
    return is_one;
}

static bool take_file(album *a, int rows, const char *path) {
    image picture;
    weft_error ignored;
    if (image_load(&a->memory.env, path, grid_channels(&a->type), &picture, &ignored)) return false;
    bool is_taken = take_rows(a, &picture, rows);
    image_free(&a->memory.env, &picture);
    return is_taken;
}

void album_keep(album *a, int rows, const char *path) {
    if (a->n < rows && !(path && take_file(a, rows, path))) rows = 0;
    a->n = rows;
}

void album_add(album *a, const tensor *type, const void *data, int rows) {
    size_t row = (size_t)a->shape.columns * a->each;
    int64_t most = (int64_t)rows * a->shape.columns, made = type->shape[0] < most ? type->shape[0] : most;
    uint8_t *into = a->images + (size_t)a->n * row;
    if (a->n + rows > a->shape.rows) return;
    memset(into, 255, (size_t)rows * row);
    grid_bytes(into, type, data, made);
    a->n += rows;
}

weft_status album_encode(const album *a, kit_arena *memory, grid_file *file, weft_error *error) {
    size_t row = (size_t)a->shape.columns * a->each;
    tensor type = a->type;
    grid_shape shape = with_real(a->shape, a->n, a->real);
    if (a->real) memcpy(a->images + (size_t)a->n * row, a->real, ALBUM_REAL * row);
    type.shape[0] = (int64_t)shape.rows * shape.columns;
    return grid_encode(memory, file, &type, a->images, shape, error);
}

void album_close(album *a) {
    kit_release(a->memory);
    *a = (album){0};
}
