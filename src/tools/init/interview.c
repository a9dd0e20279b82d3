/* interview.c - collects the choices for a deck and its job from flags, Slurm, the files and a person. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "interview.h"
#include "base/error_list.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "init_ask.h"
#include "base/file.h"
#include "base/visible.h"
#include "comm/slurm.h"
#include "io/tokenizer/tokenizer.h"
#include "machine/machine.h"
#include "device/device.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_S = 5, SUGGESTED_BYTES = 128 }; /* chosen. A busy controller answers in a second or two */

/* ---- paths ---- */

/* Appends the current folder as the shell names it, because other nodes may need its links. Otherwise as the
 * system names it. */
static tri_status put_here(tri_text *out) {
  const char *shell = getenv("PWD");
  struct stat a, b;
  char        buffer[4096];

  if (shell && shell[0] == '/' && !stat(shell, &a) && !stat(".", &b) && a.st_dev == b.st_dev &&
      a.st_ino == b.st_ino)
    return tri_text_printf(out, "%s", shell);
  if (!getcwd(buffer, sizeof buffer)) TRI_FAIL(TRI_EFILE, "the current folder has no readable path");
  return tri_text_printf(out, "%s", buffer);
}

/* Returns whether ".." behind an absolute path leads to the folder before its last name. A link does not. */
static bool can_go_up(const char *path) {
  const char *last = strrchr(path, '/');
  struct stat st;

  return last && strcmp(last, "/..") != 0 && !lstat(path, &st) && S_ISDIR(st.st_mode);
}

/* Removes "." and empty names from an absolute path, and ".." with the name before it if possible. */
static void tidy(char *path) {
  size_t to = 0, n; /* to: end of the part kept so far */

  for (const char *at = path + strspn(path, "/"); *at; at += n, at += strspn(at, "/")) {
    bool up = at[0] == '.' && at[1] == '.' && (at[2] == '/' || !at[2]);
    n = strcspn(at, "/");
    if ((n == 1 && at[0] == '.') || (up && !to)) continue;
    path[to] = '\0';
    if (up && can_go_up(path)) {
      to = (size_t)(strrchr(path, '/') - path);
      continue;
    }
    path[to++] = '/';
    memmove(path + to, at, n);
    to += n;
  }
  if (!to) path[to++] = '/';
  path[to] = '\0';
}

tri_status tri_interview_path(const char *path, tri_text *out) {
  size_t begin = out->len;
  char   shown[TRI_MESSAGE_BYTES];

  if (path[0] != '/') {
    TRI_TRY(put_here(out));
    TRI_TRY(tri_text_put(out, "/", 1));
  }
  TRI_TRY(tri_text_put(out, path, strlen(path)));
  tidy(out->data + begin);
  out->len = begin + strlen(out->data + begin);
  tri_visible(out->data + begin, out->len - begin, "", shown, sizeof shown);
  if (strcmp(shown, out->data + begin) != 0)
    TRI_FAIL(TRI_EINPUT, "%s: paths in a deck must not contain such characters", out->data + begin);
  return TRI_OK;
}

/* ---- suggestions ---- */

static void suggest_device(const tri_interview *v, char *out) {
  bool gpus = v->cluster.n_kind ? tri_cluster_find(&v->cluster, v->given[TRI_ASK_PARTITION], true) != NULL
                                : strcmp(tri_device_auto(), tri_device_host()) != 0;

  snprintf(out, SUGGESTED_BYTES, "%s", gpus ? "cuda" : "cpu");
}

static void suggest_partition(const tri_interview *v, char *out) {
  const tri_cluster_nodes *k = tri_cluster_find(&v->cluster, NULL, v->cuda);

  if (k) snprintf(out, SUGGESTED_BYTES, "%s", k->partition);
}

static void suggest_nodes(const tri_interview *v, char *out) {
  (void)v;
  snprintf(out, SUGGESTED_BYTES, "1");
}

enum { CORES_OF_A_RANK = 8 }; /* chosen. CPU products gain little from more */

/* Suggests the GPUs or cores of this machine if there is no cluster. */
static void suggest_per_node(const tri_interview *v, char *out) {
  const tri_device_ops *gpus = tri_device_find("cuda");
  int64_t               cores = v->kind ? v->kind->cores : sysconf(_SC_NPROCESSORS_ONLN), n;

  if (v->cuda)
    n = v->kind ? v->kind->gpus : gpus && gpus->count ? gpus->count() : 0;
  else
    n = cores > CORES_OF_A_RANK ? cores / CORES_OF_A_RANK : 1;
  if (n > 0) snprintf(out, SUGGESTED_BYTES, "%lld", (long long)n);
}

