/* test_delta.c - tests the gated delta rule and its convolution, for every back end that has them.
 *
 * Judges: the rule written out in f64, its gradients in f64 judged by central differences, and exact bits for
 * packing, splits, slots and threads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

enum { MOST_SEQUENCES = 9 };

/* A batch and its inputs in f64, as the kernels' types store them. */
typedef struct batch {
  tri_delta_rule rule;
  int64_t        N, S;
  int32_t        cu[MOST_SEQUENCES + 1];
  double        *c, *ba, *A_log, *dt_bias, *dout;
} batch;

typedef struct gradients {
  double *dc, *dba, *dA_log, *ddt_bias;
} gradients;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }

static batch make_batch(const tri_delta_rule *rule, const int *length, int S) {
  batch a = {.rule = *rule, .S = S};
  for (int s = 0; s < S; s++) a.cu[s + 1] = a.cu[s] + length[s];
  a.N = a.cu[S];
  a.c = numbers(1, a.N * tri_delta_width(rule), 1), a.ba = numbers(2, a.N * 2 * rule->Hv, 2);
  a.A_log = numbers(3, rule->Hv, 2), a.dt_bias = numbers(4, rule->Hv, 1);
  a.dout = numbers(5, a.N * rule->Hv * rule->Dv, 1);
  return a;
}
static void free_batch(batch *a) { free(a->c), free(a->ba), free(a->A_log), free(a->dt_bias), free(a->dout); }

/* Returns the normalised head at x, and 1 / sqrt(sum of squares + 1e-6) in *r. */
static double *unit_of(const double *x, int n, double scale, double *r) {
  double *y = host((size_t)n, sizeof *y), sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  *r = 1 / sqrt(sum + 1e-6);
  for (int i = 0; i < n; i++) y[i] = x[i] * *r * scale;
  return y;
}

/* The numbers of one row and value head. */
typedef struct row_of {
  double *q, *k, q_scale, k_scale, beta, g, log_g, x; /* x = a + dt_bias */
  int64_t at_q, at_k, at_v;                           /* elements of c */
} row_of;
static row_of row_at(const batch *a, int64_t n, int h) {
  const tri_delta_rule *r = &a->rule;
  int64_t               Er = tri_delta_width(r), key = h / (r->Hv / r->Hk);
  row_of                x;
  x.at_q = n * Er + key * r->Dk, x.at_k = x.at_q + (int64_t)r->Hk * r->Dk;
  x.at_v = n * Er + 2 * (int64_t)r->Hk * r->Dk + (int64_t)h * r->Dv;
  x.q = unit_of(a->c + x.at_q, r->Dk, 1 / sqrt(r->Dk), &x.q_scale);
  x.k = unit_of(a->c + x.at_k, r->Dk, 1, &x.k_scale);
  x.beta = sigmoid(a->ba[n * 2 * r->Hv + h]);
  x.x = a->ba[n * 2 * r->Hv + r->Hv + h] + a->dt_bias[h];
  x.log_g = -exp(a->A_log[h]) * softplus(x.x);
  x.g = exp(x.log_g);
  return x;
}

/* One row of the rule. P [Dk,Dv] is the state before it, S the one after it. less = v - (g P)' k. */
static void step(const batch *a, const row_of *x, const double *P, double *S, double *less, double *o) {
  int Dk = a->rule.Dk, Dv = a->rule.Dv;
  for (int j = 0; j < Dv; j++) {
    double kv = 0, sum = 0;
    for (int i = 0; i < Dk; i++) kv += x->g * P[i * Dv + j] * x->k[i];
    less[j] = a->c[x->at_v + j] - kv;
    for (int i = 0; i < Dk; i++) S[i * Dv + j] = x->g * P[i * Dv + j] + x->k[i] * x->beta * less[j];
    for (int i = 0; i < Dk; i++) sum += S[i * Dv + j] * x->q[i];
    if (o) o[j] = sum;
  }
}

/* Runs one head of one sequence. state [T + 1,Dk,Dv], the first is zero, and less [T,Dv] are kept. */
static void run_head(const batch *a, int s, int h, double *state, double *less, double *o) {
  int64_t size = (int64_t)a->rule.Dk * a->rule.Dv, Dv = a->rule.Dv;
  for (int64_t n = a->cu[s]; n < a->cu[s + 1]; n++) {
    int64_t t = n - a->cu[s];
    row_of  x = row_at(a, n, h);
    step(a, &x, state + t * size, state + (t + 1) * size, less + t * Dv,
         o ? o + (n * a->rule.Hv + h) * Dv : NULL);
    free(x.q), free(x.k);
  }
}

/* Returns o [N,Hv*Dv], and the last states of all sequences in last [S,Hv,Dk,Dv] (may be NULL). */
static double *forward(const batch *a, double *last) {
  int64_t size = (int64_t)a->rule.Dk * a->rule.Dv;
  double *o = host((size_t)(a->N * a->rule.Hv * a->rule.Dv), sizeof *o);
  for (int s = 0; s < a->S; s++)
    for (int h = 0; h < a->rule.Hv; h++) {
      int64_t T = a->cu[s + 1] - a->cu[s];
      double *state = host((size_t)((T + 1) * size), sizeof *state),
             *less = host((size_t)(T * a->rule.Dv), 8);
      run_head(a, s, h, state, less, o);
      if (last) memcpy(last + (s * a->rule.Hv + h) * size, state + T * size, (size_t)size * sizeof *last);
      free(state), free(less);
    }
  return o;
}

