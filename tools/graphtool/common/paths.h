/* paths.h - checks the files of a command line before anything runs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_PATHS_H

#include "tools/graphtool/common/options.h"

/* What is written must be none of the files that are read, nor two outputs one file: -1, or the exit status
 * after printing which are. */
int paths_check(const options *o);

enum { PATHS_ROOM = 4096 };
/* The file of --best: "run/w.best.safetensors" beside "run/w.safetensors". False: it is too long. */
bool paths_best(const char *output, char path[PATHS_ROOM]);

/* Whether there is a folder of this name, also by a link. */
bool path_is_folder(const char *path);

#endif
