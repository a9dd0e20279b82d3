/* test_params.c - the parameter store in every residence, by one body, under every legal plan, with filling,
 * gathering, holding, forgetting, reducing, updating, publishing, and its memory. Run with 1, 2 and 4 ranks,
 * each pretending nodes of all, one and two ranks. Judge: values computed from the place in the model,
 * integers with exact sums, AdamW in f64, and the bits of the whole store. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "base/host_memory.h"
#include "state/optim.h"
#include "state/residence.h"

#include <unistd.h>

/* Number of layers. On a CPU four ranks share the weights. With this many layers they still save memory by
 * offload, although each rank has gathered units of its own. The emulation is slow, so it has fewer. */
enum { LAYERS = TRI_CUDA_EMULATED ? 3 : 28, UNITS = LAYERS + 2, MOST_IN = 8, LAYER_OUT = 12, LAYER_A = 4 };

static tri_session session, *const se = &session;
static tri_params      *p;
static tri_unit_spec    unit[UNITS];
static int64_t          layer_in;             /* MOST_IN or 6. With 6 a sliced store has no cut params */
static tri_linear      *linear, *linear_part; /* of all rows of a layer, and of a slice's */
static int              tensor;               /* ranks that hold the weights together, 1: each holds all */
static int              together;             /* the same where a store generates */
static tri_unit_spec    slice[UNITS];
static tri_shard_plan   plan;
static int64_t          asked; /* elements the store asked this rank for */
static const tri_dtype *dtype;
static bool             apart;   /* the first and last unit are never used together */
static int64_t          offload; /* elements of a piece, or 0 for no offload */
static bool             common;  /* the ranks have one copy of weights and packed forms */
static void            *space;   /* device memory for a product's input and, behind it, result */
enum { SPACE = 2 * LAYER_OUT * LAYER_OUT * 4 }; /* half of it is enough for either */

/* ---- the model, with an embedding, equal layers with one fused product, and a head ---- */

enum { MOST_PARAMS = 4 };
static tri_param_spec param[UNITS][MOST_PARAMS];
static tri_linear_use product[UNITS];

static void add(tri_unit_spec *u, const char *name, int64_t d0, int64_t d1) {
  tri_param_spec *s = &u->param[u->n_param++];

  snprintf(s->name, sizeof s->name, "%s", name);
  s->ndim = d1 ? 2 : 1;
  s->dim[0] = d0;
  s->dim[1] = d1;
}

static void make_units(void) {
  memset(unit, 0, sizeof unit);
  memset(param, 0, sizeof param);
  for (int u = 0; u < UNITS; u++) {
    snprintf(unit[u].name, sizeof unit[u].name, "unit %d", u);
    unit[u].param = param[u];
    unit[u].linear = &product[u];
  }
  add(&unit[0], "embed", 61, 7);
  for (int u = 1; u <= LAYERS; u++) {
    unit[u].in_ring = true;
    add(&unit[u], "norm", layer_in, 0);
    add(&unit[u], "a", LAYER_A, layer_in);
    add(&unit[u], "b", LAYER_OUT - LAYER_A, layer_in);
    param[u][2].joined = true;
    add(&unit[u], "last", 70, 0);
    unit[u].n_linear = 1;
    unit[u].linear[0] = (tri_linear_use){.first = 1, .n = 2, .linear = linear};
  }
  add(&unit[UNITS - 1], "norm", 7, 0);
  add(&unit[UNITS - 1], "head", LAYER_OUT, layer_in);
  unit[UNITS - 1].n_linear = 1;
  unit[UNITS - 1].linear[0] = (tri_linear_use){.first = 1, .n = 1, .linear = linear};
  unit[0].apart = unit[UNITS - 1].apart = apart;
  for (int u = 0; u < UNITS; u++) tri_unit_layout(&unit[u]);
}

/* A slice has as many rows of each matrix of a product as those of the other ranks. The table of the first
 * unit is whole. So is that of the last one, but its product has only the slice's rows, as a tied head
 * has. */
static void make_slices(void) {
  static tri_param_spec mine[UNITS][MOST_PARAMS];
  static tri_linear_use use[UNITS];

  for (int u = 0; u < UNITS; u++) {
    slice[u] = unit[u];
    slice[u].param = memcpy(mine[u], param[u], sizeof mine[u]);
    slice[u].linear = &use[u];
    use[u] = product[u];
    use[u].linear = linear_part;
    if (unit[u].in_ring) mine[u][1].dim[0] /= tensor, mine[u][2].dim[0] /= tensor;
    if (u != UNITS - 1) continue;
    use[u].rows = LAYER_OUT / tensor;
    use[u].row = use[u].rows * tri_scope_find(TRI_TENSOR, &se->place).rank;
  }
  for (int u = 0; u < UNITS && layer_in == MOST_IN; u++) {
    tri_unit_cut(&unit[u], &slice[u], &se->place);
    CHECK(param[u][1].cut == unit[u].in_ring);
  }
}

static const tri_kernels *kernels(void) { return se->device->ops->kernels; }

/* Element k of unit[u].param[i], exact in the 8 bits of bf16. */
static float value(int kind, int u, int i, int64_t k) {
  uint32_t bits[4];

  tri_rng_bits(tri_rng_make_key((uint64_t)kind, TRI_RNG_TEST), (uint64_t)(u * 16 + i), (uint64_t)k, bits);
  return (float)((int)(bits[0] % 255) - 127) / 64.0f;
}

