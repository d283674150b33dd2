/* image_jpeg.c - JPEG by libjpeg-turbo, grey or RGB, with its defaults, as Pillow has them. It takes its
 * working memory from malloc, and returns from errors by longjmp. */
#include "runtime/data/image.h"

#ifdef WEFT_HAS_JPEG
#include <setjmp.h>

#include <jpeglib.h>

#include <jerror.h>

/* Progressive files say how many scans they have; each is a walk over all pixels. Huffman codes have at least
 * a bit for each block of 64 pixels; arithmetic ones have less only where an image has nearly one colour. */
enum { MOST_SCANS = 200, BEST_RATIO = 8 * 64 };

typedef struct jpeg_job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const image_file *file;
    image *into;
    char reason[JMSG_LENGTH_MAX];
} jpeg_job;

static void on_error(j_common_ptr jpeg) {
    jpeg_job *j = jpeg->client_data;
    jpeg->err->format_message(jpeg, j->reason);
    longjmp(j->back, 1);
}

static void fail(j_common_ptr jpeg, const char *reason) {
    jpeg_job *j = jpeg->client_data;
    snprintf(j->reason, sizeof j->reason, "%s", reason);
    longjmp(j->back, 1);
}

/* Warnings pass, except for the end of a file within its pixels, which libjpeg would fill up with grey. */
static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) fail(jpeg, "it ends early");
}

static void on_progress(j_common_ptr jpeg) {
    if (((j_decompress_ptr)(void *)jpeg)->input_scan_number > MOST_SCANS)
        fail(jpeg, "it has more than 200 scans");
}

static bool read_header(jpeg_job *j) {
    if (setjmp(j->back)) return false;
    jpeg_create_decompress(&j->jpeg);
    j->jpeg.progress = &j->progress;
    jpeg_mem_src(&j->jpeg, j->file->data, j->file->bytes);
    jpeg_read_header(&j->jpeg, TRUE);
    if (j->jpeg.num_components != 1 && j->jpeg.num_components != 3)
        fail((j_common_ptr)&j->jpeg, "grey and colour are read, not CMYK");
    j->jpeg.out_color_space = j->jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return true;
}

static bool read_pixels(jpeg_job *j) {
    if (setjmp(j->back)) return false;
    size_t row = (size_t)(j->into->width * j->into->channels);
    jpeg_start_decompress(&j->jpeg);
    if (j->jpeg.output_width != j->into->width || j->jpeg.output_components != j->into->channels)
        fail((j_common_ptr)&j->jpeg, "its rows have another length than it says");
    while (j->jpeg.output_scanline < j->jpeg.output_height) {
        JSAMPROW at = j->into->data + j->jpeg.output_scanline * row;
        jpeg_read_scanlines(&j->jpeg, &at, 1);
    }
    jpeg_finish_decompress(&j->jpeg);
    return true;
}

static weft_status decode(jpeg_job *j, weft_error *error) {
    const char *path = j->file->path;
    if (!read_header(j)) return kit_fail(error, WEFT_FILE, "%.600s: JPEG: %s", path, j->reason);
    weft_status status = image_new(j->file, j->jpeg.image_width, j->jpeg.image_height, j->jpeg.num_components,
                                   BEST_RATIO, j->into, error);
    if (status || read_pixels(j)) return status;
    return kit_fail(error, WEFT_FILE, "%.600s: JPEG: %s", path, j->reason);
}

weft_status image_decode_jpeg(const image_file *f, image *into, weft_error *error) {
    jpeg_job j = {.file = f, .into = into};
    j.jpeg.err = jpeg_std_error(&j.errors);
    j.jpeg.client_data = &j;
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.progress.progress_monitor = on_progress;
    weft_status status = decode(&j, error);
    jpeg_destroy_decompress(&j.jpeg);
    return status;
}

#else

weft_status image_decode_jpeg(const image_file *f, image *into, weft_error *error) {
    return kit_fail(error, WEFT_UNSUPPORTED, "%.600s: this libweft_train was built without libjpeg", f->path);
}

#endif
