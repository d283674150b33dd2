/* test_image_files.c - folders of PNG and JPEG files as a source: resized and cropped as Pillow does it
 * (golden/make_images.py), classes as torchvision's ImageFolder, damaged files as errors. Where the library
 * was built without libpng or libjpeg, opening works and reading says so. */
#include "runtime/data/image.h"
#include "support/faults.h"
#include "support/test.h"
#include "weft/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN TEST_DATA "/golden/"

/* Whether a message says that a decoder is not there. */
static bool is_left_out(const weft_error *e) {
    return e->status == WEFT_UNSUPPORTED && strstr(e->text, "was built without");
}

/* ---- Pillow ---- */

/* PNG to the bit; decoders of JPEG may differ by one in a pixel, which resizing does not make more. */
static void check_rows(const weft_source *s, const weft_array *golden) {
    int64_t shape[WEFT_MAX_NDIM], label = -1;
    NEED(weft_array_shape(golden, shape) == 4 && shape[0] == s->count);
    size_t row = (size_t)(shape[1] * shape[2] * shape[3]);
    unsigned char *pixels = test_memory(row);
    for (int64_t i = 0; i < s->count; i++) {
        weft_error error = {0};
        const unsigned char *want = (const unsigned char *)weft_array_data(golden) + (size_t)i * row;
        int worst = 0;
        if (s->read(s->context, i, (void *[]){pixels, &label}, &error)) {
            CHECK_SAYS(is_left_out(&error), "%s", error.text);
            continue;
        }
        for (size_t k = 0; k < row; k++)
            worst = abs(pixels[k] - want[k]) > worst ? abs(pixels[k] - want[k]) : worst;
        CHECK_SAYS(label == (i >= 10) && worst <= label, "sample %lld of class %lld is off by %d",
                   (long long)i, (long long)label, worst);
    }
    free(pixels);
}

