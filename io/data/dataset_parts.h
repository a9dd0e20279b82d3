/* dataset_parts.h - a dataset from inside: read in parts, joined again. Private to its room. */
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

struct tri_dataset {
  tri_data_kind  kind;
  tri_example   *example; /* [n] */
  int64_t        n, cap;
  arena_block   *arena;  /* what the examples point to: of lines read here, */
  void          *shared; /* or of every rank's */
  tri_data_stats stats;
  too_long       too_long;
  int64_t       *order; /* [n], of order_epoch under order_seed */
  int64_t        order_epoch;
  uint64_t       order_seed;
  bool           has_order;
};

/* Bytes of one file where a line must begin to be taken. */
typedef struct tri_data_range {
  int64_t begin, end;
} tri_data_range;

/* Not collective. The examples of the lines in range [n_file]; none is no failure here. A file with an empty
 * range is not opened. Ids count from the first line taken. As tri_dataset_open else. */
TRI_CHECKED tri_status tri_dataset_read(const char *const *file, int n_file, const tri_data_opt *opt,
                                        const tri_data_range *range, tri_dataset **out);
/* Not collective. Ready for use, or refused because lines are too long or there are none. */
TRI_CHECKED tri_status tri_dataset_finish(tri_dataset *d, const char *const *file, int n_file,
                                          const tri_data_opt *opt);

#endif
