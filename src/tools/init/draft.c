/* draft.c - writes a deck and a job file as text from the choices made. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "draft.h"
#include "base/columns.h"
#include "base/number.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* Appends a YAML scalar. Text other than a plain absolute path is quoted as JSON. */
static tri_status put_yaml(tri_text *out, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";

  if (text[0] == '/' && strspn(text, plain) == strlen(text)) return tri_text_printf(out, "%s", text);
  return tri_json_put_string(out, text, strlen(text));
}

static tri_status put_path(tri_text *out, const char *key, const char *path) {
  TRI_TRY(tri_text_printf(out, "  %s: ", key));
  TRI_TRY(put_yaml(out, path));
  return tri_text_printf(out, "\n");
}

/* Appends " key: value" and, aligned, a comment. */
static tri_status put(tri_text *out, const char *key, const char *value, const char *comment) {
  int used = (int)(strlen(key) + strlen(value)) + 4;

  if (!comment) return tri_text_printf(out, "  %s: %s\n", key, value);
  return tri_text_printf(out, "  %s: %s%*s# %s\n", key, value, used < 34 ? 34 - used : 1, "", comment);
}

static tri_status put_count(tri_text *out, const char *key, int64_t n, const char *comment) {
  char text[TRI_NUMBER_BYTES];

  tri_number_text((double)n, text);
  return put(out, key, text, comment);
}

/* ---- the deck ---- */

/* Returns whether answers are rewarded, either for learning or in evaluations whose lines have a reference
 * answer. */
static bool rewards(const tri_draft *d) {
  bool held_out = d->eval && d->lines->reward && d->algo->needs & TRI_NEEDS_DEMONSTRATIONS;

  return d->algo->needs & TRI_NEEDS_ANSWERS || held_out;
}

/* Appends the batch equation, which shows how the ranks share a step's samples. */
static tri_status put_batch(const tri_draft *d, tri_text *out) {
  int64_t ranks = d->nodes * d->per_node, n = d->size.train_batch;

  if (d->size.prompts)
    TRI_TRY(tri_text_printf(out,
                            "# Batch: %lld answer%s a step = %lld prompt%s x %lld, learned in one update;",
                            (long long)n, n == 1 ? "" : "s", (long long)d->size.prompts,
                            d->size.prompts == 1 ? "" : "s", (long long)d->size.generations));
  else
    TRI_TRY(tri_text_printf(out, "# Batch: %lld %s an update;", (long long)n,
                            d->algo->needs & TRI_NEEDS_PAIRS ? "pairs" : "lines"));
  if (ranks == 1)
    TRI_TRY(tri_text_printf(out, " one rank,\n"));
  else if (n % ranks)
    TRI_TRY(tri_text_printf(out, " %lld ranks share them,\n", (long long)ranks));
  else
    TRI_TRY(tri_text_printf(out, " %lld = %lld ranks x %lld,\n", (long long)n, (long long)ranks,
                            (long long)(n / ranks)));
  return tri_text_printf(out, "# packed into passes of at most %lld tokens.\n",
                         (long long)d->memory.max_tokens);
}

static tri_status put_data(const tri_draft *d, tri_text *out) {
  const tri_examples *x = d->lines;
  unsigned            needs = d->algo->needs;

  TRI_TRY(tri_text_printf(out, "data:\n"));
  TRI_TRY(put_path(out, "train", d->data));
  if (d->eval) TRI_TRY(put_path(out, "eval", d->eval));
  if (x->prompt && strcmp(x->prompt, "prompt") != 0) TRI_TRY(put(out, "prompt_key", x->prompt, NULL));
  if (rewards(d) && strcmp(x->answer, "answer") != 0) TRI_TRY(put(out, "answer_key", x->answer, NULL));
  if (needs & (TRI_NEEDS_DEMONSTRATIONS | TRI_NEEDS_LABELLED) && x->completion &&
      strcmp(x->completion, "completion") != 0)
    TRI_TRY(put(out, "completion_key", x->completion, NULL));
  if (needs & TRI_NEEDS_LABELLED && x->label && strcmp(x->label, "label") != 0)
    TRI_TRY(put(out, "label_key", x->label, NULL));
  if (d->chat_template) {
    TRI_TRY(tri_text_printf(out, "  chat_template: "));
    TRI_TRY(tri_json_put_string(out, d->chat_template, strlen(d->chat_template)));
    TRI_TRY(tri_text_printf(out, "\n"));
  }
  if (d->chat) TRI_TRY(put(out, "apply_chat_template", "true", "a prompt is the user's message"));
  if (d->size.max_prompt) TRI_TRY(put_count(out, "max_prompt_length", d->size.max_prompt, "tokens"));
  if (!d->size.drop) return TRI_OK;
  return put(out, "overlong_prompt", "drop", "some lines are longer");
}

