/* runtime.c - the place of this process among all ranks, from MPI, PMIx and Slurm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* cpu_set_t */
#include "runtime.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm_host.h"
#include "cores.h"
#include "pause.h"
#include "peers/peers.h"
#include "pmix_server.h"
#include "quota.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int      n_open;                    /* runtimes open at present */
static bool     was_together;              /* MPI has been up once */
static bool     mpi_is_ours;               /* this program started MPI and must end it */
static MPI_Comm fate_comm = MPI_COMM_NULL; /* for tri_runtime_all_failed only */
enum { FATE_WAIT_S = 3 };                  /* chosen: errors that all ranks find arrive within milliseconds */
enum { ALONE_S = 8 };                      /* chosen: MPI_Abort takes 0.1 s, or hangs after a link failure */

/* ---- the environment, before MPI ---- */

/* Returns the whole number >= 0 at the start of the variable's text, or -1. */
static long env_number(const char *name) {
  const char *text = getenv(name);
  char       *end;
  long        v;

  if (!text) return -1;
  v = strtol(text, &end, 10);
  return end == text || v < 0 ? -1 : v;
}

/* Tests whether a server listens at the URI on this machine. Example:
 * "1052508160.0;tcp4://127.0.0.1:35715". */
static bool listens(const char *uri) {
  const struct timeval  patience = {.tv_sec = 1}; /* chosen: a local connection takes less */
  const struct addrinfo numbers = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo      *address;
  const char           *begin = strstr(uri, "://"), *colon = begin ? strrchr(begin + 3, ':') : NULL;
  char                  host[64], port[16];
  bool                  answers;
  int                   fd;

  if (!colon || snprintf(port, sizeof port, "%s", colon + 1) >= (int)sizeof port ||
      snprintf(host, sizeof host, "%.*s", (int)(colon - begin - 3), begin + 3) >= (int)sizeof host ||
      getaddrinfo(host, port, &numbers, &address))
    return false;
  fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  answers = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) &&
            !connect(fd, address->ai_addr, address->ai_addrlen);
  if (fd >= 0) close(fd);
  freeaddrinfo(address);
  return answers;
}

/* Tests the server of the first PMIX_SERVER_URI*, once. All of these variables name the same server. */
static bool has_server(void) {
  static const char prefix[] = "PMIX_SERVER_URI";
  static int        answer = -1;

  for (int i = 0; answer < 0 && environ[i]; i++)
    if (!strncmp(environ[i], prefix, sizeof prefix - 1)) answer = listens(environ[i]);
  return answer > 0;
}

/* Variables stay behind in shells, and users copy them. A launcher therefore counts only while a part of it
 * is alive. For a PMIx server (of mpirun or srun) this is its working folder. Inside a container with its own
 * /tmp it is the port of the server. */
static bool has_pmix(void) {
  const char *folder = getenv("PMIX_SERVER_TMPDIR");

  return getenv("PMIX_NAMESPACE") && env_number("PMIX_RANK") >= 0 &&
         ((folder && !access(folder, F_OK)) || has_server());
}

/* Tests for a launcher of the older protocol with an open descriptor to it. */
static bool has_pmi_line(void) {
  long fd = env_number("PMI_FD");

  return env_number("PMI_RANK") >= 0 && env_number("PMI_SIZE") > 0 && fd >= 0 && fcntl((int)fd, F_GETFD) >= 0;
}

/* The same, or a launcher that passes no descriptor. */
static bool has_pmi(void) {
  return has_pmi_line() ||
         (env_number("PMI_RANK") >= 0 && env_number("PMI_SIZE") > 0 && env_number("PMI_FD") < 0);
}

/* Tests for Open MPI's mpirun, which may run in a shell started by srun. */
static bool has_mpirun(void) { return has_pmix() && env_number("OMPI_COMM_WORLD_SIZE") > 0; }

