/* test_safetensors.c - tests safetensors files.
 *
 * Judges: files of the reference library (make_safetensors_golden.py), the definition of binary16, and for
 * broken files the rule that each is refused with a message. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "io/model/safetensors.h"
#include "refusal_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define DATA TRI_TEST_DATA "/safetensors/"

static char folder[64]; /* emptied by hand at the end of each test */

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_safetensors_XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  static const char *const name[] = {"model.safetensors", "model.safetensors.index.json", "a.safetensors",
                                     "b.safetensors", "a.safetensors.tmp"};
  char                     path[256];

  (void)state;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    unlink(path);
  }
  assert_int_equal(tri_host_bytes(), 0);
  return rmdir(folder);
}

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static float ramp(int64_t i) { return (float)(i - 5) * 0.37f; }

static void write_bytes(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  if (n) assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* Makes a file with this header length, this header and data_bytes zero bytes. */
static void write_raw(const char *name, uint64_t length, const char *header, size_t data_bytes) {
  size_t         n = strlen(header);
  unsigned char *b = calloc(8 + n, 1);

  assert_non_null(b);
  for (int i = 0; i < 8; i++) b[i] = (unsigned char)(length >> 8 * i);
  memcpy(b + 8, header, n);
  write_bytes(in_folder(name), b, 8 + n);
  assert_int_equal(truncate(in_folder(name), (off_t)(8 + n + data_bytes)), 0);
  free(b);
}

static void expect_refused(const char *path, const char *part) {
  tri_safetensors *s;

  tri_error_clear();
  assert_int_equal(tri_safetensors_open(path, &s), TRI_EINPUT);
  assert_null(s);
  expect_refusal(part);
}

/* Judge: the limit in safetensors.c. */
static void refuses_endless_json(void **state) {
  enum { NESTED = 1 << 19 };
  tri_text text = {0};

  (void)state;
  assert_int_equal(tri_text_printf(&text, "{\"x\":["), TRI_OK);
  for (int i = 0; i < NESTED; i++) assert_int_equal(tri_text_put(&text, "{},", 3), TRI_OK);
  assert_int_equal(tri_text_printf(&text, "0]}"), TRI_OK);
  write_raw("a.safetensors", text.len, text.data, 0);
  expect_refused(in_folder("a.safetensors"), "read_header() a.safetensors 524288");
  write_bytes(in_folder("model.safetensors.index.json"), text.data, text.len);
  expect_refused(folder, "add_index() model.safetensors.index.json 524288");
  tri_text_free(&text);
}

/* Judge: the reference library wrote the file. */
static void reads_reference_file(void **state) {
  static const float          half[] = {0,        -0.0f,     1,         -2.5f,    65504,
                                        0x1p-24f, -0x1p-14f, 3.140625f, INFINITY, -INFINITY};
  tri_safetensors            *s;
  const tri_safetensors_info *t;
  float                       out[16];

  (void)state;
  assert_int_equal(tri_safetensors_open(DATA "mixed.safetensors", &s), TRI_OK);
  assert_int_equal(tri_safetensors_count(s), 8);
  for (int64_t i = 1; i < 8; i++)
    assert_true(strcmp(tri_safetensors_at(s, i - 1)->name, tri_safetensors_at(s, i)->name) < 0);
  assert_null(tri_safetensors_find(s, "b.f3"));

  t = tri_safetensors_find(s, "b.f32");
  assert_string_equal(t->dtype, "F32");
  assert_int_equal(t->ndim, 2);
  assert_int_equal(t->dim[0], 3);
  assert_int_equal(t->dim[1], 4);
  assert_string_equal(tri_safetensors_path(s, t), DATA "mixed.safetensors");
  assert_int_equal(tri_safetensors_read_f32(s, t, 0, 12, out), TRI_OK);
  for (int i = 0; i < 12; i++) assert_true(out[i] == ramp(i));
  assert_int_equal(tri_safetensors_read_f32(s, t, 7, 3, out), TRI_OK);
  for (int i = 0; i < 3; i++) assert_true(out[i] == ramp(7 + i));

  t = tri_safetensors_find(s, "a.bf16");
  assert_int_equal(t->ndim, 4);
  assert_int_equal(tri_safetensors_read_f32(s, t, 0, 12, out), TRI_OK);
  for (int i = 0; i < 12; i++) assert_true(out[i] == tri_bf16_to_f32(tri_f32_to_bf16(ramp(i))));
  assert_int_equal(tri_safetensors_read_f32(s, t, 11, 1, out), TRI_OK);
  assert_true(out[0] == tri_bf16_to_f32(tri_f32_to_bf16(ramp(11))));

  t = tri_safetensors_find(s, "c.f16");
  assert_int_equal(tri_safetensors_read_f32(s, t, 0, 10, out), TRI_OK);
  for (int i = 0; i < 10; i++) assert_true(out[i] == half[i] && signbit(out[i]) == signbit(half[i]));

  t = tri_safetensors_find(s, "scalar");
  assert_int_equal(t->ndim, 0);
  assert_int_equal(t->count, 1);
  assert_int_equal(tri_safetensors_read_f32(s, t, 0, 1, out), TRI_OK);
  assert_true(out[0] == 7.5f);
  tri_safetensors_close(&s);
  assert_null(s);
  tri_safetensors_close(&s);
}

/* A tensor that cannot be read is refused on reading, with its name and dtype. */
static void refuses_only_on_reading(void **state) {
  static const char *const name[] = {"ids", "f64", "five", "empty"};
  static const char *const part[] = {"tri_safetensors_read_f32() mixed.safetensors ids (I64)",
                                     "tri_safetensors_read_f32() mixed.safetensors f64 (F64)",
                                     "tri_safetensors_read_f32() mixed.safetensors five 4",
                                     "tri_safetensors_read_f32() mixed.safetensors empty (F32)"};
  tri_safetensors         *s;
  float                    out[4];

  (void)state;
  assert_int_equal(tri_safetensors_open(DATA "mixed.safetensors", &s), TRI_OK);
  for (int i = 0; i < 4; i++) {
    tri_error_clear();
    assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, name[i]), 0, 1, out), TRI_EINPUT);
    expect_refusal(part[i]);
  }
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b.f32"), 10, 3, out), TRI_EARG);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b.f32"), -1, 1, out), TRI_EARG);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b.f32"), INT64_MAX, 1, out),
                   TRI_EARG);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b.f32"), 1, INT64_MAX, out),
                   TRI_EARG);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b.f32"), 12, 0, out), TRI_OK);
  tri_safetensors_close(&s);
}

