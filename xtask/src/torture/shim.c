/* A fault shim, loaded with LD_PRELOAD by `cargo xtask torture`.
 *
 * Every call that changes the file system under the folder TORTURE_ROOT is counted; before the call numbered TORTURE_AT
 * the fault TORTURE_FAULT happens:
 *
 *   kill       SIGKILL before the call
 *   torn       a write stores the first half of its bytes, then SIGKILL; any other call as with `kill`
 *   drop       as `kill`, and data written since the last fsync of a file is lost, as in a power failure
 *   power      as `drop`, and folder entries that were not synced with their folder are reverted
 *   eio        the call fails with EIO, once
 *   eio-on     the same for this call and all that follow
 *   enospc     the call fails with ENOSPC, once
 *   enospc-on  the same for this call and all that follow
 *
 * TORTURE_COUNT names a file of 8 bytes with the number of calls so far, TORTURE_LOG (if set) a file that gets a
 * line for each of them, TORTURE_SHADOW a folder on the same file system for what `power` may have to restore.
 * Calls that bypass libc are not seen; the program makes none that matter.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 4096
#define FILES 8192
#define NAME 1024

enum fault { NONE, KILL, TORN, DROP, POWER, EIO_ONCE, EIO_ON, ENOSPC_ONCE, ENOSPC_ON };

/* A file under the root, by its current name: how much of it was synced. */
struct file { char path[NAME]; off_t safe; int dirty; };
/* A folder entry that changed since the last fsync of its folder. */
struct entry { char kind; char from[NAME]; char to[NAME]; char shadow[NAME]; };

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[NAME], cwd[NAME], shadow[NAME];
static size_t root_length;
static enum fault fault;
static uint64_t at;
static uint64_t *count;
static int log_fd = -1;
static int active;
static char *fd_path[FDS];
static struct file *files;
static size_t file_count;
static struct entry *entries;
static size_t entry_count, shadows;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("TORTURE_ROOT"), *counter = getenv("TORTURE_COUNT");
    if (!folder || !counter || !realpath(folder, root) || !getcwd(cwd, sizeof cwd)) return;
    root_length = strlen(root);
    const char *names[] = {"none", "kill", "torn", "drop", "power", "eio", "eio-on", "enospc", "enospc-on"};
    const char *wanted = getenv("TORTURE_FAULT");
    for (int each = 0; wanted && each < 9; each++)
        if (!strcmp(wanted, names[each])) fault = (enum fault)each;
    if (getenv("TORTURE_AT")) at = strtoull(getenv("TORTURE_AT"), NULL, 10);
    if (getenv("TORTURE_SHADOW")) snprintf(shadow, sizeof shadow, "%s", getenv("TORTURE_SHADOW"));
    int fd = REAL(open)(counter, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || REAL(ftruncate)(fd, 8)) return;
    count = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (count == MAP_FAILED) return;
    if (getenv("TORTURE_LOG")) log_fd = REAL(open)(getenv("TORTURE_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    files = mmap(NULL, FILES * sizeof *files, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    entries = mmap(NULL, FILES * sizeof *entries, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    active = files != MAP_FAILED && entries != MAP_FAILED;
}

/* ── names ── */

/* The absolute path; 0 if it is not under the root. */
static int locate(int folder, const char *path, char *into) {
    if (!active || !path) return 0;
    char base[NAME] = "";
    if (path[0] != '/') {
        if (folder == AT_FDCWD) snprintf(base, sizeof base, "%s/", cwd);
        else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = readlink(link, base, sizeof base - 2);
            if (length < 0) return 0;
            base[length] = '/';
            base[length + 1] = 0;
        }
    }
    if (snprintf(into, NAME, "%s%s", base, path) >= NAME) return 0;
    /* Removes "./" in the middle and "/" at the end; does not follow links. */
    char *write = into;
    for (char *read = into; *read;) {
        if (read[0] == '/' && read[1] == '.' && (read[2] == '/' || !read[2])) { read += 2; continue; }
        if (read[0] == '/' && read[1] == '/') { read++; continue; }
        *write++ = *read++;
    }
    while (write > into + 1 && write[-1] == '/') write--;
    *write = 0;
    return !strncmp(into, root, root_length) && (into[root_length] == '/' || !into[root_length]);
}

