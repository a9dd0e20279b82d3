/* hf_config.h - reads config.json and generation_config.json of the known model families (family.h).
 *
 * Reads both spellings of rotary embeddings: rope_theta with rope_scaling, and rope_parameters of
 * transformers 5. If both are present, a non-empty rope_scaling wins, like in transformers. A missing key has
 * the default of its family. Fields that ask for something the program cannot compute are refused by name,
 * and so is every unknown field of config.json. null counts as missing.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HF_CONFIG_H
#define TRI_HF_CONFIG_H

#include "base/text_buffer.h"
#include "base/tensor.h"
#include "family/model_shape.h"

struct json_t; /* jansson.h */

/* The tokens that end an answer, in the order of the file and each once. They are eos_token_id (a number or a
 * list) of generation_config.json, else of config.json. null means none. */
enum { TRI_MOST_EOS = 16 };
typedef struct tri_eos {
  int32_t id[TRI_MOST_EOS]; /* [n], all in the vocabulary */
  int     n;
  /* from the same files, or -1 if missing or not in the vocabulary; a scored model takes pad only from
   * config.json */
  int32_t bos, pad;
} tri_eos;
/* Pure. Returns the end token of a text. This is `own`, the tokenizer's (-1 for none), if it is among these
 * tokens, else the first, or -1 if there are none. */
int32_t tri_eos_of_text(const tri_eos *eos, int32_t own);

/* `path` is a model folder or the path of a config.json. generation_config.json is read from the same folder
 * if present. Returns TRI_EINPUT for any mistake in the files and for anything that cannot be computed. */
TRI_CHECKED tri_status tri_hf_config_read(const char *path, tri_model_shape *shape, tri_eos *eos);

/* A JSON text and its name for messages. */
typedef struct tri_hf_text {
  const char *name, *bytes;
  size_t      n_bytes;
} tri_hf_text;
/* Parses a text as a JSON object. Release *out with json_decref. Returns TRI_EINPUT if it is no object. */
TRI_CHECKED tri_status tri_hf_object(const tri_hf_text *text, struct json_t **out);

/* Does the same for texts in memory. generation is NULL if there is none. */
TRI_CHECKED tri_status tri_hf_config_parse(const tri_hf_text *config, const tri_hf_text *generation,
                                           tri_model_shape *shape, tri_eos *eos);

/* For a multimodal model (a config.json with a text_config, such as Gemma 3's from 4B on), appends the
 * config.json of its text model. tri_hf_config_parse reads the same from both. For a text model, *is_half is
 * false and nothing is appended. Returns TRI_EINPUT if the text model of this multimodal model is not
 * known. */
TRI_CHECKED tri_status tri_hf_config_half(const tri_hf_text *config, tri_text *out, bool *is_half);
/* Gives the type of the weights in config.json, as far as this program computes in it: float32 is TRI_F32,
 * float16 TRI_F16, any other TRI_BF16. Returns TRI_EINPUT if the text is no JSON object. */
TRI_CHECKED tri_status tri_hf_config_dtype(const tri_hf_text *config, tri_dtype *out);
/* Gives a config.json accepted by tri_hf_config_parse with three changes. The type of weights is set under
 * the file's own key (without one, under the key of its transformers version). The class of a language model
 * is added if the file names none. Entries for the model's own code are removed from auto_map. Release *out
 * with json_decref. */
TRI_CHECKED tri_status tri_hf_config_with_dtype(const tri_hf_text *config, tri_dtype dtype,
                                                struct json_t **out);

/* The same for the config.json of a multimodal model, which stays whole: its text_config gets the type too,
 * if it names one, and vision_config keeps its own. *changed is false if nothing had to change. */
TRI_CHECKED tri_status tri_hf_config_whole_with_dtype(const tri_hf_text *config, tri_dtype dtype,
                                                      struct json_t **out, bool *changed);

/* ---- Scalar heads: LlamaForSequenceClassification and similar classes with one label, as transformers and
 * TRL write them, and RewardModel and CriticModel of OpenRLHF, with the stored mean and deviation of their
 * scores. */

enum { TRI_HEAD_NAME_BYTES = 96 };
/* Gives the tensor name of a scalar head in the files of a config.json. It is score.weight, or PREFIX.weight
 * if the file has value_head_prefix. Returns TRI_EINPUT for an invalid name. */
TRI_CHECKED tri_status tri_hf_config_head_name(const tri_hf_text *config, char out[TRI_HEAD_NAME_BYTES]);
/* Appends the config.json of the same model with a scalar head score.weight for training. If
 * the model already has a head, the mean and deviation of its scores are left out. generation is NULL if
 * there is none. end is the end token of texts, or -1 for the model's first.
 *
 * pad_token_id becomes the pad token of config.json, else of generation_config.json, if it differs from end,
 * else null. transformers reads the score at the last token before the padding, so the end token must not be
 * the pad token. Without a pad token it refuses more than one text at a time. Returns TRI_EINPUT as
 * tri_hf_config_parse does. */
TRI_CHECKED tri_status tri_hf_config_with_head(const tri_hf_text *config, const tri_hf_text *generation,
                                               int32_t end, tri_text *out);

#endif
