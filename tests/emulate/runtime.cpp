/* runtime.cpp - the CUDA runtime of the emulation: device memory, streams, events, copies, graphs, faults.
 * Test code.
 *
 * Device memory comes from one large range of addresses. Each block lies between pages nobody may touch. It
 * can be touched only while queued work runs. A stream's work runs when the host waits for it. With
 * $TRI_EMULATE_EAGER, a seed, it runs by chance as early as a GPU could run it, so work not ordered by an
 * event is seen in either order. Events give the device's clock. By that clock, work began once it was queued
 * and its dependencies had ended, beside other streams' work, and took as long as it took here. One thread
 * calls. Other threads may only query its events, and that starts nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "impl.cuh"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

struct CUevent_st {
  const std::thread::id owner = std::this_thread::get_id();
  std::atomic<uint64_t> recorded, done; /* numbers of its newest record, as queued and as run, or 0 */
  cudaStream_t          stream;         /* stream of the newest record */
  double                at_s;
  bool                  asked;    /* by a query that answered "not yet" */
  uint64_t              captured; /* number of the capture of its newest record, or 0 */
};

struct CUstream_st {
  struct step {
    std::function<void()> work;
    cudaEvent_t           record, wait; /* at most one of them */
    uint64_t              number;       /* number of that record */
    cudaStream_t          from;         /* stream that records the awaited event */
    double                queued_s;
    bool                  meets; /* other ranks, it runs if all of them choose so */
  };
  std::deque<step> steps;
  double           at_s;    /* on the device's clock, the end of the last work */
  bool             hurries; /* for now, its work runs as early as it may */
};

struct CUgraph_st { /* work of one stream in order */
  std::vector<std::function<void()>> work;
  std::vector<emu_meeting>           meetings; /* those of its work that wait for other ranks */
};

struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st> graph; /* shared with the queued runs */
};

