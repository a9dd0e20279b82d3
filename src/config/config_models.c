/* config_models.c - tells which models a deck needs beside the policy. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

/* algo.kl_coef is 0 for an algorithm without that key. */
bool tri_config_wants_reference(const tri_config *c) {
  return c->algo.opt.kl_coef > 0 || (c->algo.row.loss->reads & TRI_LOSS_REFERENCE);
}

bool tri_config_has_lora(const tri_config *c) { return c->lora.rank > 0 || c->lora.path; }

bool tri_config_reference_is_base(const tri_config *c) {
  return tri_config_has_lora(c) && tri_config_wants_reference(c) && !c->model.ref_path;
}

const char *tri_config_reward_model(const tri_config *c) {
  if (!(c->algo.row.needs & TRI_NEEDS_ANSWERS) && c->eval.steps == 0) return NULL; /* nothing is rewarded */
  for (int i = 0; i < c->reward.n; i++)
    if (!strcmp(c->reward.item[i].name, "model")) return tri_reward_get(&c->reward.item[i], "path");
  return NULL;
}

bool tri_config_wants_critic(const tri_config *c) {
  return c->algo.row.advantage && (c->algo.row.advantage->reads & TRI_READS_CRITIC);
}
