/* source_impl.h - what a source holds, shared by who opens it and who loads its weights. Private to its
 * room. */
#ifndef TRI_SOURCE_IMPL_H
#define TRI_SOURCE_IMPL_H

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
  bool             adds_head; /* a scalar head that the files lack starts from random numbers */
  uint64_t         seed;      /* of random numbers */
};

/* source_head.c. Not collective. TRI_EINPUT: there is no scalar head. */
TRI_CHECKED tri_status tri_source_fail_unscored(const tri_source *s, const char *group);
#endif