/* Judge: the definition of binary16, for all 65536 values. */
static void reads_every_half(void **state) {
  enum { N = 65536 };
  static const char header[] = "{\"h\":{\"dtype\":\"F16\",\"shape\":[256,256],\"data_offsets\":[0,131072]}}";
  unsigned char    *b = calloc(1, 8 + sizeof header - 1 + 2 * N);
  float            *out = malloc(N * sizeof *out);
  tri_safetensors  *s;

  (void)state;
  b[0] = sizeof header - 1;
  memcpy(b + 8, header, sizeof header - 1);
  for (int i = 0; i < N; i++) {
    b[8 + sizeof header - 1 + 2 * i] = (unsigned char)i;
    b[8 + sizeof header + 2 * i] = (unsigned char)(i >> 8);
  }
  write_bytes(in_folder("a.safetensors"), b, 8 + sizeof header - 1 + 2 * N);
  assert_int_equal(tri_safetensors_open(in_folder("a.safetensors"), &s), TRI_OK);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_at(s, 0), 0, N, out), TRI_OK);
  for (int i = 0; i < N; i++) {
    int    exponent = i >> 10 & 31, fraction = i & 1023;
    double want = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    if (isnan(want))
      assert_true(isnan(out[i]));
    else
      assert_true(out[i] == (float)(i & 0x8000 ? -want : want));
    assert_int_equal(signbit(out[i]) != 0, i >> 15);
  }
  tri_safetensors_close(&s);
  free(out);
  free(b);
}

static void reads_folder_of_shards(void **state) {
  static const char *const path[] = {DATA "shards", DATA "shards/model.safetensors.index.json"};
  tri_safetensors         *s;
  float                    out[4];

  (void)state;
  for (int p = 0; p < 2; p++) {
    assert_int_equal(tri_safetensors_open(path[p], &s), TRI_OK);
    assert_int_equal(tri_safetensors_count(s), 3);
    assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "w.1"), 0, 3, out), TRI_OK);
    for (int i = 0; i < 3; i++) assert_true(out[i] == ramp(i));
    assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "w.2"), 1, 3, out), TRI_OK);
    for (int i = 0; i < 3; i++) assert_true(out[i] == ramp(i + 1));
    assert_string_equal(tri_safetensors_path(s, tri_safetensors_find(s, "w.2")),
                        DATA "shards/model-00002-of-00002.safetensors");
    tri_safetensors_close(&s);
  }
}

