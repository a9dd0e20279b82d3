/* host_memory.c - checked allocation of host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature /* for clang. gcc has the other macro */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { PAGES_ALIGN = 256 }; /* specified: device.h */
/* Chosen: a page fault for each 4 KiB costs less than holes of this size. */
enum { PAGES_LEAST_BYTES = 1 << 21 };

static atomic_int_fast64_t host_bytes;

tri_status tri_host_alloc(size_t n, size_t size, void **out) {
  size_t bytes;
  void  *p;

  *out = NULL;
  if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX - 64)
    TRI_FAIL(TRI_ENOMEM, "a host buffer of %zu x %zu bytes is too large", n, size);
  bytes = (bytes + 64) / 64 * 64; /* at least one cache line, so n = 0 is legal */
  p = aligned_alloc(64, bytes);
  if (!p) TRI_FAIL(TRI_ENOMEM, "the host cannot allocate %zu bytes of memory", bytes);
  memset(p, 0, bytes);
  atomic_fetch_add(&host_bytes, (int_fast64_t)malloc_usable_size(p));
  *out = p;
  return TRI_OK;
}

void tri_host_free(void **p) {
  if (!*p) return;
  atomic_fetch_sub(&host_bytes, (int_fast64_t)malloc_usable_size(*p));
  free(*p);
  *p = NULL;
}

tri_status tri_grow(void **p, int64_t *cap, int64_t need, size_t size) {
  int64_t more = *cap ? *cap : 64;
  void   *fresh;

  if (need <= *cap) return TRI_OK;
  while (more < need) more *= 2;
  TRI_TRY(tri_host_alloc((size_t)more, size, &fresh));
  if (*p) memcpy(fresh, *p, (size_t)*cap * size);
  tri_host_free(p);
  *p = fresh;
  *cap = more;
  return TRI_OK;
}

/* glibc's malloc takes large blocks directly from the kernel until the first of them is freed. Afterwards it
 * takes them from the heap, and holes make the heap grow with each round. A run's second checkpoint took 20
 * MiB more than its first. With a fixed threshold every large block goes back to the kernel. */
static void keep_heap_small(void) {
#if defined M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, PAGES_LEAST_BYTES);
#endif
}

/* calloc zeroes memory without touching fresh pages. Its address is stored before the block, where no caller
 * may look. */
tri_status tri_pages_alloc(size_t bytes, void **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char                 *got;

  *out = NULL;
  pthread_once(&once, keep_heap_small);
  got = bytes > PTRDIFF_MAX - 2 * PAGES_ALIGN ? NULL : calloc(bytes + 2 * PAGES_ALIGN, 1);
  if (!got) TRI_FAIL(TRI_ENOMEM, "the host cannot allocate %zu bytes of memory", bytes);
  atomic_fetch_add(&host_bytes, (int_fast64_t)malloc_usable_size(got));
  *out = got + 2 * PAGES_ALIGN - (uintptr_t)got % PAGES_ALIGN;
  memcpy((char *)*out - sizeof got, &got, sizeof got);
  ASAN_POISON_MEMORY_REGION(got, (size_t)((char *)*out - got));
  return TRI_OK;
}

void tri_pages_free(void **p) {
  char *got;

  if (!*p) return;
  ASAN_UNPOISON_MEMORY_REGION((char *)*p - sizeof got, sizeof got);
  memcpy(&got, (char *)*p - sizeof got, sizeof got);
  ASAN_UNPOISON_MEMORY_REGION(got, (size_t)((char *)*p - got));
  atomic_fetch_sub(&host_bytes, (int_fast64_t)malloc_usable_size(got));
  free(got);
  *p = NULL;
}

int64_t tri_host_bytes(void) { return (int64_t)atomic_load(&host_bytes); }
