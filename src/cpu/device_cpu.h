/* device_cpu.h - memory of the CPU device and bulk loops, for src/cpu and the host communicator. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_DEVICE_CPU_H
#define TRI_CPU_DEVICE_CPU_H

#include "base/tensor.h"
#include "cpu/kernels/kernel_family.h"
#include "device/device.h"

extern const tri_device_ops tri_cpu_device_ops;

/* One block of memory. It is shared, with a name until the name is removed, or private for the reason in
 * why_private. */
typedef struct tri_cpu_block {
  char                  name[64]; /* its POSIX shared memory name; "" once removed */
  char                  why_private[160];
  void                 *data; /* page-aligned, zeroed */
  size_t                bytes;
  int                   fd; /* open with a shared lock while the name exists, else -1 */
  bool                  shared;
  struct tri_cpu_block *next; /* next block of the same device; borrowed */
} tri_cpu_block;

/* Takes every page at once. `threads` threads touch the pages of a private block. Returns TRI_ENOMEM if the
 * machine lacks memory. The block is private if share is false or if there is too little shared memory. Most
 * machines offer large pages for private memory only, and products read these 1.1 times as fast
 * (measured). */
TRI_CHECKED tri_status tri_cpu_block_open(size_t bytes, bool share, int threads, tri_cpu_block *out);
void                   tri_cpu_block_close(tri_cpu_block *b);
/* Removes the names left by killed processes of this user. */
void tri_cpu_block_remove_stale(void);
/* Removes the block's name. Nobody can map it afterwards, but existing mappings stay valid. */
void tri_cpu_block_unname(tri_cpu_block *b);
/* Removes the names of all blocks of d. Later blocks get no name either. */
void tri_cpu_device_unname(tri_device *d);
/* Returns the block of d that contains p, borrowed, or NULL. */
tri_cpu_block *tri_cpu_block_find(tri_device *d, const void *p);
/* Maps another process's block for reading. Returns TRI_ECOMM if it cannot be mapped. */
TRI_CHECKED tri_status tri_cpu_map_open(const char *name, size_t bytes, const void **out);
void                   tri_cpu_map_close(const void **p, size_t bytes);
/* Opens a shared block of this machine by its name, from this process or another. *fd is for tri_cpu_row_open
 * and stays valid after the name is gone. The caller closes it. Returns TRI_ECOMM on failure. */
TRI_CHECKED tri_status tri_cpu_block_reopen(const char *name, int *fd);

/* Pieces of blocks mapped one behind the other at one address, for reading and writing. */
typedef struct tri_cpu_row {
  void  *base;
  size_t bytes; /* total of all pieces */
} tri_cpu_row;
/* Maps n pieces of `bytes` bytes each. Piece i begins at byte offset[i] of block fd[i]. Offsets and sizes are
 * whole pages. Returns TRI_ECOMM if they cannot be mapped. */
TRI_CHECKED tri_status tri_cpu_row_open(int n, const int *fd, const int64_t *offset, size_t bytes,
                                        tri_cpu_row *out);
void                   tri_cpu_row_close(tri_cpu_row *r);

/* Give the memory of the machine, the second of this process's control group if that has less. */
TRI_CHECKED tri_status tri_cpu_mem_machine(size_t *bytes_free, size_t *bytes_total);
TRI_CHECKED tri_status tri_cpu_mem_info(size_t *bytes_free, size_t *bytes_total);

/* Run the kernels of the chosen family (choose.h). Call them after opening a device or a communicator. */
tri_cpu_copy_bytes_fn tri_cpu_copy_bytes;
tri_cpu_reduce_fn     tri_cpu_reduce;

#endif
