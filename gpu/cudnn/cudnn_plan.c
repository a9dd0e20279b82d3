/* cudnn_plan.c - the gradient of attention as a graph of cuDNN's operations, and the engine for it.
 *
 * The graph is known to cuDNN's SDPA engines (cudnn-frontend 1.32, CompositeSDPABackwardNode). Only one form
 * of it is used: causal, with sequences in packed rows, and deterministic. In the deterministic form dq is a
 * product with the whole gradient of scores, instead of a sum of atomic additions. On GPUs of compute
 * capability 9.0 that gradient is kept, in B H T T bf16 of workspace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cudnn_plan.h"

#include <math.h>
#include <string.h>

enum { MOST_OPS = 48, MOST_CFGS = 16, RANK = 4 };
enum { SCORES = 100 }; /* tensors without memory are numbered from here */

typedef struct graph {
  const cudnn_user *u;
  int64_t           B, T, H, G, D, E;
  cudnn_desc        desc[CUDNN_MOST_DESCS], op[MOST_OPS];
  int               n_desc, n_op, failed; /* `failed` is the first status other than success */
  int64_t           next_uid;
  cudnn_desc        tensor[CUDNN_UIDS];
} graph;

/* ---- descriptors. After a failure nothing more is done ---- */

static cudnn_desc make(graph *g, int type) {
  cudnn_desc d = NULL;

  if (g->failed) return NULL;
  TRI_ASSERT(g->n_desc < CUDNN_MOST_DESCS);
  g->failed = g->u->api->make(type, &d);
  if (!g->failed) g->desc[g->n_desc++] = d;
  return d;
}
static void set(graph *g, cudnn_desc d, int name, int type, int64_t n, const void *from) {
  if (!g->failed) g->failed = g->u->api->set(d, name, type, n, from);
}
static void set_desc(graph *g, cudnn_desc d, int name, cudnn_desc what) {
  set(g, d, name, CUDNN_OF_DESCRIPTOR, 1, &what);
}
static void set_type(graph *g, cudnn_desc d, int name, int type) {
  set(g, d, name, CUDNN_OF_DATA_TYPE, 1, &type);
}
static cudnn_desc end(graph *g, cudnn_desc d) {
  if (!g->failed) g->failed = g->u->api->finalize(d);
  return d;
}
static cudnn_desc end_op(graph *g, cudnn_desc d) {
  TRI_ASSERT(g->n_op < MOST_OPS);
  return g->op[g->n_op++] = end(g, d);
}

/* ---- tensors ---- */

typedef struct shape {
  int64_t dim[RANK], stride[RANK];
} shape;

static cudnn_desc begin_tensor(graph *g, int64_t uid, int type, const shape *s) {
  const int64_t align = 16; /* bytes, device memory has 256, rows and heads 16 by tri_cudnn_why_not */
  cudnn_desc    d = make(g, CUDNN_TENSOR);

  set_type(g, d, CUDNN_TENSOR_TYPE, type);
  set(g, d, CUDNN_TENSOR_DIMS, CUDNN_OF_INT64, RANK, s->dim);
  set(g, d, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, RANK, s->stride);
  set(g, d, CUDNN_TENSOR_UID, CUDNN_OF_INT64, 1, &uid);
  set(g, d, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, &align);
  return d;
}
/* Adds a tensor in memory. `at` has the offsets of its sequences, or is NULL. */
static void put_tensor(graph *g, cudnn_uid uid, int type, const shape *s, cudnn_desc at) {
  cudnn_desc d = begin_tensor(g, uid, type, s);

  if (at) set_desc(g, d, CUDNN_TENSOR_RAGGED, at);
  g->tensor[uid] = end(g, d);
}
static void put_number(graph *g, cudnn_uid uid) {
  const shape s = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  const bool  yes = true;
  cudnn_desc  d = begin_tensor(g, uid, CUDNN_F32, &s);

  set(g, d, CUDNN_TENSOR_BY_VALUE, CUDNN_OF_BOOL, 1, &yes);
  g->tensor[uid] = end(g, d);
}
/* Adds a tensor without memory. */
static cudnn_desc between(graph *g, int type, const shape *s, cudnn_desc at) {
  const bool yes = true;
  cudnn_desc d = begin_tensor(g, g->next_uid++, type, s);

  set(g, d, CUDNN_TENSOR_VIRTUAL, CUDNN_OF_BOOL, 1, &yes);
  if (at) set_desc(g, d, CUDNN_TENSOR_RAGGED, at);
  return end(g, d);
}
/* Shapes [B,n,rows,cols] without gaps. `turned` has the last two dimensions in the other order in memory. */
static shape whole(const graph *g, int64_t n, int64_t rows, int64_t cols) {
  return (shape){{g->B, n, rows, cols}, {n * rows * cols, rows * cols, cols, 1}};
}
static shape turned(const graph *g, int64_t n, int64_t rows, int64_t cols) {
  return (shape){{g->B, n, rows, cols}, {n * rows * cols, rows * cols, 1, rows}};
}
static cudnn_desc scores(graph *g, int type) {
  const shape s = whole(g, g->H, g->T, g->T);

  return between(g, type, &s, NULL);
}

