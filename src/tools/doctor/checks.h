/* checks.h - what the facts of all ranks say: pure, without a cluster. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKS_H
#define TRI_CHECKS_H

#include "doctor_facts.h"
#include "findings.h"
#include "launch.h"

/* How one node found another, by the way its ranks meet. */
typedef struct tri_reach {
  int  from, to;                         /* nodes */
  bool asked;                            /* it was tried */
  int  error;                            /* errno; 0: it answered; TRI_REACH_LARGE */
  bool beside;                           /* another address of `to` answers, and MPI takes this one too */
  char net[TRI_FACTS_NAME_BYTES];        /* interface of `from` it goes out by */
  char address[TRI_FACTS_ADDRESS_BYTES]; /* of `to` */
} tri_reach;
enum { TRI_REACH_LARGE = -1 /* small messages pass, large ones do not */ };

/* All that is known of a launch; borrowed but for who sits where. */
typedef struct tri_case {
  const tri_launch      *launch;
  const tri_facts       *facts; /* [tasks], by task; host "": it did not come */
  int                    tasks, nodes;
  bool                   even;      /* as tri_facts_number */
  const char            *device;    /* what the run is to use: "auto", "cpu", "cuda" */
  bool                   gpu_build; /* the program has a back end for GPUs */
  double                 waited_s;
  const char            *fence; /* of ranks on several nodes, as tri_slurm_fence says; NULL: not asked */
  const tri_facts_clock *clock; /* [tasks] */
  const tri_reach       *reach; /* [n_reach] */
  int                    n_reach;
  int *first; /* [nodes] lowest task of each; owned, by tri_case_number, as all that follow */
  int *next;  /* [tasks] the next of its node; -1: it is the last */
  int *task;  /* [tasks] by rank; -1: it did not come */
} tri_case;

/* Numbers the facts [c->tasks] as tri_facts_number does, and takes them into the case with who sits where;
 * once more after they changed. Not collective. */
TRI_CHECKED tri_status tri_case_number(tri_case *c, tri_facts *facts, int ranks_per_node);
/* Frees who sits where. */
void tri_case_free(tri_case *c);

/* Each adds to out what is wrong. Pure. */
TRI_CHECKED tri_status tri_check_seats(const tri_case *c, tri_findings *out);    /* ranks, even */
TRI_CHECKED tri_status tri_check_devices(const tri_case *c, tri_findings *out);  /* device, peer, cores */
TRI_CHECKED tri_status tri_check_versions(const tri_case *c, tri_findings *out); /* versions */
TRI_CHECKED tri_status tri_check_limits(const tri_case *c, tri_findings *out);   /* memlock, files, shm */
TRI_CHECKED tri_status tri_check_clocks(const tri_case *c, tri_findings *out);   /* clock */
TRI_CHECKED tri_status tri_check_nets(const tri_case *c, tri_findings *out);     /* interface */
TRI_CHECKED tri_status tri_check_reach(const tri_case *c, tri_findings *out);    /* reach */
TRI_CHECKED tri_status tri_check_fence(const tri_case *c, tri_findings *out);    /* fence */
/* All of them, worst first of each kind. */
TRI_CHECKED tri_status tri_check_all(const tri_case *c, tri_findings *out);

/* The rank of a task: "3", or "3 (task 5)" where Slurm's number differs; hands out back. */
enum { TRI_CHECK_NUMBER_BYTES = 40 };
const char *tri_check_number(const tri_facts_seat *s, char out[TRI_CHECK_NUMBER_BYTES]);
/* With its place in words: "rank 3 (task 5) on n2". */
TRI_CHECKED tri_status tri_check_put_rank(const tri_facts_seat *s, tri_text *out);
/* The lowest task of a node, and the one after a task of the same node; -1: there is none. */
int tri_check_first_of(const tri_case *c, int node);
int tri_check_next_of(const tri_case *c, int task);
/* The task of a rank; -1: it did not come. */
int tri_check_task_of(const tri_case *c, int rank);
/* Whether a node has more ranks than hardware threads for them. */
bool tri_check_shares_cores(const tri_case *c, int node);

/* One measured figure. */
typedef struct tri_rate {
  char    scope[2 * TRI_FACTS_NAME_BYTES + 4]; /* "world", "n1 - n2", "disk write", "rank 3 bf16" */
  int64_t bytes;
  double  bytes_per_s, latency_s;
  int     from, to; /* nodes of a pair; -1 */
} tri_rate;
/* Pairs of nodes that are far below the median of all, or below what their interface says; small messages, of
 * pairs and of a node, that take far longer than on such links, or than between other pairs. */
TRI_CHECKED tri_status tri_check_links(const tri_case *c, const tri_rate *rate, int n, tri_findings *out);
/* x [tasks], by task, flops of products: ranks far below the median. */
TRI_CHECKED tri_status tri_check_speeds(const tri_case *c, const double *x, tri_findings *out);

/* What a node's first rank found in the folder of checkpoints. Zero is well. errno of each. */
typedef struct tri_folder_facts {
  int32_t write, flock, fcntl, seen; /* seen: rank 0's file from here */
  int32_t tried;                     /* 1: all of it was */
  int32_t link;                      /* errno of reading it back */
  int64_t free_bytes;
  char    kind[TRI_FACTS_NAME_BYTES]; /* of the file system: "lustre" */
} tri_folder_facts;
/* x [tasks], only those of first ranks count; hdf5: what a file written and read in parallel said, "":
 * well. */
TRI_CHECKED tri_status tri_check_folder(const tri_case *c, const char *folder, const tri_folder_facts *x,
                                        const char *hdf5, tri_findings *out);

/* What a node's first rank found of the files and folders that the run reads. */
typedef struct tri_input_facts {
  int32_t error; /* errno of the first that cannot be read; 0: all can */
  int32_t which; /* of them it is */
  int32_t more;  /* that cannot be read either */
} tri_input_facts;
/* path [n]; x [tasks], only those of first ranks count. */
TRI_CHECKED tri_status tri_check_inputs(const tri_case *c, const char *const *path, int n,
                                        const tri_input_facts *x, tri_findings *out);

#endif
