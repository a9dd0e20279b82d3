/* hf_config_get.c - reads the values under the keys of a parsed object. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <math.h>

bool tri_hf_has(const tri_hf_source *s, const char *key) {
  const json_t *v = json_object_get(s->root, key);
  return v && !json_is_null(v);
}

const json_t *tri_hf_get(const tri_hf_source *s, const char *key) {
  return tri_hf_has(s, key) ? json_object_get(s->root, key) : NULL;
}

tri_status tri_hf_get_int(const tri_hf_source *s, const char *key, int64_t missing, int64_t least,
                          int64_t most, int64_t *out) {
  const json_t *v = tri_hf_get(s, key);

  *out = v ? json_integer_value(v) : missing;
  if (v && !json_is_integer(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a whole number", s->name, key);
  if (*out < least || *out > most)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = %lld%s, but must be in %lld .. %lld", s->name, key, (long long)*out,
             v ? "" : " (its default)", (long long)least, (long long)most);
  return TRI_OK;
}

tri_status tri_hf_get_number(const tri_hf_source *s, const char *key, double missing, double least,
                             double most, double *out) {
  const json_t *v = tri_hf_get(s, key);

  if (!v && isnan(missing)) TRI_FAIL(TRI_EINPUT, "%s: has no `%s`", s->name, key);
  *out = v ? json_number_value(v) : missing;
  if (v && !json_is_number(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a number", s->name, key);
  if (!(*out >= least && *out <= most))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = %g, but must be in %g .. %g", s->name, key, *out, least, most);
  return TRI_OK;
}

tri_status tri_hf_get_bool(const tri_hf_source *s, const char *key, bool *out) {
  const json_t *v = tri_hf_get(s, key);

  *out = json_is_true(v);
  if (v && !json_is_boolean(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be true or false", s->name, key);
  return TRI_OK;
}

tri_status tri_hf_get_text(const tri_hf_source *s, const char *key, const char **out) {
  const json_t *v = tri_hf_get(s, key);

  *out = json_string_value(v);
  if (v && !*out) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be text", s->name, key);
  return TRI_OK;
}
