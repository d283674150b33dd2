/* paths.h - checks the files of a command line before anything runs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H

#include "tools/graphtool/common/options.h"

/* --output and --log must differ from each other and from every input file: -1, or the exit status after
 * printing which do not. */
int paths_check(const options *o);

#endif
