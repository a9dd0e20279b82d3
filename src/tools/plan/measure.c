/* measure.c - times the policy's compute on this machine for a plan, with all layers or as many as there is
 * time for. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"

#include "plan_bench.h"
#include "plan.h"

#include <math.h>

/* Chosen. Passes are not timed if they would take longer than this by the machine's figures. */
static const double most_s = 3.5;
/* Passes of a kind, at least (plan_bench.c), and tokens of a pass. Chosen: products of more rows gain
 * little. */
enum { PASSES = 2, LEAST_TOKENS = 128 };

/* Factor lost when each rank waits for its turn on a core. Measured with tests/bench/predict.sh, 4 ranks on 2
 * cores. */
static const double lost_in_turns = 1.1;

/* Returns the factor by which ranks slow down if a node has fewer cores than all their threads. They take
 * turns. */
static double turns(const tri_plan *p) {
  double want = (double)p->se.threads * p->job.per_node, have = p->se.rt.machine_cores;

  return want > have ? lost_in_turns * want / have : 1;
}

static int64_t at_least_1(double x) { return x < 1 ? 1 : (int64_t)(x + 0.5); }

tri_bench_size tri_plan_sizes(const tri_cost_pass *learn, const tri_cost_rollout *r) {
  int64_t sequence = at_least_1(2 * learn->context),
          in_pass = at_least_1(learn->tokens / learn->batches / (double)sequence);
  tri_bench_size z = {.sequences = in_pass, .length = sequence};

  z.rows = at_least_1(learn->rows / learn->tokens * (double)sequence);
  if (z.rows > sequence - 1 && sequence > 1) z.rows = sequence - 1;
  if (!r) return z;
  double answers = fmin(r->answers, r->at_once);
  z.prompts = at_least_1(answers * r->prompts / r->answers);
  z.group = at_least_1(answers / (double)z.prompts);
  z.prompt_tokens = at_least_1(r->prompt_tokens);
  z.answer_tokens = at_least_1(r->answer_tokens);
  return z;
}

/* Estimates the seconds of all passes with L layers from the built-in figures of such cores. It does not use
 * the doctor's file, because that may come from a busy hour. */
static double guess_s(const tri_plan *p, const tri_bench_size *z, const tri_cost_model *whole, int64_t L,
                      bool generates) {
  tri_machine    m;
  tri_cost_model part = *whole;
  double         N = (double)(z->sequences * z->length), K = (double)(z->sequences * z->rows), flops,
         rows = (double)(z->prompts * z->group), tokens = (double)(z->prompts * z->prompt_tokens), context,
         states; /* updates of the states of one token */

  tri_machine_host(p->se.threads, 1, &m);
  part.L = L;
  part.recurrent.layers = whole->recurrent.layers * L / whole->L;
  if (generates) {
    context = (double)(z->prompt_tokens + z->answer_tokens / 2);
    flops = tri_cost_forward_flops(&part, rows, rows, context) +
            tri_cost_forward_flops(&part, tokens, 0, context) +
            tri_cost_forward_flops(&part, (double)z->prompts * context, 0, context) / PASSES;
    states = rows + tokens + (double)z->prompts * context / PASSES;
  } else {
    context = (double)z->length / 2;
    flops =
        3 * tri_cost_forward_flops(&part, N, K, context) + 2 * tri_cost_backward_flops(&part, N, K, context);
    states = (3 + 2 * TRI_COST_STATES_BACKWARD) * N;
  }
  states *= tri_cost_recurrence_s(&m, &part, false, 1);
  return PASSES * (flops / (whole->bytes == 4 ? m.flops_f32 : m.flops_bf16) + states);
}

/* Returns the fewest layers after which attention and recurrent layers repeat. L: they never do. */
static int64_t period_of(const tri_model_shape *s) {
  int64_t n = 0;
  bool    repeats;

  do {
    n++;
    repeats = true;
    for (int l = 0; l + n < s->L; l++) repeats &= tri_is_recurrent(s, l) == tri_is_recurrent(s, l + (int)n);
  } while (!repeats);
  return n;
}