/* Rank r's gradient in pass m, small integers with exact sums in any order. */
static float slope(int r, int m, int u, int i, int64_t k) {
  uint32_t bits[4];

  tri_rng_bits(tri_rng_make_key(77, TRI_RNG_TEST), (uint64_t)((r * 8 + m) * 256 + u * 16 + i), (uint64_t)k,
               bits);
  return (float)((int)(bits[0] % 15) - 7);
}

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  (void)ctx;
  CHECK(begin >= 0 && count > 0 && begin + count <= tri_param_count(&unit[u].param[i]));
  for (int64_t k = 0; k < count; k++) out[k] = value((int)kind, u, i, begin + k);
  asked += count;
  return TRI_OK;
}

/* ---- opening ---- */

static int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/* True if the ranks that divide the weights share one copy of them, and of their packed forms. */
static bool shares(bool train) {
  int ranks = plan.params == TRI_SHARD_WORLD  ? se->rt.world_size
              : plan.params == TRI_SHARD_NODE ? se->rt.local_size
                                              : 1;
  return se->comm[TRI_NODE]->near && ranks > 1 && ranks == se->rt.local_size && (train || !offload);
}

/* Returns a rank's piece of `bytes` shared by n ranks. It has whole pages, one more page for alignment, and
 * all ranks together have one for flags. */
static int64_t piece_bytes(int64_t bytes) {
  int64_t page = sysconf(_SC_PAGESIZE), ranks = se->rt.local_size;
  return (page + bytes + ranks * page - 1) / (ranks * page) * page + page;
}

/* Elements of the matrices of a unit that are divided apart from the rest, as a slice needs it. */
static int64_t cut_of(int u) {
  return tensor > 1 && !common && unit[u].in_ring && layer_in == MOST_IN ? LAYER_OUT * layer_in : 0;
}

static int64_t ranks_of(tri_shard_scope s) {
  return s == TRI_SHARD_NONE ? 1 : s == TRI_SHARD_NODE ? se->rt.local_size : se->rt.world_size;
}

static int64_t padded(int64_t elements) {
  int64_t multiple = 64 * (int64_t)se->rt.world_size;
  return (elements + multiple - 1) / multiple * multiple;
}
/* Elements of a unit's rest, and of this rank's share of the unit. */
static int64_t rest_of(int u) { return padded(unit[u].count - padded(cut_of(u))); }
static int64_t share_of(int u, tri_shard_scope s) { return (padded(cut_of(u)) + rest_of(u)) / ranks_of(s); }

/* Weights, gradients, masters, moments and average of this plan on this rank, from the ranges alone. */
static int64_t state_bytes(bool train) {
  int64_t bytes = 0, once = 0;

  for (int u = 0; u < UNITS; u++) {
    int64_t n_p = share_of(u, plan.params), n_g = share_of(u, plan.grads), n_o = share_of(u, plan.optim);
    if (common)
      once += round_up(share_of(u, TRI_SHARD_NONE) * (int64_t)tri_dtype_bytes(*dtype));
    else
      bytes += round_up(n_p * (int64_t)tri_dtype_bytes(*dtype));
    if (!train) continue;
    bytes += round_up(n_g * 4) + 3 * round_up(n_o * 4);
    if (*dtype != TRI_F32) bytes += round_up(n_o * 4);
  }
  return bytes + (common ? piece_bytes(once) : 0);
}

static void open_store(int ranks_per_node, bool train, bool rollout) {
  tri_linear_spec  spec = {LAYER_OUT, layer_in, *dtype, true, false, NULL};
  tri_params_opt   opt = {.dtype = *dtype,
                          .plan = plan,
                          .train = train,
                          .backward = true,
                          .rollout = rollout,
                          .ema_beta = train ? 0.75 : 0,
                          .offload = offload,
                          .unit = unit,
                          .n_unit = UNITS,
                          .label = "policy"};
  tri_linear_bytes bytes;
  void            *workspace;
  int64_t          all = 0, sum;

  tensor = rollout ? together : 1;
  OK(tri_session_open(
      &(tri_session_opt){
          .device = test_device(), .ranks_per_node = ranks_per_node, .threads = 1, .tensor = tensor},
      se));
  OK(kernels()->linear_open(se->device, &spec, &linear));
  spec = (tri_linear_spec){.n_out = LAYER_OUT / tensor, .n_in = layer_in, .dtype = *dtype, .whole = linear};
  OK(kernels()->linear_open(se->device, &spec, &linear_part));
  OK(kernels()->linear_size(linear, &bytes));
  OK(tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "workspace", bytes.workspace,
                    &workspace));
  OK(tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "products", SPACE, &space));
  make_units();
  opt.place = se->place;
  if (tensor > 1) make_slices();
  if (tensor > 1) opt.slice = slice;
  common = shares(train);
  OK(tri_params_open(se->device, se->comm, se->ledger, &opt, &p));
  OK(tri_session_take_memory(se));
  OK(kernels()->linear_bind(linear, workspace, bytes.workspace));
  OK(kernels()->linear_bind(linear_part, workspace, bytes.workspace));
  CHECK(tri_ledger_total(se->ledger).planned == tri_ledger_total(se->ledger).used);
  CHECK(tri_ledger_total(se->ledger).state == state_bytes(train), "state %lld bytes, should be %lld",
        (long long)tri_ledger_total(se->ledger).state, (long long)state_bytes(train));
  for (int kind = TRI_STATE_WEIGHT; kind <= (train ? TRI_STATE_AVERAGE : TRI_STATE_WEIGHT); kind++) {
    asked = 0;
    OK(tri_params_fill(p, (tri_state_kind)kind, fill, NULL, se->stream));
    double total = (double)asked;
    OK(tri_host_sum(se->comm[TRI_WORLD], &total, 1));
    sum = (int64_t)total;
    all = 0;
    for (int u = 0; u < UNITS; u++)
      for (int i = 0; i < unit[u].n_param; i++) all += tri_param_count(&unit[u].param[i]);
    CHECK(sum == all, "%lld elements were asked for, the model has %lld", (long long)sum, (long long)all);
  }
}

