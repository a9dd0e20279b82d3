/* part.c - the models a checkpoint holds. */
#include "part.h"

static const struct {
  const char *config, *group;
} part_row[] = {
    [TRI_PART_MAIN] = {"config.json", "/model"},
    [TRI_PART_CRITIC] = {"critic_config.json", "/critic/model"},
    [TRI_PART_EMA] = {"config.json", "/ema/model"},
};

const char *tri_part_config(tri_model_part part) { return part_row[part].config; }
const char *tri_part_group(tri_model_part part) { return part_row[part].group; }

tri_status tri_part_check(const tri_ckpt_reader *r, tri_model_part part) {
  if (part == TRI_PART_EMA && !tri_ckpt_has_group(r, part_row[part].group))
    TRI_FAIL(TRI_EINPUT,
             "%s: the checkpoint has no average of weights (%s); runs with algo.ema_beta keep one",
             tri_ckpt_folder(r), part_row[part].group);
  if (part != TRI_PART_CRITIC || tri_ckpt_has_file(r, part_row[part].config)) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: the checkpoint has no critic (no %s); runs with algo.name: ppo train one",
           tri_ckpt_folder(r), part_row[part].config);
}
