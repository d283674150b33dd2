/* io_posix.h - the operating system's files: the default weft_io, and what atomic writing needs besides it.
 *
 * A part is locked by flock as long as its writer lives. A process that gets the lock knows that the writer
 * is dead, even if another process has its number by now. */
#ifndef WEFT_GRAPH_FILE_IO_POSIX_H
#define WEFT_GRAPH_FILE_IO_POSIX_H

#include "weft/env.h"

extern const weft_io posix_io;

/* The end of a part's name. Specific enough that users have no such files: parts of dead writers are
 * removed. */
#define PART_END ".weft-part"

/* What writing to a path means. */
typedef struct file_place {
    char path[4096]; /* the path after following all links; it need not exist */
    bool is_stream;  /* not a regular file: written directly */
    bool is_pipe;    /* a named pipe */
    int descriptor;  /* descriptor that /dev/stdout and the like name; -1: none */
    unsigned mode;   /* permissions of the existing file, for its replacement; 0: there is none */
} file_place;

/* These return 0 or an errno value. posix_place follows links; posix_try_stream writes nothing. */
int posix_place(const char *path, file_place *place);
int posix_open_stream(const file_place *place, void **file);
int posix_try_stream(const file_place *place);
/* Creates a part under a new name, after removing the parts that dead writers of the same file left. The
 * name, place->path and at most 55 more characters, goes to part[room]. *lock: a descriptor to close when all
 * is done; -1 where there are no locks. */
int posix_open_part(const file_place *place, char *part, size_t room, void **file, int *lock);
/* Takes a folder for this process: EWOULDBLOCK where another one has it, else 0. *lock: a descriptor, which
 * gives it back when it is closed; -1: there are no locks. */
int posix_lock_folder(const char *path, int *lock);

#endif