/* Reads the beginning of /proc/PID/NAME as text, including NULs. False: there is no such file. */
static bool read_proc(long pid, const char *name, char out[256]) {
  char    path[64];
  int     fd;
  ssize_t n;

  snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  n = fd < 0 ? -1 : read(fd, out, 255);
  if (fd >= 0) close(fd);
  out[n > 0 ? n : 0] = '\0';
  return n > 0;
}

/* Tests whether this process is a batch script. Its parent then calls itself "slurmstepd: [7.batch]". A job
 * submitted from a step keeps the variables of that step, except SLURM_TASK_PID. */
static bool is_batch_script(long pid) {
  char        text[256];
  const char *name_end;
  long        parent;

  if (!read_proc(pid, "stat", text)) return false;
  name_end = strrchr(text, ')');
  if (!name_end || sscanf(name_end + 1, " %*c %ld", &parent) != 1 || !read_proc(parent, "cmdline", text))
    return false;
  return !strncmp(text, "slurmstepd: ", strlen("slurmstepd: ")) && strstr(text, ".batch]");
}

/* Tests for a live task of srun: this process or one above it. A batch script, and its children without srun,
 * have the step "batch", no step, or the variables of another job's step. */
static bool in_slurm_step(void) {
  long task = env_number("SLURM_TASK_PID");

  return env_number("SLURM_STEP_ID") >= 0 && env_number("SLURM_PROCID") >= 0 && task > 0 &&
         (!kill((pid_t)task, 0) || errno == EPERM) && !is_batch_script(task);
}

/* A command in a step of one task, such as `srun --pty bash`, is a run of its own. The step's PMIx server
 * accepts only the first MPI program of the task. Without PMIx, Open MPI refuses to start there. */
static bool is_lone_task(void) {
  return in_slurm_step() && env_number("SLURM_STEP_NUM_TASKS") == 1 && !has_mpirun() &&
         !(has_pmi_line() && env_number("PMI_SIZE") > 1);
}

static bool has_launcher(void) { return has_pmix() || has_pmi() || in_slurm_step(); }

int tri_runtime_env_rank(void) {
  /* The rank is kept because the launcher may end before this process. */
  static int rank = -1;

  if (rank < 0)
    rank = (int)(has_mpirun()      ? env_number("PMIX_RANK")
                 : has_pmi_line()  ? env_number("PMI_RANK")
                 : has_pmix()      ? env_number("PMIX_RANK")
                 : has_pmi()       ? env_number("PMI_RANK")
                 : in_slurm_step() ? env_number("SLURM_PROCID")
                                   : 0);
  return rank;
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* Intel's mpi.h gives another number than its library. */
const char *tri_runtime_mpi_built(void) {
#if defined(OMPI_MAJOR_VERSION)
  return "Open MPI v" TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION) && !defined(I_MPI_VERSION)
  return MPICH_VERSION;
#else
  return "";
#endif
}

/* A PMIx server tells the number only through its own interface, so the launcher's variables are read
 * instead. */
void tri_runtime_env_ranks(int *ranks, int *machine_ranks) {
  bool mpirun = has_mpirun();
  bool slurm = !mpirun && in_slurm_step();
  bool pmi = !mpirun && !slurm && has_pmi();
  long all = mpirun  ? env_number("OMPI_COMM_WORLD_SIZE")
             : slurm ? env_number("SLURM_STEP_NUM_TASKS")
             : pmi   ? env_number("PMI_SIZE")
                     : 1;
  long here = mpirun  ? env_number("OMPI_COMM_WORLD_LOCAL_SIZE")
              : slurm ? env_number("SLURM_STEP_TASKS_PER_NODE")
              : pmi   ? env_number("MPI_LOCALNRANKS")
                      : 1;

  *ranks = all > 0 && all <= TRI_RUNTIME_MOST_RANKS ? (int)all : 1;
  *machine_ranks = here > 0 && *ranks % here == 0 ? (int)here : *ranks;
}

