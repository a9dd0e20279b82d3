/* test_optim.c - clipping, AdamW over the units of a store, and the schedules. Judges: torch (ten steps with
 * clipping), the formula in f64, and schedules by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "state/optim.h"

typedef struct bench {
  tri_session    se;
  golden         g;
  tri_unit_spec  unit[2];
  tri_param_spec param[2][2];
  tri_params    *p;
} bench;

static void add(tri_unit_spec *u, const char *name, int64_t d0, int64_t d1) {
  tri_param_spec *p = &u->param[u->n_param++];

  snprintf(p->name, sizeof p->name, "%s", name);
  p->ndim = d1 ? 2 : 1;
  p->dim[0] = d0;
  p->dim[1] = d1;
}

/* Weights from the golden numbers. */
static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  bench *b = ctx;
  char   name[128];

  (void)kind;
  snprintf(name, sizeof name, "w0.%s", b->unit[u].param[i].name);
  return tri_safetensors_read_f32(b->g.numbers, tri_safetensors_find(b->g.numbers, name), begin, count, out);
}

static void open_bench(bench *b, tri_dtype dtype) {
  tri_params_opt opt = {
      .dtype = dtype, .train = true, .backward = true, .unit = b->unit, .n_unit = 2, .label = "policy"};

  memset(b, 0, sizeof *b);
  golden_open(&b->g, "optim");
  session_open(&b->se, 0);
  for (int u = 0; u < 2; u++) b->unit[u].param = b->param[u];
  snprintf(b->unit[0].name, sizeof b->unit[0].name, "a");
  snprintf(b->unit[1].name, sizeof b->unit[1].name, "b");
  add(&b->unit[0], "a.weight", 5, 13);
  add(&b->unit[0], "a.bias", 7, 0);
  add(&b->unit[1], "b.weight", 3, 70);
  b->unit[1].in_ring = true;
  for (int u = 0; u < 2; u++) tri_unit_layout(&b->unit[u]);
  opt.place = b->se.place;
  OK(tri_params_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->p));
  OK(tri_session_take_memory(&b->se));
  OK(tri_params_fill(b->p, TRI_STATE_WEIGHT, fill, b, b->se.stream));
}

