/* test_comm.c - every collective, scope, element type, device and way, and the control plane. Run with 1, 2,
 * 3 and 4 ranks on one machine. Judge: a loop over the ranks in rank order, compared bit for bit. Rank r's
 * input is a pure function of r. NCCL promises no order of sums, so its inputs are small whole numbers with
 * exact sums in any order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm/peers/proc_state.h"
#include "comm/peers/rank_status.h"
#include "comm/session.h"
#include "dead_case.h"
#include "device_case.h"
#include "filter_case.h"
#include "ranks_case.h"
#include "refusal_case.h"

#include <signal.h>
#include <sys/resource.h>

enum {
  MAX_RANKS = 4,
  /* A prime number of elements that needs several pieces of the mpi way's staging buffer with 4 ranks. */
  BIG = 700001,
  SMALL = 256 << 10,
  FILES = 256, /* more than a test has open */
  /* Bytes of most cases, and of body_big. The emulation is slow for every page. */
  ARENA = 24 << 20
};

/* Ways to test. On CPUs:
 *   UNSTARTED  MPI carries the collectives
 *   FORCED     TRI_COMM=mpi
 *   STARTED    shared memory
 *   OUTSIDE    started, but one rank's buffers are outside its arena, so all ranks must take MPI
 * On GPUs: NCCL. */
typedef enum { UNSTARTED, FORCED, STARTED, OUTSIDE, STAGED, NCCL, N_WAYS } way;
static const char *const way_name[] = {"shm", "mpi", "shm", "shm", "staged", "nccl"};
static const char *const way_asked[] = {NULL, "mpi", NULL, NULL, "staged", "nccl"};

typedef struct setup {
  tri_runtime rt;
  tri_device *d;
  tri_stream *s;
  tri_comm   *comm[TRI_SCOPE_COUNT];
  size_t      bytes;            /* an arena's bytes */
  char       *arena;            /* on the host, for the cases */
  char       *far;              /* on the device, copied by the cases */
  void       *block[2], *stage; /* device memory, page-locked memory */
  way         w;
} setup;

static char near[ARENA];
static bool in_stream; /* collectives in the caller's stream are announced */
static bool few_files; /* a rank may not reopen its neighbours' blocks */

static void ask_for(const char *comm) {
  if (comm)
    setenv("TRI_COMM", comm, 1);
  else
    unsetenv("TRI_COMM");
}

/* NCCL refuses several ranks of one machine on one GPU, so they appear as ranks of different machines. */
static void allow_sharing(const tri_device *d) {
  char host[32];
  int  sharers;

  CHECK(tri_comm_sharers(&rt, world, d, &sharers) == TRI_OK);
  if (sharers == 1) return;
  snprintf(host, sizeof host, "rank%d", rt.world_rank);
  setenv("NCCL_HOSTID", host, 1);
  setenv("NCCL_NET", "Socket", 1);
  setenv("NCCL_MNNVL_ENABLE", "0", 1);
}

/* With pretended nodes as machines, the emulated NCCL alternates between accepting and refusing to register
 * the arena. */
static void pretend_machines(setup *u) {
  static const char *const answer[] = {"accept", "refuse", "off"};
  static int               turn;
  bool                     first = u->rt.world_rank == 0;

  if (!TRI_CUDA_EMULATED || u->rt.nodes == 1) return;
  snprintf(u->rt.host, sizeof u->rt.host, "node%d", u->rt.node);
  setenv("TRI_EMULATE_NCCL_REGISTER", answer[first && turn % 4 == 3 ? 1 : turn % 4 % 3], 1);
  turn++;
}

/* Uses up all but two of the files this process may open. One is for the control block, and one for temporary
 * use. */
static struct {
  struct rlimit limit;
  int           fd[FILES];
} taken;

static void take_files(void) {
  int n = 0;

  CHECK(getrlimit(RLIMIT_NOFILE, &taken.limit) == 0);
  CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES, taken.limit.rlim_max}) == 0);
  while ((taken.fd[n] = dup(0)) >= 0) n++;
  CHECK(n >= 2);
  close(taken.fd[--n]);
  close(taken.fd[--n]);
  taken.fd[n] = -1;
}

static void give_files(void) {
  for (int i = 0; taken.fd[i] >= 0; i++) close(taken.fd[i]);
  CHECK(setrlimit(RLIMIT_NOFILE, &taken.limit) == 0);
}

/* False: this build lacks the communicator. */
static bool open_setup(setup *u, const char *device, int ranks_per_node, int tensor, way w, size_t bytes) {
  size_t     stage_bytes;
  tri_status st;

  memset(u, 0, sizeof *u);
  u->w = w;
  u->bytes = bytes;
  u->arena = near;
  ask_for(way_asked[w]);
  CHECK(tri_runtime_open(ranks_per_node, &u->rt) == TRI_OK);
  u->rt.tensor = tensor;
  CHECK(tri_device_open(device, u->rt.local_rank, 2, &u->d) == TRI_OK);
  if (w == NCCL) allow_sharing(u->d), pretend_machines(u);
  CHECK(u->d->ops->stream_open(u->d, "comm", &u->s) == TRI_OK);
  CHECK(u->d->ops->alloc(u->d, TRI_MEM_DEVICE, bytes + 4096, &u->block[0]) == TRI_OK);
  u->far = (char *)u->block[0] +
           4096 * (u->rt.world_rank % 2); /* arenas may begin at different places of their blocks */
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    st = tri_comm_open(&u->rt, (tri_scope)i, u->d, &u->comm[i]);
    if (w == NCCL && st == TRI_EABSENT) return false;
    CHECK(st == TRI_OK);
  }
  stage_bytes = tri_comm_stage_bytes(u->comm);
  CHECK(!stage_bytes == (w != STAGED || rt.world_size == 1));
  if (stage_bytes) CHECK(u->d->ops->alloc(u->d, TRI_MEM_PINNED, stage_bytes, &u->stage) == TRI_OK);
  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    for (int k = 0; k < TRI_COLL_KINDS; k++) {
      tri_comm_expect(u->comm[i], (tri_coll_kind)k);
      if (in_stream) tri_comm_expect_in_stream(u->comm[i], (tri_coll_kind)k);
    }
  const tri_comm_memory m = {u->far, u->far, bytes, bytes, 0, u->stage};
  if (few_files) take_files();
  if (w != UNSTARTED) CHECK(tri_comm_start(&u->rt, u->comm, u->d, &m) == TRI_OK);
  if (few_files) give_files();
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) CHECK(!strcmp(tri_comm_way_text(u->comm[i]->way), way_name[w]));
  if (w == OUTSIDE && u->rt.world_rank == u->rt.world_size - 1) {
    CHECK(u->d->ops->alloc(u->d, TRI_MEM_DEVICE, bytes, &u->block[1]) == TRI_OK);
    u->far = u->block[1];
  }
  return true;
}

