// What C programs ask of files, by POSIX as far as WASI has it, checked from inside of a program: directories and their
// cookies, names, links, bytes, times, and the errno of what is refused.
//
// `cases` says how many checks failed, each with its line. What it made is gone when it returns.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <wasi/libc.h>

static int checked, failed;

static void check(int holds, int line, const char *what) {
    checked++;
    if (!holds) {
        failed++;
        printf("line %d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
    }
}

#define IS(what) check((what), __LINE__, #what)
#define OK(call) IS((call) == 0)
#define FAILS(error, call) (errno = 0, check((call) == -1 && errno == (error), __LINE__, #call " -> " #error))

static int make(const char *path, const char *text) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    IS(fd >= 3);
    IS(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

static int holds(const char *path, const char *text) {
    char found[64] = {0};
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, found, sizeof found);
    close(fd);
    return len == (ssize_t)strlen(text) && memcmp(found, text, len) == 0;
}

static struct stat look(const char *path) {
    struct stat known;
    memset(&known, 0, sizeof known);
    IS(lstat(path, &known) == 0);
    return known;
}

#define NAMES 300

// A directory of many names is read whole, from any place that was told, and while names go.
static void directories(void) {
    char name[32], seen[NAMES + 1] = {0};
    OK(mkdir("many", 0755));
    FAILS(EEXIST, mkdir("many", 0755));
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "many/name-%03d", i);
        close(make(name, ""));
    }
    DIR *dir = opendir("many");
    IS(dir != NULL);
    int count = 0, dots = 0;
    long half = -1;
    struct dirent *entry;
    char after_half[32] = "";
    while ((entry = readdir(dir)) != NULL) {
        if (half >= 0 && !*after_half) strcpy(after_half, entry->d_name);
        int number;
        if (sscanf(entry->d_name, "name-%d", &number) == 1) {
            IS(entry->d_type == DT_REG && !seen[number]++);
            if (++count == NAMES / 2) half = telldir(dir);
        } else {
            IS(entry->d_type == DT_DIR);
            dots += strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        }
    }
    IS(count == NAMES && dots == 2);
    seekdir(dir, half);
    entry = readdir(dir);
    IS(entry != NULL && strcmp(entry->d_name, after_half) == 0);
    rewinddir(dir);
    // Each goes when it was seen: none is passed over.
    for (count = 0; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        OK(unlinkat(dirfd(dir), entry->d_name, 0));
        count++;
    }
    IS(count == NAMES);
    OK(closedir(dir));
    OK(rmdir("many"));
    FAILS(ENOENT, rmdir("many"));
    IS(opendir("many") == NULL && errno == ENOENT);
    close(make("file", ""));
    IS(opendir("file") == NULL && errno == ENOTDIR);
    OK(unlink("file"));
}

