/* hf_config_impl.h - what the files of hf_config share. Private to its room. */
#ifndef TRI_HF_CONFIG_IMPL_H
#define TRI_HF_CONFIG_IMPL_H

#include "base/base.h"

#include <jansson.h>

/* Every field of a config.json is read, known to change nothing, or refused by name: TRI_EINPUT, `name` first
 * in the message. null is always as if the field were not there. Not collective. */
TRI_CHECKED tri_status tri_hf_check_fields(const char *name, const json_t *config);
/* The same for the object of rope_scaling or rope_parameters. */
TRI_CHECKED tri_status tri_hf_check_rope_fields(const char *name, const json_t *rope);

#endif
