/* source.h - opens the source of a model: a Hugging Face folder, a checkpoint, or random numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SOURCE_H
#define TRI_SOURCE_H

#include "sidecar.h"
#include "io/hf/hf_config.h"
#include "io/checkpoint/checkpoint.h"
#include "family/lora.h"
#include "io/tokenizer/tokenizer.h"
#include "part.h"
#include "state/params.h"

enum {
  TRI_SOURCE_CONFIG,
  TRI_SOURCE_GENERATION,
  TRI_SOURCE_TOKENIZER,
  TRI_SOURCE_TOKENIZER_CONFIG,
  TRI_SOURCE_FILES
};

/* A small file of a model. bytes is NULL if the model has none. */
typedef struct tri_source_file {
  const char *name; /* "config.json" */
  char       *bytes;
  size_t      n;
} tri_source_file;

typedef struct tri_source tri_source;

/* The file of a checkpoint about the multimodal folder that its text model was taken from (multimodal.h). */
#define TRI_SOURCE_MULTIMODAL_FILE "multimodal.txt"

/* Collective over world (NULL for this process alone). Opens a Hugging Face folder, a checkpoint folder, or a
 * run's output folder (its LATEST). Without weights, reads only the small files. */
TRI_CHECKED tri_status tri_source_open(const char *path, tri_comm *world, bool weights, tri_source **out);
/* Collective over world (NULL for this process alone). Opens another model of a checkpoint. It has its own
 * config.json (TRI_SOURCE_CONFIG), the other small files of the checkpoint, and its weights in
 * tri_part_group. Returns TRI_EINPUT if the checkpoint has no such part, or if path is no checkpoint. */
TRI_CHECKED tri_status tri_source_open_part(const char *path, tri_model_part part, tri_comm *world,
                                            bool weights, tri_source **out);
/* Collective over world (NULL for this process alone). Works as tri_source_open_part for a checkpoint with
 * adapters whose base model lies at `base`. With NULL, and in the two calls above, the base model lies where
 * it lay in the run. */
TRI_CHECKED tri_status tri_source_open_over(const char *path, tri_model_part part, const char *base,
                                            tri_comm *world, bool weights, tri_source **out);
/* Not collective. Tells whether path is a Hugging Face folder with a config.json and without weights, which
 * may still be on their way. */
bool tri_source_awaits_weights(const char *path);
/* Not collective. Returns TRI_EINPUT with a message for a path that is missing or not readable. The message
 * recognises a Hub name, OWNER/NAME. */
TRI_CHECKED tri_status tri_source_missing(const char *path);
/* Not collective. Call it for a path without a checkpoint. Returns TRI_EINPUT if `path` is the output folder
 * of a run without a checkpoint yet. */
TRI_CHECKED tri_status tri_source_check_output(const char *path);
/* Collective over world (NULL for this process alone). Works as tri_ckpt_find, and warns of the damaged
 * checkpoints passed over and the one taken. */
TRI_CHECKED tri_status tri_source_find_checkpoint(const char *path, tri_comm *world, bool verify,
                                                  char folder[TRI_CKPT_PATH_BYTES]);
/* Collective over world. Returns the checkpoint meant by `path`, with every byte verified by all ranks
 * together. For a model's folder in the Hub's cache, returns its snapshot (hub.h) and logs it. Otherwise
 * returns `path` itself, for a Hugging Face folder or an unknown path; tri_source_open then reports the
 * error. */
TRI_CHECKED tri_status tri_source_resolve(const char *path, tri_comm *world, char out[TRI_CKPT_PATH_BYTES]);
/* Not collective. Opens a model of random weights, keyed by seed and tensor name. config is the path of a
 * config.json, tokenizer the path of a tokenizer.json or NULL. */
TRI_CHECKED tri_status tri_source_open_random(const char *config, const char *tokenizer, uint64_t seed,
                                              tri_source **out);
/* Returns the checkpoint of this source, or NULL. Borrowed. */
tri_ckpt_reader *tri_source_checkpoint(const tri_source *s);
void             tri_source_close(tri_source **s);
/* Not collective. Call it after all weights are read. Closes state.h5 of a checkpoint (tri_ckpt_release). */
void tri_source_release(tri_source *s);

/* Not collective. Gives the model a scalar head. Its config.json and shape become those of the model with a
 * head (tri_hf_config_with_head), and a checkpoint keeps them so. If the files of a language model lack
 * score.weight, tri_source_load starts it with random numbers keyed by seed and name. If config.json already
 * has a head, the files must hold it. Returns TRI_EINPUT as tri_hf_config_with_head does. */
TRI_CHECKED tri_status tri_source_add_head(tri_source *s, uint64_t seed);
/* Not collective. Returns TRI_EINPUT if the model has a scalar head instead of a token head. tri_source_load
 * and tri_source_check make this check. */
TRI_CHECKED tri_status tri_source_check_tokens(const tri_source *s);
/* Not collective. Returns TRI_EINPUT if the files have no score.weight [1,C], which a scoring model needs. */
TRI_CHECKED tri_status tri_source_check_scored(const tri_source *s);

