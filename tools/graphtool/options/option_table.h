/* option_table.h - the table of options: what parsing, --help, files of options and comparisons of ranks are
 * made from. A new option is a row of option_table.c and a field of struct options. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_OPTION_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_OPTION_TABLE_H

#include "tools/graphtool/options/options.h"

#include "graph/core/nearest.h"
#include "graph/settings/field.h"

#include <stddef.h>

typedef enum option_form {
    OPTION_ONE,      /* a value of its field's kind */
    OPTION_LIST,     /* its values have a '=' or ':' as the argument has one */
    OPTION_NAMED,    /* a list whose values may begin with NAME= */
    OPTION_EVERY,    /* see option_every */
    OPTION_INTERVAL, /* see option_interval */
} option_form;

/* How ranks that work together share an option. A new option is compared unless its row says otherwise. */
typedef enum option_sharing {
    SHARED,  /* the same on all ranks */
    CONTENT, /* a file whose path may differ between machines: its contents are the same */
    NAMES,   /* NAME=FILE: the names are the same; loaders compare the files' contents */
    OWN,     /* each rank's own, as only rank 0 writes */
} option_sharing;

/* What a command does with the file or folder that a value names. The row of an option for one says it:
 * paths.c compares what is written with all that is read and written. */
typedef enum option_file {
    NO_FILE,
    READS,           /* a file, after '=' where the argument has one */
    READS_DATA,      /* the same, before options of its own: a source, which may be a folder */
    READS_ROWS,      /* such a source after "NAME=rows:"; other values name none */
    READS_STEPS,     /* a checkpoint, or a folder of them; "auto" is that of --checkpoint-dir */
    READS_MODELS,    /* a folder, all of it; "zoo" is not a folder */
    WRITES,          /* a file */
    WRITES_PICTURES, /* a file before ":FIELDS", or one of each moment: photo-500.png */
    FILLS,           /* a folder, with files of new names */
} option_file;

typedef struct option_row {
    weft_field field;     /* of struct options, by the option's name; the words of a list are for what follows
                           * its last gap */
    char letter;          /* short form, 0: it has no short form */
    const char *argument; /* its name in --help; NULL for flags */
    option_form form;
    option_sharing sharing;
    option_file file;
    const char *elsewhere; /* what other programs call it, with blanks between: for "did you mean" */
    const char *group;     /* commands that take "@plan" take all rows of that group; or NULL */
} option_row;

extern const option_row option_rows[]; /* ends with one without a name */

/* The field of *o that a row is of. */
static inline void *option_field(const option_row *row, options *o) {
    return (char *)o + row->field.offset;
}
static inline option_origin option_from(const option_row *row, const options *o) {
    return (option_origin)o->from[row - option_rows];
}
/* Whether it is a switch without a value; whether it may be given several times. */
bool option_is_flag(const option_row *row);
bool option_is_list(const option_row *row);
/* The words of an option that is one of a few; NULL: it is not. */
const char *const *option_words(const option_row *row);
/* The first of a command's rows (row NULL), or the next one; NULL: there is no more. */
const option_row *option_next(const command *c, const option_row *row);
/* The row of that name among a command's options; NULL: it has none. */
const option_row *option_find(const command *c, const char *name);
/* Checks a value and stores it in its field. Returns what it must be instead; NULL: it is good. */
const char *option_read(const option_row *row, const char *value, options *o);
/* What a value of it must be, which `value` is not: "did you mean 'cuda'? cpu or cuda is needed" */
const char *option_rule(const option_row *row, const char *value);
/* Tries the names of a command's options, and what they are called elsewhere. */
void options_near(const command *c, nearest *near);

#endif