/* Adds the gradient of a normalised head, dy, to that of the head, dx. */
static void unit_back(double *dx, const double *y, const double *dy, int n, double scale, double r) {
  double along = 0;
  for (int i = 0; i < n; i++) along += y[i] / scale * dy[i] * scale;
  for (int i = 0; i < n; i++) dx[i] += r * (dy[i] * scale - y[i] / scale * along);
}

/* Goes back through one row. dS becomes that of the state before it. */
static void step_back(const batch *a, const row_of *x, int64_t n, int h, const double *P, const double *S,
                      const double *less, double *dS, gradients *to) {
  int           Dk = a->rule.Dk, Dv = a->rule.Dv, Hv = a->rule.Hv;
  const double *dout = a->dout + (n * Hv + h) * Dv;
  double        dbeta = 0, dg = 0, dlog;
  double       *dq = host((size_t)Dk, sizeof *dq), *dk = host((size_t)Dk, sizeof *dk);

  for (int i = 0; i < Dk; i++)
    for (int j = 0; j < Dv; j++) {
      dS[i * Dv + j] += x->q[i] * dout[j];
      dq[i] += S[i * Dv + j] * dout[j];
    }
  for (int j = 0; j < Dv; j++) {
    double e = 0;
    for (int i = 0; i < Dk; i++) e += dS[i * Dv + j] * x->k[i];
    to->dc[x->at_v + j] += x->beta * e;
    dbeta += e * less[j];
    for (int i = 0; i < Dk; i++) {
      dk[i] += dS[i * Dv + j] * x->beta * less[j] - x->g * P[i * Dv + j] * x->beta * e;
      dS[i * Dv + j] -= x->k[i] * x->beta * e;
      dg += dS[i * Dv + j] * P[i * Dv + j];
      dS[i * Dv + j] *= x->g;
    }
  }
  unit_back(to->dc + x->at_q, x->q, dq, Dk, 1 / sqrt(Dk), x->q_scale);
  unit_back(to->dc + x->at_k, x->k, dk, Dk, 1, x->k_scale);
  dlog = dg * x->g;
  to->dba[n * 2 * Hv + h] += dbeta * x->beta * (1 - x->beta);
  to->dba[n * 2 * Hv + Hv + h] += -dlog * exp(a->A_log[h]) * (x->x > 20 ? 1 : sigmoid(x->x));
  to->ddt_bias[h] += -dlog * exp(a->A_log[h]) * (x->x > 20 ? 1 : sigmoid(x->x));
  to->dA_log[h] += dlog * x->log_g;
  free(dq), free(dk);
}

static gradients make_gradients(const batch *a) {
  gradients g = {host((size_t)(a->N * tri_delta_width(&a->rule)), 8),
                 host((size_t)(a->N * 2 * a->rule.Hv), 8), host((size_t)a->rule.Hv, 8),
                 host((size_t)a->rule.Hv, 8)};
  return g;
}
static void free_gradients(gradients *g) { free(g->dc), free(g->dba), free(g->dA_log), free(g->ddt_bias); }

static gradients backward(const batch *a) {
  int64_t   size = (int64_t)a->rule.Dk * a->rule.Dv, Dv = a->rule.Dv;
  gradients to = make_gradients(a);
  for (int s = 0; s < a->S; s++)
    for (int h = 0; h < a->rule.Hv; h++) {
      int64_t T = a->cu[s + 1] - a->cu[s];
      double *state = host((size_t)((T + 1) * size), sizeof *state), *less = host((size_t)(T * Dv), 8);
      double *dS = host((size_t)size, sizeof *dS);
      run_head(a, s, h, state, less, NULL);
      for (int64_t t = T - 1; t >= 0; t--) {
        row_of x = row_at(a, a->cu[s] + t, h);
        step_back(a, &x, a->cu[s] + t, h, state + t * size, state + (t + 1) * size, less + t * Dv, dS, &to);
        free(x.q), free(x.k);
      }
      free(state), free(less), free(dS);
    }
  return to;
}

static double loss(const void *arguments) {
  const batch *a = arguments;
  double      *o = forward(a, NULL), sum = 0;
  for (int64_t i = 0; i < a->N * a->rule.Hv * a->rule.Dv; i++) sum += o[i] * a->dout[i];
  free(o);
  return sum;
}
static void expect_slopes(batch *a, double *x, const double *dx, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double want = slope(loss, a, x + i);
    if (!(fabs(dx[i] - want) < 1e-7)) fail_msg("element %lld: %.9g, want %.9g", (long long)i, dx[i], want);
  }
}
static void test_rule_loop(void **state) {
  static const int     length[] = {5, 1, 2};
  const tri_delta_rule rule = {.Hk = 2, .Hv = 4, .Dk = 3, .Dv = 2};
  batch                a = make_batch(&rule, length, 3);
  gradients            g = backward(&a);
  (void)state;
  expect_slopes(&a, a.c, g.dc, a.N * tri_delta_width(&rule));
  expect_slopes(&a, a.ba, g.dba, a.N * 2 * rule.Hv);
  expect_slopes(&a, a.A_log, g.dA_log, rule.Hv);
  expect_slopes(&a, a.dt_bias, g.ddt_bias, rule.Hv);
  free_gradients(&g), free_batch(&a);
}

