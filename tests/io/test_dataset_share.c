/* test_dataset_share.c - tests data files read by all ranks together. Run with 1, 2, 3 and 4 ranks.
 *
 * Judge: the same files read whole by one rank (test_dataset.c), example by example and message by
 * message. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "ranks_case.h"

#include "base/rng.h"
#include "io/data/dataset.h"
#include "refusal_case.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VOCAB = 260, MOST_BYTES = 1 << 16 };

static char    folder[64], path[3][96]; /* shared by all ranks, the third is a pipe */
static int32_t ids[4096];
static char    text[MOST_BYTES];

/* A tokenizer of bytes. */
static tri_status encode_bytes(void *ctx, const char *t, size_t n, bool special, const int32_t **id,
                               int64_t *n_id) {
  (void)ctx;
  (void)special;
  for (size_t i = 0; i < n && i < 4096; i++) ids[i] = (unsigned char)t[i];
  *id = ids;
  *n_id = (int64_t)n;
  return TRI_OK;
}

static bool      limit_is_error;
static tri_chat *chat; /* NULL keeps text as plain text */

static tri_data_opt options(tri_data_kind kind) {
  return (tri_data_opt){.kind = kind,
                        .vocab = VOCAB,
                        .overlong_prompt = limit_is_error ? TRI_OVERLONG_ERROR : TRI_OVERLONG_DROP,
                        .overlong = limit_is_error ? TRI_OVERLONG_AS_PROMPT : TRI_OVERLONG_TRUNCATE,
                        .max_total_tokens = limit_is_error || chat ? 0 : 9, /* some prompts fill it */
                        .max_total_name = "the test's limit",
                        .chosen_key = "better", /* `chosen` is only for one kind */
                        .rejected_key = "worse",
                        .max_prompt_tokens = chat ? 9 + 50 : 9,
                        .chat = {chat, true, chat != NULL, NULL},
                        .end.completion = 256,
                        .end.text = 256,
                        .keep_fields = kind == TRI_DATA_RL,
                        .encode = encode_bytes};
}

/* Writes n lines of different lengths on rank 0, some blank, some too long. `bad` is the number, from 1, of a
 * line that is no object. */
static void put_lines(const char *file, int n, int bad, bool ends, uint64_t seed) {
  tri_rng_key key = tri_rng_make_key(seed, TRI_RNG_SHUFFLE);
  size_t      at = 0;

  for (int i = 1; i <= n; i++) {
    uint32_t bits[4];
    tri_rng_bits(key, 0, (uint64_t)i, bits);
    int width = (int)(bits[0] % 11);
    if (i == bad)
      at += (size_t)snprintf(text + at, sizeof text - at, "[%d]", i);
    else if (bits[1] % 5)
      at +=
          (size_t)snprintf(text + at, sizeof text - at,
                           "{\"prompt\": \"%.*s\", \"answer\": %s%d%s, \"completion\": \"%d\", "
                           "\"better\": \"%.*s\", \"worse\": \"%d\", \"margin\": %d.5, \"label\": %s}",
                           1 + width, "abcdefghijklmno", bits[2] % 2 ? "\"" : "", i, bits[2] % 2 ? "\"" : "",
                           i, (int)(bits[3] % 7), "bcdefghi", i, i, bits[2] % 2 ? "true" : "false");
    if (i < n || ends) text[at++] = '\n';
  }
  if (world->rank == 0) CHECK(tri_file_write(file, text, at) == TRI_OK);
  CHECK(tri_host_barrier(world) == TRI_OK);
}

static bool same_text(const char *a, size_t n, const char *b, size_t m) {
  if (!a || !b) return a == b && n == m;
  return n == m && !memcmp(a, b, n) && a[n] == 0;
}

