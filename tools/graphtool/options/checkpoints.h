/* checkpoints.h - the options of a training that is saved while it runs, and continues. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_CHECKPOINTS_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_CHECKPOINTS_H

#include "tools/graphtool/options/options.h"
#include "weft/weft.h"

/* Fills `into` as --checkpoint-dir, --checkpoint-every, --keep and --resume say; ten minutes where nothing
 * does. */
void checkpoints_read(const options *o, weft_trainer_checkpoints *into);
/* Whether there is a checkpoint that --resume may continue from. */
bool checkpoints_there(const options *o);
/* The library's lines, on stderr. */
extern const weft_env checkpoints_env;

#endif
