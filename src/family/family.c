/* family.c - the list of families. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include "base/error.h"

#include <string.h>

#define POINTER(name) &tri_family_##name,
const tri_family *const tri_families[] = {TRI_FAMILY_LIST(POINTER) NULL};

const tri_family *tri_family_find(const char *model_type) {
  for (const tri_family *const *f = tri_families; *f; f++)
    if (!strcmp((*f)->model_type, model_type)) return *f;
  return NULL;
}

const char *tri_family_tensor(const tri_family *f, tri_slot slot) {
  const tri_tensor_row *r = f->tensor;

  while (r->name && r->slot != slot) r++;
  TRI_ASSERT(r->name);
  return r->name;
}
