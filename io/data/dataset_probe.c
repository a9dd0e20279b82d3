/* dataset_probe.c - looks at the first line of a file before the file is read. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataset.h"

#include "io/text/jsonl.h"

#include <jansson.h>
#include <string.h>

/* Tells whether a list of messages ends with an answer. */
static bool ends_answered(const json_t *messages) {
  size_t        n = json_is_array(messages) ? json_array_size(messages) : 0;
  const json_t *role = n ? json_object_get(json_array_get(messages, n - 1), "role") : NULL;

  return json_is_string(role) && !strcmp(json_string_value(role), "assistant");
}

static bool is_answered(const json_t *line, const char *completion_key) {
  if (json_object_get(line, "tokens")) return json_object_get(line, "prompt_tokens") != NULL;
  return json_object_get(line, completion_key) || json_object_get(line, "text") ||
         ends_answered(json_object_get(line, "messages"));
}

tri_status tri_dataset_is_answered(const char *file, const char *completion_key, int64_t max_line_bytes,
                                   bool *out) {
  tri_jsonl *r = NULL;
  json_t    *line = NULL;
  tri_status st = TRI_OK;

  TRI_TRY(tri_jsonl_open(file, &r));
  if (max_line_bytes) tri_jsonl_limit(r, max_line_bytes, "data.max_line_bytes");
  TRI_TRY_DONE(tri_jsonl_next(r, &line));
  if (line) TRI_TRY_DONE(tri_jsonl_name_path(r, completion_key));
  *out = line && is_answered(line, completion_key);
done:
  tri_jsonl_close(&r);
  return st;
}

tri_status tri_dataset_is_paired(const char *file, const char *chosen_key, const char *rejected_key,
                                 bool *out) {
  const char *key[] = {chosen_key ? chosen_key : "chosen", rejected_key ? rejected_key : "rejected"};
  tri_jsonl  *r = NULL;
  json_t     *line = NULL;
  tri_status  st = TRI_OK;

  TRI_TRY(tri_jsonl_open(file, &r));
  TRI_TRY_DONE(tri_jsonl_next(r, &line));
  for (int i = 0; i < 2 && line; i++) TRI_TRY_DONE(tri_jsonl_name_path(r, key[i]));
  *out = line && ((json_object_get(line, key[0]) && json_object_get(line, key[1])) ||
                  (json_object_get(line, "chosen_tokens") && json_object_get(line, "rejected_tokens")));
done:
  tri_jsonl_close(&r);
  return st;
}
