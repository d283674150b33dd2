/* locale.h - a host program whose numbers have a comma: what Weft writes for machines has points all the
 * same. */
#ifndef WEFT_TEST_LOCALE_H
#define WEFT_TEST_LOCALE_H

#include <stdbool.h>

/* Numbers of printf and strtod have a comma from here on. False where this machine cannot do that, which is
 * printed. */
bool locale_comma(void);
void locale_back(void);

#endif
