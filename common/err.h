/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_ERR_H
#define SCRUBD_ERR_H

/*
 * An error that a person will read. Functions take one last, may be given NULL, and touch it only
 * when they fail. Whoever gets the error either logs it or passes it on, never both.
 */
struct err {
    int code; /* positive errno */
    char text[400];
};

/* Fill in an error (errno code, text) and return -code: `return err_set(err, EINVAL, "...")`. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the text of an error, and return -code of it. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