/* Returns the memory of a GPU by Slurm's name for it, "a100" or "a100_80gb". For types of two sizes it is the
 * smaller one. 0: not known. */
static double memory_of(const char *type) {
  static const char *const sizes[] = {"", "-40", "-80"};
  char                     name[TRI_CLUSTER_NAME_BYTES + 8];
  size_t                   n = strlen(type);
  tri_machine              m;

  if (n > 2 && !strcmp(type + n - 2, "gb")) n -= 2;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && type[0] && !isdigit((unsigned char)type[0]); i++) {
    snprintf(name, sizeof name, "%.*s%s", (int)n, type, sizes[i]);
    for (char *c = name; *c; c++) *c = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
    if (tri_machine_find(name, &m) == TRI_OK) return (double)m.device_bytes;
    tri_error_clear();
  }
  return 0;
}

static void suggest_gpu(const tri_interview *v, char *out) {
  double bytes = v->kind ? memory_of(v->kind->gpu) : 0;

  if (bytes > 0) snprintf(out, SUGGESTED_BYTES, "%.1f", bytes / 0x1p30);
}

static void suggest_walltime(const tri_interview *v, char *out) {
  double most = v->kind ? v->kind->longest_s : 0, s = most > 0 && most < 4 * 3600 ? most : 4 * 3600;

  snprintf(out, SUGGESTED_BYTES, "%02d:%02d:%02d", (int)(s / 3600), (int)(fmod(s, 3600) / 60),
           (int)fmod(s, 60));
}

static void suggest_algo(const tri_interview *v, char *out) {
  static const char *const first[] = {"grpo", "dpo", "kto", "sft"};

  for (size_t i = v->lines.labelled ? 2 : 0; i < sizeof first / sizeof *first; i++)
    if (tri_algo_find(first[i])->needs & v->lines.needs) {
      snprintf(out, SUGGESTED_BYTES, "%s", first[i]);
      return;
    }
}

/* ---- checks of answers ----
 *
 * They fail with the second half of a message, such as "must be cpu or cuda". settle puts the flag and the
 * text before it, and ask the text alone (tri_error_at). take_gpu fails with a whole message. */

static tri_status take_device(tri_interview *v, const char *text) {
  if (strcmp(text, "cpu") != 0 && strcmp(text, "cuda") != 0) TRI_FAIL(TRI_EARG, "must be cpu or cuda");
  v->cuda = !strcmp(text, "cuda");
  if (v->cuda && v->cluster.n_kind && !tri_cluster_find(&v->cluster, NULL, true))
    TRI_FAIL(TRI_EARG, "no partition of this cluster has GPUs. Use cpu");
  return TRI_OK;
}

/* Appends every partition once, as "all, gpu". */
static tri_status put_partitions(const tri_interview *v, tri_text *out) {
  const tri_cluster *c = &v->cluster;

  for (int64_t i = 0; i < c->n_kind; i++) {
    bool again = false;
    for (int64_t j = 0; j < i; j++) again |= !strcmp(c->kind[i].partition, c->kind[j].partition);
    if (!again) TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", c->kind[i].partition));
  }
  return TRI_OK;
}

static tri_status take_partition(tri_interview *v, const char *text) {
  tri_text   known = {0};
  tri_status st = TRI_OK;

  if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+") != strlen(text))
    TRI_FAIL(TRI_EARG, "is not a name of a partition");
  v->kind =
      text[0] || v->cluster.n_kind ? tri_cluster_find(&v->cluster, text[0] ? text : NULL, v->cuda) : NULL;
  if (v->kind || !v->cluster.n_kind) return TRI_OK;
  if (tri_cluster_find(&v->cluster, text, false))
    TRI_FAIL(TRI_EARG, "its nodes have no GPUs. Choose another partition or --device cpu");
  TRI_TRY_DONE(put_partitions(v, &known));
  TRI_FAIL_DONE(TRI_EARG, "there is no such partition. sinfo names %s", known.data);
done:
  tri_text_free(&known);
  return st;
}

