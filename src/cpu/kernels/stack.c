/* stack.c - whether the threads of a kernel have stacks with space for its arrays. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "cpu.h"

#include <pthread.h>

enum { STACK_BYTES = TRI_CPU_FRAME_BYTES + (192 << 10) }; /* chosen: and what else lies there */

/* Of this thread's stack; SIZE_MAX: not known. */
static size_t stack_bytes(void) {
  size_t         bytes = SIZE_MAX;
  pthread_attr_t attr;

  if (pthread_getattr_np(pthread_self(), &attr)) return bytes;
  if (pthread_attr_getstacksize(&attr, &bytes)) bytes = SIZE_MAX;
  pthread_attr_destroy(&attr);
  return bytes;
}

tri_status tri_cpu_check_stack(int threads) {
  static int most; /* threads that were looked at */
  size_t     least = SIZE_MAX;

  if (threads <= most) return TRI_OK;
#pragma omp parallel num_threads(threads) reduction(min : least)
  least = stack_bytes();
  if (least < STACK_BYTES)
    TRI_FAIL(
        TRI_EDEVICE,
        "a thread has a stack of %zu KiB, attention takes %d: unset OMP_STACKSIZE, or make it 4M, and set "
        "ulimit -s 8192",
        least >> 10, STACK_BYTES >> 10);
  most = threads;
  return TRI_OK;
}
