/* test_head_scalar.c - tests a model that gives one number per row. The head is compared with its formula in
 * f64. The whole model is compared with finite differences, and the bf16 gradients with the f32 ones. Run
 * with 1, 2 and 4 ranks. The last rank of 4 has no sequence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_case.h"

#include "staging/batch.h"
#include "io/model/source.h"
#include "model/decoder.h"

enum { TOKENS = 64, SEQUENCES = 3 };

typedef struct bench {
  tri_session  se;
  golden       g;
  tri_model   *m;
  tri_staging *staging;
  tri_rollout  r;
  int          seq; /* the sequence now loaded */
  int          unit, param;
  double       step;   /* added to the weights of unit[unit].param[param], times the sign of their gradient */
  double     **slopes; /* the gradients, as all_gradients() gives them, or NULL */
} bench;

static const tri_params_opt *options(const bench *b) { return tri_params_options(tri_model_params(b->m)); }

static int n_tensors(const bench *b) {
  int n = 0;

  for (int u = 0; u < options(b)->n_unit; u++) n += options(b)->unit[u].n_param;
  return n;
}

/* The index of unit[u].param[i] among all tensors. */
static int place(const bench *b, int u, int i) {
  for (int k = 0; k < u; k++) i += options(b)->unit[k].n_param;
  return i;
}

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  bench               *b = ctx;
  const tri_unit_spec *unit = options(b)->unit;
  fill_from            from = {&b->g, unit};

  if (strcmp(unit[u].param[i].name, "score.weight"))
    TRI_TRY(fill_golden(&from, kind, u, i, begin, count, out));
  else
    for (int64_t k = 0; k < count; k++) out[k] = sinf((float)(begin + k) + 0.5f);
  if (b->step == 0 || u != b->unit || i != b->param) return TRI_OK;
  for (int64_t k = 0; k < count; k++)
    out[k] += (float)(b->slopes[place(b, u, i)][begin + k] < 0 ? -b->step : b->step);
  return TRI_OK;
}

static void refill(bench *b) {
  OK(tri_params_fill(tri_model_params(b->m), TRI_STATE_WEIGHT, fill, b, b->se.stream));
}

static void open_bench(bench *b, const char *name, tri_dtype dtype) {
  tri_model_opt opt;
  int32_t      *token;

  memset(b, 0, sizeof *b);
  session_open(&b->se, 0);
  golden_open_model(&b->g, name);
  opt = model_options(&b->g, &b->se, dtype, TOKENS);
  opt.head = TRI_HEAD_SCALAR;
  OK(tri_model_open(b->se.device, b->se.comm, b->se.ledger, &opt, &b->m));
  OK(tri_staging_open(b->se.device, b->se.ledger,
                      &(tri_staging_opt){TOKENS, TOKENS, TRI_LOSS_VALUE, TRI_PHASE_LEARN}, &b->staging));
  OK(tri_session_take_memory(&b->se));
  OK(tri_model_start(b->m, b->se.stream));
  refill(b);
  OK(tri_rollout_make(SEQUENCES, 9 + 1 + 14, 1, 0, &b->r));
  memcpy(b->r.start, (int64_t[]){0, 9, 10, 24}, sizeof(int64_t[SEQUENCES + 1])); /* one token has no rows */
  token = golden_get_int(&b->g, "tokens");
  memcpy(b->r.token, token, 24 * sizeof *token);
  free(token);
}

static void close_bench(bench *b) {
  for (int k = 0; b->slopes && k < n_tensors(b); k++) free(b->slopes[k]);
  free(b->slopes);
  tri_rollout_free(&b->r);
  tri_staging_close(&b->staging);
  tri_model_close(&b->m);
  golden_close(&b->g);
  tri_session_close(&b->se);
}

/* d loss / d value of row k of sequence q. */
static double slope(int q, int64_t k) { return cos(7 * q + 3.0 * (double)k); }

/* Loads sequence j of this rank, or nothing. The ranks take sequences in turn. Returns its index, or -1. */
static int load(bench *b, int j, tri_batch *out) {
  const tri_comm *c = b->se.comm[TRI_WORLD];

  b->seq = j * c->size + c->rank;
  OK(tri_batch_load(b->staging, &b->r, &b->seq, b->seq < SEQUENCES, b->se.stream, out));
  return b->seq < SEQUENCES ? b->seq : -1;
}

/* Collective. The sum of all values times their slopes. With `learn` also runs backward. */
static double loss(bench *b, bool learn) {
  tri_comm *c = b->se.comm[TRI_WORLD];
  double    sum = 0;
  int       n = (SEQUENCES + c->size - 1) / c->size;

  for (int j = 0; j < n; j++) {
    tri_batch    batch;
    tri_rows_out given, d;
    tri_loss_in  in;
    tri_loss_out out;
    int          q = load(b, j, &batch);
    OK(tri_model_forward(b->m, &batch, learn, 1.0f, &given, b->se.stream));
    OK(tri_batch_fetch(b->staging, &given, NULL, b->se.stream, &in, &out));
    CHECK(in.n == batch.row.dim[0] && in.value && !in.logp && !in.ent);
    for (int64_t k = 0; k < in.n; k++) sum += slope(q, k) * (double)in.value[k];
    if (!learn) continue;
    for (int64_t k = 0; k < in.n; k++) out.dvalue[k] = (float)slope(q, k);
    OK(tri_batch_send(b->staging, &out, 1, b->se.stream, &d));
    CHECK(d.value.dim[0] == in.n && !d.logp.data && !d.ent.data);
    OK(tri_model_backward(b->m, &batch, &d, 1.0f, j == n - 1, b->se.stream));
  }
  OK(tri_host_sum(c, &sum, 1));
  return sum;
}