static tri_status take_count(const char *text, int64_t most, const char *limit, int64_t *out) {
  char     *end;
  long long n = strtoll(text, &end, 10);

  if (end == text || *end || n < 1 || n > (1 << 20)) TRI_FAIL(TRI_EARG, "must be a whole number from 1 on");
  if (most && n > most) TRI_FAIL(TRI_EARG, "is more than %lld, %s", (long long)most, limit);
  *out = n;
  return TRI_OK;
}

static tri_status take_nodes(tri_interview *v, const char *text) {
  const tri_cluster_nodes *k = v->kind;
  char                     limit[128] = "";

  if (k && k->most_nodes && k->most_nodes < k->nodes)
    snprintf(limit, sizeof limit, "the limit of a job in partition %s", k->partition);
  else if (k)
    snprintf(limit, sizeof limit, "all such nodes of partition %s", k->partition);
  return take_count(text,
                    !k                                          ? 0
                    : k->most_nodes && k->most_nodes < k->nodes ? k->most_nodes
                                                                : k->nodes,
                    limit, &v->nodes);
}

enum { MOST_RANKS = 1 << 20 }; /* limit of trireme train --check --ranks */

static tri_status take_per_node(tri_interview *v, const char *text) {
  const tri_cluster_nodes *k = v->kind;

  TRI_TRY(take_count(text,
                     !k        ? 0
                     : v->cuda ? k->gpus
                               : k->cores,
                     v->cuda ? "the GPUs of a node" : "the cores of a node (each rank needs one)",
                     &v->per_node));
  if (v->nodes * v->per_node > MOST_RANKS)
    TRI_FAIL(TRI_EARG, "%lld nodes make %lld ranks. The limit is %d", (long long)v->nodes,
             (long long)(v->nodes * v->per_node), MOST_RANKS);
  return TRI_OK;
}

static tri_status take_gpu(tri_interview *v, const char *text) {
  tri_machine m;

  TRI_TRY(tri_machine_find(text, &m));
  v->gpu_bytes = (double)m.device_bytes;
  return TRI_OK;
}

static tri_status take_walltime(tri_interview *v, const char *text) {
  double s = tri_slurm_seconds(text);

  if (s <= 0)
    TRI_FAIL(TRI_EARG, "must be a time as sbatch reads it: 90 (minutes), 4:00:00, 1-12 (days-hours)");
  if (v->kind && v->kind->longest_s > 0 && s > v->kind->longest_s)
    TRI_FAIL(TRI_EARG, "is longer than partition %s allows, %.0f s", v->kind->partition, v->kind->longest_s);
  return TRI_OK;
}

static tri_status put_accounts(const tri_interview *v, tri_text *out) {
  return v->accounts.len ? tri_text_put(out, v->accounts.data, v->accounts.len) : TRI_OK;
}

/* An unknown account is only a warning, because some clusters do not use the accounts they list. */
static tri_status take_account(tri_interview *v, const char *text) {
  if (strspn(text, TRI_CLUSTER_ACCOUNT_LETTERS) != strlen(text))
    TRI_FAIL(TRI_EARG, "is not a name of an account");
  if (text[0] && v->accounts.len && !tri_cluster_has_account(v->accounts.data, text))
    tri_log_narrow(TRI_LOG_WARN, "account %s: sacctmgr names %s for you, so sbatch may refuse it", text,
                   v->accounts.data);
  return TRI_OK;
}

static tri_status take_model(tri_interview *v, const char *text) {
  tri_chat  *chat = NULL;
  bool       unread = false;
  tri_status st = TRI_OK;

  tri_source_close(&v->source);
  TRI_TRY(tri_source_open(text, NULL, false, &v->source));
  TRI_TRY_DONE(
      tri_source_chat(v->source, &(tri_chat_opt){.template = v->chat_template, .from_deck = true}, &chat));
  v->chat = tri_chat_name(chat) != NULL;
  v->broken = tri_source_brings_chat(v->source, &unread) && !v->chat;
  v->broken |= unread && !v->chat;
done:
  tri_chat_close(&chat);
  if (st != TRI_OK) tri_source_close(&v->source);
  return st;
}

