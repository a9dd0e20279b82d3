/* test_states.c - tests generation with recurrent layers, whose states lie in the cache. Greedy answers are
 * compared with goldens token for token (tests/golden/README.md). Log-probabilities match the trainer's bit
 * for bit. Answers stay the same for any number of rows, in caches of any size, and if a generation ends
 * early and goes on later, in f32, bf16 and fp16. No state passes from one answer to another. Run with 1, 2
 * and 3 ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "sampler_case.h"

#include "generate/sampler_impl.h"

static const char *const recurrent_models[] = {"model/qwen3_5_half", "model/qwen3_5_tied",
                                               "model/qwen3_5_wide"};
static const tri_dtype   types[] = {TRI_F32, TRI_BF16, TRI_F16};
enum { MODELS = 3, TYPES = 3 };

/* Several ranks, and the brief run, take one case of `step`. All cases pass through one rank. */
static int some(int step) { return world->size > 1 ? step : test_step(step); }

/* Answers to each prompt. The emulated device takes few. */
static int group(void) { return 6 / test_step(3); }

/* ---- greedy against the goldens ---- */

/* Brief: each model in one or two of the four ways, with one answer to each prompt. */
static void greedy_is_the_golden(void **state) {
  const int     rows[] = {1, 3, 8, 40};
  const int64_t prefill[] = {70, 75, 300, 1000};

  (void)state;
  for (int i = 0; i < MODELS; i++)
    for (int k = some(3) > 1 ? i % 2 : 0; k < 4; k += some(3)) {
      bench b;
      open_bench(&b, recurrent_models[i], TRI_F32, k % 2 ? zero3 : hybrid, rows[k], prefill[k]);
      greedy_of(&b, test_step(2) > 1 ? 1 : 1 + k);
      close_bench(&b);
    }
}

/* ---- the gap to the trainer ---- */

/* The trainer computes whole sequences, one or several at a time. The sampler computes a prompt and then row
 * by row. Brief: each model in another type, and one answer to each prompt. */
static void the_gap_is_zero(void **state) {
  const tri_sample_rule rules[] = {{0, 1, 0, 3}, {1, 1, 0, 4}, {1.3f, 0.9f, 0, 6}};

  (void)state;
  for (int i = 0; i < MODELS; i++)
    for (int type = i % some(3); type < TYPES; type += some(3)) {
      bench b;
      open_bench(&b, recurrent_models[i], types[type], type ? zero3 : hybrid, type ? 5 : 19, type ? 80 : 400);
      for (int k = 0; k < 3; k += some(2)) gap_of(&b, &rules[k], 3 / test_step(3), k % 2 ? 1 : TOKENS);
      close_bench(&b);
    }
}

/* ---- rows and caches ---- */

static tri_device_ops spied, real;
static tri_kernels    kernels;
static int64_t        n_calls, n_fresh, n_gone_on, n_idle; /* calls of delta_fwd with states, and sequences */

static tri_status spy_delta(tri_stream *s, tri_out o, tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                            tri_out state, const tri_delta_rows *rows, const tri_delta_rule *rule) {
  const int32_t *slot = rows->slot ? rows->slot->data : NULL, *fresh = slot ? rows->fresh->data : NULL;

  n_calls += slot != NULL;
  for (int64_t i = 0; slot && i < rows->slot->dim[0]; i++) {
    CHECK(slot[i] < state->dim[0]);
    n_idle += slot[i] < 0;
    n_fresh += slot[i] >= 0 && fresh[i];
    n_gone_on += slot[i] >= 0 && !fresh[i];
    for (int64_t k = 0; k < i; k++) CHECK(slot[i] < 0 || slot[k] != slot[i], "state %d twice", slot[i]);
  }
  return real.kernels->delta_fwd(s, o, c, ba, A_log, dt_bias, state, rows, rule);
}

/* Looks at the states of every call, on the CPU, where they can be read. */
static void spy_on_states(void) {
  n_calls = n_fresh = n_gone_on = n_idle = 0;
  if (strcmp(test_device(), "cpu") != 0) return;
  real = spied = *tri_device_find(test_device());
  kernels = *real.kernels;
  kernels.delta_fwd = spy_delta;
  spied.kernels = &kernels;
  instead = &spied;
}

