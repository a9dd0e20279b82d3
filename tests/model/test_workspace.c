/* test_workspace.c - tests models that compute in turns in one workspace. Judge: the same models, each with
 * memory of its own. Run with 1, 2 and 4 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "device/kernels.h"
#include "io/model/source.h"
#include "model/decoder.h"
#include "staging/batch.h"
#include "state/residence.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TOKENS = 64, SEQUENCES = 3, MODELS = 3, MOST = 1 << 20, MOST_RANKS = 4 };

/* The numbers that the models computed, first of rows, then this rank's shares of the reduced gradients. */
typedef struct results {
  float  *x; /* [MOST] */
  int64_t n;
  int64_t device; /* planned bytes */
} results;

/* How the models divide their weights, and how many ranks a node pretends to have, or 0. */
typedef struct way {
  tri_shard_plan plan[MODELS];
  int            ranks_per_node;
  int64_t        offload; /* of the frozen model */
  bool           lora;    /* the policy learns by adapters */
  bool           watched; /* see watched_linear_pack */
} way;

typedef struct bench {
  tri_session   se;
  golden        g;
  tri_workspace workspace;
  tri_model    *m[MODELS]; /* a policy, its reference and a critic */
  tri_staging  *staging;
  tri_rollout   r;
} bench;

/* ---- a rank that is late ---- */

/* Memory of all ranks. */
typedef struct progress {
  _Atomic int came[MOST_RANKS]; /* the rank waits for others, or has finished */
  _Atomic int left;             /* the late rank has left the model before */
} progress;

static progress           *seen; /* or NULL while nothing is watched */
static tri_kernels         spied_kernels;
static tri_device_ops      spied; /* the device's table, which watches who packs weights */
static tri_linear_pack_fn *real_linear_pack;

tri_status __real_tri_segment_barrier(tri_segment *w, uint32_t what);
tri_status __wrap_tri_segment_barrier(tri_segment *w, uint32_t what);

/* Runs in place of tri_segment_barrier (the linker's --wrap). */
tri_status __wrap_tri_segment_barrier(tri_segment *w, uint32_t what) {
  if (seen) seen->came[rt.world_rank] = 1;
  return __real_tri_segment_barrier(w, what);
}

static tri_status watched_linear_pack(tri_stream *s, tri_linear *l, void *fwd, void *bwd, tri_in w, int part,
                                      int n_part) {
  CHECK(!seen || seen->left, "a rank still uses its memory for the model before");
  return real_linear_pack(s, l, fwd, bwd, w, part, n_part);
}

/* Collective over world. */
static progress *share_progress(void) {
  char  path[] = "/tmp/tri_workspace_XXXXXX";
  int   fd = rt.world_rank == 0 ? mkstemp(path) : -1;
  void *p;

  OK(tri_host_bcast(world, path, sizeof path, 0));
  CHECK(rt.world_rank != 0 || !ftruncate(fd, sizeof(progress)));
  OK(tri_agree(world, TRI_OK));
  if (rt.world_rank != 0) fd = open(path, O_RDWR);
  CHECK(fd >= 0);
  p = mmap(NULL, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(p != MAP_FAILED && !close(fd));
  OK(tri_agree(world, TRI_OK));
  CHECK(rt.world_rank != 0 || !unlink(path));
  return p;
}

static void spy(tri_device *d) {
  spied = *d->ops;
  spied_kernels = *spied.kernels;
  real_linear_pack = spied_kernels.linear_pack;
  spied_kernels.linear_pack = watched_linear_pack;
  spied.kernels = &spied_kernels;
  d->ops = &spied;
}

/* ---- three models ---- */

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  const fill_from *from = ctx;

  if (tri_safetensors_find(from->g->weights, from->unit[u].param[i].name))
    return fill_golden(ctx, kind, u, i, begin, count, out);
  for (int64_t k = 0; k < count; k++)
    out[k] = sinf((float)(begin + k) + 0.5f); /* a scalar head, or adapters */
  return TRI_OK;
}

