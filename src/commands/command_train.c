/* command_train.c - trireme train DECK [key=value ...]: trains a model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "train/train.h"
#include "base/file.h"
#include "base/print.h"
#include "comm/halt.h"
#include "config/config.h"
#include "commands.h"
#include "tools/plan/check.h"
#include "report/runlog.h"
#include "tools/version/version_record.h"
#include "train/screen.h"
#include "train/train_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Prints the lines of tri_config_help, wrapped at the width of a screen. It replaces each newline in `text`
 * by a NUL. */
static void print_options(char *text) {
  for (char *line = text; *line;) {
    char *end = strchr(line, '\n');
    int   indent = (int)strspn(line, " ");
    if (end) *end = 0;
    tri_flags_row("", indent, line + indent);
    line = end ? end + 1 : line + strlen(line);
  }
}

static tri_status open_log(const char *path, FILE **log) {
  int fd;

  TRI_TRY(tri_file_append(path, &fd));
  *log = fdopen(fd, "a");
  if (*log) return TRI_OK;
  close(fd);
  TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
}

/* Opens the log of a run that failed while loading and writes everything logged so far into it. The first
 * error remains the program's error. */
static void open_late(const char *path, FILE **log) {
  tri_error_kept error;

  tri_error_keep(&error);
  if (open_log(path, log) == TRI_OK) tri_log_file(*log);
  tri_error_put_back(&error);
}

/* Tells on standard output that a STOP file ended the run, since the log goes to stderr. It flushes at once,
 * because a launcher kills all ranks as soon as one has exited with 75. */
static tri_status say_stopped(const tri_config *cfg) {
  tri_text   text = {0};
  tri_status st = tri_text_printf(&text, "stopped by %s/STOP\n", cfg->run.output);

  if (st == TRI_OK) st = tri_print(text.data, text.len);
  tri_text_free(&text);
  if (fflush(stdout)) TRI_FAIL(TRI_EFILE, "standard output cannot be written: %s", strerror(errno));
  return st;
}

/* Records the end of the run. A rank that fails alone records it itself, unless another rank has already
 * given the reason why all end. */
static void note_end(const tri_trainer *t, tri_train_end end, tri_status st, int code) {
  bool together;

  if (!t->runlog) return;
  together = st == TRI_OK || tri_runtime_all_failed();
  if (together ? t->se->rt.world_rank == 0 : !tri_session_is_ended())
    tri_train_note_end(t, end, st, code, together);
}

/* Collective over MPI_COMM_WORLD. Runs the training after the deck is read. */
static tri_status run(const tri_config *cfg, int *code) {
  tri_session     se = {0};
  char            device[TRI_CONFIG_WORD_BYTES];
  tri_session_opt opt = {.device = device,
                         .ranks_per_node = (int)cfg->run.ranks_per_node,
                         .threads = (int)cfg->run.threads,
                         .timeout_s = cfg->run.timeout_s,
                         .tensor = (int)cfg->shard.tensor_parallel_size};
  tri_trainer     t = {0};
  tri_train_end   end = TRI_TRAIN_FINISHED;
  tri_runlog     *events = NULL;
  tri_status      st = TRI_OK;
  FILE           *log = NULL;
  tri_text        record = {0}; /* rank 0 */
  char            path[TRI_CKPT_PATH_BYTES + 16];

  tri_config_word("run.device", cfg->run.device, device);
  snprintf(path, sizeof path, "%s/log.txt", cfg->run.output);
  TRI_TRY_DONE(tri_runlog_open(cfg->run.output, tri_runtime_env_rank(), &events));
  TRI_TRY_DONE(tri_runtime_check_launcher());
  TRI_TRY_DONE(tri_ckpt_check_library());
  tri_halt_catch_signals(tri_runtime_env_rank() == 0, tri_now_s);
  TRI_TRY_DONE(tri_session_open(&opt, &se));
  TRI_TRY_DONE(tri_trainer_open(cfg, &se, events, &t));
  TRI_TRY_DONE(tri_agree(se.comm[TRI_WORLD], se.rt.world_rank == 0 ? open_log(path, &log) : TRI_OK));
  tri_log_file(log);
  TRI_TRY_DONE(tri_version_record(&se, &record));
  TRI_TRY_DONE(tri_train_record(&t, record.data));
  TRI_TRY_DONE(tri_screen_start(&t));
  TRI_TRY_DONE(tri_train(&t, &end));
  TRI_TRY_DONE(tri_screen_end(&t, end));
  if (end != TRI_TRAIN_FINISHED) *code = 75;
  if (end == TRI_TRAIN_IN_VAIN)
    TRI_FAIL_DONE(TRI_EDEVICE,
                  "%s: no step fits into the time of this job, %.0f s at the start of the run.\n"
                  "  Ask for more time (sbatch --time), or shorten a step (rollout.rollout_batch_size, "
                  "rollout.max_response_length, eval.max_prompts)",
                  cfg->run.output, t.pace.left_s);
  if (end == TRI_TRAIN_STOPPED_BY_FILE && se.rt.world_rank == 0) TRI_TRY_DONE(say_stopped(cfg));
done:
  tri_halt_enter(TRI_HALT_LEAVING);
  if (!log && st != TRI_OK && t.run.is_held && se.rt.world_rank == 0) open_late(path, &log);
  tri_log_file(NULL);
  if (log && st != TRI_OK) /* main.c writes it to the terminal */
    fprintf(log, "trireme: %s\n%s", tri_error_message(), tri_error_trace());
  if (log) fclose(log);
  note_end(&t, end, st, st == TRI_OK ? *code : tri_status_exit_code(st));
  tri_trainer_close(&t);
  tri_text_free(&record);
  tri_session_leave(&se, st);
  tri_runlog_close(&events); /* closed last, since the failure detector may write to it until the session has
                              * ended */
  return st;
}