/* Collective. The whole gradients of all tensors on every rank, as [n_tensors][elements]. Free with
 * free(). */
static double **all_gradients(bench *b) {
  const tri_params_opt *o = options(b);
  double              **all = test_alloc(n_tensors(b), sizeof *all);

  OK(tri_params_grad_settle(tri_model_params(b->m), b->se.stream));
  for (int u = 0; u < o->n_unit; u++) {
    tri_grad_view v = tri_params_grad_view(tri_model_params(b->m), u, 0);
    float        *own = device_get(b->se.stream, v.grad, (size_t)v.range.count * sizeof *own);
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *p = &o->unit[u].param[i];
      int64_t               n = tri_param_count(p);
      double               *whole = all[place(b, u, i)] = test_alloc(n, sizeof *whole);
      for (int64_t k = 0; k < n; k++) {
        int64_t at = p->offset + k - v.range.begin;
        if (at >= 0 && at < v.range.count) whole[k] = (double)own[at];
      }
      OK(tri_host_sum(b->se.comm[TRI_WORLD], whole, n));
    }
    free(own);
  }
  return all;
}

/* ---- the head ---- */

/* The norm (Zhang, Sennrich 2019) and dot product in f64, from the chosen rows of the residual stream. */
static void values_are_right(bench *b, double most) {
  int64_t   C = b->g.shape.C;
  tri_batch batch;

  for (int j = 0; j < SEQUENCES; j++) {
    tri_rows_out given;
    load(b, j, &batch);
    OK(tri_model_forward(b->m, &batch, false, 1.0f, &given, b->se.stream));
    int64_t K = batch.row.dim[0];
    float  *x = device_get(b->se.stream, b->m->head.xs, (size_t)(K * C) * sizeof *x);
    float  *got = device_get(b->se.stream, given.value.data, (size_t)K * sizeof *got);
    float  *w = test_alloc(C, sizeof *w);
    OK(tri_safetensors_read_f32(b->g.weights, tri_safetensors_find(b->g.weights, "model.norm.weight"), 0, C,
                                w));
    for (int64_t k = 0; k < K; k++) {
      double square = 0, want = 0, size = 0;
      for (int64_t c = 0; c < C; c++) square += (double)x[k * C + c] * (double)x[k * C + c];
      for (int64_t c = 0; c < C; c++) {
        double term = (double)x[k * C + c] / sqrt(square / (double)C + (double)b->g.shape.norm_eps) *
                      (double)w[c] * (double)sinf((float)c + 0.5f);
        want += term;
        size += fabs(term);
      }
      CHECK(fabs((double)got[k] - want) <= most * size, "row %lld: %g, not %g", (long long)k, (double)got[k],
            want);
    }
    free(x);
    free(got);
    free(w);
  }
}

/* The bounds are derived. A value is C products and sums of f32, each rounded by 2^-24. In bf16 the norm's
 * result and the weight are each rounded by 2^-9. The model plans and gathers nothing of the vocabulary, tied
 * or not. */
static void a_number_for_each_row(void **state) {
  static const char *const models[] = {"model/llama", "model/qwen2_tied"};

  (void)state;
  for (int i = 0; i < 2; i++)
    for (int half = 0; half < 2; half++) {
      bench b;
      open_bench(&b, models[i], half ? TRI_BF16 : TRI_F32);
      const tri_unit_spec *u = options(&b)->unit, *head = &u[tri_unit_of_head(b.m)];
      CHECK(head->n_param == 2 && !strcmp(head->param[1].name, "score.weight"));
      CHECK(head->param[1].ndim == 2 && head->param[1].dim[0] == 1 && head->param[1].dim[1] == b.g.shape.C);
      CHECK(u[0].n_param == 1 && u[0].n_linear == 0 && !b.m->head.logits && !b.m->head.dlogits);
      OK(tri_model_check(b.m, b.se.stream));
      values_are_right(&b, half ? 2 * 0x1p-8 : (double)b.g.shape.C * 0x1p-24);
      close_bench(&b);
    }
}

static tri_status fill_sevens(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                              float *out) {
  (void)ctx, (void)kind, (void)u, (void)i, (void)begin;
  for (int64_t k = 0; k < count; k++) out[k] = 7;
  return TRI_OK;
}

/* Compares this rank's piece of unit[u].param[i] with the folder. The score must be random. Returns the sum
 * of its magnitudes. */
