/* dataset_parts.h - a dataset from inside: read in parts, joined again. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_PARTS_H
#define TRI_DATASET_PARTS_H

#include "dataset.h"

typedef struct arena_block {
  struct arena_block *next;
  size_t              used, cap; /* bytes of data */
  char               *data;
} arena_block;

/* Lines over a limit that is an error: the first of them, and how many there are. */
typedef struct too_long {
  int64_t n;
  int     file;             /* index of the first's */
  int64_t line;             /* its number in the file */
  int64_t n_token, longest; /* tokens of the first; the most of those that are too long in the same way */
  bool    whole;            /* in which way: the line, else its prompt */
} too_long;

/* Examples first .. first + n - 1, which have an order of their own in each pass over them: all, or with
 * weights those of one file. */
typedef struct tri_data_part {
  int64_t  first, n;
  int64_t  epoch; /* of the order, under seed */
  uint64_t seed;
  bool     has_order;
} tri_data_part;

typedef struct tri_data_mix tri_data_mix;

struct tri_dataset {
  tri_data_kind  kind;
  tri_example   *example; /* [n] */
  int64_t        n, cap;
  arena_block   *arena;  /* what the examples point to: of lines read here, */
  void          *shared; /* or of every rank's */
  int64_t        held;   /* bytes of the arena and of example */
  int64_t        asked;  /* of them, when the host was asked for its memory last */
  tri_data_stats stats;
  too_long       too_long;
  int64_t       *order; /* [n], by parts */
  tri_data_part *part;  /* [n_part] */
  int            n_part;
  tri_data_mix  *mix; /* NULL: the lines are one part */
};

/* Bytes of one file where a line must begin to be taken. */
typedef struct tri_data_range {
  int64_t begin, end;
} tri_data_range;

/* Not collective. The examples of the lines in range [n_file]; none is no failure here. A file with an empty
 * range is not opened. Ids count from the first line taken. As tri_dataset_open else. */
TRI_CHECKED tri_status tri_dataset_read(const char *const *file, int n_file, const tri_data_opt *opt,
                                        const tri_data_range *range, tri_dataset **out);
/* Not collective. Files by weights [n], all over 0. */
TRI_CHECKED tri_status tri_mix_open(const double *weight, int n, tri_data_mix **out);
void                   tri_mix_close(tri_data_mix **m);
/* Not collective. Which file a position is of, and how many positions before it are. */
void tri_mix_draw(tri_data_mix *m, uint64_t seed, int64_t position, int *file, int64_t *before);

/* Not collective. Ready for use, or refused because lines are too long or there are none. */
TRI_CHECKED tri_status tri_dataset_finish(tri_dataset *d, const char *const *file, int n_file,
                                          const tri_data_opt *opt);

#endif
