/* doctor_facts.h - holds the facts of a rank about itself, as plain bytes to send, check and compare. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DOCTOR_FACTS_H
#define TRI_DOCTOR_FACTS_H

#include "base/error.h"

enum {
  TRI_FACTS_NAME_BYTES = 64,
  TRI_FACTS_VERSION_BYTES = 96,
  TRI_FACTS_ADDRESS_BYTES = 48,
  TRI_FACTS_NETS = 16,     /* interfaces recorded, the first active ones */
  TRI_FACTS_CORES = 1024,  /* hardware threads in a mask */
  TRI_FACTS_NO_LIMIT = -1, /* no limit */
  TRI_FACTS_UNKNOWN = -2   /* a number not reported by the system */
};

/* Numbers of a rank from the launcher, before MPI has its own. */
typedef struct tri_facts_seat {
  int32_t task, tasks;   /* number among all tasks of the launch */
  int32_t local, locals; /* number among those of this machine */
  int32_t rank, node;    /* rank in world (comm.h), and its node. Filled when all facts are known */
  int32_t port;          /* listening port before MPI is up. 0: none */
  int32_t slurm_task;    /* SLURM_PROCID in a step of srun, else TRI_FACTS_UNKNOWN */
  char    host[TRI_FACTS_NAME_BYTES];
} tri_facts_seat;

/* The GPU of this rank. uuid "": no GPU is visible. */
typedef struct tri_facts_gpu {
  int32_t seen;    /* GPUs visible to this process */
  int32_t numa;    /* nearest NUMA node */
  int32_t no_peer; /* GPUs of this machine without direct access to their memory */
  char    uuid[TRI_FACTS_NAME_BYTES], model[TRI_FACTS_NAME_BYTES], bus[TRI_FACTS_NAME_BYTES];
  char    nic[TRI_FACTS_NAME_BYTES]; /* nearest network device on the PCI tree */
} tri_facts_gpu;

typedef struct tri_facts_cores {
  int32_t  online, mine, allotted;     /* hardware threads of the machine, of this rank, of the job here */
  int32_t  numa;                       /* NUMA node of all of mine, or unknown if there are several */
  uint64_t mask[TRI_FACTS_CORES / 64]; /* the threads of this rank */
} tri_facts_cores;

/* Bytes, except files, a count. */
typedef struct tri_facts_limits {
  int64_t memlock, files, shm, shm_free;
} tri_facts_limits;

typedef struct tri_facts_net {
  char    name[TRI_FACTS_NAME_BYTES], address[TRI_FACTS_ADDRESS_BYTES];
  int32_t prefix; /* bits of the network's part */
  int32_t loop;   /* 1: loopback */
  int32_t mbit;   /* Mbit/s as the system reports */
} tri_facts_net;

/* Versions compared between ranks, by name. CPU holds the instructions of products, if no GPU is visible.
 * CUDNN is set if TRI_CUDA_ATTN_BWD asks for it. */
/* clang-format off */
#define TRI_FACTS_VERSION_LIST(X)                                                      \
  X(PROGRAM, "trireme") X(LIBC, "libc") X(MPI, "MPI") X(PMIX, "PMIx") X(HDF5, "HDF5") \
  X(PRODUCTS, "oneDNN") X(CPU, "instructions")                                       \
  X(DRIVER, "NVIDIA driver") X(CUDA, "CUDA") X(NCCL, "NCCL") X(CUDNN, "cuDNN")
/* Variables for choosing interfaces. */
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
const char *tri_facts_choice_name(int choice); /* name of the variable */

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

/* Clock of a node's first rank against rank 0. Zero: it was not asked. */
typedef struct tri_facts_clock {
  bool   known;
  double ahead_s, within_s; /* ahead of rank 0's clock. The error is at most within_s */
} tri_facts_clock;

/* The functions below are pure. Returns whether facts received over a network [bytes] are whole and in range.
 * Also terminates texts. If it returns true, counts fit their arrays. */
bool tri_facts_check(tri_facts *f, size_t bytes, int tasks);
/* Sets rank and node of f [n] as runtime.h numbers them. Nodes are in the order of their lowest task. With
 * ranks_per_node > 0 each has so many consecutive tasks instead. *even: every node has as many ranks.
 * Otherwise rank is the task. Facts with host "" belong to missing ranks, and are skipped. */
TRI_CHECKED tri_status tri_facts_number(tri_facts *f, int n, int ranks_per_node, bool *even, int *nodes);
/* Returns the interface named by this rank's variable, or TRI_FACTS_UNKNOWN if none has this name. If the
 * variable is not set, returns the first interface except loopback, else the first. */
int tri_facts_net_chosen(const tri_facts *f, tri_facts_choice choice);
/* Returns whether MPI uses this interface for TCP. It must be IPv4, not loopback, and not excluded by a
 * variable. */
bool tri_facts_net_of_mpi(const tri_facts *f, const tri_facts_net *net);
/* Returns the interface of `from` in the network of this address. NULL: there is none, or the address is its
 * own. */
const tri_facts_net *tri_facts_net_beside(const tri_facts *from, const char *address);
/* Returns whether a variable's pattern names this interface. NCCL has prefixes, "=exact" and "^but". The
 * others have names, or networks as 10.0.0.0/8. */
bool tri_facts_net_matches(const char *pattern, tri_facts_choice choice, const tri_facts_net *net);

#endif
