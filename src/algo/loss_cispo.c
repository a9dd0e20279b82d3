/* loss_cispo.c - CISPO: the log-probability, weighted by a capped ratio that no gradient goes through. */
#include "policy.h"

static const char *const options[] = {"algo.clip_eps_high", "algo.loss_agg_mode", NULL};
static const char *const metrics[] = {TRI_CLIP_METRICS, NULL};

/* - min(ratio, clip_eps_high) A log pi (MiniMax 2025, MiniMax-M1, eq. 4 without its lower bound; trl,
 * grpo_trainer.py, loss_type cispo). */
static tri_surrogate token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                           double shared) {
  double        adv = (double)in->adv[i];
  tri_surrogate s = {.clipped = adv > 0 && ratio > o->clip_eps_high};

  (void)shared;
  s.by_logp = -(ratio > o->clip_eps_high ? o->clip_eps_high : ratio) * adv;
  s.loss = s.by_logp * (double)in->logp[i];
  return s;
}

static tri_status loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){.token = token}, out);
}

static const tri_algo_default set[] = {{"algo.clip_eps_high", "5"}, {NULL, NULL}};

const tri_loss tri_loss_cispo = {.name = "cispo",
                                 .reads = TRI_POLICY_READS,
                                 .option = options,
                                 .set = set,
                                 .metric = metrics,
                                 .weigh = tri_weigh_by_mode,
                                 .compute = loss,
                                 .survey = &tri_policy_survey};
