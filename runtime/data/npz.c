/* npz.c - .npz files: a zip archive of .npy members, as numpy.savez and savez_compressed write it. Members
 * that are stored are read where they lie; deflated ones are held whole.
 *
 *     zip  APPNOTE.TXT 6.3.10 of PKWARE: end of central directory (4.3.16), zip64 (4.3.14, 4.3.15, 4.5.3)
 *
 * Nothing that the archive says is believed before it has been compared with the file's length, and no memory
 * is taken for the directory: its entries are read one by one. Opening reads each member once, for its length
 * and its CRC-32. */
#include "runtime/data/form.h"

enum {
    NAME_BYTES = 128,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30
};

typedef struct npz {
    kit_arena memory;
    int n;
    row_file rows[WEFT_SOURCE_ARRAYS];
    char names[WEFT_SOURCE_ARRAYS][NAME_BYTES];
} npz;

/* One member, as the directory describes it. */
typedef struct member {
    char name[NAME_BYTES]; /* without ".npy" */
    uint64_t packed, bytes, offset;
    unsigned method, flags;
    uint32_t crc; /* CRC-32 of its bytes */
} member;

/* A walk through the directory. */
typedef struct directory {
    stream file;
    uint64_t at, end, entries;
} directory;

static uint64_t little(const unsigned char *p, int bytes) {
    return stream_number(p, bytes, false);
}

static weft_status broken(const stream *s, const char *rule, weft_error *error) {
    return kit_fail(error, WEFT_FILE, "%.600s: zip: %s", s->path, rule);
}

/* ---- the directory ---- */

/* The last record of the file, before a comment of at most 65,535 bytes. */
static weft_status find_end(const stream *s, unsigned char end[END_BYTES], uint64_t *at, weft_error *error) {
    uint64_t last = s->file_bytes < END_BYTES ? 0 : s->file_bytes - END_BYTES;
    for (uint64_t back = 0; s->file_bytes >= END_BYTES && back <= 65535 && back <= last; back++) {
        if (stream_read_at(s, last - back, end, END_BYTES, error)) return error->status;
        *at = last - back;
        if (memcmp(end, "PK\5\6", 4) == 0 && little(end + 20, 2) == back) return WEFT_OK;
    }
    return broken(s, "it has no end of central directory: it is cut off, or no .npz", error);
}

/* With zip64 the numbers stand in a record of their own, which a locator before the end names. */
static weft_status find_end64(const stream *s, uint64_t end_at, unsigned char end64[END64_BYTES],
                              weft_error *error) {
    unsigned char locator[LOCATOR_BYTES] = {0};
    weft_status status = end_at < LOCATOR_BYTES
                             ? WEFT_OK
                             : stream_read_at(s, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES, error);
    if (status) return status;
    uint64_t at = little(locator + 8, 8);
    if (memcmp(locator, "PK\6\7", 4) != 0 || at > s->file_bytes || s->file_bytes - at < END64_BYTES)
        return broken(s, "the locator of its zip64 directory is not there", error);
    if ((status = stream_read_at(s, at, end64, END64_BYTES, error))) return status;
    return memcmp(end64, "PK\6\6", 4) == 0
               ? WEFT_OK
               : broken(s, "its zip64 directory is not where it should be", error);
}

static weft_status directory_open(directory *d, const form_request *r, weft_error *error) {
    unsigned char end[END_BYTES], end64[END64_BYTES];
    uint64_t at = 0;
    weft_status status = stream_open(&d->file, r->path, &r->env, error);
    if (status) return status;
    if ((status = find_end(&d->file, end, &at, error))) return status;
    d->entries = little(end + 10, 2);
    uint64_t bytes = little(end + 12, 4);
    d->at = little(end + 16, 4);
    if (d->entries == 0xffff || bytes == 0xffffffff || d->at == 0xffffffff) {
        if ((status = find_end64(&d->file, at, end64, error))) return status;
        d->entries = little(end64 + 32, 8);
        bytes = little(end64 + 40, 8);
        d->at = little(end64 + 48, 8);
    }
    if (d->at > d->file.file_bytes || bytes > d->file.file_bytes - d->at || d->entries > bytes / ENTRY_BYTES)
        return broken(&d->file, "its directory is larger than the file", error);
    d->end = d->at + bytes;
    return WEFT_OK;
}

