/* test_mask.c - secrets in addresses and command lines. Judge: exact texts. A masked text stays the same when
 * it is masked again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/host_memory.h"
#include "base/mask.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void check_url(const char *url, const char *want) {
  tri_text once = {0}, twice = {0};

  assert_int_equal(tri_mask_url(url, &once), TRI_OK);
  assert_string_equal(once.data ? once.data : "", want);
  assert_int_equal(tri_mask_url(want, &twice), TRI_OK);
  assert_string_equal(twice.data ? twice.data : "", want);
  tri_text_free(&once);
  tri_text_free(&twice);
}

static void check_text(const char *text, const char *want) {
  tri_text once = {0}, twice = {0};

  assert_int_equal(tri_mask_text(text, &once), TRI_OK);
  assert_string_equal(once.data ? once.data : "", want);
  assert_int_equal(tri_mask_text(want, &twice), TRI_OK);
  assert_string_equal(twice.data ? twice.data : "", want);
  tri_text_free(&once);
  tri_text_free(&twice);
}

static void check_word(const char *before, const char *word, const char *want) {
  tri_text out = {0};

  assert_int_equal(tri_mask_word(before, word, &out), TRI_OK);
  assert_string_equal(out.data ? out.data : "", want);
  tri_text_free(&out);
}

static void addresses(void **state) {
  (void)state;
  check_url("http://user:hunter2@127.0.0.1:9/x?token=SEKRIT", "http://***@127.0.0.1:9/x?token=***");
  check_url("https://user@host/", "https://***@host/");
  check_url("user:hunter2@host:80/x", "***@host:80/x");
  check_url("htp:/user:pw@host", "***@host");
  check_url("http://a:b@c@host/x", "http://***@host/x");
  check_url("http://user:pa/ss?w#d@host/x", "http://***@host/x");
  check_url("http://[::1]:80/v1/@me", "http://[::1]:80/v1/@me");
  check_url("http://host:8000/v1/@me", "http://host:8000/v1/@me");
  check_url("http://h?api_key=a&model=qwen&x=1&SEKRIT;sig=%41",
            "http://h?api_key=***&model=qwen&x=***&***;sig=***");
  check_url("http://h/x#SEKRIT", "http://h/x#***");
  check_url("http://h/v1/sk-abcdefgh123/score", "http://h/v1/sk-***/score");
  check_url("http://h/hooks/T0123456789abcdefGHIJ/score", "http://h/hooks/***/score");
  check_url("http://h/Qwen2.5-0.5B-Instruct/score", "http://h/Qwen2.5-0.5B-Instruct/score");
  check_url("http://h/x?model=T0123456789abcdefGHIJ", "http://h/x?model=***");
  check_url("", "");
  check_url("http://", "http://");
  check_url("http://@", "http://@");
}

static void texts(void **state) {
  (void)state;
  check_text("reward=[{name: http, url: \"http://u:p w@h/x?a=b c\", weight: 2}]",
             "reward=[{name: http, url: \"http://***@h/x?a=***\", weight: 2}]");
  check_text("reward=[{name: http, url: http://u:pw@h/x?a=b}]",
             "reward=[{name: http, url: http://***@h/x?a=***}]");
  check_text("[verify, --api-key, SEKRIT, --n, 3]", "[verify, --api-key, ***, --n, 3]");
  check_text("[verify, \"--token\", \"SEK RIT\"]", "[verify, \"--token\", \"***\"]");
  check_text("HF_TOKEN=SEKRIT exec ./v --password=pw2 -u", "HF_TOKEN=*** exec ./v --password=*** -u");
  check_text("curl -H 'Authorization: Bearer SEKRIT' -H \"X-Api-Key: SEKRIT\"",
             "curl -H 'Authorization: Bearer ***' -H \"X-Api-Key: ***\"");
  check_text("apiKey: SEKRIT, hf_abcdefghij", "apiKey: ***, hf_***");
  check_text("train.max_tokens_per_gpu=512 data.prompt_key=question --eos-token '</s>' --token-limit 9",
             "train.max_tokens_per_gpu=512 data.prompt_key=question --eos-token '</s>' --token-limit 9");
  check_text("--tokenizer m/tokenizer.json --auth --verbose token secret",
             "--tokenizer m/tokenizer.json --auth --verbose token secret");
  check_text("DB_PASS=SEKRIT MYSQL_PASSWD=SEKRIT aws-creds: SEKRIT",
             "DB_PASS=*** MYSQL_PASSWD=*** aws-creds: ***");
  check_text("first pass: all, whole; backward_passes=two pass_rate=high",
             "first pass: all, whole; backward_passes=two pass_rate=high");
  check_text("", "");
}

