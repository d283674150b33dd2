/* io_posix.c - see io_posix.h: the default weft_io over POSIX, following links to the file that is really
 * written, and parts with locks. */
#include "graph/file/io_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the operating system's files; a handle is the descriptor + 1, so that it is never NULL ---- */

static int descriptor(void *file) {
    return (int)((intptr_t)file - 1);
}

/* 0, or errno where there is no descriptor. */
static int give_handle(int fd, void **file) {
    if (fd < 0) return errno;
    *file = (void *)((intptr_t)fd + 1);
    return 0;
}

/* Accepts regular files only, because others have no size to check against. O_NONBLOCK: opening a pipe must
 * not wait for a writer. */
static int posix_open_read(void *context, const char *path, void **file, uint64_t *bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    int code = fstat(fd, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : S_ISREG(st.st_mode) ? 0 : ESPIPE;
    if (code) {
        close(fd);
        return code;
    }
    *bytes = (uint64_t)st.st_size;
    return give_handle(fd, file);
}

static int posix_open_write(void *context, const char *path, void **file) {
    /* O_APPEND: where another process empties the file meanwhile, no hole is left before what follows */
    return give_handle(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666), file);
}

/* A file that is shorter stays as it is. */
static int posix_open_append(void *context, const char *path, uint64_t bytes, void **file) {
    struct stat st;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return errno;
    int code = fstat(fd, &st) ? errno : 0;
    if (!code && S_ISREG(st.st_mode) && (uint64_t)st.st_size > bytes && ftruncate(fd, (off_t)bytes))
        code = errno;
    if (!code) return give_handle(fd, file);
    close(fd);
    return code;
}

static int posix_read(void *context, void *file, uint64_t offset, void *into, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(descriptor(file), (char *)into + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        /* 0 bytes: the file has become shorter since it was opened. */
        if (n <= 0) return n < 0 ? errno : ENODATA;
        done += (size_t)n;
    }
    return 0;
}

static int posix_write(void *context, void *file, const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(descriptor(file), (const char *)from + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        /* 0 bytes written without an error: treated as a full disk, so that the loop ends. */
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

/* Pipes, terminals and some file systems cannot be flushed and return EINVAL or EROFS: no failure. */
static int posix_sync(void *context, void *file) {
    return fsync(descriptor(file)) && errno != EINVAL && errno != EROFS ? errno : 0;
}

static int posix_close(void *context, void *file) {
    return close(descriptor(file)) ? errno : 0;
}

/* Flushes the folder, since the new name must reach the disk too. EINVAL (some file systems cannot flush
 * folders) and EACCES (a folder may be writable but not readable) are not failures: the rename has
 * succeeded. */
static int sync_folder_of(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    /* "/" for a file in the root folder, "." for a bare name. */
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    if (n >= sizeof folder) return ENAMETOOLONG;
    memcpy(folder, slash ? path : ".", n);
    folder[n] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno;
    int code = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    return code;
}

/* The new name replaces the old file atomically. */
static int posix_rename(void *context, const char *from, const char *to) {
    if (rename(from, to)) return errno;
    return sync_folder_of(to);
}

static int posix_remove(void *context, const char *path) {
    return remove(path) ? errno : 0;
}

static int posix_make_folder(void *context, const char *path) {
    if (mkdir(path, 0777)) return errno;
    return sync_folder_of(path);
}

static int posix_list(void *context, const char *path, void (*each)(void *to, const char *name), void *to) {
    struct dirent *e;
    DIR *d = opendir(path);
    if (!d) return errno;
    for (errno = 0; (e = readdir(d)); errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) each(to, e->d_name);
    int code = errno;
    closedir(d);
    return code;
}

static int posix_free_bytes(void *context, const char *path, uint64_t *bytes) {
    struct statvfs s;
    if (statvfs(path, &s)) return errno;
    *bytes = (uint64_t)s.f_bavail * s.f_frsize;
    return 0;
}

const weft_io posix_io = {
    .open_read = posix_open_read,
    .open_write = posix_open_write,
    .open_append = posix_open_append,
    .read = posix_read,
    .write = posix_write,
    .sync = posix_sync,
    .close = posix_close,
    .rename = posix_rename,
    .remove = posix_remove,
    .make_folder = posix_make_folder,
    .list = posix_list,
    .free_bytes = posix_free_bytes,
};

/* Where flock fails for another reason (some network file systems) there is no lock, and no error. */
int posix_lock_folder(const char *path, int *lock) {
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return 0;
    close(*lock);
    *lock = -1;
    return EWOULDBLOCK;
}

/* ---- where a path leads ---- */

/* The descriptor N of /dev/fd/N and /proc/self/fd/N (/dev/stdout is a link to them), whose links lead to no
 * path. -1: another path. */
static int descriptor_named(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t n = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], n) || path[n] < '0' || path[n] > '9') continue;
        long fd = strtol(path + n, &end, 10);
        return *end || fd > 1 << 20 ? -1 : (int)fd;
    }
    return -1;
}

/* Replaces the path by what it links to: 0 when it was a link, EINVAL (a file) or ENOENT at the end of the
 * chain. A relative link starts in its own folder. */
