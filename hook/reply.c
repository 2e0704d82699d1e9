/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reply.h"

#include <string.h>

#define DEPTH_MAX 16

struct scan {
    const char *p;
    const char *end;
    int depth;
};

struct token {
    const char *start;
    size_t len;
};

static bool token_is(const struct token *token, const char *text)
{
    return token->len == strlen(text) && memcmp(token->start, text, token->len) == 0;
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

/* A string as written, without its quotes. Escapes stay: none of the words sought has one. */
static bool scan_string(struct scan *s, struct token *ret_token)
{
    const char *start;

    if (!take(s, '"'))
        return false;
    start = s->p;
    for (; s->p < s->end && *s->p != '"'; s->p++) {
        if ((unsigned char)*s->p < 0x20)
            return false;
        if (*s->p == '\\' && ++s->p == s->end)
            return false;
    }
    if (s->p == s->end)
        return false;
    *ret_token = (struct token){start, (size_t)(s->p - start)};
    s->p++;
    return true;
}

/* A number, true, false or null; which one is not checked beyond its letters. */
static bool scan_word(struct scan *s, struct token *ret_token)
{
    const char *start = s->p;

    while (s->p < s->end && ((*s->p >= '0' && *s->p <= '9') || (*s->p >= 'a' && *s->p <= 'z') ||
                             *s->p == 'E' || *s->p == '+' || *s->p == '-' || *s->p == '.'))
        s->p++;
    *ret_token = (struct token){start, (size_t)(s->p - start)};
    return ret_token->len > 0;
}

static bool skip_value(struct scan *s);

static bool skip_list(struct scan *s, char close, bool keyed)
{
    struct token key;

    if (++s->depth > DEPTH_MAX)
        return false;
    s->p++;
    if (take(s, close)) {
        s->depth--;
        return true;
    }
    do {
        if (keyed && (!scan_string(s, &key) || !take(s, ':')))
            return false;
        if (!skip_value(s))
            return false;
    } while (take(s, ','));
    s->depth--;
    return take(s, close);
}

static bool skip_value(struct scan *s)
{
    struct token token;

    skip_space(s);
    if (s->p == s->end)
        return false;
    switch (*s->p) {
    case '{':
        return skip_list(s, '}', true);
    case '[':
        return skip_list(s, ']', false);
    case '"':
        return scan_string(s, &token);
    default:
        return scan_word(s, &token);
    }
}

static enum reply_event event_of(const struct token *word)
{
    if (token_is(word, "dead"))
        return REPLY_DEAD;
    if (token_is(word, "decline"))
        return REPLY_DECLINE;
    if (token_is(word, "go"))
        return REPLY_GO;
    return REPLY_ALIVE;
}

/* -1 for what is no number of milliseconds, up to a day. */
static int milliseconds_of(const struct token *word)
{
    int ms = 0;

    for (size_t i = 0; i < word->len; i++) {
        if (word->start[i] < '0' || word->start[i] > '9' || ms > 8640000)
            return -1;
        ms = ms * 10 + (word->start[i] - '0');
    }
    return ms;
}

static bool scan_parameters(struct scan *s, struct reply *reply)
{
    struct token key, word;

    if (!take(s, '{'))
        return false;
    if (take(s, '}'))
        return true;
    s->depth++;
    do {
        if (!scan_string(s, &key) || !take(s, ':'))
            return false;
        if (token_is(&key, "event")) {
            if (!scan_string(s, &word))
                return false;
            reply->event = event_of(&word);
        } else if (token_is(&key, "wait_ms")) {
            skip_space(s);
            if (!scan_word(s, &word))
                return false;
            reply->wait_ms = milliseconds_of(&word);
        } else if (!skip_value(s)) {
            return false;
        }
    } while (take(s, ','));
    s->depth--;
    return take(s, '}');
}

bool reply_parse(const char *text, size_t len, struct reply *ret_reply)
{
    struct scan s = {text, text + len, 1};
    struct reply reply = {.wait_ms = -1};
    struct token key, word;

    if (!take(&s, '{'))
        return false;
    if (!take(&s, '}')) {
        do {
            bool ok;

            if (!scan_string(&s, &key) || !take(&s, ':'))
                return false;
            skip_space(&s);
            if (token_is(&key, "parameters")) {
                ok = scan_parameters(&s, &reply);
            } else if (token_is(&key, "error")) {
                ok = scan_string(&s, &word);
                reply.error = true;
            } else if (token_is(&key, "continues")) {
                ok = scan_word(&s, &word);
                reply.continues = token_is(&word, "true");
            } else {
                ok = skip_value(&s);
            }
            if (!ok)
                return false;
        } while (take(&s, ','));
        if (!take(&s, '}'))
            return false;
    }
    skip_space(&s);
    if (s.p != s.end)
        return false;
    *ret_reply = reply;
    return true;
}