bool tri_runtime_by_mpirun(void) { return has_pmix() && getenv("OMPI_COMM_WORLD_SIZE"); }

bool tri_runtime_speaks_alone(void) {
  static const char *const name[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};

  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (env_number(name[i]) >= 0) return !was_together && env_number(name[i]) == 0;
  return !was_together;
}

static bool is_lost(void) { return getenv("PMIX_NAMESPACE") && !has_launcher(); }

tri_status tri_runtime_check_launcher(void) {
  static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  bool                     is_one_of_many = env_number("PMIX_RANK") > 0;

  for (size_t i = 0; i < sizeof size / sizeof *size; i++)
    is_one_of_many = is_one_of_many || env_number(size[i]) > 1;
  if (is_lost() && is_one_of_many)
    TRI_FAIL(
        TRI_EDEVICE,
        "by PMIX_NAMESPACE=%s this is one rank of several, but their launcher was not found. It has ended, "
        "or a container hides it.\n"
        "  Start the run by srun or mpirun. To train on one rank: unset "
        "PMIX_RANK OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS",
        getenv("PMIX_NAMESPACE"));
  return TRI_OK;
}

/* Removes a launcher's variables. MPI would look for the launcher otherwise. */
static void forget_launcher(void) {
  static const char *const prefix[] = {
      "PMIX_",      "PMI_",         "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix",
      "SLURM_STEP", "SLURM_PROCID", "SLURM_LOCALID",    "SLURM_NODEID", "SLURM_TASK_PID", "SLURM_MPI_TYPE"};
  char name[128];

  for (size_t i = 0; environ[i];) {
    size_t n = strcspn(environ[i], "="), k = 0;
    while (k < sizeof prefix / sizeof *prefix && strncmp(environ[i], prefix[k], strlen(prefix[k])) != 0) k++;
    if (k == sizeof prefix / sizeof *prefix || n >= sizeof name) {
      i++;
      continue;
    }
    memcpy(name, environ[i], n);
    name[n] = 0;
    unsetenv(name); /* the later variables move up */
  }
}

/* Counts the hardware threads open to all ranks of this machine together. Launchers often bind each rank to
 * its own. */
static tri_status count_machine_cores(tri_runtime *rt) {
  cpu_set_t mine, all;

  rt->machine_cores = rt->cores;
  if (!tri_cores_mine(&mine, sizeof mine)) return TRI_OK;
  TRI_MPI(MPI_Allreduce(&mine, &all, (int)sizeof all, MPI_BYTE, MPI_BOR, *(MPI_Comm *)rt->mpi_machine));
  rt->machine_cores = CPU_COUNT(&all);
  return TRI_OK;
}

static void read_quota(tri_quota *out) { tri_quota_read("/sys/fs/cgroup", "/proc/self/cgroup", out); }

/* Ranks in one control group share its limit. */
static tri_status find_quota(tri_runtime *rt) {
  tri_quota  mine, *all = NULL;
  tri_status st = TRI_OK;

  read_quota(&mine);
  TRI_TRY_DONE(TRI_ALLOC(all, rt->machine_ranks));
  TRI_MPI_DONE(
      MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, *(MPI_Comm *)rt->mpi_machine));
  rt->quota_cores = tri_quota_share(&mine, all, rt->machine_ranks);
done:
  TRI_FREE(all);
  return st;
}

static int count_cores(void) {
  cpu_set_t set;
  long      n = sysconf(_SC_NPROCESSORS_ONLN);

  if (tri_cores_mine(&set, sizeof set)) return CPU_COUNT(&set);
  return n > 0 ? (int)n : 1; /* for more than 1024 hardware threads */
}

/* Gives Open MPI a shorter start on one node, and lets a waiting rank yield its core. Never overrides the
 * user. */
