/* trireme_reward.h - the interface of a reward in a shared object, version 1, for C and C++. It needs nothing
 * else of the program.
 *
 * Compile it and name it in a deck:
 *   cc -shared -fPIC -I PREFIX/include verify.c -o verify.so
 *   reward: [{name: library, path: ./verify.so}] */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRIREME_REWARD_H
#define TRIREME_REWARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version grows when an older object would be misunderstood. Such an object is then refused. */
#define TRIREME_REWARD_VERSION 1

/* A finished answer, valid until score returns. Texts are UTF-8. They end with a NUL, not counted in their
 * bytes, and may contain others. The response lacks its end token. */
typedef struct trireme_answer {
  const char    *prompt, *response;
  size_t         prompt_bytes, response_bytes;
  const char    *truth; /* right answer of the data line, or NULL */
  size_t         truth_bytes;
  const char    *fields; /* other fields of the line as a JSON object, without id, prompt and response */
  size_t         fields_bytes;
  int64_t        prompt_id; /* index of the line, from 0 */
  const int32_t *token;     /* [n_prompt + n_token] tokens of the prompt, then of the answer */
  int32_t        n_prompt, n_token;
  int32_t        is_cut; /* 1 if the answer reached the longest length without an end token */
} trireme_answer;

/* The shared object must define this:
 *   const trireme_reward trireme_reward_object = {...};
 * One thread of each rank calls all functions, one after another, with signals blocked. They must return,
 * since there is no timeout. A crash, or a C++ exception that leaves a function, ends the run. Code that may
 * hang or crash belongs in a program (reward process). Write the text of an error into error [error_bytes],
 * with a NUL at its end. */
typedef struct trireme_reward {
  uint32_t version;      /* TRIREME_REWARD_VERSION */
  uint32_t answer_bytes; /* sizeof(trireme_answer) */
  /* Called once before the others. May be NULL. *state is passed to the other functions. If it does not
   * return 0, the run ends with the error. */
  int (*open)(void **state, char *error, size_t error_bytes);
  /* Fills score [n] in order with finite numbers, or NAN for an answer it cannot judge. Timing alone decides
   * how many answers come in one call, and which. A score must not depend on that. If it does not return 0,
   * none is judged. The same answers then come again one by one, and the deck's on_error decides about those
   * that fail again. */
  int (*score)(void *state, const trireme_answer *answer, size_t n, double *score, char *error,
               size_t error_bytes);
  /* Called once at the end. May be NULL. */
  void (*close)(void *state);
} trireme_reward;

#ifdef __cplusplus
}
#endif

#endif
