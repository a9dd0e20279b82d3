/* hf_config_delta.c - reads the recurrent layers of a config.json, gated delta nets, and finds these layers.
 *
 * Judge: Qwen3_5TextConfig of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <string.h>

enum { MOST_HEADS = 1 << 16, MOST_HEAD = 256, MOST_CONV = 8 }; /* the last two are limits of kernels.h */

static const char recurs[] = "linear_attention", attends[] = "full_attention";

static tri_status get_size(const tri_hf_source *s, const char *key, int64_t least, int64_t most, int *out) {
  int64_t n;

  TRI_TRY(tri_hf_get_int(s, key, *out, least, most, &n));
  *out = (int)n;
  return TRI_OK;
}

static tri_status read_types(const tri_hf_source *s, const json_t *types, tri_model_shape *out) {
  if (!json_is_array(types)) TRI_FAIL(TRI_EINPUT, "%s: `layer_types` must be a list", s->name);
  if (json_array_size(types) != (size_t)out->L)
    TRI_FAIL(TRI_EINPUT, "%s: `layer_types` names %zu layers, but `num_hidden_layers` is %d", s->name,
             json_array_size(types), out->L);
  for (int layer = 0; layer < out->L; layer++) {
    const char *name = json_string_value(json_array_get(types, (size_t)layer));
    if (!name || (strcmp(name, recurs) && strcmp(name, attends)))
      TRI_FAIL(TRI_EINPUT,
               "%s: `layer_types` names `%s` for layer %d, but for a %s model only %s and %s are known",
               s->name, name ? name : "?", layer, out->family->model_type, recurs, attends);
    if (!strcmp(name, recurs)) tri_set_recurrent(out, layer);
  }
  return TRI_OK;
}

tri_status tri_hf_read_recurrent(const tri_hf_source *s, tri_model_shape *out) {
  tri_delta_shape *d = &out->delta;
  const json_t    *types = tri_hf_get(s, "layer_types");
  int64_t          every;

  if (!out->family->attention_interval) return TRI_OK;
  if (json_is_false(tri_hf_get(s, "attn_output_gate")))
    TRI_FAIL(
        TRI_EINPUT,
        "%s: `attn_output_gate` is false, but a %s model always has the gate, as in transformers. Remove the "
        "field",
        s->name, out->family->model_type);
  TRI_TRY(get_size(s, "linear_num_key_heads", 1, MOST_HEADS, &d->Hk));
  TRI_TRY(get_size(s, "linear_num_value_heads", 1, MOST_HEADS, &d->Hv));
  TRI_TRY(get_size(s, "linear_key_head_dim", 1, MOST_HEAD, &d->Dk));
  TRI_TRY(get_size(s, "linear_value_head_dim", 1, MOST_HEAD, &d->Dv));
  TRI_TRY(get_size(s, "linear_conv_kernel_dim", 2, MOST_CONV, &d->conv));
  if (d->Hv % d->Hk)
    TRI_FAIL(TRI_EINPUT, "%s: `linear_num_value_heads` = %d is not a multiple of `linear_num_key_heads` = %d",
             s->name, d->Hv, d->Hk);
  TRI_TRY(
      tri_hf_get_int(s, "full_attention_interval", out->family->attention_interval, 1, INT32_MAX, &every));
  if (types) {
    TRI_TRY(read_types(s, types, out));
  } else {
    for (int layer = 0; layer < out->L; layer++)
      if ((layer + 1) % every) tri_set_recurrent(out, layer);
  }
  if (!tri_recurrent_layers(out)) *d = (tri_delta_shape){0};
  return TRI_OK;
}
