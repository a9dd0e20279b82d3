/* test_comm.c - every collective, scope, element type and way, and the control plane. Run with 1, 2, 3 and 4
 * ranks on one machine. Judge: a loop over the ranks in rank order, compared bit for bit; rank r's input is a
 * pure function of r. */
#include "ranks_case.h"

enum {
  MAX_RANKS = 4,
  BIG = 700001,
  ARENA = 24 << 20
}; /* BIG: a prime part of the mpi way's staging buffer over 4 */

/* unattached: MPI. forced: TRI_COMM=mpi. attached: shared memory. outside: attached, but one rank's buffers
 * are not in its arena, so that all must take MPI. */
typedef enum { UNATTACHED, FORCED, ATTACHED, OUTSIDE, N_WAYS } way;

typedef struct setup {
  tri_runtime rt;
  tri_device *d;
  tri_stream *s;
  tri_comm   *comm[TRI_SCOPE_COUNT];
  char       *arena, *other; /* [ARENA] each */
  way         w;
} setup;

static void open_setup(setup *u, int ranks_per_node, way w) {
  void *p;

  memset(u, 0, sizeof *u);
  u->w = w;
  CHECK(tri_runtime_open(ranks_per_node, &u->rt) == TRI_OK);
  CHECK(tri_device_open("cpu", u->rt.local_rank, 2, &u->d) == TRI_OK);
  CHECK(u->d->ops->stream_open(u->d, "comm", &u->s) == TRI_OK);
  CHECK(u->d->ops->alloc(u->d, TRI_MEM_DEVICE, ARENA + 4096, &p) == TRI_OK);
  u->arena =
      (char *)p + 4096 * (u->rt.world_rank % 2); /* arenas need not begin at the same place of their blocks */
  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    CHECK(tri_comm_open(&u->rt, (tri_scope)i, u->d, &u->comm[i]) == TRI_OK);
  if (w == FORCED) setenv("TRI_COMM", "mpi", 1);
  if (w != UNATTACHED) CHECK(tri_comm_attach(&u->rt, u->comm, u->d, u->arena, ARENA) == TRI_OK);
  unsetenv("TRI_COMM");
  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    CHECK(!strcmp(u->comm[i]->ops->name, w == ATTACHED || w == OUTSIDE ? "shm" : "mpi"));
  if (w == OUTSIDE && u->rt.world_rank == u->rt.world_size - 1) {
    CHECK(u->d->ops->alloc(u->d, TRI_MEM_DEVICE, ARENA, &p) == TRI_OK);
    u->other = p;
    u->arena = p;
  }
}

static void close_setup(setup *u) {
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) tri_comm_close(&u->comm[i]);
  u->d->ops->stream_close(&u->s);
  tri_device_close(&u->d);
  tri_runtime_close(&u->rt);
}

/* ---- values ---- */