/* ---- the kernels ---- */

typedef struct on_device { /* a batch's arrays on the device */
  tri_dtype  A;
  tri_tensor c, ba, A_log, dt_bias, dout, cu;
} on_device;

/* Rounds the batch to type A. A_log and dt_bias have type A, or f32 for f16. */
static on_device put_batch(bench *b, tri_dtype A, batch *a) {
  const tri_delta_rule *r = &a->rule;
  tri_dtype             own = A == TRI_F16 ? TRI_F32 : A;
  on_device             d = {A,
                             put_real(b, A, a->N, tri_delta_width(r), a->c),
                             put_real(b, A, a->N, 2 * r->Hv, a->ba),
                             put_real(b, own, r->Hv, 0, a->A_log),
                             put_real(b, own, r->Hv, 0, a->dt_bias),
                             put_real(b, A, a->N, (int64_t)r->Hv * r->Dv, a->dout),
                             put_i32(b, a->S + 1, 0, a->cu)};
  return d;
}

/* Checks |array - want| <= absolute * the largest |want| + a rounding to the array's type. */
static void expect_close(bench *b, const char *what, const tri_tensor *t, const double *want,
                         double relative) {
  double top = 0;
  for (int64_t i = 0; i < tri_tensor_count(t); i++) top = fabs(want[i]) > top ? fabs(want[i]) : top;
  expect_near(b, what, t, want, t->dtype == TRI_F32 ? 0 : 1.01 * half_unit(t->dtype), relative * top + 1e-12);
}

/* Runs rows first .. first + n - 1 of the batch as `S` sequences with bounds cu, from slots if slot is
 * given. */
static tri_tensor run_rows(bench *b, const batch *a, const on_device *d, int64_t first, int64_t n,
                           const int32_t *cu, int64_t S, tri_tensor *state, const int32_t *slot,
                           const int32_t *fresh) {
  tri_tensor c = tri_rows(&d->c, first, n), ba = tri_rows(&d->ba, first, n),
             bounds = put_i32(b, S + 1, 0, cu);
  tri_tensor     o = make(b, d->A, n, (int64_t)a->rule.Hv * a->rule.Dv), to, is_fresh;
  tri_delta_rows rows = {&bounds, NULL, NULL};
  if (slot) {
    to = put_i32(b, S, 0, slot), is_fresh = put_i32(b, S, 0, fresh);
    rows.slot = &to, rows.fresh = &is_fresh;
  }
  ok(b->k->delta_fwd(b->stream, &o, &c, &ba, &d->A_log, &d->dt_bias, state, &rows, &a->rule));
  return o;
}

static tri_tensor run_batch(bench *b, const batch *a, const on_device *d) {
  return run_rows(b, a, d, 0, a->N, a->cu, a->S, NULL, NULL, NULL);
}

typedef struct device_gradients {
  tri_tensor dc, dba, dA_log, ddt_bias;
} device_gradients;

/* Runs delta_bwd for rows first .. first + n - 1. Weight gradients begin at 1. */
static device_gradients back_rows(bench *b, const batch *a, const on_device *d, int64_t first, int64_t n,
                                  const int32_t *cu, int64_t S) {
  const tri_delta_rule *r = &a->rule;
  tri_tensor            c = tri_rows(&d->c, first, n), ba = tri_rows(&d->ba, first, n);
  tri_tensor            dout = tri_rows(&d->dout, first, n), bounds = put_i32(b, S + 1, 0, cu);
  tri_tensor            work = make(b, TRI_F32, tri_delta_work(r, n), 0);
  double               *one = host((size_t)r->Hv, sizeof *one);
  device_gradients      g;
  for (int h = 0; h < r->Hv; h++) one[h] = 1;
  g = (device_gradients){make(b, d->A, n, tri_delta_width(r)), make(b, d->A, n, 2 * r->Hv),
                         put_real(b, TRI_F32, r->Hv, 0, one), put_real(b, TRI_F32, r->Hv, 0, one)};
  ok(b->k->delta_bwd(b->stream, &g.dc, &g.dba, &g.dA_log, &g.ddt_bias, &work, &dout, &c, &ba, &d->A_log,
                     &d->dt_bias, &bounds, r));
  free(one);
  return g;
}

/* Compares o and all gradients of a batch with the rule. The relative errors of f32 are measured, 3e-6 and
 * 1e-5 at most. */
static void expect_rule(bench *b, const char *what, const batch *a, const on_device *d) {
  double          *o = forward(a, NULL);
  gradients        want = backward(a);
  tri_tensor       got = run_batch(b, a, d);
  device_gradients g = back_rows(b, a, d, 0, a->N, a->cu, a->S);
  for (int h = 0; h < a->rule.Hv; h++) want.dA_log[h] += 1, want.ddt_bias[h] += 1;
  expect_close(b, what, &got, o, 1e-5);
  expect_close(b, what, &g.dc, want.dc, 5e-5);
  expect_close(b, what, &g.dba, want.dba, 5e-5);
  expect_close(b, what, &g.dA_log, want.dA_log, 5e-5);
  expect_close(b, what, &g.ddt_bias, want.ddt_bias, 5e-5);
  same_for_threads(b, &got), same_for_threads(b, &g.dc), same_for_threads(b, &g.dba);
  same_for_threads(b, &g.dA_log), same_for_threads(b, &g.ddt_bias);
  free(o), free_gradients(&want);
}