static void open_bench(bench *b, const char *name, const way *w, bool together) {
  int32_t *token;

  memset(b, 0, sizeof *b);
  session_open(&b->se, w->ranks_per_node);
  if (w->watched) spy(b->se.device);
  golden_open_model(&b->g, name);
  for (int i = 0; i < MODELS; i++) {
    tri_model_opt opt = model_options(&b->g, &b->se, TRI_F32, TOKENS);
    opt.plan = w->plan[i];
    opt.train = i != 1;
    opt.head = i == 2 ? TRI_HEAD_SCALAR : TRI_HEAD_TOKENS;
    opt.rollout = i == 0;
    opt.offload = opt.train ? 0 : w->offload;
    opt.workspace = together ? &b->workspace : NULL;
    if (w->lora && i == 0) opt.lora = (tri_lora){4, 8, false, tri_lora_all(b->g.shape.family)};
    OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m[i]));
  }
  OK(tri_staging_open(b->se.device, b->se.ledger,
                      &(tri_staging_opt){TOKENS, TOKENS, TRI_LOSS_VALUE, TRI_PHASE_LEARN}, &b->staging));
  OK(tri_session_take_memory(&b->se));
  for (int i = 0; i < MODELS; i++) {
    tri_params *p[] = {tri_model_params(b->m[i]), tri_model_trained(b->m[i])};
    OK(tri_model_start(b->m[i], b->se.stream));
    for (int k = 0; k <= (p[1] != p[0]); k++) {
      fill_from from = {&b->g, tri_params_options(p[k])->unit};
      OK(tri_params_fill(p[k], TRI_STATE_WEIGHT, fill, &from, b->se.stream));
    }
  }
  OK(tri_rollout_make(SEQUENCES, 24, 1, 0, &b->r));
  memcpy(b->r.start, (int64_t[]){0, 9, 10, 24}, sizeof(int64_t[SEQUENCES + 1]));
  token = golden_get_int(&b->g, "tokens");
  memcpy(b->r.token, token, 24 * sizeof *token);
  free(token);
}

