/*
 * full_disk.c - for LD_PRELOAD: folder FULL_DISK (an absolute path) is a disk of FULL_BYTES bytes. A write
 * into it is cut, and fails with ENOSPC, where its files together would have more; statvfs tells what is
 * left. The files are measured at each call, so what a program removes, or another one adds, counts.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Bytes of all files below a folder. */
static long long used(const char *folder) {
    char path[PATH_MAX];
    struct stat is;
    long long bytes = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
        if (lstat(path, &is)) continue;
        bytes += S_ISDIR(is.st_mode) ? used(path) : is.st_size;
    }
    if (d) closedir(d);
    return bytes;
}

/* Bytes that are left; -1: the path is on another disk. */
static long long left_for(const char *path) {
    const char *disk = getenv("FULL_DISK"), *bytes = getenv("FULL_BYTES");
    size_t n = disk ? strlen(disk) : 0;
    if (!n || !bytes || strncmp(path, disk, n) != 0 || (path[n] && path[n] != '/')) return -1;
    long long left = atoll(bytes) - used(disk);
    return left > 0 ? left : 0;
}

ssize_t write(int fd, const void *from, size_t bytes) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    long long left = left_for(path);
    if (left == 0 && bytes) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(write)(fd, from, left > 0 && (size_t)left < bytes ? (size_t)left : bytes);
}

int statvfs(const char *path, struct statvfs *s) {
    char whole[PATH_MAX];
    int code = NEXT(statvfs)(path, s);
    long long left = !code && realpath(path, whole) ? left_for(whole) : -1;
    if (left >= 0) s->f_frsize = 1, s->f_bavail = (fsblkcnt_t)left;
    return code;
}