/* Heads alike and grouped by 2 and 4, unlike widths, widths that are no multiple of a vector, and the one
 * in use. */
static const tri_delta_rule rules[] = {
    {.Hk = 2, .Hv = 2, .Dk = 16, .Dv = 16},   {.Hk = 1, .Hv = 2, .Dk = 24, .Dv = 40},
    {.Hk = 2, .Hv = 8, .Dk = 9, .Dv = 5},     {.Hk = 1, .Hv = 2, .Dk = 64, .Dv = 33},
    {.Hk = 1, .Hv = 1, .Dk = 128, .Dv = 128}, {.Hk = 1, .Hv = 1, .Dk = 256, .Dv = 256}};
static const int lengths[] = {1, 3, 63, 0, 64, 65, 130, 191};
enum { N_RULES = sizeof rules / sizeof *rules, N_LENGTHS = sizeof lengths / sizeof *lengths };

/* Runs a case in every type, with the counts of shapes_case.h for threads. */
static void (*each)(bench *, tri_dtype);
static void run_types(bench *b) {
  if (!b->k->delta_fwd) return;
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0;
  for (int A = TRI_F32; A <= TRI_F16; A++) {
    each(b, (tri_dtype)A);
    drop_arrays(b, 0);
  }
}
static void all_types(void (*run)(bench *, tri_dtype)) {
  each = run;
  for_each_device(run_types);
}

/* In brief runs on the CPU the types take turns, because they differ only in how numbers are read and
 * written. */
static bool is_left_out(const bench *b, int i, tri_dtype A) {
  return !strcmp(b->device->ops->name, "cpu") && (i + (int)A) % test_step(3);
}

static void all_rules(bench *b, tri_dtype A) {
  for (int i = 0; i < N_RULES; i++) {
    if (is_left_out(b, i, A)) continue;
    batch     a = make_batch(&rules[i], lengths, rules[i].Dk > 128 ? 5 : N_LENGTHS);
    on_device d = put_batch(b, A, &a);
    expect_rule(b, "a batch", &a, &d);
    free_batch(&a), drop_arrays(b, 0);
  }
}
static void test_rule(void **state) {
  (void)state;
  all_types(all_rules);
}

/* Every sequence alone has its bits of the batch, forward and backward. */
static void alone(bench *b, tri_dtype A) {
  batch            a = make_batch(&rules[1], lengths, N_LENGTHS);
  on_device        d = put_batch(b, A, &a);
  tri_tensor       o = run_batch(b, &a, &d);
  device_gradients g = back_rows(b, &a, &d, 0, a.N, a.cu, a.S);
  for (int s = 0; s < a.S; s++) {
    int              keep = b->n_arrays;
    int64_t          first = a.cu[s], n = a.cu[s + 1] - first;
    int32_t          cu[2] = {0, (int32_t)n};
    tri_tensor       own = run_rows(b, &a, &d, first, n, cu, 1, NULL, NULL, NULL);
    device_gradients back = back_rows(b, &a, &d, first, n, cu, 1);
    expect_same_rows(b, "o alone", &o, first, &own, 0, n);
    expect_same_rows(b, "dc alone", &g.dc, first, &back.dc, 0, n);
    expect_same_rows(b, "dba alone", &g.dba, first, &back.dba, 0, n);
    drop_arrays(b, keep);
  }
  free_batch(&a);
}
static void test_alone(void **state) {
  (void)state;
  all_types(alone);
}

/* One sequence in pieces through slots. The first is fresh, and other slots and o stay as in one call. */
static void pieces(bench *b, tri_dtype A) {
  enum { T = 140, SLOTS = 4 };
  static const int whole[] = {T},
                   cuts[][8] = {{T}, {1, T}, {64, T}, {65, T}, {7, 71, 139, T}, {63, 64, 65, T}};
  const tri_delta_rule rule = rules[1];
  batch                a = make_batch(&rule, whole, 1);
  on_device            d = put_batch(b, A, &a);
  double              *last = host((size_t)tri_delta_state(&rule), sizeof *last), *o64 = forward(&a, last);
  tri_tensor           o = run_batch(b, &a, &d), first_state = {0};

  for (int i = 0; i < 7; i++) { /* the last time row by row */
    int        keep = b->n_arrays, at = 0, n_piece = i < 6 ? 0 : T;
    tri_tensor state = make(b, TRI_F32, SLOTS, tri_delta_state(&rule));
    tri_tensor nan = make(b, TRI_F32, SLOTS, tri_delta_state(&rule));
    for (int p = 0; at < T; p++) {
      int        end = n_piece ? at + 1 : cuts[i][p];
      int32_t    slot = 2, fresh = p == 0, cu[2] = {0, end - at};
      int        here = b->n_arrays;
      tri_tensor part = run_rows(b, &a, &d, at, end - at, cu, 1, &state, &slot, &fresh);
      expect_same_rows(b, "o in pieces", &o, at, &part, 0, end - at);
      drop_arrays(b, here);
      at = end;
    }
    for (int s = 0; s < SLOTS; s++)
      if (s != 2) expect_same_rows(b, "another slot", &nan, s, &state, s, 1);
    if (i == 0) {
      tri_tensor own = tri_rows(&state, 2, 1);
      expect_close(b, "the state", &own, last, 1e-5);
      first_state = state;
      continue;
    }
    expect_same_rows(b, "the state of pieces", &first_state, 2, &state, 2, 1);
    drop_arrays(b, keep);
  }
  free(last), free(o64), free_batch(&a);
}
static void test_pieces(void **state) {
  (void)state;
  all_types(pieces);
}

