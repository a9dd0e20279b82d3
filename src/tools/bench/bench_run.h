/* bench_run.h - all that `trireme bench` measures, in order, and what came of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_RUN_H
#define TRI_BENCH_RUN_H

#include "bench_attention.h"
#include "bench_disk.h"
#include "rates.h"
#include "passes.h"
#include "products.h"

enum { TRI_BENCH_DECODES = 4, TRI_BENCH_WORD_BYTES = 96 };

/* Of so many sequences of each rank at once. */
typedef struct tri_decode_times {
  int64_t sequences, tokens; /* tokens: that a sequence has in the middle of the timed steps */
  double  step_s;
  double  bytes; /* that a rank must read for that step: the products' weights once, each sequence's keys and
                  * values */
  double  read_bytes_per_s; /* of each rank, while all read as many bytes (read.h) */
  int     n;                /* steps that were timed */
} tri_decode_times;

/* Who was measured. */
typedef struct tri_bench_who {
  int    ranks, nodes, machine_ranks, threads, cores; /* machine_ranks: of this machine; threads: of a rank */
  char   device[64], model[64];                       /* "cpu", "cuda"; of a GPU its maker's name, else "" */
  char   library[TRI_BENCH_WORD_BYTES]; /* of products, with its version; "": it does not tell */
  double load_per_core;                 /* in the minute before; NAN: the machine does not tell */
} tri_bench_who;

/* Seconds are those of the slowest rank. */
typedef struct tri_bench_result {
  tri_bench_who       who;
  double              numbers; /* that learn, of all ranks together */
  tri_product_times   product[TRI_SLOT_PRODUCTS];
  int                 n_product;
  tri_learn_times     learn;
  double              update_bytes; /* that a rank must read and write for an update */
  tri_attention_times attention[TRI_KINDS];
  double              read_bytes_per_s; /* of each rank, while all read little more than caches hold */
  tri_decode_times    decode[TRI_BENCH_DECODES];
  int                 n_decode;
  int64_t             context; /* tokens of a decoded sequence, as its steps begin */
  tri_bench_rate      rate[TRI_SCOPE_COUNT];
  int                 n_rate;
  tri_disk_times      disk;
} tri_bench_result;

/* Collective over world. In about so many seconds, but that everything is done once after it was done for the
 * first time. folder: of checkpoints (bench_disk.h). The session's memory is
 * taken. TRI_ECONFIG: there is too little. */
TRI_CHECKED tri_status tri_bench_run(tri_session *se, const tri_bench_case *c, const char *folder,
                                     double seconds, tri_bench_result *out);

/* Pure, all that follow: seconds of an update with its passes, in all and of the floors, the products' own
 * time and the bytes of the update at the speed of reading; tokens that all ranks learn in a second; the
 * floor of a decode step; tokens that all ranks decode in a second. */
double tri_bench_step_s(const tri_bench_case *c, const tri_bench_result *r);
double tri_bench_floor_s(const tri_bench_case *c, const tri_bench_result *r);
double tri_bench_update_floor_s(const tri_bench_result *r);
double tri_bench_tokens_per_s(const tri_bench_case *c, const tri_bench_result *r);
double tri_bench_decode_floor_s(const tri_decode_times *d);
double tri_bench_decode_tokens_per_s(const tri_bench_result *r, const tri_decode_times *d);
/* Of a decode step of n sequences of so many tokens each. */
double tri_bench_decode_bytes(const tri_bench_case *c, int64_t n, int64_t tokens);

#endif
