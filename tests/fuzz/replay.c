/* replay.c - runs a harness without libFuzzer, on each file of the command line once.
 *
 * Every input is in memory of exactly its size, so that a sanitizer sees reads behind it. An unreadable file
 * ends the program with 1. A finding of the harness aborts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"

static void replay(const char *path) {
  struct stat about;
  int         fd = open(path, O_RDONLY | O_CLOEXEC);
  uint8_t    *bytes;

  if (fd < 0 || fstat(fd, &about) != 0 || !(bytes = malloc(about.st_size ? (size_t)about.st_size : 1)) ||
      read(fd, bytes, (size_t)about.st_size) != about.st_size) {
    perror(path);
    exit(1);
  }
  close(fd);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(bytes, (size_t)about.st_size);
  free(bytes);
}

int main(int argc, char **argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; i++) replay(argv[i]);
  return 0;
}