static void close_store(void) {
  tri_params_close(&p);
  OK(kernels()->linear_close(&linear));
  OK(kernels()->linear_close(&linear_part));
  tri_session_close(se);
}

/* ---- gathering ---- */

/* Copies a tensor to host memory, freed by free(). */
static tri_tensor on_host(const tri_tensor *t) {
  tri_tensor h = *t;
  h.data = device_get(se->stream, t->data, (size_t)tri_tensor_count(t) * tri_dtype_bytes(t->dtype));
  return h;
}

static float element(const tri_tensor *t, int64_t k) {
  return t->dtype == TRI_BF16 ? tri_bf16_to_f32(((const uint16_t *)t->data)[k]) : ((const float *)t->data)[k];
}

static float stored(float x) { return *dtype == TRI_BF16 ? tri_bf16_to_f32(tri_f32_to_bf16(x)) : x; }

/* Expected value of unit[u].param[i][k], or NULL for the filled values. */
static float (*wanted)(int u, int i, int64_t k);
static float as_filled(int u, int i, int64_t k) { return value(TRI_STATE_WEIGHT, u, i, k); }

/* The unit's product with unit vectors gives its matrix back, column by column (row by row backward). */
static void check_packed(const tri_weights *w, int u, bool backward) {
  int64_t    n = backward ? LAYER_OUT : layer_in, wide = backward ? layer_in : LAYER_OUT;
  float      result[LAYER_OUT * LAYER_OUT];
  uint16_t   half[LAYER_OUT * LAYER_OUT];
  float      full[LAYER_OUT * LAYER_OUT];
  tri_tensor x = tri_view2(space, *dtype, n, n), y = tri_view2((char *)space + SPACE / 2, TRI_F32, n, wide);

  for (int64_t i = 0; i < n * n; i++) {
    full[i] = i % (n + 1) == 0;
    half[i] = tri_f32_to_bf16(full[i]);
  }
  device_copy(se->stream, space, *dtype == TRI_F32 ? (void *)full : (void *)half,
              (size_t)(n * n) * tri_dtype_bytes(*dtype));
  if (backward)
    OK(kernels()->linear_bwd_x(se->stream, linear, w->packed_bwd[0], &y, &x, false));
  else
    OK(kernels()->linear_fwd(se->stream, linear, w->packed_fwd[0], &y, &x, NULL, NULL));
  device_copy(se->stream, result, y.data, (size_t)(n * wide) * sizeof *result);
  for (int64_t out = 0; out < LAYER_OUT; out++)
    for (int64_t in = 0; in < layer_in; in++) {
      float got = backward ? result[out * wide + in] : result[in * wide + out];
      bool  second = unit[u].in_ring && out >= LAYER_A;
      float want = stored(wanted(u, second ? 2 : 1, (second ? out - LAYER_A : out) * layer_in + in));
      CHECK(got == want, "unit %d: packed [%lld,%lld] is %g, not %g", u, (long long)out, (long long)in,
            (double)got, (double)want);
    }
}

static void check_unit(const tri_weights *w, int u, int use) {
  OK(se->device->ops->stream_sync(se->stream));
  for (int i = 0; i < unit[u].n_param; i++) {
    CHECK(w->t[i].dtype == *dtype && w->t[i].ndim == unit[u].param[i].ndim);
    CHECK(tri_tensor_count(&w->t[i]) == tri_param_count(&unit[u].param[i]));
    tri_tensor t = on_host(&w->t[i]);
    for (int64_t k = 0; k < tri_param_count(&unit[u].param[i]); k++)
      CHECK(element(&t, k) == stored(wanted(u, i, k)), "unit %d, param %d, element %lld: %g, not %g", u, i,
            (long long)k, (double)element(&t, k), (double)stored(wanted(u, i, k)));
    free(t.data);
  }
  if (unit[u].n_linear && (use & TRI_USE_FWD)) check_packed(w, u, false);
  if (unit[u].n_linear && (use & TRI_USE_BWD)) check_packed(w, u, true);
}

static void gather(int u, int use, int next) {
  tri_weights w;

  OK(tri_params_acquire(p, u, use, next, se->stream, &w));
  check_unit(&w, u, use);
  OK(tri_params_release(p, u, se->stream));
#if TRI_DEBUG
  int        own = plan.params == TRI_SHARD_WORLD  ? se->rt.world_size
                   : plan.params == TRI_SHARD_NODE ? se->rt.local_size
                                                   : 1;
  tri_tensor t = on_host(&w.t[0]);
  if (own > 1 && unit[u].in_ring && !common)
    CHECK(isnan(element(&t, 0)), "a released unit is still readable");
  free(t.data);
#endif
}

