/* page.c - the page with its data: one file that needs no other and no network. */
#include "tools/graphtool/view/view.h"

#include "tools/graphtool/output/output.h"
#include "view_page.h"

#include <string.h>

static const char mark[] = "/*DATA*/";

/* '<' would end the script element that the data are in, or change how a browser reads it; JSON has it in
 * strings alone. */
static void add_data(text *t, const char *json) {
    for (const char *at = json; *at;) {
        size_t n = strcspn(at, "<");
        text_bytes(t, at, n);
        at += n;
        if (*at) text_bytes(t, "\\u003c", 6), at++;
    }
}

void view_write(const char *path, json_t *data) {
    text t = {0};
    const char *at = strstr(view_page, mark);
    char *json = data && out_json_is_whole() ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    if (!json || !out_json_is_whole()) tool_fail("out of memory");
    text_bytes(&t, view_page, (size_t)(at - view_page));
    add_data(&t, json);
    text_add(&t, "%s", at + strlen(mark));
    free(json);
    out_text(path, &t);
}