/* ---- low-rank adapters (family/lora.h) */

/* Not collective. Returns the source's adapters. Rank 0 means it has none. */
const tri_lora *tri_source_lora(const tri_source *s);
/* Not collective, both. Call after tri_source_add_head. The first adds new adapters with random numbers keyed
 * by seed and name, as PEFT starts them (A uniform, B 0). The second adds those in a PEFT folder. Returns
 * TRI_EINPUT if the source already has adapters, or if the folder's adapters do not fit it or have unknown
 * options (peft.h). warn reports ignored tensors. */
TRI_CHECKED tri_status tri_source_add_lora(tri_source *s, const tri_lora *l, uint64_t seed);
TRI_CHECKED tri_status tri_source_add_adapters(tri_source *s, const char *folder, bool warn, uint64_t seed);
/* Collective over world. Loads the weights of the model without adapters into `base`. Loads the adapters, and
 * a scalar head beside them, into `adapters` (tri_model_trained). group is as in tri_source_load, for a model
 * with new adapters. Also returns TRI_EINPUT if a checkpoint's adapters were trained for other weights. */
TRI_CHECKED tri_status tri_source_load_lora(tri_source *s, const char *group, tri_params *base,
                                            tri_params *adapters, tri_comm *world, tri_stream *st);
/* Not collective. Checks that every tensor exists in its shape, with the errors of tri_source_load_lora. */
TRI_CHECKED tri_status tri_source_check_lora(const tri_source *s, const char *group, tri_params *base,
                                             tri_params *adapters);
/* Not collective. Call it after tri_source_load_lora. Appends the two files that a checkpoint of adapters
 * keeps (tri_part_adapter_config, tri_part_base). */
TRI_CHECKED tri_status tri_source_print_lora(const tri_source *s, tri_text *config, tri_text *base);

const tri_model_shape *tri_source_shape(const tri_source *s);
const tri_eos         *tri_source_eos(const tri_source *s);
/* Not collective. Returns the token that ends a text: the tokenizer's eos_token if it is one of the model's
 * end tokens, else the model's first, else -1. */
int32_t tri_source_text_end(const tri_source *s);
/* Not collective. Reads the model's sidecar files. For random weights, reads those beside the tokenizer. */
TRI_CHECKED tri_status tri_source_read_sidecar(const tri_source *s, tri_sidecar *out);
/* Not collective. Appends the text of TRI_SOURCE_MULTIMODAL_FILE for a checkpoint of this model. Appends
 * nothing if the model was taken from no multimodal folder. */
TRI_CHECKED tri_status tri_source_multimodal(const tri_source *s, tri_text *out);
/* NULL if the model has no tokenizer. */
const tri_tokenizer   *tri_source_tokenizer(const tri_source *s);
const tri_source_file *tri_source_file_at(const tri_source *s, int i);
const char            *tri_source_name(const tri_source *s); /* for messages */

/* Not collective. Gives the default compute type: that of the checkpoint's run (model.dtype), or the weights'
 * type in config.json (float32 is f32, float16 is f16, any other bf16). */
TRI_CHECKED tri_status tri_source_dtype(const tri_source *s, tri_dtype *out);

/* Not collective. Gives the compute type of the checkpoint's run, model.dtype in its deck.yaml. */
TRI_CHECKED tri_status tri_source_checkpoint_dtype(tri_ckpt_reader *r, tri_dtype *out);
/* Not collective. Gives the longrope factors of the checkpoint's run, model.rope_factors. */
TRI_CHECKED tri_status tri_source_checkpoint_factors(tri_ckpt_reader *r, tri_rope_factors *out);
/* Not collective. Tells whether the run used text prompts as a user message, data.apply_chat_template. */
TRI_CHECKED tri_status tri_source_checkpoint_applies(tri_ckpt_reader *r, bool *out);
/* Not collective. Gives the most tokens of an answer in that run, rollout.max_response_length, or 0 if its
 * deck has none. */
TRI_CHECKED tri_status tri_source_checkpoint_answer(tri_ckpt_reader *r, int64_t *tokens);

/* Not collective. Checks that every tensor exists in its shape, with the errors of tri_source_load. */
TRI_CHECKED tri_status tri_source_check(const tri_source *s, const char *group, tri_params *p);
/* Collective over world. Loads weights into the store and merges adapters into them. group is "/model", or
 * another group of a checkpoint without adapters ("/reference"). First checks that every tensor exists in its
 * shape, and returns TRI_EINPUT naming a missing one. */
TRI_CHECKED tri_status tri_source_load(tri_source *s, const char *group, tri_params *p, tri_comm *world,
                                       tri_stream *st);
/* Collective over world. Loads one kind of Adam's moments from a group of a checkpoint ("/optimizer/exp_avg")
 * into the store. s is a checkpoint. kind is not TRI_STATE_WEIGHT. */
TRI_CHECKED tri_status tri_source_load_moments(tri_source *s, tri_state_kind kind, const char *group,
                                               tri_params *p, tri_comm *world, tri_stream *st);

#endif