/* Several sequences at once: two go on in slots given in another order, one is fresh in a used slot, one
 * has no slot, and one is empty. */
static void slots(bench *b, tri_dtype A) {
  enum { SLOTS = 3 };
  static const int     length[] = {70, 5, 66, 20};
  const tri_delta_rule rule = rules[3];
  batch                a = make_batch(&rule, length, 4);
  on_device            d = put_batch(b, A, &a);
  tri_tensor o = run_batch(b, &a, &d), state = make(b, TRI_F32, SLOTS, tri_delta_state(&rule)), part;
  /* the first 65 rows of sequence 0 to slot 2, the first row of sequence 1 to slot 0 */
  int32_t cu0[2] = {0, 65}, cu1[2] = {0, 1}, slot0 = 2, slot1 = 0, yes = 1;
  part = run_rows(b, &a, &d, 0, 65, cu0, 1, &state, &slot0, &yes);
  expect_same_rows(b, "a prompt", &o, 0, &part, 0, 65);
  run_rows(b, &a, &d, 70, 1, cu1, 1, &state, &slot1, &yes);
  { /* rows 65..69, none, and 71..74 go on. Sequence 2 takes slot 1, and sequence 3 has none. */
    static const int32_t cu[6] = {0, 5, 5, 9, 75, 95}, slot[5] = {2, -1, 0, 1, -1},
                         fresh[5] = {0, 0, 0, 1, 0};
    int        rows = 5 + 4 + 66 + 20;
    tri_tensor c = make(b, A, rows, tri_delta_width(&rule)), ba = make(b, A, rows, 2 * rule.Hv);
    int64_t    from[4] = {65, 71, 75, 141}, to[4] = {0, 5, 9, 75}, n[4] = {5, 4, 66, 20};
    on_device  own = d;
    batch      packed = a;
    for (int i = 0; i < 4; i++) {
      tri_tensor x = tri_rows(&d.c, from[i], n[i]), y = tri_rows(&c, to[i], n[i]);
      ok(b->device->ops->copy(b->stream, y.data, x.data, bytes_of(&x)));
      x = tri_rows(&d.ba, from[i], n[i]), y = tri_rows(&ba, to[i], n[i]);
      ok(b->device->ops->copy(b->stream, y.data, x.data, bytes_of(&x)));
    }
    own.c = c, own.ba = ba, packed.N = rows;
    part = run_rows(b, &packed, &own, 0, rows, cu, 5, &state, slot, fresh);
    for (int i = 0; i < 4; i++) expect_same_rows(b, "rows in slots", &o, from[i], &part, to[i], n[i]);
  }
  { /* the states are those of the whole sequences */
    double *last = host((size_t)(4 * tri_delta_state(&rule)), sizeof *last), *o64 = forward(&a, last);
    static const int slot_of[3] = {2, 0, 1};
    for (int s = 0; s < 3; s++) {
      tri_tensor own = tri_rows(&state, slot_of[s], 1);
      expect_close(b, "a state in its slot", &own, last + s * tri_delta_state(&rule), 1e-5);
    }
    free(last), free(o64);
  }
  { /* an empty sequence that is fresh clears its slot, and one that goes on keeps it */
    static const int32_t cu[3] = {0, 0, 0}, slot[2] = {2, 0}, fresh[2] = {1, 0};
    double              *zero = host((size_t)tri_delta_state(&rule), sizeof *zero);
    tri_tensor           was = make(b, TRI_F32, 1, tri_delta_state(&rule)), own = tri_rows(&state, 0, 1);
    ok(b->device->ops->copy(b->stream, was.data, own.data, bytes_of(&own)));
    run_rows(b, &a, &d, 0, 0, cu, 2, &state, slot, fresh);
    expect_same_rows(b, "a slot that goes on", &was, 0, &state, 0, 1);
    own = tri_rows(&state, 2, 1);
    expect_near(b, "a slot that is fresh", &own, zero, 0, 0);
    free(zero);
  }
  free_batch(&a);
}
static void test_slots(void **state) {
  (void)state;
  all_types(slots);
}

/* ---- limits of the rule ---- */

enum { HEADS = 8 };
/* Each head has a limit of its own: the state is forgotten at once (g = 0), never (g = 1), decays slowly to
 * nothing; beta is 0, 1; softplus is beyond 20, also where exp overflows; rows of q and k are zero; g
 * alternates between 0 and 1. */
