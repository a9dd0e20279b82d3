/* source_impl.h - declares the fields of a source, for opening it and loading its weights. Private to its
 * room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SOURCE_IMPL_H
#define TRI_SOURCE_IMPL_H

#include "base_note.h"
#include "safetensors.h"
#include "source.h"

struct tri_source {
  char             name[TRI_CKPT_PATH_BYTES];
  tri_source_file  file[TRI_SOURCE_FILES];
  char             path[TRI_SOURCE_FILES][TRI_CKPT_PATH_BYTES + 32]; /* paths of file[i], for messages */
  tri_model_shape  shape;
  tri_eos          eos;
  tri_tokenizer   *tokenizer;
  tri_safetensors *tensors; /* with a Hugging Face folder */
  tri_ckpt_reader *ckpt;    /* with a checkpoint */
  tri_model_part   part;
  char             head[TRI_HEAD_NAME_BYTES]; /* the files' name of score.weight */
  bool             own_ckpt, random;
  bool             is_half;    /* a multimodal folder; config.json is its text model's */
  int64_t          left_out;   /* tensors outside the text model */
  bool             adds_head;  /* a missing scalar head starts from random numbers */
  uint64_t         seed;       /* for random numbers */
  tri_lora         lora;       /* rank 0: no adapters */
  bool             fresh_lora; /* adapters are new or PEFT's, not the checkpoint's */
  tri_safetensors *adapters;   /* PEFT's, or NULL */
  tri_source      *base;       /* owned: base model of the checkpoint's adapters, or NULL */
  tri_param_spec   score;      /* the checkpoint's scalar head beside adapters */
  tri_base_note    note;       /* about the base: from the checkpoint, then as loaded */
};

/* source_lora.c. Reads the config of a checkpoint's adapters, if it has any. */
TRI_CHECKED tri_status tri_source_read_lora(tri_source *s);
/* Returns TRI_EINPUT if the source already has adapters. */
TRI_CHECKED tri_status tri_source_check_plain(const tri_source *s);
/* Returns TRI_EINPUT: this tensor differs from the one that the adapters of s were trained for. */
TRI_CHECKED tri_status tri_source_refuse_base(const tri_source *s, const char *tensor);
/* Call it once the base's weights are loaded. Their note becomes the source's, and *loaded is emptied.
 * Returns TRI_EINPUT if the checkpoint's adapters were trained for other weights. */
TRI_CHECKED tri_status tri_source_take_note(tri_source *s, tri_base_note *loaded);
/* Adds the adapters of a checkpoint to weights. Zero-initialise and set source. */
typedef struct tri_merge {
  const tri_source *source;                  /* borrowed */
  char              of[TRI_LORA_NAME_BYTES]; /* module of the A in `a` */
  float            *a, *b;                   /* [rank,n_in] and rows of B */
  int64_t           a_space, b_space;        /* allocated elements */
  uint64_t          fingerprint;             /* over the elements of the base tensor read so far */
} tri_merge;
void tri_merge_free(tri_merge *m);
/* Tells whether the module of this weight has an adapter in the checkpoint of s. */
bool tri_merge_has(const tri_source *s, const char *weight);
/* The first reads elements of the scalar head kept beside the adapters. The second computes out += elements
 * [begin, begin + count) of scale B A for the module of this weight [.., n_in], and nothing if the module has
 * no adapter. */
TRI_CHECKED tri_status tri_merge_score(tri_merge *m, int64_t begin, int64_t count, float *out);
TRI_CHECKED tri_status tri_merge_add(tri_merge *m, const char *weight, int64_t n_in, int64_t begin,
                                     int64_t count, int threads, float *out);
/* source_load.c. Not collective, these three. They give the tensors of the whole model, with a checkpoint's
 * adapters merged into its open base. Read each tensor from its start. Returns TRI_EINPUT if the base's
 * tensors are not those that the adapters were trained for. */
int                    tri_source_merged_count(const tri_source *s);
const tri_param_spec  *tri_source_merged_at(const tri_source *s, int i);
TRI_CHECKED tri_status tri_source_read_merged(tri_source *s, tri_merge *m, int i, int64_t begin,
                                              int64_t count, float *out);
/* source_head.c. Returns TRI_EINPUT: the source has no scalar head. */
TRI_CHECKED tri_status tri_source_fail_unscored(const tri_source *s, const char *group);
#endif
