/* plan.h - computes the memory, batches, checkpoint size and seconds of a run without running it. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PLAN_H
#define TRI_PLAN_H

#include "tools/bench/bench_setup.h"
#include "tools/cost/cost.h"
#include "train/batch_source.h"
#include "train/train.h"

/* The job to plan for. */
typedef struct tri_plan_job {
  int         nodes, per_node; /* nodes x per_node ranks */
  bool        gpu;             /* each rank has a GPU, else a share of a node's cores */
  bool        here;            /* the run is on this machine and its free memory counts, else the total of
                                * such a node */
  tri_machine machine;         /* a GPU with its memory, or CPUs by measured or assumed figures */
  char        figures[96];     /* source of the figures, in words */
  double      walltime_s;      /* 0 if not given */
} tri_plan_job;

/* Bytes in the file system of the output folder. -1 if not known. */
typedef struct tri_plan_disk {
  int64_t free, quota; /* free bytes of the file system, and bytes left of the user's quota */
} tri_plan_disk;

typedef struct tri_plan {
  tri_plan_job    job;
  tri_config      cfg;
  tri_session     se;
  tri_trainer     t;
  tri_ledger_row *row; /* [n_row] */
  int             n_row;
  tri_ledger_sum  sum;                 /* the rank with the most */
  int64_t         host_bytes_per_node; /* host memory planned by all ranks of a node */
  int64_t         host_beside_bytes;   /* host memory they take beside the plan
                                        * (tri_session_host_beside_bytes) */
  int64_t         space_bytes;         /* in a GPU without its libraries. 0: CPUs */
  int64_t         host_space_bytes;    /* in a node. 0: not known */
  bool            fits;
  int64_t         checkpoint_bytes;
  tri_plan_disk   disk;
  tri_cost_time   time;
  char            spread[128]; /* the shard plan against the nodes, and the ranks of a model that generates,
                                * in words */
} tri_plan;

/* plan.c. Not collective, without MPI. Writes nothing. Plans the deck at `path` with `args` over it. Errors
 * of the deck go to `errors`. If there is any, *out must not be used except to close it. notes: NULL, or gets
 * a line for each key spelled as in another program. like: NULL, or a plan of the same deck with other args
 * or another job. Its data and rewards are reused, and it must outlive *out. */
TRI_CHECKED tri_status tri_plan_open(const char *path, char *const *args, int n_args, const tri_plan_job *job,
                                     const tri_plan *like, tri_text *notes, tri_errors *errors,
                                     tri_plan *out);
void                   tri_plan_close(tri_plan *p); /* accepts a zeroed one */
/* plan.c. Returns the bytes of one phase in one kind of memory. TRI_PHASE_ALWAYS is not part of the other
 * phases. */
int64_t tri_plan_bytes(const tri_plan *p, tri_mem kind, tri_phase phase);

/* work.c. The plan must have no errors. Sets p->time. On CPUs it times some passes if they are short
 * enough. */
TRI_CHECKED tri_status tri_plan_time(tri_plan *p);
/* work.c. Pure. The plan must have no errors. Sets the sizes that a rank learns and generates with, for
 * `trireme bench` to time. */
void tri_plan_case(const tri_plan *p, tri_bench_case *out);

/* work.c. Pure. Returns the whole steps of the deck in the walltime, less a minute to start and the last
 * checkpoint. */
int64_t tri_plan_steps(const tri_plan *p);
/* work.c. Pure. Returns the seconds of all steps of the run, without evaluations and checkpoints. 0 if the
 * number of steps is not known. */
double tri_plan_whole_s(const tri_plan *p);

/* plan_disk.c. Reads the disk space of the folder, or of its nearest existing parent. */
void tri_plan_look_at_disk(const char *folder, tri_plan_disk *out);

enum { TRI_ADVICE_MOST = 4, TRI_ADVICE_CHANGES = 8, TRI_ADVICE_BYTES = 64 };

/* Changes that make a run fit together, such as "model.recompute=layer" and "--nodes=4". */
typedef struct tri_advice {
  char    change[TRI_ADVICE_CHANGES][TRI_ADVICE_BYTES];
  int     n;
  int64_t device_bytes; /* one rank, with these changes */
  double  step_s;       /* with these changes. 0 if not known */
} tri_advice;

/* advice.c. Finds changes with which p fits, the cheapest first. Each was planned. *n is 0 if none was
 * found. */
TRI_CHECKED tri_status tri_plan_advise(const char *path, char *const *args, int n_args, const tri_plan *p,
                                       tri_advice out[TRI_ADVICE_MOST], int *n);

/* plan_print.c, plan_json.c. Write the whole answer, for people in at most 23 lines of 79 columns, or as one
 * JSON object. */
TRI_CHECKED tri_status tri_plan_print(const tri_plan *p, const tri_advice *advice, int n, tri_text *out);
TRI_CHECKED tri_status tri_plan_print_json(const tri_plan *p, const tri_advice *advice, int n, tri_text *out);

#endif
