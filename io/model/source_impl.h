/* source_impl.h - what a source holds, shared by who opens it and who loads its weights. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SOURCE_IMPL_H
#define TRI_SOURCE_IMPL_H

#include "base_note.h"
#include "safetensors.h"
#include "source.h"

struct tri_source {
  char             name[TRI_CKPT_PATH_BYTES];
  tri_source_file  file[TRI_SOURCE_FILES];
  char             path[TRI_SOURCE_FILES][TRI_CKPT_PATH_BYTES + 32]; /* of file[i], for messages */
  tri_model_shape  shape;
  tri_eos          eos;
  tri_tokenizer   *tokenizer;
  tri_safetensors *tensors; /* Hugging Face folder */
  tri_ckpt_reader *ckpt;    /* checkpoint */
  tri_model_part   part;
  char             head[TRI_HEAD_NAME_BYTES]; /* what the files call score.weight */
  bool             own_ckpt, random;
  bool             is_half;    /* of a folder of text and more, whose config.json is here its text model's */
  int64_t          left_out;   /* tensors of such a folder that are not its text model's */
  bool             adds_head;  /* a scalar head that the files lack starts from random numbers */
  uint64_t         seed;       /* of random numbers */
  tri_lora         lora;       /* rank 0: no adapters */
  bool             fresh_lora; /* they are new, or PEFT's: in `adapters`; else the checkpoint's */
  tri_safetensors *adapters;   /* NULL: none of PEFT's */
  tri_source      *base;       /* owned: what the checkpoint's adapters are for; NULL: not opened */
  tri_param_spec   score;      /* of the checkpoint's scalar head, beside adapters */
  tri_base_note    note;       /* of the base: what the checkpoint says, then what was loaded */
};

/* source_lora.c. Not collective, all that follow. Of a checkpoint: reads what its adapters are, if it holds
 * such. */
TRI_CHECKED tri_status tri_source_read_lora(tri_source *s);
/* TRI_EINPUT: it has adapters already. */
TRI_CHECKED tri_status tri_source_check_plain(const tri_source *s);
/* TRI_EINPUT: the tensor is not the one that the adapters of s were trained for. */
TRI_CHECKED tri_status tri_source_refuse_base(const tri_source *s, const char *tensor);
/* The base's weights were loaded: their note is the source's from here on, *loaded empty. TRI_EINPUT where
 * the checkpoint's adapters were trained for others. */
TRI_CHECKED tri_status tri_source_take_note(tri_source *s, tri_base_note *loaded);
/* Adapters of a checkpoint as they are added to weights: zero-initialise, give a source. */
typedef struct tri_merge {
  const tri_source *source;                  /* borrowed */
  char              of[TRI_LORA_NAME_BYTES]; /* the module whose A is in `a` */
  float            *a, *b;                   /* [rank,n_in]; rows of B */
  int64_t           a_space, b_space;        /* elements */
  uint64_t          fingerprint;             /* of what was read of a tensor of the base so far */
} tri_merge;
void tri_merge_free(tri_merge *m);
/* Elements of the scalar head that is kept beside them; out += elements [begin, begin + count) of scale B
 * A of the module of this weight [.., n_in]; nothing where it has no adapter. */
TRI_CHECKED tri_status tri_merge_score(tri_merge *m, int64_t begin, int64_t count, float *out);
TRI_CHECKED tri_status tri_merge_add(tri_merge *m, const char *weight, int64_t n_in, int64_t begin,
                                     int64_t count, int threads, float *out);
/* source_load.c. Not collective, these three. The tensors of the whole model of a checkpoint's adapters,
 * merged; its base is opened. A tensor is read from its front. TRI_EINPUT: the base's are not those that
 * the adapters were trained for. */
int                    tri_source_merged_count(const tri_source *s);
const tri_param_spec  *tri_source_merged_at(const tri_source *s, int i);
TRI_CHECKED tri_status tri_source_read_merged(tri_source *s, tri_merge *m, int i, int64_t begin,
                                              int64_t count, float *out);
/* source_head.c. Not collective. TRI_EINPUT: there is no scalar head. */
TRI_CHECKED tri_status tri_source_fail_unscored(const tri_source *s, const char *group);
#endif
