/* device_cpu.h - the CPU's device memory and bulk loops, for src/cpu and the host communicator. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_DEVICE_CPU_H
#define TRI_CPU_DEVICE_CPU_H

#include "base/tensor.h"
#include "cpu/kernels/kernel_family.h"
#include "device/device.h"

extern const tri_device_ops tri_cpu_device_ops;

/* One block of memory: shared (name[0] is set until the name is taken away) or private (why_private says
 * why). */
typedef struct tri_cpu_block {
  char                  name[64]; /* in the POSIX shared memory name space; "" once unnamed */
  char                  why_private[160];
  void                 *data; /* page-aligned, zeroed */
  size_t                bytes;
  int                   fd; /* open as long as the name exists, with a shared lock on it; else -1 */
  bool                  shared;
  struct tri_cpu_block *next; /* of the same device; borrowed */
} tri_cpu_block;

/* Not collective. Every page is taken at once, those of a private block by `threads` threads. TRI_ENOMEM if
 * the machine has not that much memory; too little shared memory gives a private block, and so does share
 * false: most machines have large pages, which products read 1.1 times as fast (measured), for private memory
 * alone. */
TRI_CHECKED tri_status tri_cpu_block_open(size_t bytes, bool share, int threads, tri_cpu_block *out);
void                   tri_cpu_block_close(tri_cpu_block *b);
/* Not collective. Takes away the names that killed processes of this user left behind. */
void tri_cpu_block_remove_stale(void);
/* Not collective. Nobody can map it after this; who has it mapped keeps it. */
void tri_cpu_block_unname(tri_cpu_block *b);
/* Not collective. No block of d has a name from now on, later ones included. */
void tri_cpu_device_unname(tri_device *d);
/* Not collective. The block of d that holds p, or NULL. Borrowed. */
tri_cpu_block *tri_cpu_block_find(tri_device *d, const void *p);
/* Not collective. Another process's block, to be read only. TRI_ECOMM if it cannot be mapped. */
TRI_CHECKED tri_status tri_cpu_map_open(const char *name, size_t bytes, const void **out);
void                   tri_cpu_map_close(const void **p, size_t bytes);
/* Not collective. A shared block of this machine, this process's or another's, by its name: *fd, for
 * tri_cpu_row_open, as long as it is wanted after the name is gone; the caller closes it. TRI_ECOMM. */
TRI_CHECKED tri_status tri_cpu_block_reopen(const char *name, int *fd);

/* Pieces of blocks, one behind the other at one address, to be read and written. */
typedef struct tri_cpu_row {
  void  *base;
  size_t bytes; /* of all */
} tri_cpu_row;
/* Not collective. n pieces of so many bytes each, of block fd[i] from byte offset[i] on: all of them whole
 * pages. TRI_ECOMM if they cannot be mapped. */
TRI_CHECKED tri_status tri_cpu_row_open(int n, const int *fd, const int64_t *offset, size_t bytes,
                                        tri_cpu_row *out);
void                   tri_cpu_row_close(tri_cpu_row *r);

/* Not collective. Of the machine, or of the control group this process is in if that allows less. */
TRI_CHECKED tri_status tri_cpu_mem_info(size_t *bytes_free, size_t *bytes_total);

/* By the chosen family's kernels (choose.h): after a device or a communicator was opened. */
tri_cpu_copy_bytes_fn tri_cpu_copy_bytes;
tri_cpu_reduce_fn     tri_cpu_reduce;

#endif
