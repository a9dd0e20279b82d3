/* test_unpack.c - reads files packed with gzip and zstd. Judges: the same bytes in a plain file, packed here
 * by zlib and zstd themselves. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "io/text/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "refusal_case.h"

enum { N_LINES = 20000 };

static char     folder[64], plain[96], packed[96];
static tri_text text; /* N_LINES lines */

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_unpack_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(plain, sizeof plain, "%s/a.jsonl", folder);
  snprintf(packed, sizeof packed, "%s/b.jsonl", folder);
  for (int i = 0; i < N_LINES; i++)
    assert_int_equal(
        tri_text_printf(&text, "{\"n\":%d,\"x\":%u}%s\n", i, (unsigned)i * 2654435761u, i % 7 ? "" : "\n"),
        TRI_OK);
  assert_int_equal(tri_file_write(plain, text.data, text.len), TRI_OK);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tri_text_free(&text);
  unlink(plain);
  unlink(packed);
  assert_int_equal(tri_host_bytes(), 0);
  return rmdir(folder);
}

/* Append one member or frame with n bytes. */
static void put_gzip(tri_text *out, const char *bytes, size_t n) {
  size_t   space = compressBound(n) + 64;
  char    *to = malloc(space);
  z_stream z = {
      .next_in = (Bytef *)bytes, .avail_in = (uInt)n, .next_out = (Bytef *)to, .avail_out = (uInt)space};

  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  assert_int_equal(tri_text_put(out, to, z.total_out), TRI_OK);
  deflateEnd(&z);
  free(to);
}

static void put_zstd(tri_text *out, const char *bytes, size_t n) {
  size_t     space = ZSTD_compressBound(n), got;
  char      *to = malloc(space);
  ZSTD_CCtx *c = ZSTD_createCCtx();

  /* As the zstd command does. */
  assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1)));
  got = ZSTD_compress2(c, to, space, bytes, n);
  assert_false(ZSTD_isError(got));
  assert_int_equal(tri_text_put(out, to, got), TRI_OK);
  ZSTD_freeCCtx(c);
  free(to);
}

typedef void         put_fn(tri_text *out, const char *bytes, size_t n);
static put_fn *const put[] = {put_gzip, put_zstd};

/* Packs in two pieces. The second begins inside a line. */
static void pack(put_fn *how, tri_text *out) {
  size_t half = text.len / 2 + 5;

  out->len = 0;
  how(out, text.data, half);
  how(out, text.data + half, text.len - half);
}

/* The lines that begin at bytes begin .. end - 1 are equal in both files, and so are their numbers. */
static void expect_same(int64_t begin, int64_t end) {
  tri_lines  *a, *b;
  const char *x, *y;
  size_t      n, m;

  assert_int_equal(tri_lines_open(plain, begin, end, &a), TRI_OK);
  if (tri_lines_open(packed, begin, end, &b) != TRI_OK) fail_msg("%s", tri_error_message());
  for (int64_t i = 0;; i++) {
    assert_int_equal(tri_lines_next(a, &x, &n), TRI_OK);
    if (tri_lines_next(b, &y, &m) != TRI_OK) fail_msg("%s", tri_error_message());
    assert_int_equal(x == NULL, y == NULL);
    if (!x) break;
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    if (i % 5000 == 0) assert_int_equal(tri_lines_number(a), tri_lines_number(b));
  }
  assert_int_equal(tri_lines_taken(a), tri_lines_taken(b));
  tri_lines_close(&a);
  tri_lines_close(&b);
}