static void close_setup(setup *u) {
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) tri_comm_close(&u->comm[i]);
  u->d->ops->free(u->d, TRI_MEM_PINNED, &u->stage);
  for (int i = 0; i < 2; i++) u->d->ops->free(u->d, TRI_MEM_DEVICE, &u->block[i]);
  u->d->ops->stream_close(&u->s);
  tri_device_close(&u->d);
  tri_runtime_close(&u->rt);
  tri_error_clear();
}

/* Returns the device's address for p in the arena. */
static void *far(const setup *u, const void *p) { return u->far + ((const char *)p - u->arena); }

/* This only queues the copy. The next collective must run after it. */
static void put(const setup *u, const void *p, size_t bytes) {
  CHECK(u->d->ops->copy(u->s, far(u, p), p, bytes) == TRI_OK);
}

static void get(const setup *u, void *p, size_t bytes) {
  CHECK(u->d->ops->copy(u->s, p, far(u, p), bytes) == TRI_OK);
  CHECK(u->d->ops->stream_sync(u->s) == TRI_OK);
}

/* ---- values ---- */

static uint64_t mix(uint64_t x) { /* splitmix64 (Steele, Lea, Flood 2014) */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static bool any_order; /* sums have an unknown order */

/* Element i of rank r's input. Floats have full mantissas, so a wrong order of a sum shows. */
static void put_value(void *buf, int64_t at, tri_dtype t, int r, int64_t i, int salt) {
  uint64_t u = mix((uint64_t)i * 64 + (uint64_t)r + ((uint64_t)salt << 50));
  float    f = (float)((double)(u >> 40) / (1 << 23) - 1.0);

  if (any_order) f = (float)(int)(u >> 59) - 16.0f;
  if (t == TRI_F32) ((float *)buf)[at] = f;
  if (t == TRI_BF16 || t == TRI_F16) ((uint16_t *)buf)[at] = tri_f32_to_half(t, f);
  if (t == TRI_I32) ((int32_t *)buf)[at] = (int32_t)(u >> 34) - (1 << 29);
  if (t == TRI_I64) ((int64_t *)buf)[at] = (int64_t)(u >> 4) - ((int64_t)1 << 59);
  if (t == TRI_U8) ((uint8_t *)buf)[at] = (uint8_t)(u >> 60);
}

static void put_values(void *buf, int64_t n, tri_dtype t, int r, int salt) {
  for (int64_t i = 0; i < n; i++) put_value(buf, i, t, r, i, salt);
}

static double value_at(const void *buf, int64_t at, tri_dtype t) { /* except i64 */
  return t == TRI_F32                    ? (double)((const float *)buf)[at]
         : t == TRI_BF16 || t == TRI_F16 ? (double)tri_half_to_f32(t, ((const uint16_t *)buf)[at])
         : t == TRI_I32                  ? (double)((const int32_t *)buf)[at]
                                         : (double)((const uint8_t *)buf)[at];
}

/* Computes out[at] from element i of all `size` inputs, with sums in rank order. */
static void put_reduced(void *out, int64_t at, tri_dtype t, tri_redop op, int size, int64_t i, int salt) {
  int64_t x[MAX_RANKS] = {0}; /* space for one element of any type */
  float   f = 0;
  double  wide = 0;
  int64_t whole = 0;

  for (int r = 0; r < size; r++) {
    put_value(&x[r], 0, t, r, i, salt);
    if (t == TRI_I64) {
      whole = r == 0 ? x[r] : op == TRI_SUM ? whole + x[r] : x[r] > whole ? x[r] : whole;
      continue;
    }
    double v = value_at(&x[r], 0, t);
    f = r == 0 ? (float)v : f + (float)v;
    wide = r == 0 ? v : op == TRI_SUM ? wide + v : v > wide ? v : wide;
  }
  if (op == TRI_SUM && tri_dtype_computes(t)) wide = f;
  if (t == TRI_F32) ((float *)out)[at] = (float)wide;
  if (t == TRI_BF16 || t == TRI_F16) ((uint16_t *)out)[at] = tri_f32_to_half(t, (float)wide);
  if (t == TRI_I32) ((int32_t *)out)[at] = (int32_t)wide;
  if (t == TRI_I64) ((int64_t *)out)[at] = whole;
  if (t == TRI_U8) ((uint8_t *)out)[at] = (uint8_t)wide;
}

/* ---- one collective and its judge, with a as send, b as recv, and the wanted result in want ---- */

static char want[ARENA];

static void check_all_gather(setup *u, tri_comm *c, int64_t n, tri_dtype t, bool in_place, int salt) {
  size_t bytes = (size_t)n * tri_dtype_bytes(t), all = bytes * (size_t)c->size;
  char  *recv = u->arena,
       *send = in_place ? recv + (size_t)c->rank * bytes : u->arena + u->bytes - bytes - 512;

  memset(recv, 0x33, all);
  put_values(send, n, t, c->rank, salt);
  put(u, recv, all);
  put(u, send, bytes);
  CHECK(tri_all_gather(c, far(u, recv), far(u, send), n, t, u->s, NULL) == TRI_OK);
  get(u, recv, all);
  for (int r = 0; r < c->size; r++) put_values(want + (size_t)r * bytes, n, t, r, salt);
  CHECK(!memcmp(recv, want, all));
}

static void check_reduce_scatter(setup *u, tri_comm *c, int64_t n, tri_dtype t, tri_redop op, bool in_place,
                                 int salt) {
  size_t bytes = (size_t)n * tri_dtype_bytes(t);
  char  *send = u->arena,
       *recv = in_place ? send + (size_t)c->rank * bytes : u->arena + u->bytes - bytes - 512;

  put_values(send, n * c->size, t, c->rank, salt);
  put(u, send, bytes * (size_t)c->size);
  CHECK(tri_reduce_scatter(c, far(u, recv), far(u, send), n, t, op, u->s, NULL) == TRI_OK);
  get(u, recv, bytes);
  for (int64_t i = 0; i < n; i++) put_reduced(want, i, t, op, c->size, n * c->rank + i, salt);
  CHECK(!memcmp(recv, want, bytes));
}

static void check_all_reduce(setup *u, tri_comm *c, int64_t n, tri_dtype t, tri_redop op, int salt) {
  size_t bytes = (size_t)n * tri_dtype_bytes(t);

  put_values(u->arena, n, t, c->rank, salt);
  put(u, u->arena, bytes);
  CHECK(tri_all_reduce(c, u->far, n, t, op, u->s, NULL) == TRI_OK);
  get(u, u->arena, bytes);
  for (int64_t i = 0; i < n; i++) put_reduced(want, i, t, op, c->size, i, salt);
  CHECK(!memcmp(u->arena, want, bytes));
}

static void check_all(setup *u, tri_comm *c, int64_t n, tri_dtype t) {
  for (int in_place = 0; in_place < 2; in_place++) {
    check_all_gather(u, c, n, t, in_place, 1);
    for (int op = TRI_SUM; op <= TRI_MAX; op++)
      check_reduce_scatter(u, c, n, t, (tri_redop)op, in_place, 2 + op);
  }
  for (int op = TRI_SUM; op <= TRI_MAX; op++) check_all_reduce(u, c, n, t, (tri_redop)op, 4 + op);
}

/* ---- lists of spans ---- */

enum { MOST_SPANS = 70 }; /* twice what a queue holds, and more */

/* A list in the arena from `base` on, with room for any element type. In place, a gather sends its slice of
 * recv, and a scatter receives its slice of send. */
typedef struct list {
  tri_comm_span span[MOST_SPANS]; /* addresses in the host's arena */
  tri_coll_kind kind;
  tri_dtype     dtype;
  int           n, salt;
  bool          in_stream;
} list;

static size_t list_bytes(const list *l, int i) {
  return (size_t)l->span[i].per_rank * tri_dtype_bytes(l->dtype);
}

/* Returns the end of the list's memory. */
static char *make_list(list *l, char *base, const tri_comm *c, tri_coll_kind kind, const int64_t *size, int n,
                       tri_dtype t, bool in_place, int salt) {
  *l = (list){.kind = kind, .dtype = t, .n = n, .salt = salt};
  for (int i = 0; i < n; i++) {
    size_t one = (size_t)size[i] * tri_dtype_bytes(t);
    char *whole = base, *part = in_place ? whole + (size_t)c->rank * one : whole + one * (size_t)c->size + 64;
    bool  gathers = kind == TRI_ALL_GATHER;
    base += (one * (size_t)(c->size + 1) + 191) / 64 * 64;
    l->span[i] = (tri_comm_span){gathers ? whole : part, gathers ? part : whole, size[i]};
  }
  return base;
}

static void fill_list(setup *u, const tri_comm *c, const list *l) {
  for (int i = 0; i < l->n; i++) {
    size_t one = list_bytes(l, i);
    char  *whole = l->kind == TRI_ALL_GATHER ? l->span[i].recv : (char *)(uintptr_t)l->span[i].send;
    char  *sent = (char *)(uintptr_t)l->span[i].send;
    memset(whole, 0x33, one * (size_t)c->size);
    put(u, whole, one * (size_t)c->size);
    put_values(sent, l->span[i].per_rank * (l->kind == TRI_ALL_GATHER ? 1 : c->size), l->dtype, c->rank,
               l->salt + i);
    put(u, sent, one * (l->kind == TRI_ALL_GATHER ? 1 : (size_t)c->size));
  }
}

static tri_status start_list(setup *u, tri_comm *c, const list *l, tri_req *req) {
  tri_comm_span span[MOST_SPANS]; /* free after the call */

  for (int i = 0; i < l->n; i++)
    span[i] = (tri_comm_span){far(u, l->span[i].recv), far(u, l->span[i].send), l->span[i].per_rank};
  if (l->in_stream)
    return tri_collective(c, &(tri_coll){l->kind, span, l->n, l->dtype, TRI_SUM, u->s, true}, req);
  return l->kind == TRI_ALL_GATHER ? tri_all_gather_v(c, span, l->n, l->dtype, u->s, req)
                                   : tri_reduce_scatter_v(c, span, l->n, l->dtype, TRI_SUM, u->s, req);
}

static void judge_list(setup *u, const tri_comm *c, const list *l) {
  for (int i = 0; i < l->n; i++) {
    int64_t n = l->span[i].per_rank;
    size_t  one = list_bytes(l, i), got = one * (l->kind == TRI_ALL_GATHER ? (size_t)c->size : 1);
    if (!n) continue;
    get(u, l->span[i].recv, got);
    for (int r = 0; l->kind == TRI_ALL_GATHER && r < c->size; r++)
      put_values(want + (size_t)r * one, n, l->dtype, r, l->salt + i);
    for (int64_t k = 0; l->kind == TRI_REDUCE_SCATTER && k < n; k++)
      put_reduced(want, k, l->dtype, TRI_SUM, c->size, n * c->rank + k, l->salt + i);
    CHECK(!memcmp(l->span[i].recv, want, got), "span %d of %d", i, l->n);
  }
}

/* A list is one collective, and its traffic is that of its spans. */
static void check_list(setup *u, tri_comm *c, tri_coll_kind kind, const int64_t *size, int n, tri_dtype t,
                       bool in_place) {
  list     l;
  double   before = c->traffic.bytes, bytes = 0;
  uint64_t number = tri_rank_status_newest((int)c->scope);

  CHECK(make_list(&l, u->arena, c, kind, size, n, t, in_place, 30) <= u->arena + u->bytes);
  fill_list(u, c, &l);
  CHECK(start_list(u, c, &l, NULL) == TRI_OK);
  judge_list(u, c, &l);
  for (int i = 0; i < n; i++) bytes += (double)list_bytes(&l, i) * (c->size - 1);
  CHECK(c->traffic.bytes - before == bytes);
  CHECK(tri_rank_status_newest((int)c->scope) - number == (uint64_t)(bytes > 0));
}

/* Checks that this rank's traffic is counted by rings and, except with NCCL, timed. c must have carried
 * nothing yet. */
static void check_traffic(setup *u, tri_comm *c) {
  double all = 4000.0 * (c->size - 1), sum = all + all + 2 * all / c->size;
  bool   timed = c->size > 1 && u->w != NCCL;

  check_all_gather(u, c, 1000, TRI_F32, false, 1);
  check_reduce_scatter(u, c, 1000, TRI_F32, TRI_SUM, false, 2);
  check_all_reduce(u, c, 1000, TRI_F32, TRI_SUM, 3);
  CHECK(c->traffic.step_bytes == sum && c->traffic.bytes == sum);
  CHECK((c->traffic.step_best.s > 0) == timed && (c->traffic.best.s > 0) == timed);
  CHECK(c->traffic.most == (timed ? all : 0));
  tri_comm_traffic_begin(c);
  CHECK(c->traffic.step_bytes == 0 && c->traffic.step_best.s == 0 && c->traffic.bytes == sum);
}

/* ---- tests, each for every device, way and number of ranks per pretended node ---- */

static bool serves(way w, const char *device) {
  return w == STAGED || (strcmp(device, "cpu") ? w == NCCL : w < STAGED);
}

/* most: the largest number of ranks that hold one model together. Every number up to it that divides a node
 * is tested. */
static void for_divided(size_t bytes, int most, void (*body)(setup *u)) {
  static const int ranks_per_node[] = {0, 1, 2};
  const char      *only = getenv("TRI_TEST_COMM"); /* one of way_name, or all */

  for (int dev = 0; tri_device_at(dev); dev++)
    for (int w = 0; w < N_WAYS; w++)
      for (int i = 0; i < 3 * most; i++) {
        setup u;
        bool  one = rt.world_size == 1; /* a scope of one rank never tests the place of a buffer */
        int   node = ranks_per_node[i / most], tensor = 1 + i % most;
        if (!test_on(tri_device_at(dev)->name) || !serves((way)w, tri_device_at(dev)->name)) continue;
        if (only && strcmp(only, way_name[w])) continue;
        if (node && rt.world_size % node) continue;
        if (one && node == 2) continue;
        if ((node ? node : rt.world_size) % tensor) continue;
        any_order = w == NCCL;
        if (open_setup(&u, tri_device_at(dev)->name, node, tensor, (way)w, bytes)) body(&u);
        close_setup(&u);
      }
  ask_for(NULL);
}

static void for_all(size_t bytes, void (*body)(setup *u)) { for_divided(bytes, 1, body); }

/* For up to 3 nodes of 4 ranks: the communicators of a scope have every rank once. */
static void check_places(tri_scope s, int ranks, int nodes, int tensor) {
  int             met[12][12] = {{0}};
  tri_scope_place first;

  if (ranks % tensor) return;
  first = tri_scope_find(s, &(tri_place){0, ranks, 0, nodes, tensor});
  CHECK(first.n * first.size == ranks * nodes && first.which == 0 && first.rank == 0);
  for (int l = 0; l < ranks; l++)
    for (int k = 0; k < nodes; k++) {
      tri_scope_place x = tri_scope_find(s, &(tri_place){l, ranks, k, nodes, tensor});
      CHECK(x.n == first.n && x.size == first.size && x.nodes == first.nodes && x.which < x.n &&
            x.rank < x.size);
      CHECK(!met[x.which][x.rank]++);
    }
}

static void test_places(void **state) {
  const tri_place at = {2, 3, 1, 2, 1}, divided = {2, 8, 1, 3, 4};
  tri_scope_place x = tri_scope_find(TRI_WORLD, &at);

  (void)state;
  for (int s = 0; s < TRI_SCOPE_COUNT; s++) {
    CHECK(strcmp(tri_scope_text((tri_scope)s), "?") != 0);
    for (int i = 0; i < 48; i++) check_places((tri_scope)s, 1 + i / 12, 1 + i / 4 % 3, 1 + i % 4);
  }
  CHECK(x.rank == 5 && x.size == 6 && x.nodes == 2 && !x.of[0] &&
        !strcmp(tri_scope_text(TRI_WORLD), "world"));
  x = tri_scope_find(TRI_NODE, &at);
  CHECK(x.which == 1 && x.n == 2 && x.rank == 2 && x.nodes == 1 && !strcmp(x.of, "node"));
  x = tri_scope_find(TRI_CROSS, &at);
  CHECK(x.which == 2 && x.n == 3 && x.rank == 1 && x.nodes == 2 && !strcmp(x.of, "local rank"));
  x = tri_scope_find(TRI_TENSOR, &at);
  CHECK(x.size == 1 && x.rank == 0 && x.which == 5 && x.n == 6 &&
        tri_scope_same(TRI_TENSOR, &at) == TRI_TENSOR);
  CHECK(tri_scope_find(TRI_MATES, &at).size == 3 && tri_scope_same(TRI_MATES, &at) == TRI_NODE);
  /* node 1 of 3, 8 ranks, 4 a model: models are ranks 0 2 4 6 and 1 3 5 7, mates 0 1, 2 3, 4 5, 6 7 */
  x = tri_scope_find(TRI_TENSOR, &divided);
  CHECK(x.which == 2 && x.n == 6 && x.rank == 1 && x.size == 4 && x.nodes == 1 && !strcmp(x.of, "group"));
  x = tri_scope_find(TRI_MATES, &divided);
  CHECK(x.which == 5 && x.n == 12 && x.rank == 0 && x.size == 2 && x.nodes == 1 && !strcmp(x.of, "group"));
  CHECK(tri_scope_same(TRI_TENSOR, &divided) == TRI_TENSOR && tri_scope_same(TRI_NODE, &divided) == TRI_NODE);
  CHECK(tri_scope_same(TRI_TENSOR, &(tri_place){2, 8, 1, 3, 8}) == TRI_NODE);
}

static void body_scopes(setup *u) {
  const tri_runtime *r = &u->rt;

  CHECK(u->comm[TRI_WORLD]->size == r->world_size && u->comm[TRI_WORLD]->rank == r->world_rank);
  CHECK(u->comm[TRI_NODE]->size == r->local_size && u->comm[TRI_NODE]->rank == r->local_rank);
  CHECK(u->comm[TRI_CROSS]->size == r->nodes && u->comm[TRI_CROSS]->rank == r->node);
  CHECK(u->comm[TRI_TENSOR]->size == r->tensor);
  CHECK(u->comm[TRI_MATES]->size == r->local_size / r->tensor);
}

/* Local rank l has piece l of the numbers 0, 1, 2, ... The mates gather their slice of them in order, and the
 * ranks of a model gather the slices to all of them. Mates of one rank move nothing. */
static void body_slices(setup *u) {
  enum { N = 77 };
  tri_comm *tensor = u->comm[TRI_TENSOR], *mates = u->comm[TRI_MATES];
  int32_t  *piece = (int32_t *)u->arena, *slice = piece + N, *whole = slice + N * mates->size;
  int64_t   begin = (int64_t)N * mates->size * tensor->rank;

  for (int i = 0; i < N; i++) piece[i] = u->rt.local_rank * N + i;
  put(u, piece, N * sizeof *piece);
  CHECK(tri_all_gather(mates, far(u, slice), far(u, piece), N, TRI_I32, u->s, NULL) == TRI_OK);
  CHECK(tri_all_gather(tensor, far(u, whole), far(u, slice), N * mates->size, TRI_I32, u->s, NULL) == TRI_OK);
  get(u, slice, (size_t)(N * (mates->size + u->rt.local_size)) * sizeof *slice);
  for (int i = 0; i < N * mates->size; i++) CHECK(slice[i] == begin + i);
  for (int i = 0; i < N * u->rt.local_size; i++) CHECK(whole[i] == i);
  CHECK(mates->traffic.bytes == 4.0 * N * (mates->size - 1));
}

static void body_collectives(setup *u) {
  static const int64_t size[] = {0, 1, 7, 127, 3001};

  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) check_traffic(u, u->comm[scope]);
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    for (int t = 0; t < TRI_DTYPE_COUNT; t++)
      for (size_t i = 0; i < sizeof size / sizeof size[0]; i++)
        check_all(u, u->comm[scope], size[i], (tri_dtype)t);
}

