/* hf_config_impl.h - what the files of hf_config share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HF_CONFIG_IMPL_H
#define TRI_HF_CONFIG_IMPL_H

#include "hf_config.h"

#include "family/family.h"

#include <jansson.h>

/* A parsed object and its name in messages. */
typedef struct tri_hf_source {
  const char   *name;
  const json_t *root;
} tri_hf_source;

/* Values under `key`: TRI_EINPUT where it has another type or leaves its range, a message that names both.
 * Where the key is not there or null the value is `missing`, false, or NULL. Not collective, all of them. */
bool                   tri_hf_has(const tri_hf_source *s, const char *key);
const json_t          *tri_hf_get(const tri_hf_source *s, const char *key);
TRI_CHECKED tri_status tri_hf_get_int(const tri_hf_source *s, const char *key, int64_t missing, int64_t least,
                                      int64_t most, int64_t *out);
/* missing NAN: the key must be there. */
TRI_CHECKED tri_status tri_hf_get_number(const tri_hf_source *s, const char *key, double missing,
                                         double least, double most, double *out);
TRI_CHECKED tri_status tri_hf_get_bool(const tri_hf_source *s, const char *key, bool *out);
TRI_CHECKED tri_status tri_hf_get_text(const tri_hf_source *s, const char *key, const char **out);

/* Which layers have no rotary positions. After the sizes. Not collective. */
TRI_CHECKED tri_status tri_hf_read_no_rope(const tri_hf_source *s, tri_model_shape *out);
/* Which layers are local, and their window: sliding_window and the keys beside it. After the sizes and
 * tri_hf_read_no_rope. Not collective. */
TRI_CHECKED tri_status tri_hf_read_window(const tri_hf_source *s, tri_model_shape *out);
/* The rotary embedding of each kind of layers. After the sizes. Not collective. */
TRI_CHECKED tri_status tri_hf_read_rope(const tri_hf_source *s, tri_model_shape *out);

/* Whether the list of architectures names the family's model with a scalar head; TRI_EINPUT where it names
 * none of the family's. Not collective. */
TRI_CHECKED tri_status tri_hf_check_architecture(const char *name, const json_t *config, const tri_family *f,
                                                 bool *scored);
/* What config.json says of a scalar head: TRI_EINPUT where it has not one label. Sets score_mean and
 * score_std. Not collective. */
TRI_CHECKED tri_status tri_hf_read_head(const char *name, const json_t *config, tri_model_shape *out);

/* Every field of a config.json is read, known to change nothing, or refused by name: TRI_EINPUT, `name`
 * first in the message. null is as if the field were not there, but of sliding_window and soft caps, where
 * it means none. Not collective. */
TRI_CHECKED tri_status tri_hf_check_fields(const char *name, const json_t *config, const tri_family *f);
/* The same for an object that tells a rotary embedding of this type. */
TRI_CHECKED tri_status tri_hf_check_rope_fields(const char *name, const json_t *rope, tri_rope_type type);
/* The same for one field of a model of text and more, outside of what it says of its text model. */
TRI_CHECKED tri_status tri_hf_check_beside(const char *name, const char *key, const json_t *value);
/* Of a model of text and more, which has a text_config, *root becomes what its text model's config.json would
 * be; others stay. TRI_EINPUT where this version does not know its text half. Not collective. */
TRI_CHECKED tri_status tri_hf_take_half(const char *name, json_t **root);
/* Takes out of auto_map what names code of the model's: its files do not go along. Not collective. */
void tri_hf_drop_code(json_t *config);

#endif
