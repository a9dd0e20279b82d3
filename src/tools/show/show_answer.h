/* show_answer.h - reads one line of a file of answers. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_ANSWER_H
#define TRI_SHOW_ANSWER_H

#include "io/text/json_walk.h"

/* All pointers are borrowed from the line. A missing field, or one of another type, is zero, NaN or -1. */
typedef struct tri_show_answer {
  const char    *line; /* [n] */
  size_t         n;
  int64_t        prompt_id, sample;
  int64_t        tokens, prompt_tokens; /* tokens of prompt and answer together, and of the prompt alone */
  tri_json_slice set, prompt, response, right; /* `right` is the field `answer`. None must be a string */
  tri_json_slice token_list, rewards, stop;
  double         reward, advantage;
  bool           filler, has_step; /* has_step: the line has a field `step` */
} tri_show_answer;

/* Pure. Tells whether the line is a JSON object with an answer, `response` or `tokens`. */
bool tri_show_read(const char *line, size_t n, tri_show_answer *out);
/* Tells whether the answer was cut at the length limit. */
bool tri_show_is_cut(const tri_show_answer *a);
/* Number of tokens of the answer, -1 if unknown. */
int64_t tri_show_length(const tri_show_answer *a);
/* Tells whether both answers have the same set and the same prompt, as far as their lines say. */
bool tri_show_same_prompt(const tri_show_answer *a, const tri_show_answer *b);
/* Returns the part of token_list with the prompt's tokens, or the answer's, as written in the line. */
tri_json_slice tri_show_tokens(const tri_show_answer *a, bool of_prompt);

#endif