/* Shape of n heads of `width` columns side by side in rows of `row` elements. Batches are found by their
 * offsets. The first stride is for a batch without offsets. */
static shape heads_in_rows(const graph *g, int64_t n, int64_t width, int64_t row) {
  return (shape){{g->B, n, g->T, width}, {g->T * row, width, row, 1}};
}
static shape transposed(shape s) {
  int64_t dim = s.dim[2], stride = s.stride[2];

  s.dim[2] = s.dim[3], s.stride[2] = s.stride[3];
  s.dim[3] = dim, s.stride[3] = stride;
  return s;
}

static void put_tensors(graph *g, bool window) {
  const shape each = {{g->B, 1, 1, 1}, {1, 1, 1, 1}}, ends = {{g->B + 1, 1, 1, 1}, {1, 1, 1, 1}};
  const shape q = heads_in_rows(g, g->H, g->D, g->E), k = heads_in_rows(g, g->G, g->D, g->E),
              o = heads_in_rows(g, g->H, g->D, g->H * g->D), stats = heads_in_rows(g, g->H, 1, g->H),
              kt = transposed(k), delta = whole(g, g->H, g->T, 1);
  cudnn_desc *t = g->tensor;

  put_tensor(g, CUDNN_LEN_Q, CUDNN_I32, &each, NULL);
  put_tensor(g, CUDNN_LEN_KV, CUDNN_I32, &each, NULL);
  put_tensor(g, CUDNN_AT_QKV, CUDNN_I32, &ends, NULL);
  put_tensor(g, CUDNN_AT_O, CUDNN_I32, &ends, NULL);
  put_tensor(g, CUDNN_AT_STATS, CUDNN_I32, &ends, NULL);
  put_tensor(g, CUDNN_Q, CUDNN_BF16, &q, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_K, CUDNN_BF16, &kt, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_V, CUDNN_BF16, &kt, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_O, CUDNN_BF16, &o, t[CUDNN_AT_O]);
  put_tensor(g, CUDNN_DO, CUDNN_BF16, &o, t[CUDNN_AT_O]);
  put_tensor(g, CUDNN_STATS, CUDNN_F32, &stats, t[CUDNN_AT_STATS]);
  put_tensor(g, CUDNN_DQ, CUDNN_BF16, &q, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_DK, CUDNN_BF16, &k, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_DV, CUDNN_BF16, &k, t[CUDNN_AT_QKV]);
  put_tensor(g, CUDNN_DELTA, CUDNN_F32, &delta, NULL);
  for (int i = CUDNN_SCALE; i <= (window ? CUDNN_WINDOW : CUDNN_MASKED); i++) put_number(g, (cudnn_uid)i);
}

/* ---- operations ---- */

/* y = mode(x, b, t). b and t may be NULL. axis is that of an index, or -1. */
static cudnn_desc point(graph *g, int mode, int type, cudnn_desc x, cudnn_desc b, cudnn_desc t, int64_t axis,
                        cudnn_desc y) {
  cudnn_desc how = make(g, CUDNN_POINTWISE), op;

  set(g, how, CUDNN_POINTWISE_MODE, CUDNN_OF_POINTWISE_MODE, 1, &mode);
  set_type(g, how, CUDNN_POINTWISE_TYPE, type);
  if (axis >= 0) set(g, how, CUDNN_POINTWISE_AXIS, CUDNN_OF_INT64, 1, &axis);
  end(g, how);
  op = make(g, CUDNN_OP_POINTWISE);
  set_desc(g, op, CUDNN_OP_POINTWISE_DESC, how);
  set_desc(g, op, CUDNN_OP_POINTWISE_X, x);
  if (b) set_desc(g, op, CUDNN_OP_POINTWISE_B, b);
  if (t) set_desc(g, op, CUDNN_OP_POINTWISE_T, t);
  set_desc(g, op, CUDNN_OP_POINTWISE_Y, y);
  end_op(g, op);
  return y;
}
static cudnn_desc of_scores(graph *g, int mode, cudnn_desc x, cudnn_desc b) {
  return point(g, mode, CUDNN_F32, x, b, NULL, -1, scores(g, CUDNN_F32));
}

