/* report.c - graphtool report: a model, its memory and pictures of its training as one page of HTML, which
 * needs no other file and no network. Pictures are in it as data; a browser runs nothing that an SVG has. */
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/model/tools.h"

#include "graph/file/io.h"

#include <string.h>

enum { PICTURE_LIMIT = 1 << 26 /* bytes of a file */ };

/* Text of HTML: names may hold any byte that a model may have in them. */
static void add_escaped(text *t, const char *s) {
    static const char special[] = "<>&\"";
    static const char *const escapes[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    for (; *s; s++) {
        const char *at = strchr(special, *s);
        text_add(t, at ? "%s" : "%.1s", at ? escapes[at - special] : s);
    }
}

static void add_base64(text *t, const unsigned char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned long three = (unsigned long)bytes[i] << 16;
        if (i + 1 < n) three |= (unsigned long)bytes[i + 1] << 8;
        if (i + 2 < n) three |= bytes[i + 2];
        text_add(t, "%c%c%c%c", digits[three >> 18], digits[three >> 12 & 63],
                 i + 1 < n ? digits[three >> 6 & 63] : '=', i + 2 < n ? digits[three & 63] : '=');
    }
}

/* ---- pictures ---- */

/* By the first bytes; NULL: it is neither. */
static const char *type_of_picture(const char *data, size_t n) {
    if (n > 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) return "image/png";
    if (n > 5 && (memcmp(data, "<?xml", 5) == 0 || memcmp(data, "<svg ", 5) == 0)) return "image/svg+xml";
    return NULL;
}

/* "TITLE=FILE" as a section. */
static void add_picture(text *t, const char *said) {
    char *data;
    size_t n;
    const char *file = strchr(said, '=') + 1, *title = tool_text("%.*s", (int)(file - 1 - said), said);
    tool_must(file_read_all(NULL, file, PICTURE_LIMIT, &data, &n, &tool_why));
    const char *type = type_of_picture(data, n);
    if (!type) tool_fail("report: --picture: %s is neither a PNG nor an SVG", file);
    text_add(t, "<h2>");
    add_escaped(t, title);
    text_add(t, "</h2>\n<img alt=\"");
    add_escaped(t, title);
    text_add(t, "\" src=\"data:%s;base64,", type);
    add_base64(t, (const unsigned char *)data, n);
    text_add(t, "\">\n");
    mem_free(NULL, data, n + 1);
}

/* ---- tables ---- */

static double mib(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

/* Each kind, and its share of the total as a bar. */
static void add_memory(text *t, const weft_plan *plan) {
    memory_row rows[PLAN_MEMORY_ROWS];
    int n = plan_memory_rows(plan, rows);
    uint64_t total = weft_plan_memory(plan).total;
    text_add(t, "<h2>Memory</h2>\n<table>\n");
    for (int i = 0; i < n; i++) {
        bool is_total = strcmp(rows[i].what, "total") == 0;
        double share = total ? 100 * (double)rows[i].bytes / (double)total : 0;
        const char *part = strncmp(rows[i].what, "  ", 2) == 0 ? " class=\"part\"" : "";
        text_add(t, "<tr%s><td>%s</td><td>%.1f MiB</td><td>", part, rows[i].what, mib(rows[i].bytes));
        if (!is_total && share <= 100) text_add(t, "<i style=\"width:%.1f%%\"></i>", share);
        text_add(t, "</td></tr>\n");
    }
    text_add(t, "</table>\n<p>A plan states its bytes before the first step. They are allocated once, and a "
                "step allocates nothing.</p>\n");
}

static void add_graphs(text *t, const weft_plan *plan) {
    text_add(t, "<h2>Graphs</h2>\n<table>\n<tr><th>graph</th><th>nodes of the plan</th><th>GFLOP a "
                "run</th><th>activations</th></tr>\n");
    for (int i = 0; i < plan->n_programs; i++) {
        const program *p = &plan->programs[i];
        text_add(t, "<tr><td>");
        add_escaped(t, p->name);
        text_add(t, "</td><td>%d</td><td>%.2f</td><td>%.1f MiB</td></tr>\n", graph_node_count(p->graph),
                 program_flops(p) / 1e9, mib(p->arena_bytes));
    }
    text_add(t, "</table>\n");
}

/* ---- the page ---- */

static void add_head(text *t, const weft_plan *plan) {
    text head = {0};
    plan_head(&head, plan);
    text_add(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    add_escaped(t, plan->model->name);
    text_add(t, "</title>\n<style>\n"
                "body{font:16px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\n"
                "h1{margin-bottom:0}h2{margin-top:2em}img{max-width:100%%;height:auto}\n"
                "table{border-collapse:collapse}td,th{padding:.2em 1.5em .2em 0;text-align:left}\n"
                "td:nth-child(n+2){text-align:right}td:nth-child(3):has(i){width:20em;text-align:left}\n"
                "i{display:block;height:.8em;background:#1f6fb4}.part td:first-child{padding-left:1.5em}\n"
                ".part i{background:#9dc3e6}\n</style></head><body>\n<h1>");
    add_escaped(t, plan->model->name);
    text_add(t, "</h1>\n<p>");
    add_escaped(t, tool_take(&head));
    text_add(t, "</p>\n");
}

static int report_run(const options *o) {
    text t = {0};
    if (!o->output) tool_fail("report: -o FILE.html is needed");
    const weft_plan *plan = tool_compile(tool_load(o), o, NULL);
    add_head(&t, plan);
    for (int i = 0; i < o->picture.n; i++) add_picture(&t, o->picture.v[i]);
    add_memory(&t, plan);
    add_graphs(&t, plan);
    text_add(&t, "</body></html>\n");
    out_text(o->output, &t);
    return EXIT_FINE;
}

const command command_report = {
    .name = "report",
    .summary = "Writes a page of HTML: pictures, what the plan's memory is for, its graphs",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE "guard picture output",
    .details = "The page is one file: a browser needs no other and no network. With the options of train it "
               "shows the memory of that training.",
    .example = "graphtool report dcgan28.bin --picture Losses=curves.svg \\\n"
               "             -o index.html",
    .run = report_run,
    .writes_text = true,
    .defaults = {.guard = "nan"}, /* as a trainer has it */
};
