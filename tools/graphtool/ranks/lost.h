/* lost.h - what this rank does when another rank is lost: missing at the deadline, dead, or at another
 * collective. It tells so at once, writes its ring of collectives, and ends within seconds with EXIT_PEER,
 * whatever its own threads are doing. The ring is also written at SIGTERM and SIGABRT. */
#ifndef WEFT_TOOLS_GRAPHTOOL_RANKS_LOST_H
#define WEFT_TOOLS_GRAPHTOOL_RANKS_LOST_H

#include "tools/graphtool/options/options.h"

#include "weft/comm.h"

/* Before the ranks meet: chooses the folder of --rings, and starts the thread that ends the process. */
void lost_prepare(const options *o, int rank);
/* weft_comm_options.lost */
void lost_tell(void *context, const weft_error *error, bool is_found_here);
/* The ranks have met: from here on signals write the ring of their communicator. */
void lost_watch(weft_comm *comm);
/* The time when rank 0 began the job, now that this rank has learned it: its ring has it, so that files of an
 * earlier job are known. */
void lost_note_job(uint64_t job);
/* Takes the signals again after a command had handlers of its own. */
void lost_take_signals(void);
/* For such a handler: what SIGTERM does here, but the process continues. */
void lost_write_ring(void);
/* Ends this process with EXIT_PEER after so many seconds, unless it has ended. */
void lost_end_in(double seconds);
/* Has lost_tell been called? */
bool lost_is_told(void);
/* All went well: before the communicator is freed. */
void lost_leave(void);

#endif