#define T(body)    "{\"a\":{" body "}}"
#define F(offsets) "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" offsets
#define E(name, begin, end)                                                                                  \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"

static void refuses_broken_headers(void **state) {
  static const struct {
    const char *header;
    size_t      data_bytes;
    const char *part;
  } row[] = {
      {"", 8, "read_header() a.safetensors {"},
      {" {}", 0, "read_header() a.safetensors {"},
      {"[]", 0, "read_header() a.safetensors {"},
      {"{", 0, "not JSON"},
      {"{\"a\":}", 0, "not JSON"},
      {"{} x", 0, "not JSON"},
      {"{\"a\":\"\xff\"}", 0, "not JSON"},
      {"{\"a\":1}", 0, "add_header() a.safetensors"},
      {"{\"__metadata__\":1}", 0, "add_header() a.safetensors"},
      {"{" E("a", "0", "8") "," E("a", "8", "16") "}", 16, "duplicate"},
      {T("\"shape\":[2],\"data_offsets\":[0,8]"), 8, "parse_tensor() a.safetensors dtype !F31"},
      {T("\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, "parse_tensor() a.safetensors F31"},
      {T("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), 8, "parse_shape() a.safetensors shape"},
      {T("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"), 8, "parse_shape() a.safetensors shape"},
      {T("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]"), 8, "parse_shape() a.safetensors >= 0"},
      {T("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), 8, "parse_shape() a.safetensors >= 0"},
      {T("\"dtype\":\"F32\",\"shape\":[-1,-2],\"data_offsets\":[0,8]"), 8,
       "parse_shape() a.safetensors >= 0"},
      {T("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,1],\"data_offsets\":[0,8]"), 8,
       "parse_shape() a.safetensors !>="},
      {T("\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,8]"), 8,
       "parse_tensor() a.safetensors 4611686018427387904 32"},
      {T("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2, "parse_tensor() a.safetensors 3 4"},
      {T("\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]"), 8, "not JSON"},
      {T("\"dtype\":\"F32\",\"shape\":[2]"), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("[0]")), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("[0,8,8]")), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("[0,8.0]")), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("[\"0\",8]")), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("{\"0\":0}")), 8, "parse_tensor() a.safetensors data_offsets"},
      {T(F("[-8,0]")), 8, "parse_tensor() a.safetensors 0 8"},
      {T(F("[8,0]")), 8, "parse_tensor() a.safetensors 0 8"},
      {T(F("[0,9223372036854775807]")), 8, "parse_tensor() a.safetensors 0 8"},
      {T(F("[0,8]")), 7, "parse_tensor() a.safetensors 0 8"},
      {T(F("[0,4]")), 8, "parse_tensor() a.safetensors 8 4"},
      {T(F("[0,8]")), 9, "check_cover() a.safetensors 1 !`a`"},
      {T(F("[1,9]")), 9, "check_cover() a.safetensors 1 `a`"},
      {"{" E("a", "0", "8") "," E("b", "4", "12") "}", 12, "overlaps"},
      {"{" E("a", "0", "8") "," E("b", "0", "8") "}", 8, "overlaps"},
      {"{" E("a", "0", "8") "," E("b", "12", "20") "}", 20, "check_cover() a.safetensors 4 b"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_raw("a.safetensors", strlen(row[i].header), row[i].header, row[i].data_bytes);
    expect_refused(in_folder("a.safetensors"), row[i].part);
    expect_refusal("a.safetensors");
  }
}

static void refuses_broken_lengths(void **state) {
  static const char good[] = "{" E("a", "0", "8") "}";

  (void)state;
  write_raw("a.safetensors", (uint64_t)1 << 60, good, 8);
  expect_refused(in_folder("a.safetensors"), "fail_length() a.safetensors 70");
  write_raw("a.safetensors", UINT64_MAX, good, 8);
  expect_refused(in_folder("a.safetensors"), "fail_length() a.safetensors 70");
  write_raw("a.safetensors", sizeof good - 1 + 9, good, 8);
  expect_refused(in_folder("a.safetensors"), "fail_length() a.safetensors 70");
  write_raw("a.safetensors", (16 << 20) + 1, good, 17 << 20);
  expect_refused(in_folder("a.safetensors"), "too large");
  write_raw("a.safetensors", sizeof good - 3, good, 8); /* the header is cut in the middle */
  expect_refused(in_folder("a.safetensors"), "not JSON");
  write_bytes(in_folder("a.safetensors"), "1234567", 7);
  expect_refused(in_folder("a.safetensors"), "header_length() a.safetensors");
  write_bytes(in_folder("a.safetensors"), "", 0);
  expect_refused(in_folder("a.safetensors"), "header_length() a.safetensors");
  expect_refused(in_folder("b.safetensors"), "tri_safetensors_open() b.safetensors");
  expect_refused(folder, "fail_folder() model.safetensors model.safetensors.index.json");
  expect_refused("/dev/null", "check_regular() /dev/null device");
}

/* A header may have no tensors. clang's sanitizer checks the sums with NULL. */
static void reads_a_file_without_tensors(void **state) {
  tri_safetensors *s;

  (void)state;
  write_raw("a.safetensors", 2, "{}", 0);
  assert_int_equal(tri_safetensors_open(in_folder("a.safetensors"), &s), TRI_OK);
  assert_int_equal(tri_safetensors_count(s), 0);
  tri_safetensors_close(&s);
  write_raw("a.safetensors", 2, "{}", 1);
  expect_refused(in_folder("a.safetensors"), "check_cover() a.safetensors 1");
}

static void tells_other_formats(void **state) {
  static const struct {
    const char *bytes;
    size_t      n;
    const char *part;
  } row[] = {
#define ROW(bytes, part) {bytes, sizeof bytes - 1, part}
      ROW("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n",
          "fail_length() model.safetensors LFS"),
      ROW("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08", "HDF5"),
      ROW("PK\x03\x04\0\0\x08\x08\0\0", "safe_serialization=True"),
      ROW("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02", "safe_serialization=True"),
      ROW("GGUF\x03\0\0\0\x23\x01\0\0\0\0\0\0", "GGUF"),
#undef ROW
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_bytes(in_folder("model.safetensors"), row[i].bytes, row[i].n);
    expect_refused(folder, row[i].part);
    expect_refusal("fail_length() model.safetensors");
  }
  unlink(in_folder("model.safetensors"));
  assert_int_equal(mkfifo(in_folder("model.safetensors"), 0600), 0);
  expect_refused(folder, "check_regular() model.safetensors");
  unlink(in_folder("model.safetensors"));
  write_bytes(in_folder("pytorch_model.bin"), "x", 1);
  expect_refused(folder, "add_folder() pytorch_model.bin model.safetensors");
  unlink(in_folder("pytorch_model.bin"));
}

/* The reference library's file, cut after every byte, is refused and never read past its end. */
static void refuses_every_cut(void **state) {
  char  *bytes;
  size_t n;

  (void)state;
  assert_int_equal(tri_file_read(DATA "mixed.safetensors", 1 << 20, &bytes, &n), TRI_OK);
  for (size_t cut = 0; cut < n; cut++) {
    write_bytes(in_folder("a.safetensors"), bytes, cut);
    expect_refused(in_folder("a.safetensors"), "a.safetensors");
  }
  tri_host_free((void **)&bytes);
}

/* With any byte of the header replaced the file is refused or read, without a crash (run under the
 * sanitizers). */
static void survives_changed_bytes(void **state) {
  static const char with[] = {0, '"', '{', '9', '-', ',', (char)0xff};
  char             *bytes;
  size_t            n;
  float             out[16];

  (void)state;
  assert_int_equal(tri_file_read(DATA "mixed.safetensors", 1 << 20, &bytes, &n), TRI_OK);
  for (size_t at = 0; at < 8 + (size_t)(unsigned char)bytes[0] + 256 * (size_t)bytes[1]; at++) {
    char keep = bytes[at];
    for (size_t k = 0; k < sizeof with; k++) {
      tri_safetensors *s;
      bytes[at] = with[k];
      write_bytes(in_folder("a.safetensors"), bytes, n);
      tri_error_clear();
      if (tri_safetensors_open(in_folder("a.safetensors"), &s) != TRI_OK) continue;
      for (int64_t i = 0; i < tri_safetensors_count(s); i++) {
        const tri_safetensors_info *t = tri_safetensors_at(s, i);
        if (!t->refused && t->count <= 16)
          assert_int_equal(tri_safetensors_read_f32(s, t, 0, t->count, out), TRI_OK);
      }
      tri_safetensors_close(&s);
    }
    bytes[at] = keep;
  }
  tri_host_free((void **)&bytes);
}

static void refuses_broken_indexes(void **state) {
  static const struct {
    const char *index, *part;
  } row[] = {
      {"", "not JSON"},
      {"[]", "add_index() model.safetensors.index.json weight_map"},
      {"{}", "add_index() model.safetensors.index.json weight_map"},
      {"{\"weight_map\":[]}", "add_index() model.safetensors.index.json weight_map"},
      {"{\"weight_map\":{}}", "list_shards() model.safetensors.index.json weight_map"},
      {"{\"weight_map\":{\"x\":1}}", "list_shards() model.safetensors.index.json x"},
      {"{\"weight_map\":{\"x\":\"\"}}", "list_shards() model.safetensors.index.json !weight_map !x"},
      {"{\"weight_map\":{\"x\":\"..\"}}", "list_shards() model.safetensors.index.json !weight_map !x"},
      {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}",
       "list_shards() model.safetensors.index.json !weight_map !x"},
      {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}",
       "list_shards() model.safetensors.index.json !weight_map !x"},
      {"{\"weight_map\":{\"x\":\"none.safetensors\"}}",
       "open_to_read() none.safetensors !model.safetensors.index.json"},
      {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"a.safetensors\"}}", "duplicate"},
      {"{\"weight_map\":{\"y\":\"a.safetensors\",\"x\":\"b.safetensors\"}}",
       "finish_names() a.safetensors x b.safetensors"},
  };

  (void)state;
  write_raw("a.safetensors", sizeof "{" E("x", "0", "8") "}" - 1, "{" E("x", "0", "8") "}", 8);
  write_raw("b.safetensors", sizeof "{" E("x", "0", "8") "," E("y", "8", "16") "}" - 1,
            "{" E("x", "0", "8") "," E("y", "8", "16") "}", 16);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_bytes(in_folder("model.safetensors.index.json"), row[i].index, strlen(row[i].index));
    expect_refused(folder, row[i].part);
  }
}

/* As in transformers, the index only names the shards, and the shards decide about tensors. */
static void an_index_may_differ_from_its_shards(void **state) {
  static const char index[] = "{\"weight_map\":{\"y\":\"a.safetensors\",\"head\":\"a.safetensors\"}}";
  tri_safetensors  *s;

  (void)state;
  write_raw("a.safetensors", sizeof "{" E("x", "0", "8") "}" - 1, "{" E("x", "0", "8") "}", 8);
  write_bytes(in_folder("model.safetensors.index.json"), index, strlen(index));
  assert_int_equal(tri_safetensors_open(folder, &s), TRI_OK);
  assert_int_equal(tri_safetensors_count(s), 1);
  assert_non_null(tri_safetensors_find(s, "x"));
  assert_int_equal(tri_safetensors_absent_count(s), 2);
  assert_string_equal(tri_safetensors_absent_at(s, 1), "head");
  assert_string_equal(tri_safetensors_absent_from(s, "y"), "a.safetensors");
  assert_null(tri_safetensors_absent_from(s, "x"));
  tri_safetensors_close(&s);
}

static void names_a_file_that_became_shorter(void **state) {
  static const char header[] = "{" E("x", "0", "8") "}";
  tri_safetensors  *s;
  float             out[2];

  (void)state;
  write_raw("a.safetensors", sizeof header - 1, header, 8);
  assert_int_equal(tri_safetensors_open(in_folder("a.safetensors"), &s), TRI_OK);
  assert_int_equal(truncate(in_folder("a.safetensors"), 8 + sizeof header - 1 + 4), 0);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_at(s, 0), 0, 2, out), TRI_EFILE);
  expect_refusal("read_at() a.safetensors 66");
  tri_safetensors_close(&s);
}

