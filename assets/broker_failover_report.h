/*
 * broker_failover_report.h: reports a gateway's session and orders to the broker-failover supervisor.
 *
 * C11 and POSIX on Linux; nothing to link. The protocol is in references/gateway-report.md. A call may wait for the
 * supervisor, a second to be taken and a second for the answer: never call it from the thread that sends orders. One
 * struct bf_reporter is for one thread.
 *
 *     struct bf_reporter reporter = bf_reporter_of("/run/broker-failover/control.sock");
 *     struct bf_report report = {.group = "main-account", .endpoint = "east", .epoch = 7, .session = BF_SESSION_UP,
 *                                .sending = true, .acks = 12, .heartbeat_age_ms = 140, .latency_us = BF_NONE};
 *     if (bf_report(&reporter, &report) != BF_TAKEN) fprintf(stderr, "%s\n", reporter.error);
 *     bf_reporter_close(&reporter);
 *
 * What a report counts belongs into the next one if this one was not taken.
 *
 * Where _POSIX_C_SOURCE (200809L or newer) or _GNU_SOURCE is defined, include this header after them; else it defines
 * _GNU_SOURCE, and must come before any other header. Licensed as the rest: MIT or Apache-2.0.
 */
#ifndef BROKER_FAILOVER_REPORT_H
#define BROKER_FAILOVER_REPORT_H

#if !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The version of the protocol. */
#define BF_REPORT_VERSION 1
/* The longest line of a report, in bytes, its end included. */
#define BF_LONGEST_LINE 1024
/* Of a number that may be absent: it is. */
#define BF_NONE UINT64_MAX

/* CLOCK_BOOTTIME, whose name is not in POSIX. */
#define BF_CLOCK_BOOTTIME 7

enum bf_session { BF_SESSION_DOWN, BF_SESSION_LOGGING_ON, BF_SESSION_UP };

enum bf_result {
    BF_TAKEN = 0,
    /* Refused; nothing was changed. The supervisor's words are in error. */
    BF_REFUSED = 1,
    /* No supervisor was reached, or it did not answer. The next call connects anew. */
    BF_UNREACHABLE = 2,
};

struct bf_report {
    const char *group;    /* the group of endpoints: the account */
    const char *endpoint; /* the endpoint */
    uint64_t epoch;       /* the epoch that the gateway was told, from 1 */
    enum bf_session session;
    bool sending;              /* whether new orders may leave on this path now */
    uint64_t acks;             /* orders that the broker took, since the report before */
    uint64_t rejects;          /* orders that it refused, since then */
    uint64_t unknown;          /* orders of which the outcome became unknown, since then: no answer, a 503 */
    uint64_t heartbeat_age_ms; /* since anything last came in on the session; BF_NONE: nothing ever did */
    uint64_t latency_us;       /* the slowest answer since the report before; BF_NONE: not measured */
};

struct bf_reporter {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int socket;      /* -1: not connected */
    char error[512]; /* why the last report was not taken */
};

/* A reporter to the socket at path. Nothing is connected yet. */
static inline struct bf_reporter bf_reporter_of(const char *path)
{
    struct bf_reporter reporter;
    memset(&reporter, 0, sizeof reporter);
    reporter.socket = -1;
    if (strlen(path) < sizeof reporter.path) strcpy(reporter.path, path);
    return reporter;
}

static inline void bf_reporter_close(struct bf_reporter *reporter)
{
    if (reporter->socket >= 0) close(reporter->socket);
    reporter->socket = -1;
}

/* Appends text as a JSON string; false if there is no room. */
static inline bool bf_quoted(char *line, size_t *length, const char *text)
{
    size_t at = *length;
    if (at + 8 > BF_LONGEST_LINE) return false;
    line[at++] = '"';
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (at + 8 > BF_LONGEST_LINE) return false;
        if (*c == '"' || *c == '\\') {
            line[at++] = '\\';
            line[at++] = (char)*c;
        } else if (*c < 0x20) {
            at += (size_t)snprintf(line + at, 7, "\\u%04x", *c);
        } else {
            line[at++] = (char)*c;
        }
    }
    line[at++] = '"';
    *length = at;
    return true;
}