static int follow(file_place *p) {
    char link[sizeof p->path];
    ssize_t n = readlink(p->path, link, sizeof link - 1);
    if (n < 0) return errno;
    link[n] = 0;
    char *slash = strrchr(p->path, '/');
    size_t kept = *link == '/' || !slash ? 0 : (size_t)(slash + 1 - p->path);
    if (kept + (size_t)n >= sizeof p->path) return ENAMETOOLONG;
    memcpy(p->path + kept, link, (size_t)n + 1);
    return 0;
}

/* Follows links one by one, because realpath fails where the last name does not exist yet. */
int posix_place(const char *path, file_place *p) {
    enum { MOST_LINKS = 40 };
    struct stat st;
    int code = 0;
    *p = (file_place){.descriptor = -1};
    if (strlen(path) >= sizeof p->path) return ENAMETOOLONG;
    memcpy(p->path, path, strlen(path) + 1);
    for (int i = 0; !code && (p->descriptor = descriptor_named(p->path)) < 0; i++)
        code = i == MOST_LINKS ? ELOOP : follow(p);
    if (p->descriptor >= 0) {
        p->is_stream = true;
        return fcntl(p->descriptor, F_GETFD) < 0 ? errno : 0;
    }
    /* A new file, perhaps at the end of a dangling link. */
    if (code == ENOENT) return 0;
    if (code != EINVAL) return code;
    if (stat(p->path, &st)) return errno;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    p->is_stream = !S_ISREG(st.st_mode);
    p->is_pipe = S_ISFIFO(st.st_mode);
    p->mode = st.st_mode & 0777;
    return faccessat(AT_FDCWD, p->path, W_OK, AT_EACCESS) ? errno : 0;
}

/* A duplicate, so that closing it leaves the user's descriptor open; 3: above the standard ones. */
int posix_open_stream(const file_place *p, void **file) {
    int fd = p->descriptor >= 0 ? fcntl(p->descriptor, F_DUPFD_CLOEXEC, 3)
                                : open(p->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return give_handle(fd, file);
}

int posix_try_stream(const file_place *p) {
    void *file = NULL;
    if (p->is_pipe) return 0; /* a reader would take the close for the end of the data */
    int code = posix_open_stream(p, &file);
    if (code) return code;
    code = write(descriptor(file), "", 0) < 0 ? errno : 0; /* /dev/full rejects even a write of 0 bytes */
    posix_close(NULL, file);
    return code;
}

/* ---- parts: a living writer holds a lock on its own ---- */

/* The text after ".DIGITS", a number as %ld prints it; NULL: there is none. */
static const char *behind_number(const char *name) {
    size_t digits = *name == '.' && name[1] != '0' ? strspn(name + 1, "0123456789") : 0;
    return digits ? name + 1 + digits : NULL;
}

/* Whether a name is "BASE.PID.weft-part" or "BASE.PID.NUMBER.weft-part". Other names that end in ".part" may
 * be a user's files. */
static bool is_part_of(const char *name, const char *base, size_t n) {
    const char *pid = strncmp(name, base, n) ? NULL : behind_number(name + n);
    const char *number = pid ? behind_number(pid) : NULL;
    return pid && strcmp(number ? number : pid, PART_END) == 0;
}

/* Removes a part that no process has locked. Its writer may have renamed it in the meantime, so the name must
 * still belong to the locked file. Only files of this user. */
static void remove_if_left(int folder, const char *name) {
    struct stat locked, named;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    bool is_left = fstat(fd, &locked) == 0 && S_ISREG(locked.st_mode) && locked.st_uid == geteuid() &&
                   flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                   fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == locked.st_ino &&
                   named.st_dev == locked.st_dev;
    if (is_left) unlinkat(folder, name, 0);
    close(fd);
}

/* Removes the parts of dead writers of the same file. */
static void remove_left_parts(const file_place *p) {
    const char *slash = strrchr(p->path, '/'), *base = slash ? slash + 1 : p->path;
    char folder[sizeof p->path] = ".";
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - p->path) + 1, p->path);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_part_of(e->d_name, base, strlen(base))) remove_if_left(dirfd(d), e->d_name);
    if (d) closedir(d);
}

/* Tries names until one is free: a taken name is another thread's, or was left by an earlier process with
 * this number. Where flock fails (some network file systems) no other process gets a lock either, so parts
 * are never removed by others. */
int posix_open_part(const file_place *p, char *part, size_t room, void **file, int *lock) {
    enum { MOST_PARTS = 1000 };
    struct stat st;
    int fd = -1;
    remove_left_parts(p);
    snprintf(part, room, "%s.%ld" PART_END, p->path, (long)getpid());
    for (int i = 1; i < MOST_PARTS; i++) {
        fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) return errno;
        /* another writer may have removed it before it was locked; then it has no name */
        if (fd >= 0 && (flock(fd, LOCK_EX) || fstat(fd, &st) || st.st_nlink)) break;
        if (fd >= 0) close(fd);
        fd = -1;
        snprintf(part, room, "%s.%ld.%d" PART_END, p->path, (long)getpid(), i);
    }
    if (fd < 0) return EBUSY;
    if (p->mode) (void)!fchmod(fd, p->mode);
    /* A duplicate shares the lock, which lasts until both are closed: after the rename. */
    *lock = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return give_handle(fd, file);
}
