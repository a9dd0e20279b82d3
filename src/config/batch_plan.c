/* batch_plan.c - solves the batch equation, or names the nearest numbers that would solve it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch_plan.h"

#include "base/divisor.h"
#include "base/text_buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
  MOST_CHOICES = 8, /* chosen: nobody reads more lines */
  MOST_RANKS = 1 << 20,
  MOST_COUNT = 1000000000 /* the options' range, so that products of two fit in int64_t */
};

#define I64(x) (long long)(x)

/* One solution of total = micro x accum x ranks. */
typedef struct choice {
  int64_t total, micro, accum, ranks;
} choice;

typedef struct choices {
  choice c[MOST_CHOICES];
  int    n;
} choices;

static int64_t samples_of(const tri_batch_request *q) { return q->rollout_batch_size * q->num_generations; }

static void add_choice(choices *list, int64_t total, int64_t micro, int64_t ranks) {
  choice c = {total, micro, 0, ranks};

  if (total < 1 || micro < 1 || ranks < 1 || total % (micro * ranks) || list->n == MOST_CHOICES) return;
  c.accum = total / (micro * ranks);
  for (int i = 0; i < list->n; i++)
    if (!memcmp(&list->c[i], &c, sizeof c)) return;
  list->c[list->n++] = c;
}

/* Adds the nearest multiples of micro x ranks, nearest first, and half of the nearest one below. */
static void choices_of_total(choices *list, int64_t total, int64_t micro, int64_t ranks) {
  int64_t pass = micro * ranks, low = total / pass, up = low + 1;

  if (total - low * pass <= up * pass - total) {
    add_choice(list, low * pass, micro, ranks);
    add_choice(list, up * pass, micro, ranks);
  } else {
    add_choice(list, up * pass, micro, ranks);
    add_choice(list, low * pass, micro, ranks);
  }
  add_choice(list, (low - 1) * pass, micro, ranks);
  if (low / 2 >= 1) add_choice(list, low / 2 * pass, micro, ranks);
}

/* Adds the same total on the nearest numbers of ranks, fewer and more. */
static void choices_of_ranks(choices *list, int64_t total, int64_t micro, int64_t ranks) {
  int64_t n;

  if (total % micro) return;
  for (n = ranks - 1; n >= 1 && total % (micro * n); n--)
    ;
  if (n >= 1) add_choice(list, total, micro, n);
  for (n = ranks + 1; n <= total / micro && n <= MOST_RANKS && total % (micro * n); n++)
    ;
  if (n <= total / micro && n <= MOST_RANKS) add_choice(list, total, micro, n);
}

/* Adds the same total on the same ranks with the nearest other micro-batches, smaller and larger. */
static void choices_of_micro(choices *list, int64_t total, int64_t micro, int64_t ranks) {
  int64_t m;

  if (total % ranks) return;
  for (m = micro; m >= 1 && total % (m * ranks); m--)
    ;
  if (m >= 1) add_choice(list, total, m, ranks);
  for (m = micro + 1; m <= total / ranks && m <= 4 * micro && total % (m * ranks); m++)
    ;
  if (m <= total / ranks && m <= 4 * micro) add_choice(list, total, m, ranks);
}

/* Adds choices with the same accumulation. First come the nearest totals, then the same total on the nearest
 * numbers of ranks. */
static void choices_of_open_micro(choices *list, int64_t total, int64_t accum, int64_t ranks) {
  int64_t m = total / (accum * ranks), n;

  add_choice(list, m * accum * ranks, m, ranks);
  add_choice(list, (m + 1) * accum * ranks, m + 1, ranks);
  if (total % accum) return;
  for (n = ranks - 1; n >= 1 && total % (accum * n); n--)
    ;
  if (n >= 1) add_choice(list, total, total / (accum * n), n);
  for (n = ranks + 1; n <= total / accum && n <= MOST_RANKS && total % (accum * n); n++)
    ;
  if (n <= total / accum && n <= MOST_RANKS) add_choice(list, total, total / (accum * n), n);
}

/* Returns the rollout_batch_size nearest to the user's for which `total` divides the rollout's samples. */
static int64_t prompts_for(const tri_batch_request *q, int64_t total) {
  int64_t unit = total / tri_common_divisor(total, q->num_generations),
          low = q->rollout_batch_size / unit * unit;

  return low >= 1 && q->rollout_batch_size - low <= low + unit - q->rollout_batch_size ? low : low + unit;
}

