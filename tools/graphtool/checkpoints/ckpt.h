/* ckpt.h - what the actions of graphtool ckpt share: checkpoints for people. */
#ifndef WEFT_TOOLS_GRAPHTOOL_CHECKPOINTS_CKPT_H
#define WEFT_TOOLS_GRAPHTOOL_CHECKPOINTS_CKPT_H

#include "tools/graphtool/options/options.h"
#include "weft/checkpoint.h"

/* The checkpoint that word 0 or 1 of the command line names, whole; the newest one of a folder. */
weft_checkpoint *ckpt_find(const options *o, int word);
/* When it was completed, in UTC: "2026-11-23 10:29:55", or "" where nobody knows. */
const char *ckpt_written(const char *path);
/* Bytes of its files; how many those are. */
uint64_t ckpt_bytes(const weft_checkpoint *c);
int ckpt_world(const weft_checkpoint *c);

/* The actions of their files: an exit status. */
int ckpt_list(const options *o);
int ckpt_verify(const options *o);
int ckpt_show(const options *o);
int ckpt_diff(const options *o);

#endif
