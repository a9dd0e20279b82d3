/* bench_run.h - runs all measurements of `trireme bench` in order and holds their results. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_RUN_H
#define TRI_BENCH_RUN_H

#include "bench_attention.h"
#include "bench_disk.h"
#include "rates.h"
#include "passes.h"
#include "products.h"

enum { TRI_BENCH_DECODES = 4, TRI_BENCH_WORD_BYTES = 96 };

/* Decoding of so many sequences at once by each model, which is a rank or several. */
typedef struct tri_decode_times {
  int64_t sequences, tokens; /* tokens: length of a sequence in the middle of the timed steps */
  double  step_s;
  double  bytes; /* bytes that a rank must read for that step: the products' weights once, and each sequence's
                  * keys and values. States of recurrent layers count twice, because they are written too */
  double  read_bytes_per_s; /* per rank, while all ranks read as many bytes (read.h) */
  int     n;                /* timed steps */
} tri_decode_times;

/* The measured ranks and machine. */
typedef struct tri_bench_who {
  int    ranks, nodes, machine_ranks, threads, cores; /* machine_ranks: on this machine. threads: per rank */
  char   device[64], model[64];                       /* "cpu", "cuda". model: the maker's name of a GPU, else
                                                       * "" */
  char   library[TRI_BENCH_WORD_BYTES]; /* library of products, with its version. "": not known */
  double load_per_core;                 /* in the last minute before. NAN: not known */
} tri_bench_who;

/* Seconds are those of the slowest rank. */
typedef struct tri_bench_result {
  tri_bench_who       who;
  double              numbers; /* trained numbers, all ranks together */
  tri_product_times   product[TRI_SLOT_PRODUCTS];
  int                 n_product;
  tri_learn_times     learn;
  double              update_bytes; /* bytes that a rank must read and write for an update */
  tri_attention_times attention[TRI_KINDS];
  double              read_bytes_per_s; /* per rank, while all ranks read slightly more than the caches
                                         * hold */
  tri_decode_times    decode[TRI_BENCH_DECODES];
  int                 n_decode;
  int64_t             context; /* tokens of a decoded sequence before its first step */
  tri_bench_rate      rate[TRI_SCOPE_COUNT];
  int                 n_rate;
  tri_disk_times      disk;
} tri_bench_result;

/* Collective over world. Takes about `seconds`, but everything runs at least once after a first untimed run.
 * folder: of checkpoints (bench_disk.h). Takes the session's memory. TRI_ECONFIG: there is too little. */
TRI_CHECKED tri_status tri_bench_run(tri_session *se, const tri_bench_case *c, const char *folder,
                                     double seconds, tri_bench_result *out);

/* All functions below are pure. Returns the seconds of an update with its passes. */
double tri_bench_step_s(const tri_bench_case *c, const tri_bench_result *r);
/* Returns the floor of the same: the products' own time plus the floor of the update. */
double tri_bench_floor_s(const tri_bench_case *c, const tri_bench_result *r);
/* Returns the seconds to read the bytes of an update. */
double tri_bench_update_floor_s(const tri_bench_result *r);
/* Returns the tokens per second of training on all ranks. */
double tri_bench_tokens_per_s(const tri_bench_case *c, const tri_bench_result *r);
/* Returns the seconds to read the bytes of a decode step. */
double tri_bench_decode_floor_s(const tri_decode_times *d);
/* Returns the tokens per second of decoding on all ranks. */
double tri_bench_decode_tokens_per_s(const tri_bench_case *c, const tri_bench_result *r,
                                     const tri_decode_times *d);
/* Returns the bytes moved by a decode step of n sequences of so many tokens each, as in tri_decode_times. */
double tri_bench_decode_bytes(const tri_bench_case *c, int64_t n, int64_t tokens);

#endif
