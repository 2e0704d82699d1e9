/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_ENDINGS_H
#define SCRUBD_ENDINGS_H

#include "ident.h"

/*
 * When domains were first seen shut down: from then on a toolstack is at work, until it asks for
 * the destroy. The last ENDINGS_MAX are known. Pure.
 */
#define ENDINGS_MAX 64

struct endings {
    struct {
        struct ident ident;
        uint64_t since_us; /* 0: unused */
    } of[ENDINGS_MAX];
    unsigned int next; /* to be replaced */
};

/* The domain is shut down at now_us. Nothing new if that is known. */
void endings_saw(struct endings *e, const struct ident *id, uint64_t now_us);
/* 0: never seen. */
uint64_t endings_since(const struct endings *e, const struct ident *id);

#endif
