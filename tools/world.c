/* world.c - who we are, sums of a few numbers, and how all ranks end when one cannot go on. */
#include "tools/world.h"

#include <string.h>
#include <unistd.h>

extern char **environ; /* POSIX declares it nowhere */

int world_rank(const options *o) {
    return o->comm ? o->comm->rank : 0;
}

int world_size(const options *o) {
    return o->comm ? o->comm->world : 1;
}

/* ---- joining ---- */

/* The same work is done as on rank 0, and nothing of it is seen. */
static int be_silent(options *o) {
    o->output = o->log = NULL;
    o->profile = false;
    return freopen("/dev/null", "w", stdout) ? -1 : tool_fail("/dev/null cannot be opened");
}

int world_open(options *o, world_use use, const weft_comm_options *how) {
    weft_error error = {0};
    weft_launch launch;
    if (weft_launch_read(o->launcher, environ, &launch, &error)) return tool_error(&error);
    if (launch.world == 1) return -1;
    if (use == WORLD_LEADS) return launch.rank ? EXIT_FINE : -1;
    if (launch.rank) tool_hold_errors(launch.rank);
    if (!(o->comm = weft_comm_mpi(&launch, how, &error))) {
        int status = tool_error(&error);
        tool_tell_held();
        return status;
    }
    return launch.rank ? be_silent(o) : -1;
}

/* ---- leaving ---- */

/* The first to know tells it, and its abort ends the others before they would tell the same: rank 0 has told its own
 * error already; the others wait for a second in case it is everybody's; who was told by a communicator waits one more. */
int world_close(options *o, int status) {
    if (!o->comm) return status;
    if (status == EXIT_FINE || status == EXIT_INTERRUPTED) {
        weft_comm_free(o->comm);
        o->comm = NULL;
        return status;
    }
    if (o->comm->rank || tool_has_held()) sleep(o->comm->rank && tool_has_held_of_peer() ? 2 : 1);
    tool_tell_held();
    fflush(stdout);
    weft_comm_abort(o->comm, "graphtool ends on this rank");
    return status;
}