static void check_same(const tri_dataset *a, const tri_dataset *b) {
  CHECK(tri_dataset_count(a) == tri_dataset_count(b));
  CHECK(!memcmp(tri_dataset_stats(a), tri_dataset_stats(b), sizeof(tri_data_stats)));
  CHECK(tri_dataset_hash(a) == tri_dataset_hash(b));
  for (int64_t i = 0; i < tri_dataset_count(a); i++) {
    const tri_example *x = tri_dataset_get(a, i), *y = tri_dataset_get(b, i);
    CHECK(x->id == y->id && x->file == y->file && x->n_token == y->n_token && x->n_prompt == y->n_prompt);
    CHECK(!memcmp(x->token, y->token, (size_t)x->n_token * sizeof *x->token));
    CHECK(!x->rejected == !y->rejected && x->n_rejected == y->n_rejected && x->value == y->value);
    CHECK(!x->rejected || !memcmp(x->rejected, y->rejected, (size_t)x->n_rejected * sizeof *x->rejected));
    CHECK(!x->skip == !y->skip && !x->rejected_skip == !y->rejected_skip);
    CHECK(!x->skip || !memcmp(x->skip, y->skip, (size_t)x->n_token));
    CHECK(!x->rejected_skip || !memcmp(x->rejected_skip, y->rejected_skip, (size_t)x->n_rejected));
    CHECK(same_text(x->prompt, x->prompt_bytes, y->prompt, y->prompt_bytes));
    CHECK(same_text(x->answer, x->answer_bytes, y->answer, y->answer_bytes));
    CHECK(same_text(x->fields, x->fields_bytes, y->fields, y->fields_bytes));
  }
}

/* Expects the same examples, or the same status and message, when read shared and whole. */
static void compare(const char *const *file, int n_file, tri_data_kind kind) {
  tri_data_opt opt = options(kind);
  tri_dataset *whole = NULL, *shared = NULL;
  char         said[1024];
  tri_status   want, got;

  tri_error_clear();
  want = tri_dataset_open(file, n_file, &opt, &whole);
  snprintf(said, sizeof said, "%s", want == TRI_OK ? "" : tri_error_message());
  tri_error_clear();
  got = tri_dataset_open_shared(file, n_file, &opt, world, &shared);
  CHECK(got == want);
  if (got == TRI_OK)
    check_same(shared, whole);
  else
    CHECK(!strcmp(said, tri_error_message()) && !shared);
  tri_dataset_close(&whole);
  tri_dataset_close(&shared);
  tri_error_clear();
  CHECK(tri_host_barrier(world) == TRI_OK); /* before the next file is written */
}

static void shares_every_length(void **state) {
  const char *file[] = {path[0], path[1]};

  (void)state;
  for (int n = 0; n < 40; n++) { /* some with fewer lines than ranks */
    put_lines(path[0], n, 0, n % 2, (uint64_t)n);
    put_lines(path[1], 40 - n, 0, n % 3, (uint64_t)n + 100);
    for (tri_data_kind kind = TRI_DATA_RL; kind <= TRI_DATA_LABELLED; kind++) {
      compare(file, 1, kind);
      compare(file, 2, kind);
    }
  }
}

/* Every treatment of long lines occurs in the shared files. */
static void counts_what_was_cut(void **state) {
  const char  *file[] = {path[0]};
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d = NULL;

  (void)state;
  put_lines(path[0], 40, 0, true, 3);
  OK(tri_dataset_open_shared(file, 1, &opt, world, &d));
  const tri_data_stats *s = tri_dataset_stats(d);
  CHECK(s->n_emptied > 0 && s->n_dropped > s->n_emptied && s->n_truncated > 0 && s->longest == 9);
  tri_dataset_close(&d);
  CHECK(tri_host_barrier(world) == TRI_OK);
}

static void shares_conversations(void **state) {
  const char    *file[] = {path[0], path[1]};
  tri_chat_files none = {.model = "m"};

  (void)state;
  OK(tri_chat_open(&(tri_chat_opt){.template = "chatml", .from_deck = true}, &none, &chat));
  for (int n = 0; n < 40; n += 13) {
    put_lines(path[0], n, 0, true, (uint64_t)n);
    put_lines(path[1], 40 - n, 0, false, (uint64_t)n + 100);
    for (tri_data_kind kind = TRI_DATA_RL; kind <= TRI_DATA_LABELLED; kind++) compare(file, 2, kind);
  }
  tri_chat_close(&chat);
}

static void names_the_first_bad_line(void **state) {
  const char *file[] = {path[0], path[1]};

  (void)state;
  for (int bad = 1; bad <= 30; bad++) {
    put_lines(path[0], 30, bad, true, 7);
    put_lines(path[1], 30, 31 - bad, false, 8);
    compare(file, 1, TRI_DATA_SFT);
    compare(file, 2, TRI_DATA_SFT);
    compare(file, 2, TRI_DATA_PAIRS);
    put_lines(path[0], 30, 0, true, 7);
    compare(file, 2, TRI_DATA_RL);
  }
}

