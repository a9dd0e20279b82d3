/* show_answer.h - one line of a file of answers: what of it is shown. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_ANSWER_H
#define TRI_SHOW_ANSWER_H

#include "io/text/json_walk.h"

/* All of it is borrowed from the line; what the line lacks, or has in another type, is zeroed, NaN or -1. */
typedef struct tri_show_answer {
  const char    *line; /* [n] */
  size_t         n;
  int64_t        prompt_id, sample;
  int64_t        tokens, prompt_tokens; /* of prompt and answer together; those of them that are the prompt */
  tri_json_slice set, prompt, response, right; /* right: `answer`; any of them may be other than a string */
  tri_json_slice token_list, rewards, stop;
  double         reward, advantage;
  bool           filler, has_step; /* has_step: the line says a step itself */
} tri_show_answer;

/* Pure. Whether the line is a JSON object with an answer in it: `response` or `tokens`. */
bool tri_show_read(const char *line, size_t n, tri_show_answer *out);
/* Whether it was cut at the length. */
bool tri_show_is_cut(const tri_show_answer *a);
/* Tokens of the answer; -1: not known. */
int64_t tri_show_length(const tri_show_answer *a);
/* Whether both answer one prompt, of one set, as far as the lines say. */
bool tri_show_same_prompt(const tri_show_answer *a, const tri_show_answer *b);
/* The prompt's entries of token_list, or those of the answer, as the line spells them. */
tri_json_slice tri_show_tokens(const tri_show_answer *a, bool of_prompt);

#endif
