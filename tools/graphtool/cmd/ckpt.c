/* ckpt.c - graphtool ckpt: looks at the checkpoints of trainings, and writes them to other files. No action
 * needs the model, or changes the checkpoint that it reads. */
#include "tools/graphtool/checkpoints/ckpt.h"
#include "tools/graphtool/output/output.h"

#include <string.h>
#include <sys/stat.h>

/* The files of a checkpoint are those of its manifest, and never change. */
static void check_outside(const char *output) {
    struct stat s;
    const char *slash = strrchr(output, '/');
    if (stat(tool_text("%.*smanifest.json", slash ? (int)(slash - output) + 1 : 0, output), &s) == 0)
        tool_fail("%s: it would be inside a checkpoint: choose another folder", output);
}

static int export(const options *o, weft_checkpoint_content content) {
    if (!o->output)
        tool_fail("ckpt %s: --output=FILE is needed, a safetensors file to write", o->action->name);
    check_outside(o->output);
    out_check(o->output);
    tool_must(weft_checkpoint_export(ckpt_find(o, 0), o->output, content, &tool_why));
    return EXIT_FINE;
}

static int ckpt_consolidate(const options *o) {
    return export(o, WEFT_CHECKPOINT_ALL);
}

static int ckpt_export(const options *o) {
    return export(o, o->averages ? WEFT_CHECKPOINT_AVERAGES : WEFT_CHECKPOINT_VALUES);
}

static int ckpt_reshard(const options *o) {
    if (!o->output || !o->compile.world)
        tool_fail("ckpt reshard: --%s is needed",
                  o->output ? "world=N" : "output=DIR, a folder for the new checkpoint");
    tool_must(weft_checkpoint_reshard(ckpt_find(o, 0), o->output, o->compile.world, &tool_why));
    return EXIT_FINE;
}

static const command_action actions[] = {
    {"list", 1, "json", "all checkpoints of a folder: ranks, bytes, date, whole or why not", ckpt_list},
    {"show", 1, "json", "one checkpoint: position, settings, rates, numbers, tensors, who wrote them",
     ckpt_show},
    {"verify", 1, "json", "read every byte again; exit status 1 where one is not whole", ckpt_verify},
    {"consolidate", 1, "output", "one file with optimizer state, which --weights takes", ckpt_consolidate},
    {"export", 1, "output averages", "parameters and state alone, for other tools", ckpt_export},
    {"reshard", 1, "output world", "the same checkpoint in N files, in a new folder", ckpt_reshard},
    {"diff", 2, "json", "tensors and numbers that differ; exit status 1 where any does", ckpt_diff},
    {0},
};

const command command_ckpt = {
    .name = "ckpt",
    .summary = "Looks at checkpoints of trainings, and writes them to other files",
    .actions = actions,
    .options = "averages world json output",
    .details = "DIR is a checkpoint, FOLDER/step-N, or a folder of them: then the newest that is whole.",
    .example = "graphtool ckpt consolidate run/checkpoints -o all.safetensors",
};