namespace {

enum {
  PAGE = 4096,
  ALIGN = 256,
  EAGER_CALLS = 12 /* chosen, calls until a stream begins or stops to hurry, on average */
};
const size_t LARGE = (size_t)2 << 20; /* a large page of x86-64 */
const size_t KEPT = 4 * LARGE;        /* chosen, freed blocks up to it keep their pages, new ones are slow */
const size_t RANGE_BYTES = (size_t)1 << 40, TOTAL_BYTES = (size_t)8 << 30; /* chosen, a small GPU */

struct block {
  size_t bytes, room; /* requested, and mapped */
  bool   sparse;      /* not counted */
};
std::map<char *, block>               device_blocks, pinned_blocks; /* by address */
std::vector<cudaStream_t>             streams;
std::map<size_t, std::vector<char *>> spare; /* freed ranges by size */
char                                 *range, *range_end;
size_t                                in_use;
int                                   open_depth, current_device;
uint64_t                              records, captures;
cudaStream_t                          capturing; /* or NULL */
std::shared_ptr<CUgraph_st>           captured;  /* NULL if the capture was invalidated */
cudaError_t                           last_error, stuck;

cudaError_t give(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}

/* Gives the error of a call during a capture, and makes the capture invalid. */
cudaError_t break_capture(cudaError_t e) {
  captured.reset();
  return give(e);
}
/* Calls that wait or may wait are refused, because the capture is not "relaxed". */
cudaError_t check_unsafe() {
  return capturing ? break_capture(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

double now_s() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* For the running work: seconds spent on the device only, and its total if it set one (else < 0). */
double spent_s, taken_s;

/* Returns the end of the work on the device's clock, if it begins at begin_s. */
double run_timed(const std::function<void()> &work, double begin_s) {
  double from_s = now_s();

  spent_s = 0;
  taken_s = -1;
  work();
  return begin_s + (taken_s < 0 ? now_s() - from_s : taken_s) + spent_s;
}

const block *find(const std::map<char *, block> &in, const void *p, size_t bytes) {
  auto it = in.upper_bound((char *)p);
  if (it == in.begin()) return NULL;
  --it;
  return (size_t)((char *)p - it->first) + bytes <= it->second.bytes ? &it->second : NULL;
}

bool in_range(const void *p) { return range && (char *)p >= range && (char *)p < range + RANGE_BYTES; }

bool known(cudaStream_t s) {
  for (cudaStream_t t : streams)
    if (t == s) return true;
  return false;
}

/* Returns whether the first step of s waits neither for another stream nor for other ranks. */
bool is_free(cudaStream_t s) {
  if (s->steps.empty()) return false;
  const CUstream_st::step &step = s->steps.front();
  return !step.meets && !(step.wait && step.wait->done < step.number);
}

const uint64_t FREE = UINT64_MAX;

/* Runs the steps of s up to the record `number` (0 for all), or with FREE those that wait for nothing. */
void run(cudaStream_t s, uint64_t number) {
  bool opened = false; /* only for work, as opening and closing takes longer than an event */

  while (number == FREE ? is_free(s) : !s->steps.empty()) {
    CUstream_st::step step = std::move(s->steps.front());
    s->steps.pop_front();
    s->at_s = std::max(s->at_s, step.queued_s);
    if (step.wait) {
      if (step.wait->done < step.number) run(step.from, step.number);
      s->at_s = std::max(s->at_s, step.wait->at_s);
    } else if (step.record) {
      step.record->done = step.number;
      step.record->at_s = s->at_s;
      if (number && step.number >= number) break; /* FREE is above all numbers */
    } else {
      if (!opened) emu_memory_begin();
      opened = true;
      s->at_s = run_timed(step.work, s->at_s);
    }
  }
  if (opened) emu_memory_end();
}

void run_all() {
  for (cudaStream_t s : streams) run(s, 0);
}

/* $TRI_EMULATE_EAGER, or 0 if it is not set and all work runs late. */
uint64_t eager_seed() {
  static const char *const text = getenv("TRI_EMULATE_EAGER");
  static const uint64_t    seed = text ? strtoull(text, NULL, 0) : 0;
  if (text && seed == 0) emu_fail("TRI_EMULATE_EAGER=%s is no seed: a number that is not 0", text);
  return seed;
}

/* Called after each call that queues something. Streams are late for some calls, then early for some, each in
 * its own way. So for a while one is far ahead of another. */
cudaError_t run_some(cudaError_t e) {
  static uint64_t n;
  if (!eager_seed() || open_depth) return e;
  for (cudaStream_t s : streams) {
    if (emu_mix(eager_seed() + ++n) % EAGER_CALLS == 0) s->hurries = !s->hurries;
    if (s->hurries && is_free(s)) run(s, FREE);
  }
  return e;
}

struct sigaction before;

void on_fault(int signal, siginfo_t *info, void *) {
  const char *what = emu_explain_shared(info->si_addr);

  if (!what) what = emu_explain_device(info->si_addr);
  if (what) emu_fail("%s (address %p)", what, info->si_addr);
  sigaction(signal, &before, NULL); /* not ours, so it happens again and other handlers see it */
}

} /* namespace */

void emu_watch_faults(void) {
  static char     *stack;
  struct sigaction want = {}, is;

  if (!stack) {
    stack_t s = {};
    stack = (char *)malloc(1 << 16);
    s.ss_sp = stack, s.ss_size = 1 << 16;
    sigaltstack(&s, NULL);
  }
  if (!sigaction(SIGSEGV, NULL, &is) && (is.sa_flags & SA_SIGINFO) && is.sa_sigaction == on_fault) return;
  want.sa_sigaction = on_fault;
  want.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &want, &before);
}

const char *emu_explain_device(const void *p) {
  if (!in_range(p)) return NULL;
  if (find(device_blocks, p, 0)) return "the host touched device memory";
  return "an access outside of every device allocation";
}

const char *emu_device_range(const void *p, size_t bytes) {
  if (!in_range(p)) return "this is host memory";
  return find(device_blocks, p, bytes) ? NULL : "this is not inside one device allocation";
}

void emu_memory_begin(void) {
  if (open_depth++) return;
  emu_watch_faults();
  for (auto &b : device_blocks) mprotect(b.first, b.second.room, PROT_READ | PROT_WRITE);
}

void emu_memory_end(void) {
  if (--open_depth || !range) return;
  mprotect(range, (size_t)(range_end - range), PROT_NONE); /* one call for all of them */
}

void emu_take_memory(long bytes) { in_use += (size_t)bytes; }

void emu_spend(double s) { spent_s += s; }
void emu_take(double s) { taken_s = s; }

bool emu_is_early(uint64_t number) { return eager_seed() && emu_mix(eager_seed() ^ emu_mix(number)) % 2; }

static cudaError_t queue(cudaStream_t s, std::function<void()> work, bool meets) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  emu_watch_faults();
  if (s == capturing) {
    if (!captured) return give(cudaErrorStreamCaptureInvalidated);
    captured->work.push_back(std::move(work));
  } else {
    s->steps.push_back({std::move(work), NULL, NULL, 0, NULL, now_s(), meets});
  }
  return run_some(cudaSuccess);
}

