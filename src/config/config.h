/* config.h - the deck after defaults and checks; every option is one row of a table. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CONFIG_H
#define TRI_CONFIG_H

#include "algo/algo.h"
#include "base/error_list.h"
#include "base/tensor.h"
#include "family/model_shape.h"
#include "io/data/dataset.h"
#include "io/text/deck.h"
#include "reward/reward.h"
#include "state/optim.h"
#include "state/shard.h"

/* Values of the options that are a choice, in the order of the words of their keys (run.sampler,
 * model.recompute); of others see algo.h, optim.h, dataset.h, tensor.h, shard.h. */
typedef enum { TRI_CONFIG_EXACT, TRI_CONFIG_RESCORE, TRI_CONFIG_TRUST } tri_config_sampler;
typedef enum { TRI_CONFIG_KEEP_ALL, TRI_CONFIG_RECOMPUTE_LAYER } tri_config_recompute;
typedef enum { TRI_CONFIG_TRAIN_LAST, TRI_CONFIG_TRAIN_ALL } tri_config_train_on;
typedef enum {
  TRI_CONFIG_OFFLOAD_NONE,
  TRI_CONFIG_OFFLOAD_OPTIMIZER,
  TRI_CONFIG_OFFLOAD_FROZEN,
  TRI_CONFIG_OFFLOAD_ALL
} tri_config_offload;

enum { TRI_CONFIG_OWN_PLAN = -1 };
/* Chosen: a dozen metrics of each set fit into a line (metrics.h); so do a name and any of their ends. */
enum { TRI_CONFIG_EVAL_SETS = 16, TRI_CONFIG_EVAL_NAME_BYTES = 33 };

typedef struct tri_config_list {
  char **item; /* [n] */
  int    n;
} tri_config_list;

/* Text is owned, and NULL where it was not given. Counts that may be left out are 0 then. Choices are the
 * enums, each as wide as int. */