static const tri_safetensors_spec spec[] = {
    {"model.z", TRI_F32, 2, {3, 4}, NULL},  {"odd \"name\"\\\xc3\xa9", TRI_BF16, 2, {1, 7}, NULL},
    {"model.a", TRI_F32, 1, {5}, NULL},     {"one", TRI_F32, 0, {0}, NULL},
    {"lm.bf16", TRI_BF16, 2, {2, 3}, NULL},
};

/* Judge: the bytes written by the reference library. */
static void writes_as_reference(void **state) {
  static const int64_t    count[] = {12, 7, 5, 1, 6};
  tri_safetensors_writer *w;
  char                   *want, *have;
  size_t                  n_want, n_have;

  (void)state;
  assert_int_equal(tri_safetensors_create(in_folder("a.safetensors"), spec, 5, &w), TRI_OK);
  for (int i = 4; i >= 0; i--)
    for (int64_t at = count[i] - 1; at >= 0; at--) {
      float v = i == 3 ? 1.25f : ramp(at);
      assert_int_equal(tri_safetensors_put(w, i, at, 1, &v), TRI_OK);
    }
  assert_int_equal(access(in_folder("a.safetensors"), F_OK), -1);
  assert_int_equal(tri_safetensors_commit(&w), TRI_OK);
  assert_null(w);
  assert_int_equal(access(in_folder("a.safetensors.tmp"), F_OK), -1);
  assert_int_equal(tri_file_read(DATA "written.safetensors", 1 << 20, &want, &n_want), TRI_OK);
  assert_int_equal(tri_file_read(in_folder("a.safetensors"), 1 << 20, &have, &n_have), TRI_OK);
  assert_int_equal(n_have, n_want);
  assert_memory_equal(have, want, n_want);
  tri_host_free((void **)&want);
  tri_host_free((void **)&have);
}

