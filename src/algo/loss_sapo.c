/* loss_sapo.c - SAPO, a soft gate instead of the clip. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>

static const char *const options[] = {"algo.sapo_temperature_pos", "algo.sapo_temperature_neg",
                                      "algo.loss_agg_mode", NULL};
static const char *const metrics[] = {TRI_POLICY_METRICS, NULL};

/* - 4 / t sigmoid(t (ratio - 1)) A, with t by the sign of A (Gao et al. 2025, SAPO, eq. 5; trl,
 * grpo_trainer.py, loss_type sapo). */
static tri_surrogate token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                           double shared) {
  double adv = (double)in->adv[i], t = adv > 0 ? o->sapo_temperature_pos : o->sapo_temperature_neg;
  double gate = 1 / (1 + exp(-t * (ratio - 1)));

  (void)shared;
  return (tri_surrogate){.loss = -4 / t * gate * adv, .by_logp = -4 * gate * (1 - gate) * ratio * adv};
}

static tri_status loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){.token = token}, out);
}

static const tri_algo_default set[] = {{"algo.loss_agg_mode", "seq-mean-token-mean"}, {NULL, NULL}};

const tri_loss tri_loss_sapo = {.name = "sapo",
                                .reads = TRI_POLICY_READS,
                                .option = options,
                                .set = set,
                                .metric = metrics,
                                .weigh = tri_weigh_by_mode,
                                .compute = loss,
                                .statistic = &tri_policy_statistic};
