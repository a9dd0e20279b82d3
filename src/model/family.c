/* family.c - the list of families. */
#include "family.h"

#include <string.h>

const tri_family *const tri_families[] = {&tri_family_llama, &tri_family_qwen2, NULL};

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
