/* part.c - names the models in a checkpoint. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "part.h"

static const struct {
  const char *config, *group, *adapters, *adapter_config, *base;
} part_row[] = {
    [TRI_PART_MAIN] = {"config.json", "/model", "/adapter/model", "adapter_config.json", "base.txt"},
    [TRI_PART_CRITIC] = {"critic_config.json", "/critic/model", "/critic/adapter/model",
                         "critic_adapter_config.json", "critic_base.txt"},
    [TRI_PART_EMA] = {"config.json", "/ema/model", "/adapter/ema/model", "adapter_config.json", "base.txt"},
};

const char *tri_part_config(tri_model_part part) { return part_row[part].config; }
const char *tri_part_group(tri_model_part part) { return part_row[part].group; }
const char *tri_part_adapters(tri_model_part part) { return part_row[part].adapters; }
const char *tri_part_adapter_config(tri_model_part part) { return part_row[part].adapter_config; }
const char *tri_part_base(tri_model_part part) { return part_row[part].base; }

tri_status tri_part_check(const tri_ckpt_reader *r, tri_model_part part) {
  if (part == TRI_PART_EMA && !tri_ckpt_has_group(r, part_row[part].group) &&
      !tri_ckpt_has_group(r, part_row[part].adapters))
    TRI_FAIL(TRI_EINPUT,
             "%s: the checkpoint has no average of weights (%s). Only runs with algo.ema_beta keep one.",
             tri_ckpt_folder(r), part_row[part].group);
  if (part != TRI_PART_CRITIC || tri_ckpt_has_file(r, part_row[part].config)) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: the checkpoint has no critic (no %s). Only runs with algo.name: ppo train one.",
           tri_ckpt_folder(r), part_row[part].config);
}