static double look_at_loaded(const bench *b, int u, int i) {
  const tri_unit_spec *unit = options(b)->unit;
  tri_params          *params = tri_model_params(b->m);
  tri_range            piece = tri_params_piece(params, u, i);
  float    *got = test_alloc(piece.count, sizeof *got), *want = test_alloc(piece.count, sizeof *want);
  bool      is_score = !strcmp(unit[u].param[i].name, "score.weight");
  fill_from from = {&b->g, unit};
  double    sum = 0;

  OK(tri_params_read(params, TRI_STATE_WEIGHT, u, i, piece.begin, piece.count, got, b->se.stream));
  if (!is_score) OK(fill_golden(&from, TRI_STATE_WEIGHT, u, i, piece.begin, piece.count, want));
  for (int64_t k = 0; k < piece.count; k++) {
    if (is_score)
      CHECK(isfinite(got[k]) && fabsf(got[k]) < 6.0f / (float)b->g.shape.C, "score %g", (double)got[k]);
    else
      CHECK(got[k] == want[k], "%s [%lld]: %g, not %g", unit[u].param[i].name, (long long)k, (double)got[k],
            (double)want[k]);
    sum += fabs((double)got[k]);
  }
  free(got);
  free(want);
  return is_score ? sum : 0;
}

/* A folder of a model with a token head gives everything except the score. */
static void starts_from_a_language_model(void **state) {
  bench       b;
  tri_source *source;
  double      score = 0;

  (void)state;
  open_bench(&b, "model/llama", TRI_F32);
  OK(tri_params_fill(tri_model_params(b.m), TRI_STATE_WEIGHT, fill_sevens, NULL, b.se.stream));
  OK(tri_source_open(b.g.folder, b.se.comm[TRI_WORLD], true, &source));
  OK(tri_source_add_head(source, 1));
  OK(tri_source_load(source, "/model", tri_model_params(b.m), b.se.comm[TRI_WORLD], b.se.stream));
  for (int u = 0; u < options(&b)->n_unit; u++)
    for (int i = 0; i < options(&b)->unit[u].n_param; i++) score += look_at_loaded(&b, u, i);
  OK(tri_host_sum(b.se.comm[TRI_WORLD], &score, 1));
  CHECK(score > 0);
  tri_source_close(&source);
  close_bench(&b);
}

/* ---- gradients ---- */

/* The loss rises along the signs of a tensor's gradient by the sum of its magnitudes. With STEP the two
 * differed by at most 2.3e-3 when measured. */
static void gradients_are_slopes(void **state) {
  static const double STEP = 1e-3;
  bench               b;

  (void)state;
  open_bench(&b, "model/llama_bias", TRI_F32);
  tri_params_grad_clear(tri_model_params(b.m));
  (void)loss(&b, true);
  b.slopes = all_gradients(&b);
  for (b.unit = 0; b.unit < options(&b)->n_unit; b.unit++)
    for (b.param = 0; b.param < options(&b)->unit[b.unit].n_param; b.param++) {
      const tri_param_spec *p = &options(&b)->unit[b.unit].param[b.param];
      double                up, down, got, want = 0;
      if (place(&b, b.unit, b.param) % test_step(7)) continue;
      for (int64_t k = 0; k < tri_param_count(p); k++) want += fabs(b.slopes[place(&b, b.unit, b.param)][k]);
      b.step = STEP;
      refill(&b);
      up = loss(&b, false);
      b.step = -STEP;
      refill(&b);
      down = loss(&b, false);
      got = (up - down) / (2 * STEP);
      CHECK(want > 0 && fabs(got - want) <= 5e-3 * want, "%s: slope %g, gradient %g", p->name, got, want);
    }
  close_bench(&b);
}

/* The bounds are those of the bf16 test in test_model.c. Backward rounds about twice as often as forward, and
 * sums of both signs lose more. */
static void bf16_gradients_are_near(void **state) {
  bench full, half;

  (void)state;
  open_bench(&full, "model/qwen2", TRI_F32);
  (void)loss(&full, true);
  full.slopes = all_gradients(&full);
  open_bench(&half, "model/qwen2", TRI_BF16);
  (void)loss(&half, true);
  half.slopes = all_gradients(&half);
  for (int u = 0; u < options(&full)->n_unit; u++)
    for (int i = 0; i < options(&full)->unit[u].n_param; i++) {
      const tri_param_spec *p = &options(&full)->unit[u].param[i];
      const double         *a = full.slopes[place(&full, u, i)], *b = half.slopes[place(&half, u, i)];
      double                away = 0, size = 0, most = 4 * (5 * full.g.shape.L + 1) * 0x1p-8;
      for (int64_t k = 0; k < tri_param_count(p); k++) {
        away += (a[k] - b[k]) * (a[k] - b[k]);
        size += a[k] * a[k];
      }
      CHECK(sqrt(away) <= most * sqrt(size), "the gradient of %s is %.3g away", p->name, sqrt(away / size));
    }
  close_bench(&half);
  close_bench(&full);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_number_for_each_row), cmocka_unit_test(starts_from_a_language_model),
      cmocka_unit_test(gradients_are_slopes), cmocka_unit_test(bf16_gradients_are_near)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