static void both(void) {
  tri_weights first, second;

  OK(tri_params_acquire(p, UNITS - 1, TRI_USE_FWD, 0, se->stream, &first));
  OK(tri_params_acquire(p, 0, TRI_USE_FWD, LAYERS, se->stream, &second));
  check_unit(&first, UNITS - 1, 0);
  check_unit(&second, 0, 0);
  OK(tri_params_release(p, 0, se->stream));
  OK(tri_params_release(p, UNITS - 1, se->stream));
}

static void gathering(void) {
  tri_weights first, second;

  for (int u = 0; u < UNITS; u++) gather(u, TRI_USE_FWD, u + 1 < UNITS ? u + 1 : -1);
  for (int u = UNITS - 1; u >= 0; u--) gather(u, TRI_USE_FWD | TRI_USE_BWD, u > 0 ? u - 1 : -1);
  gather(2, TRI_USE_BWD, 3); /* another unit was prefetched */
  gather(1, TRI_USE_FWD, 2);
  OK(tri_params_prefetch(p, 3, se->stream));
  OK(tri_params_prefetch(p, 3, se->stream));
  OK(tri_params_prefetch(p, -1, se->stream));
  gather(3, TRI_USE_FWD, -1);
  for (int k = 0; k < 2; k++) /* two units that may share a slot, in turns */
    for (int u = 0; u < UNITS; u += UNITS - 1) gather(u, TRI_USE_FWD | TRI_USE_BWD, UNITS - 1 - u);
  /* a rank may use a unit that stays there any number of times */
  for (int k = 0; k < se->rt.world_rank && tri_params_options(p)->train; k++)
    gather(UNITS - 1, TRI_USE_FWD | TRI_USE_BWD, -1);
  for (int u = UNITS - 1; u >= 1; u--) gather(u, TRI_USE_FWD, -1);
  /* two at a time, as a tied head does, and two of the ring */
  if (!apart) both();
  OK(tri_params_acquire(p, 1, TRI_USE_FWD, 2, se->stream, &first));
  OK(tri_params_acquire(p, 2, TRI_USE_FWD, 3, se->stream, &second)); /* no space to prefetch 3 */
  check_unit(&first, 1, TRI_USE_FWD);
  check_unit(&second, 2, TRI_USE_FWD);
  OK(tri_params_release(p, 1, se->stream));
  OK(tri_params_release(p, 2, se->stream));
}

static bool of_product(int u, int i) {
  const tri_linear_use *l = &unit[u].linear[0];
  return unit[u].n_linear && i >= l->first && i < l->first + l->n;
}

/* Checks this rank's rows of a held unit, and that a product with unit vectors gives them. */
static void check_slice(const tri_weights *w, int u) {
  int        mine = tri_scope_find(TRI_TENSOR, &se->place).rank;
  int64_t    rows = LAYER_OUT / tensor, n = layer_in;
  float      result[MOST_IN * LAYER_OUT], full[MOST_IN * MOST_IN];
  uint16_t   half[MOST_IN * MOST_IN];
  tri_tensor x = tri_view2(space, *dtype, n, n), y = tri_view2((char *)space + SPACE / 2, TRI_F32, n, rows);

  OK(se->device->ops->stream_sync(se->stream));
  for (int i = 0; i < unit[u].n_param; i++) {
    int64_t begin = slice[u].param[i].dim[0] == unit[u].param[i].dim[0] ? 0 : mine * slice[u].param[i].dim[0];
    tri_tensor t = w->t[i];
    CHECK(t.ndim == unit[u].param[i].ndim && tri_tensor_count(&t) == tri_param_count(&slice[u].param[i]));
    CHECK(t.data || (of_product(u, i) && !unit[u].param[i].joined == (i == 1)), "unit %d has no param %d", u,
          i);
    if (!t.data) continue;
    t = on_host(&t);
    for (int64_t k = 0; k < tri_tensor_count(&t); k++)
      CHECK(element(&t, k) == stored(wanted(u, i, begin * (t.ndim > 1 ? t.dim[1] : 1) + k)),
            "unit %d, param %d, element %lld of a slice", u, i, (long long)k);
    free(t.data);
  }
  if (!unit[u].n_linear) return;
  for (int64_t i = 0; i < n * n; i++) {
    full[i] = i % (n + 1) == 0;
    half[i] = tri_f32_to_bf16(full[i]);
  }
  device_copy(se->stream, space, *dtype == TRI_F32 ? (void *)full : (void *)half,
              (size_t)(n * n) * tri_dtype_bytes(*dtype));
  OK(kernels()->linear_fwd(se->stream, linear_part, w->packed_fwd[0], &y, &x, NULL, NULL));
  device_copy(se->stream, result, y.data, (size_t)(n * rows) * sizeof *result);
  for (int64_t out = 0; out < rows; out++)
    for (int64_t in = 0; in < n; in++) {
      int64_t a = LAYER_A / tensor;
      bool    second = unit[u].in_ring && out >= a;
      int64_t row = !unit[u].in_ring ? mine * rows + out
                    : second         ? mine * (rows - a) + out - a
                                     : mine * a + out;
      CHECK(result[in * rows + out] == stored(wanted(u, second ? 2 : 1, row * layer_in + in)),
            "unit %d: [%lld,%lld] of a slice's product is %g", u, (long long)out, (long long)in,
            (double)result[in * rows + out]);
    }
}

