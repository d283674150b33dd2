/* form.h - the forms of weft_source_open(): each is a file that gives one of these, and a row in source.c. */
#ifndef WEFT_RUNTIME_DATA_FORM_H
#define WEFT_RUNTIME_DATA_FORM_H

#include "runtime/data/array.h"
#include "weft/source.h"

/* What opens a source. The path is a copy that lives as long as the source. */
typedef struct form_request {
    const char *path;
    weft_source_options options; /* its texts live until the source is open */
    weft_env env;
} form_request;

typedef struct form {
    const char *name;
    /* Fills count, n, arrays, read and context; on a failure nothing is left open. */
    weft_status (*open)(const form_request *r, weft_source *into, weft_error *error);
    void (*close)(void *context);
    const char *(*class_name)(const void *context, int64_t label); /* NULL: it has no classes */
} form;

/* How many bytes of a text of weft_source_open_text() are the path; options follow it. */
size_t source_path_bytes(const char *text);
/* The first bytes of the file, all 1 where it has fewer. */
weft_status source_first_bytes(const form_request *r, unsigned char first[4], weft_error *error);

extern const form form_array, form_npz, form_images, form_tokens, form_text;

/* ---- rows of an array in a file, read when they are asked for, or held whole where they are packed ---- */
typedef struct row_file {
    stream s;
    bool is_open;
    array_header h;
    size_t row_bytes;  /* of an element of the first axis, as it lies in the file */
    weft_dtype gives;  /* the type of its rows as samples: the file's, or that of an option (row_file_as) */
    uint64_t begin;    /* of the data */
    weft_array *whole; /* NULL: rows are read from the file */
} row_file;

/* Opens a .npy or IDX file, or after a part was opened into f->s, that. Its first axis must be there. */
weft_status row_file_open(row_file *f, const char *path, bool tokens, const weft_env *env, weft_error *error);
weft_status row_file_begin(row_file *f, bool tokens, weft_error *error);
void row_file_close(row_file *f);
/* Gives rows as this type from here on, by its name, rounded where that is needed; NULL: as they are. */
weft_status row_file_as(row_file *f, const char *dtype, weft_error *error);
/* `count` elements from `first` on, as the type that it gives; an error names the sample. */
weft_status row_file_read(const row_file *f, int64_t sample, size_t first, size_t count, void *into,
                          weft_error *error);
/* Row i as a sample. `f->s.path` names the file after an error. */
weft_status row_file_sample(const row_file *f, int64_t i, void *into, weft_error *error);
/* Its rows as an array of a sample. */
weft_source_array row_file_array(const row_file *f, const char *name);

#endif
