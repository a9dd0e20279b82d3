/* device.h - the interface of a back end: its memory, streams, events and kernels. Not collective, all that
 * follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DEVICE_H
#define TRI_DEVICE_H

#include "base/error.h"

/* PINNED is host memory through which copies to and from the device go. HOST is host memory the device never
 * sees. The system provides its pages when they are first written. */
typedef enum { TRI_MEM_DEVICE, TRI_MEM_PINNED, TRI_MEM_HOST } tri_mem;
typedef struct tri_device tri_device; /* one per process: the one GPU, or the host's cores */
typedef struct tri_stream tri_stream; /* an in-order queue; the CPU back end runs each call at once */
typedef struct tri_event  tri_event;  /* a point in a stream */
typedef struct tri_graph  tri_graph;  /* work recorded once and run many times */
struct tri_kernels;
struct tri_trace;

/* How much work a device handles best at once. A model plans its memory and its calls by these numbers. */
typedef struct tri_device_advice {
  size_t logit_bytes; /* bytes of logits to compute at once (head_tokens.c) */
  size_t attn_bytes;  /* bytes behind tri_attn_work that bf16 attn_bwd can use, or 0 */
  /* Decoding spreads contexts of more than spread_tokens tokens, if rows times key/value heads are at most
   * spread_heads. 0 means no spreading. See tri_attn_spreads (kernels.h). */
  int     spread_heads;
  int64_t spread_tokens;
} tri_device_advice;

/* The operations of a device. tests/device/test_device.c checks each entry. */
typedef struct tri_device_ops {
  /* REQUIRED. Every back end has all of these. */

  size_t      size;   /* sizeof(tri_device_ops); open refuses a stale back end by it */
  const char *name;   /* "cpu" or "cuda", as in the deck's run.device */
  int (*count)(void); /* number of devices of this kind visible to this process */
  /* threads (>= 1) is the number of threads for each kernel. Only the CPU uses it. */
  tri_status (*open)(int local_rank, int threads, tri_device **out);
  void (*close)(tri_device **d);
  tri_status (*mem_info)(tri_device *d, size_t *bytes_free, size_t *bytes_total);
  /* Gives zeroed memory, 256-byte aligned. On the CPU a TRI_MEM_DEVICE block is shared memory, and other
   * ranks of this machine can map it (comm.h, tri_comm_start). Every page is taken at once, so a full
   * machine is refused here. */
  tri_status (*alloc)(tri_device *d, tri_mem kind, size_t bytes, void **out);
  void (*free)(tri_device *d, tri_mem kind, void **p);
  tri_status (*stream_open)(tri_device *d, const char *name, tri_stream **out);
  void (*stream_close)(tri_stream **s);
  tri_status (*stream_sync)(tri_stream *s); /* the host waits */
  /* Each pointer may be host or device memory. */
  tri_status (*copy)(tri_stream *s, void *dst, const void *src, size_t bytes);
  tri_status (*fill)(tri_stream *s, void *dst, int byte, size_t bytes);
  tri_status (*event_open)(tri_device *d, tri_event **out);
  void (*event_close)(tri_event **e);
  tri_status (*event_record)(tri_event *e, tri_stream *s);
  tri_status (*stream_wait)(tri_stream *s, tri_event *e); /* the stream waits, the host does not */
  tri_status (*event_sync)(tri_event *e);                 /* the host waits, but not if never recorded */
  tri_status (*event_ms)(tri_event *from, tri_event *to, double *ms);
  void (*advice)(const tri_device *d, tri_device_advice *out); /* constant while the device is open */
  const struct tri_kernels *kernels;

  /* OPTIONAL. Collectives run on the device beside gradients and occupy n of its multiprocessors. Products of
   * gradients opened later leave these multiprocessors free. */
  void (*leave_sm)(tri_device *d, int n);

  /* OPTIONAL. Recorded work. A back end sets all three, or all are NULL and callers repeat the work each
   * time. */

  /* Calls work(ctx, s) once and records its operations on s instead of running them. work may not wait,
   * allocate or free device memory, or use another stream. It may copy only to and from device and pinned
   * memory. If work fails or the device refuses, returns that status, *out is NULL, and s is as before. */
  tri_status (*graph_record)(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                             tri_graph **out);
  /* Runs the same work at the same addresses, on their current content. */
  tri_status (*graph_run)(tri_graph *g, tri_stream *s);
  void (*graph_close)(tri_graph **g); /* call it after waiting for all runs */
} tri_device_ops;

/* A back end of this build. collectives makes communicators for memory the host cannot reach
 * (comm/comm_maker.h). It is NULL if this build has none. Collectives then go through host memory
 * (staged). */
typedef struct tri_backend {
  const tri_device_ops        *device;
  const struct tri_comm_maker *collectives;
} tri_backend;
/* Defined in registry.c. The host is first. An entry without device ends the list. */
extern const tri_backend tri_backends[];

/* The first member of each back end's own struct, so one pointer serves both. */
struct tri_device {
  const tri_device_ops *ops;
  int                   index, threads;
  bool                  alone;     /* the only rank of the run on this machine, so nobody maps its memory */
  unsigned char         uuid[16];  /* equal for the same GPU; zero without a GPU */
  char                  model[64]; /* the GPU's name from its maker; empty without a GPU */
  struct tri_trace     *trace;     /* borrowed; NULL unless steps are traced (trace.h) */
};
struct tri_stream {
  tri_device *device;
};

/* Returns TRI_EABSENT if this build has no back end called `name`. The message lists the available ones. */
TRI_CHECKED tri_status tri_device_check(const char *name);
/* Opens the back end called `name`. Returns TRI_EABSENT if it was not built, and never falls back to
 * another. */
TRI_CHECKED tri_status tri_device_open(const char *name, int local_rank, int threads, tri_device **out);
void                   tri_device_close(tri_device **d);
/* Returns whether the device is a GPU, with memory of its own. */
bool tri_device_is_gpu(const tri_device *d);
/* Return the table itself, or NULL if it was not built. i counts from 0, the host's back end, to the last of
 * this build. */
const tri_device_ops *tri_device_find(const char *name);
const tri_device_ops *tri_device_at(int i);
/* Returns the name of the back end for host memory. Every build has it. */
const char *tri_device_host(void);
/* Returns the back end chosen by run.device: auto in this process. It is a GPU back end if that sees a GPU,
 * else tri_device_host. */
const char *tri_device_auto(void);
/* Returns the maker of communicators of the back end called `name`. NULL if it has none of its own or was not
 * built. */
const struct tri_comm_maker *tri_device_collectives(const char *name);

#endif