static void body_lists(setup *u) {
  static const int64_t few[] = {129, 0, 1, 3001, 64}, none[] = {0, 0};
  int64_t              many[MOST_SPANS];

  for (int i = 0; i < MOST_SPANS; i++) many[i] = 1 + i % 5;
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    for (int i = 0; i < 4; i++) {
      tri_comm     *c = u->comm[scope];
      tri_coll_kind kind = i % 2 ? TRI_ALL_GATHER : TRI_REDUCE_SCATTER;
      for (int t = 0; t < TRI_DTYPE_COUNT; t++) check_list(u, c, kind, few, 5, (tri_dtype)t, i / 2);
      check_list(u, c, kind, many, MOST_SPANS, TRI_BF16, i / 2);
      check_list(u, c, kind, none, 2, TRI_F32, i / 2);
      check_list(u, c, kind, few, 0, TRI_F32, i / 2);
    }
}

/* Lists and single collectives of two scopes are pending together. */
static void body_pending_lists(setup *u) {
  enum { M = 9, N = 6 };
  static const int64_t size[N] = {40, 7, 0, 129, 1, 33};
  tri_comm            *c[2] = {u->comm[TRI_WORLD], u->comm[TRI_NODE]};
  list                *l = calloc(M, sizeof *l);
  tri_req              req[M], sum = {0};
  char                *base = u->arena + 4096;
  float               *x = (float *)u->arena;

  CHECK(l);
  put_values(x, 100, TRI_F32, c[0]->rank, 7);
  put(u, x, 100 * sizeof *x);
  for (int i = 0; i < M; i++) {
    base = make_list(&l[i], base, c[i % 2], i % 3 ? TRI_ALL_GATHER : TRI_REDUCE_SCATTER, size, N, TRI_F32,
                     i % 4 == 0, 100 * i);
    CHECK(base <= u->arena + u->bytes);
    fill_list(u, c[i % 2], &l[i]);
    CHECK(start_list(u, c[i % 2], &l[i], &req[i]) == TRI_OK);
    if (i == M / 2) CHECK(tri_all_reduce(c[0], far(u, x), 100, TRI_F32, TRI_SUM, u->s, &sum) == TRI_OK);
  }
  for (int i = 0; i < M; i++) {
    CHECK(tri_comm_wait(c[i % 2], &req[i], u->s) == TRI_OK);
    judge_list(u, c[i % 2], &l[i]);
  }
  CHECK(tri_comm_wait(c[0], &sum, u->s) == TRI_OK);
  get(u, x, 100 * sizeof *x);
  for (int64_t k = 0; k < 100; k++) put_reduced(want, k, TRI_F32, TRI_SUM, c[0]->size, k, 7);
  CHECK(!memcmp(x, want, 100 * sizeof *x));
  free(l);
}