/* y = a b. The lengths of the sequences bound up to three sizes of the product: rows, columns and terms. */
static cudnn_desc multiply(graph *g, cudnn_desc a, cudnn_desc b, cudnn_uid rows, cudnn_uid cols,
                           cudnn_uid terms, cudnn_desc y) {
  cudnn_desc how = make(g, CUDNN_MATMUL), op;

  set_type(g, how, CUDNN_MATMUL_TYPE, CUDNN_F32);
  end(g, how);
  op = make(g, CUDNN_OP_MATMUL);
  set_desc(g, op, CUDNN_OP_MATMUL_DESC, how);
  set_desc(g, op, CUDNN_OP_MATMUL_A, a);
  set_desc(g, op, CUDNN_OP_MATMUL_B, b);
  set_desc(g, op, CUDNN_OP_MATMUL_C, y);
  if (rows) set_desc(g, op, CUDNN_OP_MATMUL_M, g->tensor[rows]);
  if (cols) set_desc(g, op, CUDNN_OP_MATMUL_N, g->tensor[cols]);
  if (terms) set_desc(g, op, CUDNN_OP_MATMUL_K, g->tensor[terms]);
  end_op(g, op);
  return y;
}

static cudnn_desc add_up(graph *g, cudnn_desc x, cudnn_desc y) {
  const int  mode = CUDNN_REDUCE_ADD;
  cudnn_desc how = make(g, CUDNN_REDUCTION), op;

  set(g, how, CUDNN_REDUCTION_MODE, CUDNN_OF_REDUCTION_MODE, 1, &mode);
  set_type(g, how, CUDNN_REDUCTION_TYPE, CUDNN_F32);
  end(g, how);
  op = make(g, CUDNN_OP_REDUCTION);
  set_desc(g, op, CUDNN_OP_REDUCTION_DESC, how);
  set_desc(g, op, CUDNN_OP_REDUCTION_X, x);
  set_desc(g, op, CUDNN_OP_REDUCTION_Y, y);
  end_op(g, op);
  return y;
}

static cudnn_desc transpose(graph *g, cudnn_desc x, int type, const shape *s, cudnn_desc at) {
  cudnn_desc y = between(g, type, s, at), op = make(g, CUDNN_OP_RESHAPE);

  set_desc(g, op, CUDNN_OP_RESHAPE_X, x);
  set_desc(g, op, CUDNN_OP_RESHAPE_Y, y);
  end_op(g, op);
  return y;
}

/* ---- the graph ---- */

/* Numbers the elements along an axis of `like`. */
static cudnn_desc number_along(graph *g, cudnn_desc like, int64_t axis, int type) {
  return point(g, CUDNN_GEN_INDEX, type, like, NULL, NULL, axis, scores(g, CUDNN_I32));
}
static cudnn_desc test(graph *g, int mode, cudnn_desc a, cudnn_desc b) {
  return point(g, mode, CUDNN_BOOL, a, b, NULL, -1, scores(g, CUDNN_BOOL));
}
static cudnn_desc keep(graph *g, cudnn_desc x, cudnn_desc where) {
  return point(g, CUDNN_SELECT, CUDNN_F32, x, g->tensor[CUDNN_MASKED], where, -1, scores(g, CUDNN_F32));
}

/* Sets the scores of pairs that do not see each other to -infinity. These are rows and keys behind a
 * sequence's end, keys behind their row, and keys before its window (key + window > row). */
static cudnn_desc mask(graph *g, cudnn_desc x, bool window) {
  cudnn_desc *t = g->tensor, row = number_along(g, x, 2, CUDNN_I32), key = number_along(g, x, 3, CUDNN_I32);
  cudnn_desc  inside = test(g, CUDNN_CMP_LT, row, t[CUDNN_LEN_Q]);

  inside = test(g, CUDNN_AND, inside, test(g, CUDNN_CMP_LT, key, t[CUDNN_LEN_KV]));
  x = keep(g, x, inside);
  row = number_along(g, x, 2, CUDNN_F32), key = number_along(g, x, 3, CUDNN_F32);
  x = keep(g, x, test(g, CUDNN_CMP_GE, row, key));
  if (!window) return x;
  row = number_along(g, x, 2, CUDNN_F32), key = number_along(g, x, 3, CUDNN_F32);
  key = point(g, CUDNN_ADD, CUDNN_F32, key, t[CUDNN_WINDOW], NULL, 3, scores(g, CUDNN_F32));
  return keep(g, x, test(g, CUDNN_CMP_GT, key, row));
}

