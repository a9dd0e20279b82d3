/* command_train.c - trireme train DECK [key=value ...]: one run. */
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

/* Lines as tri_config_help makes them, each at most as wide as a screen; ends them with NULs. */
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

/* The log of a start that failed while it loaded: with all that was said so far. The error stays the first
 * one. */
static void open_late(const char *path, FILE **log) {
  tri_error_kept error;

  tri_error_keep(&error);
  if (open_log(path, log) == TRI_OK) tri_log_file(*log);
  tri_error_put_back(&error);
}

/* For who started the run, as the log is on stderr; at once, for a launcher ends all ranks as soon as one has
 * ended with 75. */
static tri_status say_stopped(const tri_config *cfg) {
  tri_text   text = {0};
  tri_status st = tri_text_printf(&text, "stopped by %s/STOP\n", cfg->run.output);

  if (st == TRI_OK) st = tri_print(text.data, text.len);
  tri_text_free(&text);
  if (fflush(stdout)) TRI_FAIL(TRI_EFILE, "standard output cannot be written: %s", strerror(errno));
  return st;
}

/* A rank that fails alone says so itself, unless somebody has said why all end. */
static void note_end(const tri_trainer *t, tri_train_end end, tri_status st, int code) {
  bool together;

  if (!t->runlog) return;
  together = st == TRI_OK || tri_runtime_all_failed();
  if (together ? t->se->rt.world_rank == 0 : !tri_session_is_ended())
    tri_train_note_end(t, end, st, code, together);
}

/* Everything behind the deck: collective over MPI_COMM_WORLD. */
static tri_status run(const tri_config *cfg, int *code) {
  tri_session     se = {0};
  char            device[TRI_CONFIG_WORD_BYTES];
  tri_session_opt opt = {device, (int)cfg->run.ranks_per_node, (int)cfg->run.threads, cfg->run.timeout_s,
                         NULL};
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
                  "%s: no step fits the time of this job, %.0f s when the run began:\n"
                  "  ask for more (sbatch --time), or make a step shorter (rollout.rollout_batch_size, "
                  "rollout.max_response_length, eval.max_prompts)",
                  cfg->run.output, t.pace.left_s);
  if (end == TRI_TRAIN_STOPPED_BY_FILE && se.rt.world_rank == 0) TRI_TRY_DONE(say_stopped(cfg));
done:
  tri_halt_enter(TRI_HALT_LEAVING);
  if (!log && st != TRI_OK && t.run.is_held && se.rt.world_rank == 0) open_late(path, &log);
  tri_log_file(NULL);
  if (log && st != TRI_OK) /* the terminal's is main.c's */
    fprintf(log, "trireme: %s\n%s", tri_error_message(), tri_error_trace());
  if (log) fclose(log);
  note_end(&t, end, st, st == TRI_OK ? *code : tri_status_exit_code(st));
  tri_trainer_close(&t);
  tri_text_free(&record);
  tri_session_leave(&se, st);
  tri_runlog_close(&events); /* the watch over the ranks, which may give notice, has ended */
  return st;
}

static tri_status train(int argc, char **argv, int *code) {
  tri_show_learned show = {0, false};

  bool     options = false, check = false, help;
  bool     verbose = false; /* for its row in --help; main.c acts on it */
  int64_t  ranks = 0;
  tri_flag flag[] = {
      {"--options", TRI_FLAG_BOOL, &options, 0, 0, NULL, "print every key of a deck and leave"},
      {"--check", TRI_FLAG_BOOL, &check, 0, 0, NULL,
       "say all that is wrong with deck, model, data and output folder, and what the run would need; nothing "
       "is run, and nothing written stays; the exit code is that of the run, or 64 where faults differ"},
      {"--ranks", TRI_FLAG_I64, &ranks, 1, 1 << 20, "N", "with --check: as if started on so many ranks"},
      {"--show", TRI_FLAG_I64, &show.lines, 1, TRI_SHOW_LEARNED_MOST, "N",
       "with --check: print the first N lines of each file of data.train as the model gets them, learned "
       "tokens in colour, or between marked brackets"},
      {"--json", TRI_FLAG_BOOL, &show.json, 0, 0, NULL,
       "with --show: an object a line: text, tokens, and whether each is learned"},
      {"--verbose", TRI_FLAG_BOOL, &verbose, 0, 0, NULL,
       "show what else only log.txt has: the memory table, every node, where in the program an error arose"}};
  tri_config cfg = {0};
  tri_text   notes = {0};
  int        n;
  tri_status st = TRI_OK;

  TRI_TRY(tri_flags_parse(&tri_command_train, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) return TRI_OK;
  if (options) {
    TRI_TRY(tri_config_help(&notes));
    print_options(notes.data);
    tri_text_free(&notes);
    return TRI_OK;
  }
  if (n < 1 || (strchr(argv[0], '=') && access(argv[0], F_OK)))
    TRI_FAIL(TRI_EARG, "the deck is missing; usage: trireme train %s", tri_command_train.usage);
  if (show.json && !show.lines) TRI_FAIL(TRI_EARG, "--json belongs to --check --show N");
  if (show.lines && !check) TRI_FAIL(TRI_EARG, "--show belongs to --check");
  if (check) /* work for one rank */
    return tri_runtime_env_rank() == 0 ? tri_check(argv[0], argv + 1, n - 1, ranks, &show) : TRI_OK;
  if (ranks) TRI_FAIL(TRI_EARG, "--ranks belongs to --check; srun or mpirun start the ranks of a run");
  TRI_TRY_DONE(tri_config_load(argv[0], argv + 1, n - 1, &cfg, &notes));
  for (char *line = notes.data; line && *line;) { /* one line per spelling of another program */
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    tri_log(TRI_LOG_INFO, "%s", line);
    line = end ? end + 1 : NULL;
  }
  tri_config_choose(&cfg);
  TRI_TRY_DONE(run(&cfg, code));
done:
  tri_text_free(&notes);
  tri_config_free(&cfg);
  return st;
}

const tri_command tri_command_train = {"train", "DECK [key=value ...]", "train as the deck says", train};
