/* hf_config_rope.c - reads the rotary embeddings of a config.json.
 *
 * Judges: RotaryEmbeddingConfigMixin, Gemma3TextConfig and Phi3Config of transformers 5, and
 * _validate_*_rope_parameters of modeling_rope_utils.py. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 4096 + 64 };
static const double least = 1e-9, most = 1e30; /* chosen: their powers stay finite */

static const char *const kind_key[TRI_KINDS] = {"full_attention", "sliding_attention"};

/* Reads partial_rotary_factor, or `missing` without it. In families with this key it is the rotated share of
 * a head's columns. Their number must be even. */
static tri_status read_partial(const tri_hf_source *s, const tri_model_shape *m, double missing,
                               double *out) {
  static const char key[] = "partial_rotary_factor";
  int               turned;

  TRI_TRY(tri_hf_get_number(s, key, missing, 0, most, out));
  turned = (int)((double)m->D * (*out < 1 ? *out : 1));
  if (!m->family->rope_partial && *out != 1) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be 1", s->name, key);
  if (*out > 1 || turned < 2 || turned % 2)
    TRI_FAIL(TRI_EINPUT,
             "%s: `%s` = %g, but must be at most 1 and rotate an even number of the %d columns of a head, "
             "not 0",
             s->name, key, *out, m->D);
  return TRI_OK;
}