/* The range is larger than one piece of the conversions and starts at an odd element. Judge: exact. */
static void reads_what_it_wrote(void **state) {
  enum { N = (1 << 20) + 12345 };
  static const tri_safetensors_spec big[] = {
      {"b", TRI_BF16, 1, {N}, NULL}, {"f", TRI_F32, 1, {N}, NULL}, {"h", TRI_F16, 1, {N}, NULL}};
  float                  *v = malloc(N * sizeof *v), *out = malloc(N * sizeof *out);
  tri_safetensors_writer *w;
  tri_safetensors        *s;

  (void)state;
  for (int i = 0; i < N; i++) v[i] = ramp(i);
  assert_int_equal(tri_safetensors_create(in_folder("model.safetensors"), big, 3, &w), TRI_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tri_safetensors_put(w, i, 0, 3, v), TRI_OK);
    assert_int_equal(tri_safetensors_put(w, i, 3, N - 3, v + 3), TRI_OK);
  }
  assert_int_equal(tri_safetensors_commit(&w), TRI_OK);
  assert_int_equal(tri_safetensors_open(folder, &s), TRI_OK);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "b"), 1, N - 1, out), TRI_OK);
  for (int i = 1; i < N; i++) assert_true(out[i - 1] == tri_bf16_to_f32(tri_f32_to_bf16(v[i])));
  assert_string_equal(tri_safetensors_find(s, "h")->dtype, "F16");
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "h"), 1, N - 1, out), TRI_OK);
  for (int i = 1; i < N; i++) assert_true(out[i - 1] == tri_f16_to_f32(tri_f32_to_f16(v[i])));
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "f"), 0, N, out), TRI_OK);
  assert_memory_equal(out, v, N * sizeof *v);
  tri_safetensors_close(&s);
  free(v);
  free(out);
}

