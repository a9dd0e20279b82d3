/* family.c - the list of families. */
#include "family.h"

#include <string.h>

#define POINTER(name) &tri_family_##name,
const tri_family *const tri_families[] = {TRI_FAMILY_LIST(POINTER) NULL};

const tri_family *tri_family_find(const char *model_type) {
  for (const tri_family *const *f = tri_families; *f; f++)
    if (!strcmp((*f)->model_type, model_type)) return *f;
  return NULL;
}

const char *tri_family_tensor(const tri_family *f, tri_slot slot) {
  int i = 0;

  while (i < f->n_tensor && f->tensor[i].slot != slot) i++;
  TRI_ASSERT(i < f->n_tensor);
  return f->tensor[i].name;
}
