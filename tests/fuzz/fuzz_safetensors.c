/* fuzz_safetensors.c - safetensors files and their index (io/model/safetensors.c).
 *
 * Five bytes choose the files to write and the data bytes of the first and the second. Then come the header
 * of the first, the header of the second and the index, separated by 0x01. Every tensor in a header must be
 * inside its file and readable, whole and in part. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/model/safetensors.h"

enum { RAW_FIRST = 1, TWO_FILES = 2, RAW_SECOND = 4, BY_INDEX = 8, HEAD_BYTES = 5, MOST_HEADER = 1 << 16 };
enum { MOST_DATA = 1 << 16 };

FUZZ_QUIET_START

/* Writes a file. A raw file lacks the length before the header. */
static void put_file(const char *path, fuzz_part header, size_t data_bytes, bool raw) {
  static uint8_t bytes[8 + MOST_HEADER + MOST_DATA];
  uint64_t       header_bytes = header.n < MOST_HEADER ? header.n : MOST_HEADER;
  size_t         n = raw ? 0 : 8;

  memcpy(bytes, &header_bytes, n);
  memcpy(bytes + n, header.p, header_bytes);
  n += header_bytes;
  memset(bytes + n, 0x3c, data_bytes);
  fuzz_write(path, bytes, n + data_bytes);
}

static void in_folder(char path[128], const char *name) { snprintf(path, 128, "%s/%s", fuzz_folder(), name); }

static void put_input(const uint8_t *data, size_t n, char path[128]) {
  uint8_t   what = data[0];
  size_t    bytes1 = data[1] | (size_t)data[2] << 8, bytes2 = data[3] | (size_t)data[4] << 8;
  fuzz_part header;

  data += HEAD_BYTES;
  n -= HEAD_BYTES;
  header = fuzz_next(&data, &n);
  if (!(what & TWO_FILES)) {
    in_folder(path, "one.safetensors");
    put_file(path, header, bytes1, what & RAW_FIRST);
    return;
  }
  in_folder(path, "model-00001-of-00002.safetensors");
  put_file(path, header, bytes1, what & RAW_FIRST);
  in_folder(path, "model-00002-of-00002.safetensors");
  put_file(path, fuzz_next(&data, &n), bytes2, what & RAW_SECOND);
  in_folder(path, "model.safetensors.index.json");
  header = fuzz_next(&data, &n);
  fuzz_write(path, header.p, header.n);
  if (!(what & BY_INDEX)) snprintf(path, 128, "%s", fuzz_folder());
}

static void check_tensor(const tri_safetensors *s, const tri_safetensors_info *t) {
  static float out[MOST_DATA];

  FUZZ_CHECK(t->bytes >= 0 && t->bytes <= MOST_DATA && t->count >= 0 && t->ndim >= 0);
  FUZZ_CHECK(tri_safetensors_find(s, t->name) == t);
  if (t->refused) {
    FUZZ_CHECK(tri_safetensors_read_f32(s, t, 0, 0, out) != TRI_OK);
    tri_error_clear();
    return;
  }
  FUZZ_CHECK(t->count <= MOST_DATA);
  FUZZ_CHECK(tri_safetensors_read_f32(s, t, 0, t->count, out) == TRI_OK);
  if (t->count > 2) FUZZ_CHECK(tri_safetensors_read_f32(s, t, 1, t->count - 2, out) == TRI_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_safetensors *s = NULL;
  char             path[128];

  if (n < HEAD_BYTES) return -1;
  put_input(data, n, path);
  fuzz_begin();
  if (tri_safetensors_open(path, &s) == TRI_OK)
    for (int64_t i = 0; i < tri_safetensors_count(s); i++) check_tensor(s, tri_safetensors_at(s, i));
  tri_safetensors_close(&s);
  fuzz_end();
  return 0;
}
