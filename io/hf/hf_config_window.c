/* hf_config_window.c - finds the layers of a config.json with a window of keys, and its length. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <string.h>

static const char *const word_of[TRI_KINDS] = {"full_attention", "sliding_attention"};

/* Refuses a window for a family without one. Other programs apply a window given in the file, unless it is
 * longer than the context or switched off. */
static tri_status refuse_window(const tri_hf_source *s, int64_t max_pos) {
  const json_t *size = json_object_get(s->root, "sliding_window");
  bool          on;

  TRI_TRY(tri_hf_get_bool(s, "use_sliding_window", &on));
  if (on)
    TRI_FAIL(TRI_EINPUT, "%s: `use_sliding_window` is true, but for this family only full attention is known",
             s->name);
  if (tri_hf_has(s, "use_sliding_window") || !tri_hf_has(s, "sliding_window")) return TRI_OK;
  if (!json_is_number(size) || json_number_value(size) < (double)max_pos)
    TRI_FAIL(TRI_EINPUT,
             "%s: `sliding_window` is below `max_position_embeddings`, but for this family only full "
             "attention is known. Set it to null, or set `use_sliding_window` to false.",
             s->name);
  return TRI_OK;
}

/* Reads sliding_window. null is read as 0, no window. */
static tri_status read_size(const tri_hf_source *s, tri_model_shape *out) {
  if (json_is_null(json_object_get(s->root, "sliding_window"))) {
    out->attn.window = 0;
    return TRI_OK;
  }
  if (!tri_hf_has(s, "sliding_window")) return TRI_OK;
  return tri_hf_get_int(s, "sliding_window", out->attn.window, 1, INT32_MAX, &out->attn.window);
}

/* Reads use_sliding_window for a family with this key. In other families it must match the window's
 * presence. */
static tri_status read_switch(const tri_hf_source *s, tri_model_shape *out) {
  bool on;

  TRI_TRY(tri_hf_get_bool(s, "use_sliding_window", &on));
  if (out->family->window == TRI_WINDOW_SWITCHED || out->family->window == TRI_WINDOW_NO_ROPE) {
    if (!on) out->attn.window = 0;
    return TRI_OK;
  }
  if (on || !tri_hf_has(s, "use_sliding_window") || !out->attn.window) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: `use_sliding_window` is false, but a %s model always has its window. Remove the field, "
           "or for full attention %s",
           s->name, out->family->model_type,
           out->family->window == TRI_WINDOW_PATTERN ? "name every layer full_attention in `layer_types`"
                                                     : "set `sliding_window` to null");
}

/* Returns the kind of a layer without layer_types. */
static tri_layer_kind kind_by_rule(const tri_model_shape *m, int layer, int64_t number) {
  switch (m->family->window) {
  case TRI_WINDOW_NONE:
    return TRI_GLOBAL;
  case TRI_WINDOW_ALL:
    return m->attn.window ? TRI_LOCAL : TRI_GLOBAL;
  case TRI_WINDOW_SWITCHED:
    return m->attn.window && layer >= number ? TRI_LOCAL : TRI_GLOBAL;
  case TRI_WINDOW_NO_ROPE:
    return m->attn.window && !tri_has_rope(m, layer) ? TRI_LOCAL : TRI_GLOBAL;
  case TRI_WINDOW_PATTERN:
    break;
  }
  return (layer + 1) % number ? TRI_LOCAL : TRI_GLOBAL;
}

/* Reads the number for kind_by_rule. */
static tri_status read_number(const tri_hf_source *s, const tri_family *f, int64_t *out) {
  *out = f->pattern;
  if (f->window == TRI_WINDOW_SWITCHED)
    return tri_hf_get_int(s, "max_window_layers", f->window_layers, 0, INT32_MAX, out);
  for (const tri_config_key *k = f->key; k->key; k++)
    if (k->kind == TRI_KEY_PATTERN) return tri_hf_get_int(s, k->key, f->pattern, 1, INT32_MAX, out);
  return TRI_OK;
}

/* Reads the kind of a layer from layer_types. `by` is its kind without them. */
static tri_status kind_by_name(const tri_hf_source *s, const tri_model_shape *m, int layer, tri_layer_kind by,
                               tri_layer_kind *out) {
  const json_t *types = json_object_get(s->root, "layer_types");
  const char   *name = json_string_value(json_array_get(types, (size_t)layer));
  bool          fixed = m->family->window == TRI_WINDOW_NONE || m->family->window == TRI_WINDOW_ALL;

  *out = name && !strcmp(name, word_of[TRI_LOCAL]) ? TRI_LOCAL : TRI_GLOBAL;
  if (!name || strcmp(name, word_of[*out]))
    TRI_FAIL(TRI_EINPUT, "%s: `layer_types` names `%s`, but only %s and %s are known", s->name,
             name ? name : "?", word_of[TRI_GLOBAL], word_of[TRI_LOCAL]);
  if (fixed && *out != by)
    TRI_FAIL(TRI_EINPUT,
             "%s: `layer_types` names `%s` for layer %d, but for a %s model like this only %s is known",
             s->name, name, layer, m->family->model_type, word_of[by]);
  return TRI_OK;
}

static tri_status check_types(const tri_hf_source *s, int L) {
  const json_t *types = json_object_get(s->root, "layer_types");

  if (!json_is_array(types)) TRI_FAIL(TRI_EINPUT, "%s: `layer_types` must be a list", s->name);
  if (json_array_size(types) != (size_t)L)
    TRI_FAIL(TRI_EINPUT, "%s: `layer_types` names %zu layers, but `num_hidden_layers` is %d", s->name,
             json_array_size(types), L);
  return TRI_OK;
}

tri_status tri_hf_read_window(const tri_hf_source *s, tri_model_shape *out) {
  bool named =
      tri_hf_has(s, "layer_types") && !out->family->attention_interval; /* else of recurrent layers */
  int     first = -1;                                                   /* first local layer */
  int64_t number;

  if (out->family->window == TRI_WINDOW_NONE) {
    TRI_TRY(refuse_window(s, out->max_pos));
  } else {
    TRI_TRY(read_size(s, out));
    TRI_TRY(read_switch(s, out));
  }
  TRI_TRY(read_number(s, out->family, &number));
  if (named) TRI_TRY(check_types(s, out->L));
  for (int layer = 0; layer < out->L; layer++) {
    tri_layer_kind kind = kind_by_rule(out, layer, number);
    if (named) TRI_TRY(kind_by_name(s, out, layer, kind, &kind));
    if (kind == TRI_GLOBAL) continue;
    tri_set_local(out, layer);
    if (first < 0) first = layer;
  }
  if (first >= 0 && !out->attn.window)
    TRI_FAIL(TRI_EINPUT, "%s: layer %d is of %s, but there is no window: %s", s->name, first,
             word_of[TRI_LOCAL],
             json_is_null(json_object_get(s->root, "sliding_window")) ? "`sliding_window` is null"
                                                                      : "`use_sliding_window` is not true");
  if (first < 0) out->attn.window = 0;
  return TRI_OK;
}