/* Multiplies p or ds, transposed, by dout or q to give dv or dk. The result is summed over a group's heads if
 * there are several. */
static void to_keys(graph *g, cudnn_desc x, cudnn_desc rows, cudnn_uid to) {
  const shape turn = turned(g, g->H, g->T, g->T), full = whole(g, g->H, g->T, g->D);
  cudnn_desc  y = g->H == g->G ? g->tensor[to] : between(g, CUDNN_BF16, &full, NULL);

  x = transpose(g, x, CUDNN_BF16, &turn, NULL);
  multiply(g, x, rows, CUDNN_LEN_KV, 0, CUDNN_LEN_Q, y);
  if (g->H != g->G) add_up(g, y, g->tensor[to]);
}

/* delta = sum over D of dout o. */
static void put_delta(graph *g) {
  const shape o = whole(g, g->H, g->T, g->D), sum = whole(g, g->H, g->T, 1);
  cudnn_desc *t = g->tensor, x;

  x = point(g, CUDNN_MUL, CUDNN_F32, t[CUDNN_DO], t[CUDNN_O], NULL, -1, between(g, CUDNN_F32, &o, NULL));
  x = add_up(g, x, between(g, CUDNN_F32, &sum, NULL));
  point(g, CUDNN_MUL, CUDNN_F32, x, t[CUDNN_ONE], NULL, -1, t[CUDNN_DELTA]);
}

static void put_gradient(graph *g, bool window) {
  const shape rows_of_k = heads_in_rows(g, g->G, g->D, g->E);
  cudnn_desc *t = g->tensor, p, ds, k;

  put_delta(g);
  p = multiply(g, t[CUDNN_Q], t[CUDNN_K], CUDNN_LEN_Q, CUDNN_LEN_KV, 0, scores(g, CUDNN_F32));
  p = of_scores(g, CUDNN_SUB, of_scores(g, CUDNN_MUL, p, t[CUDNN_SCALE]), t[CUDNN_STATS]);
  p = of_scores(g, CUDNN_EXP, mask(g, p, window), NULL);
  to_keys(g, p, t[CUDNN_DO], CUDNN_DV);
  ds = multiply(g, t[CUDNN_DO], t[CUDNN_V], CUDNN_LEN_Q, CUDNN_LEN_KV, 0, scores(g, CUDNN_F32));
  ds = of_scores(g, CUDNN_MUL, of_scores(g, CUDNN_SUB, ds, t[CUDNN_DELTA]), p);
  ds = of_scores(g, CUDNN_MUL, ds, t[CUDNN_SCALE]);
  to_keys(g, ds, t[CUDNN_Q], CUDNN_DK);
  k = transpose(g, t[CUDNN_K], CUDNN_BF16, &rows_of_k, t[CUDNN_AT_QKV]);
  multiply(g, ds, k, CUDNN_LEN_Q, 0, CUDNN_LEN_KV, t[CUDNN_DQ]);
}

/* ---- its engine ---- */

static cudnn_desc put_graph(graph *g) {
  cudnn_desc d = make(g, CUDNN_GRAPH);

  if (g->u->handle) set(g, d, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, &g->u->handle);
  set(g, d, CUDNN_GRAPH_OPS, CUDNN_OF_DESCRIPTOR, g->n_op, g->op);
  return end(g, d);
}

/* Returns whether the engine of this configuration repeats its bits, and its number. */
static bool repeats(graph *g, cudnn_desc cfg, int64_t *number) {
  cudnn_desc engine = make(g, CUDNN_ENGINE);
  int        note[CUDNN_NOTES];
  int64_t    n = 0;

  if (g->failed || g->u->api->get(cfg, CUDNN_CFG_ENGINE, CUDNN_OF_DESCRIPTOR, 1, &n, &engine) ||
      g->u->api->get(engine, CUDNN_ENGINE_INDEX, CUDNN_OF_INT64, 1, &n, number) ||
      g->u->api->get(engine, CUDNN_ENGINE_NOTES, CUDNN_OF_NOTE, CUDNN_NOTES, &n, note))
    return false;
  for (int64_t i = 0; i < n; i++)
    if (note[i] == CUDNN_NOTE_NONDETERMINISTIC) return false;
  return true;
}

