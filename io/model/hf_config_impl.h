/* hf_config_impl.h - what the files of hf_config share. Private to its room. */
#ifndef TRI_HF_CONFIG_IMPL_H
#define TRI_HF_CONFIG_IMPL_H

#include "hf_config.h"

#include "family/family.h"

#include <jansson.h>

/* The object of the text; *out by json_decref. Not collective. */
TRI_CHECKED tri_status tri_hf_object(const tri_hf_text *text, json_t **out);

/* Whether the list of architectures names the family's model with a scalar head; TRI_EINPUT where it names
 * none of the family's. Not collective. */
TRI_CHECKED tri_status tri_hf_check_architecture(const char *name, const json_t *config, const tri_family *f,
                                                 bool *scored);
/* What config.json says of a scalar head: TRI_EINPUT where it has not one label. Sets score_mean and
 * score_std. Not collective. */
TRI_CHECKED tri_status tri_hf_read_head(const char *name, const json_t *config, tri_model_shape *out);

/* Every field of a config.json is read, known to change nothing, or refused by name: TRI_EINPUT, `name` first
 * in the message. null is always as if the field were not there. Not collective. */
TRI_CHECKED tri_status tri_hf_check_fields(const char *name, const json_t *config);
/* The same for the object of rope_scaling or rope_parameters. */
TRI_CHECKED tri_status tri_hf_check_rope_fields(const char *name, const json_t *rope);

#endif