TEST(images_are_resized_and_cropped_as_pillow_does) {
    static const struct {
        const char *name;
        weft_source_options options;
    } rows[] = {
        {"grey", {.height = 24, .channels = 1}},
        {"rgb", {.height = 17, .width = 20, .shorter_side = 23, .crop_x = -500, .crop_y = 250}},
        {"rgba", {.height = 24, .channels = 4, .shorter_side = 25}},
        {"large", {.height = 40, .width = 33, .shorter_side = 41, .channels = 3}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[300];
        weft_error error = {0};
        snprintf(path, sizeof path, GOLDEN "images_%s.npy", rows[i].name);
        weft_array *golden = weft_array_load(path, NULL, &error);
        weft_source *s = weft_source_open(GOLDEN "images", &rows[i].options, NULL, &error);
        CHECK_SAYS(s && golden, "%s", error.text);
        if (s && golden) check_rows(s, golden);
        weft_source_free(s);
        weft_array_free(golden);
    }
}

/* ---- folders ---- */

TEST(folders_are_classes) {
    weft_error error = {0};
    weft_source *s = weft_source_open_text(GOLDEN "images:height=8,channels=1", NULL, &error);
    NEED(s != NULL);
    CHECK(s->n == 2 && s->count == 16 && s->arrays[0].ndim == 3 && s->arrays[1].dtype == WEFT_I64);
    CHECK_TEXT(weft_source_class(s, 0), "a_png");
    CHECK_TEXT(weft_source_class(s, 1), "b_jpeg");
    CHECK(!weft_source_class(s, 2) && !weft_source_class(s, -1) && !weft_source_class(NULL, 0));
    weft_source_free(s);
    s = weft_source_open_text(GOLDEN "images/a_png:height=8", NULL, &error);
    CHECK_SAYS(s && s->n == 1 && s->count == 10 && !weft_source_class(s, 0), "%s", error.text);
    weft_source_free(s);
}

static void refused(const char *text, const char *part) {
    weft_error error = {0};
    weft_source *s = weft_source_open_text(text, NULL, &error);
    CHECK_SAYS(!s && strstr(error.text, part), "%s: wanted \"%s\", got \"%s\"", text, part, error.text);
    weft_source_free(s);
}

TEST(folders_that_make_no_sense_are_told) {
    char folder[] = "/tmp/weft_images_XXXXXX", empty[64];
    NEED(mkdtemp(folder) != NULL);
    snprintf(empty, sizeof empty, "%s:height=4", folder);
    refused(empty, "it holds no .png, .jpg or .jpeg");
    rmdir(folder);
    refused("/tmp/weft_none:form=images,height=4", "/tmp/weft_none: cannot be opened");
    refused(GOLDEN "images", "height=N");
    refused(GOLDEN "images:height=65536", "1 to 65535");
    refused(GOLDEN "images:height=4,width=-1", "width=-1");
    refused(GOLDEN "images:height=4,channels=2", "channels=2: 1, 3 or 4");
    refused(GOLDEN "images:height=4,width=8,shorter_side=7", "shorter_side=7: 8, so that the crop fits");
    refused(GOLDEN "images:height=4,crop_x=501", "crop_x=501");
    refused(GOLDEN "images:height=4,crop_y=-501", "crop_y=-501");
    refused(GOLDEN "images:height=4,window=2", "window has no effect on images");
}

/* A link to a folder above would be walked for ever. */
TEST(folders_that_hold_themselves_are_told) {
    char folder[] = "/tmp/weft_images_XXXXXX", class[64], loop[80], text[64];
    NEED(mkdtemp(folder) != NULL);
    snprintf(class, sizeof class, "%s/a", folder);
    snprintf(loop, sizeof loop, "%s/b", class);
    NEED(mkdir(class, 0700) == 0 && symlink(".", loop) == 0);
    snprintf(text, sizeof text, "%s:height=4", folder);
    refused(text, "folders are more than 32 deep: is a link a loop?");
    remove(loop);
    rmdir(class);
    rmdir(folder);
}

/* A file that is not an image is an error of its sample, and names the file. */
TEST(files_that_are_no_images_are_told) {
    char folder[] = "/tmp/weft_images_XXXXXX", path[64], text[64];
    unsigned char pixels[3 * 16];
    weft_error error = {0};
    NEED(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/x.png", folder);
    FILE *f = fopen(path, "wb");
    NEED(f != NULL);
    fputs("hello", f);
    fclose(f);
    snprintf(text, sizeof text, "%s:height=4", folder);
    weft_source *s = weft_source_open_text(text, NULL, &error);
    CHECK(s && s->read(s->context, 0, (void *[]){pixels}, &error) == WEFT_FILE);
    CHECK_HOLDS(error.text, "x.png: it is neither PNG nor JPEG");
    remove(path);
    CHECK(s && s->read(s->context, 0, (void *[]){pixels}, &error) == WEFT_IO);
    weft_source_free(s);
    rmdir(folder);
}

/* ---- damaged files ---- */

static size_t load_file(const char *path, unsigned char *into, size_t room) {
    FILE *f = fopen(path, "rb");
    if (!CHECK(f != NULL)) return 0;
    size_t n = fread(into, 1, room, f);
    fclose(f);
    return n;
}

/* Bytes changed, cut off and repeated: an image or one sentence, and no memory is left. */
static void damage(const char *name, bool is_cut_off_an_error) {
    unsigned char good[8192];
    char path[300];
    faults f;
    test_random r = {test_seed(1)};
    snprintf(path, sizeof path, GOLDEN "images/%s", name);
    size_t n = load_file(path, good, sizeof good);
    NEED(n > 100);
    faults_init(&f);
    for (int i = 0; i <= test_count(1500, 300); i++) {
        weft_error error = {0};
        image into;
        size_t bytes = i && random_bits(&r) % 4 == 0 ? random_bits(&r) % n : n;
        unsigned char *data = test_memory(bytes + 1); /* exactly as long: the sanitizer sees the next byte */
        memcpy(data, good, bytes);
        for (int k = 0; i && k < (int)(random_bits(&r) % 4) && bytes; k++)
            data[random_bits(&r) % (random_bits(&r) % 2 ? bytes
                                    : bytes < 60        ? bytes
                                                        : 60)] = (unsigned char)random_bits(&r);
        weft_status status = image_decode(&(image_file){&f.env, "x", data, bytes}, 3, &into, &error);
        if (!status) image_free(&f.env, &into);
        CHECK_SAYS(!status || (error.status == status && *error.text && status != WEFT_INTERNAL), "%s",
                   error.text);
        CHECK_SAYS(i || !status || is_left_out(&error), "%s is refused: %s", name, error.text);
        CHECK_SAYS(f.live == 0, "%s: %zu bytes are left", name, f.live);
        free(data);
    }
    weft_error error = {0};
    image into;
    weft_status status = image_decode(&(image_file){&f.env, "x", good, n / 2}, 3, &into, &error);
    if (!status) image_free(&f.env, &into);
    CHECK(!is_cut_off_an_error || status == WEFT_FILE || is_left_out(&error));
    faults_end(&f);
}

TEST(damaged_images_are_images_or_errors) {
    damage("a_png/rgb.png", true);
    damage("a_png/palette.png", true);
    damage("a_png/sixteen.png", true);
    damage("b_jpeg/photo.jpg", true);
    damage("b_jpeg/progressive.jpeg", true);
    damage("b_jpeg/grey.jpg", true);
}

/* Sizes are looked at before memory is taken: a small file that promises a large image takes none. */
TEST(small_files_that_promise_large_images_take_no_memory) {
    unsigned char data[8192];
    faults f;
    weft_error error = {0};
    image into;
    faults_init(&f);
    static const char *const rows[][2] = {
        {"\x7f\xff\x7f\xff", "at most 134217728 pixels"}, /* 32,767 x 32,767 */
        {"\x10\xff\x10\xff", "do not fit into a file"}};  /* 4,351 x 4,351: 57 MB */
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t n = load_file(GOLDEN "images/b_jpeg/photo.jpg", data, sizeof data);
        for (size_t i = 0; i + 9 < n; i++)
            if (data[i] == 0xff && data[i + 1] == 0xc0) memcpy(data + i + 5, rows[k][0], 4);
        CHECK(image_decode(&(image_file){&f.env, "x", data, n}, 3, &into, &error) != WEFT_OK);
        CHECK_SAYS(is_left_out(&error) || strstr(error.text, rows[k][1]), "%s", error.text);
        CHECK_SAYS(f.peak == 0, "%zu bytes were taken", f.peak);
    }
    faults_end(&f);
}

static weft_status decode_one(faults *f, weft_error *error) {
    unsigned char data[8192], planes[3 * 64];
    image into;
    size_t n = load_file(GOLDEN "images/a_png/rgba.png", data, sizeof data);
    weft_status status = image_decode(&(image_file){&f->env, "x", data, n}, 3, &into, error);
    if (is_left_out(error)) *error = (weft_error){0};
    if (status) return error->status;
    status = image_resize(&f->env, &into, &(image_crop){8, 11, 0, 0, 8, 8}, planes, error);
    image_free(&f->env, &into);
    return status;
}

static void nothing_is_left(faults *f) {
    CHECK(f->live == 0);
}

TEST(failing_memory_is_an_error) {
    faults f;
    faults_init(&f);
    faults_inject(&f, true, decode_one, nothing_is_left);
    faults_end(&f);
}

SUITE("image files", {T(images_are_resized_and_cropped_as_pillow_does), T(folders_are_classes),
                      T(folders_that_make_no_sense_are_told), T(folders_that_hold_themselves_are_told),
                      T(files_that_are_no_images_are_told), T(damaged_images_are_images_or_errors),
                      T(small_files_that_promise_large_images_take_no_memory), T(failing_memory_is_an_error)})
