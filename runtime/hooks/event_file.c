/* event_file.c - see event_file.h. Events are messages of event.proto. */
#include "runtime/hooks/event_file.h"

#include "event.pb-c.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

/* ---- records ---- */

enum { LENGTH = 8, CHECK = 4 /* bytes */ };

/* Numbers are little-endian, whatever the machine. */
static void put_number(uint8_t *into, uint64_t value, int width) {
    for (int i = 0; i < width; i++) into[i] = (uint8_t)(value >> 8 * i);
}

/* CRC-32C (Castagnoli), bit by bit: logs are short. Then masked as TFRecord files do. */
static void put_check(uint8_t *into, const uint8_t *of, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= of[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    crc = ~crc;
    put_number(into, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8), CHECK);
}

/* length, its check, the event, its check. */
static void write_event(log_file *l, int64_t step, Tensorboard__Event *event) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    event->step = step;
    size_t n = tensorboard__event__get_packed_size(event);
    uint8_t *record = kit_take_raw(l->memory, LENGTH + CHECK + n + CHECK, 1);
    if (!record) return;
    uint8_t *packed = record + LENGTH + CHECK;
    put_number(record, n, LENGTH);
    put_check(record + LENGTH, record, LENGTH);
    tensorboard__event__pack(event, packed);
    put_check(packed + n, packed, n);
    log_file_write(l, step, record, LENGTH + CHECK + n + CHECK);
    kit_drop(l->memory, record);
}

/* ---- events ---- */

static void write_values(log_file *l, int64_t step, Tensorboard__Value **values, size_t n) {
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    summary.values = values;
    summary.n_values = n;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    write_event(l, step, &event);
}

typedef struct scalar {
    Tensorboard__Value value;
    char tag[LOG_NAME + 8];
} scalar;

void event_file_scalars(log_file *l, int64_t step, const char *phase, const log_values *values) {
    size_t n = (size_t)values->n;
    scalar *list = kit_take(l->memory, n, sizeof *list);
    Tensorboard__Value **pointers = kit_take(l->memory, n, sizeof *pointers);
    for (size_t i = 0; list && pointers && i < n; i++) {
        scalar *s = &list[i];
        snprintf(s->tag, sizeof s->tag, "%s/%s", phase, values->list[i].name);
        tensorboard__value__init(&s->value);
        s->value.tag = s->tag;
        s->value.what_case = TENSORBOARD__VALUE__WHAT_NUMBER;
        s->value.number = (float)values->list[i].value;
        pointers[i] = &s->value;
    }
    if (list && pointers) write_values(l, step, pointers, n);
    kit_drop(l->memory, list);
    kit_drop(l->memory, pointers);
}

void event_file_image(log_file *l, int64_t step, const char *name, const grid_file *picture) {
    char tag[LOG_NAME];
    Tensorboard__Image image = TENSORBOARD__IMAGE__INIT;
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT, *values = &value;
    snprintf(tag, sizeof tag, "%s", name);
    image.height = picture->height;
    image.width = picture->width;
    image.channels = picture->channels;
    image.png = (ProtobufCBinaryData){picture->n, (uint8_t *)(uintptr_t)picture->bytes};
    value.tag = tag;
    value.what_case = TENSORBOARD__VALUE__WHAT_IMAGE;
    value.image = &image;
    write_values(l, step, &values, 1);
}

/* ---- the file ---- */

weft_status event_file_open(log_file *l, const weft_env *env, weft_error *error) {
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    char path[4096], version[] = "brain.Event:2";
    struct timespec now;
    if (l->is_open) return WEFT_OK;
    clock_gettime(CLOCK_REALTIME, &now);
    int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010jd.%09ld.weft", l->folder, now.tv_sec,
                     now.tv_nsec);
    if (n < 0 || (size_t)n >= sizeof path)
        return weft_error_io(error, l->folder, "it cannot be written", ENAMETOOLONG);
    if (mkdir(l->folder, 0777) && errno != EEXIST)
        return weft_error_io(error, l->folder, "it cannot be made", errno);
    if (!(l->path = kit_copy(l->memory, path))) return kit_no_memory(error, "tensorboard");
    if (log_file_open(l, env, error)) return error->status;
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    write_event(l, 0, &event);
    return WEFT_OK;
}
