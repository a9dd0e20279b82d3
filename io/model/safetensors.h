/* safetensors.h - reads and writes safetensors files, and checks every offset.
 *
 * Format: https://github.com/huggingface/safetensors (README, "Format"). The checks are those of the
 * reference library (no holes, no overlap, no bytes left over) and a few more. Numbers in the files are
 * little-endian.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAFETENSORS_H
#define TRI_SAFETENSORS_H

#include "base/error.h"
#include "base/tensor.h"

#include <stdbool.h>

typedef struct tri_safetensors        tri_safetensors;
typedef struct tri_safetensors_writer tri_safetensors_writer;

/* One tensor of an open file or folder. Its strings are borrowed from the tri_safetensors. */
typedef struct tri_safetensors_info {
  const char *name;
  const char *dtype;             /* from the file: "F32", "BF16", ... */
  const char *refused;           /* reason why its values cannot be read, or NULL */
  int         ndim;              /* 0 for a single number */
  int64_t     dim[TRI_MAX_DIM];  /* the first TRI_MAX_DIM of ndim */
  int64_t     more[TRI_MAX_DIM]; /* the dimensions after those, for copying the tensor */
  int64_t     count;             /* elements */
  int         file;              /* private: index of the shard */
  int64_t     offset, bytes;     /* private: place in the shard */
} tri_safetensors_info;

/* Opens a model folder, one safetensors file, or an index file. In a folder it takes model.safetensors, else
 * model.safetensors.index.json and its shards. Reads and checks all headers, but no values. Holds one file
 * descriptor per shard. Returns TRI_EINPUT for any mistake in the files, TRI_EFILE if reading fails. */
TRI_CHECKED tri_status tri_safetensors_open(const char *path, tri_safetensors **out);
void                   tri_safetensors_close(tri_safetensors **st);

/* Give all tensors, sorted by the bytes of their names. tri_safetensors_find returns NULL for an unknown
 * name. */
int64_t                     tri_safetensors_count(const tri_safetensors *st);
const tri_safetensors_info *tri_safetensors_at(const tri_safetensors *st, int64_t i);
const tri_safetensors_info *tri_safetensors_find(const tri_safetensors *st, const char *name);
/* Replaces the prefix `from` of tensor names by `to`, which must not be longer. *n counts the renamed
 * tensors. Returns TRI_EINPUT if two tensors then have the same name. */
TRI_CHECKED tri_status tri_safetensors_rename(tri_safetensors *st, const char *from, const char *to,
                                              int64_t *n);
/* Give the tensors that the index names but no shard holds. The last call returns the shard that the index
 * gives for a tensor, or NULL if it is not one of them. Strings are borrowed. */
int64_t     tri_safetensors_absent_count(const tri_safetensors *st);
const char *tri_safetensors_absent_at(const tri_safetensors *st, int64_t i);
const char *tri_safetensors_absent_from(const tri_safetensors *st, const char *name);
/* Returns the path of the tensor's file, for messages. Borrowed. */
const char *tri_safetensors_path(const tri_safetensors *st, const tri_safetensors_info *info);
/* The number of files, and the name of file i (info->file) in its folder. Borrowed. */
int         tri_safetensors_file_count(const tri_safetensors *st);
const char *tri_safetensors_file_name(const tri_safetensors *st, int i);
/* For a multimodal model. Keeps only the tensors of its text model (language_model.*, model.language_model.*,
 * lm_head.weight) and gives them the names of a text model. *gone counts the others. Returns TRI_EINPUT if
 * none is left, or if two have the same name. */
TRI_CHECKED tri_status tri_safetensors_keep_text(tri_safetensors *st, int64_t *gone);
/* Pure. Changes the name of a multimodal model's tensor, in place, to its name in a text model. Returns false
 * for a tensor outside the text model, and keeps its name. */
bool tri_safetensors_text_name(char *name);

/* Reads elements [first, first + count) of a tensor, row-major, as f32 into out [count]. F32, BF16 and F16
 * are read exactly. Several threads may read at once. Returns TRI_EINPUT if info->refused is set, TRI_EFILE
 * if the file cannot be read or became shorter, TRI_EARG for a range outside the tensor. */
TRI_CHECKED tri_status tri_safetensors_read_f32(const tri_safetensors *st, const tri_safetensors_info *info,
                                                int64_t first, int64_t count, float *out);
/* Reads bytes [first, first + count) of a tensor as they are in the file, of any dtype. Several threads may
 * read at once. Returns TRI_EFILE if the file cannot be read or became shorter, TRI_EARG for a range outside
 * the tensor. */
TRI_CHECKED tri_status tri_safetensors_read_bytes(const tri_safetensors *st, const tri_safetensors_info *info,
                                                  int64_t first, int64_t count, void *out);

/* A tensor to write. dtype is TRI_F32, TRI_BF16 or TRI_F16. */
typedef struct tri_safetensors_spec {
  const char *name;
  tri_dtype   dtype;
  int         ndim;
  int64_t     dim[TRI_MAX_DIM];
  /* borrowed: a tensor of another file to copy byte for byte, with its dtype and shape, or NULL. Then dtype,
   * ndim and dim are not used. */
  const tri_safetensors_info *copy;
} tri_safetensors_spec;

/* Starts PATH.tmp with the header. The bytes are those of the reference library for the same tensors with
 * metadata {"format": "pt"}. `tensor` need not outlive the call. */
TRI_CHECKED tri_status tri_safetensors_create(const char *path, const tri_safetensors_spec *tensor, int64_t n,
                                              tri_safetensors_writer **out);
/* Writes elements [first, first + count) of tensor `index` (its place in `tensor`) from f32. BF16 rounds to
 * nearest, ties to even. Ranges may come in any order. Write every element once. */
TRI_CHECKED tri_status tri_safetensors_put(tri_safetensors_writer *w, int64_t index, int64_t first,
                                           int64_t count, const float *f32);
/* Writes bytes [first, first + count) of a tensor with `copy`, likewise. */
TRI_CHECKED tri_status tri_safetensors_put_bytes(tri_safetensors_writer *w, int64_t index, int64_t first,
                                                 int64_t count, const void *bytes);
/* Flushes to disk, closes and renames to PATH. Returns TRI_EARG if elements are missing. Always closes *w.
 * After an error nothing is left behind, and an older file at PATH is unchanged. */
TRI_CHECKED tri_status tri_safetensors_commit(tri_safetensors_writer **w);
/* Closes and removes PATH.tmp. Accepts NULL. */
void tri_safetensors_abandon(tri_safetensors_writer **w);

/* Gives the usual name of shard i (from 0) of n, "model-00001-of-00002.safetensors", or "model.safetensors"
 * for n = 1. */
enum { TRI_SHARD_NAME_BYTES = 64 };
void tri_safetensors_shard_name(int i, int n, char out[TRI_SHARD_NAME_BYTES]);
/* Writes FOLDER/model.safetensors.index.json for n tensors in n_shard shards, whole or not at all. shard[i]
 * is the shard of tensor[i]. file [n_shard] names the shards; NULL gives them the usual names. */
TRI_CHECKED tri_status tri_safetensors_write_index(const char *folder, const tri_safetensors_spec *tensor,
                                                   const int *shard, int64_t n, int n_shard,
                                                   const char *const *file);

#endif
