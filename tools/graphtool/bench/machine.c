/* machine.c - see machine.h. */
#include "tools/graphtool/bench/machine.h"

#include "commit.h"
#include "runtime/options.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CPU "/sys/devices/system/cpu/cpu0/"

/* The first line of a file that begins with `key`, after it and its ": "; key "": the first line. NULL: there
 * is none. */
static const char *line_of(const char *path, const char *key) {
    char line[256];
    const char *found = NULL;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *value = line + strlen(key);
        if (*key) value += strspn(value, " \t:");
        found = tool_text("%.*s", (int)strcspn(value, "\n"), value);
    }
    if (f) fclose(f);
    return found;
}

/* "Data" caches and those of both kinds, by their level: {"L1": "32K", "L2": "1024K"}. */
static json_t *caches_json(void) {
    json_t *caches = json_object();
    for (int i = 0;; i++) {
        const char *index = tool_text(CPU "cache/index%d", i);
        const char *level = line_of(tool_text("%s/level", index), "");
        const char *kind = line_of(tool_text("%s/type", index), "");
        const char *size = line_of(tool_text("%s/size", index), "");
        if (!level || !kind || !size) return caches;
        if (strcmp(kind, "Instruction"))
            json_object_set_new(caches, tool_text("L%s", level), json_string(size));
    }
}

/* A text, or null. */
static json_t *text_json(const char *text) {
    return text && *text ? json_string(text) : json_null();
}

json_t *machine_json(const peaks *p) {
    struct utsname system = {0};
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    uname(&system);
    return json_pack("{s:o, s:o, s:s, s:i, s:i, s:o, s:o, s:I, s:o, s:s, s:s, s:o}", "processor",
                     text_json(line_of("/proc/cpuinfo", "model name")), "gpu",
                     text_json(p->is_measured ? NULL : p->roof.name), "architecture", system.machine, "cores",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "usable_cores", usable_cores(), "caches",
                     caches_json(), "governor", text_json(line_of(CPU "cpufreq/scaling_governor", "")),
                     "memory_bytes", (json_int_t)bytes, "memory_gb_per_s",
                     p->is_measured ? json_real(p->roof.memory * 1e-9) : json_null(), "system",
                     tool_text("%s %s", system.sysname, system.release), "weft", weft_version(), "commit",
                     text_json(WEFT_COMMIT));
}
