/* samples.h - the best and the worst answers of a run's newest saved rollouts. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_SAMPLES_H
#define TRI_PAGE_SAMPLES_H

#include "base/error.h"

enum { TRI_SAMPLES = 3, TRI_SAMPLE_WORD_BYTES = 32 }; /* of each kind; chosen: a screen */

typedef struct tri_sample_text {
  char  *data;     /* owned; NULL: it has none */
  size_t n, whole; /* bytes kept, and of the text as it was */
} tri_sample_text;

typedef struct tri_sample {
  int64_t         line, prompt_id;   /* prompt_id -1: none */
  double          reward, advantage; /* advantage NaN: none */
  char            stop[TRI_SAMPLE_WORD_BYTES];
  tri_sample_text prompt, response, answer; /* answer: the right one */
} tri_sample;

/* Zero-initialise. */
typedef struct tri_samples {
  int64_t    step;                                  /* of the file; -1: there is none */
  int64_t    n, n_bad;                              /* lines with a reward; lines that are none of ours */
  bool       is_cut;                                /* the file is longer than what is read */
  tri_sample best[TRI_SAMPLES], worst[TRI_SAMPLES]; /* each prompt once; none of `best` is in `worst` */
  int        n_best, n_worst;
} tri_samples;

/* Not collective. TRI_OK too where there are none, or none that can be read. */
TRI_CHECKED tri_status tri_samples_read(const char *folder, tri_samples *out);
void                   tri_samples_free(tri_samples *s);

#endif
