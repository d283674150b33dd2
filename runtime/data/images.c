/* images.c - folders of images: as torchvision's ImageFolder, the sorted names of the folders are the
 * classes, and the images in them and in the folders below them the samples. Each is decoded, resized and
 * cropped when it is asked for. Names are listed once; folders are the operating system's, files are read
 * through the env. */
#include "runtime/data/form.h"
#include "runtime/data/image.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, MOST_DEEP = 32 };

/* ---- names ---- */

/* Sorted names in one block of text. */
typedef struct name_list {
    char *text;
    size_t used, n;
    const char **v; /* [n], into text; made by names_sort */
} name_list;

static bool names_add(kit_arena *memory, name_list *l, const char *name) {
    size_t bytes = strlen(name) + 1;
    char *text = kit_grow(memory, l->text, l->used + bytes, 1);
    if (!text) return false;
    l->text = text;
    memcpy(l->text + l->used, name, bytes);
    l->used += bytes;
    l->n++;
    return true;
}

/* Of paths below a class: by their folders, whole texts, and then by their names, as ImageFolder sorts. */
static int by_name(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const char *x_end = strrchr(x, '/'), *y_end = strrchr(y, '/');
    size_t nx = x_end ? (size_t)(x_end - x) : 0, ny = y_end ? (size_t)(y_end - y) : 0;
    int folders = memcmp(x, y, nx < ny ? nx : ny);
    if (folders || nx != ny) return folders ? folders : nx < ny ? -1 : 1;
    return strcmp(x + nx, y + ny);
}

static bool names_sort(kit_arena *memory, name_list *l) {
    if (!(l->v = kit_take(memory, l->n, sizeof *l->v))) return false;
    const char *at = l->text;
    for (size_t i = 0; i < l->n; i++, at += strlen(at) + 1) l->v[i] = at;
    qsort(l->v, l->n, sizeof *l->v, by_name);
    return true;
}

/* ---- folders ---- */

