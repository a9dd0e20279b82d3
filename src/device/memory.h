/* memory.h - the ledger plans named allocations, then takes all memory at once at the start, so planned
 * equals used. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEMORY_H
#define TRI_MEMORY_H

#include "base/text_buffer.h"
#include "device.h"

/* When a buffer is needed. Buffers of ROLLOUT and of LEARN share the same memory. */
typedef enum { TRI_PHASE_ROLLOUT = 1, TRI_PHASE_LEARN = 2, TRI_PHASE_ALWAYS = 3 } tri_phase;

typedef struct tri_ledger tri_ledger;

/* Runs an entry belongs to: any run, only this run because it offloads, or only a run without offloading. */
typedef enum { TRI_CASE_ANY, TRI_CASE_OFFLOADED, TRI_CASE_RESIDENT } tri_ledger_case;

/* The totals of a ledger, in bytes on this rank. planned is the sum of the entries, known before anything is
 * allocated, where only the largest member counts. device is its TRI_MEM_DEVICE part and pinned its
 * TRI_MEM_PINNED part. resident is `device` if nothing were offloaded. used was requested from the device.
 * state is weights, gradients, master weights and moments as sharded. overlaid is what lies over the largest
 * members' entries, not part of planned. */
typedef struct tri_ledger_sum {
  int64_t planned, device, pinned, resident, used, always, rollout, learn, state, overlaid;
} tri_ledger_sum;

TRI_CHECKED tri_status tri_ledger_open(tri_ledger **out);
/* Gives all memory back to its device. */
void tri_ledger_close(tri_ledger **l);
/* Plans `bytes` under `name`. The table adds up entries of one name. *where (borrowed until take) is NULL
 * until tri_ledger_take sets it to zeroed memory, 256-byte aligned. `state` counts the entry as training
 * state. bytes 0 is legal and leaves NULL. More than 2^50 bytes are TRI_ECONFIG. */
TRI_CHECKED tri_status tri_ledger_add(tri_ledger *l, tri_mem kind, tri_phase phase, bool state,
                                      const char *name, size_t bytes, void **where);
/* Sets the case of all entries added later. Entries of TRI_CASE_RESIDENT count for `resident` only and get no
 * memory. */
void tri_ledger_set_case(tri_ledger *l, tri_ledger_case c);
/* Sets whether entries added later are buffers of gathers. Such buffers of the device lie together. */
void tri_ledger_set_gathered(tri_ledger *l, bool on);
/* Sets the member of the entries added later. Members are never used at the same time, as two models that
 * compute in turns, so their entries lie over each other and take the memory of the largest member. That
 * holds for each kind and each phase, and for buffers of gathers apart. Whoever begins to use its entries
 * must not expect to find what it left. 0 is no member, as at the start. */
enum { TRI_LEDGER_MEMBERS = 8 }; /* chosen, far above what a run needs */
void tri_ledger_set_member(tri_ledger *l, int member);
/* Memory a rank takes beside the plan, after the check. */
typedef struct tri_ledger_beside {
  size_t device, host; /* bytes of a GPU's memory, bytes of the host's */
} tri_ledger_beside;
/* Checks that the free memory holds the plan and the memory beside it. `sharers` ranks share the device's
 * memory. With a GPU, machine_ranks ranks share the host's. No rank may have taken its memory yet. host_limit
 * is NULL or names a limit on host memory below the machine's. Returns TRI_ECONFIG with the table if memory
 * does not suffice. */
TRI_CHECKED tri_status tri_ledger_check(const tri_ledger *l, tri_device *d, tri_ledger_beside beside,
                                        const char *host_limit, int sharers, int machine_ranks);
/* Allocates everything planned. Nothing can be added afterwards. */
TRI_CHECKED tri_status tri_ledger_take(tri_ledger *l, tri_device *d);
/* Gives the one TRI_MEM_DEVICE block, for tri_comm_start. */
void tri_ledger_block(const tri_ledger *l, void **base, size_t *bytes);
/* Gives the part of that block with all buffers of gathers, or NULL and 0 if there are none. */
void tri_ledger_gathered(const tri_ledger *l, void **base, size_t *bytes);
/* Returns a hash. It is equal if every buffer lies at the same offset of that block, and otherwise differs
 * except by a chance of 2^-64. */
uint64_t       tri_ledger_layout(const tri_ledger *l);
tri_ledger_sum tri_ledger_total(const tri_ledger *l);
/* The bytes of one name in one phase and one kind of memory. */
typedef struct tri_ledger_row {
  const char *name; /* borrowed from the ledger */
  tri_mem     kind;
  tri_phase   phase;
  int64_t     bytes;
  bool        shared; /* with other members, at least a part */
} tri_ledger_row;
/* Lists the plan in the order of first use of each name. Entries of one name, kind and phase are added up.
 * Those of 0 bytes are left out, and those that lie over the largest member's. For each kind,
 * the rows of TRI_PHASE_ALWAYS plus those of the larger phase give `planned`. The caller must TRI_FREE *out
 * [*n]. */
TRI_CHECKED tri_status tri_ledger_rows(const tri_ledger *l, tri_ledger_row **out, int *n);
/* Explains the mark * of shared rows in a table, if `overlaid` is not 0. */
#define TRI_LEDGER_TURNS "  * shared by models that compute in turns, as large as the largest needs"
/* Appends the table. It has a line per name with its bytes in each phase, then the totals. */
TRI_CHECKED tri_status tri_ledger_print(const tri_ledger *l, tri_text *out);

#endif
