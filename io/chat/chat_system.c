/* chat_system.c - adds the system message of a deck or flag to conversations without one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat_impl.h"

#include <stdio.h>
#include <string.h>

const char *tri_chat_system(const tri_chat *c, const char **key) {
  *key = c->system_key;
  return c->system;
}

/* Recent models read a developer message as the system message. */
static bool is_of_system(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));

  return role && (!strcmp(role, "system") || !strcmp(role, "developer"));
}

tri_status tri_chat_put_system(const tri_chat *c, json_t *messages, bool *put) {
  json_t *m;

  *put = false;
  if (!c->system) return TRI_OK;
  for (size_t i = 0; i < json_array_size(messages); i++)
    if (is_of_system(json_array_get(messages, i))) return TRI_OK;
  m = json_pack("{ssss}", "role", "system", "content", c->system);
  if (!m) TRI_FAIL(TRI_EINPUT, "%s is not UTF-8", c->system_key);
  if (json_array_insert_new(messages, 0, m))
    TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a conversation");
  *put = true;
  return TRI_OK;
}

tri_status tri_chat_blame_system(const tri_chat *c, bool put, tri_status st) {
  char why[96];

  if (st == TRI_OK || !put) return st;
  snprintf(why, sizeof why, "the system message is %s", c->system_key);
  return tri_error_about(st, why);
}
