/* sdpa.c - sends gradients of attention to cuDNN, in calls of a few sequences.
 *
 * A batch goes in calls of B sequences, none longer than T. Each call uses a plan made for B and T, so few
 * plans serve all batches. The planned workspace limits B, because the engine keeps B H T T bf16. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdpa.h"

#include "base/host_memory.h"
#include "base/log.h"
#include "library.h"
#include "cudnn_plan.h"
#include "rows.h"
#include "cudnn_trial.h"

#include "device/gpu_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Measured in tests/device/test_cudnn.c. Rounding alone makes gradients differ by 0.007 of the largest, wrong
 * masks, scales and layouts by more than 1. SLOW is chosen, a tenth more time is worth a warning. */
static const double TOO_FAR = 0.05, SLOW = 1.1;

enum { MOST_PLANS = 256, MOST_SEQUENCES = 64, LEAST_ROWS = 128, ALIGN = 256 }; /* chosen */

typedef struct entry { /* a requested shape */
  tri_attn_rule rule;
  int64_t       T;     /* rows its sequences fit in */
  cudnn_plan    plan;  /* plan.plan is NULL if the shape is not for cuDNN, for good */
  bool          tried; /* compared with the own kernel */
} entry;

struct tri_cudnn {
  cudnn_api  api;
  cudnn_user user;
  char       version[24];
  entry      made[MOST_PLANS];
  int        n_made;
};

static size_t round_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- its limits ---- */

const char *tri_cudnn_why_not(const tri_attn_rule *rule, tri_dtype A, int64_t N) {
  const tri_heads *h = &rule->heads;
  const int64_t    E = (int64_t)(h->H + 2 * h->G) * h->D;

  return A != TRI_BF16        ? "rows are not bf16"
         : rule->softcap > 0  ? "scores are capped"
         : h->D % 8           ? "the head width is not a multiple of 8"
         : h->D > 256         ? "a head is wider than 256"
         : N > INT32_MAX / E  ? "offsets do not fit into 32 bits"
         : rule->longest <= 0 ? "the longest sequence is not known"
                              : NULL;
}

/* Bytes for B sequences: delta, the lengths and offsets, and the memory of the engine (cudnn_plan.c). Each
 * head of a group has its own dk and dv in the latter. */
static size_t delta_bytes(const tri_heads *h, int64_t B, int64_t T) {
  return round_up((size_t)(B * h->H * T) * sizeof(float));
}
static size_t rows_bytes(int64_t B) { return 4 * round_up((size_t)(B + 1) * sizeof(int32_t)); }
static size_t engine_bytes(const tri_heads *h, int64_t B, int64_t T) {
  return 2 * (size_t)(B * h->H * T) * (size_t)(T + (h->H == h->G ? 0 : 2 * h->D));
}

/* Returns the bytes of a plan's calls. The own kernel's work in a trial uses the same workspace. */
static size_t call_bytes(const tri_heads *h, int64_t B, int64_t T, size_t workspace) {
  const size_t need = round_up(workspace) + delta_bytes(h, B, T) + rows_bytes(B),
               own = round_up(tri_cudnn_trial_work_bytes(h, T));

  return ALIGN + (need > own ? need : own);
}
static bool fits(const tri_heads *h, int64_t B, int64_t T, size_t workspace, size_t bytes) {
  return call_bytes(h, B, T, workspace) + tri_cudnn_trial_bytes(h, T) <= bytes;
}

void tri_cudnn_sizes(const tri_attn_rule *rule, int64_t longest, size_t bytes, int64_t *B, int64_t *T) {
  const tri_heads *h = &rule->heads;

  for (*T = LEAST_ROWS; *T < longest; *T *= 2) {
  }
  for (*B = MOST_SEQUENCES; *B > 0; *B /= 2)
    if (fits(h, *B, *T, engine_bytes(h, *B, *T), bytes)) return;
}

/* ---- the library ---- */