typedef struct tri_config {
  struct {
    char           *output;
    uint64_t        seed;
    int             device;                  /* which word of run.device: where the work is done */
    int64_t         ranks_per_node, threads; /* ranks, 0: as the machine says; threads, 0: share of cores */
    char           *resume;                  /* "auto", "never" or a path */
    tri_config_list allow_changes;           /* names of keys, or "reward" */
    tri_config_sampler sampler;              /* whose old log-probabilities count */
    int64_t            log_every;            /* steps */
    bool               tensorboard;          /* an event file beside metrics.jsonl */
    double             timeout_s;            /* s that a rank is waited for, 0: for ever */
    int64_t            trace_steps;          /* steps, 0: never */
    /* Which words: tri_config_choose. */
    int cpu_kernels, cpu_f32, cpu_bf16, collectives, cuda_attention_backward;
  } run;
  struct {
    char     *path, *config, *tokenizer; /* path, or config (and tokenizer unless the data is tokens) */
    tri_dtype dtype;                     /* TRI_F32, TRI_BF16 or TRI_F16 */
    tri_config_recompute recompute;      /* instead of keeping what backward needs */
    tri_rope_factors     rope_factors;   /* of a model with longrope */
    char                *ref_path;       /* NULL: the starting policy */
  } model;
  struct {
    int64_t         rank;    /* 0: none, but where path is given: then it is the file's */
    double          alpha;   /* 0: as rank */
    tri_config_list targets; /* modules; n 0: all linear ones */
    char           *path;    /* a folder of PEFT's; NULL: new adapters */
  } lora;
  struct {
    tri_config_list train, train_weights, eval, eval_names;
    char           *prompt_key, *answer_key, *completion_key, *chosen_key, *rejected_key, *label_key;
    bool            shuffle;
    int64_t         max_prompt_length; /* tokens, 0: no limit */
    tri_overlong    overlong_prompt;   /* what becomes of a longer one */
    int64_t         max_length;        /* tokens of a whole line, 0: the model's context */
    tri_overlong    overlong;          /* treatment of a longer one */
    int64_t         max_line_bytes;
    char           *chat_template;        /* of conversations: one of TRI_CHAT_WORDS, or the path of a file */
    char           *chat_template_kwargs; /* variables for it, a JSON object; NULL: none */
    char *chat_template_date;     /* the day that it may write, "2026-11-29"; NULL: that of the first start */
    char *system_prompt;          /* message of conversations that have none; NULL: none */
    char *tools, *tools_key;      /* path of a JSON list, NULL: none; field of a line */
    bool  apply_chat_template;    /* text is a message too */
    bool  apply_is_default;       /* the deck does not say that */
    tri_config_train_on train_on; /* turns of the assistant that are learned */
  } data;
  struct {
    tri_algo     row;                     /* the named one, with the deck's own advantage and policy loss */
    char        *name;                    /* row.name */
    char        *advantage, *policy_loss; /* names of row's; NULL where there are no answers */
    int64_t      num_generations;         /* answers per prompt */
    int64_t      ppo_epochs;              /* passes over one rollout */
    double       ema_beta;                /* of the policy's average, 0: none */
    tri_algo_opt opt;
  } algo;
  struct {
    int64_t         rollout_batch_size;  /* prompts per rollout */
    int64_t         max_response_length; /* tokens */
    double          temperature;         /* 0: greedy */
    int64_t         top_k;               /* tokens, 0: off */
    double          top_p;
    tri_config_list stop;
    int64_t         max_sequences; /* decoded at once per rank, 0: as memory allows */
    int64_t         save_every;    /* steps, 0: never */
    char           *replay;        /* folder, NULL: generate */
    bool    dynamic_sampling;      /* ask for more prompts where the answers to one are all worth the same */
    int64_t max_extra_batches;     /* times a step asks for that, at most */
  } rollout;
  struct {
    int            n;
    tri_reward_opt item[TRI_REWARDS_MAX];
  } reward;
  struct {
    int64_t       steps, epochs;               /* one of them is 0 */
    int64_t       train_batch_size;            /* samples, 0: derived */
    int64_t       micro_batch_size;            /* samples, 0: derived */
    int64_t       gradient_accumulation_steps; /* passes, 0: derived */
    int64_t       max_tokens_per_gpu;          /* tokens, 0: off */
    tri_lr_opt    lr;                          /* warmup 0: see warmup_ratio; total: of the trainer */
    double        warmup_ratio;                /* share of the updates; 0: see lr.warmup */
    tri_optim_opt optim;
    bool          rate_is_default; /* the deck has no learning_rate: lr.peak is the algorithm's default */
  } train;
  struct {
    char          *path; /* NULL: as the policy begins */
    double         learning_rate;
    int64_t        warmup_steps; /* steps in which it learns alone */
    bool           lora;         /* it has adapters where the policy has them */
    int            plan;         /* as shard.plan; TRI_CONFIG_OWN_PLAN: not given */
    tri_shard_plan scope;        /* what came of it, or shard's */
  } critic;
  struct {
    int            plan; /* as the critic's */
    tri_shard_plan scope;
  } reference;
  struct {
    int                plan; /* which word of shard.plan; TRI_CONFIG_OWN_PLAN: the three scopes were given */
    tri_shard_plan     scope;
    tri_config_offload offload;
  } shard;
  struct {
    int64_t save_steps;   /* steps, 0: never */
    double  save_minutes; /* minutes, 0: never */
    int64_t save_total_limit;
    bool    save_final;
    bool    async;
    char   *keep_best; /* a metric of evaluations; NULL: none */
  } checkpoint;
  struct {
    int64_t steps;       /* between evaluations, 0: never */
    int64_t max_prompts; /* 0: all */
    int64_t num_generations;
    double  temperature; /* 0: greedy */
    bool    save;        /* the answers of each, as a file */
  } eval;
} tri_config;

