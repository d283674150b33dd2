/* hostile_config.c - see hostile_config.h. What graphtool prints about a file is its error, which is one line
 * of plain text. The file is one in memory, /proc/self/fd/N. */
#define _GNU_SOURCE
#include "fuzz/hostile_config.h"

#include "tools/graphtool/output/end.h"
#include "tools/graphtool/options/options.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const command command_train;

/* Descriptors: of the file, of what is printed, and of stderr as it was. */
typedef struct tool {
    int file, said, stderr_before;
    char option[60];
} tool;

static void make_config(hostile *h) {
    static const char good[] =
        "{\"schema\": 2, \"command\": \"train\", \"model\": \"gan.bin\", \"epochs\": 5, \"seed\": 4,\n"
        " \"lr\": 1e-4, \"threads\": 2, \"isa\": \"avx2\", \"partial\": false,\n"
        " \"data\": {\"image\": \"train.npy\", \"label\": \"labels.idx\"}, \"val-data\": "
        "[\"image=val.npz\"],\n"
        " \"optimizer\": {\"generator\": {\"lr\": 1e-4, \"clip_norm\": 1, \"amsgrad\": false}},\n"
        " \"ddp\": {\"net\": \"zero=1,shard=flat\"}, \"schedule\": \"cosine:0-90,warmup=5\",\n"
        " \"precision\": {\"net/fc\": \"bf16\"}, \"val-every\": \"2steps\", \"output\": "
        "\"out.safetensors\"}\n";
    tool *t = test_memory(sizeof *t);
    hostile_put(h, good, sizeof good - 1);
    *t = (tool){memfd_create("config", MFD_CLOEXEC), memfd_create("said", MFD_CLOEXEC), dup(STDERR_FILENO)};
    snprintf(t->option, sizeof t->option, "--config=/proc/self/fd/%d", t->file);
    h->kept = t;
}

static void free_config(hostile *h) {
    tool *t = h->kept;
    close(t->file);
    close(t->said);
    close(t->stderr_before);
    free(t);
}

static bool empty(int fd) {
    return ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0;
}

/* One line without control characters becomes the error. */
static void take_error(subject *s, int said) {
    ssize_t n = pread(said, s->error.text, sizeof s->error.text - 1, 0);
    char *end = n > 0 ? memchr(s->error.text, '\n', (size_t)n) : NULL;
    if (end && end + 1 < s->error.text + n) hostile_complain(s, "it takes two lines: %.300s", s->error.text);
    if (end) *end = 0;
    for (const char *c = s->error.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) hostile_complain(s, "it prints byte %d", *c);
    s->error.status = WEFT_ARGUMENT;
}

/* An error does not end this program. */
static jmp_buf back;
static __attribute__((noreturn)) void go_back(int status) {
    (void)status;
    longjmp(back, 1);
}

static void try_config(subject *s) {
    const tool *t = s->h->kept;
    const fake_file *file = hostile_file(s);
    options o = {0};
    char command[] = "train", *argv[] = {command, (char *)t->option, NULL};
    if (!empty(t->file) || !empty(t->said) || write(t->file, file->data, file->bytes) != (ssize_t)file->bytes)
        hostile_complain(s, "the test cannot write its file");
    dup2(t->said, STDERR_FILENO);
    tool_exit = go_back;
    s->good = setjmp(back) == 0;
    if (s->good) options_parse(&command_train, 2, argv, &o);
    dup2(t->stderr_before, STDERR_FILENO);
    if (!s->good) take_error(s, t->said);
    tool_close();
}

const hostile_format hostile_configs[] = {{"configuration", make_config, try_config, free_config}, {0}};
