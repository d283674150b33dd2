/* album.c - see album.h. Real images are read once, when the album is opened. */
#include "runtime/train/album.h"

#include <string.h>

/* ---- real images ---- */

/* The array of a data set that feeds an input: its place in its source. */
typedef struct fed {
    const weft_source *source; /* NULL: nothing feeds it */
    int array;
} fed;

static fed find_array(const weft_dataset *d, const char *input) {
    for (int s = 0, at = 0; s < d->n; s++)
        for (int k = 0; k < d->sources[s]->n; k++, at++) {
            const char *own = d->names ? d->names[at] : d->sources[s]->arrays[k].name;
            if (own && strcmp(own, input) == 0) return (fed){d->sources[s], k};
        }
    return (fed){0};
}

static tensor array_type(const weft_source_array *a) {
    tensor t = {.dtype = a->dtype, .ndim = a->ndim + 1, .shape = {1}};
    memcpy(t.shape + 1, a->shape, (size_t)a->ndim * sizeof *a->shape);
    return t;
}

/* One channel more or less is the same image where there is one. */
static bool is_alike(const album *a, const tensor *t) {
    if (grid_refuses(t, a->shape) || (size_t)tensor_elements(t) != a->each) return false;
    const int64_t *mine = a->type.shape + a->type.ndim - 2, *other = t->shape + t->ndim - 2;
    return mine[0] == other[0] && mine[1] == other[1];
}

/* Sample i as bytes. All arrays of a sample come together; `room` has one after the other. */
static weft_status read_sample(const fed *of, int64_t i, uint8_t *room, uint8_t *into, weft_error *error) {
    void *arrays[WEFT_SOURCE_ARRAYS];
    size_t at = 0;
    for (int k = 0; k < of->source->n; k++) {
        tensor t = array_type(&of->source->arrays[k]);
        arrays[k] = room + at;
        at += (tensor_bytes(&t) + 15) / 16 * 16;
    }
    tensor type = array_type(&of->source->arrays[of->array]);
    weft_status status = of->source->read(of->source->context, i, arrays, error);
    if (!status) grid_bytes(into, &type, arrays[of->array], 1);
    return status;
}

static size_t sample_room(const weft_source *s) {
    size_t room = 0;
    for (int k = 0; k < s->n; k++) {
        tensor t = array_type(&s->arrays[k]);
        room += (tensor_bytes(&t) + 15) / 16 * 16;
    }
    return room;
}

static weft_status read_real(album *a, const fed *of, weft_error *error) {
    int64_t n = (int64_t)ALBUM_REAL * a->shape.columns;
    size_t room = sample_room(of->source);
    uint8_t *sample = weft_memory_new(a->env, room);
    a->real = weft_memory_new(a->env, (size_t)n * a->each);
    weft_status status = sample && a->real ? WEFT_OK : kit_no_memory(error, "a picture");
    if (a->real) memset(a->real, 255, (size_t)n * a->each);
    for (int64_t i = 0; !status && i < n && i < of->source->count; i++)
        status = read_sample(of, i, sample, a->real + (size_t)i * a->each, error);
    weft_memory_free(a->env, sample, room);
    return status;
}

static weft_status open_real(album *a, const weft_dataset *data, const char *real, weft_error *error) {
    fed of = find_array(data, real);
    if (!of.source)
        return kit_fail(error, WEFT_NAME, "real=%.80s: no data of the training feed an input of this name",
                        real);
    tensor type = array_type(&of.source->arrays[of.array]);
    if (!is_alike(a, &type))
        return kit_fail(error, WEFT_SHAPE, "real=%.80s: its samples are %s, which are no images like %s",
                        real, TENSOR(&type), TENSOR(&a->type));
    return read_real(a, &of, error);
}

/* ---- the album ---- */

static size_t images_bytes(const album *a) {
    return (size_t)(a->shape.rows + ALBUM_REAL) * (size_t)a->shape.columns * a->each;
}

/* With the real images below this many rows, where there are some. */
static grid_shape with_real(grid_shape shape, int rows, bool has_real) {
    shape.rows = rows + (has_real ? ALBUM_REAL : 0);
    shape.apart = has_real ? rows : 0;
    return shape;
}

weft_status album_open(album *a, const tensor *type, grid_shape shape, const weft_dataset *data,
                       const char *real, const weft_env *env, weft_error *error) {
    *a = (album){.env = env, .type = *type, .shape = shape};
    const char *why = grid_refuses(type, with_real(shape, shape.rows, real));
    if (why) return kit_fail(error, WEFT_SHAPE, "%s is needed, not %s", why, TENSOR(type));
    a->type.dtype = WEFT_U8;
    a->type.shape[0] = 1;
    a->each = (size_t)tensor_elements(&a->type);
    if (!(a->images = weft_memory_new(env, images_bytes(a)))) return kit_no_memory(error, "a picture");
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
    if (image_load(a->env, path, grid_channels(&a->type), &picture, &ignored)) return false;
    bool is_taken = take_rows(a, &picture, rows);
    image_free(a->env, &picture);
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

weft_status album_encode(const album *a, grid_file *file, weft_error *error) {
    size_t row = (size_t)a->shape.columns * a->each;
    tensor type = a->type;
    grid_shape shape = with_real(a->shape, a->n, a->real);
    if (a->real) memcpy(a->images + (size_t)a->n * row, a->real, ALBUM_REAL * row);
    type.shape[0] = (int64_t)shape.rows * shape.columns;
    return grid_encode(file, &type, a->images, shape, a->env, error);
}

void album_close(album *a) {
    if (a->images) weft_memory_free(a->env, a->images, images_bytes(a));
    if (a->real) weft_memory_free(a->env, a->real, (size_t)ALBUM_REAL * (size_t)a->shape.columns * a->each);
    *a = (album){0};
}
