/* run.h - what a run is to its output folder: the deck, the lock, the checkpoint it goes on from. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUN_H
#define TRI_RUN_H

#include "comm/comm.h"
#include "config/config.h"
#include "io/checkpoint/checkpoint.h"

#define TRI_RUN_INPUTS_FILE "inputs.txt" /* of a checkpoint: tri_run's inputs */

typedef struct tri_run {
  const tri_config *cfg; /* borrowed, as all pointers here */
  tri_comm         *world;
  tri_errors       *errors;                      /* of a check, else NULL */
  char              folder[TRI_CKPT_PATH_BYTES]; /* OUTPUT/checkpoints */
  char              resume[TRI_CKPT_PATH_BYTES]; /* the checkpoint this run goes on from; "": none */
  tri_text          deck;                        /* as used */
  tri_text deck_before; /* rank 0: that of the checkpoint, where the one as used differs; else empty */
  tri_text inputs; /* rank 0: fingerprints of the models and files that the deck names (tri_config_inputs) */
  int64_t  data_lines, data_hash; /* of data.train; 0 without it */
  int      lock;                  /* rank 0: descriptor of the locked output folder, or -1 */
  bool     claimed;               /* rank 0: OUTPUT/.start says that the folder is this start's */
  bool     is_held;               /* every rank: the folder is there and this start's */
  bool     carries_on;            /* every rank: what stands there is this run's, or will not be set aside */
  const char *record;    /* rank 0: what computes, for checkpoints (record/record.h); NULL: not known */
  bool        is_moved;  /* rank 0: the folder has another name now, as was said */
  bool        may_write; /* tri_run_look found nothing against writing to the output folder */
} tri_run;

/* Not collective. Nothing is looked at yet. Close too after a failure. */
TRI_CHECKED tri_status tri_run_open(const tri_config *cfg, tri_comm *world, tri_errors *errors, tri_run *out);
void                   tri_run_close(tri_run *r); /* the folder is another's to lock; zeroed is legal */

/* output.c. Collective over world. Makes the output folder this run's, where it is there already: locks it,
 * and removes what saves that did not end left in it. TRI_ECONFIG: another run has it, or it is a model's;
 * TRI_EFILE: it could not be made, or not be written. */
TRI_CHECKED tri_status tri_run_claim(tri_run *r);
/* Collective over world. Sets r->resume to the checkpoint that run.resume means, every byte of it verified.
 * Changes no file. TRI_EINPUT: there is no checkpoint at that path; TRI_EFORMAT: none there is whole;
 * TRI_EFILE: metrics.jsonl could not be gone on with. */
TRI_CHECKED tri_status tri_run_find(tri_run *r);
/* Not collective, for a pretended session, whose other ranks are not there. What claim and find would say,
 * without any change to the folder; and whether it could be written. Adds to r->errors. */
TRI_CHECKED tri_status tri_run_look(tri_run *r);
/* Not collective. The same for a plan: a run that is writing there is no fault, it is said. Its checkpoints,
 * which come and go, are not looked at then. */
TRI_CHECKED tri_status tri_run_look_on_paper(tri_run *r);
/* Not collective. Does the checkpoint lie in the run's own folder, however it is spelled? */
bool tri_run_is_own(const tri_run *r);

/* A file or folder that the run will read; path NULL or "": none. */
typedef struct tri_run_input {
  const char *key, *path;
} tri_run_input;
/* Collective over world. TRI_ECONFIG where one of input [n] or of the deck's own data or replay is among the
 * files that a run which starts anew in an older one's folder sets aside first. */
TRI_CHECKED tri_status tri_run_check_aside(const tri_run *r, const tri_run_input *input, int n);
/* Collective over world. Makes and locks the output folder. Where the run `works`, takes steps after `step`,
 * the folder is made ready: what another run left there is set aside, what this one wrote of later steps
 * is gone or out of the way, and the deck as used is written. TRI_ECONFIG: another run has it; TRI_EFILE:
 * it could not be made, moved or written. */
TRI_CHECKED tri_status tri_run_begin(tri_run *r, int64_t step, bool works);

/* where.c. Not collective; rank 0's. Is run.output still the folder in which the run began? One that was
 * removed is made again, and *anew tells; it is said. TRI_EFILE: it has another name, or cannot be had. */
TRI_CHECKED tri_status tri_run_check_folder(tri_run *r, bool *anew);

/* start.c. Not collective. Leaves OUTPUT/OUTAGE, which tells whoever starts runs that this one ended because
 * a reward did not answer, and may go on later: the time, in seconds since 1970, and the reason, a line each.
 * Its name goes to standard output.
 * tri_run_begin removes it. */
void tri_run_leave_outage(const tri_run *r, const char *reason);

/* resume.c. Not collective. Whether the checkpoint is of a run of the deck's algorithm: moments and positions
 * in the data of one mean nothing to another. TRI_ECONFIG says what to do instead. */
TRI_CHECKED tri_status tri_run_check_algo(const tri_run *r, tri_ckpt_reader *from);
/* resume.c. Not collective; rank 0's, once the deck is known. Takes the fingerprints of what the deck names,
 * for checkpoints; from: NULL, or the checkpoint that is gone on from, which has those of what is gone by
 * now. */
TRI_CHECKED tri_status tri_run_note_inputs(tri_run *r, tri_ckpt_reader *from, const tri_config *now);
/* resume.c. Collective over world. Compares a resumed run with its checkpoint: the deck as used `now`, the
 * lines of data.train. TRI_ECONFIG with all that differs and must not; the rest is listed. */
TRI_CHECKED tri_status tri_run_compare(tri_run *r, tri_ckpt_reader *from, const tri_config *now);
/* resume.c. Collective over world. Where the deck says nothing of passes, *packed, the tokens of one, becomes
 * what the checkpoint's run had: another number sums gradients in another order. 0: it counted samples. */
TRI_CHECKED tri_status tri_run_keep_packed(const tri_run *r, tri_ckpt_reader *from, int64_t *packed);
/* resume.c. Collective over world. Where the deck leaves the factors of longrope open, *factors becomes what
 * the checkpoint's run had: another length of the data changes no positions halfway. */
TRI_CHECKED tri_status tri_run_keep_factors(const tri_run *r, tri_ckpt_reader *from,
                                            tri_rope_factors *factors);
/* resume.c. Collective over world. Where the deck gives no train.learning_rate and the checkpoint's run had
 * the default of earlier versions, *rate becomes that one and rank 0 says so: a new default changes no run
 * halfway. */
TRI_CHECKED tri_status tri_run_keep_rate(const tri_run *r, tri_ckpt_reader *from, double *rate);

#endif