/* Appends as printf does; false if there is no room. */
#define BF_ADD(...)                                                                   \
    do {                                                                              \
        int added = snprintf(line + length, BF_LONGEST_LINE - length, __VA_ARGS__);   \
        if (added < 0 || (size_t)added >= BF_LONGEST_LINE - length) return 0;         \
        length += (size_t)added;                                                      \
    } while (0)

/* The report as a line; its length, or 0 if it is too long. */
static inline size_t bf_line(char line[BF_LONGEST_LINE], const struct bf_report *report)
{
    static const char *const sessions[] = {"down", "logging-on", "up"};
    struct timespec now = {0, 0};
    clock_gettime(BF_CLOCK_BOOTTIME, &now);
    uint64_t at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    size_t length = 0;
    BF_ADD("{\"report\":{\"version\":%d,\"group\":", BF_REPORT_VERSION);
    if (!bf_quoted(line, &length, report->group)) return 0;
    BF_ADD(",\"endpoint\":");
    if (!bf_quoted(line, &length, report->endpoint)) return 0;
    BF_ADD(",\"epoch\":%" PRIu64 ",\"at_ms\":%" PRIu64 ",\"session\":\"%s\",\"sending\":%s", report->epoch, at_ms,
           sessions[report->session], report->sending ? "true" : "false");
    BF_ADD(",\"acks\":%" PRIu64 ",\"rejects\":%" PRIu64 ",\"unknown\":%" PRIu64, report->acks, report->rejects,
           report->unknown);
    if (report->heartbeat_age_ms != BF_NONE) BF_ADD(",\"heartbeat_age_ms\":%" PRIu64, report->heartbeat_age_ms);
    if (report->latency_us != BF_NONE) BF_ADD(",\"latency_us\":%" PRIu64, report->latency_us);
    BF_ADD("}}\n");
    return length;
}

#undef BF_ADD

static inline enum bf_result bf_lost(struct bf_reporter *reporter, const char *what)
{
    snprintf(reporter->error, sizeof reporter->error, "%s: %s", what, strerror(errno));
    /* What still comes on it would be taken for the answer to another report. */
    bf_reporter_close(reporter);
    return BF_UNREACHABLE;
}

static inline bool bf_connect(struct bf_reporter *reporter)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, reporter->path, sizeof address.sun_path);
    if (reporter->path[0] == '\0') {
        errno = ENAMETOOLONG;
        return false;
    }
    reporter->socket = socket(AF_UNIX, SOCK_STREAM, 0);
    if (reporter->socket < 0) return false;
    struct timeval limit = {1, 0};
    setsockopt(reporter->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(reporter->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return connect(reporter->socket, (const struct sockaddr *)&address, sizeof address) == 0;
}

/* Reports, and waits for the answer. */
static inline enum bf_result bf_report(struct bf_reporter *reporter, const struct bf_report *report)
{
    char line[BF_LONGEST_LINE];
    size_t length = bf_line(line, report);
    if (length == 0) {
        snprintf(reporter->error, sizeof reporter->error, "a report of more than %d bytes", BF_LONGEST_LINE);
        return BF_REFUSED;
    }
    if (reporter->socket < 0 && !bf_connect(reporter)) return bf_lost(reporter, "cannot connect");
    for (size_t sent = 0; sent < length;) {
        ssize_t more = send(reporter->socket, line + sent, length - sent, MSG_NOSIGNAL);
        if (more <= 0) return bf_lost(reporter, "cannot send");
        sent += (size_t)more;
    }
    /* One line: {"ok":..} or {"error":".."}. Of a long one the beginning is kept. */
    size_t kept = 0;
    for (char c = 0; c != '\n';) {
        ssize_t more = recv(reporter->socket, &c, 1, 0);
        if (more == 0) errno = ECONNRESET;
        if (more <= 0) return bf_lost(reporter, "no answer");
        if (c != '\n' && kept + 1 < sizeof reporter->error) reporter->error[kept++] = c;
    }
    reporter->error[kept] = '\0';
    if (strncmp(reporter->error, "{\"ok\":", 6) != 0) return BF_REFUSED;
    reporter->error[0] = '\0';
    return BF_TAKEN;
}

#endif
