/* hf_config_twin.c - writes config.json of derived models: with a scalar head, and of a text model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_hf_config_head_name(const tri_hf_text *config, char out[TRI_HEAD_NAME_BYTES]) {
  json_t       *root = NULL;
  const json_t *prefix;
  const char   *text;
  tri_status    st = TRI_OK;

  snprintf(out, TRI_HEAD_NAME_BYTES, "score.weight");
  TRI_TRY_DONE(tri_hf_object(config, &root));
  prefix = json_object_get(root, "value_head_prefix");
  text = json_string_value(prefix);
  if (!prefix || json_is_null(prefix)) goto done;
  if (!text || !text[0] || snprintf(out, TRI_HEAD_NAME_BYTES, "%s.weight", text) >= TRI_HEAD_NAME_BYTES)
    TRI_FAIL_DONE(TRI_EINPUT, "%s: `value_head_prefix` must be text, at most %zu bytes", config->name,
                  TRI_HEAD_NAME_BYTES - sizeof ".weight");
done:
  json_decref(root);
  return st;
}

/* Returns the pad token of config.json, else of generation_config.json, if it differs from the end token of
 * texts, or -1. */
static int64_t find_pad(const json_t *config, const tri_model_shape *shape, const tri_eos *eos, int32_t end) {
  const json_t *own = json_object_get(config, "pad_token_id");
  int64_t       pad[] = {json_is_integer(own) ? json_integer_value(own) : -1, eos->pad};

  for (int i = 0; i < 2; i++)
    if (pad[i] >= 0 && pad[i] < shape->V && end != pad[i]) return pad[i];
  return -1;
}

static void set_head(json_t *root, const tri_family *f, int64_t pad) {
  static const char *const gone[] = {"num_labels", "mean", "std", "normalize_reward", "value_head_prefix"};
  const char              *type = json_string_value(json_object_get(root, "problem_type"));

  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) json_object_del(root, gone[i]);
  if (type && strcmp(type, "regression") != 0)
    json_object_del(root, "problem_type"); /* a type for several labels */
  json_object_set_new(root, "architectures", json_pack("[s]", f->scored));
  json_object_set_new(root, "id2label", json_pack("{s:s}", "0", "LABEL_0"));
  json_object_set_new(root, "label2id", json_pack("{s:i}", "LABEL_0", 0));
  json_object_set_new(root, "pad_token_id", pad < 0 ? json_null() : json_integer(pad));
}

tri_status tri_hf_config_with_head(const tri_hf_text *config, const tri_hf_text *generation, int32_t end,
                                   tri_text *out) {
  tri_status      st = TRI_OK;
  json_t         *root = NULL;
  char           *bytes = NULL;
  tri_model_shape shape;
  tri_eos         eos;

  TRI_TRY_DONE(tri_hf_config_parse(config, generation, &shape, &eos));
  TRI_TRY_DONE(tri_hf_object(config, &root));
  TRI_TRY_DONE(tri_hf_take_half(config->name, &root));
  if (end < 0 && eos.n) end = eos.id[0];
  set_head(root, shape.family, find_pad(root, &shape, &eos, end));
  bytes = json_dumps(root, JSON_INDENT(2));
  if (!bytes) TRI_FAIL_DONE(TRI_ENOMEM, "%s: no host memory left to write it", config->name);
  TRI_TRY_DONE(tri_text_printf(out, "%s\n", bytes));
done:
  free(bytes);
  json_decref(root);
  return st;
}

tri_status tri_hf_config_half(const tri_hf_text *config, tri_text *out, bool *is_half) {
  tri_status st = TRI_OK;
  json_t    *root = NULL;
  char      *bytes = NULL;

  *is_half = false;
  TRI_TRY_DONE(tri_hf_object(config, &root));
  if (json_is_null(json_object_get(root, "text_config")) || !json_object_get(root, "text_config")) goto done;
  TRI_TRY_DONE(tri_hf_take_half(config->name, &root));
  bytes = json_dumps(root, JSON_INDENT(2));
  if (!bytes) TRI_FAIL_DONE(TRI_ENOMEM, "%s: no host memory left to write it", config->name);
  TRI_TRY_DONE(tri_text_printf(out, "%s\n", bytes));
  *is_half = true;
done:
  free(bytes);
  json_decref(root);
  return st;
}