static tri_status put_rollout(const tri_draft *d, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "rollout:\n"));
  if (d->size.prompts)
    TRI_TRY(put_count(out, "rollout_batch_size", d->size.prompts, "prompts of a step, all ranks"));
  TRI_TRY(put_count(out, "max_response_length", d->size.max_response, "tokens"));
  TRI_TRY(tri_text_printf(out, "reward:\n"));
  return tri_text_printf(out, "  - name: %-23s # compared with \"%s\" of the line\n", d->lines->reward,
                         d->lines->answer);
}

/* Writes a learning rate only if it differs from the default, with the reason. */
static tri_status put_rate(const tri_draft *d, tri_text *out) {
  char usual[TRI_NUMBER_BYTES], why[128];

  if (!d->size.learning_rate) return TRI_OK;
  tri_number_text(d->size.usual_rate, usual);
  snprintf(why, sizeof why, "default %s: so small a model tolerates more", usual);
  return put(out, "learning_rate", d->size.learning_rate, why);
}

static tri_status put_train(const tri_draft *d, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "train:\n"));
  if (d->size.steps) TRI_TRY(put_count(out, "steps", d->size.steps, NULL));
  if (d->size.epochs) TRI_TRY(put_count(out, "epochs", d->size.epochs, "passes over the data"));
  TRI_TRY(put_count(out, "train_batch_size", d->size.train_batch, "samples of an update, all ranks"));
  TRI_TRY(put_count(out, "max_tokens_per_gpu", d->memory.max_tokens, "in one pass on one rank"));
  return put_rate(d, out);
}

static tri_status put_memory(const tri_draft *d, tri_text *out) {
  const tri_draft_memory *m = &d->memory;
  bool                    plan = strcmp(m->plan, "hybrid") != 0, offload = strcmp(m->offload, "none") != 0;

  if (!plan && !offload && m->tensor == 1) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "shard:\n"));
  if (plan) TRI_TRY(put(out, "plan", m->plan, "all state is divided among all ranks"));
  if (offload) TRI_TRY(put(out, "offload", m->offload, "in host memory between its uses"));
  return m->tensor > 1 ? put_count(out, "tensor_parallel_size", m->tensor, "GPUs that generate as one model")
                       : TRI_OK;
}