static tri_status train(int argc, char **argv, int *code) {
  tri_show_learned show = {0, false};

  bool     options = false, check = false, help;
  bool     verbose = false; /* a row of --help. main.c acts on the flag */
  int64_t  ranks = 0;
  tri_flag flag[] = {
      {"--options", TRI_FLAG_BOOL, &options, 0, 0, NULL, "print every key of a deck and exit"},
      {"--check", TRI_FLAG_BOOL, &check, 0, 0, NULL,
       "report all errors of deck, model, data and output folder, and the needs of the run. Nothing is "
       "trained, and no written file stays. The exit code is that of the run, or 64 if errors have "
       "different codes"},
      {"--ranks", TRI_FLAG_I64, &ranks, 1, 1 << 20, "N", "with --check, check for a start on N ranks"},
      {"--show", TRI_FLAG_I64, &show.lines, 1, TRI_SHOW_LEARNED_MOST, "N",
       "with --check, print the first N lines of each file of data.train as the model gets them. Learned "
       "tokens are in colour, or between marked brackets"},
      {"--json", TRI_FLAG_BOOL, &show.json, 0, 0, NULL,
       "with --options, print the names of algorithms, rewards and keys as one JSON object. With --show, "
       "print a JSON object for each line with its text, its tokens and a learned mark for each"},
      {"--verbose", TRI_FLAG_BOOL, &verbose, 0, 0, NULL,
       "show details otherwise only in log.txt (the memory table, every node) and the place in the program "
       "of an error"}};
  tri_config cfg = {0};
  tri_text   notes = {0};
  int        n;
  tri_status st = TRI_OK;

  TRI_TRY(tri_flags_parse(&tri_command_train, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) return TRI_OK;
  if (options && (check || show.lines || ranks))
    TRI_FAIL(TRI_EARG, "--options only prints the keys of a deck. Leave out %s",
             check        ? "--check"
             : show.lines ? "--show"
                          : "--ranks");
  if (options) {
    st = show.json ? tri_config_help_json(&notes) : tri_config_help(&notes);
    if (st == TRI_OK && show.json) st = tri_print(notes.data, notes.len);
    if (st == TRI_OK && !show.json) print_options(notes.data);
    tri_text_free(&notes);
    return st;
  }
  if (n < 1 || (strchr(argv[0], '=') && access(argv[0], F_OK)))
    TRI_FAIL(TRI_EARG, "the deck is missing. Usage: trireme train %s", tri_command_train.usage);
  if (show.json && !show.lines) TRI_FAIL(TRI_EARG, "--json belongs to --options, or to --check --show N");
  if (show.lines && !check) TRI_FAIL(TRI_EARG, "--show belongs to --check");
  if (check) /* one rank does the work */
    return tri_runtime_env_rank() == 0 ? tri_check(argv[0], argv + 1, n - 1, ranks, &show) : TRI_OK;
  if (ranks) TRI_FAIL(TRI_EARG, "--ranks belongs to --check. For a run, srun or mpirun starts the ranks");
  TRI_TRY_DONE(tri_config_load(argv[0], argv + 1, n - 1, &cfg, &notes));
  tri_config_say_notes(&notes);
  tri_config_choose(&cfg);
  TRI_TRY_DONE(run(&cfg, code));
done:
  tri_text_free(&notes);
  tri_config_free(&cfg);
  return st;
}

const tri_command tri_command_train = {"train", "DECK [key=value ...]", "train a model from a deck", train};
