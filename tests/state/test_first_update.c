/* test_first_update.c - checks after a first optimizer step, under every legal plan. Run with 1, 2 and 4
 * ranks, in pretended nodes of all, one and two. The legal plans have even and odd numbers, so with several
 * ranks each has one type. Judge: exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "model_case.h"

#include "state/params_impl.h"
#include "state/first_update.h"
#include "refusal_case.h"

enum { UNITS = 3 };

static tri_session session, *const se = &session;
static tri_params    *p;
static tri_unit_spec  unit[UNITS];
static tri_param_spec param[UNITS][2];
static tri_dtype      dtype;
static tri_shard_plan plan;
static char           said[1 << 14]; /* warnings of the last step */
static bool           broken;        /* the next gradients have a NaN in unit0.weight and in unit1.bias */

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  (void)ctx, (void)kind;
  for (int64_t k = 0; k < count; k++) out[k] = (float)(u + i + 1) / (float)(begin + k + 1);
  return TRI_OK;
}

static void open_store(int ranks_per_node) {
  tri_params_opt opt = {
      .dtype = dtype, .plan = plan, .train = true, .unit = unit, .n_unit = UNITS, .label = "policy"};

  session_open(se, ranks_per_node);
  memset(param, 0, sizeof param);
  for (int u = 0; u < UNITS; u++) {
    unit[u] = (tri_unit_spec){.in_ring = u > 0, .n_param = 2, .param = param[u]};
    for (int i = 0; i < 2; i++) {
      snprintf(param[u][i].name, sizeof param[u][i].name, "unit%d.%s", u, i ? "bias" : "weight");
      param[u][i].ndim = i ? 1 : 2;
      param[u][i].dim[0] = i ? 11 : 17;
      param[u][i].dim[1] = i ? 0 : 13;
    }
    tri_unit_layout(&unit[u]);
  }
  opt.place = se->place;
  OK(tri_params_open(se->device, se->comm, se->ledger, &opt, &p));
  OK(tri_session_take_memory(se));
  OK(tri_params_fill(p, TRI_STATE_WEIGHT, fill, NULL, se->stream));
}

static void close_store(void) {
  tri_params_close(&p);
  tri_session_close(se);
}

/* Takes one step. The gradient of unit[u].param[i] is 0, and the others are not. -1 for none. */
static tri_status step(int u0, int i0, double learning_rate, bool *applied) {
  static const tri_optim_opt optim = {0.9, 0.99, 1e-8, 0, 0, {0, 0, 0, 0}};
  float                      slope[17 * 13];
  tri_weights                dw;
  const float                not_a_number = NAN;
  double                     norm;
  FILE                      *log = tmpfile();
  tri_status                 st;
  size_t                     n;

  for (int64_t k = 0; k < 17 * 13; k++) slope[k] = (float)(k % 5 + 1);
  for (int u = 0; u < UNITS; u++) {
    OK(tri_params_grad(p, u, se->stream, &dw));
    for (int i = 0; i < 2; i++)
      if (u != u0 || i != i0)
        device_copy(se->stream, dw.t[i].data, slope, (size_t)tri_tensor_count(&dw.t[i]) * sizeof *slope);
    if (broken && u < 2)
      device_copy(se->stream, (float *)dw.t[u].data + 10, &not_a_number, sizeof not_a_number);
    OK(tri_params_grad_done(p, u, se->stream, true));
  }
  CHECK(log);
  tri_log_open(se->rt.world_rank, TRI_LOG_ERROR); /* the warnings are in the file alone */
  tri_log_file(log);
  st = tri_first_update_check(p, &optim, &(tri_optim_now){learning_rate, 1, 1, false}, se->stream, &norm,
                              applied);
  tri_log_file(NULL);
  tri_log_open(se->rt.world_rank, TRI_LOG_INFO);
  rewind(log);
  n = fread(said, 1, sizeof said - 1, log);
  said[n] = 0;
  fclose(log);
  return st;
}

