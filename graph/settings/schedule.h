/* schedule.h - parts of schedules (weft/schedule.h): their rules, defaults and text. A part is full when its
 * defaults are written in it; full parts are what `minimize` keeps as text and model.bin as messages. */
#ifndef WEFT_GRAPH_SETTINGS_SCHEDULE_H
#define WEFT_GRAPH_SETTINGS_SCHEDULE_H

#include "graph/core/graph.h"
#include "weft/schedule.h"

enum { SCHEDULE_WHY = 240 };

/* Names of kinds and of what parts change, NULL after the last. */
extern const char *const schedule_kinds[], *const schedule_numbers[];

/* Parts before the first of no kind. */
int schedule_count(const weft_schedule *parts);
/* Whether its curve has a length that nothing says. */
bool schedule_needs_end(const weft_schedule *part);
/* Checks the parts and writes their defaults. False: `why` names a part and the rule that it breaks. */
bool schedules_fill(weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]);
/* The same for parts that a file had filled, in which a 0 is a true one. */
bool schedules_fill_zeros(weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]);
/* Reads "linear:0-500 cosine:500-10000" without filling it; NULL is "". False as above. */
bool schedules_parse(const char *from, weft_schedule parts[WEFT_MAX_SCHEDULES], char why[SCHEDULE_WHY]);
/* Writes what schedules_parse reads. */
void schedules_write(text *t, const weft_schedule *parts);
/* A number of a full part: WEFT_ZERO is 0. */
double schedule_real(double v);

#endif