static batch limits(void) {
  static const int     length[] = {130, 66};
  const tri_delta_rule rule = {.Hk = HEADS, .Hv = HEADS, .Dk = 16, .Dv = 24};
  batch                a = make_batch(&rule, length, 2);
  int64_t              Er = tri_delta_width(&rule);
  for (int64_t n = 0; n < a.N; n++) {
    double *b = a.ba + n * 2 * HEADS, *x = b + HEADS;
    x[0] = 30;
    x[2] = 4;
    b[3] = -200;
    b[4] = 200;
    x[5] = n % 2 ? 25 : 100;
    x[7] = n % 5 ? -90 : 60;
    for (int i = 0; i < rule.Dk && n % 3 == 1; i++)
      a.c[n * Er + 6 * rule.Dk + i] = a.c[n * Er + (HEADS + 6) * rule.Dk + i] = 0;
  }
  a.A_log[0] = 8, a.A_log[1] = -200, a.A_log[2] = -2, a.A_log[5] = -6, a.A_log[7] = 2;
  return a;
}
static void limits_case(bench *b, tri_dtype A) {
  batch     a = limits();
  on_device d = put_batch(b, A, &a);
  expect_rule(b, "limits", &a, &d);
  for (int h = 0; h < HEADS; h++) {
    row_of x = row_at(&a, 3, h);
    assert_true((h != 0 || x.g == 0) && (h != 1 || x.g == 1) && (h != 7 || x.g > 0.999));
    assert_true((h != 3 || x.beta < 1e-80) && (h != 4 || x.beta == 1) && (h != 5 || x.x > 20));
    free(x.q), free(x.k);
  }
  free_batch(&a);
}
static void test_limits(void **state) {
  (void)state;
  all_types(limits_case);
}

/* A state without new values decays to zero, exactly, and stays there. */
static void fades(bench *b, tri_dtype A) {
  enum { T = 400 };
  static const int     length[] = {T};
  const tri_delta_rule rule = {.Hk = 1, .Hv = 1, .Dk = 16, .Dv = 16};
  batch                a = make_batch(&rule, length, 1);
  double              *zero = host((size_t)tri_delta_state(&rule), sizeof *zero), *end;
  int32_t              slot = 0, fresh = 1;
  a.A_log[0] = 0, a.dt_bias[0] = 0;
  for (int64_t n = 0; n < T; n++) {
    a.ba[2 * n + 1] = 1;
    for (int j = 0; n >= 2 && j < rule.Dv; j++) a.c[n * tri_delta_width(&rule) + 2 * rule.Dk + j] = 0;
  }
  on_device  d = put_batch(b, A, &a);
  tri_tensor state = make(b, TRI_F32, 1, tri_delta_state(&rule)), o, last;
  o = run_rows(b, &a, &d, 0, T, a.cu, 1, &state, &slot, &fresh);
  expect_near(b, "a state that faded", &state, zero, 0, 0);
  last = tri_rows(&o, T - 1, 1);
  end = get_real(b, &last);
  for (int j = 0; j < rule.Dv; j++) assert_true(end[j] == 0);
  free(end), free(zero), free_batch(&a);
}
static void test_fades(void **state) {
  (void)state;
  all_types(fades);
}

/* Returns whether rows first .. end - 1 of head h hold a value that is not finite, in every row. */
static bool shows(const double *o, int64_t first, int64_t end, int Hv, int Dv, int h) {
  for (int64_t n = first; n < end; n++) {
    bool found = false;
    for (int j = 0; j < Dv; j++) found = found || !isfinite(o[(n * Hv + h) * Dv + j]);
    if (!found) return false;
  }
  return true;
}

/* NaN or infinity in an input of row 70 shows in its head from this row to the end of the sequence. In q it
 * shows in this row alone, because q changes no state. All other rows and heads have the bits they have
 * without it. The gradient shows it too. */
static void not_finite(bench *b, tri_dtype A) {
  static const int     length[] = {20, 90, 10};
  const tri_delta_rule rule = rules[0];
  int64_t              Er = tri_delta_width(&rule), Dv = rule.Dv, Hv = rule.Hv, row = 20 + 70;
  for (int i = 0; i < 10; i++) {
    if (is_left_out(b, i, A)) continue;
    int64_t          end = i / 2 == 4 ? row + 1 : 110;
    batch            a = make_batch(&rule, length, 3), clean = make_batch(&rule, length, 3);
    double           bad = i % 2 ? INFINITY : NAN, *o, *want, *dc;
    on_device        d, without = put_batch(b, A, &clean);
    device_gradients g;
    tri_tensor       got, expected = run_batch(b, &clean, &without);
    /* v, k, b, a, q of head 1 */
    if (i / 2 == 0) a.c[row * Er + 2 * rule.Hk * rule.Dk + Dv + 3] = bad;
    if (i / 2 == 1) a.c[row * Er + (rule.Hk + 1) * rule.Dk + 2] = bad;
    if (i / 2 == 2) a.ba[row * 2 * Hv + 1] = NAN;
    if (i / 2 == 3) a.ba[row * 2 * Hv + Hv + 1] = NAN;
    if (i / 2 == 4) a.c[row * Er + rule.Dk + 2] = bad;
    d = put_batch(b, A, &a);
    got = run_batch(b, &a, &d), g = back_rows(b, &a, &d, 0, a.N, a.cu, a.S);
    o = get_real(b, &got), want = get_real(b, &expected), dc = get_real(b, &g.dc);
    assert_true(shows(o, row, end, (int)Hv, (int)Dv, 1));
    for (int64_t n = 0; n < a.N; n++)
      for (int64_t e = 0; e < Hv * Dv; e++)
        if (n < row || n >= end || e < Dv) assert_true(o[n * Hv * Dv + e] == want[n * Hv * Dv + e]);
    for (int64_t n = row; n < end; n++) { /* k of head 1 */
      bool found = false;
      for (int64_t e = (rule.Hk + 1) * rule.Dk; e < 2 * rule.Hk * rule.Dk; e++)
        found = found || !isfinite(dc[n * Er + e]);
      assert_true(found);
    }
    for (int64_t n = 0; n < a.N; n++)
      for (int64_t e = 0; e < Er; e++)
        if (n < 20 || n >= 110 || e < rule.Dk) assert_true(isfinite(dc[n * Er + e]));
    free(o), free(want), free(dc), free_batch(&a), free_batch(&clean), drop_arrays(b, 0);
  }
}
static void test_not_finite(void **state) {
  (void)state;
  all_types(not_finite);
}

