/* hostile_config.h - files that graphtool reads as formats of support/hostile/hostile.h: options, and what
 * a training leaves when something went wrong. They stand apart, as they need graphtool's sources. */
#ifndef WEFT_TEST_HOSTILE_CONFIG_H
#define WEFT_TEST_HOSTILE_CONFIG_H

#include "support/hostile/hostile.h"

extern const hostile_format hostile_configs[], hostile_lost[]; /* each ends with a row without a name */

#endif
