/* dataset_share.c - reads data files by all ranks together: each reads a part of the lines, then all get
 * all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/host_memory.h"
#include "dataset_parts.h"
#include "io/text/lines.h"

/* The head of a rank's message. Its examples follow. Then come, for each example, its tokens, the rejected
 * ones, prompt, answer and fields, and the marks of tokens without loss, each padded to 8 bytes. */
typedef struct part_head {
  tri_data_stats stats;
  too_long       too_long;
  int64_t        n;
} part_head;

static size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }
static size_t token_bytes(int n) { return padded((size_t)n * sizeof(int32_t)); }
static size_t text_bytes(const char *text, size_t n) { return text ? padded(n + 1) : 0; }
static size_t skip_bytes(const uint8_t *skip, int n) { return skip ? padded((size_t)n) : 0; }
static size_t payload(const tri_example *e) {
  return token_bytes(e->n_token) + token_bytes(e->n_rejected) + text_bytes(e->prompt, e->prompt_bytes) +
         text_bytes(e->answer, e->answer_bytes) + text_bytes(e->fields, e->fields_bytes) +
         skip_bytes(e->skip, e->n_token) + skip_bytes(e->rejected_skip, e->n_rejected);
}

/* ---- dividing the lines ---- */

/* Gives this rank's share of the bytes of all files, unpacked and one after another. */
static tri_status plan_ranges(const char *const *file, int n_file, const tri_comm *c, tri_data_range *range,
                              int64_t *size) {
  int64_t base = 0, total = 0, begin, end;

  for (int i = 0; i < n_file; i++) {
    TRI_TRY(tri_lines_size(file[i], &size[i]));
    if (size[i] > INT64_MAX - total)
      TRI_FAIL(TRI_EINPUT, "%s: this file and those before it have too many bytes to count", file[i]);
    total += size[i];
  }
  begin = total / c->size * c->rank;
  end = c->rank == c->size - 1 ? total : total / c->size * (c->rank + 1);
  for (int i = 0; i < n_file; i++) {
    range[i].begin = begin > base ? begin - base : 0;
    range[i].end = end - base < size[i] ? end - base : size[i];
    base += size[i];
  }
  return TRI_OK;
}

/* Collective over c. Reports the ranks that see a file of another size, because parts of different files
 * cannot be joined. */
static tri_status check_sizes(tri_comm *c, const char *const *file, int n_file, const int64_t *size) {
  for (int i = 0; i < n_file; i++) {
    int64_t range[2] = {size[i], -size[i]};
    TRI_TRY(tri_host_max(c, range, 2));
    if (range[0] != -range[1])
      TRI_FAIL(TRI_EINPUT,
               "%s: has %lld bytes for some ranks and %lld for others, but all must see the same files",
               file[i], (long long)-range[1], (long long)range[0]);
  }
  return TRI_OK;
}

/* ---- exchanging the parts ---- */

static void put(char **at, const void *from, size_t n, size_t space) {
  if (n) memcpy(*at, from, n);
  *at += space;
}

static tri_status pack(const tri_dataset *d, char **out, size_t *bytes) {
  part_head head = {d->stats, d->too_long, d->n};
  char     *at;

  *bytes = sizeof head + (size_t)d->n * sizeof *d->example;
  for (int64_t i = 0; i < d->n; i++) *bytes += payload(&d->example[i]);
  TRI_TRY(tri_host_alloc(*bytes, 1, (void **)out));
  at = *out;
  put(&at, &head, sizeof head, sizeof head);
  put(&at, d->example, (size_t)d->n * sizeof *d->example, (size_t)d->n * sizeof *d->example);
  for (int64_t i = 0; i < d->n; i++) {
    const tri_example *e = &d->example[i];
    put(&at, e->token, (size_t)e->n_token * sizeof *e->token, token_bytes(e->n_token));
    put(&at, e->rejected, (size_t)e->n_rejected * sizeof *e->rejected, token_bytes(e->n_rejected));
    put(&at, e->prompt, e->prompt_bytes, text_bytes(e->prompt, e->prompt_bytes));
    put(&at, e->answer, e->answer_bytes, text_bytes(e->answer, e->answer_bytes));
    put(&at, e->fields, e->fields_bytes, text_bytes(e->fields, e->fields_bytes));
    if (e->skip) put(&at, e->skip, (size_t)e->n_token, skip_bytes(e->skip, e->n_token));
    if (e->rejected_skip)
      put(&at, e->rejected_skip, (size_t)e->n_rejected, skip_bytes(e->rejected_skip, e->n_rejected));
  }
  return TRI_OK;
}

static void add_stats(tri_data_stats *sum, const tri_data_stats *s) {
  sum->n_line += s->n_line;
  sum->n_dropped += s->n_dropped;
  sum->n_truncated += s->n_truncated;
  sum->n_emptied += s->n_emptied;
  sum->n_plain += s->n_plain;
  sum->n_joined += s->n_joined;
  sum->n_token += s->n_token;
  sum->n_loss += s->n_loss;
  sum->n_conversation += s->n_conversation;
  sum->n_begun += s->n_begun;
  sum->n_system_left_out += s->n_system_left_out;
  sum->n_tools_left_out += s->n_tools_left_out;
  sum->n_text_left_out += s->n_text_left_out;
  sum->n_calls_left_out += s->n_calls_left_out;
  sum->n_endless += s->n_endless;
  if (s->longest_prompt > sum->longest_prompt) sum->longest_prompt = s->longest_prompt;
  if (s->longest > sum->longest) sum->longest = s->longest;
  if (s->longest_answer > sum->longest_answer) sum->longest_answer = s->longest_answer;
}

