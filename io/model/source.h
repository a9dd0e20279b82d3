/* source.h - where a model comes from: a Hugging Face folder, a checkpoint, or random numbers. */
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

/* A small file that travels with a model; bytes NULL when there is none. */
typedef struct tri_source_file {
  const char *name; /* "config.json" */
  char       *bytes;
  size_t      n;
} tri_source_file;

typedef struct tri_source tri_source;

/* Collective over world (NULL: this process alone). path: a Hugging Face folder, a checkpoint folder, or a
 * run's output folder (its LATEST). weights false: only the small files are read. */
TRI_CHECKED tri_status tri_source_open(const char *path, tri_comm *world, bool weights, tri_source **out);
/* Collective over world (NULL: this process alone). The same of another model of a checkpoint, with a
 * config.json of its own (TRI_SOURCE_CONFIG) and the other small files of the whole; its weights are in
 * tri_part_group. TRI_EINPUT where the checkpoint has none, or path is no checkpoint. */
TRI_CHECKED tri_status tri_source_open_part(const char *path, tri_model_part part, tri_comm *world,
                                            bool weights, tri_source **out);
/* Collective over world (NULL: this process alone). As tri_source_open_part, of a model whose adapters a
 * checkpoint holds: the model that they are for lies at `base`; NULL, as with the two above: where it lay
 * in the run. */
TRI_CHECKED tri_status tri_source_open_over(const char *path, tri_model_part part, const char *base,
                                            tri_comm *world, bool weights, tri_source **out);
/* Not collective. Whether path is a Hugging Face folder with a config.json and no weights: they may be still
 * to come. */
bool tri_source_awaits_weights(const char *path);
/* Not collective. TRI_EINPUT: there is nothing at this path, or it may not be looked at; a name of the
 * Hugging Face Hub, OWNER/NAME, is told. */
TRI_CHECKED tri_status tri_source_missing(const char *path);
/* Not collective. TRI_EINPUT where `path` is the output folder of a run that has no checkpoint yet: for a
 * path at which none was found. */
TRI_CHECKED tri_status tri_source_check_output(const char *path);
/* Collective over world (NULL: this process alone). As tri_ckpt_find, with a warning that names the damaged
 * checkpoints that were passed over and the one taken. */
TRI_CHECKED tri_status tri_source_find_checkpoint(const char *path, tri_comm *world, bool verify,
                                                  char folder[TRI_CKPT_PATH_BYTES]);
/* Collective over world. The checkpoint `path` means, every byte of it verified (the ranks share the work);
 * of a model's folder in the Hub's cache its snapshot (hub.h), which is said; or `path` itself where it is a
 * Hugging Face folder or nothing that is known; then tri_source_open says so. */
TRI_CHECKED tri_status tri_source_resolve(const char *path, tri_comm *world, char out[TRI_CKPT_PATH_BYTES]);
/* Not collective. config: path of a config.json; tokenizer: path of a tokenizer.json, or NULL. Weights are
 * random, keyed by seed and tensor name. */
TRI_CHECKED tri_status tri_source_open_random(const char *config, const char *tokenizer, uint64_t seed,
                                              tri_source **out);
/* The checkpoint a source is, or NULL. Borrowed. */
tri_ckpt_reader *tri_source_checkpoint(const tri_source *s);
void             tri_source_close(tri_source **s);
/* Not collective. All weights are read: of a checkpoint the file is closed (tri_ckpt_release). */
void tri_source_release(tri_source *s);

/* Not collective. The model is used with a scalar head: its config.json and shape are from here on those of
 * the model that has one (tri_hf_config_with_head), as a checkpoint keeps them. Where the files of a
 * language model lack score.weight, tri_source_load starts it by random numbers keyed by seed and name; a
 * head that config.json speaks of must be in the files. TRI_EINPUT: as tri_hf_config_with_head. */
TRI_CHECKED tri_status tri_source_add_head(tri_source *s, uint64_t seed);
/* Not collective. TRI_EINPUT: the model has a scalar head, where one of tokens is wanted. tri_source_load and
 * tri_source_check ask this. */
TRI_CHECKED tri_status tri_source_check_tokens(const tri_source *s);
/* Not collective. TRI_EINPUT: the files hold no score.weight [1,C], where a model that scores is wanted. */
TRI_CHECKED tri_status tri_source_check_scored(const tri_source *s);

/* ---- low-rank adapters (family/lora.h) */

