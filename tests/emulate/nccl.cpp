/* nccl.cpp - NCCL of the emulation: communicators that take their time, and collectives over MPI. Test
 * code.
 *
 * Before the data of a collective, every two of its ranks exchange a note about it. The notes pass through
 * one MPI communicator in the order of the collectives, on whatever communicators these are. Ranks that call
 * collectives in different order read each other's note and end. NCCL itself would hang. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define OMPI_SKIP_MPICXX  1 /* MPI's C++ classes (of Open MPI and MPICH) need one more library */
#define MPICH_SKIP_MPICXX 1
#include "nccl.h"
#include "impl.cuh"

#include "base/tensor.h"

#include <atomic>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

/* Ranks connected together. */
struct family {
  MPI_Comm notes;
  int      rank; /* this process */
};

struct ncclComm {
  MPI_Comm                mpi;
  int                     rank, size;
  std::vector<int>        member; /* [size], its ranks' numbers in the family */
  std::shared_ptr<family> kin;
  char                    name[64]; /* equal on all its ranks */
  std::atomic<bool>       aborted;
  bool                    gone, finalized;
  /* A call in progress. Some of its ranks have not come, or looks are left. `then` is its last step. */
  bool                  busy;
  MPI_Request           arrival;
  int                   looks;
  std::function<void()> then;
  ncclResult_t          result; /* result of the last call, once not busy */
  uint64_t              n_splits, n_launches;
  long                  taken;          /* bytes of device memory */
  uint64_t              n_calls, n_run; /* collectives queued, and those that had their turn in the stream */
  std::vector<void *>   registered;     /* their addresses serve as handles */
};