static uint64_t mix(uint64_t x) { /* splitmix64 (Steele, Lea, Flood 2014) */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Element i of rank r's input; floats have full mantissas, so that an order other than the ranks' shows. */
static void put_value(void *buf, int64_t at, tri_dtype t, int r, int64_t i, int salt) {
  uint64_t u = mix((uint64_t)i * 64 + (uint64_t)r + ((uint64_t)salt << 50));
  float    f = (float)((double)(u >> 40) / (1 << 23) - 1.0);

  if (t == TRI_F32) ((float *)buf)[at] = f;
  if (t == TRI_BF16) ((uint16_t *)buf)[at] = tri_f32_to_bf16(f);
  if (t == TRI_I32) ((int32_t *)buf)[at] = (int32_t)(u >> 34) - (1 << 29);
  if (t == TRI_I64) ((int64_t *)buf)[at] = (int64_t)(u >> 4) - ((int64_t)1 << 59);
  if (t == TRI_U8) ((uint8_t *)buf)[at] = (uint8_t)(u >> 60);
}

static void put_values(void *buf, int64_t n, tri_dtype t, int r, int salt) {
  for (int64_t i = 0; i < n; i++) put_value(buf, i, t, r, i, salt);
}

static double get(const void *buf, int64_t at, tri_dtype t) { /* but for i64 */
  return t == TRI_F32    ? (double)((const float *)buf)[at]
         : t == TRI_BF16 ? (double)tri_bf16_to_f32(((const uint16_t *)buf)[at])
         : t == TRI_I32  ? (double)((const int32_t *)buf)[at]
                         : (double)((const uint8_t *)buf)[at];
}

/* out[at] = element i of all `size` inputs, sums in rank order. */
static void put_reduced(void *out, int64_t at, tri_dtype t, tri_redop op, int size, int64_t i, int salt) {
  int64_t x[MAX_RANKS] = {0}; /* room for one element of any type each */
  float   f = 0;
  double  wide = 0;
  int64_t whole = 0;

  for (int r = 0; r < size; r++) {
    put_value(&x[r], 0, t, r, i, salt);
    if (t == TRI_I64) {
      whole = r == 0 ? x[r] : op == TRI_SUM ? whole + x[r] : x[r] > whole ? x[r] : whole;
      continue;
    }
    double v = get(&x[r], 0, t);
    f = r == 0 ? (float)v : f + (float)v;
    wide = r == 0 ? v : op == TRI_SUM ? wide + v : v > wide ? v : wide;
  }
  if (op == TRI_SUM && (t == TRI_F32 || t == TRI_BF16)) wide = f;
  if (t == TRI_F32) ((float *)out)[at] = (float)wide;
  if (t == TRI_BF16) ((uint16_t *)out)[at] = tri_f32_to_bf16((float)wide);
  if (t == TRI_I32) ((int32_t *)out)[at] = (int32_t)wide;
  if (t == TRI_I64) ((int64_t *)out)[at] = whole;
  if (t == TRI_U8) ((uint8_t *)out)[at] = (uint8_t)wide;
}

/* ---- one collective, with its judge. a: send, b: recv; wanted is made in want ---- */

static char want[ARENA];

static void check_all_gather(setup *u, tri_comm *c, int64_t n, tri_dtype t, bool in_place, int salt) {
  size_t bytes = (size_t)n * tri_dtype_bytes(t);
  char  *recv = u->arena, *send = in_place ? recv + (size_t)c->rank * bytes : u->arena + ARENA - bytes - 512;
  tri_req *none = NULL;

  memset(recv, 0x33, bytes * (size_t)c->size);
  put_values(send, n, t, c->rank, salt);
  CHECK(c->ops->all_gather(c, recv, send, n, t, u->s, none) == TRI_OK);
  for (int r = 0; r < c->size; r++) put_values(want + (size_t)r * bytes, n, t, r, salt);
  CHECK(!memcmp(recv, want, bytes * (size_t)c->size));
}

static void check_reduce_scatter(setup *u, tri_comm *c, int64_t n, tri_dtype t, tri_redop op, bool in_place,
                                 int salt) {
  size_t bytes = (size_t)n * tri_dtype_bytes(t);
  char  *send = u->arena, *recv = in_place ? send + (size_t)c->rank * bytes : u->arena + ARENA - bytes - 512;

  put_values(send, n * c->size, t, c->rank, salt);
  CHECK(c->ops->reduce_scatter(c, recv, send, n, t, op, u->s, NULL) == TRI_OK);
  for (int64_t i = 0; i < n; i++) put_reduced(want, i, t, op, c->size, n * c->rank + i, salt);
  CHECK(!memcmp(recv, want, bytes));
}

static void check_all_reduce(setup *u, tri_comm *c, int64_t n, tri_dtype t, tri_redop op, int salt) {
  put_values(u->arena, n, t, c->rank, salt);
  CHECK(c->ops->all_reduce(c, u->arena, n, t, op, u->s, NULL) == TRI_OK);
  for (int64_t i = 0; i < n; i++) put_reduced(want, i, t, op, c->size, i, salt);
  CHECK(!memcmp(u->arena, want, (size_t)n * tri_dtype_bytes(t)));
}

static void check_broadcast(setup *u, tri_comm *c, int64_t n, tri_dtype t, int root, int salt) {
  put_values(u->arena, n, t, c->rank, salt);
  CHECK(c->ops->broadcast(c, u->arena, n, t, root, u->s, NULL) == TRI_OK);
  put_values(want, n, t, root, salt);
  CHECK(!memcmp(u->arena, want, (size_t)n * tri_dtype_bytes(t)));
}

static void check_all(setup *u, tri_comm *c, int64_t n, tri_dtype t) {
  for (int in_place = 0; in_place < 2; in_place++) {
    check_all_gather(u, c, n, t, in_place, 1);
    for (int op = TRI_SUM; op <= TRI_MAX; op++)
      check_reduce_scatter(u, c, n, t, (tri_redop)op, in_place, 2 + op);
  }
  for (int op = TRI_SUM; op <= TRI_MAX; op++) check_all_reduce(u, c, n, t, (tri_redop)op, 4 + op);
  for (int root = 0; root < c->size; root++) check_broadcast(u, c, n, t, root, 6);
}

/* ---- tests; each runs for every way and every number of ranks per pretended node ---- */

static void for_all(void (*body)(setup *u)) {
  static const int ranks_per_node[] = {0, 1, 2};

  for (int w = 0; w < N_WAYS; w++)
    for (size_t i = 0; i < sizeof ranks_per_node / sizeof ranks_per_node[0]; i++) {
      setup u;
      bool  one = rt.world_size == 1; /* then a scope of one rank never asks where a buffer lies */
      if (ranks_per_node[i] && rt.world_size % ranks_per_node[i]) continue;
      if (one && ranks_per_node[i] == 2) continue;
      open_setup(&u, ranks_per_node[i], (way)w);
      body(&u);
      close_setup(&u);
    }
}

static void body_scopes(setup *u) {
  const tri_runtime *r = &u->rt;

  CHECK(u->comm[TRI_WORLD]->size == r->world_size && u->comm[TRI_WORLD]->rank == r->world_rank);
  CHECK(u->comm[TRI_NODE]->size == r->local_size && u->comm[TRI_NODE]->rank == r->local_rank);
  CHECK(u->comm[TRI_CROSS]->size == r->nodes && u->comm[TRI_CROSS]->rank == r->node);
}

static void body_collectives(setup *u) {
  static const int64_t size[] = {0, 1, 7, 127, 3001};

  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    for (int t = 0; t < TRI_DTYPE_COUNT; t++)
      for (size_t i = 0; i < sizeof size / sizeof size[0]; i++)
        check_all(u, u->comm[scope], size[i], (tri_dtype)t);
}

static void body_big(setup *u) {
  if (u->w == FORCED || u->w == OUTSIDE || u->rt.nodes > 1) return; /* nothing new */
  check_all(u, u->comm[TRI_WORLD], BIG, TRI_F32);
  check_reduce_scatter(u, u->comm[TRI_WORLD], BIG, TRI_BF16, TRI_SUM, true, 9);
  check_all_reduce(u, u->comm[TRI_WORLD], 4 * BIG, TRI_BF16, TRI_SUM, 9);
}

/* A node's share, then the cross share of it, is the world's share: what shard.h builds on. */
static void body_two_stages(setup *u) {
  enum { N = 211 };
  tri_comm *node = u->comm[TRI_NODE], *cross = u->comm[TRI_CROSS], *all = u->comm[TRI_WORLD];
  int64_t   total = (int64_t)N * all->size;
  int32_t  *send = (int32_t *)u->arena, *half = send + total, *two = half + total, *one = two + N;

  put_values(send, total, TRI_I32, all->rank, 11);
  CHECK(all->ops->reduce_scatter(all, one, send, N, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  CHECK(node->ops->reduce_scatter(node, half, send, N * cross->size, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  CHECK(cross->ops->reduce_scatter(cross, two, half, N, TRI_I32, TRI_SUM, u->s, NULL) == TRI_OK);
  CHECK(!memcmp(one, two, N * sizeof *one));
  memset(send, 0, (size_t)total * sizeof *send);
  CHECK(cross->ops->all_gather(cross, half, two, N, TRI_I32, u->s, NULL) == TRI_OK);
  CHECK(node->ops->all_gather(node, send, half, N * cross->size, TRI_I32, u->s, NULL) == TRI_OK);
  for (int64_t i = 0; i < total; i++) put_reduced(want, i, TRI_I32, TRI_SUM, all->size, i, 11);
  CHECK(!memcmp(send, want, (size_t)total * sizeof *send));
}

/* More pending collectives than the queue holds, of two scopes, waited for in order; then in one step. */
static void body_pending(setup *u) {
  enum { N = 1511, M = 12 };
  tri_comm *c = u->comm[TRI_WORLD], *node = u->comm[TRI_NODE];

  for (int once = 0; once < 2; once++) {
    tri_req req[M] = {{0}}, other = {0}, none = {0};
    float  *buf[M], *gather[M], *mine = (float *)u->arena;
    for (int i = 0; i < M; i++) {
      buf[i] = (float *)u->arena + (size_t)(i + 1) * 8 * N;
      gather[i] = buf[i] + 4 * N;
      put_values(buf[i], (int64_t)N * c->size, TRI_F32, c->rank, i);
    }
    put_values(mine, N, TRI_F32, node->rank, 20);
    CHECK(node->ops->all_reduce(node, mine, N, TRI_F32, TRI_SUM, u->s, &other) == TRI_OK);
    for (int i = 0; i < M; i++) {
      if (i % 3 == 0) CHECK(c->ops->all_reduce(c, buf[i], N, TRI_F32, TRI_SUM, u->s, &req[i]) == TRI_OK);
      if (i % 3 == 1) CHECK(c->ops->all_gather(c, gather[i], buf[i], N, TRI_F32, u->s, &req[i]) == TRI_OK);
      if (i % 3 == 2)
        CHECK(c->ops->reduce_scatter(c, gather[i], buf[i], N, TRI_F32, TRI_MAX, u->s, &req[i]) == TRI_OK);
    }
    CHECK(node->ops->wait(node, &other, u->s) == TRI_OK);
    CHECK(c->ops->wait(c, &none, u->s) == TRI_OK);
    if (once) CHECK(c->ops->wait(c, &req[M - 1], u->s) == TRI_OK);
    for (int i = 0; i < M; i++) {
      float *w = (float *)want;
      CHECK(c->ops->wait(c, &req[i], u->s) == TRI_OK && !req[i].impl);
      for (int64_t k = 0; k < N; k++) {
        if (i % 3 == 0) put_reduced(w, k, TRI_F32, TRI_SUM, c->size, k, i);
        if (i % 3 == 2) put_reduced(w, k, TRI_F32, TRI_MAX, c->size, N * (int64_t)c->rank + k, i);
      }
      for (int r = 0; i % 3 == 1 && r < c->size; r++) put_values(w + r * N, N, TRI_F32, r, i);
      CHECK(!memcmp(i % 3 == 0 ? buf[i] : gather[i], w, N * (i % 3 == 1 ? (size_t)c->size : 1) * sizeof *w));
    }
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
  for (int first = 0; first < c->size; first++) { /* ranks from `first` on fail, each in its own way */
    char       text[64];
    tri_status st = tri_agree(c, fail_if(c->rank >= first, c->rank));
    snprintf(text, sizeof text, "rank %d does not like its file", first);
    CHECK(st == (first % 2 ? TRI_EINPUT : TRI_EFILE) && !strcmp(tri_error_message(), text));
    tri_error_clear();
  }
}

/* Ranks that call different things are told so instead of computing nonsense. */
static void body_disagree(setup *u) {
  tri_comm *c = u->comm[TRI_WORLD];

  if (u->w != ATTACHED || c->size == 1) return;
  CHECK(c->ops->all_reduce(c, u->arena, 5 + c->rank, TRI_F32, TRI_SUM, u->s, NULL) == TRI_ECOMM);
  CHECK(strstr(tri_error_message(), "disagree"));
  tri_error_clear();
}

static void test_scopes(void **state) { (void)state, for_all(body_scopes); }
static void test_collectives(void **state) { (void)state, for_all(body_collectives); }
static void test_big(void **state) { (void)state, for_all(body_big); }
static void test_two_stages(void **state) { (void)state, for_all(body_two_stages); }
static void test_pending(void **state) { (void)state, for_all(body_pending); }
static void test_control(void **state) { (void)state, for_all(body_control); }
static void test_agree(void **state) { (void)state, for_all(body_agree); }
static void test_disagree(void **state) { (void)state, for_all(body_disagree); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scopes),     cmocka_unit_test(test_collectives), cmocka_unit_test(test_big),
      cmocka_unit_test(test_two_stages), cmocka_unit_test(test_pending),     cmocka_unit_test(test_control),
      cmocka_unit_test(test_agree),      cmocka_unit_test(test_disagree),
  };
  int failed;

  failed = cmocka_run_group_tests(tests, ranks_open, ranks_close);
  if (tri_host_bytes() != 0)
    fprintf(stderr, "%lld bytes of host memory were not freed\n", (long long)tri_host_bytes());
  return failed || tri_host_bytes() != 0;
}
