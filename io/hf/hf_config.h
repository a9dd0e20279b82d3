/* hf_config.h - config.json and generation_config.json of the families of models (family.h).
 * Both spellings are read: rope_theta + rope_scaling, and transformers 5's rope_parameters (where both are
 * there, a rope_scaling that is not empty wins, as in transformers). A key that is missing has its family's
 * default. What the program cannot compute is refused by name, and so is every field of config.json that it
 * does not know (null is as if a field were not there). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HF_CONFIG_H
#define TRI_HF_CONFIG_H

#include "base/text_buffer.h"
#include "base/tensor.h"
#include "family/model_shape.h"

struct json_t; /* jansson.h */

/* The tokens that end an answer, in the order of the file and each once: generation_config.json's
 * eos_token_id (number or list), else config.json's; null: none. */
enum { TRI_MOST_EOS = 16 };
typedef struct tri_eos {
  int32_t id[TRI_MOST_EOS]; /* [n], all in the vocabulary */
  int     n;
  int32_t bos, pad; /* from the same files, pad of a scored model from config.json alone; -1: none, or not
                     * in the vocabulary */
} tri_eos;
/* The one that ends a text: `own`, the tokenizer's (-1: none), where it is among them, else the first; -1:
 * there are none. Pure. */
int32_t tri_eos_of_text(const tri_eos *eos, int32_t own);

/* Not collective. `path`: a model folder or the path of a config.json; generation_config.json is taken
 * from the same folder if it is there. TRI_EINPUT for everything that is wrong with the files or cannot be
 * computed. */
TRI_CHECKED tri_status tri_hf_config_read(const char *path, tri_model_shape *shape, tri_eos *eos);

/* One JSON text and the name it has in messages. */
typedef struct tri_hf_text {
  const char *name, *bytes;
  size_t      n_bytes;
} tri_hf_text;
/* The object that a text is; *out by json_decref. TRI_EINPUT where it is none. Not collective. */
TRI_CHECKED tri_status tri_hf_object(const tri_hf_text *text, struct json_t **out);

/* The same from memory. generation: NULL if there is none. Not collective. */
TRI_CHECKED tri_status tri_hf_config_parse(const tri_hf_text *config, const tri_hf_text *generation,
                                           tri_model_shape *shape, tri_eos *eos);

/* Of a model of text and more (a config.json with a text_config, such as Gemma 3's from 4B on) appends the
 * config.json of its text model alone, which tri_hf_config_parse reads of either; *is_half false: it is a
 * model of text, and nothing is appended. TRI_EINPUT where the text half of this model is not known. Not
 * collective. */
TRI_CHECKED tri_status tri_hf_config_half(const tri_hf_text *config, tri_text *out, bool *is_half);
/* The type that config.json says its weights have, as far as this program computes in it: float32 TRI_F32,
 * float16 TRI_F16, everything else TRI_BF16. TRI_EINPUT where the text is no JSON object. Not collective. */
TRI_CHECKED tri_status tri_hf_config_dtype(const tri_hf_text *config, tri_dtype *out);
/* The object of a config.json that tri_hf_config_parse took. In it: this type of weights, under the names the
 * file has for it (without one: under the one its transformers writes); the class of a language model where
 * it names none; an auto_map that names no code of the model's. *out by json_decref. Not collective. */
TRI_CHECKED tri_status tri_hf_config_with_dtype(const tri_hf_text *config, tri_dtype dtype,
                                                struct json_t **out);

/* ---- scalar heads: LlamaForSequenceClassification and its like with one label, as transformers and TRL
 * write them; RewardModel and CriticModel of OpenRLHF, with the mean and deviation it keeps */

enum { TRI_HEAD_NAME_BYTES = 96 };
/* Not collective. The tensor of a scalar head in the files that go with a config.json: score.weight, or
 * PREFIX.weight where value_head_prefix says so. TRI_EINPUT: it is no name. */
TRI_CHECKED tri_status tri_hf_config_head_name(const tri_hf_text *config, char out[TRI_HEAD_NAME_BYTES]);
/* Not collective. Appends the config.json of the same model with a scalar head, score.weight, that is
 * trained from here on; it may have one already, whose scores' mean and deviation are left out. generation:
 * NULL if there is none. end: the end token given to texts; -1: the model's first. pad_token_id is the first
 * of the two files' that is not that one, or null: transformers reads a score at the last token that is not
 * this one, so that the end token would move it; without one it refuses more than one text at a time.
 * TRI_EINPUT: as tri_hf_config_parse. */
TRI_CHECKED tri_status tri_hf_config_with_head(const tri_hf_text *config, const tri_hf_text *generation,
                                               int32_t end, tri_text *out);

#endif