namespace {

enum { VERSION = NCCL_VERSION_CODE, TAG = 1, ID_BYTE = 0x5e };
const double START_S = 20e-6, BYTES_PER_S = 1e9; /* chosen, time of a collective on the device's clock */
enum { INIT_LOOKS = 3, SPLIT_LOOKS = 2, FINALIZE_LOOKS = 5 }; /* chosen, more than one */

std::mutex                             lock; /* guards the next member, used by two threads */
std::vector<std::unique_ptr<ncclComm>> all;  /* never forgotten, to detect late use */
int                                    group_depth;
uint64_t                               n_started; /* collectives this process began */
uint64_t                               n_called;  /* collectives queued by it */
cudaEvent_t                            previous;  /* the newest collective launched */

void mpi(int code, const char *what) {
  if (code != MPI_SUCCESS) emu_fail("NCCL: %s failed", what);
}
#define MPI(call) mpi(call, #call)

/* Returns c, which must be alive. */
ncclComm *get(ncclComm_t c, const char *call) {
  std::lock_guard<std::mutex> hold(lock);
  bool                        made = false;

  for (auto &k : all) made = made || k.get() == c;
  if (!made) emu_fail("%s: %p is no communicator", call, (void *)c);
  if (c->gone) emu_fail("%s: communicator %s was destroyed or aborted", call, c->name);
  return c;
}

/* The same, but c must also be free for a new call. */
ncclComm *get_idle(ncclComm_t c, const char *call) {
  get(c, call);
  if (c->busy) emu_fail("%s: communicator %s is still in progress: ask it first", call, c->name);
  if (c->result != ncclSuccess) emu_fail("%s: communicator %s has failed", call, c->name);
  return c;
}

ncclComm *add(MPI_Comm m, std::shared_ptr<family> kin, const char *name) {
  std::unique_ptr<ncclComm> k(new ncclComm());

  k->mpi = m;
  k->arrival = MPI_REQUEST_NULL;
  MPI(MPI_Comm_rank(m, &k->rank));
  MPI(MPI_Comm_size(m, &k->size));
  k->member.resize((size_t)k->size);
  MPI(MPI_Allgather(&kin->rank, 1, MPI_INT, k->member.data(), 1, MPI_INT, m));
  k->kin = kin;
  snprintf(k->name, sizeof k->name, "%s", name);
  std::lock_guard<std::mutex> hold(lock);
  all.push_back(std::move(k));
  return all.back().get();
}

/* Begins a call. Every rank of k must come, then the caller looks `looks` times, then `then` runs. */
void begin(ncclComm *k, int looks, std::function<void()> then) {
  MPI(MPI_Ibarrier(k->mpi, &k->arrival));
  k->busy = true;
  k->looks = looks;
  k->then = std::move(then);
}

void step(ncclComm *k) {
  int there = 1;

  if (!k->busy) return;
  if (k->arrival != MPI_REQUEST_NULL) MPI(MPI_Test(&k->arrival, &there, MPI_STATUS_IGNORE));
  if (!there || k->looks-- > 0) return;
  k->busy = false;
  if (k->then) k->then();
  k->then = nullptr;
}

/* NCCL may write a non-blocking communicator after its maker stopped waiting, as after a time-out. So its
 * place must not be on a stack. */
void check_place(ncclComm_t *out, const char *call) {
  pthread_attr_t a;
  void          *low = NULL;
  size_t         bytes = 0;

  if (pthread_getattr_np(pthread_self(), &a) || pthread_attr_getstack(&a, &low, &bytes)) return;
  pthread_attr_destroy(&a);
  if ((char *)out >= (char *)low && (char *)out < (char *)low + bytes)
    emu_fail("%s: the new communicator's place is on the stack, where NCCL may write it too late", call);
}

/* The data of a rank when ranks connect. */
struct card {
  ncclUniqueId id;
  char         host[64];
  int          device, rank, n;
};

/* As in NCCL, ranks of one host, or of one $NCCL_HOSTID, need a GPU each. */
ncclResult_t check_cards(ncclComm *k, const ncclUniqueId &id, int rank, int n) {
  std::vector<card> cards((size_t)k->size);
  card              mine = {};
  const char       *host = getenv("NCCL_HOSTID");

  mine.id = id, mine.rank = rank, mine.n = n;
  snprintf(mine.host, sizeof mine.host, "%s", host ? host : "");
  cudaGetDevice(&mine.device);
  MPI(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, cards.data(), (int)sizeof mine, MPI_BYTE, k->mpi));
  for (int r = 0; r < k->size; r++) {
    const card &c = cards[(size_t)r];
    if (memcmp(&c.id, &id, sizeof id) || id.internal[0] != ID_BYTE)
      emu_fail("ncclCommInitRankConfig: the unique id of rank %d is not that of rank %d", c.rank, rank);
    if (c.n != n || c.n != k->size || c.rank != r)
      emu_fail("ncclCommInitRankConfig: %d ranks, and one calls itself %d of %d", k->size, c.rank, c.n);
    for (int q = 0; q < r; q++)
      if (!strcmp(cards[(size_t)q].host, c.host) && cards[(size_t)q].device == c.device)
        return ncclInvalidUsage;
  }
  return ncclSuccess;
}

/* ---- collectives ---- */

struct call {
  const char    *what; /* all equal names are one literal of this file */
  const void    *send;
  void          *recv;
  size_t         n;
  ncclDataType_t type;
  int            op;
};

/* The note ranks exchange before a collective. */
struct note {
  char     comm[64], what[32];
  uint64_t number, n;
  int      type, op;
};

size_t size_of(ncclDataType_t t) {
  switch (t) {
  case ncclUint8:
    return 1;
  case ncclBfloat16:
  case ncclFloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
    return 8;
  default:
    emu_fail("NCCL: elements of type %d are not emulated", t);
  }
}

/* The ranges may be disjoint, or `part` is piece `rank` of `whole`. */
void check_overlap(const ncclComm *k, const char *what, const char *whole, size_t whole_bytes,
                   const char *part, size_t part_bytes) {
  if (part + part_bytes <= whole || whole + whole_bytes <= part) return;
  if (part != whole + (whole_bytes == part_bytes ? 0 : (size_t)k->rank * part_bytes))
    emu_fail("%s: the buffers overlap, and not as a collective in place of rank %d does", what, k->rank);
}