static void expect_states(const bench *b) {
  tri_sampler_news n;

  tri_sampler_tell(b->s, &n);
  CHECK(tri_kv_free_states(b->s->kv) == b->s->opt.max_sequences + 1);
  if (!instead) return;
  CHECK(n_calls > 0 && n_fresh > 0 && n_gone_on > 0, "%lld calls, %lld states fresh, %lld gone on",
        (long long)n_calls, (long long)n_fresh, (long long)n_gone_on);
}

/* Answers to every prompt, with every answer long, then with some that end early. The least cache is short
 * for more than two rows. Brief: long ones only. */
static void collect_both(bench *b, answers out[2]) {
  const tri_sampler_opt *o = &b->s->opt;
  const bool             least = o->max_pages == tri_sampler_least_pages(LONGEST, MOST_NEW);

  for (int ends = 0; ends < 2; ends += test_step(2)) {
    n_ends = 2 * ends;
    collect(b, every_prompt, 8, group(), 11, &out[ends]);
    if (!ends && (least || !o->max_pages)) expect_short(b, 8 * group(), least && o->max_sequences > 2);
  }
  n_ends = 2;
}

static void expect_both(const answers a[2], const answers want[2], const char *model, int rows,
                        int64_t pages) {
  for (int ends = 0; ends < 2; ends += test_step(2))
    for (int i = 0; i < 8; i++)
      CHECK(same(&a[ends], &want[ends], i, group()), "%s, %d rows, %lld pages, prompt %d", model, rows,
            (long long)pages, i);
}

/* Rows from 1 to more than there are answers, and caches of all pages, of half and of one answer with its
 * prompt. The first case has no short cache, and all others have its answers. Brief: the most rows, then the
 * least cache, for two models in another type each. */
static void rows_and_caches_change_nothing(void **state) {
  static const struct {
    int rows, part; /* the cache has full pages / part, or the least if part is 0 */
  } cases[] = {{64, 1}, {20, 2}, {20, 0}, {1, 1}, {5, 1}, {7, 0}, {2, 0}};
  static answers want[2], a[2];
  const int64_t  least = tri_sampler_least_pages(LONGEST, MOST_NEW);

  (void)state;
  for (int i = 0; i < MODELS; i += test_step(2))
    for (int type = i % some(3); type < TYPES; type += some(3))
      for (int k = 0; k < (some(2) == 2 ? 3 : 7); k += some(2)) {
        int64_t full = tri_sampler_full_pages(cases[k].rows, LONGEST, MOST_NEW);
        bench   b;
        few_pages = cases[k].part == 1 ? 0 : cases[k].part ? full / cases[k].part : least;
        spy_on_states();
        open_bench(&b, recurrent_models[i], types[type], k % 2 ? zero3 : hybrid, cases[k].rows,
                   k % 2 ? LONGEST + MOST_NEW : 300);
        collect_both(&b, k ? a : want);
        if (k) expect_both(a, want, recurrent_models[i], cases[k].rows, few_pages);
        expect_states(&b);
        if (k == 2 && group() == 6) go_on_later(&b, &want[1], 60);
        close_bench(&b);
      }
  few_pages = 0;
  instead = NULL;
}

/* ---- states of other answers ---- */

/* Fills every state with NaN. */
static void spoil_states(bench *b) {
  const tri_device_ops *ops = b->se.device->ops;

  for (int layer = 0; layer < b->g.shape.L; layer++) {
    tri_tensor state, tail;
    if (!tri_is_recurrent(&b->g.shape, layer)) continue;
    tri_kv_states(b->s->kv, layer, &state, &tail);
    OK(ops->fill(b->se.stream, state.data, 0xff, (size_t)tri_tensor_count(&state) * sizeof(float)));
    OK(ops->fill(b->se.stream, tail.data, 0xff,
                 (size_t)tri_tensor_count(&tail) * tri_dtype_bytes(tail.dtype)));
  }
}

/* Answers begin at zero whatever their state held: NaN, or the states of answers before. A prompt of one
 * token enters the cache with its first decode row, also for a group of answers. */
