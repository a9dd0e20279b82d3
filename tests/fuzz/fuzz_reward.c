/* fuzz_reward.c - the rule rewards (src/reward/reward_rule.c, reward_math.c), from a byte that selects the
 * rule and two texts separated by 0x01.
 *
 * If the byte is odd, the texts are a pattern and a response, and the reward must be 0 or 1. If it is even,
 * the texts are two answers. The results of exact, number and gsm8k must not depend on their order, and each
 * answer must be right compared with itself. fuzz_math.c covers answers of mathematics. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "reward/reward.h"

FUZZ_QUIET_START

static void check_pattern(fuzz_part pattern, fuzz_part text) {
  char            copy[1024] = "";
  tri_reward_opt  o = {.name = "regex", .weight = 1, .n_field = 1, .field = {{"pattern", copy, 0}}};
  tri_answer      answer = {.prompt = "", .response = text.p, .response_bytes = text.n};
  tri_reward_set *set = NULL;
  float           part[1], total;
  int32_t         failed;

  if (memchr(pattern.p, 0, pattern.n) || pattern.n >= sizeof copy || !fuzz_is_utf8(text.p, text.n)) return;
  memcpy(copy, pattern.p, pattern.n);
  if (tri_reward_set_open(&o, 1, NULL, &set) == TRI_OK) {
    FUZZ_CHECK(tri_reward_set_score(set, &answer, 1, part, &total, &failed) == TRI_OK);
    FUZZ_CHECK((total == 0 || (total == 1 && !failed)) && part[0] == total && (failed & ~1) == 0);
  }
  tri_reward_set_close(&set);
}

static void check_pair(fuzz_part a, fuzz_part b) {
  enum { RULES = 3 };
  static const tri_reward_opt rule[RULES] = {
      {.name = "exact", .weight = 1}, {.name = "number", .weight = 1}, {.name = "gsm8k", .weight = 1}};
  tri_answer      answer[3] = {{.response = b.p, .response_bytes = b.n, .truth = a.p, .truth_bytes = a.n},
                               {.response = a.p, .response_bytes = a.n, .truth = b.p, .truth_bytes = b.n},
                               {.response = a.p, .response_bytes = a.n, .truth = a.p, .truth_bytes = a.n}};
  tri_reward_set *set = NULL;
  float           part[3][RULES], total;
  int32_t         failed;
  bool            good[3];

  FUZZ_CHECK(tri_reward_set_open(rule, RULES, NULL, &set) == TRI_OK);
  for (int i = 0; i < 3; i++) {
    answer[i].prompt = "";
    good[i] = !tri_reward_set_refuse(set, answer[i].truth, answer[i].truth_bytes);
    FUZZ_CHECK((tri_reward_set_score(set, &answer[i], 1, part[i], &total, &failed) == TRI_OK) == good[i]);
    tri_error_clear();
  }
  for (int i = 0; i < RULES; i++) {
    if (good[0] && good[1]) FUZZ_CHECK(part[0][i] == part[1][i]);
    if (good[2]) FUZZ_CHECK(part[2][i] == 1);
  }
  tri_reward_set_close(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part a, b;
  bool      odd;

  if (n < 1 || n > 1 << 14) return -1;
  odd = data[0] & 1;
  data++;
  n--;
  a = fuzz_next(&data, &n);
  b = fuzz_next(&data, &n);
  fuzz_begin();
  if (odd)
    check_pattern(a, b);
  else
    check_pair(a, b);
  fuzz_end();
  return 0;
}
