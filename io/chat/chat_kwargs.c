/* chat_kwargs.c - reads template variables from a command's flags. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/deck.h"

enum { NAME_BYTES = 256 }; /* chosen, longer than any template variable */

/* Reads a text in double quotes. It may spell a number. NULL: the value is no such text. */
static json_t *quoted(const char *value) {
  json_t *text = *value == '"' ? json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;

  if (json_is_string(text)) return text;
  json_decref(text);
  return NULL;
}

/* Reads NAME=VALUE. The value is read as in a deck. */
static tri_status put_one(json_t *all, const char *given, const char *flag) {
  const char *equal = strchr(given, '=');
  json_t     *read;
  char        place[NAME_BYTES + 32];
  size_t      n = equal ? (size_t)(equal - given) : 0;
  tri_text    value = {0};
  char        name[NAME_BYTES];
  tri_status  st = TRI_OK;

  if (!n || n >= sizeof name)
    TRI_FAIL(TRI_EARG, "%s %s: NAME=VALUE is wanted, such as enable_thinking=false", flag, given);
  snprintf(name, sizeof name, "%.*s", (int)n, given);
  if (!strcmp(name, "messages") || !strcmp(name, "tools") || !strcmp(name, "add_generation_prompt"))
    TRI_FAIL(TRI_EARG, "%s %s: each conversation sets this variable itself", flag, given);
  snprintf(place, sizeof place, "%s %s", flag, name);
  read = quoted(equal + 1);
  if (!read) {
    TRI_TRY_DONE(tri_deck_check_scalar(equal + 1, place));
    TRI_TRY_DONE(tri_deck_put_scalar(equal + 1, true, &value));
    read = json_loadb(value.data, value.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  }
  if (json_object_set_new(all, name, read)) TRI_FAIL_DONE(TRI_EARG, "%s %s: is not UTF-8", flag, given);
done:
  tri_text_free(&value);
  return st;
}

tri_status tri_chat_put_kwargs(const char *kwargs, const char *const *given, int n, const char *flag,
                               tri_text *out) {
  json_t    *all = kwargs ? json_loads(kwargs, JSON_ALLOW_NUL, NULL) : json_object();
  char      *text = NULL;
  tri_status st = TRI_OK;

  if (!json_is_object(all))
    TRI_FAIL_DONE(TRI_EINTERNAL, "template variables are not a JSON object: %s", kwargs);
  for (int i = 0; i < n; i++) TRI_TRY_DONE(put_one(all, given[i], flag));
  text = json_object_size(all) ? json_dumps(all, 0) : NULL;
  if (text) TRI_TRY_DONE(tri_text_put(out, text, strlen(text)));
done:
  free(text);
  json_decref(all);
  return st;
}
