/* model_kind.c - what a file of a model is that is neither safetensors nor JSON. */
#include "model_kind.h"

#include <string.h>

#define SAVE                                                                                                 \
  "; load the model with transformers and save it: model.save_pretrained(FOLDER, safe_serialization=True)"

static const struct {
  const char *start;
  size_t      n;
  const char *text;
} row[] = {
    {"version https://git-lfs", 23,
     "a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder, or download the file "
     "again"},
    {"\x89HDF\r\n\x1a\n", 8,
     "an HDF5 file; a checkpoint is given by its folder, a Keras model must be saved as safetensors "
     "first"},
    {"PK\x03\x04", 4, "a PyTorch file (a zip of pickles), which is not read" SAVE},
    {"\x80\x02", 2, "a PyTorch file (a pickle), which is not read" SAVE},
    {"\x80\x04", 2, "a PyTorch file (a pickle), which is not read" SAVE},
    {"GGUF", 4, "a GGUF file, which is not read; take the model's safetensors"},
};

const char *tri_model_kind(const char *bytes, size_t n) {
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (n >= row[i].n && !memcmp(bytes, row[i].start, row[i].n)) return row[i].text;
  return NULL;
}