static int is_wanted(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void sorted(void) {
    struct dirent **found;
    OK(mkdir("some", 0755));
    close(make("some/b", ""));
    close(make("some/a", ""));
    OK(symlink("a", "some/c"));
    OK(mkdir("some/d", 0755));
    int count = scandir("some", &found, is_wanted, alphasort);
    IS(count == 4);
    const unsigned char types[] = {DT_REG, DT_REG, DT_LNK, DT_DIR};
    for (int i = 0; i < count; i++) {
        IS(found[i]->d_name[0] == 'a' + i && found[i]->d_type == types[i]);
        free(found[i]);
    }
    free(found);
    FAILS(ENOTEMPTY, rmdir("some"));
    OK(unlink("some/a") || unlink("some/b") || unlink("some/c") || rmdir("some/d"));
    OK(rmdir("some"));
}

static void renames(void) {
    close(make("old", "old"));
    close(make("new", "new"));
    OK(rename("old", "new"));
    IS(holds("new", "old"));
    FAILS(ENOENT, rename("old", "new"));
    OK(rename("new", "new"));
    OK(mkdir("from", 0755));
    OK(mkdir("to", 0755));
    FAILS(EISDIR, rename("new", "to"));
    FAILS(ENOTDIR, rename("to", "new"));
    FAILS(EINVAL, rename("from", "from/below"));
    close(make("to/full", ""));
    FAILS(ENOTEMPTY, rename("from", "to"));
    OK(unlink("to/full"));
    OK(rename("from", "to"));
    FAILS(ENOENT, rmdir("from"));
    OK(rename("new", "to/moved"));
    IS(holds("to/moved", "old"));
    OK(unlink("to/moved"));
    OK(rmdir("to"));
}

static void links(void) {
    close(make("one", "linked"));
    OK(link("one", "two"));
    struct stat one = look("one"), two = look("two");
    IS(one.st_nlink == 2 && one.st_ino == two.st_ino && one.st_dev == two.st_dev);
    FAILS(EEXIST, link("one", "two"));
    FAILS(ENOENT, link("none", "three"));
    OK(mkdir("dir", 0755));
    FAILS(EPERM, link("dir", "three"));
    OK(unlink("one"));
    IS(holds("two", "linked") && look("two").st_nlink == 1);
    OK(unlink("two"));
    OK(rmdir("dir"));
}

static void symbolic_links(void) {
    char target[16];
    close(make("file", "behind"));
    OK(symlink("file", "soft"));
    IS(readlink("soft", target, sizeof target) == 4 && memcmp(target, "file", 4) == 0);
    IS(readlink("soft", target, 2) == 2 && memcmp(target, "fi", 2) == 0);
    FAILS(EINVAL, readlink("file", target, sizeof target));
    FAILS(EEXIST, symlink("file", "soft"));
    IS(holds("soft", "behind"));
    struct stat known;
    IS(S_ISLNK(look("soft").st_mode) && look("soft").st_size == 4);
    IS(stat("soft", &known) == 0 && S_ISREG(known.st_mode));
    FAILS(ELOOP, open("soft", O_RDONLY | O_NOFOLLOW));
    OK(symlink("gone", "dangling"));
    FAILS(ENOENT, open("dangling", O_RDONLY));
    FAILS(ENOENT, stat("dangling", &known));
    IS(S_ISLNK(look("dangling").st_mode));
    OK(symlink("loop", "loop"));
    FAILS(ELOOP, stat("loop", &known));
    FAILS(EPERM, symlink("/absolute", "away"));
    // A link is what goes, not what it leads to.
    OK(unlink("soft") || unlink("dangling") || unlink("loop"));
    IS(holds("file", "behind"));
    OK(unlink("file"));
}

static void bytes(void) {
    char found[16];
    int fd = make("bytes", "0123456789");
    IS(pwrite(fd, "ab", 2, 4) == 2);
    IS(lseek(fd, 0, SEEK_CUR) == 10);
    IS(pread(fd, found, 4, 3) == 4 && memcmp(found, "3ab6", 4) == 0);
    IS(pread(fd, found, 4, 8) == 2 && pread(fd, found, 4, 100) == 0);
    IS(pwrite(fd, "z", 1, 14) == 1);
    memset(found, 1, sizeof found);
    IS(pread(fd, found, 16, 9) == 6 && memcmp(found, "9\0\0\0\0z", 6) == 0);
    struct iovec parts[2] = {{found, 3}, {found + 3, 4}};
    IS(lseek(fd, -15, SEEK_END) == 0);
    IS(readv(fd, parts, 2) == 7 && memcmp(found, "0123ab6", 7) == 0);
    IS(lseek(fd, 2, SEEK_SET) == 2 && writev(fd, parts, 2) == 7 && lseek(fd, 0, SEEK_CUR) == 9);
    IS(pread(fd, found, 9, 0) == 9 && memcmp(found, "010123ab6", 9) == 0);
    FAILS(EINVAL, lseek(fd, -1, SEEK_SET));
    FAILS(EINVAL, lseek(fd, 0, 7));
    FAILS(EINVAL, pread(fd, found, 1, -1));
    close(fd);
    fd = open("bytes", O_WRONLY | O_APPEND);
    IS(write(fd, "!", 1) == 1 && lseek(fd, 0, SEEK_CUR) == 16);
    IS(fcntl(fd, F_GETFL) & O_APPEND);
    OK(fcntl(fd, F_SETFL, 0));
    IS(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "#", 1) == 1);
    close(fd);
    fd = open("bytes", O_RDONLY);
    IS(read(fd, found, 16) == 16 && memcmp(found, "#10123ab69\0\0\0\0z!", 16) == 0);
    close(fd);
    OK(unlink("bytes"));
}