static void parent(const char *path, char *into) {
    snprintf(into, NAME, "%s", path);
    char *slash = strrchr(into, '/');
    if (slash) *slash = 0;
}

static struct file *file_at(const char *path) {
    for (size_t each = 0; each < file_count; each++)
        if (!strcmp(files[each].path, path)) return &files[each];
    return NULL;
}

static struct file *known(const char *path, off_t safe) {
    struct file *file = file_at(path);
    if (!file && file_count < FILES) {
        file = &files[file_count++];
        snprintf(file->path, NAME, "%s", path);
        file->safe = safe;
    }
    return file;
}

/* ── the fault ── */

static void end(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Power failure: unsynced data is lost, and with `power` so are unsynced folder entries. */
static void end_without_unsynced(void) {
    for (size_t each = 0; each < file_count; each++)
        if (files[each].dirty) {
            struct stat now;
            if (!stat(files[each].path, &now) && now.st_size > files[each].safe)
                (void)!REAL(truncate)(files[each].path, files[each].safe);
        }
    for (size_t back = entry_count; fault == POWER && back-- > 0;) {
        struct entry *entry = &entries[back];
        if (entry->kind == 'c') REAL(unlink)(entry->to);
        if (entry->kind == 'r') REAL(rename)(entry->to, entry->from);
        if (entry->shadow[0]) (void)!REAL(link)(entry->shadow, entry->to);
    }
    end();
}

static void tell(uint64_t number, const char *call, const char *path) {
    if (log_fd < 0) return;
    char line[NAME + 64];
    int length = snprintf(line, sizeof line, "%llu %s %s\n", (unsigned long long)number, call, path + root_length);
    if (length > 0) (void)!REAL(write)(log_fd, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* Counts a call. 0: continue; -1: a write to be torn; otherwise the error to fail with. */
static int strike(const char *call, const char *path, int is_write) {
    uint64_t number = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    tell(number, call, path);
    int now = number == at, from_now = at && number >= at;
    switch (fault) {
    case NONE: return 0;
    case KILL: if (now) end(); return 0;
    case TORN: if (now && !is_write) end(); return now ? -1 : 0;
    case DROP:
    case POWER: if (now) end_without_unsynced(); return 0;
    case EIO_ONCE: return now ? EIO : 0;
    case EIO_ON: return from_now ? EIO : 0;
    case ENOSPC_ONCE: return now ? ENOSPC : 0;
    case ENOSPC_ON: return from_now ? ENOSPC : 0;
    }
    return 0;
}

#define FAIL_IF(code) do { int error_ = (code); if (error_ > 0) { pthread_mutex_unlock(&lock); errno = error_; return -1; } } while (0)

/* Saves what is at a path before its entry changes, so that `power` can restore it. */
static void remember(char kind, const char *from, const char *to) {
    if (fault != POWER || entry_count == FILES) return;
    struct entry *entry = &entries[entry_count++];
    entry->kind = kind;
    entry->shadow[0] = 0;
    snprintf(entry->from, NAME, "%s", from);
    snprintf(entry->to, NAME, "%s", to);
    if (kind == 'c' || !shadow[0]) return;
    char name[NAME + 32];
    snprintf(name, sizeof name, "%s/%zu", shadow, shadows++);
    if (!REAL(link)(to, name)) snprintf(entry->shadow, NAME, "%s", name);
}

static void forget_entries_of(const char *folder) {
    size_t kept = 0;
    for (size_t each = 0; each < entry_count; each++) {
        char of[NAME];
        parent(entries[each].to, of);
        if (strcmp(of, folder)) entries[kept++] = entries[each];
    }
    entry_count = kept;
}

/* ── opening and closing ── */

static int opened(int folder, const char *path, int flags, mode_t mode, int (*open_at)(int, const char *, int, ...)) {
    char full[NAME];
    if (!locate(folder, path, full)) return open_at(folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before;
    int was_there = !stat(full, &before);
    int changes = ((flags & O_CREAT) && !was_there) || ((flags & O_TRUNC) && was_there && before.st_size > 0);
    if (changes) FAIL_IF(strike(flags & O_TRUNC && was_there ? "truncate-open" : "create", full, 0));
    int fd = open_at(folder, path, flags, mode);
    if (fd >= 0 && fd < FDS) {
        int kept_errno = errno;
        free(fd_path[fd]);
        fd_path[fd] = strdup(full);
        if ((flags & O_ACCMODE) != O_RDONLY) {
            struct file *file = known(full, was_there ? before.st_size : 0);
            if (file && changes) { file->dirty = 1; file->safe = 0; }
        }
        if (changes && !was_there) remember('c', full, full);
        errno = kept_errno;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode, REAL(openat)); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode, REAL(openat)); }
int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode, REAL(openat)); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode, REAL(openat)); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, REAL(openat)); }

