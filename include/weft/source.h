/** @file
 * source.h - sources of data: what gives sample i. A source is a structure of plain numbers and one
 * function, so that one of your own is a function and a structure that you fill; weft_source_open() makes
 * those of files. */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H

#include "weft/env.h"
#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most arrays that a sample may consist of. */
#define WEFT_SOURCE_ARRAYS 16

/** One array of a sample, such as its image or its label. */
typedef struct weft_source_array {
    const char *name;             /**< what messages call it; NULL: no name */
    weft_dtype dtype;             /**< the type of its elements */
    int ndim;                     /**< its number of axes, without the batch; 0: one number */
    int64_t shape[WEFT_MAX_NDIM]; /**< its shape, without the batch */
} weft_source_array;

/** Samples 0 to count - 1, each of n arrays whose types and shapes are the same for all. */
typedef struct weft_source {
    int64_t count;                                /**< number of samples, at least 1 */
    int n;                                        /**< number of arrays, at least 1 */
    weft_source_array arrays[WEFT_SOURCE_ARRAYS]; /**< the first n of them */
    /** Writes array k of sample i, row-major, into into[k]. Several threads may call it at a time. On a
     * failure it fills the error (weft_error_set()) and returns its status. */
    weft_status (*read)(void *context, int64_t i, void *const *into, weft_error *error);
    void *context;                    /**< the first argument of read */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_source;

/** Options of weft_source_open(). Each is for the forms that its comment names, and an error with
 * others. */
typedef struct weft_source_options {
    /** The form: "npy", "npz", "idx", "images", "tokens" or "text". NULL: folders are images; files are taken
     * by their first bytes, or by their names: .bin tokens, .txt text. */
    const char *form;
    const char *members; /**< npz: names of the arrays wanted, with "," between them; NULL: all */
    int64_t window;      /**< tokens, text: elements of a sample; needed there */
    int64_t stride;      /**< tokens, text: from one sample's begin to the next's; 0: window */
    bool pairs;          /**< tokens, text: two arrays, the input and the target one element later */
    int token_bytes;     /**< tokens without a header: 2 or 4 bytes each, unsigned; 0: 2 */
    /** The type of a sample's numbers. tokens, text: "i64", "i32", or "u8" for bytes; NULL: i64. npy, idx,
     * npz: "f32", "f64", "i64", "i32" or "u8", as NumPy's astype() converts, but that a number which the type
     * does not hold is an error: "f32" rounds f64, and 255 becomes 255.0; NULL: the file's. */
    const char *dtype;
    int64_t height;   /**< images: rows of a sample; needed there */
    int64_t width;    /**< images: columns of a sample; 0: height */
    int64_t channels; /**< images: 1 grey, 3 RGB, 4 RGBA; 0: 3 */
    /** images: length that the shorter side is resized to, before the crop; 0: the larger of height and
     * width. */
    int64_t shorter_side;
    /** images: where the crop begins, in thousandths of what is left over: 0 the middle, -500 the left, 500
     * the right. */
    int crop_x;
    int crop_y;                       /**< images: the same from top to bottom */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_source_options;

/** Its fields (field.h); `uses` has a bit for each form, in the order of the words of `form`. */
WEFT_API const weft_field *weft_source_fields(void);

/** Opens a file or a folder of samples. Samples are read when they are needed, so a file may be larger
 * than memory; packed ones (gzip, packed members of a .npz, column-major .npy) are held in memory whole.
 * `options` and `env` may be NULL. NULL on failure. Free it with weft_source_free().
 *
 * npy, idx: the first axis counts samples; one array. npz: an array a member, with its name; opening reads
 * each member once, for its checksum.
 *
 * images: PNG and JPEG files in folders. The folders' sorted names are the classes; samples are the images in
 * them and in the folders below, in the order of torchvision's ImageFolder; without folders there are no
 * labels. Arrays "image" u8[channels, height, width] and
 * "label" i64[].
 *
 * tokens, text: windows of one long row of numbers: "ids" [window], or with pairs "input" and "target". */
WEFT_API weft_source *weft_source_open(const char *path, const weft_source_options *options,
                                       const weft_env *env, weft_error *error);
/** The same from text: "FILE" or "FILE:option=value,option=value", as "train.bin:window=256,pairs=1", by
 * weft_fields_read(): a value with a blank or a comma is quoted. Members have "+" between them. */
WEFT_API weft_source *weft_source_open_text(const char *text, const weft_env *env, weft_error *error);
/** Frees a source that weft_source_open() made. NULL is fine. */
WEFT_API void weft_source_free(weft_source *source);
/** The name of class `label` in a source of images that weft_source_open() made; NULL: there is no such
 * class. The source owns the text. */
WEFT_API const char *weft_source_class(const weft_source *source, int64_t label);

#ifdef __cplusplus
}
#endif
#endif