static void refuses_bad_writes(void **state) {
  static const tri_safetensors_spec bad[] = {
      {"", TRI_F32, 1, {2}, NULL},
      {"__metadata__", TRI_F32, 1, {2}, NULL},
      {"\xff", TRI_F32, 1, {2}, NULL},
      {"a", TRI_I32, 1, {2}, NULL},
      {"a", TRI_F32, 5, {2, 2, 2, 2}, NULL},
      {"a", TRI_F32, 2, {2, 0}, NULL},
      {"a", TRI_F32, 1, {-1}, NULL},
      {"a", TRI_F32, 2, {INT64_MAX / 2, 4}, NULL},
      {"a", TRI_F32, 1, {INT64_MAX / 4}, NULL},
  };
  static const tri_safetensors_spec twice[] = {{"a", TRI_F32, 1, {2}, NULL}, {"a", TRI_BF16, 1, {2}, NULL}};
  static const float                v[2] = {1, 2};
  tri_safetensors_writer           *w;

  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(tri_safetensors_create(in_folder("a.safetensors"), &bad[i], 1, &w), TRI_EARG);
    assert_null(w);
  }
  assert_int_equal(tri_safetensors_create(in_folder("a.safetensors"), twice, 2, &w), TRI_EARG);
  tri_error_clear();
  assert_int_equal(tri_safetensors_create(in_folder("none/a.safetensors"), twice, 1, &w), TRI_EFILE);
  expect_refusal("tri_file_create() a.safetensors.tmp");

  write_bytes(in_folder("a.safetensors"), "old", 3); /* stays as it is */
  assert_int_equal(tri_safetensors_create(in_folder("a.safetensors"), twice, 1, &w), TRI_OK);
  assert_int_equal(tri_safetensors_put(w, 0, 1, 2, v), TRI_EARG);
  assert_int_equal(tri_safetensors_put(w, 0, 0, 1, v), TRI_OK);
  tri_error_clear();
  assert_int_equal(tri_safetensors_commit(&w), TRI_EARG);
  expect_refusal("tri_safetensors_commit() a.safetensors 1 2");
  assert_null(w);
  assert_int_equal(tri_safetensors_create(in_folder("a.safetensors"), twice, 1, &w), TRI_OK);
  tri_safetensors_abandon(&w);
  tri_safetensors_abandon(&w);
  assert_int_equal(access(in_folder("a.safetensors.tmp"), F_OK), -1);
  struct stat sb;
  assert_int_equal(stat(in_folder("a.safetensors"), &sb), 0);
  assert_int_equal(sb.st_size, 3);
}

