/* A disk that fails on demand, put before the C library with LD_PRELOAD.
 *
 * DISK_FAULT=call:number:errno:path   the call (write, sync) of that number, from 1, on files whose
 *                                     path contains the text fails with errno; number+ fails all
 *                                     from there on; errno 0 makes a short write of half the bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int told, number, code, ever, count;
static char call[16], part[256];

static void learn(void)
{
    const char *told_as = getenv("DISK_FAULT");
    char how[16];
    told = 1;
    if (!told_as || sscanf(told_as, "%15[a-z]:%15[0-9+]:%d:%255s", call, how, &code, part) != 4)
        return;
    number = atoi(how);
    ever = strchr(how, '+') != NULL;
}

/* 1: fail with errno, 2: be short, 0: go on. */
static int strikes(const char *what, int fd)
{
    char link[64], path[4096];
    ssize_t length;
    if (!told)
        learn();
    if (!number || strcmp(what, call))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (!strstr(path, part))
        return 0;
    count++;
    if (count != number && !(ever && count > number))
        return 0;
    errno = code;
    return code ? 1 : 2;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "write");
    switch (strikes("write", fd)) {
    case 1: return -1;
    case 2: return real(fd, bytes, size > 1 ? size / 2 : size);
    }
    return real(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *pieces, int many)
{
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real)
        real = dlsym(RTLD_NEXT, "writev");
    switch (strikes("write", fd)) {
    case 1: return -1;
    case 2: return real(fd, pieces, many > 1 ? many / 2 : many);
    }
    return real(fd, pieces, many);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fdatasync");
    return strikes("sync", fd) == 1 ? -1 : real(fd);
}

int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fsync");
    return strikes("sync", fd) == 1 ? -1 : real(fd);
}