typedef enum {
  TRI_KEY_BOOL,   /* bool */
  TRI_KEY_I64,    /* int64_t */
  TRI_KEY_U64,    /* uint64_t */
  TRI_KEY_F64,    /* double */
  TRI_KEY_TEXT,   /* char * */
  TRI_KEY_LIST,   /* tri_config_list */
  TRI_KEY_CHOICE, /* an enum */
  TRI_KEY_MAP,    /* char *, a JSON object */
  TRI_KEY_TYPE_COUNT
} tri_key_type;

/* What becomes of a resume that changes the option. */
typedef enum {
  TRI_CHANGE_REFUSED = 1, /* it is part of the experiment: run.allow_changes must name it */
  TRI_CHANGE_LISTED,      /* it is said, and the run goes on */
  TRI_CHANGE_HERE         /* nothing: it belongs to this start, not to the run */
} tri_key_change;

/* Of use where the advantage or the loss lists the key; where there is a critic; where there can be a
 * reference. Bits beside TRI_NEEDS_*. */
enum { TRI_KEY_BY_ALGO = 1 << 30, TRI_KEY_OF_CRITIC = 1 << 29, TRI_KEY_OF_REFERENCE = 1 << 28 };

/* The parser, --help, the range checks, inputs/reference.yaml and the deck as used are all this table. */
typedef struct tri_key {
  const char  *name; /* "train.learning_rate" */
  tri_key_type type;
  unsigned needs; /* of use to algorithms that live on one of these TRI_NEEDS_*; TRI_KEY_BY_ALGO; 0: to all */
  tri_key_change change;
  /* Returns why the key has no effect in this deck, or NULL where it has one. NULL: it always has one. */
  const char *(*idle_if)(const tri_config *c);
  size_t offset; /* into tri_config */
  /* An interval such as "(0, inf)", or "a|b|c" for a choice; "" for bool. For text: "", or the words it may
   * be. Their last, FILE.END, stands for a path. */
  const char *range;
  const char *def;  /* as text; NULL: not given unless the user says */
  /* The unit of a number, such as "tokens". The kind of a text or of the items of a list, such as "path".
   * "": the number has no unit, the text no special kind. Never NULL. */
  const char *unit;
  const char *help;
} tri_key;
extern const tri_key tri_keys[];
extern const int     tri_n_keys;

/* Not collective. Read the deck at `path` with `args` ("section.key=value") over it. TRI_ECONFIG, with
 * FILE:LINE or the argument, for a key that is unknown, repeated, contradicted, out of range or of no use
 * to the algorithm. `notes`, which may be NULL, gets one line, ended by \n, for each spelling of another
 * program. *out is to be freed, also after a failure. */
TRI_CHECKED tri_status tri_config_load(const char *path, char *const *args, int n_args, tri_config *out,
                                       tri_text *notes);
/* Bits of tri_errors.about: sections whose keys have errors. */
enum {
  TRI_CONFIG_ABOUT_ALGO = 1,
  TRI_CONFIG_ABOUT_MODEL = 2,
  TRI_CONFIG_ABOUT_DATA = 4,
  TRI_CONFIG_ABOUT_REWARD = 8
};
enum { TRI_CONFIG_MOST_ERRORS = 20 }; /* chosen: messages about keys that are shown; the rest is counted */

/* Not collective. The same, but what is wrong does not end it where `errors` is not NULL: each key, then the
 * values together, are looked at, and each error is added. With any, *out is of use to tri_trainer_look
 * alone: a key wrong has its default, and errors->about says where such keys are. */
TRI_CHECKED tri_status tri_config_load_all(const char *path, char *const *args, int n_args, tri_config *out,
                                           tri_text *notes, tri_errors *errors);
/* Not collective. As tri_config_load_all, from n bytes; `name` stands for the file in messages. */
TRI_CHECKED tri_status tri_config_load_text(const char *name, const char *bytes, size_t n, tri_config *out,
                                            tri_text *notes, tri_errors *errors);
/* Not collective. The same from an open deck, that of a checkpoint: its paths need not be here, and ~ or $ in
 * them is what they are called. In the three above these are refused unless there is a file or folder of that
 * name. */