/* Checks that the model suits the form of the lines. */
static tri_status check_form(const tri_interview *v) {
  const char *model = v->answer[TRI_ASK_MODEL];

  if (v->broken && (v->lines.plain || v->lines.conversation || v->lines.bare))
    TRI_FAIL(TRI_EINPUT,
             "%s has a chat template that cannot be used. Choose another one with --chat-template "
             "chatml|llama3|qwen2.5|...|FILE.jinja",
             model);
  if (v->lines.conversation && !v->chat)
    TRI_FAIL(TRI_EINPUT,
             "its lines are lists of messages, and %s has no chat template. Choose one with --chat-template "
             "chatml|llama3|qwen2.5|...|FILE.jinja, or use a chat model",
             model);
  if (v->lines.bare && v->chat)
    TRI_FAIL(
        TRI_EINPUT,
        "its lines are only text, and %s is a chat model. It would learn text without its chat "
        "template.\n  Use lines with \"prompt\" and \"completion\" or with \"messages\", use a base model, "
        "or write your own deck",
        model);
  return TRI_OK;
}

/* Returns TRI_NEEDS_* of the algorithm of --algo. 0: none was named. */
static unsigned wanted(const tri_interview *v) {
  const tri_algo *a = v->given[TRI_ASK_ALGO] ? tri_algo_find(v->given[TRI_ASK_ALGO]) : NULL;

  return a ? a->needs : 0;
}

/* Checks the data, without the model if that had an error. */
static tri_status take_data(tri_interview *v, const char *text) {
  char cure[TRI_TOKENIZER_CURE_BYTES];

  TRI_TRY(tri_examples_look(text, wanted(v), &v->lines));
  if (!v->source) return TRI_OK;
  if (v->lines.text && !tri_source_tokenizer(v->source))
    TRI_FAIL(TRI_EINPUT, "its lines are text, and %s has no tokenizer.json to read them with.\n  %s",
             v->answer[TRI_ASK_MODEL], tri_tokenizer_cure(v->answer[TRI_ASK_MODEL], cure));
  return check_form(v);
}

