/* event_file.c - see event_file.h. Messages are encoded by hand: a field is its number and kind as a varint,
 * then a varint (0), 8 bytes (1), a length and bytes (2) or 4 bytes (5). */
#include "runtime/train/event_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- bytes ---- */

enum { MOST = 64 /* values of an event */ };

typedef struct bytes {
    uint8_t data[MOST * (LOG_NAME + 40) + 64];
    size_t n;
} bytes;

static void put_bytes(bytes *b, const void *from, size_t n) {
    if (n > sizeof b->data - b->n) return; /* there is room for MOST values */
    memcpy(b->data + b->n, from, n);
    b->n += n;
}

static void put_varint(bytes *b, uint64_t value) {
    for (; value > 127; value >>= 7) put_bytes(b, &(uint8_t){(uint8_t)(value | 128)}, 1);
    put_bytes(b, &(uint8_t){(uint8_t)value}, 1);
}

/* Numbers are little-endian, whatever the machine. */
static void put_number(bytes *b, uint64_t value, int width) {
    for (int i = 0; i < width; i++) put_bytes(b, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

static void put_field(bytes *b, int number, const void *from, size_t n) {
    put_varint(b, (uint64_t)number << 3 | 2);
    put_varint(b, n);
    put_bytes(b, from, n);
}

/* ---- records ---- */

/* CRC-32C (Castagnoli), bit by bit: logs are short. Then masked as TFRecord files do. */
static uint32_t crc_add(uint32_t crc, const void *data, size_t n) {
    const uint8_t *at = data;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return crc;
}

static void put_check(bytes *b, uint32_t crc) {
    crc = ~crc;
    put_number(b, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8), 4);
}

/* length (8 bytes), its check, the event, its check. The event ends with `n` bytes of `tail`. */
static void write_record(log_file *l, int64_t step, const bytes *event, const void *tail, size_t n) {
    bytes head = {.n = 0}, end = {.n = 0};
    put_number(&head, event->n + n, 8);
    put_check(&head, crc_add(0xffffffff, head.data, 8));
    put_bytes(&head, event->data, event->n);
    put_check(&end, crc_add(crc_add(0xffffffff, event->data, event->n), tail, n));
    log_file_write(l, step, head.data, head.n);
    if (n) log_file_write(l, step, tail, n);
    log_file_write(l, step, end.data, end.n);
}

/* Event: 1 wall_time double, 2 step int64, 3 file_version text, 5 summary. */
static void begin_event(bytes *b, int64_t step) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_varint(b, 1 << 3 | 1);
    put_number(b, bits, 8);
    put_varint(b, 2 << 3);
    put_varint(b, (uint64_t)step);
}

/* Values `first` and on, at most MOST. Summary.Value: 1 tag text, 2 simple_value float. */
static void write_scalars(log_file *l, int64_t step, const char *phase, const log_values *values, int first) {
    bytes event = {.n = 0}, summary = {.n = 0};
    for (int i = first; i < values->n && i < first + MOST; i++) {
        bytes value = {.n = 0};
        char tag[LOG_NAME + 8];
        uint32_t bits;
        float number = (float)values->list[i].value;
        memcpy(&bits, &number, sizeof bits);
        put_field(&value, 1, tag, (size_t)snprintf(tag, sizeof tag, "%s/%s", phase, values->list[i].name));
        put_varint(&value, 2 << 3 | 5);
        put_number(&value, bits, 4);
        put_field(&summary, 1, value.data, value.n);
    }
    begin_event(&event, step);
    put_field(&event, 5, summary.data, summary.n);
    write_record(l, step, &event, NULL, 0);
}

void event_file_scalars(log_file *l, int64_t step, const char *phase, const log_values *values) {
    int first = 0;
    do write_scalars(l, step, phase, values, first);
    while ((first += MOST) < values->n);
}

/* The head of a field whose content follows: `after` bytes more than what is in `b`. */
static void wrap(bytes *b, int number, size_t after) {
    bytes inner = *b;
    b->n = 0;
    put_varint(b, (uint64_t)number << 3 | 2);
    put_varint(b, inner.n + after);
    put_bytes(b, inner.data, inner.n);
}

/* Image: 1 height, 2 width, 3 channels, 4 encoded bytes; Value: 1 tag, 4 image; Summary: 1 value. The bytes
 * come last in each. */
void event_file_image(log_file *l, int64_t step, const char *name, const void *png, size_t n, int width,
                      int height, int channels) {
    const int sizes[] = {height, width, channels};
    bytes image = {.n = 0}, value = {.n = 0}, event = {.n = 0};
    for (int i = 0; i < 3; i++)
        put_varint(&image, (uint64_t)(i + 1) << 3), put_varint(&image, (uint64_t)sizes[i]);
    put_varint(&image, 4 << 3 | 2);
    put_varint(&image, n);
    wrap(&image, 4, n);
    put_field(&value, 1, name, strlen(name) < LOG_NAME ? strlen(name) : LOG_NAME);
    put_bytes(&value, image.data, image.n);
    wrap(&value, 1, n);
    wrap(&value, 5, n);
    begin_event(&event, step);
    put_bytes(&event, value.data, value.n);
    write_record(l, step, &event, png, n);
}

/* ---- the file ---- */

bool event_file_new(log_file *l, const char *folder) {
    *l = (log_file){.lost = -1};
    return hook_copy(&l->folder, folder);
}

weft_status event_file_open(log_file *l, const weft_env *env, weft_error *error) {
    static const char version[] = "brain.Event:2";
    bytes event = {.n = 0};
    char path[4096];
    struct timespec now;
    if (l->is_open) return WEFT_OK;
    clock_gettime(CLOCK_REALTIME, &now);
    int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%09ld.weft", l->folder,
                     (long long)now.tv_sec, now.tv_nsec);
    if (n < 0 || (size_t)n >= sizeof path)
        return weft_error_io(error, l->folder, "it cannot be written", ENAMETOOLONG);
    if (mkdir(l->folder, 0777) && errno != EEXIST)
        return weft_error_io(error, l->folder, "it cannot be made", errno);
    hook_free_copy(l->path); /* of a call that failed */
    l->path = NULL;
    if (!hook_copy(&l->path, path)) return kit_no_memory(error, "tensorboard");
    weft_status status = log_file_open(l, env, error);
    if (status) return status;
    begin_event(&event, 0);
    put_field(&event, 3, version, sizeof version - 1);
    write_record(l, 0, &event, NULL, 0);
    return WEFT_OK;
}
