/* names.h - sorts names and finds them by binary search. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NAMES_H
#define TRI_NAMES_H

/* A borrowed name, and the number of its owner. */
typedef struct tri_named {
  const char *name;
  int         number;
} tri_named;

/* Pure, both. Sorts x [n] by name, equal names by number. */
void tri_names_sort(tri_named *x, int n);
/* Returns the first entry of this name in x [n], sorted. -1: there is none. */
int tri_names_find(const tri_named *x, int n, const char *name);

#endif