cudaError_t emu_queue(cudaStream_t s, std::function<void()> work) { return queue(s, std::move(work), false); }

/* Queues work with these meetings, of which none is captured now. */
static cudaError_t queue_meetings(cudaStream_t s, std::function<void()> work,
                                  const std::vector<emu_meeting> &meetings) {
  for (const emu_meeting &m : meetings) m.begin(s);
  cudaError_t e = queue(s, std::move(work), !meetings.empty());
  for (const emu_meeting &m : meetings) m.end(s);
  return e;
}

cudaError_t emu_queue_meeting(cudaStream_t s, std::function<void()> work, const emu_meeting &m) {
  if (s != capturing) return queue_meetings(s, std::move(work), {m});
  if (captured) captured->meetings.push_back(m);
  return queue(s, std::move(work), true);
}

/* ---- errors, devices ---- */

void emu_stick(cudaError_t e) { stuck = e; }

const char *cudaGetErrorName(cudaError_t e) {
  switch (e) {
  case cudaSuccess:
    return "cudaSuccess";
  case cudaErrorInvalidValue:
    return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorInvalidConfiguration:
    return "cudaErrorInvalidConfiguration";
  case cudaErrorNoDevice:
    return "cudaErrorNoDevice";
  case cudaErrorInvalidDevice:
    return "cudaErrorInvalidDevice";
  case cudaErrorInvalidResourceHandle:
    return "cudaErrorInvalidResourceHandle";
  case cudaErrorIllegalState:
    return "cudaErrorIllegalState";
  case cudaErrorNotReady:
    return "cudaErrorNotReady";
  case cudaErrorStreamCaptureUnsupported:
    return "cudaErrorStreamCaptureUnsupported";
  case cudaErrorStreamCaptureInvalidated:
    return "cudaErrorStreamCaptureInvalidated";
  case cudaErrorStreamCaptureIsolation:
    return "cudaErrorStreamCaptureIsolation";
  case cudaErrorCapturedEvent:
    return "cudaErrorCapturedEvent";
  }
  return "an unknown error";
}
const char *cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }

cudaError_t cudaGetLastError(void) {
  cudaError_t e = last_error;
  last_error = cudaSuccess;
  return e;
}

cudaError_t cudaDriverGetVersion(int *version) { return *version = 13000, cudaSuccess; }