/* Returns how many layers there is time for, a multiple of `least` or all. It first drops sequences of a pass
 * to keep all layers. Otherwise it returns the layers to time beside a model of `least` layers. 0: not even
 * twice as many. */
static int64_t fit(const tri_plan *p, tri_bench_size *z, const tri_cost_model *m, int64_t least,
                   bool generates) {
  int64_t n = m->L;

  while (!generates && z->sequences > 1 && (z->sequences - 1) * z->length >= LEAST_TOKENS &&
         guess_s(p, z, m, n, false) > most_s)
    z->sequences--;
  if (guess_s(p, z, m, n, generates) <= most_s) return n;
  for (n = n / least * least; n > least && guess_s(p, z, m, n + least, generates) > most_s;) n -= least;
  return n > least ? n : 0;
}

/* Extrapolates to L layers from times with `least` and with n layers. */
static double grow(double few, double more, int64_t least, int64_t n, int64_t L) {
  return n == L ? more : few + fmax(more - few, 0) * (double)(L - least) / (double)(n - least);
}

/* Times one part of *t and extrapolates it to all layers. May reduce the sequences of a pass. */
static tri_status time_part(const tri_plan *p, tri_bench_size *z, const tri_cost_model *m, bool generates,
                            tri_bench_times *t, bool *done) {
  int64_t L = m->L, least = period_of(tri_source_shape(p->t.learner[TRI_POLICY].source)),
          n = fit(p, z, m, least, generates);
  tri_bench_times few = {0};

  *done = false;
  if (!n) return TRI_OK;
  TRI_TRY(tri_bench_model(p, z, (int)n, generates, t, done));
  if (!*done && n > 2 * least) TRI_TRY(tri_bench_model(p, z, (int)(n = 2 * least), generates, t, done));
  if (*done && n < L) TRI_TRY(tri_bench_model(p, z, (int)least, generates, &few, done));
  if (!*done) return TRI_OK;
  t->forward = grow(few.forward, t->forward, least, n, L);
  t->learn = grow(few.learn, t->learn, least, n, L);
  t->prefill = grow(few.prefill, t->prefill, least, n, L);
  t->decode = grow(few.decode, t->decode, least, n, L);
  return TRI_OK;
}

tri_status tri_plan_measure(const tri_plan *p, const tri_cost_pass *learn, const tri_cost_rollout *r,
                            tri_cost_compute *out, bool *done) {
  tri_bench_size  z = tri_plan_sizes(learn, r);
  tri_bench_times of_pass = {0}, of_answers = {0};
  double          slower = turns(p), tokens;

  *done = false;
  if (p->job.gpu) return TRI_OK;
  TRI_TRY(time_part(p, &z, &learn->model, false, &of_pass, done));
  if (*done && r) TRI_TRY(time_part(p, &z, &r->model, true, &of_answers, done));
  if (!*done) return TRI_OK;
  tokens = (double)(z.sequences * z.length);
  out->forward = (tri_cost_line){0, slower * of_pass.forward / tokens};
  out->backward = (tri_cost_line){0, slower * fmax(of_pass.learn - of_pass.forward, 0) / tokens};
  out->update_s = slower * of_pass.update / of_pass.numbers;
  if (!learn->frozen) /* with adapters only those were packed */
    out->pack_s = slower * of_pass.pack / of_pass.numbers;
  if (!r) return TRI_OK;
  out->prefill_s = slower * of_answers.prefill / (double)(z.prompts * z.prompt_tokens);
  out->decode = (tri_cost_line){slower * of_answers.decode, 0};
  tri_cost_divide(&p->job.machine, r, out); /* timed was a whole model on one rank */
  return TRI_OK;
}
