/* fuzz_case.h - shared code of the fuzz harnesses (parts of an input, files in memory, checks that end the
 * process).
 *
 * A harness is one parser with its invariants. LLVMFuzzerTestOneInput gets an input, calls the parser as the
 * program does, and aborts if an invariant fails. In the preset cpu-fuzz, and in cpu-asan if clang has it,
 * libFuzzer calls it. In every other build replay.c calls it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_FUZZ_CASE_H
#define TRI_TESTS_FUZZ_CASE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "base/log.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_CHECK(x)                                                                                        \
  do {                                                                                                       \
    if (!(x)) {                                                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s (%s)\n", __FILE__, __LINE__, #x, tri_error_message());       \
      abort();                                                                                               \
    }                                                                                                        \
  } while (0)

/* Silences errors, since parsers report them all the time here. */
#define FUZZ_QUIET_START                                                                                     \
  int LLVMFuzzerInitialize(int *argc, char ***argv) {                                                        \
    (void)argc, (void)argv;                                                                                  \
    tri_log_open(1, TRI_LOG_ERROR);                                                                          \
    return 0;                                                                                                \
  }

/* Bytes of an input, borrowed from it. */
typedef struct fuzz_part {
  const char *p;
  size_t      n;
} fuzz_part;

/* Takes the next part of an input, up to a byte 0x01 or to the end. */
static inline fuzz_part fuzz_next(const uint8_t **data, size_t *n) {
  const uint8_t *end = *n ? memchr(*data, 1, *n) : NULL;
  fuzz_part      part = {(const char *)*data, end ? (size_t)(end - *data) : *n};
  size_t         used = part.n + (end ? 1 : 0);

  if (*n) *data += used;
  *n -= used;
  return part;
}

static inline void fuzz_write(const char *path, const void *bytes, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

  FUZZ_CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
  close(fd);
}

static char fuzz_folder_name[64];

static inline void fuzz_folder_remove(void) {
  char command[128];

  snprintf(command, sizeof command, "rm -r '%s'", fuzz_folder_name);
  if (system(command) != 0) fprintf(stderr, "%s: is left behind\n", fuzz_folder_name);
}

/* Makes a folder in memory. It is removed when the process ends normally. */
static inline const char *fuzz_folder(void) {
  if (!fuzz_folder_name[0]) {
    snprintf(fuzz_folder_name, sizeof fuzz_folder_name, "/dev/shm/trireme-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(fuzz_folder_name) && atexit(fuzz_folder_remove) == 0);
  }
  return fuzz_folder_name;
}

/* These stand around the calls of one input. They check that all memory from tri_host_alloc was freed. */
static int64_t     fuzz_bytes_before;
static inline void fuzz_begin(void) {
  tri_error_clear();
  fuzz_bytes_before = tri_host_bytes();
}
static inline void fuzz_end(void) { FUZZ_CHECK(tri_host_bytes() == fuzz_bytes_before); }

/* Returns true for UTF-8, judged by the table of RFC 3629, section 4. */
static inline bool fuzz_is_utf8(const char *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text, *end = s + n;

  while (s < end) {
    unsigned char first = *s++;
    int           more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if ((first >= 0x80 && first < 0xC2) || first > 0xF4 || end - s < more) return false;
    for (; more > 0; more--, s++, low = 0x80, high = 0xBF)
      if (*s < low || *s > high) return false;
  }
  return true;
}

/* Returns true if two pieces of memory are equal. Either may be NULL if n is 0. */
static inline bool fuzz_same(const void *a, const void *b, size_t n) { return n == 0 || !memcmp(a, b, n); }

#endif
