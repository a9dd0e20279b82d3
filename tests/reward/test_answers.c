/* test_answers.c - a rank's answers through rewards: the rewards asked and their input, and the effect of a
 * failure on other answers. Judge: numbers worked by hand. Runs on 1 and 2 ranks, and the last rank has all
 * answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "ranks_case.h"
#include "reward/answers.h"

#include <unistd.h>

/* Replaces the table of reward_table.c by stand-ins, so that the program links none of the room's own
 * rewards. */
#undef TRI_REWARD_LIST
#define TRI_REWARD_LIST(ROW) ROW(tokens) ROW(census) ROW(bytes) ROW(letter) ROW(later)
extern const tri_reward tri_reward_tokens, tri_reward_census, tri_reward_bytes, tri_reward_letter,
    tri_reward_later;
#include "reward/reward_table.c"
#include "refusal_case.h"

enum { PROMPTS = 2, GROUP = 2, ANSWERS = PROMPTS * GROUP, FIRST_ID = 40, PLACES = 7 };
static const int32_t TOKEN = 3; /* the first few tokens of the byte-level tokenizer, one byte each */

typedef struct calls {
  int n_call, n_answer;
} calls;
static calls tokens_got, census_got;
static bool  tokens_fails;

/* Scores an answer by its number of tokens. It fails on a truncated one. */
static tri_status tokens_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  tokens_got.n_call++;
  tokens_got.n_answer += n;
  if (tokens_fails) TRI_FAIL(TRI_EINPUT, "prompt_id %lld is refused", (long long)a[0].prompt_id);
  for (int q = 0; q < n; q++) score[q] = a[q].truncated ? NAN : (float)a[q].n_token;
  return TRI_OK;
}

/* Number of answers of all ranks. */
static tri_status census_score(void *state, const tri_answer *a, int n, float *score) {
  double all = n;

  (void)state;
  (void)a;
  census_got.n_call++;
  census_got.n_answer += n;
  TRI_TRY(tri_host_sum(world, &all, 1));
  for (int q = 0; q < n; q++) score[q] = (float)all;
  return TRI_OK;
}

static tri_status bytes_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) score[q] = (float)a[q].response_bytes;
  return TRI_OK;
}

static tri_status letter_score(void *state, const tri_answer *a, int n, float *score) {
  (void)state;
  for (int q = 0; q < n; q++) score[q] = a[q].response[0];
  return TRI_OK;
}

const tri_reward tri_reward_tokens = {.name = "tokens", .needs = TRI_REWARD_TRUTH, .score = tokens_score};
const tri_reward tri_reward_census = {
    .name = "census", .needs = TRI_REWARD_COLLECTIVE, .score = census_score};
const tri_reward tri_reward_bytes = {.name = "bytes", .needs = TRI_REWARD_TEXT, .score = bytes_score};

/* Scores an answer when it ends, by its number, its prompt and its first letter. */
static float later_score[PLACES * GROUP];
static int   later_n;

static float later_of(int number, int64_t prompt_id, int letter) {
  return (float)((number * 64 + prompt_id) * 256 + letter);
}

static tri_status later_submit(void *state, const tri_answer *a, int number) {
  (void)state;
  CHECK(number >= 0 && number < PLACES * GROUP && later_score[number] == 0);
  later_score[number] = later_of(number, a->prompt_id, a->response[0]);
  later_n++;
  return TRI_OK;
}

static tri_status later_collect(void *state, int n, float *score, tri_reward_error *error,
                                const tri_work_queue_listener *listener) {
  (void)state, (void)error, (void)listener;
  for (int k = 0; k < n; k++)
    if (later_score[k] > 0) score[k] = later_score[k];
  return TRI_OK;
}

static void later_forget(void *state) { (void)state; }

const tri_reward tri_reward_later = {.name = "later",
                                     .needs = TRI_REWARD_TEXT,
                                     .submit = later_submit,
                                     .collect = later_collect,
                                     .forget = later_forget};
const tri_reward tri_reward_letter = {.name = "letter", .needs = TRI_REWARD_TEXT, .score = letter_score};

static bool last(void) { return rt.world_rank == rt.world_size - 1; }

