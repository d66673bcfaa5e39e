"""A wall clock that a test sets for the processes that it starts. Clocks that cannot be set keep their time."""

import os
import struct
import subprocess
import tempfile

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t* seconds;

__attribute__((constructor)) static void open_offset(void) {
  const int file = open(getenv("WALL_CLOCK_OFFSET"), O_RDONLY | O_CLOEXEC);
  void* const page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) seconds = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int done = (int)syscall(SYS_clock_gettime, clock, now);
  const int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (done == 0 && is_wall && seconds != NULL) now->tv_sec += *seconds;
  return done;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  if (now != NULL) *now = time.tv_sec;
  return time.tv_sec;
}
"""


class WallClock:
    def __init__(self, test):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        library, self.offset = os.path.join(folder.name, "wall_clock.so"), os.path.join(folder.name, "offset")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-xc", "-", "-o", library], input=SOURCE, text=True, check=True)
        self.set(0)
        self.environment = {"LD_PRELOAD": library, "WALL_CLOCK_OFFSET": self.offset}

    def set(self, seconds):
        """The processes read a time that is so many seconds ahead of the machine's."""
        if not os.path.exists(self.offset):
            open(self.offset, "wb").close()
        with open(self.offset, "r+b") as file:
            file.write(struct.pack("q", int(seconds)))