static tri_status put_choices(const tri_batch_request *q, const choices *list, tri_text *out) {
  for (int i = 0; i < list->n; i++) {
    const choice *c = &list->c[i];
    TRI_TRY(tri_text_printf(out, "\n  %lld = %lld x %lld x %lld", I64(c->total), I64(c->micro), I64(c->accum),
                            I64(c->ranks)));
    if (c->ranks != q->ranks)
      TRI_TRY(tri_text_printf(out, " (%lld rank%s)", I64(c->ranks), c->ranks == 1 ? "" : "s"));
    if (q->rollout_batch_size && samples_of(q) % c->total)
      TRI_TRY(tri_text_printf(out, " with rollout_batch_size %lld", I64(prompts_for(q, c->total))));
  }
  return TRI_OK;
}

#define EQUATION "train_batch_size = micro_batch_size x gradient_accumulation_steps x ranks"

/* Reports that total is not micro x accum x ranks, for any whole number if the user left one open (0). */
static tri_status refuse_equation(const tri_batch_request *q, int64_t total, int64_t micro, int64_t accum) {
  tri_status st = TRI_OK;
  tri_text   text = {0}, lines = {0};
  choices    list = {0};
  int64_t    m = micro ? micro : total / (accum * q->ranks);

  if (m < 1) m = 1;
  if (micro) {
    choices_of_total(&list, total, m, q->ranks);
    choices_of_ranks(&list, total, m, q->ranks);
  } else {
    choices_of_open_micro(&list, total, accum, q->ranks);
  }
  choices_of_micro(&list, total, m, q->ranks);
  if (micro && accum)
    TRI_TRY_DONE(
        tri_text_printf(&text, EQUATION ": %lld = %lld x %lld x %lld does not hold, the product is %lld.",
                        I64(total), I64(micro), I64(accum), I64(q->ranks), I64(micro * accum * q->ranks)));
  else if (micro)
    TRI_TRY_DONE(tri_text_printf(&text, EQUATION ": %lld = %lld x ? x %lld has no whole solution%s.",
                                 I64(total), I64(micro), I64(q->ranks),
                                 total < micro * q->ranks ? ", accumulation would be less than 1" : ""));
  else
    TRI_TRY_DONE(tri_text_printf(
        &text, EQUATION ": %lld = ? x %lld x %lld has no whole solution%s.", I64(total), I64(accum),
        I64(q->ranks), total < accum * q->ranks ? ", a micro-batch would be less than 1 sample" : ""));
  TRI_TRY_DONE(put_choices(q, &list, &lines));
  st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s Nearest choices that hold:", text.data);
  if (lines.len) tri_error_lines(lines.data);
done:
  tri_text_free(&text);
  tri_text_free(&lines);
  return st;
}

/* Reports that the rollout does not split into whole optimizer steps of p->train_batch_size. */
static tri_status refuse_rollout(const tri_batch_request *q, const tri_batch_plan *p) {
  tri_status st = TRI_OK;
  tri_text   lines = {0};
  int64_t samples = p->rollout_samples, total = p->train_batch_size, prompts = prompts_for(q, total), low, up;
  int64_t pass = p->micro_batch_size ? p->micro_batch_size * q->ranks : 1; /* every total is a multiple of
                                                                            * it */

  for (low = total / pass * pass; low >= 1 && samples % low; low -= pass)
    ;
  for (up = (total / pass + 1) * pass; up <= samples && samples % up; up += pass)
    ;
  if (low >= 1)
    TRI_TRY_DONE(tri_text_printf(&lines, "\n  train_batch_size %lld (%lld step%s per rollout)", I64(low),
                                 I64(samples / low), samples / low == 1 ? "" : "s"));
  if (up <= samples)
    TRI_TRY_DONE(tri_text_printf(&lines, "\n  train_batch_size %lld (%lld step%s per rollout)", I64(up),
                                 I64(samples / up), samples / up == 1 ? "" : "s"));
  TRI_TRY_DONE(tri_text_printf(
      &lines, "\n  rollout_batch_size %lld (%lld = %lld x %lld, %lld step%s per rollout)", I64(prompts),
      I64(prompts * q->num_generations), I64(prompts), I64(q->num_generations),
      I64(prompts * q->num_generations / total), prompts * q->num_generations / total == 1 ? "" : "s"));
  st = tri_fail(
      __FILE__, __LINE__, __func__, TRI_ECONFIG,
      "rollout samples = rollout_batch_size x num_generations: %lld = %lld x %lld is not a multiple of "
      "train_batch_size %lld. Nearest choices that hold:",
      I64(samples), I64(q->rollout_batch_size), I64(q->num_generations), I64(total));
  tri_error_lines(lines.data);
done:
  tri_text_free(&lines);
  return st;
}

