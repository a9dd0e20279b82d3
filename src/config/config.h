/* config.h - the deck after defaults and checks. Every option is one row of a table. Not collective, all that
 * follow, unless they say Collective. */
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

/* Values of the options with a choice of words, in the order of the words of their keys (run.sampler,
 * model.recompute). algo.h, optim.h, dataset.h, tensor.h and shard.h have the others. */
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
/* Chosen so that a dozen metrics of each set fit into a line (metrics.h), and a name with any suffix too. */
enum { TRI_CONFIG_EVAL_SETS = 16, TRI_CONFIG_EVAL_NAME_BYTES = 33 };

typedef struct tri_config_list {
  char **item; /* [n] */
  int    n;
} tri_config_list;

/* Owns its texts. A text that was not given is NULL, a count that may be left out is 0. Choices are the
 * enums, each as wide as int. */
typedef struct tri_config {
  struct {
    char              *output;
    uint64_t           seed;
    int                device;                  /* number of the word of run.device, the processor type */
    int64_t            ranks_per_node, threads; /* 0 for the real nodes, 0 for a share of the cores */
    char              *resume;                  /* "auto", "never" or a path */
    tri_config_list    allow_changes;           /* names of keys, or "reward" */
    tri_config_sampler sampler;                 /* source of the old log-probabilities */
    int64_t            log_every;               /* steps */
    bool               tensorboard;             /* an event file beside metrics.jsonl */
    double             timeout_s;               /* s to wait for a rank, 0 for ever */
    int64_t            trace_steps;             /* steps, 0 for never */
    /* Numbers of the words of their keys. tri_config_choose applies them. */
    int cpu_kernels, cpu_f32, cpu_bf16, collectives, cuda_attention_backward;
  } run;
  struct {
    char     *path, *config, *tokenizer; /* path, or config (and tokenizer unless the data is tokens) */
    tri_dtype dtype;                     /* TRI_F32, TRI_BF16 or TRI_F16 */
    tri_config_recompute recompute;      /* instead of keeping the activations for backward */
    tri_rope_factors     rope_factors;   /* for a model with longrope */
    char                *ref_path;       /* NULL for the starting policy */
  } model;
  struct {
    int64_t         rank;    /* 0 for none. With path it is the rank in the file */
    double          alpha;   /* 0 with path, whose file gives it. Default in config.c */
    tri_config_list targets; /* modules. n is 0 for all linear ones */
    char           *path;    /* a PEFT folder. NULL for new adapters */
  } lora;
  struct {
    tri_config_list     train, train_weights, eval, eval_names;
    char               *prompt_key, *answer_key, *completion_key, *chosen_key, *rejected_key, *label_key;
    bool                shuffle;
    int64_t             max_prompt_length; /* tokens, 0 for no limit */
    tri_overlong        overlong_prompt;   /* treatment of a longer one */
    int64_t             max_length;        /* tokens of a whole line, 0 for the model's context */
    tri_overlong        overlong;          /* treatment of a longer one */
    int64_t             max_line_bytes;
    char               *chat_template;        /* a word of TRI_CHAT_WORDS or the path of a file */
    char               *chat_template_kwargs; /* variables for it, a JSON object. NULL for none */
    char               *chat_template_date;   /* "2026-11-29". NULL for the day of the first start */
    char               *system_prompt;        /* message for conversations without one. NULL for none */
    char               *tools, *tools_key;    /* path of a JSON list, NULL for none. Field of a line */
    bool                apply_chat_template;  /* a text is a message too */
    bool                apply_is_default;     /* the deck does not give apply_chat_template */
    tri_config_train_on train_on;             /* turns of the assistant to learn */
  } data;
  struct {
    tri_algo     row;                     /* the row of algo.name with the deck's own parts */
    char        *name;                    /* row.name */
    char        *advantage, *policy_loss; /* names of row's parts. NULL without answers */
    int64_t      num_generations;         /* answers per prompt */
    int64_t      ppo_epochs;              /* passes over one rollout */
    double       ema_beta;                /* decay of the policy's average, 0 for none */
    tri_algo_opt opt;
  } algo;
  struct {
    int64_t         rollout_batch_size;  /* prompts per rollout */
    int64_t         max_response_length; /* tokens */
    double          temperature;         /* 0 is greedy */
    int64_t         top_k;               /* tokens, 0 for all */
    double          top_p;
    tri_config_list stop;
    int64_t         max_sequences;     /* decoded at once per rank, 0 for as memory allows */
    int64_t         max_cached_tokens; /* tokens in a rank's key/value cache, 0 for as memory allows */
    int64_t         save_every;        /* steps, 0 for never */
    char           *replay;            /* folder, NULL to generate */
    bool            dynamic_sampling;  /* request more prompts for groups of equal rewards */
    int64_t         max_extra_batches; /* most further requests of a step */
  } rollout;
  struct {
    int            n;
    tri_reward_opt item[TRI_REWARDS_MAX];
  } reward;
  struct {
    int64_t       steps, epochs;               /* one of them is 0 */
    int64_t       train_batch_size;            /* samples, 0 if derived */
    int64_t       micro_batch_size;            /* samples, 0 if derived */
    int64_t       gradient_accumulation_steps; /* micro-batches, 0 if derived */
    int64_t       max_tokens_per_gpu;          /* tokens, 0 for off */
    tri_lr_opt    lr;                          /* warmup 0 if warmup_ratio gives it, total by trainer */
    double        warmup_ratio;                /* share of the updates, 0 if lr.warmup gives it */
    tri_optim_opt optim;
    bool          rate_is_default; /* the deck has no learning_rate, so lr.peak is the algorithm's default */
  } train;
  struct {
    char          *path; /* NULL to start as the policy does */
    double         learning_rate;
    int64_t        warmup_steps; /* steps for the critic alone */
    bool           lora;         /* it has adapters if the policy has them */
    int            plan;         /* as shard.plan. TRI_CONFIG_OWN_PLAN if not given */
    tri_shard_plan scope;        /* the resulting scopes, or those of shard */
  } critic;
  struct {
    int            plan; /* as for the critic */
    tri_shard_plan scope;
  } reference;
  struct {
    int                plan; /* word of shard.plan. TRI_CONFIG_OWN_PLAN with scopes */
    tri_shard_plan     scope;
    tri_config_offload offload;
    int64_t            tensor_parallel_size; /* ranks of a node that generate as one model */
  } shard;
  struct {
    int64_t save_steps;   /* steps, 0 for never */
    double  save_minutes; /* minutes, 0 for never */
    int64_t save_total_limit;
    bool    save_final;
    bool    async;
    char   *keep_best; /* a metric of evaluations. NULL for none */
  } checkpoint;
  struct {
    int64_t steps;       /* between evaluations, 0 for never */
    int64_t max_prompts; /* 0 for all */
    int64_t num_generations;
    double  temperature; /* 0 is greedy */
    bool    save;        /* write the answers of each to a file */
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

/* The effect on a resume that changes the option. */
typedef enum {
  TRI_CHANGE_REFUSED = 1, /* refused unless run.allow_changes names it, because it defines the experiment */
  TRI_CHANGE_LISTED,      /* reported, and the run goes on */
  TRI_CHANGE_HERE         /* none, because it belongs to this start, not to the run */
} tri_key_change;

/* Bits beside TRI_NEEDS_*. The option is for algorithms whose advantage or loss lists the key, for those with
 * a critic, or for those with a possible reference. */
enum { TRI_KEY_BY_ALGO = 1 << 30, TRI_KEY_OF_CRITIC = 1 << 29, TRI_KEY_OF_REFERENCE = 1 << 28 };

/* The parser, --help, the range checks, inputs/reference.yaml and the deck as used all read this table. */
typedef struct tri_key {
  const char    *name; /* "train.learning_rate" */
  tri_key_type   type;
  unsigned       needs; /* bits of the algorithms that use the key: TRI_NEEDS_* or TRI_KEY_*. 0 for all */
  tri_key_change change;
  /* Returns the reason why the key has no effect in this deck, or NULL if it has one. NULL if it always has
   * one. */
  const char *(*idle_if)(const tri_config *c);
  size_t offset; /* into tri_config */
  /* An interval such as "(0, inf)" for a number or the numbers of a list, "a|b|c" for a choice, "" for bool.
   * For a text "", or the words it may be. The last word may be FILE.END, which stands for a path. */
  const char *range;
  const char *def; /* as text. NULL if the key has no default */
  /* The unit of a number, such as "tokens". The kind of a text or of the items of a list, such as "path". ""
   * for a number without a unit and a text of no special kind. Never NULL. */
  const char *unit;
  const char *help;
} tri_key;
extern const tri_key tri_keys[];
extern const int     tri_n_keys;

/* Reads the deck at `path` with `args` ("section.key=value") over it. Returns TRI_ECONFIG, with FILE:LINE or
 * the argument, for a key that is unknown, repeated, contradicted, out of range or unused by the algorithm.
 * `notes` may be NULL. It gets one line, ended by \n, for each spelling of another program, and one that
 * begins with "warning: " for each key without effect or with a surprising one. The caller frees *out, also
 * after a failure. */
TRI_CHECKED tri_status tri_config_load(const char *path, char *const *args, int n_args, tri_config *out,
                                       tri_text *notes);
/* Not collective. On rank 0, logs the notes of a deck, warnings as warnings and the others as information. */
void tri_config_say_notes(const tri_text *notes);
/* Bits of tri_errors.about. Each stands for sections with errors in their keys. */
enum {
  TRI_CONFIG_ABOUT_ALGO = 1,
  TRI_CONFIG_ABOUT_MODEL = 2,
  TRI_CONFIG_ABOUT_DATA = 4,
  TRI_CONFIG_ABOUT_REWARD = 8
};
enum { TRI_CONFIG_MOST_ERRORS = 20 }; /* chosen: most messages about keys to show. The rest is counted */

/* As tri_config_load, but if `errors` is not NULL an error does not end the reading. It reads each key, then
 * checks the values together, and adds each error to `errors`. After an error only tri_trainer_look may use
 * *out. A wrong key then has its default, and errors->about has the sections of such keys. */
TRI_CHECKED tri_status tri_config_load_all(const char *path, char *const *args, int n_args, tri_config *out,
                                           tri_text *notes, tri_errors *errors);
/* As tri_config_load_all, from n bytes. `name` stands for the file in messages. */
TRI_CHECKED tri_status tri_config_load_text(const char *name, const char *bytes, size_t n, tri_config *out,
                                            tri_text *notes, tri_errors *errors);
/* As tri_config_load, from the open deck of a checkpoint. Its paths need not exist here, and ~ or $ in them
 * are taken literally. The three functions above refuse such a path unless a file or folder has that name. */
TRI_CHECKED tri_status tri_config_from_deck(const tri_deck *deck, tri_config *out, tri_text *notes);
void                   tri_config_free(tri_config *c);
enum { TRI_CONFIG_WORD_BYTES = 64 }; /* chosen: the longest word of a choice is seq-mean-token-sum-norm */
/* Writes the word of a choice for the value of a member of tri_config, such as "cpu" for run.device. */
void tri_config_word(const char *key, int value, char out[TRI_CONFIG_WORD_BYTES]);
/* Not collective, before the device is opened. Makes run.cpu_kernels, run.cpu_f32, run.cpu_bf16,
 * run.collectives and run.cuda_attention_backward the choices of this process (base/choice.h). */
void tri_config_choose(const tri_config *c);
/* Returns whether learning compares with a reference policy. */
bool tri_config_wants_reference(const tri_config *c);
/* Returns whether low-rank adapters learn beside frozen weights. */
bool tri_config_has_lora(const tri_config *c);
/* Returns whether the reference is the policy without its adapters, so that no further model is needed. */
bool tri_config_reference_is_base(const tri_config *c);
/* Returns the folder of the reward model (reward: - name: model). NULL without one, or if nothing is
 * rewarded. */
const char *tri_config_reward_model(const tri_config *c);
/* Returns whether advantages need a critic. */
bool tri_config_wants_critic(const tri_config *c);

/* Appends these keys [NULL at the end] without their section, such as "beta 0.1, sft_coef 0". The algorithm
 * must read them. */
TRI_CHECKED tri_status tri_config_put_options(const tri_config *c, const char *const *option, tri_text *out);
/* Appends the deck as used, with every key. A key is null if the algorithm has no use for it or other keys
 * determine it. Loading the text gives the same tri_config, bit for bit. */
TRI_CHECKED tri_status tri_config_print(const tri_config *c, tri_text *out);
/* The differences between the deck of a checkpoint and the deck of a run that resumes from it.
 * Zero-initialise it. tri_config_changes_free leaves it zeroed. */
typedef struct tri_config_changes {
  tri_text listed;   /* "\n key: before -> now" for each permitted change */
  tri_text refused;  /* the same for each refused change */
  tri_text keys;     /* the keys of refused, "run.seed, data.train" */
  bool     for_good; /* a refused key defines the adapters, so run.allow_changes cannot name it */
} tri_config_changes;
/* A checkpoint's description of the earlier run. All is borrowed. */
typedef struct tri_config_past {
  const tri_config *deck;
  const char       *folder;    /* folder of its start, for relative paths. NULL for this process's folder */
  bool              same_data; /* data.train has the same lines as before, wherever they lie now */
  /* Fingerprints (io/model/fingerprint.h) of the files that both decks name, by the keys of
   * tri_config_inputs. "" if unknown. */
  const char *inputs, *inputs_now;
} tri_config_past;
/* Appends the fingerprints of the models, adapters and reward files named by the deck. */
TRI_CHECKED tri_status tri_config_inputs(const tri_config *c, tri_text *out);
/* Compares two decks as used. A change named by now.run.allow_changes is listed, not refused. So is another
 * path of data.train with the same lines. Paths of one file are equal however they are spelled, and so are
 * paths of files with the same bytes. Other bytes at one path are a change. */
TRI_CHECKED tri_status tri_config_compare(const tri_config_past *before, const tri_config *now,
                                          tri_config_changes *out);
/* Returns the number of data.train_weights for file i. */
double tri_config_train_weight(const tri_config *c, int i);
/* Returns whether run.allow_changes names the key. */
bool tri_config_allows(const tri_config *c, const char *key);
void tri_config_changes_free(tri_config_changes *c);

/* Appends inputs/reference.yaml. */
TRI_CHECKED tri_status tri_config_reference(tri_text *out);
/* Appends one line per option, for --help. */
TRI_CHECKED tri_status tri_config_help(tri_text *out);
/* Appends the names of algorithms, rewards and keys as one JSON object. Each algorithm list and each key has
 * its own line. */
TRI_CHECKED tri_status tri_config_help_json(tri_text *out);

#endif
