/* hf_config_half.c - makes the config.json of the text model in a multimodal model.
 *
 * Judges: Gemma3Config, Mistral3Config, LlavaConfig, LlavaNextConfig and Qwen3_5Config of transformers 5.
 * Their classes for generation pass plain text to the text model unchanged. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <stdio.h>
#include <string.h>

enum { KNOWN_BYTES = 128 };

/* Multimodal models that compute the same for a text as their text model alone. */
static const struct {
  const char *type, *architecture, *text; /* text: default model_type of text_config */
} known[] = {{"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
             {"mistral3", "Mistral3ForConditionalGeneration", "mistral"},
             {"llava", "LlavaForConditionalGeneration", "llama"},
             {"llava_next", "LlavaNextForConditionalGeneration", "llama"},
             {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* The fields of a multimodal model without effect on its text model, and the fields valid for both. */
static const char *const of_images[] = {"text_config",           "vision_config",
                                        "mm_tokens_per_image",   "image_token_index",
                                        "image_token_id",        "boi_token_index",
                                        "boi_token_id",          "eoi_token_index",
                                        "eoi_token_id",          "image_seq_length",
                                        "image_grid_pinpoints",  "use_image_newline_parameter",
                                        "ignore_index",          "multimodal_projector_bias",
                                        "projector_hidden_act",  "spatial_merge_size",
                                        "vision_feature_layer",  "vision_feature_select_strategy",
                                        "video_token_id",        "video_token_index",
                                        "vision_start_token_id", "vision_end_token_id",
                                        "language_model_only"};
static const char *const shared[] = {
    "eos_token_id", "bos_token_id", "pad_token_id",        "tie_word_embeddings",
    "dtype",        "torch_dtype",  "quantization_config", "transformers_version"};

static bool is_among(const char *name, const char *const *list, size_t n) {
  size_t i = 0;

  while (i < n && strcmp(list[i], name)) i++;
  return i < n;
}

/* Finds the multimodal model in the list of known ones. */
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
    TRI_FAIL(TRI_EINPUT,
             "%s: has a `text_config` and the `model_type` `%s`, but this version knows only the text "
             "models of %s",
             s->name, type ? type : "", text);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    named = named || (name && !strcmp(name, known[*out].architecture));
  }
  if (!named)
    TRI_FAIL(TRI_EINPUT, "%s: `architectures` does not name %s, the only known one of model type %s", s->name,
             known[*out].architecture, type);
  return TRI_OK;
}

/* Tells whether the file may lack a text_config. Then all settings of the text model are defaults. */
static bool has_default_text(const tri_hf_source *s) {
  const char *type = json_string_value(json_object_get(s->root, "model_type"));

  return type && !strcmp(type, "qwen3_5");
}

tri_status tri_hf_whole_architecture(const tri_hf_source *s, const char **out) {
  int i = 0;

  TRI_TRY(find_whole(s, &i));
  *out = known[i].architecture;
  return TRI_OK;
}

/* Copies the settings beside text_config if they are valid for both. */
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
      TRI_FAIL(TRI_EINPUT, "%s: `%s` differs from that of `text_config`. Make both the same.", s->name, key);
    json_object_set(text, key, v);
  }
  return TRI_OK;
}

tri_status tri_hf_take_half(const char *name, json_t **root) {
  tri_hf_source     s = {name, *root};
  tri_status        st = TRI_OK;
  const json_t     *inner = json_object_get(*root, "text_config");
  json_t           *text = NULL;
  bool              none = !inner || json_is_null(inner);
  const char       *type;
  const tri_family *f;
  int               i = 0;

  if (none && !has_default_text(&s)) return TRI_OK;
  if (!none && !json_is_object(inner)) TRI_FAIL(TRI_EINPUT, "%s: `text_config` must be an object", name);
  TRI_TRY(find_whole(&s, &i));
  text = none ? json_object() : json_deep_copy(inner);
  if (!text) TRI_FAIL(TRI_ENOMEM, "%s: no host memory left for it", name);
  TRI_TRY_DONE(tri_hf_get_text(&(tri_hf_source){name, text}, "model_type", &type));
  if (!type) json_object_set_new(text, "model_type", json_string(known[i].text));
  f = tri_family_find(type ? type : known[i].text);
  json_object_del(text, "architectures"); /* the multimodal model owns the token head */
  if (f) json_object_set_new(text, "architectures", json_pack("[s]", f->architecture));
  TRI_TRY_DONE(take_shared(&s, text));
  json_decref(*root);
  *root = text;
  text = NULL;
done:
  json_decref(text);
  return st;
}