static void no_state_is_passed_on(void **state) {
  static const int rows[] = {4, 1, 40};
  static answers   alone, a;

  (void)state;
  for (int i = 0; i < MODELS; i += some(2))
    for (int type = i % some(3); type < TYPES; type += some(3))
      for (int k = 0; k < 3; k += some(3)) {
        bench b;
        open_bench(&b, recurrent_models[i], types[type], hybrid, rows[k], 300);
        b.prompt[0].n_token = 1;
        spoil_states(&b);
        collect(&b, every_prompt, 8, group(), 11, &a);
        for (int p = 0; p < 8; p += test_step(3)) {
          spoil_states(&b);
          collect(&b, &every_prompt[p], 1, group(), 11, &alone);
          CHECK(same(&a, &alone, p, group()), "%s, %d rows, prompt %d", recurrent_models[i], rows[k], p);
          CHECK(isfinite(alone.logp[p][0][0]));
        }
        if (!k) gap_of(&b, &(tri_sample_rule){1, 1, 0, 4}, group(), 1);
        close_bench(&b);
      }
}

/* ---- recorded steps ---- */

static int n_recorded;

static tri_status spy_record(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                             tri_graph **out) {
  tri_status st = real.graph_record(s, work, ctx, out);
  n_recorded += *out != NULL;
  return st;
}

/* A recorded step reads the states of its rows when it runs. 48 answers of many lengths in 40 rows use most
 * row counts more than once, with rows that moved and padding. */
static void recorded_steps_change_nothing(void **state) {
  static answers plain, a;

  (void)state;
  real = spied = *tri_device_find(test_device());
  if (!real.graph_record) skip();
  n_ends = 4;
  instead = &spied;
  for (int i = 0; i < MODELS; i += test_step(3))
    for (int records = 0; records < 2; records++) {
      bench b;
      spied.graph_record = records ? spy_record : NULL;
      n_recorded = 0;
      open_bench(&b, recurrent_models[i], types[(i + 1) % TYPES], hybrid, 40, 200);
      spoil_states(&b);
      collect(&b, every_prompt, 8, 6, 5, records ? &a : &plain);
      for (int q = 0; q < 8 && records; q++)
        CHECK(same(&a, &plain, q, 6), "%s, prompt %d", recurrent_models[i], q);
      CHECK(records ? n_recorded >= 5 : n_recorded == 0, "%d recorded", n_recorded);
      close_bench(&b);
    }
  instead = NULL;
  n_ends = 2;
}

/* ---- the number of states ---- */

/* A state for each row and one for a prompt, which the plan of memory holds. */
static void states_are_counted(void **state) {
  static const int rows[] = {1, 8};

  (void)state;
  for (int k = 0; k < 2; k++) {
    bench           b;
    tri_ledger_row *row = NULL;
    int64_t         bytes = 0, each;
    int             n;
    char            name[48], size[TRI_CELL_BYTES];
    open_bench(&b, recurrent_models[k], TRI_BF16, hybrid, rows[k], 100);
    each = (int64_t)tri_kv_state_bytes(&b.g.shape, TRI_BF16);
    CHECK(tri_sampler_states(&b.g.shape, rows[k]) == rows[k] + 1 && each > 0);
    tri_cell_bytes(each, size);
    snprintf(name, sizeof name, "%d states of %s", rows[k] + 1, size);
    OK(tri_ledger_rows(b.se.ledger, &row, &n));
    for (int i = 0; i < n; i++)
      if (!strcmp(row[i].name, name)) bytes += row[i].bytes;
    free(row);
    CHECK(bytes >= (rows[k] + 1) * each && bytes < (rows[k] + 1) * each + 512, "%lld bytes",
          (long long)bytes);
    close_bench(&b);
    open_bench(&b, "model/qwen2", TRI_BF16, hybrid, rows[k], 100);
    CHECK(tri_sampler_states(&b.g.shape, rows[k]) == 0 && tri_kv_state_bytes(&b.g.shape, TRI_BF16) == 0);
    close_bench(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greedy_is_the_golden),           cmocka_unit_test(the_gap_is_zero),
      cmocka_unit_test(rows_and_caches_change_nothing), cmocka_unit_test(no_state_is_passed_on),
      cmocka_unit_test(recorded_steps_change_nothing),  cmocka_unit_test(states_are_counted)};
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
