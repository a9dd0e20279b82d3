/* names.h - names in order, so that one is found without a look at each. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NAMES_H
#define TRI_NAMES_H

/* A borrowed name, and the number of whatever has it. */
typedef struct tri_named {
  const char *name;
  int         number;
} tri_named;

/* Pure, both. x [n]: by name, equal ones by number. */
void tri_names_sort(tri_named *x, int n);
/* The first of this name in x [n], sorted; -1: there is none. */
int tri_names_find(const tri_named *x, int n, const char *name);

#endif
