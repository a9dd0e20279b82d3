/* host_memory.h - checked host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HOST_MEMORY_H
#define TRI_HOST_MEMORY_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

/* Checked host allocation: zeroed, 64-byte aligned, counted. n * size must not overflow. *out is NULL on
 * failure. tri_host_free accepts NULL and leaves *p NULL. Not collective. */
TRI_CHECKED tri_status tri_host_alloc(size_t n, size_t size, void **out);
void                   tri_host_free(void **p);
int64_t                tri_host_bytes(void); /* bytes held now through tri_host_alloc and tri_pages_alloc */
#define TRI_ALLOC(ptr, n) tri_host_alloc((size_t)(n), sizeof *(ptr), (void **)&(ptr))
#define TRI_FREE(ptr)     tri_host_free((void **)&(ptr))
/* Space for `need` elements of `size` bytes in *p, a checked allocation (or NULL) that has space for *cap: at
 * least twice as many where it has not. What lies there stays. Not collective. */
TRI_CHECKED tri_status tri_grow(void **p, int64_t *cap, int64_t need, size_t size);
#define TRI_GROW(ptr, cap, need) tri_grow((void **)&(ptr), &(cap), need, sizeof *(ptr))
/* Zeroed, 256-byte aligned, counted, for large rooms of which little may be needed: pages that are fresh are
 * taken as they are written. *out is NULL on failure. To be freed by tri_pages_free, which accepts NULL and
 * leaves *p NULL. Not collective. */
TRI_CHECKED tri_status tri_pages_alloc(size_t bytes, void **out);
void                   tri_pages_free(void **p);

#endif