/* A copied tensor keeps its bytes, type and shape, whatever they are. The file is laid out as the reference
 * library does: widest type first. */
static void copies_every_type(void **state) {
  static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[64,67]},"
                               "\"b\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1,2,3,1],\"data_offsets\":[0,48]},"
                               "\"c\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[48,64]},"
                               "\"d\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[67,67]}}";
  static const char deep[] =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}";
  static const float      v[2] = {1.5f, -2};
  char                    data[67], bytes[sizeof header + 80] = {0}, back[48];
  tri_safetensors_spec    list[5];
  tri_safetensors_writer *w;
  tri_safetensors        *from, *to;

  (void)state;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(3 * i);
  bytes[0] = (char)((sizeof header - 1) & 255);
  bytes[1] = (char)((sizeof header - 1) >> 8);
  memcpy(bytes + 8, header, sizeof header - 1);
  memcpy(bytes + 7 + sizeof header, data, sizeof data);
  write_bytes(in_folder("a.safetensors"), bytes, 7 + sizeof header + sizeof data);
  assert_int_equal(tri_safetensors_open(in_folder("a.safetensors"), &from), TRI_OK);
  for (int i = 0; i < 4; i++)
    list[i] = (tri_safetensors_spec){.name = tri_safetensors_at(from, i)->name,
                                     .copy = tri_safetensors_at(from, i)};
  list[4] = (tri_safetensors_spec){.name = "e", .dtype = TRI_F32, .ndim = 1, .dim = {2}};
  assert_int_equal(tri_safetensors_create(in_folder("model.safetensors"), list, 5, &w), TRI_OK);
  for (int i = 0; i < 4; i++) {
    const tri_safetensors_info *t = tri_safetensors_at(from, i);
    assert_int_equal(tri_safetensors_read_bytes(from, t, 0, t->bytes, back), TRI_OK);
    assert_int_equal(tri_safetensors_put_bytes(w, i, 0, t->bytes, back), TRI_OK);
    assert_int_equal(tri_safetensors_put_bytes(w, i, 1, t->bytes, back), TRI_EARG);
    assert_int_equal(tri_safetensors_read_bytes(from, t, 1, t->bytes, back), TRI_EARG);
  }
  assert_int_equal(tri_safetensors_put(w, 4, 0, 2, v), TRI_OK);
  assert_int_equal(tri_safetensors_commit(&w), TRI_OK);
  assert_int_equal(tri_safetensors_open(in_folder("model.safetensors"), &to), TRI_OK);
  assert_int_equal(tri_safetensors_count(to), 5);
  for (int i = 0; i < 4; i++) {
    const tri_safetensors_info *x = tri_safetensors_at(from, i), *y = tri_safetensors_at(to, i);
    assert_string_equal(x->dtype, y->dtype);
    assert_true(x->ndim == y->ndim && x->bytes == y->bytes);
    assert_memory_equal(x->dim, y->dim, sizeof x->dim);
    assert_memory_equal(x->more, y->more, sizeof x->more);
    assert_int_equal(tri_safetensors_read_bytes(to, y, 0, y->bytes, back), TRI_OK);
    assert_memory_equal(back, data + (i == 0 ? 64 : i == 2 ? 48 : 0), (size_t)x->bytes);
  }
  assert_int_equal(tri_safetensors_at(to, 1)->more[1], 3);
  assert_true(tri_safetensors_at(to, 1)->offset < tri_safetensors_at(to, 4)->offset);
  assert_true(tri_safetensors_at(to, 4)->offset < tri_safetensors_at(to, 2)->offset);
  assert_true(tri_safetensors_at(to, 2)->offset < tri_safetensors_at(to, 0)->offset);
  tri_safetensors_close(&to);
  assert_int_equal(tri_safetensors_create(in_folder("b.safetensors"), list, 1, &w), TRI_OK);
  assert_int_equal(tri_safetensors_commit(&w), TRI_EARG); /* not a byte of it was written */
  tri_safetensors_close(&from);
  memset(bytes, 0, 8);
  bytes[0] = (char)(sizeof deep - 1);
  memcpy(bytes + 8, deep, sizeof deep);
  write_bytes(in_folder("a.safetensors"), bytes, 8 + sizeof deep);
  assert_int_equal(tri_safetensors_open(in_folder("a.safetensors"), &from), TRI_OK);
  list[0].name = tri_safetensors_at(from, 0)->name;
  list[0].copy = tri_safetensors_at(from, 0);
  assert_int_equal(tri_safetensors_create(in_folder("b.safetensors"), list, 1, &w), TRI_EINPUT);
  tri_safetensors_close(&from);
}

