/* node.h - the status page that the ranks of a machine share: what each is in, and which of them speaks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_NODE_H
#define TRI_PEERS_NODE_H

#include "base/error.h"
#include "rank_info.h"

enum { TRI_NODE_NAME_BYTES = 64 };

typedef struct tri_node tri_node;

/* Not collective, all that follow. One rank makes it, for n ranks, under a name that the others open it by;
 * unname when all have. TRI_ENOMEM: there is no shared memory, or too little. NULL name: for this process
 * alone, in its own memory. */
TRI_CHECKED tri_status tri_node_make(int n, char name[TRI_NODE_NAME_BYTES], tri_node **out);
TRI_CHECKED tri_status tri_node_open(const char *name, int n, tri_node **out);
void                   tri_node_unname(const char *name);
void                   tri_node_close(tri_node **node);

/* What the rank at this place is in; the number of its stores grows with each. Of that rank alone. */
void tri_node_put(tri_node *node, int place, const tri_heartbeat *b);
/* The last that was put, and how many were: 0: none yet. */
uint64_t tri_node_get(const tri_node *node, int place, tri_heartbeat *b);
/* The rank at this place ends by its own will. A signal handler may call it. */
void tri_node_end(tri_node *node, int place);
/* True for the first of all its ranks that asks. */
bool tri_node_claim(tri_node *node);
bool tri_node_is_claimed(const tri_node *node);

#endif