static void close_bench(bench *b) {
  tri_rollout_free(&b->r);
  tri_staging_close(&b->staging);
  for (int i = 0; i < MODELS; i++) tri_model_close(&b->m[i]);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

static void put(results *to, const float *x, int64_t n) {
  CHECK(to->n + n <= MOST);
  memcpy(to->x + to->n, x, (size_t)n * sizeof *x);
  to->n += n;
}

/* One micro-batch of a model. With `learn` also backward. */
static void pass(bench *b, int model, int micro, bool learn, bool last, results *to) {
  const tri_comm *c = b->se.comm[TRI_WORLD];
  tri_stream     *s = b->se.stream;
  int             seq = (micro + c->rank) % SEQUENCES;
  tri_batch       batch;
  tri_rows_out    given, d;
  tri_loss_in     in;
  tri_loss_out    out;

  OK(tri_batch_load(b->staging, &b->r, &seq, 1, s, &batch));
  OK(tri_model_forward(b->m[model], &batch, learn, 1.0f, &given, s));
  OK(tri_batch_fetch(b->staging, &given, NULL, s, &in, &out));
  put(to, model == 2 ? in.value : in.logp, in.n);
  if (!learn) return;
  for (int64_t k = 0; k < in.n; k++) {
    if (model == 2)
      out.dvalue[k] = cosf((float)(3 * k + seq));
    else
      out.dlogp[k] = cosf((float)(3 * k + seq)), out.dent[k] = 0.25f;
  }
  OK(tri_batch_send(b->staging, &out, 1, s, &d));
  OK(tri_model_backward(b->m[model], &batch, &d, 1.0f, last, s));
}

static void take_gradient(bench *b, int model, results *to) {
  tri_params *p = tri_model_trained(b->m[model]);

  OK(tri_params_grad_settle(p, b->se.stream));
  for (int u = 0; u < tri_params_options(p)->n_unit; u++) {
    tri_grad_view v = tri_params_grad_view(p, u, 0);
    float        *g = device_get(b->se.stream, v.grad, (size_t)v.range.count * sizeof *g);
    put(to, g, v.range.count);
    free(g);
  }
}

/* Two steps in the order of train.c, with scores in an order of their own. */
static void run(const char *name, const way *w, bool together, results *to) {
  bench b;

  to->n = 0;
  open_bench(&b, name, w, together);
  to->device = tri_ledger_total(b.se.ledger).device;
  CHECK((b.workspace.models == MODELS) == together);
  for (int step = 0; step < 2; step++) {
    for (int i = 1; i < MODELS && !together; i++) /* held weights lie over those of other models */
      OK(tri_params_forget_all(tri_model_params(b.m[i]), b.se.stream));
    OK(tri_model_hold(b.m[0], true, b.se.stream));
    pass(&b, 0, step, false, false, to);
    OK(tri_model_hold(b.m[0], false, b.se.stream));
    for (int k = 0; k < 2 * MODELS; k++) pass(&b, (k * 2 + step) % MODELS, k, false, false, to);
    for (int m = 0; m < 2; m++) pass(&b, 0, m, true, m == 1, to);
    pass(&b, 1, 0, false, false, to); /* while the policy's last reduction runs */
    for (int m = 0; m < 2; m++) pass(&b, 2, m, true, m == 1, to);
    for (int i = 0; i < MODELS; i += 2) take_gradient(&b, i, to);
    for (int i = 0; i < MODELS; i += 2) tri_params_grad_clear(tri_model_trained(b.m[i]));
  }
  close_bench(&b);
}

/* One rank runs every model. Two and four ranks run every fourth one, each other ones, with all ways. The
 * brief run takes every eighth model, with every second way in turns. */
static int model_step(void) { return rt.world_size > 1 ? 4 * test_step(2) : test_step(8); }
static int first_model(void) { return rt.world_size > 1 ? rt.world_size - 1 : 0; }

/* The same bits in less memory, for models that share their weights with all ranks, those of a node, or
 * none. */
static void in_turns(void **state) {
  static const tri_shard_scope N = TRI_SHARD_NONE, L = TRI_SHARD_NODE, W = TRI_SHARD_WORLD;
  const way                    ways[] = {{{{W, W, W}, {W, W, W}, {W, W, W}}, 0, 0, false, false},
                                         {{{N, L, L}, {W, W, W}, {L, L, W}}, 0, 64, false, false},
                                         {{{L, W, W}, {N, N, N}, {N, N, N}}, 0, 0, false, false},
                                         {{{W, W, W}, {L, L, L}, {W, W, W}}, 1, 64, false, false},
                                         {{{N, N, N}, {N, N, N}, {W, W, W}}, 1, 0, false, false},
                                         {{{W, W, W}, {N, N, N}, {L, L, W}}, 0, 0, true, false},
                                         {{{W, W, W}, {W, W, W}, {L, L, W}}, 2, 64, true, false},
                                         {{{N, W, W}, {W, W, W}, {W, W, W}}, 1, 64, true, false}};
  results alone = {test_alloc(MOST, sizeof(float)), 0, 0}, together = {test_alloc(MOST, sizeof(float)), 0, 0};

  (void)state;
  for (int i = first_model(); i < N_MODELS + N_RECURRENT; i += model_step()) {
    const char *name = i < N_MODELS ? golden_models[i] : golden_recurrent[i - N_MODELS];
    for (size_t k = (size_t)(i / 8 % test_step(2)); k < sizeof ways / sizeof *ways;
         k += (size_t)test_step(2)) {
      if (ways[k].ranks_per_node > 1 && rt.world_size % ways[k].ranks_per_node) continue;
      run(name, &ways[k], false, &alone);
      run(name, &ways[k], true, &together);
      CHECK(alone.n == together.n && !memcmp(alone.x, together.x, (size_t)alone.n * sizeof(float)),
            "%s, way %d: other bits in one workspace", name, (int)k);
      CHECK(together.device < alone.device, "%s, way %d: %lld bytes in one workspace, %lld apart", name,
            (int)k, (long long)together.device, (long long)alone.device);
    }
  }
  free(alone.x);
  free(together.x);
}

/* The ranks divide the critic's weights and packed forms, not those of the policy. The first rank comes to
 * the critic after the others have come to a barrier. Until then none writes packed forms, because they would
 * lie over what the late rank has of the policy. */
static void no_rank_packs_over_a_late_one(void **state) {
  static const way w = {{{TRI_SHARD_NONE, TRI_SHARD_NODE, TRI_SHARD_NODE},
                         {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_NONE},
                         {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD}},
                        0,
                        0,
                        false,
                        true};
  results          to = {test_alloc(MOST, sizeof(float)), 0, 0};
  progress        *shared;
  bench            b;
  bool             shares;

  (void)state;
  CHECK(rt.world_size <= MOST_RANKS);
  shared = share_progress();
  open_bench(&b, "model/qwen2", &w, true);
  pass(&b, 0, 0, false, false, &to);
  OK(tri_agree(world, TRI_OK));
  seen = shared;
  shares = tri_shared_segment(tri_model_params(b.m[2])) != NULL; /* not on GPUs */
  for (int r = 1; r < rt.world_size && rt.world_rank == 0 && shares; r++)
    while (!seen->came[r]) sched_yield();
  if (rt.world_rank == 0) seen->left = 1;
  pass(&b, 2, 0, false, false, &to);
  seen->came[rt.world_rank] = 1;
  seen = NULL;
  close_bench(&b);
  CHECK(!munmap(shared, sizeof *shared));
  free(to.x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_turns),
                                     cmocka_unit_test(no_rank_packs_over_a_late_one)};

  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