static double sent_bytes(void) {
  double bytes = 0;

  for (int s = 0; s < TRI_SCOPE_COUNT; s++) bytes += se->comm[s]->traffic.bytes;
  return bytes;
}

/* Bytes that a rank sends to hold slices. Each rank brings the rest of a unit to all others, and of the cut
 * matrices only what they lack of their slices. If a rank's share is its slice, that is nothing. */
static double slice_bytes(void) {
  int64_t elements = 0, ranks = ranks_of(plan.params);

  for (int u = 0; u < UNITS && !common; u++)
    elements += rest_of(u) / ranks * (ranks - 1) + cut_of(u) / tensor - cut_of(u) / ranks;
  return (double)elements * (double)tri_dtype_bytes(*dtype);
}

/* Planned bytes of a generating store's slices: the rest of each unit, and 1 / tensor of each cut matrix,
 * packed if the device packs. A share that is a slice needs none. A packed slice is made from one in
 * between. */
static int64_t planned_slices(void) {
  bool             is_share = tensor == ranks_of(plan.params);
  int64_t          each = (int64_t)tri_dtype_bytes(*dtype), bytes = 0, between = 0;
  tri_linear_bytes size;

  OK(kernels()->linear_size(linear_part, &size));
  for (int u = 0; u < UNITS; u++) {
    int64_t mine = is_share ? 0 : cut_of(u) / tensor;
    if (size.fwd && mine) between = padded(cut_of(u)) / tensor;
    bytes += round_up(((common ? 0 : rest_of(u)) + (size.fwd ? 0 : mine)) * each);
    if (unit[u].n_linear) bytes += round_up((int64_t)size.fwd);
  }
  return bytes + round_up(between * each);
}

static int64_t held_bytes(void) {
  tri_ledger_row *row;
  int64_t         bytes = 0;
  int             n;

  OK(tri_ledger_rows(se->ledger, &row, &n));
  for (int i = 0; i < n; i++)
    if (row[i].phase == TRI_PHASE_ROLLOUT) bytes += row[i].bytes;
  TRI_FREE(row);
  return bytes;
}

/* Held units need no communication, so ranks may use them in different orders. */
static void holding(void) {
  double sent;

  OK(tri_params_prefetch(p, 1, se->stream));
  sent = sent_bytes();
  OK(tri_params_hold(p, true, se->stream));
  sent = sent_bytes() - sent;
  if (p->slice && layer_in == MOST_IN && !offload)
    CHECK(held_bytes() == planned_slices(), "slices of %lld bytes, not %lld", (long long)held_bytes(),
          (long long)planned_slices());
  if (p->slice) CHECK(sent == slice_bytes(), "%.0f bytes sent, not %.0f", sent, slice_bytes());
  OK(tri_params_hold(p, true, se->stream));
  for (int round = 0; round <= se->rt.world_rank; round++)
    for (int u = 0; u < UNITS; u++) {
      tri_weights w;
      OK(tri_params_acquire(p, u, TRI_USE_FWD, u + 1 < UNITS ? u + 1 : -1, se->stream, &w));
      if (p->slice)
        check_slice(&w, u);
      else
        check_unit(&w, u, TRI_USE_FWD);
      OK(tri_params_release(p, u, se->stream));
    }
  OK(tri_params_hold(p, false, se->stream));
  for (int u = 0; u < UNITS; u++) gather(u, TRI_USE_FWD, u + 1 < UNITS ? u + 1 : -1);
}

/* Overwrites a slot, as another store in the same memory does. */
static void spoil(const tri_param_slot *sl, int64_t elements, int u) {
  const tri_device_ops *ops = se->device->ops;

  if (sl->flat) OK(ops->fill(se->stream, sl->flat, 0xff, (size_t)elements * tri_dtype_bytes(*dtype)));
  OK(ops->fill(se->stream, sl->packed_buffers, 0xff, tri_params_packed_bytes(&p->unit[u], true)));
}

/* Forgotten units are gathered again, also one on its way, and those that had stayed valid. */
static void forgetting(void) {
  gather(0, TRI_USE_FWD, -1);
  gather(UNITS - 1, TRI_USE_FWD, 1);
  OK(tri_params_forget_all(p, se->stream));
  OK(tri_params_forget_all(p, se->stream));
  if (p->residence != &tri_residence_whole) {
    CHECK((p->unit[0].own == p->unit[UNITS - 1].own) == (apart && p->residence->in_slots));
    for (int k = 0; k < TRI_PARAM_RING; k++) spoil(&p->ring[k], p->ring_elements, 1);
    for (int u = 0; u < UNITS; u += UNITS - 1) spoil(p->unit[u].own, tri_params_padded(p, &p->unit[u]), u);
  }
  OK(tri_shared_barrier(p));
  for (int u = 0; u < UNITS; u++) gather(u, TRI_USE_FWD | TRI_USE_BWD, u + 1 < UNITS ? u + 1 : -1);
}

/* ---- gradients and the update ---- */