/* Collectives in the caller's stream, between others that are pending. */
static void body_in_stream(setup *u) {
  static const int64_t size[] = {129, 0, 1, 64};

  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    for (int i = 0; i < 2; i++) {
      tri_comm     *c = u->comm[scope];
      list          beside, l;
      tri_req       req;
      double        bytes = c->traffic.bytes;
      tri_comm_span x = {0};
      tri_coll      sum = {TRI_ALL_REDUCE, &x, 1, TRI_F32, TRI_MAX, u->s, true};
      char         *base = make_list(&beside, u->arena, c, TRI_ALL_GATHER, size, 4, TRI_I64, i, 3);

      base = make_list(&l, base, c, i ? TRI_ALL_GATHER : TRI_REDUCE_SCATTER, size, 4, TRI_F32, !i, 50);
      l.in_stream = true;
      fill_list(u, c, &beside);
      CHECK(start_list(u, c, &beside, &req) == TRI_OK);
      fill_list(u, c, &l);
      CHECK(start_list(u, c, &l, NULL) == TRI_OK);
      judge_list(u, c, &l);
      put_values(base, 1000, TRI_F32, c->rank, 8);
      put(u, base, 4000);
      x = (tri_comm_span){far(u, base), NULL, 1000};
      CHECK(tri_collective(c, &sum, NULL) == TRI_OK);
      get(u, base, 4000);
      for (int64_t k = 0; k < 1000; k++) put_reduced(want, k, TRI_F32, TRI_MAX, c->size, k, 8);
      CHECK(!memcmp(base, want, 4000));
      CHECK(tri_comm_wait(c, &req, u->s) == TRI_OK);
      judge_list(u, c, &beside);
      CHECK(c->traffic.bytes - bytes == (194 * 12.0 + 2 * 4000.0 / c->size) * (c->size - 1));
    }
}

