/* trireme_reward.h - rewards by a shared object: what it must have, version 1. C and C++; needs nothing of
 * the program.
 *
 * cc -shared -fPIC -I PREFIX/include verify.c -o verify.so, and in a deck: reward: [{name: library, path:
 * ./verify.so}] */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRIREME_REWARD_H
#define TRIREME_REWARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows where an object made for an older one would be misunderstood; such a one is refused. */
#define TRIREME_REWARD_VERSION 1

/* A finished answer; valid while score runs. Texts are UTF-8, end with a NUL that is not counted, and may
 * hold others. Without its end token. */
typedef struct trireme_answer {
  const char    *prompt, *response;
  size_t         prompt_bytes, response_bytes;
  const char    *truth; /* the data line's right answer; NULL: it has none */
  size_t         truth_bytes;
  const char    *fields; /* the line's fields but id, prompt and response, as a JSON object */
  size_t         fields_bytes;
  int64_t        prompt_id; /* number of the line, from 0 on */
  const int32_t *token;     /* [n_prompt + n_token] the prompt's, then the answer's */
  int32_t        n_prompt, n_token;
  int32_t        is_cut; /* 1: at the longest length, without an end */
} trireme_answer;

/* What the shared object defines: const trireme_reward trireme_reward_object = {...};
 * All functions are called from one thread of each rank, one after the other, in which signals are held back.
 * They must return: there is no time-out for them, and a crash, or an exception of C++ that leaves them, ends
 * the run; what may hang or crash is better a program (reward process). An error's text goes into error
 * [error_bytes], ended by NUL. */
typedef struct trireme_reward {
  uint32_t version;      /* TRIREME_REWARD_VERSION */
  uint32_t answer_bytes; /* sizeof(trireme_answer) */
  /* Once, before all else; NULL: there is nothing to do. *state is what the others get. Not 0: the run ends
   * with the error. */
  int (*open)(void **state, char *error, size_t error_bytes);
  /* Scores [n], in order: finite numbers, or NAN where one cannot be judged. How many answers come at once,
   * and which, follows from time alone: a score must not depend on it. Not 0: none was judged; the same
   * answers come again one by one, and those that fail so are treated as the deck's on_error says. */
  int (*score)(void *state, const trireme_answer *answer, size_t n, double *score, char *error,
               size_t error_bytes);
  /* Once, at the end; may be NULL. */
  void (*close)(void *state);
} trireme_reward;

#ifdef __cplusplus
}
#endif

#endif
