/*
 * The feed of broker-failover, layout version 1: what a gateway may do, read from a memory-mapped file.
 *
 * C11 or C++11 with GNU extensions (-std=gnu11, -std=gnu++11), Linux, GCC or Clang, nothing to link. Everything is in references/gateway-feed.md.
 *
 *     struct bff_feed feed;
 *     char why[256];
 *     if (bff_open(&feed, "/run/broker-failover/main-account.feed", BFF_OWN_USER, why, sizeof why) != 0) {
 *         ... say why, hold, and try again later ...
 *     }
 *     uint64_t east = bff_hash("east"), west = bff_hash("west");
 *
 *     struct bff_snapshot now;                         // before each order
 *     if (bff_read(&feed, &now) == 0 && bff_may(&now, BFF_SUBMIT, bff_now()) && now.endpoint_hash == east) {
 *         ... send it on east, with now.epoch ...
 *     }
 *
 * A snapshot can be outdated by the time the order is on the wire: send the epoch along with every order.
 */
#ifndef BROKER_FAILOVER_FEED_H
#define BROKER_FAILOVER_FEED_H

#if !defined(__linux__) || !defined(__GNUC__)
#error "the feed needs Linux, and GCC or Clang for __atomic_load_n"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the feed's words are little-endian; this reader does not swap them"
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_BOOTTIME
#error "compile with -std=gnu11 (or gnu++11), or define _GNU_SOURCE before the first include"
#endif

#define BFF_SIZE 64
#define BFF_VERSION 1
/* Attempts before a reader says that it cannot tell: some 50 microseconds. */
#define BFF_ATTEMPTS 1000
/* For bff_open: the file must belong to this process's user, or to root. */
#define BFF_OWN_USER ((uid_t)-1)

/* What a gateway may want to do: bits of `permits`. */
enum { BFF_SUBMIT = 1, BFF_CANCEL = 2, BFF_QUERY = 4 };

/* Order flow: codes of `flow`. Any other code is a hold. */
enum {
    BFF_OPEN = 1,
    BFF_HOLD_STARTING = 16,
    BFF_HOLD_SWITCHING = 17,
    BFF_HOLD_RECONCILING = 18,
    BFF_HALT_NO_TARGET_AVAILABLE = 32,
    BFF_HALT_OPERATOR = 33,
    BFF_HALT_CALLER = 34
};

/* Bits of `flags`. */
enum { BFF_KEEP_WHEN_STALE = 1, BFF_STOPPED = 2 };

/* `endpoint` while nothing is active. */
#define BFF_NO_ENDPOINT 0xffff

/* One reading: everything as of one moment. */
struct bff_snapshot {
    uint64_t sequence;      /* even; higher with every publication, heartbeats included */
    uint64_t epoch;         /* 0: nothing is active */
    uint64_t valid_until;   /* nanoseconds of CLOCK_BOOTTIME; stale from then on */
    uint64_t heartbeat;     /* when it was published, on the same clock */
    uint64_t endpoint_hash; /* bff_hash of the active endpoint's name; 0: nothing is active */
    uint16_t endpoint;      /* its place in the group; BFF_NO_ENDPOINT: nothing is active */
    uint8_t flow;
    uint8_t permits;
    uint8_t flags;
};

struct bff_feed {
    const uint64_t *words;
    uint64_t boot;
};