TRI_CHECKED tri_status tri_config_from_deck(const tri_deck *deck, tri_config *out, tri_text *notes);
void                   tri_config_free(tri_config *c);
enum { TRI_CONFIG_WORD_BYTES = 64 }; /* chosen: the longest word of a choice is seq-mean-token-sum-norm */
/* Not collective. The word of a choice that a member of tri_config stands for: "cpu" of run.device. */
void tri_config_word(const char *key, int value, char out[TRI_CONFIG_WORD_BYTES]);
/* Not collective, before the device is opened. Makes run.cpu_kernels, run.cpu_f32, run.cpu_bf16,
 * run.collectives and run.cuda_attention_backward the choices of this process (base/choice.h). */
void tri_config_choose(const tri_config *c);
/* Not collective. Whether learning compares with a reference policy. */
bool tri_config_wants_reference(const tri_config *c);
/* Not collective. Whether low-rank adapters learn, beside frozen weights. */
bool tri_config_has_lora(const tri_config *c);
/* Not collective. Whether the reference is the policy without its adapters: no model of its own. */
bool tri_config_reference_is_base(const tri_config *c);
/* Not collective. The folder of the reward model (reward: - name: model), or NULL; also where nothing is
 * rewarded. */
const char *tri_config_reward_model(const tri_config *c);
/* Not collective. Whether advantages need a critic. */
bool tri_config_wants_critic(const tri_config *c);

/* Not collective. Append these keys [NULL at the end], which the algorithm reads, without their section:
 * "beta 0.1, sft_coef 0". */
TRI_CHECKED tri_status tri_config_put_options(const tri_config *c, const char *const *option, tri_text *out);
/* Not collective. Append the deck as used: every key; null where the algorithm has no use for it or it
 * follows from others. Loading the text gives the same tri_config, bit for bit. */
TRI_CHECKED tri_status tri_config_print(const tri_config *c, tri_text *out);
/* What differs between the deck of a checkpoint and that of a run which goes on from it. Zero-initialise;
 * tri_config_changes_free leaves it zeroed. */
typedef struct tri_config_changes {
  tri_text listed;   /* "\n  key: before -> now" for each change with which the run goes on */
  tri_text refused;  /* the same for each with which it must not */
  tri_text keys;     /* the keys of refused: "run.seed, data.train" */
  bool     for_good; /* one of them says what the adapters are: run.allow_changes cannot name it */
} tri_config_changes;
/* What a checkpoint says of the run before; all borrowed. */
typedef struct tri_config_past {
  const tri_config *deck;
  const char *folder;    /* where it was started, for paths that are relative; NULL: where this process was */
  bool        same_data; /* data.train holds the lines it held, wherever they lie now */
  /* Of the files that both decks name (io/model/fingerprint.h), by the keys of tri_config_inputs; "": not
   * known. */
  const char *inputs, *inputs_now;
} tri_config_past;
/* Not collective. Appends the fingerprints of the models, adapters and reward files that the deck names. */
TRI_CHECKED tri_status tri_config_inputs(const tri_config *c, tri_text *out);
/* Not collective. Both decks as used. What now.run.allow_changes names is listed, not refused, as is other
 * paths' data.train of the same lines. Paths of one file are equal however they are spelled, and those of
 * files of the same bytes; at one path other bytes are a change. */
TRI_CHECKED tri_status tri_config_compare(const tri_config_past *before, const tri_config *now,
                                          tri_config_changes *out);
/* Not collective. The number that data.train_weights gives file i. */
double tri_config_train_weight(const tri_config *c, int i);
/* Whether run.allow_changes names the key. Not collective. */
bool tri_config_allows(const tri_config *c, const char *key);
void tri_config_changes_free(tri_config_changes *c);

/* Not collective. Append inputs/reference.yaml. */
TRI_CHECKED tri_status tri_config_reference(tri_text *out);
/* Not collective. Append one line per option, for --help. */
TRI_CHECKED tri_status tri_config_help(tri_text *out);

#endif
