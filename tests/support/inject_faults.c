/* Make system calls on files below a folder fail now and then, as a busy or failing machine does.
 *
 * Loaded by LD_PRELOAD. Environment:
 *   FAULT_ROOT    the folder; other files are left alone
 *   FAULT_SWITCH  a file; calls fail only while it exists
 *   FAULT_ONE_IN  one call in that many fails
 *   FAULT_SEED    the seed of the choices
 *   FAULT_LOG     a file that gets a line for every fault: process, call, error, path
 *   FAULT_SPARE   parts of paths, separated by colons; calls on such files are left alone
 *   FAULT_PROGRAMS if it is set, calls fail only in programs of trials (WINDLASS_ROLE is set)
 * Otherwise, programs of trials are left alone, because their errors may be their own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static __thread int busy;
static unsigned long long state;
static pid_t owner;

static unsigned long long draw(void) {
    if (owner != getpid()) {
        const char *seed = getenv("FAULT_SEED");
        owner = getpid();
        state = (seed ? strtoull(seed, NULL, 10) : 1) * 6364136223846793005ULL + owner;
    }
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 33;
}

static int is_spared(const char *path) {
    const char *parts = getenv("FAULT_SPARE");
    for (; parts && *parts; parts += strspn(parts, ":")) {
        char part[PATH_MAX];
        size_t size = strcspn(parts, ":");
        snprintf(part, sizeof part, "%.*s", (int)size, parts);
        if (strstr(path, part)) return 1;
        parts += size;
    }
    return 0;
}

static int fails(const char *call, const char *path, const int *errors, int count) {
    const char *root = getenv("FAULT_ROOT"), *on = getenv("FAULT_SWITCH");
    const char *one_in = getenv("FAULT_ONE_IN"), *log = getenv("FAULT_LOG");
    if (busy || !path || !root || !on || !one_in || strncmp(path, root, strlen(root)) != 0) return 0;
    if (!getenv("WINDLASS_ROLE") != !getenv("FAULT_PROGRAMS") || is_spared(path)) return 0;
    int saved = errno, result = 0;
    busy = 1;
    if (access(on, F_OK) == 0 && draw() % strtoull(one_in, NULL, 10) == 0) {
        result = errors[draw() % count];
        int fd = log ? openat(AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
        if (fd >= 0) {
            char line[PATH_MAX + 100];
            int size = snprintf(line, sizeof line, "%d %s %s %s\n", getpid(), call, strerrorname_np(result), path);
            if (write(fd, line, size) != size) abort();
            close(fd);
        }
    }
    busy = 0;
    errno = result ? result : saved;
    return result;
}

static const char *path_of(int fd, char *path) {
    char link[40];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    errno = saved;
    if (size <= 0 || path[0] != '/') return NULL;
    path[size] = 0;
    return path;
}

static const int OPENING[] = {EMFILE, ENFILE, EIO, ENOMEM, EACCES}, MOVING[] = {EIO, ENOMEM};
static const int NAMING[] = {EIO, ENOMEM, EACCES};
#define FAILS(call, path, errors) (!busy && fails(call, path, errors, sizeof errors / sizeof *errors))
#define REAL(result, name, ...) static result (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        return FAILS("open", path, OPENING) ? -1 : real(path, flags, mode); }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        return FAILS("open", path, OPENING) ? -1 : real(folder, path, flags, mode); }
#define MOVE(name, label, buffer) \
    ssize_t name(int fd, buffer data, size_t size) { \
        REAL(ssize_t, name, int, buffer, size_t); \
        char path[PATH_MAX]; \
        return !busy && FAILS(label, path_of(fd, path), MOVING) ? -1 : real(fd, data, size); }
#define MOVE_AT(name, label, buffer) \
    ssize_t name(int fd, buffer data, size_t size, off_t at) { \
        REAL(ssize_t, name, int, buffer, size_t, off_t); \
        char path[PATH_MAX]; \
        return !busy && FAILS(label, path_of(fd, path), MOVING) ? -1 : real(fd, data, size, at); }
#define SYNC(name) \
    int name(int fd) { \
        REAL(int, name, int); \
        char path[PATH_MAX]; \
        return !busy && FAILS("sync", path_of(fd, path), MOVING) ? -1 : real(fd); }
#define STAT(name, kind) \
    int name(const char *path, struct kind *status) { \
        REAL(int, name, const char *, struct kind *); \
        return FAILS("stat", path, NAMING) ? -1 : real(path, status); }
#define STATAT(name, kind) \
    int name(int folder, const char *path, struct kind *status, int flags) { \
        REAL(int, name, int, const char *, struct kind *, int); \
        return FAILS("stat", path, NAMING) ? -1 : real(folder, path, status, flags); }
#define TWO(name, label) \
    int name(const char *from, const char *to) { \
        REAL(int, name, const char *, const char *); \
        return FAILS(label, to, NAMING) ? -1 : real(from, to); }

OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
MOVE(read, "read", void *) MOVE(write, "write", const void *)
MOVE_AT(pread, "read", void *) MOVE_AT(pread64, "read", void *)
MOVE_AT(pwrite, "write", const void *) MOVE_AT(pwrite64, "write", const void *)
SYNC(fsync) SYNC(fdatasync)
STAT(stat, stat) STAT(stat64, stat64) STAT(lstat, stat) STAT(lstat64, stat64)
STATAT(fstatat, stat) STATAT(fstatat64, stat64)
TWO(rename, "rename") TWO(link, "link")

void *opendir(const char *path) {
    REAL(void *, opendir, const char *);
    return FAILS("opendir", path, OPENING) ? NULL : real(path);
}