void check_buffers(const ncclComm *k, const call &c) {
  bool   gather = !strcmp(c.what, "ncclAllGather"), scatter = !strcmp(c.what, "ncclReduceScatter");
  size_t one = c.n * size_of(c.type), every = one * (size_t)k->size;
  size_t send_bytes = scatter ? every : one, recv_bytes = gather ? every : one;

  if ((uintptr_t)c.send % size_of(c.type) || (uintptr_t)c.recv % size_of(c.type))
    emu_fail("%s: a buffer is not aligned to its type", c.what);
  if (const char *why = emu_device_range(c.recv, recv_bytes)) emu_fail("%s: recv: %s", c.what, why);
  if (const char *why = emu_device_range(c.send, send_bytes)) emu_fail("%s: send: %s", c.what, why);
  if (scatter)
    check_overlap(k, c.what, (const char *)c.send, send_bytes, (const char *)c.recv, recv_bytes);
  else
    check_overlap(k, c.what, (const char *)c.recv, recv_bytes, (const char *)c.send, send_bytes);
}

/* Checks between every two ranks of k that it is the same collective. */
void compare_notes(const ncclComm *k, const call &c, uint64_t number) {
  std::vector<note>        got((size_t)k->size);
  std::vector<MPI_Request> requests;
  note                     mine = {};

  snprintf(mine.comm, sizeof mine.comm, "%s", k->name);
  snprintf(mine.what, sizeof mine.what, "%s", c.what);
  mine.number = number, mine.n = c.n, mine.type = c.type, mine.op = c.op;
  for (int r = 0; r < k->size; r++) {
    MPI_Request q[2];
    int         other = k->member[(size_t)r];
    if (r == k->rank) continue;
    MPI(MPI_Irecv(&got[(size_t)r], (int)sizeof mine, MPI_BYTE, other, TAG, k->kin->notes, &q[0]));
    MPI(MPI_Isend(&mine, (int)sizeof mine, MPI_BYTE, other, TAG, k->kin->notes, &q[1]));
    requests.insert(requests.end(), q, q + 2);
  }
  MPI(MPI_Waitall((int)requests.size(), requests.data(), MPI_STATUSES_IGNORE));
  for (int r = 0; r < k->size; r++) {
    const note &o = got[(size_t)r];
    if (r == k->rank || !memcmp(&o, &mine, sizeof mine)) continue;
    emu_fail("NCCL: ranks disagree: rank %d is at %s number %llu of communicator %s (%llu elements, type "
             "%d, op %d), rank %d at %s number %llu of %s (%llu elements, type %d, op %d)",
             k->kin->rank, mine.what, (unsigned long long)mine.number, mine.comm, (unsigned long long)mine.n,
             mine.type, mine.op, k->member[(size_t)r], o.what, (unsigned long long)o.number, o.comm,
             (unsigned long long)o.n, o.type, o.op);
  }
}

template <class T> T combine(T a, T b, int op) { return op == ncclMax ? (a > b ? a : b) : (T)(a + b); }

/* into[i] = into[i] op x[i] */
void reduce(void *into, const void *x, size_t n, ncclDataType_t t, int op) {
  for (size_t i = 0; i < n; i++) {
    if (t == ncclUint8) ((uint8_t *)into)[i] = combine(((uint8_t *)into)[i], ((const uint8_t *)x)[i], op);
    if (t == ncclInt32) ((int32_t *)into)[i] = combine(((int32_t *)into)[i], ((const int32_t *)x)[i], op);
    if (t == ncclInt64) ((int64_t *)into)[i] = combine(((int64_t *)into)[i], ((const int64_t *)x)[i], op);
    if (t == ncclFloat32) ((float *)into)[i] = combine(((float *)into)[i], ((const float *)x)[i], op);
    if (t == ncclBfloat16)
      ((uint16_t *)into)[i] = tri_f32_to_bf16(
          combine(tri_bf16_to_f32(((uint16_t *)into)[i]), tri_bf16_to_f32(((const uint16_t *)x)[i]), op));
    if (t == ncclFloat16)
      ((uint16_t *)into)[i] = tri_f32_to_f16(
          combine(tri_f16_to_f32(((uint16_t *)into)[i]), tri_f16_to_f32(((const uint16_t *)x)[i]), op));
  }
}

