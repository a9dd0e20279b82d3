/* fault.c - faults that a namespace cannot have, as a preloaded library. Test code.
 * FAULT_CLOCK=S    the clock is S seconds ahead        FAULT_LOCKS=1    files cannot be locked
 * FAULT_HDF5=1     HDF5 has another version         built with -DNVML: a driver with one GPU, "the same" */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#ifdef NVML
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { return snprintf(text, n, "570.1") < 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { return *v = 12080, 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { return *n = 1, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { return *d = &errno, i != 0; }
int nvmlDeviceGetUUID(void *d, char *text, unsigned n) { return snprintf(text, n, "GPU-the-same") < 0 || !d; }
int nvmlDeviceGetName(void *d, char *text, unsigned n) { return snprintf(text, n, "A GPU") < 0 || !d; }
int nvmlDeviceGetPciInfo_v3(void *d, void *out) { return !d || out; }
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status) {
  return !a || !b || what || (*status = 0);
}
#else
int clock_gettime(clockid_t which, struct timespec *t) {
  static int (*next)(clockid_t, struct timespec *);
  const char *ahead = getenv("FAULT_CLOCK");

  if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  if (next(which, t)) return -1;
  if (ahead && which == CLOCK_REALTIME) t->tv_sec += atoi(ahead);
  return 0;
}

int flock(int fd, int how) {
  static int (*next)(int, int);

  if (!next) next = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
  if (!getenv("FAULT_LOCKS")) return next(fd, how);
  errno = ENOLCK;
  return -1;
}

int fcntl(int fd, int what, ...) {
  static int (*next)(int, int, ...);
  va_list ap;
  void   *arg;

  va_start(ap, what);
  arg = va_arg(ap, void *);
  va_end(ap);
  if (!next) next = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
  if (!getenv("FAULT_LOCKS") || (what != F_SETLK && what != F_SETLKW)) return next(fd, what, arg);
  errno = ENOLCK;
  return -1;
}

int H5get_libversion(unsigned *major, unsigned *minor, unsigned *release) {
  static int (*next)(unsigned *, unsigned *, unsigned *);
  int result;

  if (!next) next = (int (*)(unsigned *, unsigned *, unsigned *))dlsym(RTLD_NEXT, "H5get_libversion");
  result = next(major, minor, release);
  if (getenv("FAULT_HDF5")) *release += 1;
  return result;
}
#endif
