/* paths.h - the files of a command line, before anything runs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H

#include "tools/graphtool/common/options.h"

/* --output and --log must be neither one file nor one that is read: -1, or the exit status after telling which. */
int paths_check(const options *o);

#endif