static bool same_key(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* Checks the evaluation data, which must have the keys of the training data. */
static tri_status take_eval(tri_interview *v, const char *text) {
  tri_examples x;

  if (!text[0]) return TRI_OK;
  TRI_TRY(tri_examples_look(text, wanted(v), &x));
  if (!(x.needs & v->lines.needs) || !same_key(x.prompt, v->lines.prompt) ||
      !same_key(x.answer, v->lines.answer))
    TRI_FAIL(TRI_EINPUT, "its lines have other fields than %s", v->answer[TRI_ASK_DATA]);
  return TRI_OK;
}

/* Appends all algorithms that learn from such lines, as "grpo, ppo". */
static tri_status put_algos(const tri_interview *v, tri_text *out) {
  const tri_algo *a;

  for (int i = 0; (a = tri_algo_at(i)) != NULL; i++)
    if (a->needs & v->lines.needs) TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", a->name));
  return TRI_OK;
}

static tri_status take_algo(tri_interview *v, const char *text) {
  tri_text   fit = {0};
  tri_status st = TRI_OK;

  v->algo = tri_algo_find(text);
  if (v->algo && v->algo->needs & v->lines.needs) return TRI_OK;
  TRI_TRY_DONE(put_algos(v, &fit));
  TRI_FAIL_DONE(TRI_EARG, "%s. These can learn from lines as in %s: %s",
                v->algo ? "needs other lines" : "there is no such algorithm", v->answer[TRI_ASK_DATA],
                fit.data);
done:
  tri_text_free(&fit);
  return st;
}

/* ---- the questions ---- */

typedef struct question {
  const char *flag, *words, *words_cuda; /* words_cuda NULL: words */
  const char *none;                      /* meaning of no answer. NULL: an answer is required */
  bool        is_path;
  bool        of_gpus; /* asked only with GPUs. Its messages name the flag themselves */
  void (*suggest)(const tri_interview *v, char *out); /* [SUGGESTED_BYTES], "" before. NULL: no suggestion */
  tri_status (*take)(tri_interview *v, const char *text);
  tri_status (*choices)(const tri_interview *v, tri_text *out); /* shown behind the words. NULL: none */
} question;

static const question questions[TRI_QUESTIONS] = {
    [TRI_ASK_DEVICE] = {"--device", "train on cpu or cuda", .suggest = suggest_device, .take = take_device},
    [TRI_ASK_PARTITION] = {"--partition", "partition", .none = "Slurm's default",
                           .suggest = suggest_partition, .take = take_partition, .choices = put_partitions},
    [TRI_ASK_NODES] = {"--nodes", "nodes", .suggest = suggest_nodes, .take = take_nodes},
    [TRI_ASK_PER_NODE] = {"--gpus-per-node", "ranks on a node", "GPUs of a node", .suggest = suggest_per_node,
                          .take = take_per_node},
    [TRI_ASK_GPU] = {"--gpu", "memory of a GPU, in GiB or by its name", .of_gpus = true,
                     .suggest = suggest_gpu, .take = take_gpu},
    [TRI_ASK_WALLTIME] = {"--walltime", "longest time of a job, H:M:S", .suggest = suggest_walltime,
                          .take = take_walltime},
    [TRI_ASK_ACCOUNT] = {"--account", "account to charge", .none = "yours", .take = take_account,
                         .choices = put_accounts},
    [TRI_ASK_MODEL] = {"--model", "folder of the model", .is_path = true, .take = take_model},
    [TRI_ASK_DATA] = {"--data", "data to learn from, JSON lines", .is_path = true, .take = take_data},
    [TRI_ASK_EVAL] = {"--eval", "data held out for evaluation", .none = "none", .is_path = true,
                      .take = take_eval},
    [TRI_ASK_ALGO] = {"--algo", "algorithm", .suggest = suggest_algo, .take = take_algo,
                      .choices = put_algos},
};

const char *tri_interview_flag(tri_asked q) { return questions[q].flag; }

/* Checks a text and stores it as the answer. */
static tri_status take(tri_interview *v, tri_asked q, const char *text) {
  tri_text   path = {0};
  tri_status st = TRI_OK;

  if (questions[q].is_path && text[0]) {
    TRI_TRY_DONE(tri_interview_path(text, &path));
    text = path.data;
  }
  TRI_TRY_DONE(questions[q].take(v, text));
  TRI_FREE(v->answer[q]);
  TRI_TRY_DONE(tri_copy_text(text, &v->answer[q]));
done:
  tri_text_free(&path);
  return st;
}

/* Appends the words of a question and its choices, as "partition (cpu, gpu)". */
static tri_status put_question(const tri_interview *v, const question *one, tri_text *out) {
  tri_text   choices = {0};
  tri_status st = one->choices ? one->choices(v, &choices) : TRI_OK;

  if (st == TRI_OK)
    st = tri_text_printf(out, "%s%s%s%s", v->cuda && one->words_cuda ? one->words_cuda : one->words,
                         choices.len ? " (" : "", choices.len ? choices.data : "", choices.len ? ")" : "");
  tri_text_free(&choices);
  return st;
}

/* Explains a number alone. sbatch reads it as minutes, most people mean hours. */
static void say_time(const char *text) {
  double s = tri_slurm_seconds(text);

  if (strspn(text, "0123456789") == strlen(text))
    tri_log(TRI_LOG_INFO, "--walltime %s is %.0f minute%s, %02.0f:%02.0f:00. For hours write %s:00:00", text,
            s / 60, s == 60 ? "" : "s", floor(s / 3600), floor(fmod(s, 3600) / 60), text);
}

/* Asks until the answer is usable. */
static tri_status ask(tri_interview *v, tri_asked q, const char *suggested) {
  const question *one = &questions[q];
  tri_text        words = {0};
  char           *text = NULL;
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(put_question(v, one, &words));
  for (;;) {
    TRI_FREE(text);
    TRI_TRY_DONE(tri_ask_line(words.data, suggested, one->none, &text));
    st = take(v, q, text);
    if (!one->of_gpus) st = tri_error_at(st, text);
    if (st == TRI_OK || st == TRI_ENOMEM || st == TRI_EINTERNAL) break;
    tri_log_lines(TRI_LOG_ERROR, tri_error_message());
    tri_error_clear();
  }
done:
  TRI_FREE(text);
  tri_text_free(&words);
  return st;
}

static tri_status settle(tri_interview *v, tri_asked q) {
  const question *one = &questions[q];
  char            suggested[SUGGESTED_BYTES] = "", where[256];
  const char     *text = v->given[q];

  if (q == TRI_ASK_DEVICE && !text && v->given[TRI_ASK_GPU]) text = "cuda";
  if (one->of_gpus && !v->cuda) {
    if (text) TRI_FAIL(TRI_EARG, "%s: there are no GPUs with --device cpu", one->flag);
    return TRI_OK;
  }
  if (q == TRI_ASK_ACCOUNT && v->cluster.n_kind && (text || !v->yes))
    TRI_TRY(tri_cluster_accounts(PATIENCE_S, &v->accounts));
  if (one->suggest) one->suggest(v, suggested);
  if (!text && !v->yes) return ask(v, q, suggested);
  if (!text && q == TRI_ASK_PER_NODE && !v->kind && suggested[0])
    tri_log(TRI_LOG_INFO, "--gpus-per-node is not given. Taken: %s, as this machine %s", suggested,
            v->cuda ? "has" : "has cores for");
  if (!text) text = suggested;
  if (!text[0] && !one->none)
    TRI_FAIL(TRI_EARG, "%s is missing: %s%s%s", one->flag,
             v->cluster.n_kind ? "it has no default here" : v->cluster.why,
             v->cluster.n_kind ? "" : ", so it must be given",
             q == TRI_ASK_PER_NODE && !v->cuda ? ": with --device cpu the ranks of a node" : "");
  if (one->of_gpus) return take(v, q, text);
  snprintf(where, sizeof where, "%s %s", one->flag, text);
  return tri_error_at(take(v, q, text), where);
}

/* Returns whether a question can be settled after errors in others. The questions it depends on must be
 * settled. */
static bool stands(const bool failed[TRI_QUESTIONS], tri_asked q) {
  static const unsigned on[TRI_QUESTIONS] = {[TRI_ASK_PARTITION] = 1 << TRI_ASK_DEVICE,
                                             [TRI_ASK_NODES] = 1 << TRI_ASK_PARTITION,
                                             [TRI_ASK_PER_NODE] = 1 << TRI_ASK_PARTITION | 1 << TRI_ASK_NODES,
                                             [TRI_ASK_GPU] = 1 << TRI_ASK_PARTITION,
                                             [TRI_ASK_WALLTIME] = 1 << TRI_ASK_PARTITION,
                                             [TRI_ASK_EVAL] = 1 << TRI_ASK_DATA,
                                             [TRI_ASK_ALGO] = 1 << TRI_ASK_DATA | 1 << TRI_ASK_EVAL};

  for (int i = 0; i < TRI_QUESTIONS; i++)
    if (failed[i] && on[q] >> i & 1) return false;
  return true;
}

/* Fails with a single error as it is, or with a count below the list of several. */
static tri_status tell(tri_errors *errors) {
  if (!errors->n) return TRI_OK;
  if (errors->n == 1) return tri_errors_fail(errors); /* unchanged, because it may have several lines */
  tri_errors_say(errors);
  TRI_FAIL(errors->st, "nothing was written because of %lld errors, listed above", (long long)errors->n);
}

/* Settles all questions. A person is asked until each answer is usable. Otherwise all errors are
 * collected. */
static tri_status settle_all(tri_interview *v, tri_errors *errors) {
  bool failed[TRI_QUESTIONS] = {false};

  for (int q = 0; q < TRI_QUESTIONS; q++) {
    int64_t before = errors->n;
    failed[q] = !stands(failed, (tri_asked)q);
    if (!failed[q]) TRI_TRY(tri_error_note(settle(v, (tri_asked)q), v->yes ? errors : NULL));
    failed[q] |= errors->n > before;
    if (failed[q] && !v->answer[q]) TRI_TRY(tri_copy_text("", &v->answer[q]));
    if (q == TRI_ASK_WALLTIME && !failed[q]) say_time(v->answer[q]);
  }
  return tell(errors);
}

tri_status tri_interview_hold(tri_interview *v) {
  tri_errors errors = {0};
  tri_status st;

  TRI_TRY(tri_cluster_ask(PATIENCE_S, &v->cluster));
  if (!v->cluster.n_kind)
    tri_log(TRI_LOG_WARN, "%s. Nodes, times and partitions are not checked against the cluster",
            v->cluster.why);
  st = settle_all(v, &errors);
  tri_errors_free(&errors);
  return st;
}

void tri_interview_close(tri_interview *v) {
  for (int q = 0; q < TRI_QUESTIONS; q++) TRI_FREE(v->answer[q]);
  tri_source_close(&v->source);
  tri_text_free(&v->accounts);
  tri_cluster_close(&v->cluster);
}
