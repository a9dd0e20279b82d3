/* hf_config_impl.h - declares the shared types and functions of the hf_config files. Private to its room. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HF_CONFIG_IMPL_H
#define TRI_HF_CONFIG_IMPL_H

#include "hf_config.h"

#include "family/family.h"

#include <jansson.h>

/* A parsed object and its name for messages. */
typedef struct tri_hf_source {
  const char   *name;
  const json_t *root;
} tri_hf_source;

/* They give the values under `key`. For a wrong type or range they return TRI_EINPUT with a message of file
 * and key. For a missing key or null the value is `missing`, false, or NULL. */
bool                   tri_hf_has(const tri_hf_source *s, const char *key);
const json_t          *tri_hf_get(const tri_hf_source *s, const char *key);
TRI_CHECKED tri_status tri_hf_get_int(const tri_hf_source *s, const char *key, int64_t missing, int64_t least,
                                      int64_t most, int64_t *out);
/* If missing is NAN, the key must be present. */
TRI_CHECKED tri_status tri_hf_get_number(const tri_hf_source *s, const char *key, double missing,
                                         double least, double most, double *out);
TRI_CHECKED tri_status tri_hf_get_bool(const tri_hf_source *s, const char *key, bool *out);
TRI_CHECKED tri_status tri_hf_get_text(const tri_hf_source *s, const char *key, const char **out);

/* Marks the layers without rotary positions. Call it after reading the sizes. */
TRI_CHECKED tri_status tri_hf_read_no_rope(const tri_hf_source *s, tri_model_shape *out);
/* Marks the local layers and reads their window, from sliding_window and related keys. Call it after reading
 * the sizes and after tri_hf_read_no_rope. */
TRI_CHECKED tri_status tri_hf_read_window(const tri_hf_source *s, tri_model_shape *out);
/* Marks the recurrent layers and reads their sizes. Without any, the sizes are 0. Call it after reading the
 * sizes. */
TRI_CHECKED tri_status tri_hf_read_recurrent(const tri_hf_source *s, tri_model_shape *out);
/* Reads the rotary embedding of each kind of layer. Call it after reading the sizes. */
TRI_CHECKED tri_status tri_hf_read_rope(const tri_hf_source *s, tri_model_shape *out);

/* Tells whether the list of architectures names the family's model with a scalar head. Returns TRI_EINPUT if
 * it names no model of the family. */
TRI_CHECKED tri_status tri_hf_check_architecture(const char *name, const json_t *config, const tri_family *f,
                                                 bool *scored);
/* Checks the scalar head in config.json, and sets score_mean and score_std. Returns TRI_EINPUT if it has not
 * exactly one label. */
TRI_CHECKED tri_status tri_hf_read_head(const char *name, const json_t *config, tri_model_shape *out);

/* Checks that every field of a config.json is either read, or known to change nothing. Otherwise returns
 * TRI_EINPUT with `name` first in the message. null counts as missing, except in sliding_window and soft
 * caps, where it means none. */
TRI_CHECKED tri_status tri_hf_check_fields(const char *name, const json_t *config, const tri_family *f);
/* Does the same for the object of a rotary embedding of this type. */
TRI_CHECKED tri_status tri_hf_check_rope_fields(const char *name, const json_t *rope, const tri_family *f,
                                                tri_rope_type type);
/* Does the same for one field of a multimodal model outside its text_config. */
TRI_CHECKED tri_status tri_hf_check_beside(const char *name, const char *key, const json_t *value);
/* Replaces *root of a multimodal model, which has a text_config, by the config.json of its text model. Leaves
 * others unchanged. Returns TRI_EINPUT if this version does not know its text model. */
TRI_CHECKED tri_status tri_hf_take_half(const char *name, json_t **root);
/* Gives the class of a multimodal model, as in `architectures`. Returns TRI_EINPUT if it is not known. */
TRI_CHECKED tri_status tri_hf_whole_architecture(const tri_hf_source *s, const char **out);
/* Removes the entries for the model's own code from auto_map, because these files are not exported. */
void tri_hf_drop_code(json_t *config);

#endif
