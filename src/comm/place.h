/* place.h - the place of a rank: its node, its number within the node, and the ranks of a divided model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLACE_H
#define TRI_PLACE_H

typedef struct tri_place {
  int local_rank, local_size, node, nodes;
  int tensor; /* ranks of a node that hold one model together while they generate. It divides local_size */
} tri_place;

#endif