/* Makes the step of one rank. Sequence q has a prompt of one token and an answer of q + 1 tokens. */
typedef struct step {
  tri_rollout        r;
  tri_example        example[PROMPTS];
  const tri_example *list[PROMPTS];
  tri_reward_set    *set;
} step;

static void step_make(step *s, const tri_reward_opt *o, int n_reward) {
  int     n = last() ? ANSWERS : 0;
  int64_t n_tok = 0;

  *s = (step){0};
  tokens_got = census_got = (calls){0};
  tokens_fails = false;
  for (int q = 0; q < n; q++) n_tok += 1 + q + 1;
  OK(tri_rollout_make(n, n_tok, GROUP, 0, &s->r));
  for (int q = 0; q < n; q++) {
    s->r.start[q + 1] = s->r.start[q] + 1 + q + 1;
    s->r.prompt_len[q] = 1;
    s->r.prompt_id[q] = FIRST_ID + q / GROUP;
    s->r.stop[q] = TRI_STOP_EOS;
  }
  for (int64_t i = 0; i < n_tok; i++) s->r.token[i] = TOKEN;
  for (int p = 0; p < PROMPTS; p++) {
    s->example[p] = (tri_example){.id = FIRST_ID + p, .answer = "x", .answer_bytes = 1};
    s->list[p] = &s->example[p];
  }
  OK(tri_reward_set_open(o, n_reward, NULL, &s->set));
}

static tri_status step_reward(step *s, const tri_tokenizer *tokenizer) {
  const tri_answers_opt o = {
      .set = s->set, .tokenizer = tokenizer, .example = s->list, .n = s->r.n_seq, .group = GROUP};

  return tri_answers_reward(&s->r, &o, world, false);
}

static void step_free(step *s) {
  tri_rollout_free(&s->r);
  tri_reward_set_close(&s->set);
  tri_error_clear();
}

static const tri_reward_opt BOTH[] = {{.name = "tokens", .weight = 2}, {.name = "census", .weight = -1}};

/* The sum is 2 (q + 1) - 4. On a rank without answers only the collective reward is called, with n = 0. */
static void a_collective_reward_asks_every_rank(void **state) {
  step s;

  (void)state;
  step_make(&s, BOTH, 2);
  OK(step_reward(&s, NULL));
  CHECK(s.r.has_reward && s.r.n_reward == 2);
  CHECK(tokens_got.n_call == last() && tokens_got.n_answer == s.r.n_seq);
  CHECK(census_got.n_call == 1 && census_got.n_answer == s.r.n_seq);
  for (int q = 0; q < s.r.n_seq; q++) {
    CHECK(s.r.part[2 * q] == (float)(q + 1) && s.r.part[2 * q + 1] == ANSWERS);
    CHECK(s.r.reward[q] == (float)(2 * (q + 1) - ANSWERS) && s.r.failed[q] == 0);
  }
  step_free(&s);
}

/* A rank that failed still takes part in collective calls, with n = 0, and every rank returns its error. */
static void a_rank_that_failed_keeps_none_waiting(void **state) {
  step s;

  (void)state;
  for (int missing = 0; missing < 2; missing++) { /* the reward fails, or a truth is missing */
    step_make(&s, BOTH, 2);
    tokens_fails = !missing;
    if (missing) s.example[1].answer = NULL;
    CHECK(step_reward(&s, NULL) == TRI_EINPUT);
    CHECK(refusal_is(missing ? "check_truths() prompt_id 41 tokens" : "tokens_score() prompt_id 40"));
    CHECK(tokens_got.n_call == (last() && !missing));
    CHECK(census_got.n_call == 1 && census_got.n_answer == 0);
    CHECK(!s.r.has_reward);
    step_free(&s);
  }
}

/* The failed score counts as 0, and the other reward's score stays. */
static void what_cannot_be_judged_is_marked(void **state) {
  step s;

  (void)state;
  step_make(&s, BOTH, 2);
  if (last()) s.r.stop[2] = TRI_STOP_LENGTH;
  OK(step_reward(&s, NULL));
  CHECK(tri_answers_failed(&s.r, s.set, false) == last());
  for (int q = 0; q < s.r.n_seq; q++) {
    CHECK(s.r.failed[q] == (q == 2));
    CHECK(s.r.reward[q] == (float)(q == 2 ? -ANSWERS : 2 * (q + 1) - ANSWERS));
  }
  step_free(&s);
}