static bool is_image(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

static weft_status path_join(char into[PATH_BYTES], const char *folder, const char *name, weft_error *error) {
    const char *slash = *folder && *name ? "/" : "";
    int n = snprintf(into, PATH_BYTES, "%s%s%s", folder, slash, name);
    return n >= 0 && n < PATH_BYTES ? WEFT_OK
                                    : kit_fail(error, WEFT_IO, "%.600s: its names are longer than %d bytes",
                                               folder, PATH_BYTES - 1);
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* A walk through a folder: what is listed, and how deep it goes. */
typedef struct walk {
    kit_arena *memory;
    const char *root;
    name_list *found;
    bool folders; /* folders in the root are listed; else the images in it and below */
} walk;

/* Lists the folder `below` of the root, "" the root itself. Hidden names are left out. */
static weft_status walk_folder(const walk *w, const char *below, int depth, weft_error *error);

static weft_status walk_entry(const walk *w, const char *below, const char *name, int depth,
                              weft_error *error) {
    char inner[PATH_BYTES], path[PATH_BYTES];
    if (path_join(inner, below, name, error) || path_join(path, w->root, inner, error)) return error->status;
    bool is_wanted = w->folders ? is_folder(path) : is_image(name);
    if (is_wanted) return names_add(w->memory, w->found, inner) ? WEFT_OK : kit_no_memory(error, w->root);
    return w->folders || !is_folder(path) ? WEFT_OK : walk_folder(w, inner, depth + 1, error);
}

static weft_status walk_folder(const walk *w, const char *below, int depth, weft_error *error) {
    char path[PATH_BYTES];
    weft_status status = WEFT_OK;
    if (path_join(path, w->root, below, error)) return error->status;
    if (depth > MOST_DEEP)
        return kit_fail(error, WEFT_IO, "%.600s: folders are more than %d deep: is a link a loop?", path,
                        MOST_DEEP);
    DIR *d = opendir(path);
    if (!d) return weft_error_io(error, path, "cannot be opened", errno);
    for (struct dirent *e; !status && (e = readdir(d));)
        if (*e->d_name != '.') status = walk_entry(w, below, e->d_name, depth, error);
    closedir(d);
    return status;
}

/* Sorted: the folders in a folder, or the images in it and below it. */
static weft_status list_folder(kit_arena *memory, const char *path, bool folders, name_list *l,
                               weft_error *error) {
    if (walk_folder(&(walk){memory, path, l, folders}, "", 0, error)) return error->status;
    return names_sort(memory, l) ? WEFT_OK : kit_no_memory(error, path);
}

/* ---- the source ---- */

typedef struct image_class {
    const char *name; /* "": the images lie in the folder itself */
    name_list files;
    int64_t first; /* the number of its first sample */
} image_class;

typedef struct images {
    kit_arena memory;
    const char *path;
    name_list folders;
    int64_t n_classes;
    image_class *classes;
    weft_source_options how; /* with its defaults */
    bool has_labels;
} images;

static const char *class_name(const void *context, int64_t label) {
    const images *m = context;
    return m->has_labels && label >= 0 && label < m->n_classes ? m->classes[label].name : NULL;
}

/* The images of each class. As torchvision, an empty class is an error: its label would stand for nothing. */
static weft_status list_class(images *m, image_class *c, int64_t *count, weft_error *error) {
    char path[PATH_BYTES];
    if (path_join(path, m->path, c->name, error) || list_folder(&m->memory, path, false, &c->files, error))
        return error->status;
    c->first = *count;
    *count += (int64_t)c->files.n;
    if (c->files.n) return WEFT_OK;
    return kit_fail(error, WEFT_FILE, "%.600s: it holds no .png, .jpg or .jpeg", path);
}

static weft_status list_classes(images *m, int64_t *count, weft_error *error) {
    if (list_folder(&m->memory, m->path, true, &m->folders, error)) return error->status;
    m->has_labels = m->folders.n > 0;
    m->n_classes = m->has_labels ? (int64_t)m->folders.n : 1;
    m->classes = kit_take(&m->memory, m->n_classes, sizeof *m->classes);
    if (!m->classes) return kit_no_memory(error, m->path);
    for (int64_t c = 0; c < m->n_classes; c++) {
        m->classes[c].name = m->has_labels ? m->folders.v[c] : "";
        if (list_class(m, &m->classes[c], count, error)) return error->status;
    }
    return WEFT_OK;
}

/* ---- a sample ---- */

/* The crop's begin within `left` pixels that are left over; halves to the even number, as Python rounds. */
static int64_t crop_at(int64_t left, int thousandths) {
    int64_t at = left * (500 + thousandths), whole = at / 1000, rest = at % 1000;
    return whole + (rest > 500 || (rest == 500 && whole % 2));
}

/* The shorter side gets its length, the other one keeps the shape: its fraction is cut off, as torchvision
 * does. */
static image_crop crop_of(const images *m, const image *i) {
    image_crop to = {.columns = m->how.width, .rows = m->how.height};
    bool is_wide = i->width > i->height;
    int64_t longer =
        m->how.shorter_side * (is_wide ? i->width : i->height) / (is_wide ? i->height : i->width);
    to.width = is_wide ? longer : m->how.shorter_side;
    to.height = is_wide ? m->how.shorter_side : longer;
    to.x = crop_at(to.width - to.columns, m->how.crop_x);
    to.y = crop_at(to.height - to.rows, m->how.crop_y);
    return to;
}

static weft_status decode_file(const images *m, const char *path, unsigned char *into, weft_error *error) {
    image i;
    if (image_load(&m->memory.env, path, (int)m->how.channels, &i, error)) return error->status;
    weft_status status;
    image_crop to = crop_of(m, &i);
    if (to.width > INT32_MAX || to.height > INT32_MAX)
        status = kit_fail(error, WEFT_FILE, "%.600s: %jd x %jd pixels are too long to be resized", path,
                          i.width, i.height);
    else
        status = image_resize(&m->memory.env, &i, &to, into, error);
    image_free(&m->memory.env, &i);
    return status;
}

static weft_status read_image(void *context, int64_t i, void *const *into, weft_error *error) {
    const images *m = context;
    char folder[PATH_BYTES], path[PATH_BYTES];
    int64_t c = 0, end = m->n_classes;
    while (end - c > 1) { /* the last class that begins at i or before */
        int64_t middle = c + (end - c) / 2;
        if (m->classes[middle].first <= i)
            c = middle;
        else
            end = middle;
    }
    const image_class *of = &m->classes[c];
    if (path_join(folder, m->path, of->name, error) ||
        path_join(path, folder, of->files.v[i - of->first], error) || decode_file(m, path, into[0], error))
        return error->status;
    if (m->has_labels) memcpy(into[1], &c, sizeof c);
    return WEFT_OK;
}

/* ---- opening ---- */

/* What the ranges of the options leave open. */
static weft_status check_options(const form_request *r, weft_error *error) {
    enum { MOST = 65535 };
    const weft_source_options *o = &r->options;
    int64_t width = o->width ? o->width : o->height, larger = width > o->height ? width : o->height;
    if (!o->height)
        return kit_fail(error, WEFT_ARGUMENT,
                        "%.600s: height=%jd, width=%jd: height=N, the rows of a sample, is needed; 1 to %d",
                        r->path, o->height, width, MOST);
    if (o->channels != 1 && o->channels != 3 && o->channels != 4)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: channels=%jd: 1, 3 or 4", r->path, o->channels);
    if (o->shorter_side && o->shorter_side < larger)
        return kit_fail(error, WEFT_ARGUMENT, "%.600s: shorter_side=%jd: %jd, so that the crop fits, to %d",
                        r->path, o->shorter_side, larger, MOST);
    return WEFT_OK;
}

static void describe_images(const images *m, weft_source *into) {
    into->n = m->has_labels ? 2 : 1;
    into->arrays[0] =
        (weft_source_array){"image", WEFT_U8, 3, {m->how.channels, m->how.height, m->how.width}};
    into->arrays[1] = (weft_source_array){"label", WEFT_I64, 0, {0}};
    into->read = read_image;
    into->context = (void *)m;
}

static weft_status open_images(const form_request *r, weft_source *into, weft_error *error) {
    const weft_source_options *o = &r->options;
    weft_status status = check_options(r, error);
    if (status) return status;
    images *m = kit_object(&r->env, sizeof *m);
    if (!m) return kit_no_memory(error, r->path);
    m->path = r->path;
    m->how = r->options;
    if (!o->width) m->how.width = o->height;
    if (!o->shorter_side) m->how.shorter_side = m->how.width > o->height ? m->how.width : o->height;
    status = list_classes(m, &into->count, error);
    if (!status)
        describe_images(m, into);
    else
        kit_free(m);
    return status;
}

const form form_images = {"images", open_images, kit_free, class_name};