/* Adds b to a. b's lines come after a's. */
static void add_too_long(too_long *a, const too_long *b) {
  if (!a->n) {
    *a = *b;
    return;
  }
  a->n += b->n;
  if (b->n && a->whole == b->whole && b->longest > a->longest) a->longest = b->longest;
}

static void take_skip(const uint8_t **skip, int n, char **at) {
  size_t bytes = skip_bytes(*skip, n);

  *skip = *skip ? (const uint8_t *)*at : NULL;
  *at += bytes;
}

/* Takes the examples of one rank's message, and lets them point into it. */
static tri_status take_part(tri_dataset *d, char *message, size_t bytes, int rank) {
  part_head head;
  char     *at = message + sizeof head;

  memcpy(&head, message, sizeof head);
  if (head.n) memcpy(d->example + d->n, at, (size_t)head.n * sizeof *d->example);
  at += (size_t)head.n * sizeof *d->example;
  for (int64_t i = 0; i < head.n; i++) {
    tri_example *e = &d->example[d->n++];
    size_t       prompt = text_bytes(e->prompt, e->prompt_bytes);
    size_t       answer = text_bytes(e->answer, e->answer_bytes);
    size_t       fields = text_bytes(e->fields, e->fields_bytes);
    e->id += d->stats.n_line;
    e->token = (const int32_t *)(const void *)at;
    at += token_bytes(e->n_token);
    e->rejected = e->rejected ? (const int32_t *)(const void *)at : NULL;
    at += token_bytes(e->n_rejected);
    e->prompt = e->prompt ? at : NULL;
    at += prompt;
    e->answer = e->answer ? at : NULL;
    at += answer;
    e->fields = e->fields ? at : NULL;
    at += fields;
    take_skip(&e->skip, e->n_token, &at);
    take_skip(&e->rejected_skip, e->n_rejected, &at);
  }
  add_stats(&d->stats, &head.stats);
  add_too_long(&d->too_long, &head.too_long);
  if (at != message + bytes) TRI_FAIL(TRI_EINTERNAL, "rank %d's part of the data has a wrong size", rank);
  return TRI_OK;
}

/* Joins the messages of all ranks, one after the other. Takes over message. */
static tri_status join(char *message, const size_t *bytes, int size, tri_dataset **out) {
  tri_dataset *d;
  char        *at = message;

  if (TRI_ALLOC(*out, 1) != TRI_OK) {
    TRI_FREE(message);
    return TRI_ENOMEM;
  }
  d = *out;
  d->shared = message;
  for (int r = 0; r < size; at += bytes[r++]) {
    part_head head;
    memcpy(&head, at, sizeof head);
    d->cap += head.n;
  }
  TRI_TRY(TRI_ALLOC(d->example, d->cap));
  at = message;
  for (int r = 0; r < size; at += bytes[r++]) TRI_TRY(take_part(d, at, bytes[r], r));
  return TRI_OK;
}

tri_status tri_dataset_open_shared(const char *const *file, int n_file, const tri_data_opt *opt, tri_comm *c,
                                   tri_dataset **out) {
  tri_data_range *range = NULL;
  size_t         *bytes = NULL, n = 0;
  tri_dataset    *mine = NULL;
  char           *message = NULL, *all = NULL;
  int64_t        *size = NULL;
  tri_status      st;

  *out = NULL;
  if (c->size == 1 || !c->mpi) return tri_dataset_open(file, n_file, opt, out);
  st = TRI_ALLOC(range, n_file);
  if (st == TRI_OK) st = TRI_ALLOC(bytes, c->size);
  if (st == TRI_OK) st = TRI_ALLOC(size, n_file);
  if (st == TRI_OK) st = plan_ranges(file, n_file, c, range, size);
  TRI_TRY_DONE(tri_agree(c, st));
  TRI_TRY_DONE(check_sizes(c, file, n_file, size));
  st = tri_dataset_read(file, n_file, opt, range, &mine);
  if (st == TRI_OK) st = pack(mine, &message, &n);
  TRI_TRY_DONE(tri_agree(c, st));
  tri_dataset_close(&mine);
  TRI_TRY_DONE(tri_host_gather_all(c, message, n, (void **)&all, bytes));
  st = join(all, bytes, c->size, out);
  if (st == TRI_OK) st = tri_dataset_finish(*out, file, n_file, opt);
  TRI_TRY_DONE(tri_agree(c, st));
done:
  tri_dataset_close(&mine);
  TRI_FREE(message);
  TRI_FREE(bytes);
  TRI_FREE(size);
  TRI_FREE(range);
  if (st != TRI_OK) tri_dataset_close(out);
  return st;
}
