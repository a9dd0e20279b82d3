/* doctor_facts.h - what each rank tells of itself: plain bytes, to be sent, checked and compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DOCTOR_FACTS_H
#define TRI_DOCTOR_FACTS_H

#include "base/error.h"

enum {
  TRI_FACTS_NAME_BYTES = 64,
  TRI_FACTS_VERSION_BYTES = 96,
  TRI_FACTS_ADDRESS_BYTES = 48,
  TRI_FACTS_NETS = 16,     /* interfaces that are told, the first that are up */
  TRI_FACTS_CORES = 1024,  /* hardware threads in a mask */
  TRI_FACTS_NO_LIMIT = -1, /* of limits: none */
  TRI_FACTS_UNKNOWN = -2   /* of numbers: the system does not tell */
};

/* Who: numbers of the launcher, before MPI has its own. */
typedef struct tri_facts_seat {
  int32_t task, tasks;   /* number among all of the launch */
  int32_t local, locals; /* among those of this machine */
  int32_t rank, node;    /* world's (comm.h), and its node; filled where all facts are known */
  int32_t port;          /* it listens there, before MPI is up; 0: it does not */
  int32_t slurm_task;    /* SLURM_PROCID in a step of srun, else TRI_FACTS_UNKNOWN */
  char    host[TRI_FACTS_NAME_BYTES];
} tri_facts_seat;

/* The GPU that this rank would take. Empty uuid: none is seen. */
typedef struct tri_facts_gpu {
  int32_t seen;    /* by this process */
  int32_t numa;    /* node of memory that it is near */
  int32_t no_peer; /* GPUs of this machine whose memory it cannot reach directly */
  char    uuid[TRI_FACTS_NAME_BYTES], model[TRI_FACTS_NAME_BYTES], bus[TRI_FACTS_NAME_BYTES];
  char    nic[TRI_FACTS_NAME_BYTES]; /* network device nearest to it by PCI */
} tri_facts_gpu;

typedef struct tri_facts_cores {
  int32_t  online, mine, allotted;     /* hardware threads of the machine, of this rank, of the job here */
  int32_t  numa;                       /* the one node of memory that all of mine belong to, or unknown */
  uint64_t mask[TRI_FACTS_CORES / 64]; /* mine */
} tri_facts_cores;

/* Bytes; files: a count. */
typedef struct tri_facts_limits {
  int64_t memlock, files, shm, shm_free;
} tri_facts_limits;

typedef struct tri_facts_net {
  char    name[TRI_FACTS_NAME_BYTES], address[TRI_FACTS_ADDRESS_BYTES];
  int32_t prefix; /* bits of the network's part */
  int32_t loop;   /* 1: it leads to this machine only */
  int32_t mbit;   /* Mbit/s as the system tells */
} tri_facts_net;

/* What is compared between ranks, by name. CPU: the instructions of products, where no GPU is seen; CUDNN:
 * where TRI_CUDA_ATTN_BWD asks for it. */
/* clang-format off */
#define TRI_FACTS_VERSION_LIST(X)                                                      \
  X(PROGRAM, "trireme") X(LIBC, "libc") X(MPI, "MPI") X(PMIX, "PMIx") X(HDF5, "HDF5") \
  X(PRODUCTS, "oneDNN") X(CPU, "instructions")                                       \
  X(DRIVER, "NVIDIA driver") X(CUDA, "CUDA") X(NCCL, "NCCL") X(CUDNN, "cuDNN")
/* Variables that choose interfaces. */
#define TRI_FACTS_CHOICE_LIST(X)                                                       \
  X(NCCL, "NCCL_SOCKET_IFNAME") X(MPI, "OMPI_MCA_btl_tcp_if_include")                  \
  X(MPI_NOT, "OMPI_MCA_btl_tcp_if_exclude") X(GLOO, "GLOO_SOCKET_IFNAME") X(UCX, "UCX_NET_DEVICES")
/* clang-format on */
#define TRI_X(name, text) TRI_VERSION_##name,
typedef enum { TRI_FACTS_VERSION_LIST(TRI_X) TRI_VERSION_COUNT } tri_facts_version;
#undef TRI_X
#define TRI_X(name, text) TRI_CHOICE_##name,
typedef enum { TRI_FACTS_CHOICE_LIST(TRI_X) TRI_CHOICE_COUNT } tri_facts_choice;
#undef TRI_X
const char *tri_facts_version_name(int version);
const char *tri_facts_choice_name(int choice); /* the variable's */

typedef struct tri_facts {
  tri_facts_seat   seat;
  tri_facts_gpu    gpu;
  tri_facts_cores  cores;
  tri_facts_limits limits;
  int32_t          n_net, n_ib; /* n_ib: InfiniBand devices */
  tri_facts_net    net[TRI_FACTS_NETS];
  char             version[TRI_VERSION_COUNT][TRI_FACTS_VERSION_BYTES]; /* "": not loaded */
  char             choice[TRI_CHOICE_COUNT][TRI_FACTS_NAME_BYTES];      /* "": not set */
} tri_facts;

/* What the first rank of each node found out with others. Zero is legal: nothing was asked. */
typedef struct tri_facts_clock {
  bool   known;
  double ahead_s, within_s; /* against rank 0's; the error is at most within_s */
} tri_facts_clock;

/* Pure, all that follow. Facts that came over a network [bytes]: whether they are whole and in range; texts
 * are ended and counts are those of arrays afterwards. */
bool tri_facts_check(tri_facts *f, size_t bytes, int tasks);
/* f [n]: ranks and nodes, as runtime.h numbers them: nodes in the order of their lowest task, or of
 * ranks_per_node tasks each where that is > 0. *even: every node has as many ranks; else rank is the task.
 * Facts with host "" are of ranks that did not come; they are left out. */
TRI_CHECKED tri_status tri_facts_number(tri_facts *f, int n, int ranks_per_node, bool *even, int *nodes);
/* The interface that the choice of this rank names, TRI_FACTS_UNKNOWN: none of them; without a choice the
 * first that leads off the machine, else the first. */
int tri_facts_net_chosen(const tri_facts *f, tri_facts_choice choice);
/* Whether MPI's TCP takes this interface: it leads off the machine, is of IPv4, and no variable leaves it
 * out. */
bool tri_facts_net_of_mpi(const tri_facts *f, const tri_facts_net *net);
/* The interface of `from` in whose network this address is; NULL: there is none, or it is its own. */
const tri_facts_net *tri_facts_net_beside(const tri_facts *from, const char *address);
/* Whether a pattern of a variable (NCCL: prefixes, "=exact", "^but"; others: names or networks as
 * 10.0.0.0/8) names this interface. */
bool tri_facts_net_matches(const char *pattern, tri_facts_choice choice, const tri_facts_net *net);

#endif
