/* A gateway that reports again and again: SOCKET GROUP ENDPOINT EPOCH SESSION SENDING TIMES. Prints each result. */
#include "broker_failover_report.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 8) return 99;
    struct bf_reporter reporter = bf_reporter_of(argv[1]);
    /* Field by field, which C++ takes too. */
    struct bf_report report;
    memset(&report, 0, sizeof report);
    report.group = argv[2];
    report.endpoint = argv[3];
    report.epoch = strtoull(argv[4], NULL, 10);
    report.session = strcmp(argv[5], "up") == 0     ? BF_SESSION_UP
                     : strcmp(argv[5], "down") == 0 ? BF_SESSION_DOWN
                                                    : BF_SESSION_LOGGING_ON;
    report.sending = strcmp(argv[6], "sending") == 0;
    report.acks = 1;
    report.heartbeat_age_ms = 5;
    report.latency_us = BF_NONE;
    int failed = 0;
    for (long times = strtol(argv[7], NULL, 10); times > 0; times--) {
        enum bf_result result = bf_report(&reporter, &report);
        failed |= result != BF_TAKEN;
        printf("%d %s\n", result, reporter.error);
        fflush(stdout);
        struct timespec pause = {0, 50000000};
        nanosleep(&pause, NULL);
    }
    bf_reporter_close(&reporter);
    return failed;
}