static void add_slope(int m, int u, const tri_weights *dw, float part) {
  for (int i = 0; i < unit[u].n_param; i++) {
    int64_t    n = tri_param_count(&unit[u].param[i]);
    tri_tensor t = on_host(&dw->t[i]);
    if (dw->fresh && of_product(u, i)) memset(t.data, 0, (size_t)n * sizeof(float));
    for (int64_t k = 0; k < n; k++) ((float *)t.data)[k] += part * slope(se->rt.world_rank, m, u, i, k);
    device_copy(se->stream, dw->t[i].data, t.data, (size_t)n * sizeof(float));
    free(t.data);
  }
}

/* One pass in the order of a backward with a tied head, unless the two are never used together. The
 * embedding's gradient is opened first and closed last. */
static void backward(int m, bool last) {
  tri_weights head, table, dw;

  OK(tri_params_grad(p, UNITS - 1, se->stream, &head));
  if (!apart) OK(tri_params_grad(p, 0, se->stream, &table));
  add_slope(m, UNITS - 1, &head, 1);
  if (!apart) add_slope(m, 0, &table, -2);
  OK(tri_params_grad_done(p, UNITS - 1, se->stream, last));
  for (int u = LAYERS; u >= 1; u--) {
    OK(tri_params_grad(p, u, se->stream, &dw));
    add_slope(m, u, &dw, 1);
    OK(tri_params_grad_done(p, u, se->stream, last));
  }
  OK(tri_params_grad(p, 0, se->stream, &table));
  add_slope(m, 0, &table, apart ? 1 : 3);
  OK(tri_params_grad_done(p, 0, se->stream, last));
}

enum { PASSES = 3 };

static double reduced(int u, int i, int64_t k) {
  double sum = 0;

  for (int r = 0; r < se->rt.world_size; r++)
    for (int m = 0; m < PASSES; m++) sum += (double)slope(r, m, u, i, k);
  return sum;
}

/* The reduced gradient on this rank's share is the exact sum, and zero between and behind the params. */
static void check_reduced(void) {
  OK(tri_params_grad_settle(p, se->stream));
  OK(tri_params_grad_settle(p, se->stream)); /* costs nothing */
  for (int u = 0; u < UNITS; u++) {
    int64_t count = 0;
    for (int f = 0; f < (cut_of(u) ? 3 : 1); f++) {
      tri_grad_view v = tri_params_grad_view(p, u, f);
      float        *grad = device_get(se->stream, v.grad, (size_t)v.range.count * sizeof *grad);
      count += v.range.count;
      for (int64_t e = 0; e < v.range.count; e++) {
        double sum = 0;
        for (int i = 0; i < unit[u].n_param; i++) {
          int64_t k = v.range.begin + e - unit[u].param[i].offset;
          if (k >= 0 && k < tri_param_count(&unit[u].param[i])) sum = reduced(u, i, k);
        }
        CHECK((double)grad[e] == sum, "unit %d, element %lld: gradient %g, not %g", u,
              (long long)(v.range.begin + e), (double)grad[e], sum);
      }
      free(grad);
    }
    CHECK(count == (cut_of(u) + rest_of(u)) / ranks_of(plan.optim));
  }
}

static const tri_optim_opt optim = {0.9, 0.99, 1e-8, 0.1, 5.0, {0, 0, 0, 0}};
static double              grad_norm;
static float *after[UNITS][MOST_PARAMS]; /* weights after the update, every rank's part of the files */

/* AdamW (Loshchilov, Hutter 2019) from the filled moments, update 7, in f64. */
static double updated(int u, int i, int64_t k) {
  double w = (double)value(TRI_STATE_WEIGHT, u, i, k), m = (double)value(TRI_STATE_EXP_AVG, u, i, k);
  double v = fabs((double)value(TRI_STATE_EXP_AVG_SQ, u, i, k)), g = reduced(u, i, k) * 5.0 / grad_norm;

  m = 0.9 * m + 0.1 * g;
  v = 0.99 * v + 0.01 * g * g;
  if (unit[u].param[i].ndim == 2) w -= 0.05 * 0.1 * w;
  return w - 0.05 * m / (1 - pow(0.9, 7)) / (sqrt(v / (1 - pow(0.99, 7))) + 1e-8);
}

static float as_read(int u, int i, int64_t k) { return after[u][i][k]; }

/* This rank's pieces of the files, from all ranks put together by a sum. They are only read without a
 * judge. */
static void read_all(tri_state_kind kind, double (*judge)(int u, int i, int64_t k), double most) {
  for (int u = 0; u < UNITS; u++)
    for (int i = 0; i < unit[u].n_param; i++) {
      int64_t   n = tri_param_count(&unit[u].param[i]);
      double   *x = test_alloc(2 * n, sizeof *x); /* values, then how many ranks have them */
      float    *mine = test_alloc(n, sizeof *mine);
      tri_range piece = tri_params_piece(p, u, i);
      OK(tri_params_read(p, kind, u, i, piece.begin, piece.count / 2, mine, se->stream)); /* in two reads */
      OK(tri_params_read(p, kind, u, i, piece.begin + piece.count / 2, piece.count - piece.count / 2,
                         mine + piece.count / 2, se->stream));
      for (int64_t k = 0; k < piece.count; k++) {
        x[piece.begin + k] = (double)mine[k];
        x[n + piece.begin + k] = 1;
      }
      OK(tri_host_sum(se->comm[TRI_WORLD], x, (int)(2 * n)));
      free(after[u][i]);
      after[u][i] = mine;
      for (int64_t k = 0; k < n; k++) {
        CHECK(x[n + k] == 1, "unit %d, param %d, element %lld is in %g files", u, i, (long long)k, x[n + k]);
        if (judge)
          CHECK(fabs(x[k] - judge(u, i, k)) <= most * (1 + fabs(judge(u, i, k))),
                "unit %d, param %d, element %lld: %.9g, not %.9g", u, i, (long long)k, x[k], judge(u, i, k));
        mine[k] = (float)x[k];
      }
      free(x);
    }
}

