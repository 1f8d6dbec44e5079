"""A settable time of day for some processes and their children."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

# Calls that read the time of day return a shifted time. Calls that measure elapsed time return the
# true value, as when a machine's clock is set. File times, which the kernel writes, do not change.
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead(void) {
    static volatile int64_t *seconds = NULL;
    if (seconds == NULL) {
        const char *path = getenv("TEST_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0) return 0;
        void *place = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        if (place == MAP_FAILED) return 0;
        seconds = place;
    }
    return *seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}
"""


class SettableClock:
    """The time of day of all processes that have `environ` in their environment."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if sys.platform != "linux" or compiler is None:
            pytest.skip("a clock that can be set needs Linux and a C compiler (cc)")
        folder.mkdir()
        (folder / "clock.c").write_text(_SOURCE)
        library = folder / "clock.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"], check=True
        )
        state = folder / "ahead"
        state.write_bytes(struct.pack("q", 0))
        with state.open("r+b") as file:
            self._ahead = mmap.mmap(file.fileno(), 8)
        before = os.environ.get("LD_PRELOAD", "")
        self.environ = {
            "LD_PRELOAD": f"{library} {before}".strip(),
            "TEST_CLOCK": str(state),
        }

    def set_ahead(self, seconds: int) -> None:
        """Set the clock this many seconds ahead of the true time, or behind it if negative."""
        struct.pack_into("q", self._ahead, 0, seconds)
