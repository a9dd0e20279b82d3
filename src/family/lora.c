/* lora.c - low-rank adapters: the modules of a family that can have them, and their names in PEFT. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "lora.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "base_model.model.", ending[] = ".weight";

/* Returns the length of a weight's name without its ending, or 0 if it is no weight. */
static size_t stem(const char *name) {
  size_t n = strlen(name), end = sizeof ending - 1;

  return n > end && !strcmp(name + n - end, ending) ? n - end : 0;
}

float tri_lora_scale(const tri_lora *l) {
  return (float)(l->alpha / (l->rs ? sqrt((double)l->rank) : (double)l->rank));
}

static bool is_linear(const tri_tensor_row *r) {
  return tri_row_is_layers(r) && r->slot < TRI_SLOT_PRODUCTS && stem(r->name);
}

uint64_t tri_lora_all(const tri_family *f) {
  uint64_t all = 0;

  for (int i = 0; f->tensor[i].name; i++) {
    TRI_ASSERT(i < 64);
    if (is_linear(&f->tensor[i])) all |= (uint64_t)1 << i;
  }
  return all;
}

void tri_lora_module(const tri_family *f, int row, char out[TRI_LORA_MODULE_BYTES]) {
  const tri_tensor_row *r = &f->tensor[row];
  size_t                n = is_linear(r) ? stem(r->name) : 0, first = n;

  while (first > 0 && r->name[first - 1] != '.') first--;
  snprintf(out, TRI_LORA_MODULE_BYTES, "%.*s", (int)(n - first), r->name + first);
}

uint64_t tri_lora_find(const tri_family *f, const char *target) {
  size_t   n = strlen(target);
  uint64_t found = 0;

  if (!strcmp(target, "all-linear")) return tri_lora_all(f);
  if (!n || strchr(target, '%')) return 0;
  for (int i = 0; f->tensor[i].name; i++) {
    const tri_tensor_row *r = &f->tensor[i];
    size_t                end = is_linear(r) ? stem(r->name) : 0;
    if (end > n && r->name[end - n - 1] == '.' && !strncmp(r->name + end - n, target, n))
      found |= (uint64_t)1 << i;
  }
  return found;
}

bool tri_lora_module_name(const tri_family *f, int row, int layer, char out[TRI_LORA_NAME_BYTES]) {
  if (!is_linear(&f->tensor[row])) return false;
  snprintf(out, TRI_LORA_NAME_BYTES, f->tensor[row].name, layer); /* NOLINT: a family's row */
  out[stem(out)] = 0;
  return true;
}

bool tri_lora_means(const tri_family *f, int row, int layer, const char *target) {
  char   name[TRI_LORA_NAME_BYTES];
  size_t n = strlen(target), end;

  if (!tri_lora_module_name(f, row, layer, name)) return false;
  end = strlen(name);
  if (!n || n > end || strncmp(name + end - n, target, n)) return false;
  return n == end || name[end - n - 1] == '.';
}

bool tri_lora_can_name(const char *tensor) {
  size_t n = stem(tensor);

  return n && sizeof prefix + n + sizeof ".lora_A.weight" <= TRI_LORA_NAME_BYTES;
}

void tri_lora_name(const char *weight, char ab, char out[TRI_LORA_NAME_BYTES]) {
  size_t n = stem(weight);

  TRI_ASSERT(tri_lora_can_name(weight));
  snprintf(out, TRI_LORA_NAME_BYTES, "%s%.*s.lora_%c%s", prefix, (int)n, weight, ab, ending);
}

void tri_lora_name_full(const char *tensor, char out[TRI_LORA_NAME_BYTES]) {
  TRI_ASSERT(sizeof prefix + strlen(tensor) <= TRI_LORA_NAME_BYTES);
  snprintf(out, TRI_LORA_NAME_BYTES, "%s%s", prefix, tensor);
}