static double filled_avg(int u, int i, int64_t k) { return (double)value(TRI_STATE_EXP_AVG, u, i, k); }
static double filled_avg_sq(int u, int i, int64_t k) {
  return fabs((double)value(TRI_STATE_EXP_AVG_SQ, u, i, k));
}
static double filled_weight(int u, int i, int64_t k) { return (double)value(TRI_STATE_WEIGHT, u, i, k); }
static double filled_average(int u, int i, int64_t k) { return (double)value(TRI_STATE_AVERAGE, u, i, k); }
static double averaged(int u, int i, int64_t k) {
  return 0.75 * filled_weight(u, i, k) + 0.25 * updated(u, i, k);
}

/* State after the update of the first store of this type and width, which every rank has whole. */
static float *first[2][TRI_STATE_COUNT][UNITS][MOST_PARAMS];

/* The state just read has the bits of that store. */
static void same_bits(tri_state_kind kind) {
  for (int u = 0; u < UNITS; u++)
    for (int i = 0; i < unit[u].n_param; i++) {
      size_t  bytes = (size_t)tri_param_count(&unit[u].param[i]) * sizeof(float);
      float **want = &first[layer_in == MOST_IN][kind][u][i];
      if (!*want) *want = memcpy(test_alloc(1, bytes), after[u][i], bytes);
      CHECK(!memcmp(after[u][i], *want, bytes), "kind %d of unit %d, param %d: other bits", (int)kind, u, i);
    }
}

static void forget_first(void) {
  for (float **x = &first[0][0][0][0]; x < &first[0][0][0][0] + sizeof first / sizeof *x; x++) {
    free(*x);
    *x = NULL;
  }
}

static tri_status fill_positive(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                                float *out) {
  TRI_TRY(fill(ctx, kind, u, i, begin, count, out));
  for (int64_t k = 0; k < count; k++) out[k] = fabsf(out[k]);
  return TRI_OK;
}

static void updating(void) {
  double want = 0;
  bool   applied;

  for (int m = 0; m < PASSES; m++) {
    backward(m, m == PASSES - 1);
    if (m == 0) gather(1, TRI_USE_FWD, -1); /* gathering goes on while a reduction is under way */
  }
  check_reduced();
  for (int u = 0; u < UNITS; u++)
    for (int i = 0; i < unit[u].n_param; i++)
      for (int64_t k = 0; k < tri_param_count(&unit[u].param[i]); k++)
        want += reduced(u, i, k) * reduced(u, i, k);
  OK(tri_params_fill(p, TRI_STATE_EXP_AVG_SQ, fill_positive, NULL, se->stream));
  read_all(TRI_STATE_EXP_AVG, filled_avg, 0);
  read_all(TRI_STATE_EXP_AVG_SQ, filled_avg_sq, 0);
  read_all(TRI_STATE_WEIGHT, filled_weight, 0);
  read_all(TRI_STATE_AVERAGE, filled_average, 0);
  OK(tri_params_average(p, true, se->stream));
  read_all(TRI_STATE_AVERAGE, filled_weight, 0);
  OK(tri_params_prefetch(p, 2, se->stream)); /* nobody comes for it before the update */
  gather(1, TRI_USE_FWD, -1);                /* but then it is there */
  OK(tri_optim_step(p, &optim, &(tri_optim_now){0.05, 7, 1, false}, se->stream, &grad_norm, &applied));
  CHECK(applied && fabs(grad_norm - sqrt(want)) <= 1e-12 * grad_norm, "norm %.17g, not %.17g", grad_norm,
        sqrt(want));
  /* f32 holds beta2 = 0.99 to 6e-8 and 1 - beta2 to 1e-6, and half of that goes into the step */
  OK(tri_params_average(p, false, se->stream));
  read_all(TRI_STATE_EXP_AVG, NULL, 0);
  same_bits(TRI_STATE_EXP_AVG);
  read_all(TRI_STATE_EXP_AVG_SQ, NULL, 0);
  same_bits(TRI_STATE_EXP_AVG_SQ);
  read_all(TRI_STATE_AVERAGE, averaged, 1e-6);
  same_bits(TRI_STATE_AVERAGE);
  read_all(TRI_STATE_WEIGHT, updated, 1e-6);
  same_bits(TRI_STATE_WEIGHT);
  wanted = as_read;
  gather(2, TRI_USE_FWD, -1);
  for (int u = 0; u < UNITS; u++) gather(u, TRI_USE_FWD | TRI_USE_BWD, u + 1 < UNITS ? u + 1 : -1);
  holding();
  /* nothing is left of the gradient, so the same again gives the same sum. The products' part is written
   * anew */
  for (int m = 0; m < PASSES; m++) backward(m, m == PASSES - 1);
  check_reduced();
}

/* ---- every plan ---- */

static const tri_dtype types[] = {TRI_F32, TRI_BF16};