/* All lines over the limit are counted, and the first is named, on whatever rank it is. */
static void counts_long_lines(void **state) {
  const char  *file[] = {path[0], path[1]};
  tri_data_opt opt = options(TRI_DATA_RL);
  tri_dataset *d = NULL;

  (void)state;
  limit_is_error = true;
  for (uint64_t seed = 1; seed < 12; seed++) {
    put_lines(path[0], seed < 6 ? 0 : 30, 0, true, seed);
    put_lines(path[1], 30, 0, false, seed + 12);
    compare(file, 1, TRI_DATA_RL);
    compare(file, 2, TRI_DATA_SFT);
    compare(file, 2, TRI_DATA_PAIRS);
  }
  opt = options(TRI_DATA_RL);
  CHECK(tri_dataset_open_shared(file, 2, &opt, world, &d) == TRI_EINPUT);
  CHECK(refusal_is("refuse_too_long() 0.jsonl:8 10 9") && refusal_is("refuse_too_long() 0.jsonl:8 60 11"));
  tri_error_clear();
  limit_is_error = false;
}

static void refuses_what_one_rank_refuses(void **state) {
  const char *file[] = {path[0], TRI_PROGRAM "/x.jsonl"}, *dir[] = {folder};

  (void)state;
  put_lines(path[0], 5, 0, true, 1);
  compare(file, 2, TRI_DATA_SFT);
  compare(dir, 1, TRI_DATA_SFT);
  put_lines(path[0], 0, 0, false, 1);
  compare(file, 1, TRI_DATA_SFT);
}

/* No rank holds a line that spans every part. */
static void holds_no_line_of_others(void **state) {
  enum { FILE_BYTES = 512 << 20, MOST = 64 << 20 };
  const char   *file[] = {path[0]};
  tri_data_opt  opt = options(TRI_DATA_SFT);
  tri_dataset  *d = NULL;
  struct rusage before, after;

  (void)state;
  put_lines(path[0], 5, 0, true, 1);
  if (world->rank == 0) CHECK(truncate(path[0], FILE_BYTES) == 0); /* a hole without a newline */
  CHECK(tri_host_barrier(world) == TRI_OK);
  opt.max_line_bytes = 1 << 20;
  CHECK(getrusage(RUSAGE_SELF, &before) == 0);
  CHECK(tri_dataset_open_shared(file, 1, &opt, world, &d) == TRI_EINPUT);
  CHECK(getrusage(RUSAGE_SELF, &after) == 0);
  CHECK(refusal_is("take_line() 0.jsonl:6 more than"));
  CHECK((after.ru_maxrss - before.ru_maxrss) * 1024 < MOST);
  tri_error_clear();
}

/* Nobody waits for a writer. */
static void refuses_a_pipe(void **state) {
  const char  *file[] = {path[2]};
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d = NULL;

  (void)state;
  if (world->rank == 0) CHECK(mkfifo(path[2], 0600) == 0);
  CHECK(tri_host_barrier(world) == TRI_OK);
  CHECK(tri_dataset_open_shared(file, 1, &opt, world, &d) == TRI_EINPUT);
  CHECK(refusal_is("check_regular() 2.jsonl"));
  tri_error_clear();
}

static int make_folder(void **state) {
  ranks_open(state);
  snprintf(folder, sizeof folder, "/tmp/tri_share_XXXXXX");
  if (world->rank == 0) CHECK(mkdtemp(folder) != NULL);
  OK(tri_host_bcast(world, folder, sizeof folder, 0));
  for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%d.jsonl", folder, i);
  return 0;
}

static int remove_folder(void **state) {
  for (int i = 0; i < 3 && world->rank == 0; i++) unlink(path[i]);
  if (world->rank == 0) rmdir(folder);
  return ranks_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_every_length),  cmocka_unit_test(names_the_first_bad_line),
      cmocka_unit_test(shares_conversations), cmocka_unit_test(refuses_what_one_rank_refuses),
      cmocka_unit_test(counts_long_lines),    cmocka_unit_test(holds_no_line_of_others),
      cmocka_unit_test(counts_what_was_cut),  cmocka_unit_test(refuses_a_pipe)};

  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
