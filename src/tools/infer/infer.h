/* infer.h - the common parts of generate, score and eval: a session, a model without training state, its
 * sampler. */
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
  tri_encoder  encoder;   /* with the source's tokenizer */
  tri_chat    *chat;      /* chat template */
  bool         texts;     /* copy of tri_infer_conversation.texts */
  char         today[16]; /* "2026-11-29", the same on all ranks */
} tri_infer;

/* Collective over MPI_COMM_WORLD. Opens the session and the model's small files. The caller then measures its
 * data and calls tri_infer_ready. `base` is the base model of a checkpoint's adapters. NULL takes its place
 * in the run. `any` accepts a model with a scalar head, which else gives TRI_EINPUT. `threads` is the number
 * of each rank, 0 for the default of session.h. `tensor` ranks of a node generate as one model, 0: 1. If it
 * is above 1, the ranks of a node share the weights. */
TRI_CHECKED tri_status tri_infer_open(const char *model, const char *base, bool any, int64_t threads,
                                      int64_t tensor, tri_infer *out);
#define TRI_INFER_THREADS(where)                                                                             \
  {                                                                                                          \
    "--threads", TRI_FLAG_I64, where, 1, 4096, "N",                                                          \
        "threads of each rank, at most its share of the cores (default that share, less under a cgroup "     \
        "CPU quota, OMP_NUM_THREADS or OMP_THREAD_LIMIT)"                                                    \
  }
#define TRI_INFER_TENSOR_NAME "--tensor-parallel-size"
#define TRI_INFER_TENSOR(where, what)                                                                        \
  { TRI_INFER_TENSOR_NAME, TRI_FLAG_I64, where, 1, 4096, "N", what }
/* For a command that generates. `otherwise` is its default. */
#define TRI_INFER_TENSOR_GENERATES(otherwise)                                                                \
  "ranks of a node that generate as one model, each with a part of every matrix. The answers are the same "  \
  "for every N. N must divide the ranks of a node, the model's heads, key/value heads, width and mlp "       \
  "(default " otherwise ")"
#define TRI_INFER_BASE(where)                                                                                \
  {                                                                                                          \
    "--base", TRI_FLAG_TEXT, where, 0, 0, "FOLDER",                                                          \
        "base model of adapters: of a LoRA checkpoint's (default its place in the run), or of those in a "   \
        "PEFT folder given as MODEL"                                                                         \
  }
/* The flags about conversations. */
typedef struct tri_infer_conversation {
  const char *template;  /* as data.chat_template. NULL takes that of the run's deck, else auto */
  tri_flag_texts kwargs; /* NAME=VALUE each. They override those of the run's deck */
  const char    *tools;  /* path of a JSON list, for conversations without tools of their own. NULL takes the
                         * run's */
  const char    *system; /* as data.system_prompt. NULL takes that of the run's deck */
  bool           texts;  /* a plain text prompt becomes the user's message */
} tri_infer_conversation;
/* Rows of a command's flag table for a tri_infer_conversation. */
#define TRI_INFER_CONVERSATION_FLAGS(conversation)                                                           \
  {"--chat-template",                                                                                        \
   TRI_FLAG_TEXT,                                                                                            \
   &(conversation).template,                                                                                 \
   0,                                                                                                        \
   0,                                                                                                        \
   "NAME",                                                                                                   \
   "chat template for lists of messages: auto, none, chatml, llama2, llama3, mistral, qwen2.5, qwen3, "      \
   "gemma, zephyr or FILE.jinja (default that of the run's deck, else auto, the model's own)"},              \
      {"--template-kwarg",                                                                                   \
       TRI_FLAG_TEXTS,                                                                                       \
       &(conversation).kwargs,                                                                               \
       0,                                                                                                    \
       0,                                                                                                    \
       "N=V",                                                                                                \
       "set a variable of the chat template, such as enable_thinking=false. May be repeated"},               \
      {"--system",                                                                                           \
       TRI_FLAG_TEXT,                                                                                        \
       &(conversation).system,                                                                               \
       0,                                                                                                    \
       0,                                                                                                    \
       "TEXT",                                                                                               \
       "system message for conversations without one (default that of the run's deck)"},                     \
      {"--tools",                                                                                            \
       TRI_FLAG_TEXT,                                                                                        \
       &(conversation).tools,                                                                                \
       0,                                                                                                    \
       0,                                                                                                    \
       "F.json",                                                                                             \
       "JSON list of tools for conversations without their own (default that of the run's deck)"},           \
  {                                                                                                          \
    "--apply-chat-template", TRI_FLAG_BOOL, &(conversation).texts, 0, 0, NULL,                               \
        "make a plain text prompt the user's message"                                                        \
  }
/* Not collective, call it after tri_infer_chat. Rank 0 warns that the system message is not put before plain
 * text prompts, if there is one. */
void tri_infer_say_plain(const tri_infer *f);
/* Not collective, call it before tri_infer_data. Opens the chat template. */
TRI_CHECKED tri_status tri_infer_chat(tri_infer *f, const tri_infer_conversation *conversation);

typedef struct tri_infer_size {
  const char *dtype;               /* "f32", "bf16" or "fp16". NULL takes tri_source_dtype */
  int64_t     n_answers;           /* answers to all prompts on all ranks, 0 without generation */
  int64_t     max_prompt, max_new; /* tokens */
  int64_t     max_score;           /* tokens of one forward pass, 0 without scoring */
  int64_t     longest_score;       /* tokens of its longest sequence */
} tri_infer_size;
/* Collective over world. Plans and allocates memory, then loads the weights. */
TRI_CHECKED tri_status tri_infer_ready(tri_infer *f, const tri_infer_size *size);
/* Collective over world. Generates answers to all prompts. Every rank gets all of them, in order. `set` holds
 * the rewards, and example [n] the data lines of the prompts. With set NULL nothing is rewarded. */
TRI_CHECKED tri_status tri_infer_generate(tri_infer *f, const tri_prompt *prompt, int n,
                                          const tri_generate_opt *opt, tri_reward_set *set,
                                          const tri_example *const *example, tri_rollout *out);
/* Collective over world, may not return (session.h). `st` is the status of the work. */
void tri_infer_leave(tri_infer *f, tri_status st);

/* Not collective, call it on rank 0. Warns if num > 1 answers per prompt are greedy, since they are all the
 * same. */
void tri_infer_warn_greedy(int64_t num, double temperature);
/* Options to read data files with the source's tokenizer, vocabulary and context length. */
tri_data_opt tri_infer_data(tri_infer *f, tri_data_kind kind);
/* Not collective. Sets *max_new, the most tokens of an answer, to `asked`. With asked 0 it is the rest of the
 * context after a prompt of `longest` tokens, and at most 128. Returns TRI_EINPUT if the context is too
 * short. */
TRI_CHECKED tri_status tri_infer_space(const tri_infer *f, int64_t longest, int64_t asked, int64_t *max_new);

#endif