/* Makes a plan of the configuration. Returns false if its engine cannot do it after all. */
static bool finish(graph *g, cudnn_desc cfg, cudnn_plan *out) {
  const cudnn_user *u = g->u;
  cudnn_desc        plan = NULL;
  int64_t           n, bytes = 0;
  bool              done = !u->api->make(CUDNN_PLAN, &plan);

  done = done && !(u->handle ? u->api->set(plan, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, &u->handle)
                             : u->api->set(plan, CUDNN_PLAN_DEVICEPROP, CUDNN_OF_DESCRIPTOR, 1, &u->paper));
  done = done && !u->api->set(plan, CUDNN_PLAN_CFG, CUDNN_OF_DESCRIPTOR, 1, &cfg) &&
         !u->api->finalize(plan) && !u->api->get(plan, CUDNN_PLAN_WORKSPACE, CUDNN_OF_INT64, 1, &n, &bytes) &&
         bytes >= 0;
  if (!done) {
    if (plan) u->api->drop(plan);
    return false;
  }
  out->plan = plan;
  out->workspace = (size_t)bytes;
  return true;
}

/* Takes the first of the library's choices, in its order, that repeats its bits and works. */
static bool choose(graph *g, cudnn_desc ops, int mode, cudnn_plan *out) {
  cudnn_desc heur = make(g, CUDNN_ENGINEHEUR), cfg[MOST_CFGS];
  int64_t    n = 0;

  set_desc(g, heur, CUDNN_HEUR_GRAPH, ops);
  set(g, heur, CUDNN_HEUR_MODE, CUDNN_OF_HEUR_MODE, 1, &mode);
  if (!g->u->handle) set_desc(g, heur, CUDNN_HEUR_DEVICEPROP, g->u->paper);
  end(g, heur);
  for (int i = 0; i < MOST_CFGS; i++) cfg[i] = make(g, CUDNN_ENGINECFG);
  if (g->failed || g->u->api->get(heur, CUDNN_HEUR_RESULTS, CUDNN_OF_DESCRIPTOR, MOST_CFGS, &n, cfg))
    return false;
  for (int64_t i = 0; i < n && i < MOST_CFGS; i++)
    if (repeats(g, cfg[i], &out->engine) && finish(g, cfg[i], out)) return true;
  return false;
}

void tri_cudnn_plan_open(const cudnn_user *u, const tri_attn_rule *rule, int64_t B, int64_t T,
                         cudnn_plan *out, const char **why) {
  const tri_heads *h = &rule->heads;
  graph            g = {.u = u, .B = B, .T = T, .H = h->H, .G = h->G, .D = h->D, .next_uid = SCORES};
  cudnn_desc       ops;

  *out = (cudnn_plan){.B = B, .T = T};
  g.E = (g.H + 2 * g.G) * g.D;
  put_tensors(&g, rule->window > 0);
  put_gradient(&g, rule->window > 0);
  ops = put_graph(&g);
  *why = g.failed                             ? "cuDNN refuses the graph"
         : choose(&g, ops, CUDNN_HEUR_A, out) ? NULL
         : !g.failed && choose(&g, ops, CUDNN_HEUR_FALLBACK, out)
             ? NULL
             : "cuDNN has no engine with repeatable bits";
  out->n_kept = g.n_desc; /* not promised that a plan keeps its parts */
  memcpy(out->kept, g.desc, (size_t)g.n_desc * sizeof *out->kept);
  if (*why) tri_cudnn_plan_close(u, out);
}

void tri_cudnn_plan_close(const cudnn_user *u, cudnn_plan *p) {
  if (p->plan) u->api->drop(p->plan);
  while (p->n_kept > 0) u->api->drop(p->kept[--p->n_kept]);
  *p = (cudnn_plan){0};
}

tri_status tri_cudnn_plan_run(const cudnn_user *u, const cudnn_plan *p, void *const at[CUDNN_UIDS],
                              void *workspace) {
  const cudnn_api *api = u->api;
  cudnn_desc       pack = NULL;
  void            *place[CUDNN_UIDS];
  int64_t          uid[CUDNN_UIDS], n = 0;
  int              failed = api->make(CUDNN_PACK, &pack);
  char             text[256] = "";

  for (int i = CUDNN_Q; i < CUDNN_UIDS; i++)
    if (at[i]) uid[n] = i, place[n++] = at[i];
  if (!failed) failed = api->set(pack, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, n, place);
  if (!failed) failed = api->set(pack, CUDNN_PACK_UIDS, CUDNN_OF_INT64, n, uid);
  if (!failed) failed = api->set(pack, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, &workspace);
  if (!failed) failed = api->finalize(pack);
  if (!failed) failed = api->execute(u->handle, p->plan, pack);
  if (failed) api->last_error(text, sizeof text);
  if (pack) api->drop(pack);
  if (failed)
    TRI_FAIL(
        TRI_EDEVICE,
        "attention backward failed in cuDNN (status %d: %s). Set TRI_CUDA_ATTN_BWD=own to run without cuDNN",
        failed, text);
  return TRI_OK;
}
