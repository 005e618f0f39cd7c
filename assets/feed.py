#!/usr/bin/env python3
"""Prints what a feed of broker-failover says, once a change: python3 feed.py FILE [READINGS]

The layout is in references/gateway-feed.md. CPython has no memory fences: x86-64 needs none for this, since it keeps loads in
their order. Elsewhere read the feed through broker_failover_feed.h (ctypes).
"""

import mmap
import os
import struct
import sys
import time

SIZE = 64
MAGIC = b"BFFEED\x01\x00"
SUBMIT, CANCEL, QUERY = 1, 2, 4
KEEP_WHEN_STALE, STOPPED = 1, 2
FLOWS = {
    1: "OPEN",
    16: "HOLD STARTING",
    17: "HOLD SWITCHING",
    18: "HOLD RECONCILING",
    32: "HALT NO_TARGET_AVAILABLE",
    33: "HALT OPERATOR",
    34: "HALT CALLER",
}


def name_hash(name):
    """FNV-1a, 64 bits, of a name's UTF-8."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    return value


def now():
    """Now, in nanoseconds of CLOCK_BOOTTIME."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Snapshot:
    """One reading: everything as of one moment."""

    def __init__(self, sequence, payload):
        state, self.epoch, self.valid_until, self.heartbeat, self.boot, self.endpoint_hash = payload
        self.sequence = sequence
        self.endpoint = state & 0xFFFF
        self.flow = state >> 16 & 0xFF
        self.permits = state >> 24 & 0xFF
        self.flags = state >> 32 & 0xFF

    def is_stale(self, at):
        """Whether nobody vouches for it any more."""
        return at >= self.valid_until

    def may(self, action, at):
        """Whether SUBMIT, CANCEL or QUERY may be done on the active path."""
        holds = not self.is_stale(at) or self.flags & KEEP_WHEN_STALE
        return bool(self.permits & action and holds)


class Feed:
    """A feed that is read."""

    def __init__(self, path):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            self.boot = name_hash(file.read().strip())
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size != SIZE:
                raise ValueError(f"{path}: {found.st_size} bytes; expected {SIZE}")
            if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
                raise ValueError(f"{path}: others may write it; expected a file of this user or of root")
            self.words = mmap.mmap(file.fileno(), SIZE, prot=mmap.PROT_READ)
        if self.words[:8] != MAGIC:
            raise ValueError(f"{path}: begins with {self.words[:8]!r}; expected {MAGIC!r}")

    def read(self):
        """One publication, or None while it cannot be told: do nothing new then."""
        for _ in range(1000):
            (before,) = struct.unpack_from("<Q", self.words, 8)
            payload = struct.unpack_from("<6Q", self.words, 16)
            (after,) = struct.unpack_from("<Q", self.words, 8)
            if before % 2 == 0 and after == before:
                snapshot = Snapshot(before, payload)
                return snapshot if snapshot.boot == self.boot else None
        return None


def text(snapshot, at):
    may = [name for bit, name in ((SUBMIT, "submit"), (CANCEL, "cancel"), (QUERY, "query")) if snapshot.may(bit, at)]
    flow = FLOWS.get(snapshot.flow, "HOLD")
    stale = ", stale" if snapshot.is_stale(at) else ""
    return f"{flow} epoch {snapshot.epoch} endpoint {snapshot.endpoint_hash:016x} may {' '.join(may) or 'nothing'}{stale}"


def main():
    usage = "usage: feed.py FILE [READINGS]"
    if {"-h", "--help"} & set(sys.argv[1:]):
        return print(f"{usage}\n\nPrints what a feed says, once a change; after so many READINGS it ends.")
    if len(sys.argv) not in (2, 3):
        sys.exit(usage)
    feed = Feed(sys.argv[1])
    readings = int(sys.argv[2]) if len(sys.argv) > 2 else None
    last = None
    while readings is None or readings > 0:
        at, snapshot = now(), feed.read()
        line = "cannot be told now" if snapshot is None else text(snapshot, at)
        if line != last:
            print(line, flush=True)
            last = line
        if readings is not None:
            readings -= 1
        time.sleep(0.001)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"feed.py: {error}")
    except KeyboardInterrupt:
        pass
