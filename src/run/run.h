/* run.h - connects a run with its output folder, the lock and deck there, and the checkpoint it resumes
 * from. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUN_H
#define TRI_RUN_H

#include "comm/comm.h"
#include "config/config.h"
#include "io/checkpoint/checkpoint.h"

#define TRI_RUN_INPUTS_FILE "inputs.txt" /* file in a checkpoint with tri_run's inputs */

typedef struct tri_run {
  const tri_config *cfg; /* borrowed, as all pointers here */
  tri_comm         *world;
  tri_errors       *errors;                      /* for a check, else NULL */
  char              folder[TRI_CKPT_PATH_BYTES]; /* OUTPUT/checkpoints */
  char              resume[TRI_CKPT_PATH_BYTES]; /* the checkpoint to resume from. "" for none */
  tri_text          deck;                        /* deck as used */
  tri_text          deck_before; /* rank 0: the checkpoint's deck if it differs from `deck`, else empty */
  tri_text    inputs; /* rank 0: fingerprints of the models and files named by the deck (tri_config_inputs) */
  int64_t     data_lines, data_hash; /* data.train's, 0 without it */
  int         lock;                  /* rank 0: descriptor of the locked output folder, or -1 */
  bool        claimed;               /* rank 0: OUTPUT/.start names this start */
  bool        is_held;               /* every rank: the folder exists and belongs to this start */
  bool        carries_on; /* every rank: the files there are this run's, or will not be set aside */
  const char *record;     /* rank 0: the program's record (record/record.h). NULL if unknown */
  bool        is_moved;   /* rank 0: the folder has another name now, and this was reported */
  bool        may_write;  /* tri_run_look found the output folder writable */
} tri_run;

/* Not collective. Checks nothing yet. Call close also after a failure. */
TRI_CHECKED tri_status tri_run_open(const tri_config *cfg, tri_comm *world, tri_errors *errors, tri_run *out);
void                   tri_run_close(tri_run *r); /* unlocks the folder. A zeroed run is allowed */

/* output.c. Collective over world. Takes an existing output folder for this run. It locks the folder and
 * removes files of unfinished saves. TRI_ECONFIG if another run has the folder or it is a model's. TRI_EFILE
 * if the folder could not be made or written. */
TRI_CHECKED tri_status tri_run_claim(tri_run *r);
/* Collective over world. Sets r->resume to the checkpoint of run.resume, with every byte verified. Changes no
 * file. TRI_EINPUT if there is no checkpoint at that path. TRI_EFORMAT if none there is whole. TRI_EFILE if
 * metrics.jsonl cannot be continued. */
TRI_CHECKED tri_status tri_run_find(tri_run *r);
/* Not collective, for a pretended session without its other ranks. Makes the checks of claim and find without
 * any change to the folder, and checks whether it could be written. Adds errors to r->errors. */
TRI_CHECKED tri_status tri_run_look(tri_run *r);
/* Not collective. The same for a plan. Another run writing there is reported, but is no error. Its
 * checkpoints come and go, so they are not checked then. */
TRI_CHECKED tri_status tri_run_look_on_paper(tri_run *r);
/* Not collective. Returns whether the checkpoint lies in the run's own folder, however it is spelled. */
bool tri_run_is_own(const tri_run *r);

/* A file or folder to be read by the run. The path is NULL or "" for none. */
typedef struct tri_run_input {
  const char *key, *path;
} tri_run_input;
/* Collective over world. A new start in an older run's folder first sets the older files aside. TRI_ECONFIG
 * if one of input [n], or of the deck's own data or replay, is among those files. */
TRI_CHECKED tri_status tri_run_check_aside(const tri_run *r, const tri_run_input *input, int n);
/* Collective over world. Makes and locks the output folder. If the run `works`, it takes steps after `step`,
 * and the folder is prepared for them. Files of another run are set aside. Files of later steps of this run
 * are removed or set aside. The deck as used is written. TRI_ECONFIG if another run has the folder. TRI_EFILE
 * if it could not be made, moved or written. */
TRI_CHECKED tri_status tri_run_begin(tri_run *r, int64_t step, bool works);

/* where.c. Not collective, on rank 0. Compares run.output with the folder the run began in. A removed
 * folder is made again and *anew is set, with a warning. TRI_EFILE if the folder has another name or
 * cannot be made. */
TRI_CHECKED tri_status tri_run_check_folder(tri_run *r, bool *anew);

/* start.c. Not collective. Writes OUTPUT/OUTAGE for the program that started the run. The file says that the
 * run ended because a reward did not answer and may be continued later. Its two lines are the time in seconds
 * since 1970 and the reason. Its name goes to standard output. tri_run_begin removes it. */
void tri_run_leave_outage(const tri_run *r, const char *reason);

/* resume.c. Not collective. Checks that the checkpoint belongs to the deck's algorithm, because another
 * algorithm cannot use its moments and data positions. TRI_ECONFIG with advice if not. */
TRI_CHECKED tri_status tri_run_check_algo(const tri_run *r, tri_ckpt_reader *from);
/* resume.c. Not collective, on rank 0, once the deck is known. Takes the fingerprints of the files named by
 * the deck, for checkpoints. `from` is NULL or the checkpoint to resume from. It provides the fingerprints of
 * files that no longer exist. */
TRI_CHECKED tri_status tri_run_note_inputs(tri_run *r, tri_ckpt_reader *from, const tri_config *now);
/* resume.c. Collective over world. Compares a resumed run with its checkpoint: the deck as used `now`, and
 * the lines of data.train. TRI_ECONFIG with all forbidden differences. Other differences are listed. */
TRI_CHECKED tri_status tri_run_compare(tri_run *r, tri_ckpt_reader *from, const tri_config *now);
/* resume.c. Collective over world. If the deck does not set the size of micro-batches, *packed becomes the
 * number of tokens in one that the checkpoint's run had, because another number sums gradients in another
 * order. 0 if that run counted samples. */
TRI_CHECKED tri_status tri_run_keep_packed(const tri_run *r, tri_ckpt_reader *from, int64_t *packed);
/* resume.c. Collective over world. If the deck leaves the factors of longrope open, *factors becomes those of
 * the checkpoint's run, so that another length of the data does not change positions halfway. */
TRI_CHECKED tri_status tri_run_keep_factors(const tri_run *r, tri_ckpt_reader *from,
                                            tri_rope_factors *factors);
/* resume.c. Collective over world. If the deck gives no train.learning_rate and the checkpoint's run had the
 * default of earlier versions, *rate becomes that default and rank 0 reports it. A new default thus changes
 * no run halfway. */
TRI_CHECKED tri_status tri_run_keep_rate(const tri_run *r, tri_ckpt_reader *from, double *rate);

#endif