static void tune_mpi(void) {
  bool slurm = !getenv("OMPI_COMM_WORLD_SIZE") && in_slurm_step();
  long size = slurm ? env_number("SLURM_STEP_NUM_TASKS") : env_number("OMPI_COMM_WORLD_SIZE");
  long local = slurm ? env_number("SLURM_STEP_TASKS_PER_NODE") : env_number("OMPI_COMM_WORLD_LOCAL_SIZE");
  bool one_node = slurm ? env_number("SLURM_STEP_NUM_NODES") == 1 : size > 0 && size == local;

  if (!has_launcher()) {
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0); /* without it Open MPI starts a daemon */
    /* Processes started at the same time would all create and remove the same folder, and some would fail.
     * Only shared file pointers need it, and nothing here uses them. */
    setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
    setenv("OMPI_MCA_sharedfp", "^sm", 0);
    one_node = true;
  }
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* other processes may need the cores, now or later */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
  if (one_node) {
    setenv("OMPI_MCA_pml", "ob1", 0);
    /* tcp serves a node with a full /dev/shm, which vader cannot use */
    setenv("OMPI_MCA_btl", "self,vader,tcp", 0);
  }
#else
  (void)one_node;
#endif
}

/* ---- MPI ---- */

/* Returns the launcher's variable for the number of ranks, and a name for the launcher. NULL: there is
 * none. */
static const char *size_variable(const char **launcher) {
  bool pmi = !has_mpirun() && (has_pmi_line() || (has_pmi() && !in_slurm_step()));

  *launcher = has_mpirun() ? "Open MPI's mpirun"
              : pmi        ? "a PMI launcher (such as mpirun of MPICH or Intel MPI)"
                           : "srun";
  if (has_mpirun()) return "OMPI_COMM_WORLD_SIZE";
  return pmi ? "PMI_SIZE" : in_slurm_step() ? "SLURM_STEP_NUM_TASKS" : NULL;
}

/* Detects a launcher of another MPI. Its ranks do not find each other, and each would be a run of its own. */
static tri_status check_size(void) {
  const char *launcher, *name = size_variable(&launcher);
  long        said = name ? env_number(name) : 1;
  char        library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int         size = 0, n;

  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 1 || said <= 1) return TRI_OK;
  MPI_Get_library_version(library, &n);
  library[strcspn(library, ",\n")] = '\0';
  TRI_FAIL(TRI_EDEVICE,
           "%s=%ld, but MPI knows of 1 rank only. The launcher is %s, and this program's MPI is %s.\n"
           "  Use the mpirun of this MPI, or srun with an --mpi it supports (srun --mpi=list). For one rank: "
           "unset %s",
           name, said, launcher, library, name);
}

static tri_status start_mpi(void) {
  int started = 0, level = 0;

  MPI_Initialized(&started);
  if (!started) {
    if (is_lost() || is_lone_task()) forget_launcher();
    tune_mpi();
    TRI_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
    mpi_is_ours = true;
  }
  was_together = true;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED)
    TRI_FAIL(TRI_ECOMM, "this MPI offers thread level %d only, but MPI_THREAD_SERIALIZED (%d) is needed",
             level, MPI_THREAD_SERIALIZED);
  TRI_TRY(check_size());
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return TRI_OK;
}

static bool mpi_runs(void) {
  int started = 0, ended = 0;

  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started && !ended;
}

/* Every rank tells this about its machine. */
typedef struct rank_info {
  char host[64];
  int  leader; /* lowest MPI_COMM_WORLD rank on the machine */
} rank_info;