/* Answers are decoded if a reward needs text. Without a tokenizer every rank fails. */
static void texts_need_a_tokenizer(void **state) {
  static const tri_reward_opt bytes = {.name = "bytes", .weight = 1};
  tri_tokenizer              *tokenizer = NULL;
  step                        s;

  (void)state;
  step_make(&s, &bytes, 1);
  CHECK(step_reward(&s, NULL) == TRI_EINPUT &&
        refusal_is("tri_answers_open() tokenizer.json AutoTokenizer.from_pretrained"));
  tri_error_clear();
  OK(tri_tokenizer_open(TRI_TEST_DATA "/tokenizer/gpt2.json", &tokenizer));
  OK(step_reward(&s, tokenizer));
  for (int q = 0; q < s.r.n_seq; q++) CHECK(s.r.reward[q] == (float)(q + 1), "%g", (double)s.r.reward[q]);
  tri_tokenizer_close(&tokenizer);
  step_free(&s);
}

/* A tokenizer with tokens of one byte each. The search of its decoder never ends on text that begins with
 * "%". */
static const char ENDLESS_TOKENIZER[] =
    "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":null,"
    "\"post_processor\":null,"
    "\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^%(?:|){30}(?!)\"},\"content\":\"\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"%\":4},\"merges\":[]}}";
static const int32_t ENDLESS = 4;

static tri_tokenizer *open_endless(void) {
  char           path[] = "/tmp/trireme-answers-XXXXXX";
  int            fd = mkstemp(path);
  tri_tokenizer *t = NULL;

  CHECK(fd >= 0 && !close(fd));
  OK(tri_file_write(path, ENDLESS_TOKENIZER, sizeof ENDLESS_TOKENIZER - 1));
  OK(tri_tokenizer_open(path, &t));
  CHECK(!unlink(path));
  return t;
}

/* An answer without a text is left out, and those around it keep their own. The q-th answer is q + 1 times
 * the q-th letter. The one without a text gets 0 in every part. */
static void one_without_text_leaves_the_others_theirs(void **state) {
  static const tri_reward_opt both[] = {{.name = "letter", .weight = 1}, {.name = "census", .weight = 10}};
  tri_tokenizer              *tokenizer = open_endless();
  step                        s;

  (void)state;
  for (int bad = 0; bad < ANSWERS; bad++) {
    step_make(&s, both, 2);
    for (int q = 0; q < s.r.n_seq; q++)
      for (int64_t i = s.r.start[q] + 1; i < s.r.start[q + 1]; i++) s.r.token[i] = q == bad ? ENDLESS : q;
    OK(step_reward(&s, tokenizer));
    CHECK(census_got.n_call == 1 && census_got.n_answer == (last() ? ANSWERS - 1 : 0));
    CHECK(tri_answers_failed(&s.r, s.set, false) == last());
    for (int q = 0; q < s.r.n_seq; q++) {
      float letter = q == bad ? 0 : (float)('a' + q), all = q == bad ? 0 : ANSWERS - 1;
      CHECK(s.r.part[2 * q] == letter && s.r.part[2 * q + 1] == all && s.r.reward[q] == letter + 10 * all,
            "without %d, answer %d: %g", bad, q, (double)s.r.reward[q]);
      CHECK(s.r.failed[q] == (q == bad ? TRI_FAILED_TEXT : 0));
    }
    step_free(&s);
  }
  tri_tokenizer_close(&tokenizer);
}

/* One answer cannot be decoded, and the reward fails on another, which keeps its own bit. */
static void a_mark_keeps_to_its_answer(void **state) {
  static const tri_reward_opt both[] = {{.name = "bytes", .weight = 1}, {.name = "tokens", .weight = 10}};
  tri_tokenizer              *tokenizer = open_endless();
  step                        s;

  (void)state;
  step_make(&s, both, 2);
  if (last()) s.r.token[s.r.start[1] + 1] = ENDLESS;
  if (last()) s.r.stop[2] = TRI_STOP_LENGTH;
  OK(step_reward(&s, tokenizer));
  CHECK(tri_answers_failed(&s.r, s.set, false) == (last() ? 2 : 0));
  for (int q = 0; q < s.r.n_seq; q++) {
    static const int32_t failed[] = {0, TRI_FAILED_TEXT, 1 << 1, 0};
    static const float   reward[] = {11, 0, 3, 44};
    CHECK(s.r.failed[q] == failed[q] && s.r.reward[q] == reward[q], "answer %d: %g", q,
          (double)s.r.reward[q]);
  }
  step_free(&s);
  tri_tokenizer_close(&tokenizer);
}