static void words(void **state) {
  (void)state;
  check_word("--api-key", "SEKRIT", "***");
  check_word("--token", "100", "100");
  check_word("--token", "--verbose", "--verbose");
  check_word("verify.py", "SEKRIT", "SEKRIT");
  check_word(NULL, "--url=http://u:p@h/x", "--url=http://***@h/x");
  check_word("-c", "API_TOKEN='SEK RIT' ./v", "API_TOKEN='***' ./v");
}

/* A server may repeat parts of the address, as they were sent or with their escapes resolved. */
static void echoes(void **state) {
  tri_secrets s = {0};
  char        text[128] = "Cannot POST /x?token=SEK%20RIT for user (hunter2): SEK RIT, ab";
  size_t      n;

  (void)state;
  assert_int_equal(tri_secrets_add_url(&s, "http://user:hunter2@h/x?token=SEK%20RIT&x=ab"), TRI_OK);
  n = tri_secrets_hide(&s, text, strlen(text));
  assert_string_equal(text, "Cannot POST /x?token=*** for *** (***): ***, ab");
  assert_int_equal(n, strlen(text));
  tri_secrets_free(&s);
  assert_int_equal(tri_secrets_hide(NULL, text, n), n);
}

/* One secret contains another, and two overlap. Nothing of either may be left. */
static void secrets_in_secrets(void **state) {
  tri_secrets s = {0};
  char        text[128] = "abcdef; abc; xabcdefx; abcdefgh";

  (void)state;
  assert_int_equal(tri_secrets_add_url(&s, "http://h/x?a=abc&b=abcdef&c=efgh"), TRI_OK);
  tri_secrets_hide(&s, text, strlen(text));
  assert_string_equal(text, "***; ***; x***x; ***");
  tri_secrets_free(&s);
}

/* A text that is cut within a secret shows no part of it. */
static void cut_texts(void **state) {
  static const char text[] = "key SEKRIT end";
  static const char whole[] = "key *** end";
  tri_secrets       s = {0};
  char              out[sizeof text];

  (void)state;
  assert_int_equal(tri_secrets_add_url(&s, "http://h/x?a=SEKRIT"), TRI_OK);
  for (size_t cap = 1; cap <= sizeof text; cap++) {
    size_t n = tri_secrets_copy(&s, text, strlen(text), out, cap);
    assert_true(n < cap && n == strlen(out) && !strncmp(out, whole, n));
    assert_true(n == 4 || n + 1 == cap || n == strlen(whole));
  }
  tri_secrets_free(&s);
}

/* `watch` may show a foreign deck. A megabyte in which each letter could begin a scheme must take no longer
 * than any other. */
static void long_texts(void **state) {
  enum { BYTES = 1 << 20 };
  tri_text text = {0}, out = {0};

  (void)state;
  for (int i = 0; i < BYTES; i += 2) assert_int_equal(tri_text_put(&text, "a+", 2), TRI_OK);
  alarm(60);
  assert_int_equal(tri_mask_text(text.data, &out), TRI_OK);
  alarm(0);
  assert_string_equal(out.data, text.data);
  tri_text_free(&text);
  tri_text_free(&out);
}

static int no_memory_is_held(void **state) {
  (void)state;
  return tri_host_bytes() == 0 ? 0 : -1;
}

int main(void) {
#define CASE(f) cmocka_unit_test_teardown(f, no_memory_is_held)
  const struct CMUnitTest tests[] = {CASE(addresses),          CASE(texts),     CASE(words),     CASE(echoes),
                                     CASE(secrets_in_secrets), CASE(cut_texts), CASE(long_texts)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