/* Numbers of an entry that are all ones stand in its zip64 field, in this order. */
static bool widen(member *m, const unsigned char *extra, size_t bytes) {
    uint64_t *wide[] = {&m->bytes, &m->packed, &m->offset};
    bool needs = m->bytes == 0xffffffff || m->packed == 0xffffffff || m->offset == 0xffffffff;
    for (size_t at = 0; needs && bytes - at >= 4;) {
        size_t id = (size_t)little(extra + at, 2), n = (size_t)little(extra + at + 2, 2);
        at += 4;
        if (n > bytes - at) return false;
        size_t used = 0;
        for (int i = 0; id == 1 && i < 3; i++) {
            if (*wide[i] != 0xffffffff) continue;
            if (n - used < 8) return false;
            *wide[i] = little(extra + at + used, 8);
            used += 8;
        }
        if (id == 1) return true;
        at += n;
    }
    return !needs;
}

static weft_status directory_next(directory *d, member *m, weft_error *error) {
    unsigned char e[ENTRY_BYTES], extra[1024];
    *m = (member){.name = ""};
    if (d->end - d->at < ENTRY_BYTES) return broken(&d->file, "its directory ends within an entry", error);
    weft_status status = stream_read_at(&d->file, d->at, e, ENTRY_BYTES, error);
    if (status) return status;
    size_t name = (size_t)little(e + 28, 2), more = (size_t)little(e + 30, 2),
           comment = (size_t)little(e + 32, 2);
    if (memcmp(e, "PK\1\2", 4) != 0 || name + more + comment > d->end - d->at - ENTRY_BYTES)
        return broken(&d->file, "an entry of its directory is damaged", error);
    if (name >= NAME_BYTES || more > sizeof extra)
        return broken(&d->file,
                      "a member has a name of more than 127 bytes, or more than 1024 bytes of extra fields",
                      error);
    status = stream_read_at(&d->file, d->at + ENTRY_BYTES, m->name, name, error);
    if (!status) status = stream_read_at(&d->file, d->at + ENTRY_BYTES + name, extra, more, error);
    if (status) return status;
    m->flags = (unsigned)little(e + 8, 2);
    m->method = (unsigned)little(e + 10, 2);
    m->crc = (uint32_t)little(e + 16, 4);
    m->packed = little(e + 20, 4);
    m->bytes = little(e + 24, 4);
    m->offset = little(e + 42, 4);
    size_t n = strlen(m->name);
    if (n > 4 && strcmp(m->name + n - 4, ".npy") == 0) m->name[n - 4] = 0;
    d->at += ENTRY_BYTES + name + more + comment;
    return widen(m, extra, more) ? WEFT_OK : broken(&d->file, "an entry lacks its zip64 field", error);
}

/* ---- members ---- */

/* Where a member's bytes begin: after its local header, whose name and extra fields have lengths of their
 * own. */
static weft_status member_begin(const stream *s, const member *m, uint64_t *begin, weft_error *error) {
    unsigned char head[LOCAL_BYTES];
    if (m->offset > s->file_bytes || s->file_bytes - m->offset < LOCAL_BYTES)
        return broken(s, "a member begins after the end of the file", error);
    if (stream_read_at(s, m->offset, head, LOCAL_BYTES, error)) return error->status;
    *begin = m->offset + LOCAL_BYTES + little(head + 26, 2) + little(head + 28, 2);
    return memcmp(head, "PK\3\4", 4) == 0 ? WEFT_OK : broken(s, "a member's local header is damaged", error);
}

/* Reads the whole member as a stream. */
static weft_status member_sum(stream *s, const member *m, weft_error *error) {
    unsigned char some[16 << 10];
    uLong sum = crc32(0, NULL, 0);
    for (uint64_t left = m->bytes, n; left; left -= n) {
        n = left < sizeof some ? left : sizeof some;
        if (stream_read(s, some, n, error)) return error->status;
        sum = crc32(sum, some, (uInt)n);
    }
    if (stream_finish(s, error)) return error->status;
    if (sum == m->crc) return WEFT_OK;
    return kit_fail(error, WEFT_FILE, "%.600s: zip: %s is damaged: its CRC-32 is %08lx, not %08lx", s->path,
                    kit_show(m->name, strlen(m->name)).text, sum, (unsigned long)m->crc);
}