void move(const ncclComm *k, const call &c) {
  size_t            one = c.n * size_of(c.type), size = (size_t)k->size;
  int               bytes = (int)one;
  std::vector<char> kept, pieces;

  if (one * size > INT_MAX) emu_fail("%s: more bytes than are emulated", c.what);
  pieces.resize(one * size);
  if (!strcmp(c.what, "ncclReduceScatter")) {
    MPI(MPI_Alltoall(c.send, bytes, MPI_BYTE, pieces.data(), bytes, MPI_BYTE, k->mpi));
  } else {
    kept.assign((const char *)c.send, (const char *)c.send + one);
    MPI(MPI_Allgather(kept.data(), bytes, MPI_BYTE, pieces.data(), bytes, MPI_BYTE, k->mpi));
  }
  if (!strcmp(c.what, "ncclAllGather")) {
    memcpy(c.recv, pieces.data(), pieces.size());
    return;
  }
  for (size_t r = 1; r < size; r++) reduce(pieces.data(), pieces.data() + r * one, c.n, c.type, c.op);
  memcpy(c.recv, pieces.data(), one);
}

void stop_here(const ncclComm *k) {
  const char *text = getenv("TRI_EMULATE_NCCL_STOP");
  int         rank, number, sig;

  if (!text) return;
  if (sscanf(text, "%d:%d:%d", &rank, &number, &sig) != 3)
    emu_fail("TRI_EMULATE_NCCL_STOP=%s is not RANK:NUMBER:SIGNAL", text);
  if (k->kin->rank == rank && n_started == (uint64_t)number) raise(sig);
}

/* Takes the collective's turn in its stream. */
void run(ncclComm *k, const call &c) {
  uint64_t number = ++k->n_run;

  if (k->aborted) { /* like NCCL's kernels, it quits at once */
    memset(c.recv, 0xff, c.n * size_of(c.type) * (strcmp(c.what, "ncclAllGather") ? 1 : (size_t)k->size));
    return;
  }
  n_started++;
  stop_here(k);
  compare_notes(k, c, number);
  move(k, c);
  emu_take(START_S + (double)(c.n * size_of(c.type) * (size_t)k->size) / BYTES_PER_S);
}

/* Queues one collective, or captures it. Ordered launches wait for the previous one. NCCL lets them overlap
 * if possible, but may do this. An early one runs here, with everything it waits for, as all its ranks come
 * to it in this call. */
void queue(ncclComm *k, const call &c, cudaStream_t s) {
  const char *text = getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), *what = c.what;
  bool        ordered = text && atoi(text) == 1;
  auto        check = [what](cudaError_t e) {
    if (e != cudaSuccess) emu_fail("%s cannot be queued: %s", what, cudaGetErrorName(e));
  };
  emu_meeting m;

  m.begin = [=](cudaStream_t stream) {
    if (k->gone && !k->aborted) emu_fail("%s of a graph: communicator %s was destroyed", what, k->name);
    k->n_calls++;
    if (ordered && !previous) cudaEventCreateWithFlags(&previous, cudaEventDisableTiming);
    if (ordered) check(cudaStreamWaitEvent(stream, previous, 0));
  };
  m.end = [=](cudaStream_t stream) {
    if (ordered) check(cudaEventRecord(previous, stream));
    if (emu_is_early(++n_called)) check(cudaStreamSynchronize(stream));
  };
  check(emu_queue_meeting(
      s, [=] { run(k, c); }, m));
}