/* ---- the convolution ---- */

typedef struct conv_data {
  int64_t  N, Er, S;
  int      W;
  int32_t *cu;
  double  *mix, *w, *dc;
} conv_data;

/* Returns the sum before silu. */
static double conv_sum(const conv_data *a, int s, int64_t n, int64_t e) {
  double u = 0;
  for (int j = 0; j < a->W; j++) {
    int64_t from = n - (a->W - 1) + j;
    if (from >= a->cu[s]) u += a->w[e * a->W + j] * a->mix[from * a->Er + e];
  }
  return u;
}
static double *conv_forward(const conv_data *a) {
  double *c = host((size_t)(a->N * a->Er), sizeof *c);
  for (int s = 0; s < a->S; s++)
    for (int64_t n = a->cu[s]; n < a->cu[s + 1]; n++)
      for (int64_t e = 0; e < a->Er; e++) {
        double u = conv_sum(a, s, n, e);
        c[n * a->Er + e] = u * sigmoid(u);
      }
  return c;
}
static void conv_backward(const conv_data *a, double *dmix, double *dw) {
  for (int s = 0; s < a->S; s++)
    for (int64_t n = a->cu[s]; n < a->cu[s + 1]; n++)
      for (int64_t e = 0; e < a->Er; e++) {
        double u = conv_sum(a, s, n, e), p = sigmoid(u), du = a->dc[n * a->Er + e] * (p + u * p * (1 - p));
        for (int j = 0; j < a->W; j++) {
          int64_t from = n - (a->W - 1) + j;
          if (from < a->cu[s]) continue;
          dmix[from * a->Er + e] += du * a->w[e * a->W + j];
          dw[e * a->W + j] += du * a->mix[from * a->Er + e];
        }
      }
}
static double conv_loss(const void *arguments) {
  const conv_data *a = arguments;
  double          *c = conv_forward(a), sum = 0;
  for (int64_t i = 0; i < a->N * a->Er; i++) sum += c[i] * a->dc[i];
  free(c);
  return sum;
}
static conv_data make_conv(int64_t Er, int W, int32_t *cu, int64_t S) {
  conv_data a = {
      cu[S], Er, S, W, cu, numbers(1, cu[S] * Er, 1), numbers(2, Er * W, 1), numbers(3, cu[S] * Er, 1)};
  return a;
}
static void free_conv(conv_data *a) { free(a->mix), free(a->w), free(a->dc); }
static void test_conv_loop(void **state) {
  int32_t   cu[] = {0, 6, 7, 9};
  conv_data a = make_conv(3, 4, cu, 3);
  double    dmix[27] = {0}, dw[12] = {0};
  (void)state;
  conv_backward(&a, dmix, dw);
  for (int i = 0; i < 27; i++) assert_true(fabs(dmix[i] - slope(conv_loss, &a, a.mix + i)) < 1e-8);
  for (int i = 0; i < 12; i++) assert_true(fabs(dw[i] - slope(conv_loss, &a, a.w + i)) < 1e-8);
  free_conv(&a);
}

static tri_tensor run_conv(bench *b, const conv_data *a, const tri_tensor *mix, const tri_tensor *w,
                           int64_t first, int64_t n, const int32_t *cu, int64_t S, tri_tensor *tail,
                           const int32_t *slot, const int32_t *fresh) {
  tri_tensor x = tri_rows(mix, first, n), c = make(b, mix->dtype, n, a->Er),
             bounds = put_i32(b, S + 1, 0, cu);
  tri_tensor     to, is_fresh;
  tri_delta_rows rows = {&bounds, NULL, NULL};
  if (slot) {
    to = put_i32(b, S, 0, slot), is_fresh = put_i32(b, S, 0, fresh);
    rows.slot = &to, rows.fresh = &is_fresh;
  }
  ok(b->k->conv_fwd(b->stream, &c, &x, w, tail, &rows));
  return c;
}

