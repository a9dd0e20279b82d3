/* names.c - sorts names and finds them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "names.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
  const tri_named *x = a, *y = b;
  int              order = strcmp(x->name, y->name);

  return order ? order : (x->number > y->number) - (x->number < y->number);
}

void tri_names_sort(tri_named *x, int n) {
  if (n > 0) qsort(x, (size_t)n, sizeof *x, by_name);
}

int tri_names_find(const tri_named *x, int n, const char *name) {
  int low = 0, high = n;

  while (low < high) {
    int middle = low + (high - low) / 2;
    if (strcmp(x[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < n && !strcmp(x[low].name, name) ? low : -1;
}