/* Not collective. The source's adapters; rank 0: it has none. */
const tri_lora *tri_source_lora(const tri_source *s);
/* Not collective, these two, after tri_source_add_head. New adapters for the model: of random numbers
 * keyed by seed and name, as PEFT starts them (A uniform, B 0); or those in a folder of PEFT's.
 * TRI_EINPUT: the source has adapters already, or the folder's are not for it or ask for what is not known
 * here (peft.h). warn: of what is left out. */
TRI_CHECKED tri_status tri_source_add_lora(tri_source *s, const tri_lora *l, uint64_t seed);
TRI_CHECKED tri_status tri_source_add_adapters(tri_source *s, const char *folder, bool warn, uint64_t seed);
/* Collective over world. Weights of the model without its adapters into `base`, those of the adapters, and
 * of a scalar head beside them, into `adapters` (tri_model_trained). group: as tri_source_load, of a model
 * that is given new adapters. TRI_EINPUT, too, where a checkpoint's adapters were trained for other
 * weights. */
TRI_CHECKED tri_status tri_source_load_lora(tri_source *s, const char *group, tri_params *base,
                                            tri_params *adapters, tri_comm *world, tri_stream *st);
/* Not collective. Whether every tensor is there in its shape; as tri_source_load_lora says it. */
TRI_CHECKED tri_status tri_source_check_lora(const tri_source *s, const char *group, tri_params *base,
                                             tri_params *adapters);
/* Not collective. After tri_source_load_lora: appends the two files that a checkpoint of the adapters keeps
 * (tri_part_adapter_config, tri_part_base). */
TRI_CHECKED tri_status tri_source_print_lora(const tri_source *s, tri_text *config, tri_text *base);

const tri_model_shape *tri_source_shape(const tri_source *s);
const tri_eos         *tri_source_eos(const tri_source *s);
/* The end token that a text is given: the tokenizer's eos_token where it is among the model's end tokens,
 * else the model's first; -1: it has none. Not collective. */
int32_t tri_source_text_end(const tri_source *s);
/* Not collective. The files that go with the model, from where it comes; of random weights, those beside the
 * tokenizer. */
TRI_CHECKED tri_status tri_source_read_sidecar(const tri_source *s, tri_sidecar *out);
/* NULL when the model brings no tokenizer. */
const tri_tokenizer   *tri_source_tokenizer(const tri_source *s);
const tri_source_file *tri_source_file_at(const tri_source *s, int i);
const char            *tri_source_name(const tri_source *s); /* for messages */

/* Not collective. The type to compute in unless told: that of the run a checkpoint is of (model.dtype), or
 * what config.json says its weights are (float32: f32; float16: f16; else bf16). */
TRI_CHECKED tri_status tri_source_dtype(const tri_source *s, tri_dtype *out);

/* Not collective. The type the run computed in, as the checkpoint's deck.yaml says: model.dtype. */
TRI_CHECKED tri_status tri_source_checkpoint_dtype(tri_ckpt_reader *r, tri_dtype *out);
/* Not collective. Which factors of longrope counted there: model.rope_factors. */
TRI_CHECKED tri_status tri_source_checkpoint_factors(tri_ckpt_reader *r, tri_rope_factors *out);
/* Not collective. Whether prompts that are text were the user's message there: data.apply_chat_template. */
TRI_CHECKED tri_status tri_source_checkpoint_applies(tri_ckpt_reader *r, bool *out);
/* Not collective. Tokens of an answer at most there: rollout.max_response_length; 0: its deck says none. */
TRI_CHECKED tri_status tri_source_checkpoint_answer(tri_ckpt_reader *r, int64_t *tokens);

/* Not collective. Whether every tensor is there in its shape; as tri_source_load says it. */
TRI_CHECKED tri_status tri_source_check(const tri_source *s, const char *group, tri_params *p);
/* Collective over world. Weights into the store, adapters merged into them; group is "/model" or another
 * group of a checkpoint ("/reference"), but of one with adapters. Every tensor's presence and shape is
 * checked first: TRI_EINPUT naming it. */
TRI_CHECKED tri_status tri_source_load(tri_source *s, const char *group, tri_params *p, tri_comm *world,
                                       tri_stream *st);
/* Collective over world. One kind of moments from a group of a checkpoint ("/optimizer/exp_avg") into the
 * store. s is a checkpoint, kind not TRI_STATE_WEIGHT. */
TRI_CHECKED tri_status tri_source_load_moments(tri_source *s, tri_state_kind kind, const char *group,
                                               tri_params *p, tri_comm *world, tri_stream *st);

#endif
