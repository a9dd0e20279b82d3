/* stack.c - checks that the threads of a kernel have stacks large enough for its arrays. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "cpu.h"

#include <pthread.h>

/* Chosen: the arrays and 192 KiB for everything else. */
enum { STACK_BYTES = TRI_CPU_FRAME_BYTES + (192 << 10) };

/* Returns the stack size of this thread, or SIZE_MAX if unknown. */
static size_t stack_bytes(void) {
  size_t         bytes = SIZE_MAX;
  pthread_attr_t attr;

  if (pthread_getattr_np(pthread_self(), &attr)) return bytes;
  if (pthread_attr_getstacksize(&attr, &bytes)) bytes = SIZE_MAX;
  pthread_attr_destroy(&attr);
  return bytes;
}

tri_status tri_cpu_check_stack(int threads) {
  static int most; /* threads already checked */
  size_t     least = SIZE_MAX;

  if (threads <= most) return TRI_OK;
#pragma omp parallel num_threads(threads) reduction(min : least)
  least = stack_bytes();
  if (least < STACK_BYTES)
    TRI_FAIL(
        TRI_EDEVICE,
        "a thread has a stack of %zu KiB, but a kernel needs %d KiB. Unset OMP_STACKSIZE or set it to 4M, "
        "and set ulimit -s 8192",
        least >> 10, STACK_BYTES >> 10);
  most = threads;
  return TRI_OK;
}
