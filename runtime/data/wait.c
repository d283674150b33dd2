/* wait.c - the time that a caller spends in calls for data: all of it, so that a lock that is taken, a thread
 * that is started and an epoch that is shuffled count as much as reading does. */
#include "runtime/data/loader.h"

void loader_note(weft_loader *l, int64_t batch, uint64_t began_ns) {
    weft_loader_event e = {batch, began_ns, weft_clock_ns()};
    l->waited += 1e-9 * (double)(e.finished_ns - began_ns);
    if (l->event) l->event(l->event_context, &e);
}

double weft_loader_waited(const weft_loader *l) {
    return l ? l->waited : 0;
}

void weft_loader_trace(weft_loader *l, void (*event)(void *context, const weft_loader_event *event),
                       void *context) {
    if (!l) return;
    l->event = event;
    l->event_context = context;
}