static void reads_packed_files(void **state) {
  static const char padding[600] = {0};
  tri_text          out = {0};
  int64_t           size, len = (int64_t)text.len;

  (void)state;
  for (int k = 0; k < 3; k++) {
    pack(put[k % 2], &out);
    if (k == 0) assert_int_equal(tri_text_put(&out, padding, sizeof padding), TRI_OK);
    if (k == 2) { /* as pzstd does */
      static const char skipped[] = "\x5a\x2a\x4d\x18\4\0\0\0abcd";
      out.len = 0;
      assert_int_equal(tri_text_put(&out, skipped, sizeof skipped - 1), TRI_OK);
      put_zstd(&out, text.data, text.len);
      assert_int_equal(tri_text_put(&out, skipped, sizeof skipped - 1), TRI_OK);
    }
    assert_int_equal(tri_file_write(packed, out.data, out.len), TRI_OK);
    assert_true((int64_t)out.len < len / 2);
    assert_int_equal(tri_lines_size(packed, &size), TRI_OK);
    assert_int_equal(size, len);
    expect_same(0, INT64_MAX);
    for (int64_t at = 1; at < len; at += len / 3 + 1) expect_same(at, at + len / 3 + 1);
    expect_same(len - 1, len);
  }
  assert_int_equal(tri_lines_size(plain, &size), TRI_OK);
  assert_int_equal(size, len);
  tri_text_free(&out);
}

/* Reading the whole file fails, and the message has `part`. */
static void expect_broken(const char *bytes, size_t n, const char *part) {
  tri_lines  *l = NULL;
  const char *line = "";
  size_t      m;
  tri_status  st;

  assert_int_equal(tri_file_write(packed, bytes, n), TRI_OK);
  st = tri_lines_open(packed, 0, INT64_MAX, &l);
  while (st == TRI_OK && line) st = tri_lines_next(l, &line, &m);
  assert_int_equal(st, TRI_EINPUT);
  if (!refusal_is(packed) || !refusal_is(part)) fail_msg("`%s` does not say `%s`", tri_error_message(), part);
  tri_error_clear();
  tri_lines_close(&l);
}

static void refuses_broken_files(void **state) {
  static const char *const name[] = {"broken() b.jsonl gzip", "broken() b.jsonl zstd"};
  tri_text                 out = {0};

  (void)state;
  for (int k = 0; k < 2; k++) {
    pack(put[k], &out);
    for (size_t n = 5; n < out.len; n += out.len / 5)
      expect_broken(out.data, n, "it ends too early, as if cut off");
    expect_broken(out.data, out.len - 1, "it ends too early");
    out.data[out.len / 3] ^= 64;
    expect_broken(out.data, out.len, name[k]);
    out.data[out.len / 3] ^= 64;
    assert_int_equal(tri_text_put(&out, "rest", 4), TRI_OK);
    expect_broken(out.data, out.len, name[k]);
  }
  tri_text_free(&out);
}

/* A file that unpacks to a GiB of line ends is refused. */
static void refuses_a_bomb(void **state) {
  enum { MIB = 1 << 20 };
  ZSTD_CStream *c = ZSTD_createCStream();
  char         *zeros = calloc(1, MIB), *to = malloc(MIB);
  tri_text      out = {0};
  int64_t       size;

  (void)state;
  for (int i = 0; i <= 1100; i++) {
    ZSTD_inBuffer  in = {zeros, i < 1100 ? MIB : 0, 0};
    ZSTD_outBuffer o = {to, MIB, 0};
    size_t         left = ZSTD_compressStream2(c, &o, &in, i < 1100 ? ZSTD_e_continue : ZSTD_e_end);
    assert_false(ZSTD_isError(left));
    assert_int_equal(in.pos, in.size);
    assert_int_equal(tri_text_put(&out, to, o.pos), TRI_OK);
  }
  assert_int_equal(tri_file_write(packed, out.data, out.len), TRI_OK);
  assert_int_equal(tri_lines_size(packed, &size), TRI_EINPUT);
  expect_refusal("check_ratio() b.jsonl zstd 4096");
  tri_error_clear();
  ZSTD_freeCStream(c);
  free(zeros);
  free(to);
  tri_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_packed_files, setup, teardown),
      cmocka_unit_test_setup_teardown(refuses_broken_files, setup, teardown),
      cmocka_unit_test_setup_teardown(refuses_a_bomb, setup, teardown),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
