/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hook-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void hook_changed(struct hook_host *host, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_object_array_add(host->changes, json_object_new_string(text));
}

char *hook_path(const struct hook_host *host, const char *path, char buf[PATH_MAX])
{
    if (snprintf(buf, PATH_MAX, "%s%s", host->root, path) >= PATH_MAX)
        buf[0] = '\0';
    return buf;
}

bool hook_exists(const struct hook_host *host, const char *path)
{
    char real[PATH_MAX];
    struct stat st;

    return lstat(hook_path(host, path, real), &st) == 0;
}

bool hook_installed(const struct hook_host *host)
{
    return hook_exists(host, SCRUBD_HOOK_LIB);
}

/* What is in a file, cut to size; -errno. */
static ssize_t read_start(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t len = 0;
    ssize_t n = 1;

    if (fd < 0)
        return -errno;
    while (n > 0 && len < size - 1) {
        n = read(fd, buf + len, size - 1 - len);
        if (n > 0)
            len += (size_t)n;
    }
    if (n < 0)
        n = -errno;
    close(fd);
    buf[len] = '\0';
    return n < 0 ? n : (ssize_t)len;
}

enum hook_file_kind hook_file_kind(const struct hook_host *host, const char *path)
{
    char real[PATH_MAX], text[512];
    struct stat st;

    if (lstat(hook_path(host, path, real), &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ? HOOK_FILE_NONE : HOOK_FILE_FOREIGN;
    if (!S_ISREG(st.st_mode) || read_start(real, text, sizeof(text)) < 0)
        return HOOK_FILE_FOREIGN;
    return strstr(text, HOOK_MARKER "\n") != NULL ? HOOK_FILE_OURS : HOOK_FILE_FOREIGN;
}

int hook_file_make_parents(const struct hook_host *host, const char *path, struct err *err)
{
    char real[PATH_MAX];

    hook_path(host, path, real);
    for (char *p = real + strlen(host->root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (mkdir(real, 0755) != 0 && errno != EEXIST)
            return err_set(err, errno, "cannot make %s: %s", real, strerror(errno));
        *p = '/';
    }
    return 0;
}

static int write_all(int fd, const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

static int write_new(const char *path, const char *text, mode_t mode)
{
    int r, fd;

    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    r = write_all(fd, text);
    /* Whatever the umask is. And on the disk before the rename is. */
    if (r == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
        r = -errno;
    close(fd);
    return r;
}

int hook_file_write(const struct hook_host *host, const char *path, const char *text, mode_t mode,
                    struct err *err)
{
    char real[PATH_MAX], fresh[PATH_MAX + 16], now[4096];
    struct stat st;
    int r = hook_file_make_parents(host, path, err);

    if (r < 0)
        return r;
    hook_path(host, path, real);
    if (lstat(real, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == mode &&
        read_start(real, now, sizeof(now)) >= 0 && strcmp(now, text) == 0)
        return 0;
    snprintf(fresh, sizeof(fresh), "%s.scrubd-new", real);
    r = write_new(fresh, text, mode);
    if (r == 0 && rename(fresh, real) != 0)
        r = -errno;
    if (r < 0) {
        unlink(fresh);
        return err_set(err, -r, "cannot write %s: %s", path, strerror(-r));
    }
    return 1;
}

int hook_file_remove(const struct hook_host *host, const char *path, struct err *err)
{
    char real[PATH_MAX];

    if (unlink(hook_path(host, path, real)) != 0 && errno != ENOENT)
        return err_set(err, errno, "cannot remove %s: %s", path, strerror(errno));
    return 0;
}

int hook_dir_remove(const struct hook_host *host, const char *path, struct err *err)
{
    char real[PATH_MAX];

    if (rmdir(hook_path(host, path, real)) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
        errno != EEXIST)
        return err_set(err, errno, "cannot remove %s: %s", path, strerror(errno));
    return 0;
}

/* In the child. */
__attribute__((noreturn)) static void become(const char *const *argv, int out)
{
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv("LC_ALL", "C", 1);
    execv(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

int hook_run(const struct hook_host *host, const char *const *argv, char *out, size_t size,
             struct err *err)
{
    char real[PATH_MAX], rest[256];
    const char *args[16] = {hook_path(host, argv[0], real)};
    size_t len = 0;
    int fds[2], status = -1;
    ssize_t n;
    pid_t pid;

    for (size_t i = 1; argv[i] != NULL; i++)
        args[i] = argv[i];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_set(err, errno, "cannot run %s: %s", argv[0], strerror(errno));
    pid = fork();
    if (pid == 0)
        become(args, fds[1]);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return err_set(err, errno, "cannot run %s: %s", argv[0], strerror(errno));
    }
    do {
        bool full = len + 1 >= size;

        n = read(fds[0], full ? rest : out + len, full ? sizeof(rest) : size - 1 - len);
        if (n > 0 && !full)
            len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    close(fds[0]);
    while (len > 0 && out[len - 1] == '\n')
        len--;
    out[len] = '\0';
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, EIO, "%s failed: %s", argv[0], out);
    return 0;
}
