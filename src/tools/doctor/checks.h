/* checks.h - finds errors in the facts of all ranks. Pure functions, testable without a cluster. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKS_H
#define TRI_CHECKS_H

#include "doctor_facts.h"
#include "findings.h"
#include "launch.h"

/* The result of one attempt to reach a node from another one. */
typedef struct tri_reach {
  int  from, to;                         /* nodes */
  bool asked;                            /* it was tried */
  int  error;                            /* errno, or TRI_REACH_LARGE. 0: it answered */
  bool beside;                           /* another address of `to` answers, but MPI uses this one too */
  char net[TRI_FACTS_NAME_BYTES];        /* interface of `from` used */
  char address[TRI_FACTS_ADDRESS_BYTES]; /* address of `to` */
} tri_reach;
enum { TRI_REACH_LARGE = -1 /* small messages arrive, large ones do not */ };

/* All known facts of a launch. Borrowed, except for the lists of seats at the end. */
typedef struct tri_case {
  const tri_launch      *launch;
  const tri_facts       *facts; /* [tasks], by task. host "": it did not come */
  int                    tasks, nodes;
  bool                   even;      /* as in tri_facts_number */
  const char            *device;    /* device the run is to use: "auto", "cpu", "cuda" */
  bool                   gpu_build; /* the program has a back end for GPUs */
  double                 waited_s;
  const char            *fence; /* PMIx fence of Slurm for ranks on several nodes (tri_slurm_fence). NULL: not
                                 * asked */
  const tri_facts_clock *clock; /* [tasks] */
  const tri_reach       *reach; /* [n_reach] */
  int                    n_reach;
  int *first; /* [nodes] lowest task of each. Owned, set by tri_case_number, as the next two */
  int *next;  /* [tasks] next task of the same node. -1: last */
  int *task;  /* [tasks] by rank. -1: it did not come */
} tri_case;

/* Numbers the facts [c->tasks] as tri_facts_number does, and fills the case with them and the lists of seats.
 * Call it again after the facts changed. Not collective. */
TRI_CHECKED tri_status tri_case_number(tri_case *c, tri_facts *facts, int ranks_per_node);
/* Frees the lists of seats. */
void tri_case_free(tri_case *c);

/* Each adds its findings to out. Pure. */
TRI_CHECKED tri_status tri_check_seats(const tri_case *c, tri_findings *out);    /* ranks, even */
TRI_CHECKED tri_status tri_check_devices(const tri_case *c, tri_findings *out);  /* device, peer, cores */
TRI_CHECKED tri_status tri_check_versions(const tri_case *c, tri_findings *out); /* versions */
TRI_CHECKED tri_status tri_check_limits(const tri_case *c, tri_findings *out);   /* memlock, files, shm */
TRI_CHECKED tri_status tri_check_clocks(const tri_case *c, tri_findings *out);   /* clock */
TRI_CHECKED tri_status tri_check_nets(const tri_case *c, tri_findings *out);     /* interface */
TRI_CHECKED tri_status tri_check_reach(const tri_case *c, tri_findings *out);    /* reach */
TRI_CHECKED tri_status tri_check_fence(const tri_case *c, tri_findings *out);    /* fence */
/* Runs all of these checks, the worst findings of each kind first. */
TRI_CHECKED tri_status tri_check_all(const tri_case *c, tri_findings *out);

/* Writes the rank of a task, "3", or "3 (task 5)" if Slurm's number differs. Returns out. */
enum { TRI_CHECK_NUMBER_BYTES = 40 };
const char *tri_check_number(const tri_facts_seat *s, char out[TRI_CHECK_NUMBER_BYTES]);
/* Appends the rank with its place, "rank 3 (task 5) on n2". */
TRI_CHECKED tri_status tri_check_put_rank(const tri_facts_seat *s, tri_text *out);
/* Return the lowest task of a node, and the next task of the same node. -1: there is none. */
int tri_check_first_of(const tri_case *c, int node);
int tri_check_next_of(const tri_case *c, int task);
/* Returns the task of a rank. -1: it did not come. */
int tri_check_task_of(const tri_case *c, int rank);
/* Returns whether a node has more ranks than hardware threads for them. */
bool tri_check_shares_cores(const tri_case *c, int node);

/* One measured rate. */
typedef struct tri_rate {
  char    scope[2 * TRI_FACTS_NAME_BYTES + 4]; /* "world", "n1 - n2", "disk write", "rank 3 bf16" */
  int64_t bytes;
  double  bytes_per_s, latency_s;
  int     from, to; /* nodes of a pair. -1 otherwise */
} tri_rate;
/* Finds pairs of nodes far below the median of all pairs or the speed of their interface. Finds latencies,
 * between nodes and within a node, far above the usual one for such links or the median of all pairs. */
TRI_CHECKED tri_status tri_check_links(const tri_case *c, const tri_rate *rate, int n, tri_findings *out);
/* Finds ranks far below the median. x [tasks], by task: flop/s of matrix products. */
TRI_CHECKED tri_status tri_check_speeds(const tri_case *c, const double *x, tri_findings *out);

/* Results of a node's first rank in the folder of checkpoints. errno of each operation, 0 if it works. */
typedef struct tri_folder_facts {
  int32_t write, flock, fcntl, seen; /* seen: reading rank 0's file from here */
  int32_t tried;                     /* 1: all operations were tried */
  int64_t free_bytes;
  char    kind[TRI_FACTS_NAME_BYTES]; /* file system, "lustre" */
} tri_folder_facts;
/* x [tasks], only those of first ranks count. hdf5: error of writing and reading a file in parallel, "" if it
 * works. */
TRI_CHECKED tri_status tri_check_folder(const tri_case *c, const char *folder, const tri_folder_facts *x,
                                        const char *hdf5, tri_findings *out);

/* Results of a node's first rank for the files and folders read by the run. */
typedef struct tri_input_facts {
  int32_t error; /* errno of the first unreadable one. 0: all are readable */
  int32_t which; /* its index */
  int32_t more;  /* number of other unreadable ones */
} tri_input_facts;
/* path [n]. x [tasks], only those of first ranks count. */
TRI_CHECKED tri_status tri_check_inputs(const tri_case *c, const char *const *path, int n,
                                        const tri_input_facts *x, tri_findings *out);

#endif
