/* io_posix.h - the operating system's files: the default weft_io, and what writing needs beyond it.
 *
 * A part beside its file is locked (flock) as long as its writer lives: whoever gets the lock knows that the writer is
 * dead, whatever became of its process number. */
#ifndef WEFT_GRAPH_FILE_IO_POSIX_H
#define WEFT_GRAPH_FILE_IO_POSIX_H

#include "weft/env.h"

extern const weft_io posix_io;

/* How the name of a part ends. No name that others give to their files: what a dead writer left is removed. */
#define PART_END ".weft-part"

/* What is written under a path. */
typedef struct file_place {
    char path[4096]; /* behind all links; there need be nothing yet */
    bool is_stream;  /* no regular file: written through */
    bool is_pipe;    /* with a name */
    int descriptor;  /* of /dev/stdout and its like; -1: none */
    unsigned mode;   /* of what is there, for what replaces it; 0: nothing is */
} file_place;

/* These return 0 or an errno value. */
int posix_place(const char *path, file_place *place);
int posix_open_stream(const file_place *place, void **file);
int posix_try_stream(const file_place *place);
/* Opens a part of a name of its own (part[room] says which), after removing those that dead writers of the same file
 * left: place->path and at most 55 letters more. *lock: close it when all is done; -1 where there are no locks. */
int posix_open_part(const file_place *place, char *part, size_t room, void **file, int *lock);

#endif