/* Returns token `letter` of an answer. One answer cannot be decoded. */
static int32_t letter_of(int number) { return number == 5 ? ENDLESS : (number + number / GROUP) % 4; }

/* Makes this rank's answers, which are every size-th place from the last one down. Each is one letter. In r
 * they are in another order. */
static void put_backwards(tri_answers *x, const int32_t *place, int n, tri_rollout *r) {
  OK(tri_rollout_make(n * GROUP, 2 * n * GROUP, GROUP, 0, r));
  for (int own = n * GROUP - 1; own >= 0; own--) {
    int     q = (own * 5 + 3) % (n * GROUP), number = place[own / GROUP] * GROUP + own % GROUP;
    int32_t token = letter_of(number);
    r->start[q + 1] = 2 * q + 2;
    r->prompt_len[q] = 1;
    r->place[q] = number / GROUP;
    r->sample[q] = number % GROUP;
    r->prompt_id[q] = FIRST_ID + number / GROUP;
    r->token[2 * q + 1] = token;
    OK(tri_answers_put(x, number, &token, 1, TRI_STOP_EOS));
  }
}

/* Answers arrive in any order, from any rank, and each keeps its own number, text and scores. */
static void numbers_are_the_steps(void **state) {
  static const tri_reward_opt both[] = {{.name = "letter", .weight = 1}, {.name = "later", .weight = 1}};
  tri_tokenizer              *tokenizer = open_endless();
  tri_example                 example[PLACES];
  const tri_example          *list[PLACES];
  int32_t                     place[PLACES];
  tri_answers_opt             o = {.tokenizer = tokenizer, .example = list, .group = GROUP};
  tri_answers                *x;
  tri_rollout                 r = {0};
  int                         n = 0, texts = 0;

  (void)state;
  o.n = PLACES * GROUP;
  memset(later_score, 0, sizeof later_score);
  later_n = 0;
  for (int p = PLACES - 1; p >= 0; p--) {
    example[p] = (tri_example){.id = FIRST_ID + p, .token = &TOKEN, .n_token = 1};
    list[p] = &example[p];
    if (p % rt.world_size == rt.world_rank) place[n++] = p;
  }
  OK(tri_reward_set_open(both, 2, NULL, &o.set));
  OK(tri_answers_open(&o, &x));
  put_backwards(x, place, n, &r);
  OK(tri_answers_collect(x, &r, world));
  for (int q = 0; q < r.n_seq; q++) {
    int  number = r.place[q] * GROUP + r.sample[q], letter = 'a' + letter_of(number);
    bool none = letter_of(number) == ENDLESS;
    CHECK(r.failed[q] == (none ? TRI_FAILED_TEXT : 0));
    CHECK(r.part[2 * q] == (none ? 0 : (float)letter));
    CHECK(r.part[2 * q + 1] == (none ? 0 : later_of(number, r.prompt_id[q], letter)));
    texts += !none;
  }
  CHECK(later_n == texts);
  tri_answers_close(&x);
  tri_rollout_free(&r);
  tri_reward_set_close(&o.set);
  tri_tokenizer_close(&tokenizer);
}

static void nothing_is_held(void **state) {
  int64_t before = tri_host_bytes();
  step    s;

  (void)state;
  step_make(&s, BOTH, 2);
  OK(step_reward(&s, NULL));
  step_free(&s);
  CHECK(tri_host_bytes() == before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_collective_reward_asks_every_rank),
      cmocka_unit_test(a_rank_that_failed_keeps_none_waiting),
      cmocka_unit_test(what_cannot_be_judged_is_marked),
      cmocka_unit_test(texts_need_a_tokenizer),
      cmocka_unit_test(one_without_text_leaves_the_others_theirs),
      cmocka_unit_test(a_mark_keeps_to_its_answer),
      cmocka_unit_test(numbers_are_the_steps),
      cmocka_unit_test(nothing_is_held),
  };
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
