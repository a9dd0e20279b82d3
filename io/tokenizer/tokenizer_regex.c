/* tokenizer_regex.c - regular expressions of the tokenizer: compiled by PCRE2, run over a piece of text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

/* The limit on steps of all searches in a call: LEAST_STEPS, and STEPS_PER_BYTE for each byte searched.
 * Measured: the patterns of tests/data/tokenizer need at most 2 steps per byte on runs of 300 000. PCRE2 can
 * only limit the steps from one start. A search below FEW_STEPS from each start is bounded by the length. Any
 * other search is repeated with its steps counted. */
enum { LEAST_STEPS = 1000000, STEPS_PER_BYTE = 64, FEW_STEPS = 256 };
/* The limit on memory of a search. Chosen as several times the memory of those patterns on 10 MB. */
enum { STACK_START_BYTES = 32 << 10, STACK_BYTES = 64 << 20, HEAP_KIB = 512 << 10 };

/* Makes the name for messages. The caller frees *out. */
static tri_status name_regex(const char *where, const char *s, size_t n, char **out) {
  size_t space = strlen(where) + 500;

  TRI_TRY(TRI_ALLOC(*out, space));
  snprintf(*out, space, "%s: the regular expression '%.*s'", where, (int)(n < 400 ? n : 400), s);
  return TRI_OK;
}

tri_status tri_tok_regex_open(const char *where, const char *s, size_t n, bool literal, tri_tok_regex *out) {
  /* As in Oniguruma, ^ and $ match at every line, only \n ends a line, and escapes and classes use
   * Unicode. */
  uint32_t options = literal ? PCRE2_LITERAL | PCRE2_UTF : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  tri_text               pattern = {0};
  char                   why[256] = "";
  int                    code = 0;
  PCRE2_SIZE             at = 0;
  tri_status             st = TRI_OK;

  *out = (tri_tok_regex){0};
  if (!context || pcre2_set_newline(context, PCRE2_NEWLINE_LF) || pcre2_set_bsr(context, PCRE2_BSR_UNICODE))
    TRI_FAIL_DONE(TRI_ENOMEM, "%s: no memory for a regular expression", where);
  if (literal)
    TRI_TRY_DONE(tri_text_put(&pattern, s, n));
  else
    TRI_TRY_DONE(tri_tok_regex_translate(where, s, n, &pattern));
  out->code = pcre2_compile((PCRE2_SPTR)(pattern.data ? pattern.data : ""), pattern.len, options, &code, &at,
                            context);
  if (!out->code) {
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    TRI_FAIL_DONE(TRI_EINPUT, "%s: the regular expression '%.*s' cannot be used: %s", where,
                  (int)(n < 400 ? n : 400), s, why);
  }
  out->counted = pcre2_compile((PCRE2_SPTR)(pattern.data ? pattern.data : ""), pattern.len,
                               options | PCRE2_AUTO_CALLOUT, &code, &at, context);
  if (!out->counted) TRI_FAIL_DONE(TRI_ENOMEM, "%s: no memory for a regular expression", where);
  TRI_TRY_DONE(name_regex(where, s, n, &out->name));
  /* a build without JIT gives the same result */
  pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE);
  pcre2_jit_compile(out->counted, PCRE2_JIT_COMPLETE);
done:
  tri_text_free(&pattern);
  pcre2_compile_context_free(context);
  return st;
}

void tri_tok_regex_close(tri_tok_regex *x) {
  pcre2_code_free(x->code);
  pcre2_code_free(x->counted);
  TRI_FREE(x->name);
  *x = (tri_tok_regex){0};
}

static int count_step(pcre2_callout_block *block, void *left) {
  (void)block;
  return --*(int64_t *)left < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

static tri_status open_work(tri_tok_work *w) {
  if (w->data) return TRI_OK;
  w->context = pcre2_match_context_create(NULL);
  w->stack = pcre2_jit_stack_create(STACK_START_BYTES, STACK_BYTES, NULL);
  w->data = pcre2_match_data_create(1, NULL);
  if (!w->context || !w->data) TRI_FAIL(TRI_ENOMEM, "no memory to run a regular expression");
  pcre2_set_heap_limit(w->context, HEAP_KIB);
  pcre2_set_callout(w->context, count_step, &w->steps);
  w->steps = LEAST_STEPS;
  if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
  return TRI_OK;
}

/* Works as pcre2_match. If the JIT stack is too small, the interpreter runs instead, with the same result. */
static int match(const pcre2_code *code, const char *s, size_t n, size_t at, tri_tok_work *w) {
  int rc = pcre2_match(code, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK, w->data, w->context);

  if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
    rc = pcre2_match(code, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->data, w->context);
  return rc;
}

/* Finds the next match at or after `at`. *found false: there is none. */
static tri_status search(const tri_tok_regex *x, const char *s, size_t n, size_t at, tri_tok_work *w,
                         bool *found, size_t *from, size_t *to) {
  char why[256] = "";
  int  rc;

  pcre2_set_match_limit(w->context, FEW_STEPS);
  rc = match(x->code, s, n, at, w);
  if (rc == PCRE2_ERROR_MATCHLIMIT) {
    pcre2_set_match_limit(w->context, UINT32_MAX); /* count_step stops it */
    rc = match(x->counted, s, n, at, w);
  }
  *found = rc >= 0;
  if (rc == PCRE2_ERROR_NOMATCH) return TRI_OK;
  if (rc < 0) {
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    TRI_FAIL(TRI_EINPUT, "%s fails on a text of %zu bytes: %s. Write it with fewer nested repeats", x->name,
             n, why);
  }
  *from = pcre2_get_ovector_pointer(w->data)[0];
  *to = pcre2_get_ovector_pointer(w->data)[1];
  if (*from > *to) TRI_FAIL(TRI_EINPUT, "%s ends a match before its start", x->name);
  return TRI_OK;
}

/* tokenizers, pattern.rs, find_matches, and onig, find.rs, FindMatches: an empty match right after the last
 * match is skipped. */
tri_status tri_tok_regex_find(const tri_tok_regex *x, const char *s, size_t n, tri_tok_work *w) {
  size_t  at = 0, prev = 0, last = SIZE_MAX, from, to;
  int32_t c;
  bool    found;

  TRI_TRY(open_work(w));
  w->steps += STEPS_PER_BYTE * (int64_t)n;
  w->n_match = 0;
  while (at <= n) {
    TRI_TRY(search(x, s, n, at, w, &found, &from, &to));
    if (!found) break;
    if (from == to && to == last) {
      at += at < n ? (size_t)tri_tok_char(s + at, n - at, &c) : 1;
      continue;
    }
    at = last = to;
    if (prev < from) TRI_TRY(tri_tok_add_match(w, prev, from, false));
    TRI_TRY(tri_tok_add_match(w, from, to, true));
    prev = to;
  }
  return prev < n ? tri_tok_add_match(w, prev, n, false) : TRI_OK;
}
