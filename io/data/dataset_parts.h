/* dataset_parts.h - declares the fields of a dataset, which is read in parts and joined. Private to its room.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_PARTS_H
#define TRI_DATASET_PARTS_H

#include "dataset.h"

typedef struct arena_block {
  struct arena_block *next;
  size_t              used, cap; /* in bytes of data */
  char               *data;
} arena_block;

/* The first of the lines over a limit, for an error, and the number of such lines. */
typedef struct too_long {
  int64_t n;
  int     file;             /* index of the first line's file */
  int64_t line;             /* its number in the file */
  int64_t n_token, longest; /* tokens of the first, and most tokens over the same limit */
  bool    whole;            /* the limit of the line, else of its prompt */
} too_long;

/* Examples first .. first + n - 1. Each pass over them has its own order. They are all examples, or with
 * weights those of one file. */
typedef struct tri_data_part {
  int64_t  first, n;
  int64_t  epoch; /* epoch of the order, under seed */
  uint64_t seed;
  bool     has_order;
} tri_data_part;

typedef struct tri_data_mix tri_data_mix;

struct tri_dataset {
  tri_data_kind  kind;
  tri_example   *example; /* [n] */
  int64_t        n, cap;
  arena_block   *arena;  /* holds the data of the examples, for lines read here, */
  void          *shared; /* or for lines of every rank */
  int64_t        held;   /* bytes of the arena and of example */
  int64_t        asked;  /* held at the last check of the host's memory */
  tri_data_stats stats;
  too_long       too_long;
  int64_t       *order; /* [n] by parts */
  tri_data_part *part;  /* [n_part] */
  int            n_part;
  tri_data_mix  *mix; /* NULL if all lines are one part */
};

/* Bytes of one file. A line is taken if it begins among them. */
typedef struct tri_data_range {
  int64_t begin, end;
} tri_data_range;

/* Reads the examples of the lines in range [n_file]. An empty result is no failure here. A file with an empty
 * range is not opened. Ids count from the first line read. Otherwise works as tri_dataset_open. */
TRI_CHECKED tri_status tri_dataset_read(const char *const *file, int n_file, const tri_data_opt *opt,
                                        const tri_data_range *range, tri_dataset **out);
/* Prepares drawing files by weights [n], all above 0. */
TRI_CHECKED tri_status tri_mix_open(const double *weight, int n, tri_data_mix **out);
void                   tri_mix_close(tri_data_mix **m);
/* Gives the file of a position, and the number of earlier positions of that file. */
void tri_mix_draw(tri_data_mix *m, uint64_t seed, int64_t position, int *file, int64_t *before);

/* Makes the dataset ready for use. Refuses it if lines are too long or there are none. */
TRI_CHECKED tri_status tri_dataset_finish(tri_dataset *d, const char *const *file, int n_file,
                                          const tri_data_opt *opt);

#endif