/* Compares the member with the length and the sum that the directory has of it. */
static weft_status member_check(const npz *z, const char *path, uint64_t begin, const member *m,
                                weft_error *error) {
    stream s;
    if (stream_open_part(&s, path, begin, m->packed, m->method == 8, &z->memory.env, error))
        return error->status;
    weft_status status = member_sum(&s, m, error);
    stream_close(&s);
    return status;
}

/* Opens a member as the next array of the source. */
static weft_status member_open(npz *z, const stream *s, const member *m, const char *dtype,
                               weft_error *error) {
    uint64_t begin = 0;
    if (z->n == WEFT_SOURCE_ARRAYS)
        return kit_fail(error, WEFT_SHAPE, "%.600s: more than %d members: members=NAME,NAME chooses", s->path,
                        WEFT_SOURCE_ARRAYS);
    if (m->flags & 1) return broken(s, "its members are encrypted", error);
    if (m->method != 0 && m->method != 8)
        return broken(s, "members that are stored or deflated are read", error);
    if (m->method == 0 && m->packed != m->bytes) return broken(s, "a stored member has two lengths", error);
    if (member_begin(s, m, &begin, error) || member_check(z, s->path, begin, m, error)) return error->status;
    row_file *f = &z->rows[z->n];
    memcpy(z->names[z->n], m->name, NAME_BYTES);
    z->n++; /* what is open of it ends with the others */
    return stream_open_part(&f->s, s->path, begin, m->packed, m->method == 8, &z->memory.env, error) ||
                   row_file_begin(f, false, error) || row_file_as(f, dtype, error)
               ? error->status
               : WEFT_OK;
}

/* Is `name` in a list with "," between its names? */
static bool is_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; n && (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
    return false;
}

static int names_in(const char *list) {
    int n = list && *list;
    for (; list && (list = strchr(list, ',')); list++) n++;
    return n;
}

static weft_status open_listed(npz *z, directory *d, const form_request *r, weft_error *error) {
    const char *members = r->options.members;
    if (directory_open(d, r, error)) return error->status;
    for (uint64_t i = 0; i < d->entries; i++) {
        member m;
        if (directory_next(d, &m, error)) return error->status;
        bool is_wanted = !members || is_listed(members, m.name);
        if (is_wanted && member_open(z, &d->file, &m, r->options.dtype, error)) return error->status;
    }
    if (z->n && (!members || z->n == names_in(members))) return WEFT_OK;
    return kit_fail(error, WEFT_NAME, "%.600s: %d of the members '%s' are there", r->path, z->n,
                    members ? members : "*");
}

static weft_status open_members(npz *z, const form_request *r, weft_error *error) {
    directory d = {.at = 0};
    weft_status status = open_listed(z, &d, r, error);
    if (d.file.file) stream_close(&d.file);
    return status;
}

/* ---- the source ---- */

static weft_status read_members(void *context, int64_t i, void *const *into, weft_error *error) {
    const npz *z = context;
    for (int k = 0; k < z->n; k++) {
        if (row_file_sample(&z->rows[k], i, into[k], error)) return error->status;
    }
    return WEFT_OK;
}

static void close_npz(void *context) {
    npz *z = context;
    for (int k = 0; k < z->n; k++) row_file_close(&z->rows[k]);
    kit_free(z);
}

/* Members have one number of samples, their first axes. */
static weft_status describe_npz(npz *z, const form_request *r, weft_source *into, weft_error *error) {
    into->n = z->n;
    into->count = z->rows[0].h.type.shape[0];
    into->read = read_members;
    into->context = z;
    for (int k = 0; k < z->n; k++) {
        into->arrays[k] = row_file_array(&z->rows[k], z->names[k]);
        if (z->rows[k].h.type.shape[0] != into->count)
            return kit_fail(error, WEFT_SHAPE,
                            "%.600s: %s has %jd samples, %s has %jd: members=NAME,NAME chooses", r->path,
                            z->names[k], z->rows[k].h.type.shape[0], z->names[0], into->count);
    }
    return WEFT_OK;
}

static weft_status open_npz(const form_request *r, weft_source *into, weft_error *error) {
    npz *z = kit_object(&r->env, sizeof *z);
    if (!z) return kit_no_memory(error, r->path);
    if (!open_members(z, r, error) && !describe_npz(z, r, into, error)) return WEFT_OK;
    close_npz(z);
    return error->status;
}

const form form_npz = {"npz", open_npz, close_npz, NULL};
