/* fields.h - the fields of an option's value, "name=value,name=value": --metric and --samples. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_FIELDS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_FIELDS_H

#include "tools/graphtool/common/options.h"

/* Where one goes: exactly one of the three is there, and unchanged where the field is not said. */
typedef struct field {
    const char *name;
    const char **text;
    int64_t *whole; /* from 1 to a million */
    double *real;   /* above 0 */
} field;

/* Reads `fields`, which it cuts into texts that stay in use: a value may stand in quotation marks. -1, or the
 * exit status after telling what is wrong in --option=said. */
int fields_read(const char *option, const char *said, char *fields, int n, const field *table);

#endif
