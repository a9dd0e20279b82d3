/* samples.h - the best and the worst answers of a run's newest saved rollouts. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_SAMPLES_H
#define TRI_PAGE_SAMPLES_H

#include "base/error.h"

enum { TRI_SAMPLES = 3, TRI_SAMPLE_WORD_BYTES = 32 }; /* samples of each kind, chosen as a screen */

typedef struct tri_sample_text {
  char  *data;     /* owned, NULL if there is none */
  size_t n, whole; /* bytes kept, and bytes of the original text */
} tri_sample_text;

typedef struct tri_sample {
  int64_t         line, prompt_id;   /* prompt_id is -1 if there is none */
  double          reward, advantage; /* advantage is NaN if there is none */
  char            stop[TRI_SAMPLE_WORD_BYTES];
  tri_sample_text prompt, response, answer; /* `answer` is the right one */
} tri_sample;

/* Zero-initialise. */
typedef struct tri_samples {
  int64_t    step;                                  /* step of the file, -1 if there is none */
  int64_t    n, n_bad;                              /* lines with a reward, and foreign lines */
  bool       is_cut;                                /* the file is longer than the part read */
  tri_sample best[TRI_SAMPLES], worst[TRI_SAMPLES]; /* each prompt once, no sample is in both */
  int        n_best, n_worst;
} tri_samples;

/* Not collective. Returns TRI_OK also if there are no samples or none is readable. */
TRI_CHECKED tri_status tri_samples_read(const char *folder, tri_samples *out);
void                   tri_samples_free(tri_samples *s);

#endif