tri_status tri_cudnn_open(tri_cuda_device *d) {
  tri_status        st = TRI_OK;
  struct tri_cudnn *c = NULL;
  size_t            v = 0;
  bool              asked;

  TRI_TRY(tri_gpu_attn_asked(&asked));
  if (!asked) return TRI_OK;
  if (d->capability / 10 != 9)
    TRI_FAIL(TRI_EDEVICE,
             "TRI_CUDA_ATTN_BWD is cudnn but this GPU has compute capability %d.%d. cuDNN's gradients repeat "
             "their bits in packed rows on 9.0 only. Unset TRI_CUDA_ATTN_BWD",
             d->capability / 10, d->capability % 10);
  TRI_TRY(TRI_ALLOC(c, 1));
  d->cudnn = c;
  TRI_TRY_DONE(tri_cudnn_load(&c->api, &v));
  snprintf(c->version, sizeof c->version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
  c->user.api = &c->api;
  if (c->api.create(&c->user.handle))
    TRI_FAIL_DONE(TRI_EDEVICE, "cuDNN %s cannot use this GPU or its driver. Unset TRI_CUDA_ATTN_BWD",
                  c->version);
done:
  if (st != TRI_OK) tri_cudnn_close(d);
  return st;
}

void tri_cudnn_close(tri_cuda_device *d) {
  struct tri_cudnn *c = d->cudnn;

  if (!c) return;
  for (int i = 0; i < c->n_made; i++) tri_cudnn_plan_close(&c->user, &c->made[i].plan);
  if (c->user.handle) c->api.destroy(c->user.handle);
  TRI_FREE(d->cudnn);
}

const char *tri_cudnn_version(const tri_cuda_device *d) { return d->cudnn ? d->cudnn->version : ""; }

/* ---- plans ---- */

typedef struct name {
  char text[112];
} name;
static name name_of(const entry *e) {
  const tri_heads *h = &e->rule.heads;
  name             n;

  snprintf(n.text, sizeof n.text, "attention backward, %d/%d heads of %d, sequences of up to %lld%s", h->H,
           h->G, h->D, (long long)e->T, e->rule.window > 0 ? ", with a window" : "");
  return n;
}

static bool is_like(const tri_attn_rule *a, const tri_attn_rule *b) {
  return a->heads.H == b->heads.H && a->heads.G == b->heads.G && a->heads.D == b->heads.D &&
         a->window == b->window; /* calls pass scale and window, the plan depends on having a window */
}

/* Makes a plan with a workspace that fits. It takes fewer sequences if the engine keeps more than
 * computed. */
static void make_plan(struct tri_cudnn *c, entry *e, int64_t B, size_t bytes) {
  static const char *const small = "one sequence needs more memory than planned";
  const char              *why = small;
  char                     text[256] = ""; /* cuDNN's own message */

  for (; B > 0 && why == small; B /= 2) {
    tri_cudnn_plan_open(&c->user, &e->rule, B, e->T, &e->plan, &why);
    if (why) c->api.last_error(text, sizeof text);
    if (why || fits(&e->rule.heads, B, e->T, e->plan.workspace, bytes)) continue;
    tri_cudnn_plan_close(&c->user, &e->plan);
    why = small;
  }
  if (why && tri_log_is_first())
    tri_log(TRI_LOG_WARN, "%s: uses the own kernel instead of cuDNN %s because %s%s%s", name_of(e).text,
            c->version, why, text[0] ? ": " : "", text);
}

static entry *find_entry(struct tri_cudnn *c, const tri_attn_rule *rule, int64_t B, int64_t T, size_t bytes) {
  for (int i = 0; i < c->n_made; i++)
    if (c->made[i].T == T && is_like(&c->made[i].rule, rule)) return &c->made[i];
  if (c->n_made == MOST_PLANS) return NULL; /* one of many models, the own kernel serves */
  c->made[c->n_made].rule = *rule;
  c->made[c->n_made].T = T;
  make_plan(c, &c->made[c->n_made], B, bytes);
  return &c->made[c->n_made++];
}

/* Judges the result of a trial. A shape with wrong gradients stays with the own kernel. */
static void judge(struct tri_cudnn *c, entry *e, const tri_cudnn_verdict *v) {
  char why[sizeof v->failed + 64];

  e->tried = true;
  if (v->failed[0])
    snprintf(why, sizeof why, "failed: %s", v->failed);
  else if (!v->repeats)
    snprintf(why, sizeof why, "does not repeat its bits");
  else if (v->behind)
    snprintf(why, sizeof why, "writes behind the last row");
  else if (isnan(v->apart))
    snprintf(why, sizeof why, "has gradients with NaN");
  else if (v->apart > TOO_FAR)
    snprintf(why, sizeof why, "has other gradients (they differ by %.3g of the largest)", v->apart);
  else
    return;
  tri_log(TRI_LOG_WARN, "%s: uses the own kernel because cuDNN %s, engine %lld, %s", name_of(e).text,
          c->version, (long long)e->plan.engine, why);
  tri_cudnn_plan_close(&c->user, &e->plan);
}

static void tell(const struct tri_cudnn *c, const entry *e, double apart, int64_t N, double ms,
                 double own_ms) {
  tri_log(
      TRI_LOG_INFO,
      "%s: uses cuDNN %s, engine %lld, %lld at once in %.0f MiB, %.4f ms for %lld rows (own kernel %.4f ms), "
      "difference %.2g of the largest gradient",
      name_of(e).text, c->version, (long long)e->plan.engine, (long long)e->plan.B,
      (double)e->plan.workspace / (1 << 20), ms, (long long)N, own_ms, apart);
  if (ms > SLOW * own_ms && tri_log_is_first())
    tri_log(TRI_LOG_WARN,
            "%s: cuDNN took %.0f %% more time than the own kernel in one run. Set TRI_CUDA_ATTN_BWD=own",
            name_of(e).text, 100 * (ms / own_ms - 1));
}

/* ---- calls ---- */

typedef struct call {
  struct tri_cudnn *c;
  const cudnn_plan *plan;
  int               S;
  tri_cudnn_rows    rows;
  void             *at[CUDNN_UIDS], *workspace;
  float             scale, one, masked, window;
} call;

static char *aligned(char *at) { return at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN; }

/* Divides the workspace into rows, delta and the engine's part. */
static void share_workspace(call *a, char *workspace, const tri_heads *h) {
  const size_t each = rows_bytes(a->plan->B) / 4;
  int32_t    **part[] = {&a->rows.len, &a->rows.at_qkv, &a->rows.at_o, &a->rows.at_stats};

  workspace = aligned(workspace);
  for (int i = 0; i < 4; i++, workspace += each) *part[i] = (int32_t *)(void *)workspace;
  a->at[CUDNN_LEN_Q] = a->at[CUDNN_LEN_KV] = a->rows.len;
  a->at[CUDNN_AT_QKV] = a->rows.at_qkv;
  a->at[CUDNN_AT_O] = a->rows.at_o;
  a->at[CUDNN_AT_STATS] = a->rows.at_stats;
  a->at[CUDNN_DELTA] = workspace;
  a->workspace = workspace + delta_bytes(h, a->plan->B, a->plan->T);
}

static void set_numbers(call *a, const tri_attn_rule *rule) {
  a->scale = rule->scale;
  a->one = 1;
  a->masked = -INFINITY;
  a->window = (float)rule->window;
  a->at[CUDNN_SCALE] = &a->scale;
  a->at[CUDNN_ONE] = &a->one;
  a->at[CUDNN_MASKED] = &a->masked;
  a->at[CUDNN_WINDOW] = rule->window > 0 ? &a->window : NULL;
}

static tri_status run_all(void *ctx, tri_stream *s) {
  call *a = ctx;
  int   S = a->S;

  if (a->c->api.set_stream(a->c->user.handle, tri_cuda_stream_of(s)))
    TRI_FAIL(TRI_EDEVICE, "cuDNN refused a stream. Set TRI_CUDA_ATTN_BWD=own to run without cuDNN");
  for (int first = 0; first < S; first += a->rows.B) {
    a->rows.first = first;
    a->rows.n = S - first < a->rows.B ? S - first : a->rows.B;
    TRI_TRY(tri_cudnn_put_rows(s, &a->rows));
    TRI_TRY(tri_cudnn_plan_run(&a->c->user, a->plan, a->at, a->workspace));
  }
  return TRI_OK;
}

static call make_call(struct tri_cudnn *c, const cudnn_plan *plan, const tri_cudnn_arrays *x,
                      char *workspace) {
  const tri_heads *h = &x->rule.heads;
  const int64_t    k = (int64_t)h->H * h->D, v = k + (int64_t)h->G * h->D;
  uint16_t        *qkv = x->qkv.data, *dqkv = x->dqkv.data;
  call             a = {.c = c, .plan = plan, .S = (int)x->cu.dim[0] - 1};

  a.rows =
      (tri_cudnn_rows){.cu = x->cu.data, .B = (int)plan->B, .E = (int)x->qkv.dim[1], .HD = (int)k, .H = h->H};
  a.at[CUDNN_Q] = qkv, a.at[CUDNN_K] = qkv + k, a.at[CUDNN_V] = qkv + v;
  a.at[CUDNN_DQ] = dqkv, a.at[CUDNN_DK] = dqkv + k, a.at[CUDNN_DV] = dqkv + v;
  a.at[CUDNN_O] = x->o.data, a.at[CUDNN_DO] = x->dout.data, a.at[CUDNN_STATS] = x->lse.data;
  share_workspace(&a, workspace, h);
  return a;
}

/* Tries a plan. The workspace behind the calls' part belongs to the trial. The more there is, the longer a
 * sequence is tried. */
static tri_status try_plan(tri_stream *s, struct tri_cudnn *c, entry *e, const tri_attn_rule *rule,
                           char *workspace, size_t bytes, double *apart) {
  const tri_heads  *h = &rule->heads;
  const size_t      calls = call_bytes(h, e->plan.B, e->T, e->plan.workspace);
  const int64_t     longest = tri_cudnn_trial_longest(h, e->T, bytes - calls);
  tri_cudnn_arrays  x;
  tri_cudnn_verdict found;
  call              a;

  TRI_TRY(tri_cudnn_trial_put(s, rule, longest, aligned(workspace) + (calls - ALIGN), &x));
  a = make_call(c, &e->plan, &x, workspace);
  set_numbers(&a, rule);
  TRI_TRY(tri_cudnn_try(s, &x, aligned(workspace), (tri_cudnn_way){run_all, &a}, &found));
  judge(c, e, &found);
  *apart = found.apart;
  return TRI_OK;
}

/* Makes the first call of a shape. *done says that cuDNN's gradients are there. */
static tri_status first_call(tri_stream *s, entry *e, call *a, const tri_attn_rule *rule, char *workspace,
                             size_t bytes, int64_t N, tri_cudnn_way own, bool *done) {
  double apart = 0, ms, own_ms;

  TRI_TRY(try_plan(s, a->c, e, rule, workspace, bytes, &apart));
  if (!e->plan.plan) return TRI_OK;
  TRI_TRY(tri_cudnn_time(s, own, &own_ms));
  TRI_TRY(tri_cudnn_time(s, (tri_cudnn_way){run_all, a}, &ms));
  tell(a->c, e, apart, N, ms, own_ms);
  *done = true;
  return TRI_OK;
}

tri_status tri_cudnn_attn_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o, tri_in lse,
                              tri_in qkv, tri_in cu, const tri_attn_rule *rule, tri_cudnn_way own_way,
                              bool *done) {
  const tri_cudnn_arrays x = {*dqkv, *dout, *o, *lse, *qkv, *cu, *rule};
  struct tri_cudnn      *c = ((tri_cuda_device *)s->device)->cudnn;
  const int64_t          own = tri_attn_work(&rule->heads, qkv->dim[0]);
  const size_t           bytes = (size_t)(tri_tensor_count(work) - own) * sizeof(float);
  char                  *workspace = (char *)((float *)work->data + own);
  entry                 *e;
  call                   a;
  int64_t                B, T;

  *done = false;
  if (!c || !bytes || tri_cudnn_why_not(rule, qkv->dtype, qkv->dim[0])) return TRI_OK;
  tri_cudnn_sizes(rule, rule->longest, bytes, &B, &T);
  e = find_entry(c, rule, B, T, bytes);
  if (!e || !e->plan.plan) return TRI_OK;
  TRI_ASSERT(fits(&rule->heads, e->plan.B, e->T, e->plan.workspace, bytes));
  a = make_call(c, &e->plan, &x, workspace);
  set_numbers(&a, rule);
  if (!e->tried) return first_call(s, e, &a, rule, workspace, bytes, qkv->dim[0], own_way, done);
  *done = true;
  return run_all(&a, s);
}