/* Takes node, nodes, local_rank and local_size from MPI. Every rank fails alike. */
static tri_status find_nodes(tri_runtime *rt, int rank) {
  rank_info  mine = {.leader = rank}, *info = NULL;
  MPI_Comm   machine = *(MPI_Comm *)rt->mpi_machine;
  int       *n = NULL; /* [world]: number of ranks on this leader's machine */
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(info, rt->world_size));
  TRI_TRY_DONE(TRI_ALLOC(n, rt->world_size));
  memcpy(mine.host, rt->host, sizeof mine.host);
  TRI_MPI_DONE(MPI_Allreduce(MPI_IN_PLACE, &mine.leader, 1, MPI_INT, MPI_MIN, machine));
  TRI_MPI_DONE(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, info, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
  rt->nodes = 0;
  for (int r = 0; r < rt->world_size; r++) {
    if (info[r].leader == r && mine.leader == r) rt->node = rt->nodes;
    if (info[r].leader == r) rt->nodes++;
    n[info[r].leader]++;
  }
  for (int r = 0; r < rt->world_size; r++)
    if (n[r] && n[r] != n[0])
      TRI_FAIL_DONE(
          TRI_EARG,
          "the nodes have unequal numbers of ranks: %s has %d, %s has %d (%d ranks on %d nodes). Start the "
          "same number on each, for example with srun --ntasks-per-node",
          info[0].host, n[0], info[r].host, n[r], rt->world_size, rt->nodes);
  rt->local_rank = rt->machine_rank;
  rt->local_size = rt->machine_ranks;
done:
  TRI_FREE(info);
  TRI_FREE(n);
  return st;
}

static tri_status pretend_nodes(tri_runtime *rt, int rank, int ranks_per_node) {
  if (ranks_per_node > rt->world_size) ranks_per_node = rt->world_size; /* fewer ranks than one node has */
  if (rt->world_size % ranks_per_node)
    TRI_FAIL(TRI_EARG, "run.ranks_per_node = %d does not divide the %d ranks of this job", ranks_per_node,
             rt->world_size);
  rt->local_size = ranks_per_node;
  rt->local_rank = rank % ranks_per_node;
  rt->node = rank / ranks_per_node;
  rt->nodes = rt->world_size / ranks_per_node;
  return TRI_OK;
}

/* ---- open, close ---- */

static tri_status make_comms(tri_runtime *rt, int rank, int ranks_per_node) {
  MPI_Comm *world, *machine;

  TRI_TRY(tri_host_alloc(1, sizeof(MPI_Comm), &rt->mpi_world));
  world = rt->mpi_world;
  *world = MPI_COMM_NULL;
  TRI_TRY(tri_host_alloc(1, sizeof(MPI_Comm), &rt->mpi_machine));
  machine = rt->mpi_machine;
  *machine = MPI_COMM_NULL;
  TRI_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, machine));
  MPI_Comm_set_errhandler(*machine, MPI_ERRORS_RETURN);
  MPI_Comm_size(*machine, &rt->machine_ranks);
  MPI_Comm_rank(*machine, &rt->machine_rank);
  TRI_TRY(tri_pmix_compare(rt));
  if (ranks_per_node > 0)
    TRI_TRY(pretend_nodes(rt, rank, ranks_per_node));
  else
    TRI_TRY(find_nodes(rt, rank));
  TRI_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, rt->local_rank * rt->nodes + rt->node, world));
  MPI_Comm_set_errhandler(*world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(*world, &rt->world_rank);
  TRI_ASSERT(rt->world_rank == rt->local_rank * rt->nodes + rt->node);
  return TRI_OK;
}

static tri_status open_runtime(int ranks_per_node, tri_runtime *out) {
  int        rank = 0;
  tri_status st = TRI_OK;

  *out = (tri_runtime){.cores = count_cores(), .tensor = 1};
  n_open++;
  if (gethostname(out->host, sizeof out->host - 1) || !out->host[0]) strcpy(out->host, "localhost");
  TRI_TRY_DONE(start_mpi());
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &out->world_size);
  out->world_rank = rank;
  out->launcher = !has_launcher()                                      ? "single"
                  : getenv("OMPI_COMM_WORLD_SIZE") || !in_slurm_step() ? "mpi"
                                                                       : "slurm";
  TRI_TRY_DONE(make_comms(out, rank, ranks_per_node));
  TRI_TRY_DONE(count_machine_cores(out));
  TRI_TRY_DONE(find_quota(out));
  if (fate_comm == MPI_COMM_NULL) TRI_MPI_DONE(MPI_Comm_dup(MPI_COMM_WORLD, &fate_comm));
