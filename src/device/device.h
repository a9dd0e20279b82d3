/* device.h - the device table: memory, streams, events, and the kernels of one back end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DEVICE_H
#define TRI_DEVICE_H

#include "base/error.h"

/* PINNED: host memory that copies to and from the device go through. HOST: host memory the device never sees;
 * the system gives its pages as they are written. */
typedef enum { TRI_MEM_DEVICE, TRI_MEM_PINNED, TRI_MEM_HOST } tri_mem;
typedef struct tri_device tri_device; /* one per process: the one GPU, or the host's cores */
typedef struct tri_stream tri_stream; /* an in-order queue; the CPU back end runs each call at once */
typedef struct tri_event  tri_event;  /* a point in a stream */
typedef struct tri_graph  tri_graph;  /* work recorded once, to be run again and again */
struct tri_kernels;
struct tri_trace;

/* How much at once a device works best with: what a model plans its memory and its calls by. */
typedef struct tri_device_advice {
  size_t logit_bytes; /* logits worth having at once (head_tokens.c) */
  size_t attn_bytes;  /* bytes that attn_bwd of bf16 can use behind tri_attn_work; 0: none */
  /* Decoding spreads contexts of more than spread_tokens tokens, for at most spread_heads rows times heads of
   * keys and values. 0: no spreading. See tri_attn_spreads (kernels.h). */
  int     spread_heads;
  int64_t spread_tokens;
} tri_device_advice;

/* The device back end; tests/device/test_device.c checks each entry. Not collective. */
typedef struct tri_device_ops {
  /* REQUIRED: every back end has all of them. */

  size_t      size;   /* sizeof(tri_device_ops): a stale back end is refused at open */
  const char *name;   /* "cpu", "cuda": what the deck's run.device says */
  int (*count)(void); /* devices of this kind this process sees */
  /* threads: for the CPU, how many threads each kernel uses (>= 1). */
  tri_status (*open)(int local_rank, int threads, tri_device **out);
  void (*close)(tri_device **d);
  tri_status (*mem_info)(tri_device *d, size_t *bytes_free, size_t *bytes_total);
  /* 256-byte aligned, zeroed. On the CPU a TRI_MEM_DEVICE block is shared memory other ranks of this machine
   * can map (comm.h, tri_comm_start); every page is taken at once, so that a full machine is refused
   * here. */
  tri_status (*alloc)(tri_device *d, tri_mem kind, size_t bytes, void **out);
  void (*free)(tri_device *d, tri_mem kind, void **p);
  tri_status (*stream_open)(tri_device *d, const char *name, tri_stream **out);
  void (*stream_close)(tri_stream **s);
  tri_status (*stream_sync)(tri_stream *s);                                    /* the host waits */
  tri_status (*copy)(tri_stream *s, void *dst, const void *src, size_t bytes); /* host or device, either */
  tri_status (*fill)(tri_stream *s, void *dst, int byte, size_t bytes);
  tri_status (*event_open)(tri_device *d, tri_event **out);
  void (*event_close)(tri_event **e);
  tri_status (*event_record)(tri_event *e, tri_stream *s);
  tri_status (*stream_wait)(tri_stream *s, tri_event *e); /* the stream waits, the host does not */
  tri_status (*event_sync)(tri_event *e);                 /* the host waits; not at all if never recorded */
  tri_status (*event_ms)(tri_event *from, tri_event *to, double *ms);
  void (*advice)(const tri_device *d, tri_device_advice *out); /* the same for as long as it is open */
  const struct tri_kernels *kernels;

  /* OPTIONAL: collectives run on the device beside gradients and hold n of its multiprocessors. Products of
   * gradients that are opened later leave them. */
  void (*leave_sm)(tri_device *d, int n);

  /* OPTIONAL: recorded work. All three, or NULL three times: then callers do the work anew each time. */

  /* Calls work(ctx, s) once; what that gives s is kept instead of done. It may neither wait nor allocate or
   * free memory of the device, use no other stream, and copy only to and from memory of the device and pinned
   * memory. Where it fails, or the device refuses, that is the status, *out is NULL, and s is as before. */
  tri_status (*graph_record)(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                             tri_graph **out);
  /* The same work at the same addresses, with what lies there then. */
  tri_status (*graph_run)(tri_graph *g, tri_stream *s);
  void (*graph_close)(tri_graph **g); /* its runs are done, and were waited for */
} tri_device_ops;

/* A back end of this build: its device, and, for memory the host cannot reach, what makes its communicators
 * (comm/comm_maker.h; NULL: this build has none, and they are staged). */
typedef struct tri_backend {
  const tri_device_ops        *device;
  const struct tri_comm_maker *collectives;
} tri_backend;
extern const tri_backend tri_backends[]; /* registry.c; first the host; the last has no device */

/* First member of each back end's own struct, so one pointer serves both. */
struct tri_device {
  const tri_device_ops *ops;
  int                   index, threads;
  bool                  alone;     /* no other rank of the run is on this machine: nobody maps its memory */
  unsigned char         uuid[16];  /* of the GPU: equal means the same one; zero: no GPU */
  char                  model[64]; /* the GPU's, as its maker calls it; empty: no GPU */
  struct tri_trace     *trace;     /* borrowed; NULL unless steps are traced (trace.h) */
};
struct tri_stream {
  tri_device *device;
};

/* Not collective, all that follow. TRI_EABSENT, naming those there are, where this build has no such back
 * end. */
TRI_CHECKED tri_status tri_device_check(const char *name);
/* Open the back end called `name`. TRI_EABSENT if it was not built; never falls back to another. */
TRI_CHECKED tri_status tri_device_open(const char *name, int local_rank, int threads, tri_device **out);
void                   tri_device_close(tri_device **d);
bool                   tri_device_is_gpu(const tri_device *d); /* its memory is its own, not the host's */
/* The table itself, or NULL if it was not built. i counts from 0, the host's, to the last of this build. */
const tri_device_ops *tri_device_find(const char *name);
const tri_device_ops *tri_device_at(int i);
/* The name of the back end whose memory is the host's, which every build has. */
const char *tri_device_host(void);
/* What run.device: auto is in this process: a back end of GPUs that sees one, else tri_device_host. */
const char *tri_device_auto(void);
/* Of the back end called `name`: what makes its communicators; NULL: none of its own, or not built. */
const struct tri_comm_maker *tri_device_collectives(const char *name);

#endif
