/* locale.c - see locale.h. */
#include "support/locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most machines for builds know no locale but C: then one is made that differs by its comma alone. */
bool locale_comma(void) {
    char folder[] = "/tmp/weft_locale_XXXXXX", command[400], number[8];
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && mkdtemp(folder)) {
        snprintf(command, sizeof command,
                 "cd %s && printf 'LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\nEND LC_NUMERIC\n' "
                 ">comma && "
                 "localedef -c -i comma ./xx >/dev/null 2>&1",
                 folder);
        if (system(command) >= 0) setenv("LOCPATH", folder, 1);
        setlocale(LC_NUMERIC, "xx");
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command)) fprintf(stderr, "%s stays\n", folder);
    }
    snprintf(number, sizeof number, "%.1f", 1.5);
    bool is_comma = strcmp(number, "1,5") == 0;
    if (!is_comma) printf("left out: there is no locale with a comma here, and no localedef ");
    return is_comma;
}

void locale_back(void) {
    setlocale(LC_ALL, "C");
}
