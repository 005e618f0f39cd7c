#!/usr/bin/env python3
"""Reports a gateway's session and orders to the broker-failover supervisor. The standard library is all it takes.

    python3 examples/report.py SOCKET GROUP ENDPOINT EPOCH [--session up] [--every 0.25] [--times 20] [--sending]

As a module: `Reporter(path).report(group, endpoint, epoch, session="up", sending=True, acks=3, heartbeat_age_ms=140)`.
A report may wait for the supervisor, so make it from a thread of its own, never from the one that sends orders. What it
counted belongs into the next one if it raises. The protocol is in references/gateway-report.md.
"""

import argparse
import json
import socket
import sys
import time

VERSION = 1
LONGEST_WAIT = 1.0  # seconds, for sending and again for the answer


class Refused(Exception):
    """The supervisor did not take the report; the words are its own."""


class Reporter:
    """Connects at the first report, and anew at the next one after a connection was lost."""

    def __init__(self, path):
        self.path = path
        self.stream = None

    def report(self, group, endpoint, epoch, *, session, sending, acks=0, rejects=0, unknown=0, **optional):
        """Raises Refused, or OSError if no supervisor could be asked. Optional: heartbeat_age_ms, latency_us."""
        report = {
            "version": VERSION,
            "group": group,
            "endpoint": endpoint,
            "epoch": epoch,
            # One clock for all processes of the machine; a language that cannot read it finds it in /proc/uptime.
            "at_ms": time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000,
            "session": session,
            "sending": sending,
            "acks": acks,
            "rejects": rejects,
            "unknown": unknown,
            **optional,
        }
        try:
            if self.stream is None:
                self._connect()
            self.stream.write(json.dumps({"report": report}).encode() + b"\n")
            self.stream.flush()
            answer = self.stream.readline()
            if not answer.endswith(b"\n"):
                raise ConnectionError("the connection ended without an answer")
        except OSError:
            # What still comes on it would be taken for the answer to another report.
            self.close()
            raise
        answer = json.loads(answer)
        if "ok" not in answer:
            raise Refused(answer.get("error"))

    def _connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(LONGEST_WAIT)
            connection.connect(self.path)
            self.stream = connection.makefile("rwb")
        finally:
            # The stream keeps the socket open for as long as it needs it.
            connection.close()

    def close(self):
        stream, self.stream = self.stream, None
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass  # What could not be sent is lost either way.


def main():
    parser = argparse.ArgumentParser(description="Reports one path again and again, and prints every answer.")
    parser.add_argument("socket")
    parser.add_argument("group")
    parser.add_argument("endpoint")
    parser.add_argument("epoch", type=int)
    parser.add_argument("--session", default="up", choices=["up", "logging-on", "down"])
    parser.add_argument("--sending", action="store_true")
    parser.add_argument("--every", type=float, default=0.25, help="seconds")
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    reporter = Reporter(given.socket)
    failed = 0
    for _ in range(given.times):
        try:
            reporter.report(
                given.group,
                given.endpoint,
                given.epoch,
                session=given.session,
                sending=given.sending,
                heartbeat_age_ms=0,
            )
            print("taken", flush=True)
        except (OSError, Refused) as why:
            failed += 1
            print(f"{type(why).__name__}: {why}", flush=True)
        time.sleep(given.every)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
