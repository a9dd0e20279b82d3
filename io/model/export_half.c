/* export_half.c - renames the adapters of a text model for the multimodal model it was taken from.
 *
 * Judge: transformers 5.24 and PEFT 0.21. Classes for generation in transformers hold the text model as
 * model.language_model. PEFT loads adapters only onto modules of the same name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "export_half.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* PEFT's prefix of the text model's modules, alone and inside the multimodal model. */
static const char alone[] = "base_model.model.model.", inside[] = "base_model.model.model.language_model.";

void tri_export_half_name(const char *name, char out[TRI_HALF_NAME_BYTES]) {
  size_t n = sizeof alone - 1;
  bool   moves = !strncmp(name, alone, n);

  snprintf(out, TRI_HALF_NAME_BYTES, "%s%s", moves ? inside : "", moves ? name + n : name);
}

/* Tells whether a model's config.json has a text model beside others. */
static bool is_whole(const char *model) {
  char    path[PATH_BYTES];
  json_t *config;
  bool    whole;

  if (!model || snprintf(path, sizeof path, "%s/config.json", model) >= (int)sizeof path) return false;
  config = json_load_file(path, 0, NULL);
  whole = json_is_object(json_object_get(config, "text_config"));
  json_decref(config);
  return whole;
}

/* Writes a list of names as a pattern of Python's re. A list would also match modules of a vision tower with
 * the same names. */
static tri_status put_pattern(const json_t *names, tri_text *out) {
  const json_t *name;
  size_t        i;

  TRI_TRY(tri_text_printf(out, ".*\\.language_model\\..*\\.("));
  json_array_foreach(names, i, name) {
    TRI_TRY(tri_text_printf(out, "%s", i ? "|" : ""));
    for (const char *at = json_string_value(name); at && *at; at++)
      TRI_TRY(tri_text_printf(out, "%s%c", *at == '.' ? "\\" : "", *at));
  }
  return tri_text_printf(out, ")");
}

tri_status tri_export_half_config(const char *config, size_t n, bool held, tri_text *out, bool *half) {
  json_t       *root = json_loadb(config, n, 0, NULL);
  const json_t *names = json_object_get(root, "target_modules");
  tri_text      pattern = {0};
  char         *text = NULL;
  tri_status    st = TRI_OK;

  *half = json_is_array(names) &&
          (held || is_whole(json_string_value(json_object_get(root, "base_model_name_or_path"))));
  if (!*half) goto done;
  TRI_TRY_DONE(put_pattern(names, &pattern));
  json_object_set_new(root, "target_modules", json_string(pattern.data));
  text =
      json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)); /* like tri_peft_print */
  if (!text) TRI_FAIL_DONE(TRI_ENOMEM, "no host memory left for an adapter_config.json");
  TRI_TRY_DONE(tri_text_printf(out, "%s\n", text));
done:
  json_decref(root);
  tri_text_free(&pattern);
  free(text);
  return st;
}