done:
  if (st == TRI_EARG) tri_runtime_close(out); /* others leave MPI up, since its end could wait for ranks */
  return st;
}

tri_status tri_runtime_open(int ranks_per_node, tri_runtime *out) {
  tri_status st;

  tri_rank_status_enter(TRI_WORLD, "the start of MPI");
  st = open_runtime(ranks_per_node, out);
  tri_rank_status_leave(false);
  return st;
}

tri_status tri_runtime_pretend(int ranks, int machine_ranks, int ranks_per_node, tri_runtime *out) {
  long      online = sysconf(_SC_NPROCESSORS_ONLN);
  tri_quota mine;

  read_quota(&mine);
  *out = (tri_runtime){.world_size = ranks, .machine_ranks = machine_ranks, .launcher = "check", .tensor = 1};
  out->cores = count_cores();
  out->quota_cores = tri_quota_share(&mine, &mine, 1) / machine_ranks;
  out->machine_cores = online > out->cores && machine_ranks > 1 ? (int)online : out->cores;
  if (out->machine_cores / machine_ranks > out->cores) out->machine_cores = out->cores * machine_ranks;
  return pretend_nodes(out, 0, ranks_per_node > 0 ? ranks_per_node : machine_ranks);
}

static void free_comm(void **comm) {
  MPI_Comm *c = *comm;

  if (c && *c != MPI_COMM_NULL && mpi_runs()) MPI_Comm_free(c);
  tri_host_free(comm);
}

tri_place tri_runtime_place(const tri_runtime *rt) {
  return (tri_place){rt->local_rank, rt->local_size, rt->node, rt->nodes, rt->tensor};
}

void tri_runtime_close(tri_runtime *rt) {
  if (!rt->host[0]) return; /* not opened, or closed already */
  free_comm(&rt->mpi_world);
  free_comm(&rt->mpi_machine);
  *rt = (tri_runtime){0};
  if (--n_open > 0) return;
  if (fate_comm != MPI_COMM_NULL && mpi_runs()) MPI_Comm_free(&fate_comm);
  if (mpi_is_ours && mpi_runs()) MPI_Finalize();
}

bool tri_runtime_all_failed(void) {
  static int  one = 1, sum; /* MPI may still write there after the wait */
  static bool alone;
  int         size = 1, done = 0;
  double      began_s = tri_now_s();
  MPI_Request req;
  tri_pause   pause = {0};

  if (alone) return false;
  if (!mpi_runs() || fate_comm == MPI_COMM_NULL) return true;
  MPI_Comm_size(fate_comm, &size);
  if (size == 1) return true;
  if (MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, fate_comm, &req)) return false;
  while (!done && tri_now_s() - began_s < FATE_WAIT_S) {
    if (MPI_Test(&req, &done, MPI_STATUS_IGNORE)) return false;
    tri_pause_idle(&pause);
  }
  alone = !done || sum != size;
  return !alone;
}

static volatile sig_atomic_t last_code;

static void on_alarm(int signal) {
  (void)signal;
  tri_child_kill_all();
  _exit(last_code);
}

void tri_runtime_abort_within(int seconds, int code) {
  struct sigaction act = {.sa_handler = on_alarm};

  last_code = code;
  sigaction(SIGALRM, &act, NULL);
  alarm((unsigned)seconds);
}

void tri_runtime_abort(int code) {
  int size = 1;

  tri_peers_leave(); /* no rank should report this one as dead */
  fflush(NULL);
  tri_child_kill_all();
  tri_runtime_abort_within(ALONE_S, code);
  if (mpi_runs()) MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) MPI_Abort(MPI_COMM_WORLD, code);
  if (!mpi_runs() && in_slurm_step()) tri_pmix_abort(code);
  _exit(code); /* skips exit handlers, since a library's could wait for dead ranks */
}
