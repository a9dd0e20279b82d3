/* memory.h - the ledger: named planned allocations, taken at once at start; planned equals used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MEMORY_H
#define TRI_MEMORY_H

#include "base/text_buffer.h"
#include "device.h"

/* When a buffer is needed. Buffers of one phase share their room with those of the other. */
typedef enum { TRI_PHASE_ROLLOUT = 1, TRI_PHASE_LEARN = 2, TRI_PHASE_ALWAYS = 3 } tri_phase;

typedef struct tri_ledger tri_ledger;

/* Whose entries: of any run, of this one because it offloads, of one that would not. */
typedef enum { TRI_CASE_ANY, TRI_CASE_OFFLOADED, TRI_CASE_RESIDENT } tri_ledger_case;

/* What a ledger came to, bytes on this rank. planned is arithmetic over the entries, before anything is
 * allocated, device the part of it that is TRI_MEM_DEVICE, pinned TRI_MEM_PINNED; resident: device, if
 * nothing were offloaded. used is what the device was asked for. state: weights, gradients, master weights
 * and moments as sharded. */
typedef struct tri_ledger_sum {
  int64_t planned, device, pinned, resident, used, always, rollout, learn, state;
} tri_ledger_sum;

TRI_CHECKED tri_status tri_ledger_open(tri_ledger **out);
/* Gives all memory back to the device it was taken from. */
void tri_ledger_close(tri_ledger **l);
/* Not collective. Plan `bytes` under `name` (entries of one name are added up in the table). *where (borrowed
 * until take) is set by tri_ledger_take to zeroed memory, 256-byte aligned; it is NULL until then. state:
 * counts as training state. bytes 0 is legal and leaves NULL. */
TRI_CHECKED tri_status tri_ledger_add(tri_ledger *l, tri_mem kind, tri_phase phase, bool state,
                                      const char *name, size_t bytes, void **where);
/* Entries added from here on are of this case. TRI_CASE_RESIDENT's are counted for `resident` alone, and get
 * no memory. */
void tri_ledger_set_case(tri_ledger *l, tri_ledger_case c);
/* Entries added from here on are buffers of gathers, or not: those of the device lie together. */
void tri_ledger_set_gathered(tri_ledger *l, bool on);
/* Memory that a rank takes beside the plan, after it is checked. */
typedef struct tri_ledger_beside {
  size_t device, host; /* of a GPU's memory; of the host's */
} tri_ledger_beside;
/* Not collective. TRI_ECONFIG with the table when there is less than planned, and what is taken beside the
 * plan, of the device's memory, which `sharers` ranks take theirs of, or, with a GPU, of the host's, which
 * machine_ranks take theirs of. None of them may have taken its own yet. host_limit: NULL, or the words for
 * what limits the host's memory below the machine's. */
TRI_CHECKED tri_status tri_ledger_check(const tri_ledger *l, tri_device *d, tri_ledger_beside beside,
                                        const char *host_limit, int sharers, int machine_ranks);
/* Not collective. Allocate everything planned; nothing can be added afterwards. */
TRI_CHECKED tri_status tri_ledger_take(tri_ledger *l, tri_device *d);
/* The one TRI_MEM_DEVICE block, for tri_comm_start. */
void tri_ledger_block(const tri_ledger *l, void **base, size_t *bytes);
/* The part of it that holds all buffers of gathers; NULL and 0 where there are none. */
void tri_ledger_gathered(const tri_ledger *l, void **base, size_t *bytes);
/* Equal where every buffer lies at the same offset of that block; else different but by a chance of 2^-64. */
uint64_t       tri_ledger_layout(const tri_ledger *l);
tri_ledger_sum tri_ledger_total(const tri_ledger *l);
/* One name in one phase and one kind of memory. */
typedef struct tri_ledger_row {
  const char *name; /* borrowed from the ledger */
  tri_mem     kind;
  tri_phase   phase;
  int64_t     bytes;
} tri_ledger_row;
/* Not collective. What is planned, in the order in which the names came; entries of one name, kind and phase
 * are added up, and those of 0 bytes are left out. Of each kind the rows of TRI_PHASE_ALWAYS and those of the
 * larger phase, summed, are `planned`. *out [*n] is the caller's to TRI_FREE. */
TRI_CHECKED tri_status tri_ledger_rows(const tri_ledger *l, tri_ledger_row **out, int *n);
/* Append the table: a line per name with its bytes in each phase, then the totals. */
TRI_CHECKED tri_status tri_ledger_print(const tri_ledger *l, tri_text *out);

#endif
