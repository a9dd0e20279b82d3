/* value_from_json.c - makes values from JSON, including lists of text parts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

enum { VALUE_BYTES = 16 }; /* chosen, a short text as JSON */

/* Says if a value is {"type": "text", "text": STRING}, and returns the string. */
static bool is_part(const json_t *item, const json_t **text) {
  const json_t *type = json_object_get(item, "type");

  *text = json_object_get(item, "text");
  return json_is_string(*text) && json_is_string(type) && !strcmp(json_string_value(type), "text");
}

/* Joins the texts of a list of parts. *out NULL: it is another list. */
static tri_status join_parts(tri_jarena *a, const json_t *list, const tri_jvalue **out) {
  tri_jbuf      b = {.a = a};
  void         *memory = NULL;
  tri_jvalue   *joined;
  const json_t *text = NULL;

  *out = NULL;
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!is_part(json_array_get(list, i), &text)) return TRI_OK;
  for (size_t i = 0; i < json_array_size(list); i++) {
    is_part(json_array_get(list, i), &text);
    TRI_TRY(tri_jbuf_put(&b, json_string_value(text), json_string_length(text)));
  }
  TRI_TRY(tri_jarena_take(a, sizeof *joined, &memory));
  joined = memory;
  *joined = tri_jbuf_value(&b, 0);
  *out = joined;
  return TRI_OK;
}

static tri_status convert(tri_jarena *a, const json_t *json, bool is_content, tri_jvalue *out);

static tri_status convert_list(tri_jarena *a, const json_t *json, bool is_content, tri_jvalue *out) {
  tri_jvalue *item = NULL;
  tri_jlist   list;
  void       *memory = NULL;

  TRI_TRY(tri_jlist_reserve(a, TRI_J_LIST, (int64_t)json_array_size(json), &item, out));
  for (size_t i = 0; i < json_array_size(json); i++)
    TRI_TRY(convert(a, json_array_get(json, i), false, &item[i]));
  if (!is_content) return TRI_OK;
  list = *out->as.list;
  TRI_TRY(join_parts(a, json, &list.parts));
  TRI_TRY(tri_jarena_take(a, sizeof list, &memory));
  memcpy(memory, &list, sizeof list);
  out->as.list = memory;
  return TRI_OK;
}

static tri_status convert_object(tri_jarena *a, const json_t *json, tri_jvalue *out) {
  json_t    *object = (json_t *)(uintptr_t)json; /* jansson's iterators need it, but nothing is written */
  tri_jvalue value;

  TRI_TRY(tri_jmap_make(a, out));
  for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
    const char *key = json_object_iter_key(at);
    TRI_TRY(convert(a, json_object_iter_value(at), !strcmp(key, "content"), &value));
    TRI_TRY(tri_jmap_put(a, *out, tri_jtext(key, strlen(key)), value));
  }
  return TRI_OK;
}

static tri_status convert(tri_jarena *a, const json_t *json, bool is_content, tri_jvalue *out) {
  TRI_TRY(tri_jarena_enter(a));
  a->given += VALUE_BYTES;
  TRI_TRY(tri_jarena_step(a, 1));
  switch (json_typeof(json)) {
  case JSON_OBJECT:
    TRI_TRY(convert_object(a, json, out));
    break;
  case JSON_ARRAY:
    TRI_TRY(convert_list(a, json, is_content, out));
    break;
  case JSON_STRING:
    *out = tri_jtext(json_string_value(json), json_string_length(json));
    a->given += (int64_t)json_string_length(json);
    break;
  case JSON_INTEGER:
    *out = tri_jint(json_integer_value(json));
    break;
  case JSON_REAL:
    *out = tri_jfloat(json_real_value(json));
    break;
  case JSON_TRUE:
    *out = tri_jbool(true);
    break;
  case JSON_FALSE:
    *out = tri_jbool(false);
    break;
  default:
    *out = tri_jnone();
    break;
  }
  tri_jarena_leave(a);
  return TRI_OK;
}

tri_status tri_jvalue_of_json(tri_jarena *a, const json_t *json, tri_jvalue *out) {
  return convert(a, json, false, out);
}
