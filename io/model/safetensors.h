/* safetensors.h - read and write safetensors files; every offset is checked.
 * Format: https://github.com/huggingface/safetensors (README, "Format"); the checks are those of the
 * reference library (no holes, no overlap, no bytes left over) and a few more. Numbers in the files are
 * little-endian. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAFETENSORS_H
#define TRI_SAFETENSORS_H

#include "base/error.h"
#include "base/tensor.h"

typedef struct tri_safetensors        tri_safetensors;
typedef struct tri_safetensors_writer tri_safetensors_writer;

/* One tensor of an open file or folder. Everything is borrowed from the tri_safetensors. */
typedef struct tri_safetensors_info {
  const char *name;
  const char *dtype;            /* as in the file: "F32", "BF16", ... */
  const char *refused;          /* why its values cannot be read here, or NULL */
  int         ndim;             /* 0: one number */
  int64_t     dim[TRI_MAX_DIM]; /* the first TRI_MAX_DIM of ndim */
  int64_t     count;            /* elements */
  int         file;             /* private: which shard */
  int64_t     offset, bytes;    /* private: where in that shard */
} tri_safetensors_info;

/* Not collective. `path`: a model folder (model.safetensors, else model.safetensors.index.json and its
 * shards), one safetensors file, or an index file. Reads and checks all headers, no values; holds one file
 * descriptor per shard. TRI_EINPUT for everything that is wrong with the files, TRI_EFILE where reading
 * fails. */
TRI_CHECKED tri_status tri_safetensors_open(const char *path, tri_safetensors **out);
void                   tri_safetensors_close(tri_safetensors **st);

/* All tensors, sorted by name (bytes). A tensor that is not there: NULL. Not collective. */
int64_t                     tri_safetensors_count(const tri_safetensors *st);
const tri_safetensors_info *tri_safetensors_at(const tri_safetensors *st, int64_t i);
const tri_safetensors_info *tri_safetensors_find(const tri_safetensors *st, const char *name);
/* Tensors whose names begin with `from` begin with `to`, which is no longer, from here on. *n: how many.
 * TRI_EINPUT: two have one name then. Not collective. */
TRI_CHECKED tri_status tri_safetensors_rename(tri_safetensors *st, const char *from, const char *to,
                                              int64_t *n);
/* Tensors that the index names and none of its shards holds. The shard that the index says of one; NULL: it
 * is none of them. Borrowed. Not collective. */
int64_t     tri_safetensors_absent_count(const tri_safetensors *st);
const char *tri_safetensors_absent_at(const tri_safetensors *st, int64_t i);
const char *tri_safetensors_absent_from(const tri_safetensors *st, const char *name);
/* The file that holds a tensor, for messages. Borrowed. */
const char *tri_safetensors_path(const tri_safetensors *st, const tri_safetensors_info *info);
/* Of a model of text and more: leaves the tensors of its text model (language_model.*,
 * model.language_model.*, lm_head.weight), under the names they have in a model of text alone; *gone: how
 * many others there were. TRI_EINPUT: there are none of them, or two of one name. Not collective. */
TRI_CHECKED tri_status tri_safetensors_keep_text(tri_safetensors *st, int64_t *gone);

/* Elements [first, first + count) of a tensor, row-major, as f32; F32, BF16 and F16 are read, all exactly.
 * out[count]. Threads may read at once. TRI_EINPUT if info->refused, TRI_EFILE where the file cannot be
 * read or became shorter, TRI_EARG for a range outside of the tensor. Not collective. */
TRI_CHECKED tri_status tri_safetensors_read_f32(const tri_safetensors *st, const tri_safetensors_info *info,
                                                int64_t first, int64_t count, float *out);

/* A tensor to be written. dtype: TRI_F32, TRI_BF16 or TRI_F16. */
typedef struct tri_safetensors_spec {
  const char *name;
  tri_dtype   dtype;
  int         ndim;
  int64_t     dim[TRI_MAX_DIM];
} tri_safetensors_spec;

/* Not collective. Starts PATH.tmp with the header: the same bytes as the reference library writes for the
 * same tensors with metadata {"format": "pt"}. `tensor` need not outlive the call. */
TRI_CHECKED tri_status tri_safetensors_create(const char *path, const tri_safetensors_spec *tensor, int64_t n,
                                              tri_safetensors_writer **out);
/* Elements [first, first + count) of tensor `index` (its place in `tensor`), from f32: BF16 rounds to
 * nearest, ties to even. Any order; every element once. */
TRI_CHECKED tri_status tri_safetensors_put(tri_safetensors_writer *w, int64_t index, int64_t first,
                                           int64_t count, const float *f32);
/* Flush to disk, close and rename to PATH. TRI_EARG if elements are missing. Whatever happens, *w is
 * closed; after an error nothing is left behind, and a file that was at PATH before is as it was. */
TRI_CHECKED tri_status tri_safetensors_commit(tri_safetensors_writer **w);
/* Close and remove PATH.tmp. Accepts NULL. */
void tri_safetensors_abandon(tri_safetensors_writer **w);

/* The customary name of shard i (0-based) of n, "model-00001-of-00002.safetensors"; n = 1:
 * "model.safetensors". */
enum { TRI_SHARD_NAME_BYTES = 64 };
void tri_safetensors_shard_name(int i, int n, char out[TRI_SHARD_NAME_BYTES]);
/* FOLDER/model.safetensors.index.json for n tensors in n_shard shards; shard[i] is the one of tensor[i].
 * Written whole or not at all. Not collective. */
TRI_CHECKED tri_status tri_safetensors_write_index(const char *folder, const tri_safetensors_spec *tensor,
                                                   const int *shard, int64_t n, int n_shard);

#endif
