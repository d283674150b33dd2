/* profile_table.h - where the time of a session's runs went, by op and by scope: milliseconds, operations and
 * bytes per second, and where the peaks are known the share of what they allow: graphtool bench --profile. */
#ifndef WEFT_TOOLS_GRAPHTOOL_TIMELINE_PROFILE_TABLE_H
#define WEFT_TOOLS_GRAPHTOOL_TIMELINE_PROFILE_TABLE_H

#include "graph/core/mem.h"
#include "ops/roof.h"
#include "weft/session.h"

#include <jansson.h>

/* The programs that have run while weft_session_set_profile was on; `gpu` NULL: without the share of its
 * peaks; scopes of up to `depth` parts. As JSON; and as text of that. */
json_t *profile_table_json(const weft_session *s, const roof *gpu, int depth);
void profile_table_text(text *t, const json_t *profile, bool has_peaks);
/* The row of the session's GPU; NULL: it runs on a CPU, or on a GPU that the table lacks. */
const roof *profile_roof(const weft_session *s);

#endif
