/* paths.h - checks the files of a command line before anything runs. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_PATHS_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_PATHS_H

#include "tools/graphtool/options/options.h"

/* No output may be a file that is read, and no two outputs may be one file. */
void paths_check(const options *o);

/* The file of --best: "run/w.best.safetensors" beside "run/w.safetensors". */
const char *paths_best(const char *output);
/* The length of a path without the end of its name: ".png". */
size_t path_stem(const char *path);

/* Whether there is a regular file, or a folder, of this name, also by a link. */
bool path_is_file(const char *path);
bool path_is_folder(const char *path);

#endif