/* Launches these collectives of k, which takes a while. */
ncclResult_t launch(ncclComm *k, const std::vector<call> &calls, cudaStream_t s) {
  uint64_t    number = ++k->n_launches;
  const char *bytes = number == 1 ? getenv("TRI_EMULATE_NCCL_BYTES") : NULL;

  if (bytes) emu_take_memory(k->taken = atol(bytes));
  k->busy = true;
  k->looks = (int)(number % 3);
  k->then = [=] {
    for (const call &c : calls) queue(k, c, s);
  };
  if (k->looks == 0) step(k);
  return k->busy ? ncclInProgress : ncclSuccess;
}

/* The collectives of a group run side by side, in any order. */
struct group {
  ncclComm         *k;
  cudaStream_t      stream;
  std::vector<call> calls;
} grouped;

struct range {
  const char *begin, *end;
};
bool  meet(const range &a, const range &b) { return a.begin < b.end && b.begin < a.end; }
range sent(const ncclComm *k, const call &c) {
  size_t one = c.n * size_of(c.type) * (strcmp(c.what, "ncclReduceScatter") ? 1 : (size_t)k->size);
  return {(const char *)c.send, (const char *)c.send + one};
}
range received(const ncclComm *k, const call &c) {
  size_t one = c.n * size_of(c.type) * (strcmp(c.what, "ncclAllGather") ? 1 : (size_t)k->size);
  return {(const char *)c.recv, (const char *)c.recv + one};
}

ncclResult_t join_group(ncclComm *k, const call &c, cudaStream_t s) {
  if (!grouped.calls.empty() && (grouped.k != k || grouped.stream != s))
    emu_fail("%s: a group of several communicators or streams is not emulated", c.what);
  for (const call &o : grouped.calls)
    if (meet(received(k, c), received(k, o)) || meet(received(k, c), sent(k, o)) ||
        meet(sent(k, c), received(k, o)))
      emu_fail("%s: two calls of a group write and read the same memory", c.what);
  grouped.k = k, grouped.stream = s;
  grouped.calls.push_back(c);
  return ncclSuccess;
}

ncclResult_t collective(ncclComm_t comm, call c, cudaStream_t s) {
  ncclComm *k = get_idle(comm, c.what);

  if (k->finalized) emu_fail("%s: communicator %s was finalized", c.what, k->name);
  if (c.op != ncclSum && c.op != ncclMax) emu_fail("%s: operation %d is not emulated", c.what, c.op);
  if (c.n == 0) return ncclSuccess;
  check_buffers(k, c);
  return group_depth ? join_group(k, c, s) : launch(k, {c}, s);
}

} /* namespace */

/* ---- communicators ---- */

