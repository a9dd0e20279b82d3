/* tree_case.h - files of a simulated /proc and /sys in a folder of the test. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TREE_CASE_H
#define TRI_TREE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Writes the file `name` under root and creates its folders. */
static inline void tree_put(const char *root, const char *name, const char *text) {
  char  path[512];
  FILE *f;

  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    mkdir(path, 0700);
  }
  f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

#endif