static void lengths(void) {
    struct stat known;
    char found[8];
    int fd = make("length", "0123456789");
    OK(ftruncate(fd, 4));
    IS(fstat(fd, &known) == 0 && known.st_size == 4);
    OK(ftruncate(fd, 8));
    IS(pread(fd, found, 8, 0) == 8 && memcmp(found, "0123\0\0\0\0", 8) == 0);
    FAILS(EINVAL, ftruncate(fd, -1));
    IS(posix_fallocate(fd, 4, 96) == 0 && fstat(fd, &known) == 0 && known.st_size == 100);
    IS(posix_fallocate(fd, 0, 10) == 0 && fstat(fd, &known) == 0 && known.st_size == 100);
    IS(posix_fallocate(fd, 0, 0) == EINVAL && posix_fallocate(fd, -1, 1) == EINVAL);
    IS(posix_fadvise(fd, 0, 100, POSIX_FADV_SEQUENTIAL) == 0);
    IS(posix_fadvise(fd, 0, 100, 77) == EINVAL);
    OK(fdatasync(fd));
    OK(fsync(fd));
    close(fd);
    OK(truncate("length", 2));
    IS(holds("length", "01"));
    fd = open("length", O_RDONLY);
    // What a descriptor may not, WASI has a word of its own for.
    FAILS(ENOTCAPABLE, ftruncate(fd, 0));
    IS(posix_fallocate(fd, 0, 10) == ENOTCAPABLE);
    close(fd);
    OK(unlink("length"));
}

// One descriptor takes the number of another, which is closed.
static void numbers(void) {
    char found[4];
    int one = make("one", "one"), two = make("two", "two");
    OK(__wasilibc_fd_renumber(one, two));
    FAILS(EBADF, read(one, found, 1));
    IS(pread(two, found, 3, 0) == 3 && memcmp(found, "one", 3) == 0);
    IS(lseek(two, 0, SEEK_CUR) == 3);
    FAILS(EBADF, __wasilibc_fd_renumber(one, two));
    FAILS(EBADF, __wasilibc_fd_renumber(two, 999));
    OK(close(two));
    FAILS(EBADF, close(two));
    // The lowest that is free.
    int three = open("two", O_RDONLY);
    IS(three == (one < two ? one : two) && holds("two", "two"));
    close(three);
    OK(unlink("one") || unlink("two"));
}

static int at(struct timespec time, long long secs, long nanos) {
    return time.tv_sec == secs && time.tv_nsec == nanos;
}

static void times(void) {
    struct stat known;
    struct timespec now, set[2] = {{1000, 7}, {2000000000, 999999999}};
    int fd = make("times", "x");
    OK(clock_gettime(CLOCK_REALTIME, &now));
    OK(fstat(fd, &known));
    IS(now.tv_sec - known.st_mtim.tv_sec <= 60 && known.st_mtim.tv_sec <= now.tv_sec);
    OK(futimens(fd, set));
    OK(fstat(fd, &known));
    IS(at(known.st_atim, 1000, 7) && at(known.st_mtim, 2000000000, 999999999));
    IS(known.st_ctim.tv_sec >= now.tv_sec);
    set[0].tv_nsec = UTIME_OMIT;
    set[1] = (struct timespec){3, 4};
    OK(utimensat(AT_FDCWD, "times", set, 0));
    OK(fstat(fd, &known));
    IS(at(known.st_atim, 1000, 7) && at(known.st_mtim, 3, 4));
    set[0].tv_nsec = UTIME_NOW;
    set[1].tv_nsec = UTIME_OMIT;
    OK(futimens(fd, set));
    OK(fstat(fd, &known));
    IS(known.st_atim.tv_sec >= now.tv_sec && at(known.st_mtim, 3, 4));
    IS(write(fd, "y", 1) == 1 && fstat(fd, &known) == 0 && known.st_mtim.tv_sec >= now.tv_sec);
    // Of a link itself, or of what it leads to.
    OK(symlink("times", "soft"));
    set[0] = set[1] = (struct timespec){5, 6};
    OK(utimensat(AT_FDCWD, "soft", set, AT_SYMLINK_NOFOLLOW));
    IS(at(look("soft").st_mtim, 5, 6) && !at(look("times").st_mtim, 5, 6));
    OK(utimensat(AT_FDCWD, "soft", set, 0));
    IS(at(look("times").st_mtim, 5, 6));
    close(fd);
    OK(unlink("times") || unlink("soft"));
}