ncclResult_t ncclGetVersion(int *version) { return *version = VERSION, ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int n;

  memset(id, 0, sizeof *id);
  id->internal[0] = ID_BYTE;
  snprintf(id->internal + 1, sizeof id->internal - 1, "%d", ++n);
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r) {
  static const char *const text[] = {"no error",
                                     "unhandled cuda error",
                                     "unhandled system error",
                                     "internal error",
                                     "invalid argument",
                                     "invalid usage",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
  return (unsigned)r < sizeof text / sizeof text[0] ? text[r] : "unknown result code";
}
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
  std::shared_ptr<family> kin = std::make_shared<family>();
  MPI_Comm                m;

  if (!config || config->blocking != 0 || config->size != sizeof *config || config->magic != 0xcafebeef)
    emu_fail("ncclCommInitRankConfig: only a configuration that does not block is emulated");
  check_place(out, "ncclCommInitRankConfig");
  MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &m));
  MPI(MPI_Comm_dup(m, &kin->notes));
  MPI(MPI_Comm_rank(m, &kin->rank));
  *out = add(m, kin, "world");
  ncclComm *k = *out;
  begin(k, INIT_LOOKS, [=] { k->result = check_cards(k, id, rank, n); });
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config) {
  ncclComm *p = get_idle(parent, "ncclCommSplit");
  char      name[64];

  check_place(out, "ncclCommSplit");
  if (config) emu_fail("ncclCommSplit: only the parent's configuration is emulated");
  if (p->finalized) emu_fail("ncclCommSplit: communicator %s was finalized", p->name);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) emu_fail("ncclCommSplit: color %d", color);
  snprintf(name, sizeof name, "%.30s.%llu(%d)", p->name, (unsigned long long)++p->n_splits, color);
  std::string text = name;
  *out = NULL;
  begin(p, SPLIT_LOOKS, [=] {
    MPI_Comm m;
    MPI(MPI_Comm_split(p->mpi, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &m));
    if (m != MPI_COMM_NULL) *out = add(m, p->kin, text.c_str());
  });
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out) {
  ncclComm *k = get(comm, "ncclCommGetAsyncError");

  step(k);
  *out = k->busy ? ncclInProgress : k->result;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  ncclComm *k = get_idle(comm, "ncclCommFinalize");

  if (k->finalized) emu_fail("ncclCommFinalize: communicator %s was finalized before", k->name);
  if (k->n_run != k->n_calls)
    emu_fail("ncclCommFinalize: collectives of %s wait in a stream: synchronize it first", k->name);
  k->finalized = true;
  begin(k, FINALIZE_LOOKS, nullptr);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ncclComm *k = get_idle(comm, "ncclCommDestroy");

  if (!k->finalized) emu_fail("ncclCommDestroy: communicator %s was not finalized", k->name);
  if (!k->registered.empty()) emu_fail("ncclCommDestroy: %s has a registered buffer", k->name);
  k->gone = true;
  emu_take_memory(-k->taken);
  MPI(MPI_Comm_free(&k->mpi));
  if (k->kin.use_count() == 1) MPI(MPI_Comm_free(&k->kin->notes));
  k->kin = nullptr;
  return ncclInProgress; /* permitted, and nobody may ask about the rest */
}

/* Does not call MPI, because a rank may be gone, or another thread may be inside MPI. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ncclComm *k = get(comm, "ncclCommAbort");

  k->aborted = true;
  k->gone = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) { return group_depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd(void) {
  if (group_depth-- == 0) emu_fail("ncclGroupEnd without ncclGroupStart");
  if (group_depth || grouped.calls.empty()) return ncclSuccess;
  group whole = std::move(grouped);
  grouped = {};
  return launch(whole.k, whole.calls, whole.stream);
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *p, size_t bytes, void **handle) {
  ncclComm   *k = get_idle(comm, "ncclCommRegister");
  const char *answer = getenv("TRI_EMULATE_NCCL_REGISTER");

  if (const char *why = emu_device_range(p, bytes)) emu_fail("ncclCommRegister: %s", why);
  *handle = NULL;
  if (answer && !strcmp(answer, "refuse")) {
    *handle = p; /* as if garbage were there */
    return ncclInvalidUsage;
  }
  if (answer && !strcmp(answer, "off")) return ncclSuccess;
  k->registered.push_back(p);
  *handle = p;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  ncclComm *k = get_idle(comm, "ncclCommDeregister");

  for (size_t i = 0; i < k->registered.size(); i++)
    if (k->registered[i] == handle) {
      k->registered.erase(k->registered.begin() + (long)i);
      return ncclSuccess;
    }
  emu_fail("ncclCommDeregister: no buffer of %s has this handle", k->name);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t t, ncclComm_t comm,
                           cudaStream_t s) {
  return collective(comm, {"ncclAllGather", send, recv, n, t, ncclSum}, s);
}
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n, ncclDataType_t t, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t s) {
  return collective(comm, {"ncclReduceScatter", send, recv, n, t, op}, s);
}
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n, ncclDataType_t t, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t s) {
  return collective(comm, {"ncclAllReduce", send, recv, n, t, op}, s);
}
