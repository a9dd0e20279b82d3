/* infer.h - what generate, score and eval share: a session, a model without training state, its sampler. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INFER_H
#define TRI_INFER_H

#include "comm/session.h"
#include "staging/batch.h"
#include "generate/sampler.h"
#include "tools/flags/flags.h"
#include "io/model/source_chat.h"
#include "reward/answers.h"

typedef struct tri_infer {
  tri_session  se;
  tri_source  *source;
  tri_model   *model;
  tri_sampler *sampler;
  tri_staging *staging;
  tri_encoder  encoder;   /* over the source's tokenizer */
  tri_chat    *chat;      /* template of conversations */
  bool         texts;     /* as tri_infer_talk's */
  char         today[16]; /* "2026-11-29", the same on all ranks */
} tri_infer;

/* Collective over MPI_COMM_WORLD. Opens the session and the model's small files, then the caller sizes its
 * data. base: where the model lies that a checkpoint's adapters are for; NULL: where it lay in the run.
 * any: a model with a scalar head will do; else it is TRI_EINPUT. threads: of each rank; 0: as session.h
 * chooses. */
TRI_CHECKED tri_status tri_infer_open(const char *model, const char *base, bool any, int64_t threads,
                                      tri_infer *out);
#define TRI_INFER_THREADS(where)                                                                             \
  {                                                                                                          \
    "--threads", TRI_FLAG_I64, where, 1, 4096, "N",                                                          \
        "threads of each rank, at most its share of the cores (that share, or less by a cgroup's CPU "       \
        "quota, OMP_NUM_THREADS or OMP_THREAD_LIMIT)"                                                        \
  }
#define TRI_INFER_BASE(where)                                                                                \
  {                                                                                                          \
    "--base", TRI_FLAG_TEXT, where, 0, 0, "FOLDER",                                                          \
        "the model that a LoRA checkpoint's adapters are for (where it lay in the run)"                      \
  }
/* What the flags of conversations say. */
typedef struct tri_infer_conversation {
  const char *template;  /* as data.chat_template; NULL: that of the run's deck, else auto */
  tri_flag_texts kwargs; /* NAME=VALUE each; before those of the run's deck */
  const char    *tools; /* path of a JSON list, for conversations without their own; NULL: those of the run */
  const char    *system; /* as data.system_prompt; NULL: that of the run's deck */
  bool           texts;  /* a prompt that is text is the user's message */
} tri_infer_conversation;
/* The flags, of a tri_infer_talk: rows of a command's table. */
#define TRI_INFER_CONVERSATION_FLAGS(conversation)                                                           \
  {"--chat-template",                                                                                        \
   TRI_FLAG_TEXT,                                                                                            \
   &(conversation).template,                                                                                 \
   0,                                                                                                        \
   0,                                                                                                        \
   "NAME",                                                                                                   \
   "how lists of messages become text: auto, none, chatml, llama2, llama3, mistral, qwen2.5, qwen3, gemma, " \
   "zephyr or FILE.jinja (that of the run's deck, else auto, the model's own)"},                             \
      {"--template-kwarg",                                                                                   \
       TRI_FLAG_TEXTS,                                                                                       \
       &(conversation).kwargs,                                                                               \
       0,                                                                                                    \
       0,                                                                                                    \
       "N=V",                                                                                                \
       "a variable for the chat template by name and value: enable_thinking=false; may be given again"},     \
      {"--system",                                                                                           \
       TRI_FLAG_TEXT,                                                                                        \
       &(conversation).system,                                                                               \
       0,                                                                                                    \
       0,                                                                                                    \
       "TEXT",                                                                                               \
       "a message of the system for conversations without one (that of the run's deck)"},                    \
      {"--tools",                                                                                            \
       TRI_FLAG_TEXT,                                                                                        \
       &(conversation).tools,                                                                                \
       0,                                                                                                    \
       0,                                                                                                    \
       "F.json",                                                                                             \
       "a JSON list of tools for conversations whose lines have none (that of the run's deck)"},             \
  {                                                                                                          \
    "--apply-chat-template", TRI_FLAG_BOOL, &(conversation).texts, 0, 0, NULL,                               \
        "a prompt that is text is the user's message"                                                        \
  }
/* Not collective, after tri_infer_chat; rank 0 speaks. Prompts that are text and no conversation: a message
 * of the system is not put before them. */
void tri_infer_say_plain(const tri_infer *f);
/* Not collective. How conversations are rendered, before tri_infer_data. */
TRI_CHECKED tri_status tri_infer_chat(tri_infer *f, const tri_infer_conversation *conversation);

typedef struct tri_infer_size {
  const char *dtype;               /* "f32", "bf16", "fp16", or NULL: tri_source_dtype */
  int64_t     n_answers;           /* in all; 0: nothing is generated */
  int64_t     max_prompt, max_new; /* tokens */
  int64_t     max_score;           /* tokens of one forward; 0: nothing is scored */
  int64_t     longest_score;       /* and of its longest sequence */
} tri_infer_size;
/* Collective over world. Plans and takes memory, loads the weights. */
TRI_CHECKED tri_status tri_infer_ready(tri_infer *f, const tri_infer_size *size);
/* Collective over world. Answers to all prompts, on every rank, in order. set: what rewards them, example [n]
 * what they answer; NULL: nothing does. */
TRI_CHECKED tri_status tri_infer_generate(tri_infer *f, const tri_prompt *prompt, int n,
                                          const tri_generate_opt *opt, tri_reward_set *set,
                                          const tri_example *const *example, tri_rollout *out);
/* Collective over world; may not return. st: how the work ended (session.h). */
void tri_infer_leave(tri_infer *f, tri_status st);

/* Not collective; rank 0's. A warning about num greedy answers to a prompt, which are all alike. */
void tri_infer_warn_greedy(int64_t num, double temperature);
/* What data files are read with here: the source's tokenizer, vocabulary and context. */
tri_data_opt tri_infer_data(tri_infer *f, tri_data_kind kind);
/* Not collective. Tokens of an answer at most: as asked, or (0) what a prompt of `longest` tokens leaves of
 * the model's context, at most 128. TRI_EINPUT where it leaves too little. */
TRI_CHECKED tri_status tri_infer_space(const tri_infer *f, int64_t longest, int64_t asked, int64_t *max_new);

#endif