static void errors(void) {
    char name[NAME_MAX + 2], byte;
    struct stat known;
    close(make("file", "text"));
    OK(mkdir("dir", 0755));
    FAILS(ENOENT, open("none", O_RDONLY));
    FAILS(EEXIST, open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
    FAILS(ENOTDIR, open("file/below", O_RDONLY));
    FAILS(ENOTDIR, open("file", O_RDONLY | O_DIRECTORY));
    FAILS(EISDIR, open("dir", O_WRONLY));
    FAILS(ENOTDIR, rmdir("file"));
    FAILS(EISDIR, unlink("dir"));
    FAILS(ENOTDIR, stat("file/", &known));
    FAILS(ENOENT, stat("dir/none", &known));
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = 0;
    close(make(name, ""));
    OK(unlink(name));
    strcpy(name + NAME_MAX, "n");
    FAILS(ENAMETOOLONG, open(name, O_RDWR | O_CREAT, 0644));
    FAILS(EBADF, read(999, &byte, 1));
    FAILS(EBADF, fsync(-1));
    int fd = open("file", O_RDONLY);
    FAILS(EBADF, write(fd, "x", 1));
    close(fd);
    fd = open("file", O_WRONLY);
    FAILS(EBADF, read(fd, &byte, 1));
    close(fd);
    fd = open("dir", O_RDONLY | O_DIRECTORY);
    FAILS(EISDIR, read(fd, &byte, 1));
    FAILS(ENOENT, openat(fd, "none", O_RDONLY));
    FAILS(ENOENT, openat(fd, "", O_RDONLY));
    // Out of what it was given no path leads.
    FAILS(EPERM, openat(fd, "../file", O_RDONLY));
    close(openat(fd, "made", O_RDWR | O_CREAT, 0644));
    OK(fstatat(fd, "made", &known, 0) || unlinkat(fd, "made", 0));
    OK(mkdirat(fd, "made", 0755) || unlinkat(fd, "made", AT_REMOVEDIR));
    close(fd);
    OK(access("file", R_OK | W_OK));
    FAILS(ENOENT, access("none", F_OK));
    IS(holds("dir/../file", "text") && holds("./dir/.././file", "text"));
    OK(unlink("file"));
    OK(rmdir("dir"));
}

// The streams of C, above.
static void streams(void) {
    char line[32];
    FILE *file = fopen("stream", "w+");
    IS(file != NULL && fprintf(file, "first %d\nsecond\n", 1) == 15);
    OK(fseek(file, 6, SEEK_SET));
    IS(fgetc(file) == '1' && ungetc('2', file) == '2' && fgetc(file) == '2' && ftell(file) == 7);
    IS(fgets(line, sizeof line, file) && fgets(line, sizeof line, file));
    IS(strcmp(line, "second\n") == 0 && fgetc(file) == EOF && feof(file));
    OK(fclose(file));
    file = fopen("stream", "a");
    IS(fputs("third\n", file) >= 0);
    OK(fclose(file));
    IS(look("stream").st_size == 21);
    IS(fopen("none", "r") == NULL && errno == ENOENT);
    OK(remove("stream"));
    struct pollfd asked = {.fd = make("ready", ""), .events = POLLIN | POLLOUT};
    IS(poll(&asked, 1, 1000) == 1 && asked.revents & POLLOUT);
    close(asked.fd);
    OK(unlink("ready"));
    unsigned char chance[2][16] = {{0}};
    OK(getentropy(chance[0], 16) || getentropy(chance[1], 16));
    IS(memcmp(chance[0], chance[1], 16) != 0);
}

int cases(void) {
    char here[PATH_MAX];
    OK(mkdir("/cases", 0755));
    OK(chdir("/cases"));
    IS(getcwd(here, sizeof here) && strcmp(here, "/cases") == 0);
    directories();
    sorted();
    renames();
    links();
    symbolic_links();
    bytes();
    lengths();
    numbers();
    times();
    errors();
    streams();
    OK(chdir("/"));
    // Nothing of it is left.
    OK(rmdir("/cases"));
    printf("%d checks, %d failed\n", checked, failed);
    fflush(stdout);
    return failed;
}