static void close_bench(bench *b) {
  tri_params_close(&b->p);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* Gradient of update t, scaled. x replaces it unless x is NaN. */
static void put_gradient(bench *b, int t, float scale, float x) {
  for (int u = 0; u < 2; u++) {
    tri_weights w;
    OK(tri_params_grad(b->p, u, b->se.stream, &w));
    for (int i = 0; i < b->unit[u].n_param; i++) {
      char   name[128];
      float *g, *to;
      size_t bytes;
      snprintf(name, sizeof name, "g%d.%s", t, b->unit[u].param[i].name);
      g = golden_get(&b->g, name);
      bytes = (size_t)golden_count(&b->g, name) * sizeof *g;
      to = device_get(b->se.stream, w.t[i].data, bytes);
      for (int64_t k = 0; k < golden_count(&b->g, name); k++) to[k] += isnan(x) ? scale * g[k] : x;
      device_copy(b->se.stream, w.t[i].data, to, bytes);
      free(to);
      free(g);
    }
    OK(tri_params_grad_done(b->p, u, b->se.stream, true));
  }
}

/* Both within `most` of the golden tensors prefix.NAME. */
static void compare(bench *b, tri_state_kind kind, const char *prefix, double most) {
  for (int u = 0; u < 2; u++)
    for (int i = 0; i < b->unit[u].n_param; i++) {
      int64_t n = tri_param_count(&b->unit[u].param[i]);
      float  *got = test_alloc(n, sizeof *got), *want;
      char    name[128];
      snprintf(name, sizeof name, "%s.%s", prefix, b->unit[u].param[i].name);
      want = golden_get(&b->g, name);
      OK(tri_params_read(b->p, kind, u, i, 0, n, got, b->se.stream));
      CHECK(distance(got, want, n) <= most, "%s is %.3g away", name, distance(got, want, n));
      free(got);
      free(want);
    }
}

static const tri_optim_opt options = {0.9, 0.95, 1e-8, 0.1, 1.0, {0, 0, 0, 0}};

/* torch in f32 has a few roundings of 6e-8 in each of ten steps. Its clipping divides by norm + 1e-6. This is
 * 2e-6 of the smallest clipped norm, and reaches the moments with that size. */
static void ten_steps_of_torch(void **state) {
  bench  b;
  float *norms, *rates;

  (void)state;
  open_bench(&b, TRI_F32);
  norms = golden_get(&b.g, "norms");
  rates = golden_get(&b.g, "rates");
  for (int t = 1; t <= 10; t++) {
    double norm;
    bool   applied;
    put_gradient(&b, t, 1.0f, NAN);
    OK(tri_optim_step(b.p, &options, &(tri_optim_now){(double)rates[t - 1], t, 1, false}, b.se.stream, &norm,
                      &applied));
    CHECK(applied && fabs(norm - (double)norms[t - 1]) <= 1e-6 * norm, "step %d: norm %.9g, torch %.9g", t,
          norm, (double)norms[t - 1]);
  }
  compare(&b, TRI_STATE_WEIGHT, "w10", 1e-6);
  compare(&b, TRI_STATE_EXP_AVG, "m10", 3e-6);
  compare(&b, TRI_STATE_EXP_AVG_SQ, "v10", 3e-6);
  free(norms);
  free(rates);
  close_bench(&b);
}

/* Algorithm 2 of Loshchilov, Hutter (2019) for one number, in f64. */
typedef struct adam {
  double w, m, v;
} adam;
static void adam_step(adam *a, double g, int t, double lr, double decay) {
  a->m = 0.9 * a->m + 0.1 * g;
  a->v = 0.95 * a->v + 0.05 * g * g;
  a->w -= lr * (decay * a->w + a->m / (1 - pow(0.9, t)) / (sqrt(a->v / (1 - pow(0.95, t))) + 1e-8));
}

/* Without clipping, element by element. bf16 compute has the same f32 master weights. */
static void formula_in_f64(tri_dtype dtype) {
  tri_optim_opt opt = options;
  bench         b;

  opt.max_grad_norm = 0;
  open_bench(&b, dtype);
  for (int t = 1; t <= 10; t++) {
    double norm;
    bool   applied;
    put_gradient(&b, t, 2.0f, NAN);
    OK(tri_optim_step(b.p, &opt, &(tri_optim_now){0.02, t, 1, false}, b.se.stream, &norm, &applied));
  }
  for (int u = 0; u < 2; u++)
    for (int i = 0; i < b.unit[u].n_param; i++) {
      int64_t n = tri_param_count(&b.unit[u].param[i]);
      float  *got = test_alloc(n, sizeof *got), *w;
      adam   *a = test_alloc(n, sizeof *a);
      char    name[128];
      snprintf(name, sizeof name, "w0.%s", b.unit[u].param[i].name);
      w = golden_get(&b.g, name);
      for (int64_t k = 0; k < n; k++) a[k].w = (double)w[k];
      for (int t = 1; t <= 10; t++) {
        float *g;
        snprintf(name, sizeof name, "g%d.%s", t, b.unit[u].param[i].name);
        g = golden_get(&b.g, name);
        for (int64_t k = 0; k < n; k++)
          adam_step(&a[k], 2 * (double)g[k], t, 0.02, b.unit[u].param[i].ndim == 2 ? 0.1 : 0);
        free(g);
      }
      OK(tri_params_read(b.p, TRI_STATE_WEIGHT, u, i, 0, n, got, b.se.stream));
      /* ten updates, each rounded twice at 6e-8 of a weight of up to 4, and the step itself at 1e-6 of
       * 0.02 */
      for (int64_t k = 0; k < n; k++)
        CHECK(fabs((double)got[k] - a[k].w) <= 3e-6, "%s[%lld]: %.9g, want %.9g", name, (long long)k,
              (double)got[k], a[k].w);
      free(got);
      free(w);
      free(a);
    }
  close_bench(&b);
}
static void formula_f32(void **state) {
  (void)state;
  formula_in_f64(TRI_F32);
}
static void formula_master_weights(void **state) {
  (void)state;
  formula_in_f64(TRI_BF16);
}

/* A gradient with NaN or Inf changes nothing and leaves nothing behind. */
static void infinite_gradients_are_skipped(void **state) {
  const float bad[] = {INFINITY, -INFINITY};

  (void)state;
  for (int k = 0; k < 2; k++) {
    bench  b;
    double norm;
    bool   applied;
    open_bench(&b, TRI_F32);
    put_gradient(&b, 1, 1.0f, bad[k]);
    OK(tri_optim_step(b.p, &options, &(tri_optim_now){0.01, 1, 1, false}, b.se.stream, &norm, &applied));
    CHECK(!applied && !isfinite(norm));
    compare(&b, TRI_STATE_WEIGHT, "w0", 0);
    put_gradient(&b, 1, 0.0f, NAN); /* zero, so only decay moves the weights, and the old gradient is gone */
    OK(tri_optim_step(b.p, &options, &(tri_optim_now){0.0, 1, 1, false}, b.se.stream, &norm, &applied));
    CHECK(applied && norm == 0);
    compare(&b, TRI_STATE_WEIGHT, "w0", 0);
    close_bench(&b);
  }
}

/* A loss times a power of two gives the same norm, weights and moments bit for bit. An overflow leaves
 * nothing behind. */
static void scaled_gradients_are_the_same(void **state) {
  bench  plain, scaled;
  double norm[2];
  bool   applied;

  (void)state;
  open_bench(&plain, TRI_F32);
  open_bench(&scaled, TRI_F32);
  put_gradient(&scaled, 1, 1.0f, INFINITY);
  OK(tri_optim_step(scaled.p, &options, &(tri_optim_now){0.01, 1, 0x1p20, true}, scaled.se.stream, &norm[1],
                    &applied));
  CHECK(!applied);
  for (int t = 1; t <= 3; t++) {
    put_gradient(&plain, t, 1.0f, NAN);
    put_gradient(&scaled, t, 0x1p12f, NAN);
    OK(tri_optim_step(plain.p, &options, &(tri_optim_now){0.01, t, 1, false}, plain.se.stream, &norm[0],
                      &applied));
    OK(tri_optim_step(scaled.p, &options, &(tri_optim_now){0.01, t, 0x1p12, true}, scaled.se.stream, &norm[1],
                      &applied));
    CHECK(applied && norm[0] == norm[1], "step %d: norm %.17g, scaled %.17g", t, norm[0], norm[1]);
  }
  for (int u = 0; u < 2; u++)
    for (int i = 0; i < plain.unit[u].n_param; i++) {
      int64_t n = tri_param_count(&plain.unit[u].param[i]);
      float  *a = test_alloc(n, sizeof *a), *b = test_alloc(n, sizeof *b);
      for (int kind = TRI_STATE_WEIGHT; kind <= TRI_STATE_EXP_AVG_SQ; kind++) {
        OK(tri_params_read(plain.p, (tri_state_kind)kind, u, i, 0, n, a, plain.se.stream));
        OK(tri_params_read(scaled.p, (tri_state_kind)kind, u, i, 0, n, b, scaled.se.stream));
        CHECK(!memcmp(a, b, (size_t)n * sizeof *a), "kind %d of unit %d, %s", kind, u,
              plain.unit[u].param[i].name);
      }
      free(a);
      free(b);
    }
  close_bench(&plain);
  close_bench(&scaled);
}

static void is_scale(const tri_loss_scale *s, double value, int64_t n_finite) {
  CHECK(s->value == value && s->n_finite == n_finite, "scale %g after %lld", s->value,
        (long long)s->n_finite);
}

/* Judge: torch.amp.GradScaler's rule, by hand. */
static void loss_scales(void **state) {
  tri_loss_scale_opt o = {0, 3, 2, 2};
  tri_loss_scale     s;

  (void)state;
  tri_loss_scale_begin(&s, &o, TRI_BF16);
  tri_loss_scale_follow(&s, &o, false);
  is_scale(&s, 1, 0);
  CHECK(!s.adapts && !tri_loss_scale_yields(&s, &o));
  tri_loss_scale_begin(&s, &o, TRI_F16);
  is_scale(&s, 8, 0);
  tri_loss_scale_follow(&s, &o, true);
  is_scale(&s, 8, 1);
  tri_loss_scale_follow(&s, &o, false); /* earlier finite updates no longer count */
  is_scale(&s, 4, 0);
  CHECK(tri_loss_scale_yields(&s, &o));
  tri_loss_scale_follow(&s, &o, false);
  is_scale(&s, 2, 0);
  CHECK(!tri_loss_scale_yields(&s, &o));
  tri_loss_scale_follow(&s, &o, false);
  is_scale(&s, 2, 0);
  tri_loss_scale_follow(&s, &o, true);
  tri_loss_scale_follow(&s, &o, true);
  is_scale(&s, 4, 0);
  for (int i = 0; i < 200; i++) tri_loss_scale_follow(&s, &o, true);
  is_scale(&s, 0x1p32, 0);
  o.fixed = 100;
  tri_loss_scale_begin(&s, &o, TRI_F16);
  CHECK(!s.adapts && !tri_loss_scale_yields(&s, &o));
  for (int i = 0; i < 3; i++) tri_loss_scale_follow(&s, &o, i < 1);
  is_scale(&s, 100, 0);
}

static void near(double got, double want) {
  CHECK(fabs(got - want) <= 1e-12, "learning rate %.15g, want %.15g", got, want);
}

static void schedules(void **state) {
  tri_lr_opt o = {TRI_LR_CONSTANT, 2.0, 0.1, 4, 14};

  (void)state;
  for (int i = 0; i < 3; i++) { /* warm-up is the same for all */
    o.scheduler = (tri_lr_scheduler)i;
    near(tri_lr_at(&o, 1), 0.5);
    near(tri_lr_at(&o, 2), 1.0);
    near(tri_lr_at(&o, 4), 2.0);
  }
  o.scheduler = TRI_LR_CONSTANT;
  near(tri_lr_at(&o, 5), 2.0);
  near(tri_lr_at(&o, 14), 2.0);
  o.scheduler = TRI_LR_LINEAR;
  near(tri_lr_at(&o, 5), 2.0 - 0.18);
  near(tri_lr_at(&o, 9), 1.1);
  near(tri_lr_at(&o, 14), 0.2);
  near(tri_lr_at(&o, 20), 0.2);
  o.scheduler = TRI_LR_COSINE;
  near(tri_lr_at(&o, 9), 1.1);
  near(tri_lr_at(&o, 14), 0.2);
  near(tri_lr_at(&o, 20), 0.2);
  near(tri_lr_at(&o, 6), 0.2 + 1.8 * 0.5 * (1 + cos(0.2 * 3.14159265358979323846)));
  o.warmup = 0;
  o.min_ratio = 0;
  near(tri_lr_at(&o, 7), 1.0);
  near(tri_lr_at(&o, 14), 0.0);
  o = (tri_lr_opt){TRI_LR_COSINE, 2.0, 0.1, 5, 5}; /* nothing but warm-up */
  near(tri_lr_at(&o, 5), 2.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ten_steps_of_torch),
                                     cmocka_unit_test(formula_f32),
                                     cmocka_unit_test(formula_master_weights),
                                     cmocka_unit_test(infinite_gradients_are_skipped),
                                     cmocka_unit_test(scaled_gradients_are_the_same),
                                     cmocka_unit_test(loss_scales),
                                     cmocka_unit_test(schedules)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
