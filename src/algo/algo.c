/* algo.c - the table of algorithms, and the arithmetic they share: token weights, KL estimators. */
#include "algo.h"

#include <math.h>
#include <string.h>

#define POINTER(name) &tri_algo_##name,
static const tri_algo *const table[] = {TRI_ALGO_LIST(POINTER)};
enum { N_ALGO = sizeof table / sizeof *table };

const tri_algo *tri_algo_at(int i) { return i >= 0 && i < N_ALGO ? table[i] : NULL; }

const tri_algo *tri_algo_find(const char *name) {
  for (int i = 0; i < N_ALGO; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}

/* The four normalisers of verl (core_algos.py, agg_loss), each counted over the whole optimizer step. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight) {
  double n_token = 0, n_counted = 0;

  for (int q = 0; q < n_seq; q++) {
    n_token += (double)n_answer[q];
    n_counted += n_answer[q] > 0;
  }
  for (int q = 0; q < n_seq; q++) {
    double n = (double)n_answer[q];
    weight[q] = 0;
    if (n_answer[q] <= 0) continue;
    switch (mode) {
    case TRI_TOKEN_MEAN:
      weight[q] = 1 / n_token;
      break;
    case TRI_SEQ_MEAN_TOKEN_SUM:
      weight[q] = 1 / n_counted;
      break;
    case TRI_SEQ_MEAN_TOKEN_MEAN:
      weight[q] = 1 / (n_counted * n);
      break;
    case TRI_SEQ_MEAN_TOKEN_SUM_NORM:
      weight[q] = 1 / (n_counted * (double)max_response_length);
      break;
    }
  }
}

void tri_weigh_by_mode(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                       double *weight) {
  tri_loss_weights(o->loss_agg_mode, max_response_length, n_answer, n_seq, weight);
}

double tri_kl_value(tri_kl_estimator e, double delta, double *slope) {
  double value = delta, by_delta = 1;

  if (e == TRI_KL_K2) {
    value = delta * delta / 2;
    by_delta = delta;
  }
  if (e == TRI_KL_K3) { /* exp(-delta) - 1 + delta, without cancellation near 0 */
    double m = expm1(-delta);
    value = m + delta;
    by_delta = -m;
  }
  if (slope) *slope = by_delta;
  return value;
}
