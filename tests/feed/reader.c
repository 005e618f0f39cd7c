/*
 * A gateway in C that does nothing but read the feed and check it.
 *
 *     reader say FILE                     one reading, as words
 *     reader watch FILE EPOCH VALID_FOR   reads at full speed until flow is OPEN in EPOCH, and says each epoch that it
 *                                         comes to; every reading must be possible: odd epochs on east and even ones on
 *                                         west, each valid for VALID_FOR nanoseconds
 */
#include "broker_failover_feed.h"

#include <stdlib.h>

static const char *impossible(const struct bff_snapshot *last, const struct bff_snapshot *now, uint64_t valid_for) {
    uint64_t expected = bff_hash(now->epoch % 2 == 1 ? "east" : "west");
    unsigned permits = now->permits;
    if (now->sequence < last->sequence) return "the sequence went back";
    if (now->epoch < last->epoch) return "the epoch went back";
    if (now->heartbeat < last->heartbeat) return "the heartbeat went back";
    if (now->sequence == last->sequence && memcmp(last, now, sizeof *now) != 0) return "one publication, two readings";
    if (now->endpoint_hash != expected) return "an endpoint of another epoch";
    if (now->endpoint != (now->epoch % 2 == 1 ? 0 : 1)) return "a place of another epoch";
    if ((now->flags & BFF_STOPPED) == 0 && now->valid_until - now->heartbeat != valid_for) return "another's moment";
    switch (now->flow) {
    case BFF_OPEN:
        return permits == (BFF_SUBMIT | BFF_CANCEL | BFF_QUERY) ? NULL : "OPEN, and not everything is permitted";
    case BFF_HOLD_RECONCILING:
        return permits == (BFF_CANCEL | BFF_QUERY) ? NULL : "RECONCILING permits queries and cancels";
    case BFF_HOLD_STARTING:
    case BFF_HOLD_SWITCHING:
        return permits == 0 ? NULL : "STARTING and SWITCHING permit nothing";
    case BFF_HALT_NO_TARGET_AVAILABLE:
    case BFF_HALT_OPERATOR:
    case BFF_HALT_CALLER:
        return (permits & (BFF_SUBMIT | BFF_QUERY)) == 0 ? NULL : "HALT permits cancels at most";
    default:
        return "a code that there is not";
    }
}

static int watch(struct bff_feed *feed, uint64_t until, uint64_t valid_for) {
    struct bff_snapshot last, now;
    uint64_t readings = 0, publications = 0, unreadable = 0, epochs = 0, told = 0;
    uint64_t limit = bff_now() + UINT64_C(90000000000);
    memset(&last, 0, sizeof last);
    memset(&now, 0, sizeof now);
    for (;;) {
        if (bff_read(feed, &now) != 0) {
            unreadable++;
        } else {
            const char *why = impossible(&last, &now, valid_for);
            if (why != NULL) {
                printf("impossible: %s: sequence %llu epoch %llu flow %d permits %d after sequence %llu epoch %llu\n", why,
                       (unsigned long long)now.sequence, (unsigned long long)now.epoch, now.flow, now.permits,
                       (unsigned long long)last.sequence, (unsigned long long)last.epoch);
                return 1;
            }
            publications += now.sequence != last.sequence;
            last = now;
        }
        if (readings++ == 0) {
            /* Whoever started this may begin. */
            printf("reading\n");
            fflush(stdout);
        }
        if (now.epoch != told) {
            /* Whoever writes may wait for it. */
            told = now.epoch;
            epochs++;
            printf("epoch %llu\n", (unsigned long long)told);
            fflush(stdout);
        }
        if (now.flow == BFF_OPEN && now.epoch >= until) {
            break;
        }
        if (readings % 1024 == 0 && bff_now() > limit) {
            printf("impossible: epoch %llu was not reached in time, but %llu\n", (unsigned long long)until,
                   (unsigned long long)now.epoch);
            return 1;
        }
    }
    printf("readings %llu publications %llu epochs %llu unreadable %llu\n", (unsigned long long)readings,
           (unsigned long long)publications, (unsigned long long)epochs, (unsigned long long)unreadable);
    return 0;
}

int main(int count, char **arguments) {
    struct bff_feed feed;
    struct bff_snapshot snapshot;
    char why[256];
    if (count < 3) {
        return 2;
    }
    if (bff_open(&feed, arguments[2], BFF_OWN_USER, why, sizeof why) != 0) {
        printf("refused: %s\n", why);
        return 3;
    }
    if (strcmp(arguments[1], "watch") == 0 && count == 5) {
        return watch(&feed, strtoull(arguments[3], NULL, 10), strtoull(arguments[4], NULL, 10));
    }
    uint64_t now = bff_now();
    if (bff_read(&feed, &snapshot) != 0) {
        printf("unreadable\n");
        return 0;
    }
    printf("flow %d permits %d epoch %llu on %s%s%s%s%s sequence %llu\n", snapshot.flow, snapshot.permits,
           (unsigned long long)snapshot.epoch,
           snapshot.endpoint_hash == bff_hash("east")   ? "east"
           : snapshot.endpoint_hash == bff_hash("west") ? "west"
                                                        : "?",
           bff_is_stale(&snapshot, now) ? " stale" : " valid",
           bff_may(&snapshot, BFF_SUBMIT, now) ? " submit" : "",
           snapshot.flags & BFF_KEEP_WHEN_STALE ? " keep" : "", snapshot.flags & BFF_STOPPED ? " stopped" : "",
           (unsigned long long)snapshot.sequence);
    bff_close(&feed);
    return 0;
}
