/* hf_config_head.c - reads the scalar head of a config.json. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_LABELS = 2 }; /* default of PreTrainedConfig of transformers */

/* Classes of OpenRLHF (openrlhf/models/model.py). They give one number a token, regardless of the labels. */
static const char *const openrlhf[] = {"RewardModel", "CriticModel"};

static bool is_openrlhf(const char *architecture) {
  return !strcmp(architecture, openrlhf[0]) || !strcmp(architecture, openrlhf[1]);
}

/* Returns the first architecture of this family, or NULL. */
static const char *find_architecture(const json_t *list, const tri_family *f) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (name && (!strcmp(name, f->architecture) || !strcmp(name, f->scored) || is_openrlhf(name)))
      return name;
  }
  return NULL;
}

tri_status tri_hf_check_architecture(const char *name, const json_t *config, const tri_family *f,
                                     bool *scored) {
  const json_t *list = json_object_get(config, "architectures");
  const char   *found = find_architecture(list, f);

  *scored = found && strcmp(found, f->architecture) != 0;
  if (found || !list || json_is_null(list) || (json_is_array(list) && !json_array_size(list))) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: `architectures` does not name %s or %s, the only known ones of model type %s",
           name, f->architecture, f->scored, f->model_type);
}

/* Counts labels like PreTrainedConfig.__post_init__ of transformers 5: by id2label, else num_labels, else
 * two. */
static tri_status check_labels(const char *name, const json_t *config) {
  const json_t *map = json_object_get(config, "id2label"), *number = json_object_get(config, "num_labels");
  int64_t       n = json_is_integer(number) ? json_integer_value(number) : DEFAULT_LABELS;

  if (map && !json_is_null(map) && !json_is_object(map))
    TRI_FAIL(TRI_EINPUT, "%s: `id2label` must be an object", name);
  if (number && !json_is_null(number) && !json_is_integer(number))
    TRI_FAIL(TRI_EINPUT, "%s: `num_labels` must be a whole number", name);
  if (json_is_object(map)) n = (int64_t)json_object_size(map);
  if (n == 1) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: `num_labels` is %lld%s, but only a head of one label for scores is known", name,
           (long long)n,
           json_is_object(map)       ? " (from `id2label`)"
           : json_is_integer(number) ? ""
                                     : " (its default)");
}

/* Reads the mean to subtract from scores and the deviation to divide by (OpenRLHF,
 * openrlhf/trainer/rm_trainer.py, evaluate). */
static tri_status read_norm(const char *name, const json_t *config, tri_model_shape *out) {
  const json_t *mean = json_object_get(config, "mean"), *std = json_object_get(config, "std");

  if ((!mean || json_is_null(mean)) && (!std || json_is_null(std))) return TRI_OK;
  if (!json_is_number(mean) || !json_is_number(std))
    TRI_FAIL(TRI_EINPUT, "%s: both `mean` and `std` of its scores must be numbers", name);
  out->score_mean = json_number_value(mean);
  out->score_std = json_number_value(std);
  if (!isfinite(out->score_mean) || !isfinite(out->score_std) || out->score_std <= 0)
    TRI_FAIL(TRI_EINPUT, "%s: `std` = %g, but must be > 0", name, out->score_std);
  return TRI_OK;
}

tri_status tri_hf_read_head(const char *name, const json_t *config, tri_model_shape *out) {
  const char *found = find_architecture(json_object_get(config, "architectures"), out->family);

  out->score_mean = out->score_std = NAN;
  if (!out->scored) return TRI_OK;
  if (!is_openrlhf(found)) TRI_TRY(check_labels(name, config));
  return read_norm(name, config, out);
}
