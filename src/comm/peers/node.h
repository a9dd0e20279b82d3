/* node.h - the status page shared by the ranks of a machine: the state of each rank, and the claim to report
 * the end of the run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEERS_NODE_H
#define TRI_PEERS_NODE_H

#include "base/error.h"
#include "rank_info.h"

enum { TRI_NODE_NAME_BYTES = 64 };

typedef struct tri_node tri_node;

/* Not collective, all that follow. One rank creates the page for n ranks, and the others open it by its name.
 * Remove the name when all have opened it. TRI_ENOMEM: there is no shared memory, or too little. With name
 * NULL the page is private memory of this process. */
TRI_CHECKED tri_status tri_node_make(int n, char name[TRI_NODE_NAME_BYTES], tri_node **out);
TRI_CHECKED tri_status tri_node_open(const char *name, int n, tri_node **out);
void                   tri_node_unname(const char *name);
void                   tri_node_close(tri_node **node);

/* Stores the state of the rank at this place and increments its number of stores. Only this rank may call
 * it. */
void tri_node_put(tri_node *node, int place, const tri_heartbeat *b);
/* Gets the last stored state and returns a count that grows with each store. 0: none yet. */
uint64_t tri_node_get(const tri_node *node, int place, tri_heartbeat *b);
/* Records that the rank at this place ends deliberately. Callable from a signal handler. */
void tri_node_end(tri_node *node, int place);
/* True for the first caller among all ranks of the machine. It may report why the run ends. */
bool tri_node_claim(tri_node *node);
bool tri_node_is_claimed(const tri_node *node);

#endif