/* Derived: a sum of W products of numbers below 1, and silu, whose slope is below 1.1. */
static void conv(bench *b, tri_dtype A) {
  static const int64_t widths[] = {5, 64, 531};
  for (int i = 0; i < 8; i++) {
    if (i && is_left_out(b, i / 3, A)) continue; /* the usual width of 4 in every type */
    int32_t    cu[] = {0, 1, 4, 4, 71, 135, 137};
    int        W = (const int[]){4, 2, 8, 3, 4, 5, 6, 7}[i];
    conv_data  a = make_conv(widths[i % 3], W, cu, 6);
    tri_tensor mix = put_real(b, A, a.N, a.Er, a.mix), w = put_real(b, A, a.Er, W, a.w);
    tri_tensor dc = put_real(b, A, a.N, a.Er, a.dc), dmix = make(b, A, a.N, a.Er),
               d_cu = put_i32(b, 7, 0, cu);
    double *c = conv_forward(&a), *want = host((size_t)(a.N * a.Er), sizeof *want),
           *dw = numbers(7, a.Er * W, 1);
    tri_tensor got, d_dw = put_real(b, TRI_F32, a.Er, W, dw), other = make(b, A, a.N, a.Er);
    double     error = 2 * W * (W + 4) * EPS_F32;
    got = run_conv(b, &a, &mix, &w, 0, a.N, cu, 6, NULL, NULL, NULL);
    expect_near(b, "conv_fwd", &got, c, half_unit(A), error);
    conv_backward(&a, want, dw);
    ok(b->k->conv_bwd(b->stream, &dmix, &d_dw, &dc, &mix, &w, &d_cu));
    expect_near(b, "conv_bwd dmix", &dmix, want, half_unit(A), error);
    expect_near(b, "conv_bwd dw", &d_dw, dw, EPS_F32, (double)a.N * error);
    ok(b->k->conv_bwd(b->stream, &other, NULL, &dc, &mix, &w, &d_cu));
    expect_same_rows(b, "conv_bwd without dw", &dmix, 0, &other, 0, a.N);
    same_for_threads(b, &got), same_for_threads(b, &dmix), same_for_threads(b, &d_dw);
    for (int s = 0; s < 6; s++) { /* a sequence alone */
      int64_t    first = cu[s], n = cu[s + 1] - cu[s];
      int32_t    own_cu[2] = {0, (int32_t)n};
      tri_tensor own = run_conv(b, &a, &mix, &w, first, n, own_cu, 1, NULL, NULL, NULL),
                 back = make(b, A, n, a.Er);
      tri_tensor x = tri_rows(&mix, first, n), d = tri_rows(&dc, first, n), bounds = put_i32(b, 2, 0, own_cu);
      ok(b->k->conv_bwd(b->stream, &back, NULL, &d, &x, &w, &bounds));
      expect_same_rows(b, "conv_fwd alone", &got, first, &own, 0, n);
      expect_same_rows(b, "conv_bwd alone", &dmix, first, &back, 0, n);
    }
    free(c), free(want), free(dw), free_conv(&a), drop_arrays(b, 0);
  }
}
static void test_conv(void **state) {
  (void)state;
  all_types(conv);
}

/* A sequence in pieces of every length up to W, through a tail, beside one without a slot. The tail holds
 * the last W - 1 rows, older ones zero in a new sequence. */
static void conv_pieces(bench *b, tri_dtype A) {
  enum { T = 40, SLOTS = 3 };
  for (int W = 2; W <= 8; W += 3)
    for (int piece = 1; piece <= 10; piece++) {
      if (is_left_out(b, piece, A)) continue;
      int32_t    cu[] = {0, T};
      conv_data  a = make_conv(300, W, cu, 1);
      tri_tensor mix = put_real(b, A, T, a.Er, a.mix), w = put_real(b, A, a.Er, W, a.w);
      tri_tensor tail = make(b, A, SLOTS * (W - 1), a.Er), nan = make(b, A, SLOTS * (W - 1), a.Er);
      tri_tensor whole = run_conv(b, &a, &mix, &w, 0, T, cu, 1, NULL, NULL, NULL);
      for (int at = 0; at < T; at += piece) {
        int        n = T - at < piece ? T - at : piece, keep = b->n_arrays;
        int32_t    two[3] = {0, n, n}, slot[2] = {1, -1}, fresh[2] = {at == 0, 0};
        tri_tensor part = run_conv(b, &a, &mix, &w, at, n, two, 2, &tail, slot, fresh);
        expect_same_rows(b, "conv_fwd in pieces", &whole, at, &part, 0, n);
        if (at == 0 && n < W - 1) { /* zeros, then the first rows */
          double    *want = host((size_t)((W - 1 - n) * a.Er), sizeof *want);
          tri_tensor zeros = tri_rows(&tail, W - 1, W - 1 - n);
          expect_near(b, "zeros before a sequence", &zeros, want, 0, 0);
          free(want);
        }
        drop_arrays(b, keep);
      }
      expect_same_rows(b, "the tail", &mix, T - (W - 1), &tail, W - 1, W - 1);
      expect_same_rows(b, "the first slot", &nan, 0, &tail, 0, W - 1);
      expect_same_rows(b, "the last slot", &nan, 2 * (W - 1), &tail, 2 * (W - 1), W - 1);
      free_conv(&a), drop_arrays(b, 0);
    }
}
static void test_conv_pieces(void **state) {
  (void)state;
  all_types(conv_pieces);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rule_loop), cmocka_unit_test(test_rule),       cmocka_unit_test(test_alone),
      cmocka_unit_test(test_pieces),    cmocka_unit_test(test_slots),      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_fades),     cmocka_unit_test(test_not_finite), cmocka_unit_test(test_conv_loop),
      cmocka_unit_test(test_conv),      cmocka_unit_test(test_conv_pieces)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