tri_status tri_draft_deck(const tri_draft *d, tri_text *out) {
  bool generates = d->algo->needs & TRI_NEEDS_ANSWERS;

  TRI_TRY(tri_text_printf(
      out, "# deck.yaml - %s on %lld node%s x %lld %s, by trireme init: sbatch job.sbatch\n", d->algo->name,
      (long long)d->nodes, d->nodes == 1 ? "" : "s", (long long)d->per_node, d->cuda ? "GPUs" : "ranks"));
  TRI_TRY(put_batch(d, out));
  if (d->planned) TRI_TRY(tri_text_printf(out, "# %s\n", d->planned));
  TRI_TRY(tri_text_printf(out, "# Every key: trireme train --options\nrun:\n"));
  TRI_TRY(put_path(out, "output", d->output));
  if (!d->cuda) TRI_TRY(put(out, "device", "cpu", NULL));
  TRI_TRY(tri_text_printf(out, "model:\n"));
  TRI_TRY(put_path(out, "path", d->model));
  TRI_TRY(put(out, "dtype", "bf16", "compute type. Master weights and moments are f32"));
  if (d->memory.recompute) TRI_TRY(put(out, "recompute", "layer", "keep only the input of each layer"));
  TRI_TRY(put_data(d, out));
  TRI_TRY(tri_text_printf(out, "algo:\n"));
  TRI_TRY(put(out, "name", d->algo->name, NULL));
  if (generates) TRI_TRY(put_count(out, "num_generations", d->size.generations, "answers to a prompt"));
  if (rewards(d)) TRI_TRY(put_rollout(d, out));
  TRI_TRY(put_train(d, out));
  TRI_TRY(put_memory(d, out));
  if (d->eval) {
    TRI_TRY(tri_text_printf(out, "eval:\n"));
    TRI_TRY(put(out, "steps", "20", "between evaluations"));
    TRI_TRY(put(out, "max_prompts", "256", NULL));
  }
  TRI_TRY(tri_text_printf(out, "checkpoint:\n"));
  return put(out, "save_minutes", "30", "and when the job ends or is told to stop");
}

/* ---- the job ---- */

static tri_status put_option(tri_text *out, const char *name, const char *value) {
  return value ? tri_text_printf(out, "#SBATCH --%s=%s\n", name, value) : TRI_OK;
}

static tri_status put_resources(const tri_draft *d, const tri_draft_job *j, tri_text *out) {
  if (j->guessed)
    TRI_TRY(tri_text_printf(
        out,
        "# Slurm did not report cores and memory of its nodes. This takes whole nodes, with %lld core%s "
        "a rank.\n# For a part of a node replace --exclusive and --mem=0 "
        "by --mem=...G.\n",
        (long long)j->cores, j->cores == 1 ? "" : "s"));
  TRI_TRY(tri_text_printf(
      out, "#SBATCH --nodes=%lld\n#SBATCH --ntasks-per-node=%lld\n#SBATCH --cpus-per-task=%lld\n",
      (long long)d->nodes, (long long)d->per_node, (long long)j->cores));
  if (d->cuda)
    TRI_TRY(tri_text_printf(out, "#SBATCH --gpus-per-node=%s%s%lld\n", j->gpu ? j->gpu : "",
                            j->gpu ? ":" : "", (long long)d->per_node));
  if (j->memory_mib > 0) TRI_TRY(tri_text_printf(out, "#SBATCH --mem=%lldM\n", (long long)j->memory_mib));
  if (j->memory_mib == 0) TRI_TRY(tri_text_printf(out, "#SBATCH --exclusive\n#SBATCH --mem=0\n"));
  TRI_TRY(put_option(out, "time", j->time));
  TRI_TRY(put_option(out, "partition", j->partition));
  return put_option(out, "account", j->account);
}

tri_status tri_draft_sbatch(const tri_draft *d, const tri_draft_job *j, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "#!/bin/bash\n# job.sbatch - runs deck.yaml, by trireme init: "
                               "sbatch job.sbatch [key=value ...]\n"));
  TRI_TRY(put_option(out, "job-name", j->name));
  TRI_TRY(put_resources(d, j, out));
  TRI_TRY(tri_text_printf(
      out, "#SBATCH --requeue\n#SBATCH --no-kill\n#SBATCH --open-mode=append\nexport TRIREME="));
  TRI_TRY(tri_text_put_word(out, j->program));
  TRI_TRY(
      tri_text_printf(out, "\n# It starts the ranks and acts on the exit code when they end.\nexec bash "));
  TRI_TRY(tri_text_put_word(out, j->runner));
  TRI_TRY(tri_text_printf(out, " "));
  TRI_TRY(tri_text_put_word(out, d->deck));
  return tri_text_printf(out, "%s \"$@\"\n", d->cuda ? " run.device=cuda" : "");
}