cudaError_t cudaGetDeviceCount(int *n) {
  const char *given = getenv("TRI_EMULATE_DEVICES");
  *n = given ? atoi(given) : 8;
  return give(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  int n;
  cudaGetDeviceCount(&n);
  if (device < 0 || device >= n) return give(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) { return *device = current_device, cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device) {
  int n;
  cudaGetDeviceCount(&n);
  if (device < 0 || device >= n) return give(cudaErrorInvalidDevice);
  *out = {};
  snprintf(out->name, sizeof out->name, "emulated GPU");
  memset(out->uuid.bytes, device + 1, sizeof out->uuid.bytes);
  out->totalGlobalMem = TOTAL_BYTES;
  out->sharedMemPerBlockOptin = emu_shared_read();
  out->major = getenv("TRI_EMULATE_SHARED") ? 8 : 9; /* like the GPUs with less, 8.9 */
  out->minor = getenv("TRI_EMULATE_SHARED") ? 9 : 0;
  out->l2CacheSize = 1 << 16;
  const char *given = getenv("TRI_EMULATE_SM");
  out->multiProcessorCount = given ? atoi(given) : 3; /* chosen, so that grids limited by it take turns */
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  if (cudaError_t e = check_unsafe()) return e;
  return run_all(), cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *bytes_free, size_t *bytes_total) {
  *bytes_total = TOTAL_BYTES;
  *bytes_free = in_use < TOTAL_BYTES ? TOTAL_BYTES - in_use : 0;
  return cudaSuccess;
}

/* ---- memory ---- */

static void set_tail(char *p, const block &b,
                     bool check) { /* behind the requested bytes, up to the page's end */
  for (size_t i = b.bytes; i < b.room; i++) {
    if (check && p[i] != 0x5a)
      emu_fail("device memory was written beyond the %zu bytes of an allocation", b.bytes);
    p[i] = 0x5a;
  }
}

/* Takes addresses for `room` bytes, with pages nobody may touch on both sides. */
static char *take_range(size_t room) {
  char *p;

  if (!range) {
    range = (char *)mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) emu_fail("no room for device addresses");
    range_end = range + PAGE;
    madvise(range, RANGE_BYTES, MADV_HUGEPAGE);
  }
  if (!spare[room].empty()) {
    p = spare[room].back();
    spare[room].pop_back();
    return p;
  }
  if (room >= LARGE) range_end += (LARGE - (size_t)range_end % LARGE) % LARGE;
  p = range_end;
  range_end += room + PAGE;
  if (range_end > range + RANGE_BYTES) emu_fail("no room for device addresses");
  return p;
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
  /* Large pages open and close quickly. */
  size_t unit = bytes >= LARGE / 2 ? LARGE : (size_t)PAGE, room = (bytes + unit - 1) / unit * unit;
  char  *p;

  *out = NULL;
  if (cudaError_t e = check_unsafe()) return e;
  if (bytes == 0) return cudaSuccess;
  if (in_use > TOTAL_BYTES || bytes > TOTAL_BYTES - in_use || room > TOTAL_BYTES)
    return give(cudaErrorMemoryAllocation);
  p = take_range(room);
  block &b = device_blocks[p] = {bytes, room, false};
  in_use += bytes;
  mprotect(p, room, PROT_READ | PROT_WRITE);
  memset(p, 0xff, bytes); /* not zero, as nobody promised zeros */
  set_tail(p, b, false);
  if (!open_depth) mprotect(p, room, PROT_NONE);
  emu_watch_faults();
  *out = p;
  return cudaSuccess;
}

void *emu_sparse(size_t bytes) {
  size_t room = (bytes + LARGE - 1) / LARGE * LARGE;
  char  *p = take_range(room);

  madvise(p, room, MADV_DONTNEED);   /* zeros again, if a block that kept its pages was here */
  madvise(p, room, MADV_NOHUGEPAGE); /* a page for a row, not two million bytes */
  mprotect(p, room, PROT_READ | PROT_WRITE);
  set_tail(p, device_blocks[p] = {bytes, room, true}, false);
  mprotect(p, room, PROT_NONE);
  return p;
}

cudaError_t cudaFree(void *p) {
  if (!p) return cudaSuccess;
  if (cudaError_t e = check_unsafe()) return e;
  auto it = device_blocks.find((char *)p);
  if (it == device_blocks.end()) return give(cudaErrorInvalidValue);
  run_all();
  mprotect(p, it->second.room, PROT_READ | PROT_WRITE);
  set_tail((char *)p, it->second, true);
  if (it->second.sparse || it->second.room > KEPT) madvise(p, it->second.room, MADV_DONTNEED);
  mprotect(p, it->second.room, PROT_NONE);
  if (!it->second.sparse) in_use -= it->second.bytes;
  spare[it->second.room].push_back((char *)p);
  device_blocks.erase(it);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) {
  *out = NULL;
  if (cudaError_t e = check_unsafe()) return e;
  if (bytes > TOTAL_BYTES) return give(cudaErrorMemoryAllocation);
  *out = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE + PAGE);
  if (!*out) return give(cudaErrorMemoryAllocation);
  memset(*out, 0xff, bytes);
  pinned_blocks[(char *)*out] = {bytes, bytes, false};
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p) {
  if (!p) return cudaSuccess;
  if (cudaError_t e = check_unsafe()) return e;
  if (!pinned_blocks.erase((char *)p)) return give(cudaErrorInvalidValue);
  run_all();
  free(p);
  return cudaSuccess;
}

