/* loss_sft.c - supervised fine-tuning, by the negative log-likelihood of given answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

enum { ENTROPY };
static const char *const options[] = {NULL};
static const char *const metrics[] = {"entropy_mean_nats", NULL};

static void mean_over_tokens(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                             int n_seq, double *weight) {
  (void)o;
  tri_loss_weights(TRI_TOKEN_MEAN, max_response_length, n_answer, n_seq, weight);
}

/* loss = - sum weight logp. The entropy is only reported. */
static tri_status sft_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  double loss = 0;

  (void)o;
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  memset(out->metric, 0, sizeof out->metric);
  out->metric[ENTROPY].of = (double)in->n;
  for (int q = 0; q < in->n_seq; q++) {
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      out->dlogp[i] = (float)-in->weight[q];
      out->dent[i] = 0;
      loss -= in->weight[q] * (double)in->logp[i];
      out->metric[ENTROPY].sum += (double)in->ent[i];
      if (!isfinite(in->logp[i]) || !isfinite(in->ent[i]))
        TRI_FAIL(
            TRI_ENUMERIC,
            "token %lld with loss of sequence %d of a micro-batch: log-probability %g and entropy %g nats "
            "are not both finite. Check the model's weights, or lower train.learning_rate.",
            (long long)(i - in->start[q]), q, (double)in->logp[i], (double)in->ent[i]);
    }
  }
  out->loss = loss;
  return TRI_OK;
}

const tri_loss tri_loss_sft = {.name = "sft",
                               .option = options,
                               .metric = metrics,
                               .weigh = mean_over_tokens,
                               .compute = sft_loss,
                               .is_nats = true};