/* A step that sums a list in place and gathers another one. */
typedef struct step {
  setup    *u;
  tri_comm *c;
  list      scatter, gather;
} step;

static tri_status run_step(void *ctx, tri_stream *s) {
  step *x = ctx;

  (void)s;
  TRI_TRY(start_list(x->u, x->c, &x->scatter, NULL));
  return start_list(x->u, x->c, &x->gather, NULL);
}

/* A recorded step runs on what its memory then holds, among other collectives of its communicator. */
static void check_recorded(setup *u, tri_comm *c) {
  static const int64_t size[] = {129, 0, 1, 64};
  step                *x = calloc(1, sizeof *x);
  tri_comm_step        recorded;
  double               bytes = c->traffic.bytes, each = 2 * 4 * 194.0 * (c->size - 1);
  tri_status           st;
  char                *base = u->arena;
  list                 beside;

  CHECK(x);
  x->u = u, x->c = c;
  base = make_list(&x->scatter, base, c, TRI_REDUCE_SCATTER, size, 4, TRI_F32, true, 0);
  base = make_list(&x->gather, base, c, TRI_ALL_GATHER, size, 4, TRI_I32, false, 0);
  make_list(&beside, base, c, TRI_ALL_GATHER, size, 4, TRI_F32, false, 900);
  x->scatter.in_stream = x->gather.in_stream = true;
  st = tri_comm_record(c, u->s, run_step, x, &recorded);
  CHECK(c->traffic.bytes == bytes); /* nothing has run */
  if (u->w == STAGED && c->size > 1) {
    CHECK(st == TRI_EDEVICE && !recorded.graph && recorded.n == 0);
    tri_error_clear();
  } else {
    CHECK(st == TRI_OK && recorded.graph && recorded.n == (c->size > 1 ? 2 : 0));
  }
  for (int run = 0; run < 4; run++) {
    tri_req req;
    x->scatter.salt = 10 * run, x->gather.salt = 200 + 10 * run;
    fill_list(u, c, &beside);
    CHECK(start_list(u, c, &beside, &req) == TRI_OK);
    fill_list(u, c, &x->scatter);
    fill_list(u, c, &x->gather);
    CHECK((recorded.graph && run != 1 ? tri_comm_replay(c, &recorded, u->s) : run_step(x, u->s)) == TRI_OK);
    judge_list(u, c, &x->scatter);
    judge_list(u, c, &x->gather);
    CHECK(tri_comm_wait(c, &req, u->s) == TRI_OK);
    judge_list(u, c, &beside);
  }
  CHECK(c->traffic.bytes - bytes == 4 * each + 2 * each);
  tri_comm_step_close(u->d, &recorded);
  free(x);
}

static void body_recorded(setup *u) {
  if (!u->d->ops->graph_record) return;
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) check_recorded(u, u->comm[scope]);
}

static void body_big(setup *u) {
  if (u->w == FORCED || u->w == OUTSIDE || u->rt.nodes > 1) return; /* nothing new */
  check_all(u, u->comm[TRI_WORLD], BIG, TRI_F32);
  check_reduce_scatter(u, u->comm[TRI_WORLD], BIG, TRI_BF16, TRI_SUM, true, 9);
  check_all_reduce(u, u->comm[TRI_WORLD], 4 * BIG, TRI_BF16, TRI_SUM, 9);
}