/* Returns whether one side of a copy is device memory. Ends the program if the copy leaves its allocation. */
static bool is_device(const void *p, size_t bytes, const char *what) {
  if (!in_range(p)) return false;
  if (!find(device_blocks, p, bytes))
    emu_fail("a copy of %zu bytes leaves the device memory of its %s", bytes, what);
  return true;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind, cudaStream_t s) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!dst || !src) return give(cudaErrorInvalidValue);
  bool to_device = is_device(dst, bytes, "target"), from_device = is_device(src, bytes, "source");
  bool late =
      (to_device || find(pinned_blocks, dst, bytes)) && (from_device || find(pinned_blocks, src, bytes));

  if (late) return emu_queue(s, [=] { memcpy(dst, src, bytes); });
  if (s == capturing) return check_unsafe(); /* a later run would use other contents */
  if (to_device) {                           /* pageable memory is read before the call returns */
    std::vector<char> kept((const char *)src, (const char *)src + bytes);
    return emu_queue(s, [dst, kept = std::move(kept)] { memcpy(dst, kept.data(), kept.size()); });
  }
  emu_queue(s, [=] { memcpy(dst, src, bytes); });
  return run(s, 0), cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t s) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!is_device(dst, bytes, "target") && !find(pinned_blocks, dst, bytes))
    return give(cudaErrorInvalidValue);
  return emu_queue(s, [=] { memset(dst, byte, bytes); });
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
  *out = new CUstream_st();
  streams.push_back(*out);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *most) {
  return *least = 0, *most = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  if (priority > 0 || priority < -5) return give(cudaErrorInvalidValue);
  return cudaStreamCreateWithFlags(out, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (cudaError_t e = check_unsafe()) return e;
  run_all();
  for (size_t i = 0; i < streams.size(); i++)
    if (streams[i] == s) {
      streams.erase(streams.begin() + (long)i);
      break;
    }
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (s == capturing) return check_unsafe();
  run(s, 0);
  return give(stuck);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (s == capturing && !captured) return give(cudaErrorStreamCaptureInvalidated);
  if (s == capturing && e->captured != captures && (e->recorded || e->captured))
    return break_capture(cudaErrorStreamCaptureIsolation);
  if (s == capturing) return cudaSuccess; /* in its own capture, so in order anyway */
  if (e->captured && capturing)
    emu_fail("a stream waits for an event of a capture and so joins it; one stream's is emulated");
  if (e->captured) return give(cudaErrorCapturedEvent);
  if (e->recorded > e->done) s->steps.push_back({{}, NULL, e, e->recorded, e->stream, now_s(), false});
  return run_some(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
  return *out = new CUevent_st(), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  run_all();
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (s == capturing && !captured) return give(cudaErrorStreamCaptureInvalidated);
  e->captured = s == capturing ? captures : 0;
  if (e->captured) return cudaSuccess;
  e->recorded = ++records;
  e->stream = s;
  s->steps.push_back({{}, e, NULL, e->recorded, NULL, now_s(), false});
  return run_some(cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (cudaError_t unsafe = check_unsafe()) return unsafe;
  if (e->captured) return give(cudaErrorCapturedEvent);
  if (e->done < e->recorded) run(e->stream, e->recorded);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) { /* the second query finds it done */
  if (e->owner != std::this_thread::get_id()) return e->done < e->recorded ? cudaErrorNotReady : cudaSuccess;
  if (cudaError_t unsafe = check_unsafe()) return unsafe;
  if (e->captured) return give(cudaErrorCapturedEvent);
  if (e->done < e->recorded && e->asked) run(e->stream, e->recorded);
  e->asked = e->done < e->recorded;
  return e->asked ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  if (from->captured || to->captured) return give(cudaErrorCapturedEvent);
  if (!from->recorded || !to->recorded) return give(cudaErrorInvalidResourceHandle);
  if (from->done < from->recorded || to->done < to->recorded) return give(cudaErrorNotReady);
  *ms = (float)(1e3 * (to->at_s - from->at_s));
  return cudaSuccess;
}

/* ---- captures and graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
  if (!known(s)) return give(cudaErrorInvalidResourceHandle);
  if (capturing) return give(cudaErrorIllegalState);
  if (mode != cudaStreamCaptureModeThreadLocal) emu_fail("a capture is not of this thread only");
  capturing = s;
  captures++;
  captured = std::make_shared<CUgraph_st>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
  *out = NULL;
  if (!s || s != capturing) return give(cudaErrorIllegalState);
  capturing = NULL;
  if (!captured) return give(cudaErrorStreamCaptureInvalidated);
  *out = new CUgraph_st(*captured);
  captured.reset();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) { return delete g, cudaSuccess; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long) {
  *out = new CUgraphExec_st{std::make_shared<CUgraph_st>(*g)};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
  if (s == capturing) emu_fail("a graph is launched into a capture; that is not emulated");
  auto work = [graph = g->graph] {
    for (auto &one : graph->work) one();
  };
  return queue_meetings(s, work, g->graph->meetings);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { return delete g, cudaSuccess; }