/* Gives the object under `key`, or NULL if it is missing, null or empty. */
static tri_status get_object(const tri_hf_source *s, const char *key, const json_t **out) {
  const json_t *v = json_object_get(s->root, key);

  *out = NULL;
  if (!tri_hf_has(s, key)) return TRI_OK;
  if (!json_is_object(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be an object", s->name, key);
  if (json_object_size(v)) *out = v;
  return TRI_OK;
}

static tri_status refuse_nested(const tri_hf_source *s, const char *key, const json_t *object) {
  const char *name;
  json_t     *inner;

  json_object_foreach((json_t *)object, name, inner) {
    if (json_is_object(inner))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` has its own settings for `%s`, but only one for all layers is known",
               s->name, key, name);
  }
  return TRI_OK;
}

static tri_status find_type(const tri_hf_source *r, const tri_family *f, tri_rope_type *out) {
  static const struct {
    const char   *name;
    tri_rope_type type;
    bool          with_long; /* for families with longrope, else for the others */
  } known[] = {{"linear", TRI_ROPE_LINEAR, false},
               {"llama3", TRI_ROPE_LLAMA3, false},
               {"yarn", TRI_ROPE_YARN, false},
               {"longrope", TRI_ROPE_LONG, true},
               {"su", TRI_ROPE_LONG, true}}; /* the first name of longrope */
  const char *type, *old_type;

  TRI_TRY(tri_hf_get_text(r, "rope_type", &type));
  TRI_TRY(tri_hf_get_text(r, "type", &old_type));
  if (!type) type = old_type;
  *out = TRI_ROPE_DEFAULT;
  if (!type || !strcmp(type, "default")) return TRI_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(type, known[i].name) && known[i].with_long == f->rope_long) {
      *out = known[i].type;
      return TRI_OK;
    }
  TRI_FAIL(TRI_EINPUT, "%s: rope type is `%s`, but for a %s model this version knows only %s", r->name, type,
           f->model_type, f->rope_long ? "default and longrope" : "default, linear, llama3 and yarn");
}

static tri_status read_llama3(const tri_hf_source *r, int64_t max_pos, tri_rope_shape *out) {
  TRI_TRY(tri_hf_get_number(r, "low_freq_factor", NAN, least, most, &out->low_freq));
  TRI_TRY(tri_hf_get_number(r, "high_freq_factor", NAN, least, most, &out->high_freq));
  if (out->low_freq >= out->high_freq)
    TRI_FAIL(TRI_EINPUT, "%s: `low_freq_factor` = %g must be below `high_freq_factor` = %g", r->name,
             out->low_freq, out->high_freq);
  return tri_hf_get_int(r, "original_max_position_embeddings", max_pos, 1, INT32_MAX, &out->original_max_pos);
}

/* Reads a number above 0, or `missing` if the key is missing, null or 0. */
static tri_status get_unless_zero(const tri_hf_source *r, const char *key, double missing, double *out) {
  const json_t *v = tri_hf_get(r, key);
  bool          zero = v && json_is_number(v) && json_number_value(v) == 0;

  *out = missing;
  return zero || !v ? TRI_OK : tri_hf_get_number(r, key, NAN, least, most, out);
}

static double mscale_of(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* Reads the settings of _compute_yarn_parameters of transformers. */
static tri_status read_yarn(const tri_hf_source *r, int64_t max_pos, tri_rope_shape *out) {
  const json_t *truncate = json_object_get(r->root, "truncate");
  double        mscale, all;

  if (out->theta <= 1) /* it divides by the logarithm of theta */
    TRI_FAIL(TRI_EINPUT, "%s: `rope_theta` = %g, but with yarn it must be > 1", r->name, out->theta);
  TRI_TRY(get_unless_zero(r, "beta_slow", 1, &out->low_freq));
  TRI_TRY(get_unless_zero(r, "beta_fast", 32, &out->high_freq));
  TRI_TRY(get_unless_zero(r, "mscale", 0, &mscale));
  TRI_TRY(get_unless_zero(r, "mscale_all_dim", 0, &all));
  out->attention_factor = mscale != 0 && all != 0
                              ? mscale_of(out->factor, mscale) / mscale_of(out->factor, all)
                              : mscale_of(out->factor, 1);
  TRI_TRY(
      tri_hf_get_number(r, "attention_factor", out->attention_factor, least, most, &out->attention_factor));
  TRI_TRY(tri_hf_get_bool(r, "truncate", &out->truncate));
  if (!truncate) out->truncate = true; /* null is false */
  return tri_hf_get_int(r, "original_max_position_embeddings", max_pos, 1, INT32_MAX, &out->original_max_pos);
}

/* Reads a list of longrope, with a number above 0 for each pair of rotated columns. */
static tri_status read_factors(const tri_hf_source *r, const char *key, int n, float out[TRI_MOST_PAIRS]) {
  const json_t *list = tri_hf_get(r, key);

  TRI_ASSERT(n <= TRI_MOST_PAIRS);
  if (!list) TRI_FAIL(TRI_EINPUT, "%s: has no `%s`", r->name, key);
  if (!json_is_array(list) || json_array_size(list) != (size_t)n)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a list of %d numbers, one for each pair of columns of a head",
             r->name, key, n);
  for (int i = 0; i < n; i++) {
    const json_t *v = json_array_get(list, (size_t)i);
    double        x = json_is_number(v) ? json_number_value(v) : 0;
    if (!(x >= least && x <= most))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` must hold numbers above 0, but item %d is none", r->name, key, i);
    out[i] = (float)x;
  }
  return TRI_OK;
}

/* Reads the settings of _compute_longrope_parameters of transformers. The length before scaling stands
 * outside the object, and Phi3Config has a default for it. transformers ignores a different length inside the
 * object. */
static tri_status read_longrope(const tri_hf_source *s, const tri_hf_source *r, const tri_model_shape *m,
                                tri_rope_shape *out) {
  static const char key[] = "original_max_position_embeddings";
  int               n = (out->turned ? out->turned : m->D) / 2;
  int64_t           inside;

  TRI_TRY(tri_hf_get_int(s, key, m->family->silent.rope[TRI_GLOBAL].original_max_pos, 2, INT32_MAX,
                         &out->original_max_pos));
  TRI_TRY(tri_hf_get_int(r, key, out->original_max_pos, 2, INT32_MAX, &inside));
  if (inside != out->original_max_pos)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = %lld, but outside of this object it is %lld%s. Make both the same.",
             r->name, key, (long long)inside, (long long)out->original_max_pos,
             tri_hf_has(s, key) ? "" : " (its default)");
  TRI_TRY(read_factors(r, "short_factor", n, out->by_pair[0]));
  TRI_TRY(read_factors(r, "long_factor", n, out->by_pair[1]));
  TRI_TRY(tri_hf_get_number(r, "factor", (double)m->max_pos / (double)out->original_max_pos, least, most,
                            &out->factor));
  if (out->factor > 1)
    out->attention_factor = sqrt(1 + log(out->factor) / log((double)out->original_max_pos));
  return tri_hf_get_number(r, "attention_factor", out->attention_factor, least, most, &out->attention_factor);
}

/* Reads one embedding from its object, which is NULL if it has no settings. theta and partial are the
 * defaults. */
static tri_status read_one(const tri_hf_source *s, const char *place, const json_t *object, double theta,
                           double partial, const tri_model_shape *m, tri_rope_shape *out) {
  char          name[NAME_BYTES];
  tri_hf_source r = {name, object};

  snprintf(name, sizeof name, "%s: `%s`", s->name, place);
  *out = (tri_rope_shape){.factor = 1, .attention_factor = 1};
  TRI_TRY(read_partial(&r, m, partial, &partial));
  if (partial < 1) out->turned = (int)((double)m->D * partial);
  TRI_TRY(tri_hf_get_number(&r, "rope_theta", theta, least, most, &out->theta));
  TRI_TRY(find_type(&r, m->family, &out->type));
  TRI_TRY(tri_hf_check_rope_fields(name, r.root, m->family, out->type));
  if (out->type == TRI_ROPE_DEFAULT) return TRI_OK;
  if (out->type == TRI_ROPE_LONG) return read_longrope(s, &r, m, out);
  TRI_TRY(tri_hf_get_number(&r, "factor", NAN, least, most, &out->factor));
  if (out->type == TRI_ROPE_LINEAR) return TRI_OK;
  if (out->type == TRI_ROPE_LLAMA3) return read_llama3(&r, m->max_pos, out);
  return read_yarn(&r, m->max_pos, out);
}

/* Reads an object with one object for each kind of layer. Also reads the old spelling, with rope_scaling for
 * global layers and a base for each kind. */
static tri_status read_by_kind(const tri_hf_source *s, const double theta[TRI_KINDS], const json_t *scaling,
                               const json_t *parameters, tri_model_shape *out) {
  const char *name;
  json_t     *inner;

  json_object_foreach((json_t *)parameters, name, inner) {
    if ((strcmp(name, kind_key[TRI_GLOBAL]) && strcmp(name, kind_key[TRI_LOCAL])) ||
        (!json_is_object(inner) && !json_is_null(inner)))
      TRI_FAIL(TRI_EINPUT,
               "%s: `rope_parameters` has `%s`, but for a %s model it must hold two objects, %s and %s",
               s->name, name, out->family->model_type, kind_key[TRI_GLOBAL], kind_key[TRI_LOCAL]);
  }
  if (out->family->rope_one_theta && theta[TRI_GLOBAL] != theta[TRI_LOCAL] &&
      !json_object_get(json_object_get(parameters, kind_key[TRI_LOCAL]), "rope_theta"))
    TRI_FAIL(TRI_EINPUT,
             "%s: `rope_theta` = %g is ambiguous. transformers 4 gives it to all layers, transformers 5 "
             "to those of %s. Set `rope_parameters` for %s and %s.",
             s->name, theta[TRI_GLOBAL], kind_key[TRI_GLOBAL], kind_key[TRI_GLOBAL], kind_key[TRI_LOCAL]);
  if (scaling && parameters)
    TRI_FAIL(TRI_EINPUT, "%s: has both `rope_scaling` and `rope_parameters`. Remove one.", s->name);
  for (int k = 0; k < TRI_KINDS; k++) {
    const json_t *own = json_object_get(parameters, kind_key[k]);
    bool          old = k == TRI_GLOBAL && scaling;
    if (old) TRI_TRY(refuse_nested(s, "rope_scaling", scaling));
    TRI_TRY(read_one(s, old ? "rope_scaling" : kind_key[k], old ? scaling : own, theta[k], 1, out,
                     &out->rope[k]));
    if (out->rope[k].type == TRI_ROPE_YARN && !out->rope[k].truncate)
      TRI_FAIL(TRI_EINPUT, "%s: `truncate` of `%s` must be true", s->name, kind_key[k]);
  }
  return TRI_OK;
}

/* Tells whether an element of no_rope_layers, 1 or 0, gives its layer rotary positions. */
static tri_status read_has_rope(const tri_hf_source *s, const json_t *list, int layer, bool *out) {
  const json_t *v = json_array_get(list, (size_t)layer);

  *out = json_is_true(v) || json_integer_value(v) == 1;
  if (*out || json_is_false(v) || (json_is_integer(v) && json_integer_value(v) == 0)) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: `no_rope_layers` must hold 1 (rotary positions) or 0 (none) for each layer, but layer "
           "%d has neither",
           s->name, layer);
}