/* FNV-1a, 64 bits, of a name's UTF-8. */
static inline uint64_t bff_hash_bytes(const char *bytes, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t at = 0; at < length; at++) {
        hash = (hash ^ (uint8_t)bytes[at]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static inline uint64_t bff_hash(const char *name) { return bff_hash_bytes(name, strlen(name)); }

/* Now, in nanoseconds of CLOCK_BOOTTIME. No system call where the vDSO has that clock. */
static inline uint64_t bff_now(void) {
    struct timespec now = {0, 0};
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return UINT64_MAX; /* everything is stale */
    }
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/*
 * Reads one publication. 0: it is in `to`. -1: it has been in the middle of being written for some 50 microseconds, or it
 * is of another boot; do nothing new, and ask again.
 */
static inline int bff_read(const struct bff_feed *feed, struct bff_snapshot *to) {
    const uint64_t *words = feed->words;
    for (int attempt = 0; attempt < BFF_ATTEMPTS; attempt++) {
        uint64_t before = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        uint64_t state = __atomic_load_n(&words[2], __ATOMIC_RELAXED);
        uint64_t epoch = __atomic_load_n(&words[3], __ATOMIC_RELAXED);
        uint64_t valid_until = __atomic_load_n(&words[4], __ATOMIC_RELAXED);
        uint64_t heartbeat = __atomic_load_n(&words[5], __ATOMIC_RELAXED);
        uint64_t boot = __atomic_load_n(&words[6], __ATOMIC_RELAXED);
        uint64_t endpoint_hash = __atomic_load_n(&words[7], __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        uint64_t after = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
        if (before % 2 == 0 && after == before) {
            to->sequence = before;
            to->epoch = epoch;
            to->valid_until = valid_until;
            to->heartbeat = heartbeat;
            to->endpoint_hash = endpoint_hash;
            to->endpoint = (uint16_t)state;
            to->flow = (uint8_t)(state >> 16);
            to->permits = (uint8_t)(state >> 24);
            to->flags = (uint8_t)(state >> 32);
            return boot == feed->boot ? 0 : -1;
        }
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    return -1;
}

/* Whether nobody vouches for it any more at `now`. */
static inline int bff_is_stale(const struct bff_snapshot *snapshot, uint64_t now) {
    return now >= snapshot->valid_until;
}

/* Whether `action` (BFF_SUBMIT, BFF_CANCEL or BFF_QUERY) may be done on the active path at `now`. */
static inline int bff_may(const struct bff_snapshot *snapshot, int action, uint64_t now) {
    int holds = !bff_is_stale(snapshot, now) || (snapshot->flags & BFF_KEEP_WHEN_STALE) != 0;
    return (snapshot->permits & action) != 0 && holds;
}

static inline int bff_refuse(int file, char *why, size_t room, const char *path, const char *what) {
    if (file >= 0) {
        close(file);
    }
    snprintf(why, room, "the feed %s: %s", path, what);
    return -1;
}

/* Unmaps it; no thread may read it any more. */
static inline void bff_close(struct bff_feed *feed) {
    if (feed->words != NULL) {
        munmap((void *)(uintptr_t)feed->words, BFF_SIZE);
        feed->words = NULL;
    }
}

/*
 * Opens the feed that user `owner` writes (BFF_OWN_USER: this user, or root). 0: it can be read. -1: `why` says why not: it
 * is not there, no feed of this layout, another user's, or of an earlier boot. Hold, and try again later.
 */
static inline int bff_open(struct bff_feed *feed, const char *path, uid_t owner, char *why, size_t room) {
    static const unsigned char magic[8] = {'B', 'F', 'F', 'E', 'E', 'D', BFF_VERSION, 0};
    char id[37];
    struct stat found;
    struct bff_snapshot first;
    feed->words = NULL;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, id, sizeof id) < 36) {
        return bff_refuse(file, why, room, path, "cannot read this machine's boot id");
    }
    close(file);
    feed->boot = bff_hash_bytes(id, 36);
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &found) != 0) {
        return bff_refuse(file, why, room, path, strerror(errno));
    }
    if (!S_ISREG(found.st_mode) || found.st_size != BFF_SIZE) {
        return bff_refuse(file, why, room, path, "not a file of 64 bytes");
    }
    if (owner == BFF_OWN_USER ? found.st_uid != geteuid() && found.st_uid != 0 : found.st_uid != owner) {
        return bff_refuse(file, why, room, path, "it belongs to another user");
    }
    if ((found.st_mode & 022) != 0) {
        return bff_refuse(file, why, room, path, "others than its owner may write it");
    }
    void *mapped = mmap(NULL, BFF_SIZE, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        return bff_refuse(file, why, room, path, strerror(errno));
    }
    close(file);
    feed->words = (const uint64_t *)mapped;
    if (memcmp(mapped, magic, 6) != 0) {
        bff_close(feed);
        return bff_refuse(-1, why, room, path, "not a feed");
    }
    if (memcmp(mapped, magic, 8) != 0) {
        bff_close(feed);
        return bff_refuse(-1, why, room, path, "a feed of another layout version than 1");
    }
    if (bff_read(feed, &first) != 0 && __atomic_load_n(&feed->words[6], __ATOMIC_RELAXED) != feed->boot) {
        bff_close(feed);
        return bff_refuse(-1, why, room, path, "written before this boot: its supervisor has not run since");
    }
    return 0;
}

#endif
