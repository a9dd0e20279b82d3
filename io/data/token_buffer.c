/* token_buffer.c - appends tokens to a buffer, and checks them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "dataset_foreign.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS_BYTES = 256 }; /* chosen for names of fields in a message */

tri_status tri_line_parser_put_ids(tri_line_parser *in, tri_token_buffer *to, const int32_t *id, int64_t n) {
  if (to->n + n > INT32_MAX / 2) TRI_FAIL_LINE(in, "has more than %d tokens", INT32_MAX / 2);
  if (to->n + n > to->cap) {
    int64_t cap = to->cap;
    TRI_TRY(TRI_GROW(to->skip, cap, to->n + n));
    TRI_TRY(TRI_GROW(to->id, to->cap, to->n + n));
  }
  if (n) memcpy(to->id + to->n, id, (size_t)n * sizeof *id);
  if (n) memset(to->skip + to->n, 0, (size_t)n);
  to->n += n;
  return TRI_OK;
}

tri_status tri_line_parser_refuse_missing(const tri_line_parser *in, const char *key, const char *deck,
                                          const char *flag) {
  const char *set = tri_line_parser_setting(in, deck, flag);
  char        fields[FIELDS_BYTES], inner[FIELDS_BYTES], what[FIELDS_BYTES];

  snprintf(what, sizeof what, "has no `%.200s`", key);
  if (deck) return tri_foreign_refuse(in, what, key, set);
  TRI_FAIL_LINE(in, "%s; %s%s", what, tri_jsonl_fields(in->r, fields, sizeof fields),
                tri_jsonl_inner(in->r, key, inner, sizeof inner));
}

tri_status tri_line_parser_check_ids(const tri_line_parser *in, const int32_t *id, int64_t n,
                                     const char *of) {
  for (int64_t i = 0; i < n; i++)
    if (id[i] < 0 || id[i] >= in->opt->vocab)
      TRI_FAIL_LINE(
          in,
          "the tokenizer makes token %d of %s, but the model's vocabulary is 0 .. %d, so they do not "
          "belong together",
          id[i], of, in->opt->vocab - 1);
  return TRI_OK;
}

tri_status tri_line_parser_check_learned(const tri_line_parser *in, const tri_token_buffer *buffer,
                                         const char *key) {
  if (tri_token_buffer_learned(buffer, in->n_prompt)) return TRI_OK;
  TRI_FAIL_LINE(in, "%s%s%shas no token to learn (tokens: %lld, of them in the prompt: %lld)", key ? "`" : "",
                key ? key : "", key ? "` " : "", (long long)buffer->n, (long long)in->n_prompt);
}