tri_status tri_hf_read_no_rope(const tri_hf_source *s, tri_model_shape *out) {
  static const char key[] = "no_rope_layers";
  const json_t     *list = tri_hf_get(s, key);
  int64_t           every;

  if (!out->family->no_rope_interval) return TRI_OK;
  TRI_TRY(tri_hf_get_int(s, "no_rope_layer_interval", out->family->no_rope_interval, 1, INT32_MAX, &every));
  if (list && !json_is_array(list)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a list", s->name, key);
  if (list && json_array_size(list) < (size_t)out->L)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` names %zu layers, but `num_hidden_layers` is %d", s->name, key,
             json_array_size(list), out->L);
  for (int layer = 0; layer < out->L; layer++) {
    bool has = (layer + 1) % every != 0;
    if (list) TRI_TRY(read_has_rope(s, list, layer, &has));
    if (!has) tri_set_no_rope(out, layer);
  }
  return TRI_OK;
}

tri_status tri_hf_read_rope(const tri_hf_source *s, tri_model_shape *out) {
  const json_t *scaling, *parameters;
  double        theta[TRI_KINDS] = {out->rope[TRI_GLOBAL].theta, out->rope[TRI_LOCAL].theta}, partial;

  TRI_TRY(get_object(s, "rope_scaling", &scaling));
  TRI_TRY(get_object(s, "rope_parameters", &parameters));
  if (out->family->rope_part > 0) /* the object may replace it, and is checked below */
    TRI_TRY(tri_hf_get_number(s, "partial_rotary_factor", out->family->rope_part, 0, most, &partial));
  else
    TRI_TRY(read_partial(s, out, 1, &partial));
  TRI_TRY(tri_hf_get_number(s, "rope_theta", theta[TRI_GLOBAL], least, most, &theta[TRI_GLOBAL]));
  for (const tri_config_key *k = out->family->key; k->key; k++)
    if (k->kind == TRI_KEY_THETA)
      TRI_TRY(tri_hf_get_number(s, k->key, theta[TRI_LOCAL], least, most, &theta[TRI_LOCAL]));
  if (out->family->rope_by_kind) return read_by_kind(s, theta, scaling, parameters, out);
  if (scaling) TRI_TRY(refuse_nested(s, "rope_scaling", scaling));
  if (parameters) TRI_TRY(refuse_nested(s, "rope_parameters", parameters));
  TRI_TRY(read_one(s, scaling ? "rope_scaling" : "rope_parameters", scaling ? scaling : parameters,
                   theta[TRI_GLOBAL], partial, out, &out->rope[TRI_GLOBAL]));
  out->rope[TRI_LOCAL] = out->rope[TRI_GLOBAL];
  return TRI_OK;
}