/* State bytes of plan none and of ZeRO-3, in every pretended node. The second is 1 / ranks of the first,
 * except for padding of at most 64 elements x ranks of each unit, in at most five arrays. */
static void compare_memory(int64_t none, int64_t zero3) {
  int64_t R = rt.world_size, padding = UNITS * 5 * (64 * 4 * R + 256);

  CHECK(zero3 >= none / R - padding && zero3 <= none / R + padding,
        "ZeRO-3 %lld bytes, plan none %lld, %lld ranks", (long long)zero3, (long long)none, (long long)R);
}

/* ---- every residence ---- */

/* Ways to use a store. A piece of 100 elements ends within params, and one of 1 << 20 holds every unit. */
typedef struct way {
  bool    train, rollout;
  int64_t offload;
} way;
static const way ways[] = {{true, true, 0},    {true, true, 100}, {true, true, 1 << 20}, {false, false, 0},
                           {false, false, 64}, {false, true, 0},  {false, true, 64}};

static const tri_residence *const residences[] = {&tri_residence_whole, &tri_residence_ring,
                                                  &tri_residence_segment, &tri_residence_host};
static int                        n_lived[4]; /* stores of each */
static bool                       on_gpu;

/* Returns the residence's number, from the ranks alone. */
static int wanted_residence(const way *w) {
  int ranks = plan.params == TRI_SHARD_WORLD  ? se->rt.world_size
              : plan.params == TRI_SHARD_NODE ? se->rt.local_size
                                              : 1;
  return w->offload && !w->train ? 3 : ranks == 1 ? 0 : common ? 2 : 1;
}

/* The life of a store. *device is the device memory without offload, which such a store sets. Returns the
 * bytes of its state. */
static int64_t live(int ranks_per_node, const way *w, int64_t *device) {
  tri_ledger_sum sum;
  int            k;

  offload = w->offload;
  wanted = as_filled;
  open_store(ranks_per_node, w->train, w->rollout);
  k = wanted_residence(w);
  CHECK((p->slice != NULL) == (w->rollout && tensor > 1));
  CHECK(p->residence->start == residences[k]->start, "not residence %d", k);
  n_lived[k]++;
  on_gpu = tri_device_is_gpu(se->device);
  sum = tri_ledger_total(se->ledger);
  CHECK((p->pieces != NULL) == (w->train && w->offload));
  if (!w->offload) *device = sum.device;
  CHECK(sum.resident == *device, "device memory without offload: %lld, planned %lld", (long long)*device,
        (long long)sum.resident);
  if (w->offload == 100 || (w->offload && !w->rollout))
    CHECK(sum.device < *device, "device memory %lld, without offload %lld", (long long)sum.device,
          (long long)*device);
  gathering();
  forgetting();
  if (w->rollout) holding();
  read_all(TRI_STATE_WEIGHT, filled_weight, 0);
  if (w->train) updating();
  close_store();
  offload = 0;
  return sum.state;
}

static void every_plan(int ranks_per_node) {
  int64_t bytes[2] = {0}, device = 0;
  int     local = ranks_per_node ? ranks_per_node : rt.world_size;

  for (int k = 0; k < 27; k++) {
    plan = (tri_shard_plan){(tri_shard_scope)(k / 9), (tri_shard_scope)(k / 3 % 3), (tri_shard_scope)(k % 3)};
    if (plan.params > plan.grads || plan.grads > plan.optim) continue;
    apart = (k + ranks_per_node) % 2;
    for (together = 2; together <= 4; together *= 2) { /* slices differ by the plan of weights alone */
      if (local % together || (k != 13 && k != 14 && k != 26)) continue;
      layer_in = (k + together) / 2 % 2 ? 6 : MOST_IN; /* with 2 a node, k = 14 and 26 have cut params */
      for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].rollout && (ways[i].train || k != 14)) live(ranks_per_node, &ways[i], &device);
    }
    together = 1;
    layer_in = k % 2 ? 6 : MOST_IN;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
      if (!ways[i].train && (plan.grads != plan.params || plan.optim != plan.params)) continue;
      if (i == 2 && (k % 26 || test_step(2) == 2)) continue; /* the same pieces in every plan */
      int64_t state = live(ranks_per_node, &ways[i], &device);
      if (i == 0 && (k == 0 || k == 26)) bytes[k > 0] = state;
    }
  }
  compare_memory(bytes[0], bytes[1]);
}

static void all_plans(void **state) {
  (void)state;
  for (int t = 0; t < 2; t++) {
    for (int per_node = 0; per_node <= 2; per_node++) {
      dtype = &types[t];
      /* With several ranks and in brief the types take turns. One rank runs both. */
      if ((rt.world_size > 1 || test_step(2) == 2) && (t + per_node + rt.world_size / 4) % 2) continue;
      if (per_node < 2 || rt.world_size % 2 == 0) every_plan(per_node);
    }
    forget_first();
  }
  CHECK(n_lived[0] && n_lived[3] && (rt.world_size == 1 || n_lived[1]));
  CHECK(rt.world_size == 1 || on_gpu || n_lived[2] || getenv("TRI_COMM")); /* mpi gathers as GPUs do */
  for (int u = 0; u < UNITS; u++)
    for (int i = 0; i < MOST_PARAMS; i++) {
      free(after[u][i]);
      after[u][i] = NULL;
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_plans)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
