/* hf_config_half.c - the text half of a model of text and images: what its config.json says of the text
 * model, as the config.json of that model alone. Judges: Gemma3Config, Mistral3Config, LlavaConfig and
 * LlavaNextConfig of transformers 5. Their classes for generation give text alone to the text model as it
 * is. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <stdio.h>
#include <string.h>

enum { KNOWN_BYTES = 128 };

/* Models whose text model computes the same of a text as it does alone. */
static const struct {
  const char *type, *architecture, *text; /* text: the model_type of a text_config that is silent */
} known[] = {{"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
             {"mistral3", "Mistral3ForConditionalGeneration", "mistral"},
             {"llava", "LlavaForConditionalGeneration", "llama"},
             {"llava_next", "LlavaNextForConditionalGeneration", "llama"}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* Fields of the whole that say nothing of its text model; and those that count for it too. */
static const char *const of_images[] = {"text_config",          "vision_config",
                                        "mm_tokens_per_image",  "image_token_index",
                                        "image_token_id",       "boi_token_index",
                                        "boi_token_id",         "eoi_token_index",
                                        "eoi_token_id",         "image_seq_length",
                                        "image_grid_pinpoints", "use_image_newline_parameter",
                                        "ignore_index",         "multimodal_projector_bias",
                                        "projector_hidden_act", "spatial_merge_size",
                                        "vision_feature_layer", "vision_feature_select_strategy"};
static const char *const shared[] = {
    "eos_token_id", "bos_token_id", "pad_token_id",        "tie_word_embeddings",
    "dtype",        "torch_dtype",  "quantization_config", "transformers_version"};

static bool is_among(const char *name, const char *const *list, size_t n) {
  size_t i = 0;

  while (i < n && strcmp(list[i], name)) i++;
  return i < n;
}

/* Which of the known ones the whole is. */
static tri_status find_whole(const tri_hf_source *s, int *out) {
  const json_t *list = json_object_get(s->root, "architectures");
  const char   *type;
  char          text[KNOWN_BYTES] = "";
  bool          named = !list || json_is_null(list);

  for (int i = 0; i < N_KNOWN; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
             i == 0            ? ""
             : i + 1 < N_KNOWN ? ", "
                               : " and ",
             known[i].type);
  TRI_TRY(tri_hf_get_text(s, "model_type", &type));
  *out = 0;
  while (*out < N_KNOWN && (!type || strcmp(type, known[*out].type))) ++*out;
  if (*out == N_KNOWN)
    TRI_FAIL(
        TRI_EINPUT,
        "%s: has a `text_config`, and `model_type` is `%s`; of models of text and more this version knows "
        "the text half of %s",
        s->name, type ? type : "", text);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    named = named || (name && !strcmp(name, known[*out].architecture));
  }
  if (!named)
    TRI_FAIL(TRI_EINPUT, "%s: `architectures` does not name %s; this version knows no other of model type %s",
             s->name, known[*out].architecture, type);
  return TRI_OK;
}

/* What the whole says beside its text_config. */
static tri_status take_shared(const tri_hf_source *s, json_t *text) {
  static const char tied[] = "tie_word_embeddings";
  const char       *key;
  json_t           *v;

  json_object_foreach((json_t *)s->root, key, v) {
    const json_t *own = json_object_get(text, key);
    if (json_is_null(v) || is_among(key, of_images, sizeof of_images / sizeof *of_images)) continue;
    if (!is_among(key, shared, sizeof shared / sizeof *shared)) {
      TRI_TRY(tri_hf_check_beside(s->name, key, v));
      continue;
    }
    if (!strcmp(key, tied) && own && !json_is_null(own) && !json_equal(own, v))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` differs from that of `text_config`; make both alike", s->name, key);
    json_object_set(text, key, v);
  }
  return TRI_OK;
}

tri_status tri_hf_take_half(const char *name, json_t **root) {
  tri_hf_source     s = {name, *root};
  tri_status        st = TRI_OK;
  const json_t     *inner = json_object_get(*root, "text_config");
  json_t           *text = NULL;
  const char       *type;
  const tri_family *f;
  int               i = 0;

  if (!inner || json_is_null(inner)) return TRI_OK;
  if (!json_is_object(inner)) TRI_FAIL(TRI_EINPUT, "%s: `text_config` must be an object", name);
  TRI_TRY(find_whole(&s, &i));
  text = json_deep_copy(inner);
  if (!text) TRI_FAIL(TRI_ENOMEM, "%s: the host has no memory left for it", name);
  TRI_TRY_DONE(tri_hf_get_text(&(tri_hf_source){name, text}, "model_type", &type));
  if (!type) json_object_set_new(text, "model_type", json_string(known[i].text));
  f = tri_family_find(type ? type : known[i].text);
  json_object_del(text, "architectures"); /* the tokens' head is the whole's */
  if (f) json_object_set_new(text, "architectures", json_pack("[s]", f->architecture));
  TRI_TRY_DONE(take_shared(&s, text));
  json_decref(*root);
  *root = text;
  text = NULL;
done:
  json_decref(text);
  return st;
}
