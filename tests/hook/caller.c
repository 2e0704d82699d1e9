/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that destroys and creates domains, the way xl does: linked with libxenctrl. Prints
 * "rc=N errno=N" a call; rc of a create is the number of the domain.
 *     caller direct DOMID        in this process
 *     caller create DOMID        creates a domain
 *     caller fork DOMID          in a forked child, as libxl does
 *     caller daemon DOMID FILE   in a child of a process that went into the background first;
 *                                prints to FILE
 *     caller threads N           domains 1 to N, each in its own thread
 *     caller signals DOMID       with a signal every millisecond
 *     caller env                 prints LD_PRELOAD as seen here, then as seen by a child
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct xc_interface_core;
int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid);
int xc_domain_create(struct xc_interface_core *xch, uint32_t *pdomid, void *config);

static int destroy(unsigned int domid)
{
    int rc;

    errno = 0;
    rc = xc_domain_destroy(NULL, domid);
    printf("rc=%d errno=%d\n", rc, errno);
    fflush(stdout);
    return rc != 0;
}

static int create(unsigned int wanted)
{
    /* An ssidref, then the handle: 07 is its first byte. */
    uint8_t config[256] = {[4] = 7};
    uint32_t domid = wanted;
    int rc;

    errno = 0;
    rc = xc_domain_create(NULL, &domid, config);
    printf("rc=%d errno=%d\n", rc == 0 ? (int)domid : rc, errno);
    return rc != 0;
}

static int destroy_in_child(unsigned int domid)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(destroy(domid));
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static void *destroy_thread(void *arg)
{
    return (void *)(intptr_t)destroy((unsigned int)(uintptr_t)arg);
}

static int destroy_in_threads(unsigned int n)
{
    pthread_t threads[64];

    for (unsigned int i = 0; i < n && i < 64; i++)
        pthread_create(&threads[i], NULL, destroy_thread, (void *)(uintptr_t)(i + 1));
    for (unsigned int i = 0; i < n && i < 64; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void nothing(int sig)
{
    (void)sig;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsigned int n = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;

    if (strcmp(mode, "env") == 0) {
        printf("here=%s\n", getenv("LD_PRELOAD") != NULL ? getenv("LD_PRELOAD") : "(unset)");
        fflush(stdout);
        return system("echo child=${LD_PRELOAD-(unset)}");
    }
    if (strcmp(mode, "direct") == 0)
        return destroy(n);
    if (strcmp(mode, "create") == 0)
        return create(n);
    if (strcmp(mode, "fork") == 0)
        return destroy_in_child(n);
    if (strcmp(mode, "threads") == 0)
        return destroy_in_threads(n);
    if (strcmp(mode, "signals") == 0) {
        struct itimerval every_ms = {{0, 1000}, {0, 1000}};
        struct sigaction action = {.sa_handler = nothing};

        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &every_ms, NULL);
        return destroy(n);
    }
    if (strcmp(mode, "daemon") == 0 && argc > 3) {
        if (daemon(1, 0) < 0 || freopen(argv[3], "w", stdout) == NULL)
            return 1;
        return destroy_in_child(n);
    }
    return 2;
}
