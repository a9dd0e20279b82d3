/* host_memory.h - checked allocation of host memory. Not collective, all that follow, unless they say
 * Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HOST_MEMORY_H
#define TRI_HOST_MEMORY_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

/* Checked host allocation. The memory is zeroed, 64-byte aligned and counted. n * size must not overflow.
 * *out is NULL on failure. tri_host_free accepts NULL and leaves *p NULL. */
TRI_CHECKED tri_status tri_host_alloc(size_t n, size_t size, void **out);
void                   tri_host_free(void **p);
int64_t                tri_host_bytes(void); /* bytes held now by tri_host_alloc and tri_pages_alloc */
#define TRI_ALLOC(ptr, n) tri_host_alloc((size_t)(n), sizeof *(ptr), (void **)&(ptr))
#define TRI_FREE(ptr)     tri_host_free((void **)&(ptr))
/* Makes space for `need` elements of `size` bytes in *p, a checked allocation (or NULL) with space for *cap
 * elements. If that is too little, the new space is at least twice as large. The contents stay. */
TRI_CHECKED tri_status tri_grow(void **p, int64_t *cap, int64_t need, size_t size);
#define TRI_GROW(ptr, cap, need) tri_grow((void **)&(ptr), &(cap), need, sizeof *(ptr))
/* Allocates a large buffer, even if little of it will be used. The memory is zeroed, 256-byte aligned and
 * counted. Fresh pages take memory only when they are written. *out is NULL on failure. Free it with
 * tri_pages_free. This accepts NULL and leaves *p NULL. */
TRI_CHECKED tri_status tri_pages_alloc(size_t bytes, void **out);
void                   tri_pages_free(void **p);

#endif
