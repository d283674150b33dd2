/** @file
 * field.h - options as data: the fields of a structure of options, each with its kind, its range or words,
 * and what it means. Such a table reads options from a text, checks them, prints them, and tells a binding
 * for another language where each one lies.
 *
 *     weft_compile_options o = {0};
 *     char text[] = "world=4 zero=2 bucket_cap_mb=8";
 *     if (weft_fields_read(weft_compile_fields(), text, &o, "compile", &error)) ...
 *
 * Tables: weft_compile_fields(), weft_optimizer_fields(), weft_schedule_fields(), weft_trainer_fields(),
 * weft_trainer_checkpoints_fields(), weft_checkpoint_fields(), weft_comm_fields(), weft_source_fields(),
 * weft_loader_fields(), weft_preprocess_fields(), weft_samples_fields().
 * Functions, lists, and pointers to anything but texts have no row. A strategy of a program has such a table
 * for its options, too (strategy.h); other structures have none.
 */
#ifndef WEFT_FIELD_H
#define WEFT_FIELD_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The end of a count's range where it has none: INT64_MAX, as a double. */
#define WEFT_COUNT_MOST 9223372036854775807.0

/** A true 0 in real numbers whose 0 means their default. */
#define WEFT_ZERO (-1e-300)
/** In integers whose 0 means their default: none, never or no limit. Each field says which. */
#define WEFT_NONE (-1)

/** The C type of a field, and which values it may have. */
typedef enum weft_field_kind {
    WEFT_FIELD_FLAG = 0,   /**< bool; with `least` 1 a text may only switch it on */
    WEFT_FIELD_INT = 1,    /**< int, from `least` to `most` */
    WEFT_FIELD_COUNT = 2,  /**< int64_t, from `least` to `most` */
    WEFT_FIELD_SEED = 3,   /**< uint64_t, any */
    WEFT_FIELD_REAL = 4,   /**< double, above `least` and up to `most` */
    WEFT_FIELD_NUMBER = 5, /**< double, from `least` to `most`; a text of 0 sets WEFT_ZERO, a true 0 */
    WEFT_FIELD_WORD = 6,   /**< an enum; a value is the place of its word */
    WEFT_FIELD_DTYPE = 7,  /**< weft_dtype, one of the words where there are some */
    WEFT_FIELD_TEXT = 8,   /**< const char *, one of the words where there are some; not owned */
} weft_field_kind;

/** One field of a structure. In every kind 0 (of texts NULL and "") means that the field is not set. */
typedef struct weft_field {
    const char *name;     /**< as in the structure; NULL ends a table of at most 64 fields */
    weft_field_kind kind; /**< its C type */
    size_t offset;        /**< in the structure; in the row that ends the table, the structure's size */
    /** The range, for kinds that have one; in the row that ends the table, where `reserved` lies, or 0. */
    double least;
    double most;              /**< its other end */
    const char *const *words; /**< the values that it may have, by name; NULL ends them; or NULL */
    unsigned uses;         /**< bits of the table's own meaning: what else depends on it, or who reads it */
    const char *otherwise; /**< what holds while it is not set; NULL: 0 itself */
    const char *means;     /**< what it is, in a few words; NULL: its name says it */
} weft_field;

/** A row for one field of the structure `of`, whose kind is WEFT_FIELD_KIND. Last stands `means`, and after
 * it columns by their names: `.words = words`. */
#define WEFT_FIELD(of, field, type, from, to, unset, ...)                                                    \
    {                                                                                                        \
        .name = #field, .kind = WEFT_FIELD_##type, .offset = offsetof(of, field), .least = from, .most = to, \
        .otherwise = unset, .means = __VA_ARGS__                                                             \
    }

/** The row that ends the table of a structure with words `reserved` (status.h). */
#define WEFT_FIELD_END(of)                                                                                   \
    { .offset = sizeof(of), .least = offsetof(of, reserved) }

/** The row of that name; NULL: the table does not have it. */
WEFT_API const weft_field *weft_field_find(const weft_field *fields, const char *name);
/** Whether it is set in that structure. False for NULL. */
WEFT_API bool weft_field_is_set(const weft_field *field, const void *options);
/** Checks that every field that is set has a value that it may have, and that `reserved` is 0: WEFT_ARGUMENT
 * names the first that has not. Messages begin with `what`. */
WEFT_API weft_status weft_fields_check(const weft_field *fields, const void *options, const char *what,
                                       weft_error *error);
/** Reads fields from a text and keeps those that it does not name: NAME=VALUE, with blanks or commas between;
 * a flag needs no value. A value with a blank, a comma, a quote or a backslash stands in quotes, where a
 * quote and a backslash follow a backslash. Cuts `text` apart: texts of the structure point into it, so it
 * outlives them. A 0 that stands for another default is refused: leave the field out. After an error the
 * structure is as it was: WEFT_NAME for an unknown name, with the nearest one, WEFT_ARGUMENT for a value that
 * the field may not have. */
WEFT_API weft_status weft_fields_read(const weft_field *fields, char *text, void *options, const char *what,
                                      weft_error *error);
/** The fields that are set, as weft_fields_read() reads them. Free it with weft_text_free(). NULL: out of
 * memory. */
WEFT_API char *weft_fields_text(const weft_field *fields, const void *options);

#ifdef __cplusplus
}
#endif
#endif
