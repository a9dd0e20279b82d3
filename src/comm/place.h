/* place.h - the place of a rank: its node, and its number within the node. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLACE_H
#define TRI_PLACE_H

typedef struct tri_place {
  int local_rank, local_size, node, nodes;
} tri_place;

#endif