int close(int fd) {
    if (active && fd >= 0 && fd < FDS && fd_path[fd]) {
        pthread_mutex_lock(&lock);
        free(fd_path[fd]);
        fd_path[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return REAL(close)(fd);
}

/* A duplicated descriptor writes to the same file. */
static int twin(int old, int new) {
    if (active && new >= 0 && new < FDS && old >= 0 && old < FDS && new != old) {
        int kept_errno = errno;
        pthread_mutex_lock(&lock);
        free(fd_path[new]);
        fd_path[new] = fd_path[old] ? strdup(fd_path[old]) : NULL;
        pthread_mutex_unlock(&lock);
        errno = kept_errno;
    }
    return new;
}
int dup(int fd) { return twin(fd, REAL(dup)(fd)); }
int dup2(int fd, int to) { return twin(fd, REAL(dup2)(fd, to)); }
int dup3(int fd, int to, int flags) { return twin(fd, REAL(dup3)(fd, to, flags)); }

static int controlled(int fd, int command, void *argument) {
    int done = REAL(fcntl)(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? twin(fd, done) : done;
}
#define ARGUMENT(command) va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest);
int fcntl(int fd, int command, ...) { ARGUMENT(command) return controlled(fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT(command) return controlled(fd, command, argument); }

/* ── writing ── */

static const char *path_of(int fd) { return active && fd >= 0 && fd < FDS ? fd_path[fd] : NULL; }

static void soil(const char *path) {
    struct stat now;
    struct file *file = known(path, stat(path, &now) ? 0 : now.st_size);
    if (file) file->dirty = 1;
}

#define WRITE(fd, bytes, whole, half)                            \
    const char *path = path_of(fd);                              \
    if (!path || !(bytes)) return whole;                         \
    pthread_mutex_lock(&lock);                                   \
    int verdict = strike("write", path, 1);                      \
    FAIL_IF(verdict);                                            \
    soil(path);                                                  \
    if (verdict < 0) { (void)!(half); end(); }                   \
    ssize_t done = whole;                                        \
    pthread_mutex_unlock(&lock);                                 \
    return done;

ssize_t write(int fd, const void *from, size_t bytes) {
    WRITE(fd, bytes, REAL(write)(fd, from, bytes), REAL(write)(fd, from, bytes / 2))
}
ssize_t pwrite(int fd, const void *from, size_t bytes, off_t to) {
    WRITE(fd, bytes, REAL(pwrite)(fd, from, bytes, to), REAL(pwrite)(fd, from, bytes / 2, to))
}
ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t to) { return pwrite(fd, from, bytes, to); }
ssize_t writev(int fd, const struct iovec *parts, int number) {
    WRITE(fd, number, REAL(writev)(fd, parts, number), REAL(write)(fd, parts[0].iov_base, parts[0].iov_len / 2))
}
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t bytes, unsigned flags) {
    WRITE(out, bytes, REAL(copy_file_range)(in, in_at, out, out_at, bytes, flags), 0)
}
ssize_t sendfile(int out, int in, off_t *in_at, size_t bytes) {
    ssize_t (*send)(int, int, off_t *, size_t) = real("sendfile");
    WRITE(out, bytes, send(out, in, in_at, bytes), 0)
}
ssize_t sendfile64(int out, int in, off64_t *in_at, size_t bytes) { return sendfile(out, in, in_at, bytes); }

static int synced(int fd, int (*sync)(int)) {
    const char *path = path_of(fd);
    if (!path) return sync(fd);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike("fsync", path, 0));
    int done = sync(fd);
    struct stat now;
    if (!done && !fstat(fd, &now)) {
        if (S_ISDIR(now.st_mode)) forget_entries_of(path);
        struct file *file = file_at(path);
        if (file) { file->safe = now.st_size; file->dirty = 0; }
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

int ftruncate(int fd, off_t length) {
    const char *path = path_of(fd);
    if (!path) return REAL(ftruncate)(fd, length);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike("ftruncate", path, 0));
    int done = REAL(ftruncate)(fd, length);
    struct file *file = known(path, 0);
    if (!done && file && file->safe > length) file->safe = length;
    if (file) file->dirty = 1;
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }
int posix_fallocate(int fd, off_t from, off_t length) {
    const char *path = path_of(fd);
    if (path) {
        pthread_mutex_lock(&lock);
        int verdict = strike("fallocate", path, 0);
        pthread_mutex_unlock(&lock);
        if (verdict > 0) return verdict;
    }
    return REAL(posix_fallocate)(fd, from, length);
}
int posix_fallocate64(int fd, off64_t from, off64_t length) { return posix_fallocate(fd, from, length); }

/* ── folder entries ── */

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char old_name[NAME], new_name[NAME];
    int (*rename_at)(int, const char *, int, const char *, unsigned) = real("renameat2");
    int inside = locate(from_folder, from, old_name) & locate(to_folder, to, new_name);
    if (inside && (flags & RENAME_EXCHANGE)) {
        /* Counted, but not reverted by `power`. */
        pthread_mutex_lock(&lock);
        FAIL_IF(strike("exchange", new_name, 0));
        pthread_mutex_unlock(&lock);
    }
    if (!inside || (flags & RENAME_EXCHANGE)) return rename_at(from_folder, from, to_folder, to, flags);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike("rename", new_name, 0));
    remember('r', old_name, new_name);
    int done = rename_at(from_folder, from, to_folder, to, flags);
    if (!done) {
        struct file *over = file_at(new_name);
        if (over) { over->path[0] = 0; over->dirty = 0; }
        size_t length = strlen(old_name);
        for (size_t each = 0; each < file_count; each++) {
            char *path = files[each].path;
            if (strncmp(path, old_name, length) || (path[length] && path[length] != '/')) continue;
            char moved[2 * NAME];
            snprintf(moved, sizeof moved, "%s%s", new_name, path + length);
            snprintf(path, NAME, "%.*s", NAME - 1, moved);
        }
        for (int fd = 0; fd < FDS; fd++)
            if (fd_path[fd] && !strcmp(fd_path[fd], old_name)) { free(fd_path[fd]); fd_path[fd] = strdup(new_name); }
    } else if (entry_count && fault == POWER) entry_count--;
    pthread_mutex_unlock(&lock);
    return done;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return renamed(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return renamed(a, from, b, to, flags); }

static int removed(int folder, const char *path, int flags) {
    char full[NAME];
    if (!locate(folder, path, full)) return REAL(unlinkat)(folder, path, flags);
    struct stat before;
    if (lstat(full, &before)) return REAL(unlinkat)(folder, path, flags);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike(flags & AT_REMOVEDIR ? "rmdir" : "unlink", full, 0));
    if (!(flags & AT_REMOVEDIR)) remember('u', full, full);
    int done = REAL(unlinkat)(folder, path, flags);
    struct file *file = file_at(full);
    if (!done && file) { file->path[0] = 0; file->dirty = 0; }
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat now;
    return removed(AT_FDCWD, path, !lstat(path, &now) && S_ISDIR(now.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    char full[NAME];
    struct stat before;
    if (!locate(folder, path, full) || !stat(full, &before)) return REAL(mkdirat)(folder, path, mode);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike("mkdir", full, 0));
    int done = REAL(mkdirat)(folder, path, mode);
    pthread_mutex_unlock(&lock);
    return done;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int a, const char *from, int b, const char *to, int flags) {
    char full[NAME];
    if (!locate(b, to, full)) return REAL(linkat)(a, from, b, to, flags);
    pthread_mutex_lock(&lock);
    FAIL_IF(strike("link", full, 0));
    int done = REAL(linkat)(a, from, b, to, flags);
    if (!done) remember('c', full, full);
    pthread_mutex_unlock(&lock);
    return done;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