static void gives_text_names(void **state) {
  static const char *const row[][2] = {
      {"language_model.model.norm.weight", "model.norm.weight"},
      {"language_model.lm_head.weight", "lm_head.weight"},
      {"model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"},
      {"lm_head.weight", "lm_head.weight"},
      {"mtp.norm.weight", NULL},
      {"model.visual.merger.norm.weight", NULL},
      {"vision_tower.vision_model.post_layernorm.bias", NULL},
      {"model.language_models.x", NULL}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char name[64];
    strcpy(name, row[i][0]);
    assert_int_equal(tri_safetensors_text_name(name), row[i][1] != NULL);
    assert_string_equal(name, row[i][row[i][1] ? 1 : 0]);
  }
}

static void writes_an_index(void **state) {
  static const tri_safetensors_spec part[] = {{"x", TRI_F32, 1, {2}, NULL}, {"y", TRI_BF16, 1, {3}, NULL}};
  static const int                  shard[] = {1, 0};
  static const float                v[3] = {1, 2, 3};
  tri_safetensors_writer           *w;
  tri_safetensors                  *s;
  char                              name[TRI_SHARD_NAME_BYTES];
  float                             out[3];

  (void)state;
  tri_safetensors_shard_name(0, 1, name);
  assert_string_equal(name, "model.safetensors");
  for (int i = 0; i < 2; i++) {
    tri_safetensors_shard_name(shard[i], 2, name);
    assert_int_equal(tri_safetensors_create(in_folder(name), &part[i], 1, &w), TRI_OK);
    assert_int_equal(tri_safetensors_put(w, 0, 0, i + 2, v), TRI_OK);
    assert_int_equal(tri_safetensors_commit(&w), TRI_OK);
  }
  assert_int_equal(tri_safetensors_write_index(folder, part, shard, 2, 2, NULL), TRI_OK);
  assert_int_equal(tri_safetensors_open(folder, &s), TRI_OK);
  assert_int_equal(tri_safetensors_read_f32(s, tri_safetensors_find(s, "y"), 0, 3, out), TRI_OK);
  assert_memory_equal(out, v, sizeof v);
  assert_string_equal(strrchr(tri_safetensors_path(s, tri_safetensors_find(s, "x")), '/'),
                      "/model-00002-of-00002.safetensors");
  tri_safetensors_close(&s);
  unlink(in_folder("model-00001-of-00002.safetensors"));
  unlink(in_folder("model-00002-of-00002.safetensors"));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest test[] = {
      CASE(reads_reference_file),    CASE(refuses_endless_json),
      CASE(refuses_only_on_reading), CASE(reads_every_half),
      CASE(reads_folder_of_shards),  CASE(refuses_broken_headers),
      CASE(refuses_broken_lengths),  CASE(reads_a_file_without_tensors),
      CASE(tells_other_formats),     CASE(refuses_every_cut),
      CASE(survives_changed_bytes),  CASE(refuses_broken_indexes),
      CASE(writes_as_reference),     CASE(names_a_file_that_became_shorter),
      CASE(reads_what_it_wrote),     CASE(refuses_bad_writes),
      CASE(writes_an_index),         CASE(an_index_may_differ_from_its_shards),
      CASE(copies_every_type),       CASE(gives_text_names),
  };
  return cmocka_run_group_tests(test, NULL, NULL);
}
