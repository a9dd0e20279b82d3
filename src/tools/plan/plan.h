/* plan.h - what a run of a deck would need and take, without running: memory, batches, a checkpoint,
 * seconds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_H
#define TRI_PLAN_H

#include "tools/bench/bench_setup.h"
#include "tools/cost/cost.h"
#include "train/batch_source.h"
#include "train/train.h"

/* What is planned for. */
typedef struct tri_plan_job {
  int         nodes, per_node; /* ranks: nodes x per_node */
  bool        gpu;             /* each rank has one, else a share of a node's cores */
  bool        here;            /* on this machine: its free memory counts, else that of a node like it */
  tri_machine machine;         /* of a GPU, its memory; of CPUs what was measured or is assumed */
  char        figures[96];     /* where its figures are from, in words */
  double      walltime_s;      /* 0: not given */
} tri_plan_job;

/* Bytes in the file system of the output folder; -1: not known. */
typedef struct tri_plan_disk {
  int64_t free, quota; /* of the file system; that the user's quota leaves */
} tri_plan_disk;

typedef struct tri_plan {
  tri_plan_job    job;
  tri_config      cfg;
  tri_session     se;
  tri_trainer     t;
  tri_ledger_row *row; /* [n_row] */
  int             n_row;
  tri_ledger_sum  sum;                 /* of the rank that holds most */
  int64_t         host_bytes_per_node; /* of all ranks of a node, in its own memory */
  int64_t         host_beside_bytes;   /* which they take there beside that (tri_session_host_beside_bytes) */
  int64_t         space_bytes,
      host_space_bytes; /* what fits: in a GPU, its libraries aside (0: CPUs); in a node (0: not
                                        * known) */
  bool          fits;
  int64_t       checkpoint_bytes;
  tri_plan_disk disk;
  tri_cost_time time;
  char          spread[96]; /* the shard plan against the nodes, in words */
} tri_plan;

/* plan.c. Not collective, without MPI; nothing is written. Plans the deck at `path` with `args` over it.
 * What is wrong with it goes to `errors`, with any *out is not to be used but to be closed. notes: NULL,
 * or gets a line per spelling of another program. like: NULL, or a plan of the same deck, made with other
 * args or another job, whose data and rewards are lent; it must outlive *out. */
TRI_CHECKED tri_status tri_plan_open(const char *path, char *const *args, int n_args, const tri_plan_job *job,
                                     const tri_plan *like, tri_text *notes, tri_errors *errors,
                                     tri_plan *out);
void                   tri_plan_close(tri_plan *p); /* a zeroed one is legal */
/* plan.c. Bytes of one phase in one kind of memory; TRI_PHASE_ALWAYS is not among the others. */
int64_t tri_plan_bytes(const tri_plan *p, tri_mem kind, tri_phase phase);

/* work.c. Not collective, without errors. Sets p->time, on CPUs by timing some passes where there is time. */
TRI_CHECKED tri_status tri_plan_time(tri_plan *p);
/* work.c. Pure, without errors. What a rank learns and generates, for others to time. */
void tri_plan_case(const tri_plan *p, tri_bench_case *out);

/* work.c. Pure. Whole steps of the deck in the walltime, less a minute to start and the last checkpoint. */
int64_t tri_plan_steps(const tri_plan *p);
/* work.c. Pure. Seconds of all steps of the run, evaluations and checkpoints aside; 0: not known how many. */
double tri_plan_whole_s(const tri_plan *p);

/* plan_disk.c. Not collective. Of the folder, or the nearest one above it that is there. */
void tri_plan_look_at_disk(const char *folder, tri_plan_disk *out);

enum { TRI_ADVICE_MOST = 4, TRI_ADVICE_CHANGES = 6, TRI_ADVICE_BYTES = 64 };

/* Changes that together fit: "model.recompute=layer", "--nodes=4". */
typedef struct tri_advice {
  char    change[TRI_ADVICE_CHANGES][TRI_ADVICE_BYTES];
  int     n;
  int64_t device_bytes; /* of one rank then */
  double  step_s;       /* 0: on CPUs, where it would have to be measured */
} tri_advice;

/* advice.c. Not collective. What would fit where p does not, cheapest first; each was planned. *n 0: nothing
 * was found. */
TRI_CHECKED tri_status tri_plan_advise(const char *path, char *const *args, int n_args, const tri_plan *p,
                                       tri_advice out[TRI_ADVICE_MOST], int *n);

/* plan_print.c, plan_json.c. Not collective. The whole answer: for people, at most 23 lines of 79 columns;
 * as one JSON object. */
TRI_CHECKED tri_status tri_plan_print(const tri_plan *p, const tri_advice *advice, int n, tri_text *out);
TRI_CHECKED tri_status tri_plan_print_json(const tri_plan *p, const tri_advice *advice, int n, tri_text *out);

#endif
