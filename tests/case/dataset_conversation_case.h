/* dataset_conversation_case.h - gives the tests of conversations messages as JSON and templates by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_DATASET_CONVERSATION_CASE_H
#define TRI_TESTS_DATASET_CONVERSATION_CASE_H

#include "dataset_case.h"
#include "io/chat/chat.h"

#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define S(text) "{\"role\":\"system\",\"content\":\"" text "\"}"

static inline tri_chat *open_form(const char *name) {
  tri_chat_files files = {.model = "m"};
  tri_chat_opt   opt = {.template = name, .from_deck = true};
  tri_chat      *chat;

  assert_int_equal(tri_chat_open(&opt, &files, &chat), TRI_OK);
  return chat;
}

#endif
