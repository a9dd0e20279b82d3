/* layout.h - pure arithmetic of the places of a unit's params, and of each rank's share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LAYOUT_H
#define TRI_LAYOUT_H

#include "comm/place.h"
#include "device/kernels.h"
#include "shard.h"

/* SCORE is normal with standard deviation 1 / (dim[1] + 1). UNIFORM is uniform between -1 / sqrt(dim[1]) and
 * its opposite. LOG_UNIFORM is the logarithm of a uniform number between 0 and 16. */
typedef enum {
  TRI_INIT_NORMAL,
  TRI_INIT_ONES,
  TRI_INIT_ZEROS,
  TRI_INIT_SCORE,
  TRI_INIT_UNIFORM,
  TRI_INIT_LOG_UNIFORM
} tri_init;
typedef struct tri_param_spec {
  char     name[96]; /* name in the safetensors file */
  int      ndim;
  int64_t  dim[3];
  tri_init init;   /* initial values of a model without a weight file */
  bool     added;  /* part of a scalar head. Files of language models lack it, and then it starts by init */
  bool     joined; /* lies directly behind the previous param, as rows of one fused matrix or of its bias */
  bool     waits;  /* its gradient is 0 as long as another param is 0 */
  bool     cut;    /* a field of its own, set by tri_unit_cut */
  int64_t  offset; /* first element in the unit's flat buffer, set by tri_unit_layout */
} tri_param_spec;

enum { TRI_MOST_BLOCKS = 3 }; /* q, k and v */
/* Positions of a product's params [rows,w] in its matrix [n_out,n_in]. Param i, times `scale`, starts at row
 * row[i] and column i w. The rest of the matrix is 0. */
typedef struct tri_blocks {
  int64_t n_out, n_in; /* n_out 0: the matrix is the params, one below the other */
  float   scale;
  int64_t row[TRI_MOST_BLOCKS];
} tri_blocks;

/* A product of a unit. Params [first, first + n), all but the first joined, are one matrix [n_out,n_in] or
 * blocks of it. */
typedef struct tri_linear_use {
  int         first, n;
  tri_linear *linear; /* borrowed */
  tri_blocks  blocks;
  int64_t     row, rows; /* the rows of an uncut param that a slice multiplies with. rows 0: all */
} tri_linear_use;

/* A unit is gathered and released as a whole. It is the embedding, one layer, or the head. */
typedef struct tri_unit_spec {
  char            name[24];
  bool            in_ring; /* one of many equal units (a layer), which share gather slots */
  bool            apart;   /* one of several other units that share a slot, as no two are used together */
  int             n_param, n_linear;
  tri_param_spec *param;  /* [n_param], owned by the unit's maker */
  tri_linear_use *linear; /* [n_linear], owned by the unit's maker, in the order of their params */
  int64_t         count;  /* flat elements before padding, set by tri_unit_layout */
  int64_t         n_cut;  /* flat elements of its cut params and the gaps between, set by tri_unit_cut */
} tri_unit_spec;

/* Gives every param its offset. A joined param lies right behind the previous one, and the others are aligned
 * to 64 elements. */
void tri_unit_layout(tri_unit_spec *u);
/* Cuts the matrices of which a slice has only some rows (tri_params_opt). A rank then stores rows of its own
 * slice. They get the first offsets, aligned to 64 elements in every share too. Cuts none
 * if the ranks do not divide one of them evenly. */
void    tri_unit_cut(tri_unit_spec *u, const tri_unit_spec *slice, const tri_place *at);
int64_t tri_param_count(const tri_param_spec *s);

/* A model's units and their division among the ranks. A unit's flat buffer has its params at their offsets,
 * then padding of zeros. It consists of fields, and every scope divides each field into equal parts. A rank's
 * share is its part of each field, one behind the other. Each cut param is a field, and the rest of the unit
 * is one. A node's part l of a cut field has rows of slice l / mates (comm.h). */
typedef struct tri_layout {
  const tri_unit_spec *unit; /* borrowed */
  tri_shard_plan       plan; /* new weights are computed in the share of plan.optim */
  tri_place            place;
  bool                 fields; /* cut params are fields. Otherwise each unit is one field */
} tri_layout;

enum { TRI_MOST_FIELDS = 16 }; /* of a unit */

/* Pure, all that follow. A store that is not trained only has new weights from files, in the share of
 * plan.params. */
tri_layout tri_layout_make(const tri_unit_spec *unit, tri_shard_plan plan, tri_place place, bool train);
/* Returns the elements of a share of scope s, and those of the flat buffer. */
int64_t tri_layout_count(const tri_layout *l, int u, tri_shard_scope s);
int64_t tri_layout_padded(const tri_layout *l, int u);
int     tri_layout_fields(const tri_layout *l, int u);
/* Returns this rank's part of field f of unit u if scope s divides it, in flat elements. Only this function
 * computes it. The parts of successive ranks lie one behind the other, as collectives need it. */
tri_range tri_layout_share(const tri_layout *l, int u, int f, tri_shard_scope s);
/* Returns the index of the unit's flat element in the array of this rank's share, which must contain it. */
int64_t tri_layout_at(const tri_layout *l, int u, tri_shard_scope s, int64_t element);
/* Returns the elements of unit[u].param[i] within that share, counted from the first of the param. Without
 * any it returns {0, 0}. */
tri_range tri_layout_piece(const tri_layout *l, int u, int i, tri_shard_scope s);

#endif