/* Computes the three terms from the given ones. */
static tri_status solve(const tri_batch_request *q, tri_batch_plan *p) {
  int64_t total = q->train_batch_size, micro = q->micro_batch_size, accum = q->gradient_accumulation_steps;

  if (!total && !(micro && accum)) total = p->rollout_samples;
  if (!total && !micro)
    TRI_FAIL(TRI_ECONFIG,
             EQUATION
             ": ? = ? x ? x %lld is undetermined. Give train.train_batch_size or train.micro_batch_size",
             I64(q->ranks));
  if (!total) total = micro * (accum ? accum : 1) * q->ranks;
  if (!micro && !accum) accum = 1;
  p->train_batch_size = total;
  p->micro_batch_size = micro ? micro : total / (accum * q->ranks);
  p->gradient_accumulation_steps = accum ? accum : total / (micro * q->ranks);
  if (total != p->micro_batch_size * p->gradient_accumulation_steps * q->ranks)
    return refuse_equation(q, total, micro, accum);
  return TRI_OK;
}

static tri_status check_request(const tri_batch_request *q) {
  const int64_t value[] = {q->train_batch_size,
                           q->micro_batch_size,
                           q->gradient_accumulation_steps,
                           q->max_tokens_per_gpu,
                           q->rollout_batch_size,
                           q->num_generations,
                           q->passes};
  int64_t       product;

  TRI_ASSERT(q->ranks >= 1 && q->ranks <= MOST_RANKS);
  TRI_ASSERT(!q->rollout_batch_size == !q->num_generations);
  for (size_t i = 0; i < sizeof value / sizeof *value; i++)
    if (value[i] < 0 || value[i] > MOST_COUNT)
      TRI_FAIL(TRI_ECONFIG, "a batch size or count of %lld: must be 1 to %d", I64(value[i]), MOST_COUNT);
  if (__builtin_mul_overflow(q->micro_batch_size * q->gradient_accumulation_steps, q->ranks, &product) ||
      product > MOST_COUNT || samples_of(q) > MOST_COUNT)
    TRI_FAIL(TRI_ECONFIG, "a batch of more than %d samples: %lld x %lld x %lld, rollout %lld x %lld",
             MOST_COUNT, I64(q->micro_batch_size), I64(q->gradient_accumulation_steps), I64(q->ranks),
             I64(q->rollout_batch_size), I64(q->num_generations));
  if (q->max_tokens_per_gpu && (q->micro_batch_size || q->gradient_accumulation_steps))
    TRI_FAIL(TRI_ECONFIG, "train.max_tokens_per_gpu packs by tokens and contradicts micro_batch_size and "
                          "gradient_accumulation_steps. Keep one");
  return TRI_OK;
}

static void write_equation(const tri_batch_request *q, tri_batch_plan *p) {
  size_t used;

  if (q->max_tokens_per_gpu)
    snprintf(p->equation, sizeof p->equation,
             "train_batch_size %lld samples in micro-batches of at most %lld tokens on each of %lld rank%s",
             I64(p->train_batch_size), I64(q->max_tokens_per_gpu), I64(q->ranks), q->ranks == 1 ? "" : "s");
  else
    snprintf(p->equation, sizeof p->equation, EQUATION ": %lld = %lld x %lld x %lld",
             I64(p->train_batch_size), I64(p->micro_batch_size), I64(p->gradient_accumulation_steps),
             I64(q->ranks));
  used = strlen(p->equation);
  if (p->rollout_samples)
    snprintf(p->equation + used, sizeof p->equation - used,
             "\nrollout samples = rollout_batch_size x num_generations: %lld = %lld x %lld"
             "\noptimizer steps per rollout = rollout samples / train_batch_size%s: %lld = %lld / %lld",
             I64(p->rollout_samples), I64(q->rollout_batch_size), I64(q->num_generations),
             q->passes > 1 ? " x ppo_epochs" : "", I64(p->steps_per_rollout), I64(p->rollout_samples),
             I64(p->train_batch_size));
  used = strlen(p->equation);
  if (p->rollout_samples && q->passes > 1)
    snprintf(p->equation + used, sizeof p->equation - used, " x %lld", I64(q->passes));
}

tri_status tri_batch_plan_make(const tri_batch_request *request, tri_batch_plan *out) {
  const tri_batch_request *q = request;

  *out = (tri_batch_plan){0};
  TRI_TRY(check_request(q));
  out->rollout_samples = samples_of(q);
  if (q->max_tokens_per_gpu) {
    out->train_batch_size = q->train_batch_size ? q->train_batch_size : out->rollout_samples;
    if (!out->train_batch_size)
      TRI_FAIL(TRI_ECONFIG,
               "train.train_batch_size is missing. train.max_tokens_per_gpu does not determine it");
  } else {
    TRI_TRY(solve(q, out));
  }
  if (out->rollout_samples) {
    if (out->rollout_samples % out->train_batch_size) return refuse_rollout(q, out);
    out->steps_per_rollout = out->rollout_samples / out->train_batch_size * (q->passes ? q->passes : 1);
  }
  write_equation(q, out);
  return TRI_OK;
}