static void says(const char *part) {
  if (se->rt.world_rank)
    CHECK(!said[0], "%s", said);
  else
    CHECK(part ? strstr(said, part) != NULL : !said[0], "'%s' is not in '%s'", part ? part : "", said);
}

static void what_did_not_move(void) {
  bool applied;

  open_store(0);
  OK(step(-1, -1, 1e-3, &applied));
  CHECK(applied);
  says(NULL);
  close_store();
  open_store(0);
  OK(step(1, 0, 1e-3, &applied));
  says("1 of 6 tensors of the policy ");
  says(" unit1.weight");
  close_store();
  open_store(0);
  OK(step(2, 1, 1e-3, &applied));
  says(" unit2.bias");
  close_store();
}

static void what_is_not_finite(void) {
  bool applied;

  open_store(0);
  broken = true;
  OK(step(-1, -1, 1e-3, &applied));
  broken = false;
  CHECK(!applied);
  says("policy: ");
  says(" unit1.bias ");
  close_store();
}

/* A warm-up's first rate may be too small for f32, and grows later. */
static void what_is_too_small(void) {
  bool applied;

  open_store(0);
  OK(step(-1, -1, 1e-12, &applied));
  CHECK(applied);
  says(NULL);
  close_store();
}

static bool is_copied(tri_shard_scope s) {
  if (s == TRI_SHARD_NODE) return se->comm[TRI_CROSS]->size > 1;
  return s == TRI_SHARD_NONE && se->rt.world_size > 1;
}

/* In f32 the optimizer share is a part of the weights. The first element of the share that ranks hold copies
 * of is another on the last rank. */
static void a_copy_that_differs(int ranks_per_node, bool share) {
  tri_param_unit *u;
  tri_range       r;
  bool            has;
  char            want[64];

  open_store(ranks_per_node);
  u = &p->unit[1];
  r = tri_params_share(p, u, 0, share ? plan.optim : plan.params);
  r = tri_range_meet(r, (tri_range){0, param[1][0].dim[0] * param[1][0].dim[1]});
  has = is_copied(share ? plan.optim : plan.params) || (dtype == TRI_F32 && is_copied(plan.params));
  OK(tri_first_update_copies(p, se->stream));
  if (se->rt.world_rank == se->rt.world_size - 1 && r.count) {
    char *at = share ? (char *)tri_params_state_at(p, u, TRI_STATE_WEIGHT, r.begin)
                     : (char *)tri_params_weight_at(p, u, r.begin);
    char  byte = 1;
    device_copy(se->stream, at, &byte, 1);
  }
  int64_t planted = r.count > 0 && se->rt.world_rank == se->rt.world_size - 1;
  OK(tri_host_max(se->comm[TRI_WORLD], &planted, 1));
  if (has && planted) {
    CHECK(tri_first_update_copies(p, se->stream) == TRI_ENUMERIC);
    snprintf(want, sizeof want, " and %d hold different ", se->rt.world_size - 1);
    CHECK(refusal_is(want), "%s", tri_error_message());
    CHECK(refusal_is("compare() policy unit1.weight"), "%s", tri_error_message());
    tri_error_clear();
  } else
    OK(tri_first_update_copies(p, se->stream));
  close_store();
}

static void every_plan(void **state) {
  (void)state;
  for (int k = 0; k < 27; k++) {
    plan = (tri_shard_plan){(tri_shard_scope)(k / 9), (tri_shard_scope)(k / 3 % 3), (tri_shard_scope)(k % 3)};
    if (plan.params > plan.grads || plan.grads > plan.optim) continue;
    for (int half = 0; half < 2; half++) {
      if (rt.world_size > 1 && (k + half + rt.world_size / 4) % 2) continue; /* one rank runs both types */
      dtype = half ? TRI_BF16 : TRI_F32;
      what_did_not_move();
      what_is_too_small();
      what_is_not_finite();
      for (int share = 0; share < 2; share++)
        for (int per_node = 0; per_node <= 2; per_node++)
          if (per_node < 2 || rt.world_size % 2 == 0) a_copy_that_differs(per_node, share);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
