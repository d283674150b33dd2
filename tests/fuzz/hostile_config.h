/* hostile_config.h - graphtool's files of options as a format of support/hostile.h. It stands apart, as it
 * needs graphtool's sources. */
#ifndef WEFT_TEST_HOSTILE_CONFIG_H
#define WEFT_TEST_HOSTILE_CONFIG_H

#include "support/hostile.h"

extern const hostile_format hostile_configs[]; /* ends with a row without a name */

#endif