/* A cross share of a node's share is the world's share. shard.h relies on it. */
static void body_two_stages(setup *u) {
  enum { N = 211 };
  tri_comm *node = u->comm[TRI_NODE], *cross = u->comm[TRI_CROSS], *all = u->comm[TRI_WORLD];
  int64_t   total = (int64_t)N * all->size;
  int32_t  *send = (int32_t *)u->arena, *half = send + total, *two = half + total, *one = two + N;

  void *dsend = far(u, send), *dhalf = far(u, half), *dtwo = far(u, two);

  put_values(send, total, TRI_I32, all->rank, 11);
  put(u, send, (size_t)total * sizeof *send);
  CHECK(tri_reduce_scatter(all, far(u, one), dsend, N, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  CHECK(tri_reduce_scatter(node, dhalf, dsend, N * cross->size, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  CHECK(tri_reduce_scatter(cross, dtwo, dhalf, N, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  get(u, one, N * sizeof *one);
  get(u, two, N * sizeof *two);
  CHECK(!memcmp(one, two, N * sizeof *one));
  CHECK(u->d->ops->fill(u->s, dsend, 0, (size_t)total * sizeof *send) == TRI_OK);
  CHECK(tri_all_gather(cross, dhalf, dtwo, N, TRI_I32, u->s, NULL) == TRI_OK);
  CHECK(tri_all_gather(node, dsend, dhalf, N * cross->size, TRI_I32, u->s, NULL) == TRI_OK);
  get(u, send, (size_t)total * sizeof *send);
  for (int64_t i = 0; i < total; i++) put_reduced(want, i, TRI_I32, TRI_SUM, all->size, i, 11);
  CHECK(!memcmp(send, want, (size_t)total * sizeof *send));
}

/* Starts more collectives of two scopes than a queue holds and waits for them in order. Then starts and waits
 * in one step. */
static void body_pending(setup *u) {
  enum { N = 151, M = 36 };
  tri_comm *c = u->comm[TRI_WORLD], *node = u->comm[TRI_NODE];

  for (int once = 0; once < 2; once++) {
    tri_req req[M] = {{0}}, other = {0}, none = {0};
    float  *buf[M], *gather[M], *mine = (float *)u->arena;
    for (int i = 0; i < M; i++) {
      buf[i] = (float *)u->arena + (size_t)(i + 1) * 8 * N;
      gather[i] = buf[i] + 4 * N;
      put_values(buf[i], (int64_t)N * c->size, TRI_F32, c->rank, i);
      put(u, buf[i], (size_t)N * (size_t)c->size * sizeof *buf[i]);
    }
    put_values(mine, N, TRI_F32, node->rank, 20);
    put(u, mine, N * sizeof *mine);
    CHECK(tri_all_reduce(node, far(u, mine), N, TRI_F32, TRI_SUM, u->s, &other) == TRI_OK);
    for (int i = 0; i < M; i++) {
      void *b = far(u, buf[i]), *g = far(u, gather[i]);
      if (i % 3 == 0) CHECK(tri_all_reduce(c, b, N, TRI_F32, TRI_SUM, u->s, &req[i]) == TRI_OK);
      if (i % 3 == 1) CHECK(tri_all_gather(c, g, b, N, TRI_F32, u->s, &req[i]) == TRI_OK);
      if (i % 3 == 2) CHECK(tri_reduce_scatter(c, g, b, N, TRI_F32, TRI_MAX, u->s, &req[i]) == TRI_OK);
    }
    CHECK(tri_comm_wait(node, &other, u->s) == TRI_OK);
    CHECK(tri_comm_wait(c, &none, u->s) == TRI_OK); /* waiting without a pending request is legal */
    if (once) CHECK(tri_comm_wait(c, &req[M - 1], u->s) == TRI_OK);
    for (int i = 0; i < M; i++) {
      float *w = (float *)want, *got = i % 3 == 0 ? buf[i] : gather[i];
      size_t bytes = N * (i % 3 == 1 ? (size_t)c->size : 1) * sizeof *w;
      CHECK(tri_comm_wait(c, &req[i], u->s) == TRI_OK && !req[i].impl);
      get(u, got, bytes);
      for (int64_t k = 0; k < N; k++) {
        if (i % 3 == 0) put_reduced(w, k, TRI_F32, TRI_SUM, c->size, k, i);
        if (i % 3 == 2) put_reduced(w, k, TRI_F32, TRI_MAX, c->size, N * (int64_t)c->rank + k, i);
      }
      for (int r = 0; i % 3 == 1 && r < c->size; r++) put_values(w + r * N, N, TRI_F32, r, i);
      CHECK(!memcmp(got, w, bytes));
    }
    get(u, mine, N * sizeof *mine);
    for (int64_t k = 0; k < N; k++) put_reduced(want, k, TRI_F32, TRI_SUM, node->size, k, 20);
    CHECK(!memcmp(mine, want, N * sizeof *mine));
  }
}

static void body_control(setup *u) {
  enum { N = 5000 };
  static double x[N], y[N];

  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) {
    tri_comm *c = u->comm[scope];
    int64_t   most[2] = {c->rank, -c->rank};
    char      text[32] = "";
    size_t    counts[MAX_RANKS];
    void     *all = NULL;
    for (int i = 0; i < N; i++) {
      x[i] = 1.0 / (1 + i + c->rank * 3);
      y[i] = 1.0 / (1 + i);
      for (int r = 1; r < c->size; r++) y[i] += 1.0 / (1 + i + r * 3);
    }
    CHECK(tri_host_sum(c, x, N) == TRI_OK && !memcmp(x, y, sizeof x));
    CHECK(tri_host_sum(c, NULL, 0) == TRI_OK);
    CHECK(tri_host_max(c, most, 2) == TRI_OK && most[0] == c->size - 1 && most[1] == 0);
    if (c->rank == c->size - 1) strcpy(text, "from the last");
    CHECK(tri_host_bcast(c, text, sizeof text, c->size - 1) == TRI_OK && !strcmp(text, "from the last"));
    CHECK(tri_host_barrier(c) == TRI_OK);
    memset(text, 'a' + c->rank, sizeof text);
    CHECK(tri_host_gather_all(c, text, (size_t)(c->rank * 5), &all, counts) == TRI_OK);
    for (int r = 0, at = 0; r < c->size; at += r * 5, r++) {
      CHECK(counts[r] == (size_t)r * 5);
      for (int i = 0; i < r * 5; i++) CHECK(((char *)all)[at + i] == 'a' + r);
    }
    tri_host_free(&all);
  }
}

static tri_status fail_if(bool bad, int rank) {
  if (bad) TRI_FAIL(rank % 2 ? TRI_EINPUT : TRI_EFILE, "rank %d does not like its file", rank);
  return TRI_OK;
}

static void body_agree(setup *u) {
  tri_comm *c = u->comm[TRI_WORLD];

  CHECK(tri_agree(c, TRI_OK) == TRI_OK);
  for (int first = 0; first < c->size; first++) { /* ranks from `first` on fail, each with its own error */
    char       text[64];
    tri_status st = tri_agree(c, fail_if(c->rank >= first, c->rank));
    snprintf(text, sizeof text, "rank %d does not like its file", first);
    CHECK(st == (first % 2 ? TRI_EINPUT : TRI_EFILE) && !strcmp(tri_error_message(), text));
    tri_error_clear();
  }
}

/* Ranks that call different collectives get an error instead of wrong numbers. */
static void body_disagree(setup *u) {
  tri_comm *c = u->comm[TRI_WORLD];

  if (u->w != STARTED || c->size == 1) return;
  CHECK(tri_all_reduce(c, u->far, 5 + c->rank, TRI_F32, TRI_SUM, u->s, NULL) == TRI_ECOMM);
  CHECK(refusal_is("read_slots() 1 0 world"));
  tri_error_clear();
}

/* The same for lists of the same spans in another order. */
static void body_disagree_on_lists(setup *u) {
  tri_comm           *c = u->comm[TRI_WORLD];
  const int64_t       n[] = {c->rank % 2 ? 9 : 4, c->rank % 2 ? 4 : 9};
  const tri_comm_span span[] = {{u->far, u->far + 4096, n[0]}, {u->far + 8192, u->far + 12288, n[1]}};

  if (u->w != STARTED || c->size == 1) return;
  CHECK(tri_all_gather_v(c, span, 2, TRI_F32, u->s, NULL) == TRI_ECOMM);
  CHECK(refusal_is("read_slots() 1 world 4 9"));
  tri_error_clear();
}

/* Every rank writes every size-th element and then reads all. The pieces begin at different places of a page.
 * Old contents in the place of the flags must not matter. */
static void body_segment(setup *u) {
  enum { N = 9001, ROUNDS = 10 };
  tri_comm    *c = u->comm[TRI_NODE];
  tri_segment *w = NULL;
  int64_t     *x;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    CHECK(u->comm[i]->near ==
          (i == TRI_NODE && c->size > 1 && (u->w == UNSTARTED || u->w == STARTED || u->w == OUTSIDE)));
  if (!c->near || u->w == OUTSIDE) return;
  CHECK(tri_segment_piece_bytes(N * sizeof *x, c->size) * (size_t)c->size < SMALL);
  x = (int64_t *)(void *)u->far;
  for (int64_t i = 0; c->rank == 0 && i < 64 * c->size / (int64_t)sizeof *x; i++) x[i] = 1000 * (i + 1);
  CHECK(tri_segment_open(c, u->far + 256 * c->rank, N * sizeof *x, &w) == TRI_OK);
  CHECK((w != NULL) == (u->w == STARTED && !few_files));
  if (!w) return;
  CHECK(tri_segment_generation(w, 7) == 1);
  x = tri_segment_base(w);
  for (int64_t i = 0; i < N; i++) CHECK(x[i] == 0);
  for (int64_t round = 1; round <= ROUNDS; round++) {
    CHECK(tri_segment_barrier(w, 1) == TRI_OK); /* all have read */
    for (int64_t i = c->rank; i < N; i += c->size) x[i] = round * N + i;
    CHECK(tri_segment_wait(w, tri_segment_generation(w, 2)) == TRI_OK);
    for (int64_t i = 0; i < N; i++) CHECK(x[i] == round * N + i);
  }
  CHECK(tri_segment_barrier(w, 3) == TRI_OK);
  CHECK(tri_segment_barrier(w, 4 + (uint32_t)c->rank) == TRI_ECOMM);
  CHECK(refusal_is("compare() 23"));
  tri_error_clear();
  tri_segment_close(&w);
}

/* Opens world on the device. Returns its status, and in *why the reason for a failure on this rank. */
static tri_status try_world(tri_device *d, const char *asked, char *why, size_t space) {
  tri_comm  *c = NULL;
  tri_status st;

  ask_for(asked);
  st = tri_comm_open(&rt, TRI_WORLD, d, &c);
  CHECK((st == TRI_OK) == (c != NULL));
  snprintf(why, space, "%s", tri_error_message());
  tri_error_clear();
  tri_comm_close(&c);
  ask_for(NULL);
  return st;
}

/* Tests the values of TRI_COMM, and that ranks may share a GPU only if it is set. */
static void test_choice(void **state) {
  char why[512];

  (void)state;
  for (int i = 0; tri_device_at(i); i++) {
    bool        host = !strcmp(tri_device_at(i)->name, "cpu");
    tri_device *d;
    int         sharers;
    setenv("TRI_EMULATE_DEVICES", "1", 1); /* an emulated machine has one GPU here */
    ask_for("staged");                     /* otherwise a rank without its own GPU ends here */
    CHECK(tri_device_open(tri_device_at(i)->name, rt.machine_rank, 1, &d) == TRI_OK);
    CHECK(try_world(d, "pigeon", why, sizeof why) == TRI_ECONFIG && strstr(why, "pigeon"));
    CHECK(try_world(d, host ? "nccl" : "shm", why, sizeof why) == TRI_ECONFIG && strstr(why, "staged"));
    CHECK(try_world(d, "staged", why, sizeof why) == TRI_OK);
    CHECK(tri_comm_sharers(&rt, world, d, &sharers) == TRI_OK);
    CHECK(sharers >= 1 && (!host || sharers == rt.machine_ranks));
    if (host || sharers == 1) /* either every rank has its own GPU, or none */
      CHECK(try_world(d, NULL, why, sizeof why) == TRI_OK);
    else
      CHECK(try_world(d, NULL, why, sizeof why) == TRI_EDEVICE && strstr(why, "same GPU"));
    CHECK(tri_status_exit_code(TRI_EDEVICE) == 69);
    tri_device_close(&d);
    unsetenv("TRI_EMULATE_DEVICES");
  }
}

/* Waits until no thread of rank 0 runs. Rank 0 then waits in the collective that this last rank has not
 * entered yet. */
static void await_sleep(const tri_comm *c, pid_t pid) {
  double from_s = tri_now_s();

  if (c->rank < c->size - 1) return;
  while (tri_proc_look(pid, 0) != TRI_PROC_SLEEPS)
    CHECK(tri_now_s() - from_s < 20, "process %ld still runs", (long)pid);
}

/* A waiting rank yields its core, both in shared memory and in MPI. */
static void body_sleep(setup *u) {
  enum { N = 64 };
  tri_comm *c = u->comm[TRI_WORLD];
  tri_req   req = {0};
  float    *x = (float *)u->arena;
  pid_t     pid = getpid();

  if (tri_device_is_gpu(u->d) || c->size == 1) return;
  CHECK(tri_host_bcast(c, &pid, sizeof pid, 0) == TRI_OK);
  await_sleep(c, pid);
  CHECK(tri_host_barrier(c) == TRI_OK);
  if (u->w != STARTED) return;
  put_values(x, N, TRI_F32, c->rank, 0);
  await_sleep(c, pid);
  CHECK(tri_all_reduce(c, x, N, TRI_F32, TRI_SUM, u->s, &req) == TRI_OK);
  CHECK(tri_comm_wait(c, &req, u->s) == TRI_OK);
}

static void test_scopes(void **state) { (void)state, for_divided(SMALL, MAX_RANKS, body_scopes); }
static void test_slices(void **state) { (void)state, for_divided(SMALL, MAX_RANKS, body_slices); }
static void test_collectives(void **state) { (void)state, for_divided(SMALL, 2, body_collectives); }
static void test_lists(void **state) { (void)state, for_divided(SMALL, 2, body_lists); }
static void test_pending_lists(void **state) { (void)state, for_all(SMALL, body_pending_lists); }
static void test_disagree_on_lists(void **state) { (void)state, for_all(SMALL, body_disagree_on_lists); }
static void test_in_stream(void **state) {
  (void)state;
  in_stream = true;
  for_divided(SMALL, 2, body_in_stream);
  in_stream = false;
}
static void test_recorded(void **state) {
  (void)state;
  in_stream = true;
  for_divided(SMALL, 2, body_recorded);
  in_stream = false;
}
static void test_big(void **state) { (void)state, for_all(ARENA, body_big); }
static void test_two_stages(void **state) { (void)state, for_all(SMALL, body_two_stages); }
static void test_pending(void **state) { (void)state, for_all(SMALL, body_pending); }
static void test_control(void **state) { (void)state, for_all(SMALL, body_control); }
static void test_agree(void **state) { (void)state, for_all(SMALL, body_agree); }
static void test_disagree(void **state) { (void)state, for_all(SMALL, body_disagree); }
static void test_segment(void **state) { (void)state, for_all(SMALL, body_segment); }
static void test_sleep(void **state) { (void)state, for_all(SMALL, body_sleep); }

/* Collectives still go through shared memory. */
static void test_few_files(void **state) {
  (void)state;
  few_files = true;
  for_all(SMALL, body_segment);
  for_all(SMALL, body_pending);
  few_files = false;
}

/* ---- a rank that dies ---- */

enum { VICTIM = 1 };

/* Runs one collective: of a list with a request, or in the caller's stream, or a recorded step of two.
 * `dies`: this rank kills itself before its end. */
static tri_status run_once(setup *u, tri_comm *c, const char *what, step *x, const tri_comm_step *recorded,
                           bool dies) {
  tri_req req;

  x->scatter.in_stream = x->gather.in_stream = strcmp(what, "list") != 0;
  if (!strcmp(what, "list")) {
    TRI_TRY(start_list(u, c, &x->gather, &req));
    if (dies) raise(SIGKILL);
    return tri_comm_wait(c, &req, u->s);
  }
  if (dies) raise(SIGKILL);
  return recorded->graph ? tri_comm_replay(c, recorded, u->s) : start_list(u, c, &x->scatter, NULL);
}

/* Runs in each rank of a launch. The victim dies in a collective. It has sent a heartbeat by then, since
 * one is due every 0.25 s. argument: way:what. */
static int run_until_dead(const char *argument) {
  static const int64_t  size[] = {129, 0, 1, 64};
  static step           x;
  const bool            gpu = !strncmp(argument, "cuda", 4);
  const char           *what = strchr(argument, ':') + 1;
  const tri_session_opt opt = {.device = gpu ? "cuda" : "cpu", .threads = 1, .timeout_s = 10};
  char                  by[16];
  setup                 u = {.arena = near};
  tri_session           se;
  tri_comm_step         recorded = {0};
  tri_comm             *c;
  tri_status            st;
  void                 *memory = NULL;
  double                began_s;

  argument += gpu ? strlen("cuda ") : 0;
  snprintf(by, sizeof by, "%.*s", (int)strcspn(argument, ":"), argument);
  ask_for(strcmp(by, "shm") ? by : NULL);
  st = tri_session_open(&opt, &se);
  if (st != TRI_OK) return 3;
  c = se.comm[TRI_WORLD];
  for (int k = 0; k < TRI_COLL_KINDS; k++) {
    tri_comm_expect(c, (tri_coll_kind)k);
    tri_comm_expect_in_stream(c, (tri_coll_kind)k);
  }
  if (tri_ledger_add(se.ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "buffers", SMALL, &memory) !=
          TRI_OK ||
      tri_session_take_memory(&se) != TRI_OK)
    return 3;
  u.d = se.device, u.s = se.stream, u.far = memory, x.u = &u, x.c = c;
  make_list(&x.scatter, make_list(&x.gather, near, c, TRI_ALL_GATHER, size, 4, TRI_F32, true, 0), c,
            TRI_REDUCE_SCATTER, size, 4, TRI_F32, true, 0);
  x.scatter.in_stream = x.gather.in_stream = true;
  if (!strcmp(what, "recorded") && tri_comm_record(c, u.s, run_step, &x, &recorded) != TRI_OK) return 3;
  began_s = tri_now_s();
  while (st == TRI_OK) {
    st = run_once(&u, c, what, &x, &recorded, c->rank == VICTIM && tri_now_s() - began_s > 1);
    if (st == TRI_OK) st = u.d->ops->stream_sync(u.s);
  }
  tri_session_leave(&se, st);
  return 4;
}

/* The others wait for the dead rank in a collective. */
static void fail_unless_all_end(void) {
  static const char *const        on_cpu[] = {"shm:list", "mpi:list", "staged:list", "shm:stream", NULL},
                           *const on_gpu[] = {"cuda staged:list", "cuda nccl:list", "cuda nccl:stream",
                                              "cuda nccl:recorded", NULL};

  for (const char *const *a = TRI_CUDA_EMULATED ? on_gpu : on_cpu; *a; a++)
    if (tri_device_collectives("cuda") || !strstr(*a, "nccl"))
      fail_unless_76(TRI_MPIEXEC, "dead", *a, (const char *const[]){"rank 1 ", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_big),
      cmocka_unit_test(test_two_stages),
      cmocka_unit_test(test_pending),
      cmocka_unit_test(test_control),
      cmocka_unit_test(test_agree),
      cmocka_unit_test(test_disagree),
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_segment),
      cmocka_unit_test(test_few_files),
      cmocka_unit_test(test_sleep),
      cmocka_unit_test(test_slices),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_pending_lists),
      cmocka_unit_test(test_disagree_on_lists),
      cmocka_unit_test(test_in_stream),
      cmocka_unit_test(test_recorded),
  };
  int failed, ranks, machine_ranks;

  if (argc > 2 && !strcmp(argv[1], "dead")) return run_until_dead(argv[2]);
  test_filter();
  tri_runtime_env_ranks(&ranks, &machine_ranks);
  if (ranks == 1) fail_unless_all_end(); /* before MPI is up */
  failed = cmocka_run_group_tests(tests, ranks_open, ranks_close);
  if (tri_host_bytes() != 0)
    fprintf(stderr, "%lld bytes of host memory were not freed\n", (long long)tri_host_bytes());
  return failed || tri_host_bytes() != 0;
}
