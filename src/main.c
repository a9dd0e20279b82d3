/* main.c - the table of commands, and the exit with one message from one rank and one exit code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo/algo.h"
#include "base/log.h"
#include "base/program.h"
#include "base/text_buffer.h"
#include "base/processor.h"
#include "comm/cores.h"
#include "comm/runtime.h"
#include "commands/commands.h"
#include "tools/version/version.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const tri_command *const commands[] = {
    &tri_command_train,  &tri_command_generate, &tri_command_score,   &tri_command_eval,
    &tri_command_reward, &tri_command_tokenize, &tri_command_inspect, &tri_command_export,
    &tri_command_init,   &tri_command_plan,     &tri_command_doctor,  &tri_command_bench,
    &tri_command_watch,  &tri_command_report,   &tri_command_show,    &tri_command_metrics};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
  printf("trireme " TRI_VERSION ": reinforcement learning of language models,\n"
         "one MPI rank per GPU or share of cores\n\n"
         "usage: trireme COMMAND ...    (under srun or mpirun, or plainly for one rank)\n\ncommands:\n");
  for (int i = 0; i < N_COMMANDS; i++) tri_flags_row(commands[i]->name, 13, commands[i]->summary);
  printf("\ntrireme COMMAND --help   explains a command\n"
         "trireme train --options  lists every option of a deck\n"
         "trireme --version        prints the version, and the devices it was built for,\n"
         "                         with --verbose or --json also build and libraries\n\n"
         "exit codes: 0 done, 64 bad deck or input, 69 environment, 70 internal,\n"
         "74 input/output, 75 requeue me, 76 a peer hung or died\n");
}

/* True for the name of an algorithm, which belongs in a deck. */
static bool is_algorithm(const char *name) {
  for (int i = 0; tri_algo_at(i); i++)
    if (!strcmp(tri_algo_at(i)->name, name)) return true;
  return false;
}

static const tri_command *find(const char *name) {
  const char *known[N_COMMANDS], *near;

  for (int i = 0; i < N_COMMANDS; i++) {
    known[i] = commands[i]->name;
    if (!strcmp(name, known[i])) return commands[i];
  }
  if (is_algorithm(name)) {
    tri_fail(__FILE__, __LINE__, __func__, TRI_EARG,
             "unknown command '%s'. To train with this algorithm, run trireme train DECK with algo.name: %s",
             name, name);
    return NULL;
  }
  near = tri_nearest(name, known, N_COMMANDS);
  tri_fail(__FILE__, __LINE__, __func__, TRI_EARG,
           "unknown command '%s'%s%s%s trireme --help lists all commands.", name,
           near ? ", did you mean " : "", near ? near : "", near ? "?" : ".");
  return NULL;
}

/* Chosen for a start on a crowded machine. Nothing waits this long under mpirun. */
enum { PATIENCE_MS = 3000 };

/* Prints an error of this rank alone, with rank and host. */
static void say_place(int rank) {
  char     host[64] = "";
  tri_text text = {0};

  gethostname(host, sizeof host - 1);
  if (tri_text_printf(&text, "rank %d on %s: %s", rank, host, tri_error_message()) == TRI_OK)
    tri_log_lines(TRI_LOG_ERROR, text.data);
  tri_text_free(&text);
}

/* Reports an error by one message from one rank. If ranks could not end together, the session has already
 * ended the program (session.h), so every rank here has the same error. A launcher ends all ranks as soon as
 * one has failed, so rank 0 reports first, and the others wait. A rank that is still alive after that failed
 * alone before MPI started. */
static int fail(tri_status st) {
  int code = tri_status_exit_code(st), rank = tri_runtime_env_rank();

  if (rank != 0) {
    poll(NULL, 0, PATIENCE_MS);
    if (tri_runtime_speaks_alone()) say_place(rank);
    return code;
  }
  tri_log_lines(TRI_LOG_ERROR, tri_error_message());
  if (st == TRI_EINTERNAL)
    fputs(tri_error_trace(), stderr);
  else
    tri_log_table(TRI_LOG_DETAIL, tri_error_trace());
  return code;
}

/* True if several threads work in this command. */
static bool computes(const char *name) {
  static const tri_command *const those[] = {&tri_command_train, &tri_command_generate, &tri_command_score,
                                             &tri_command_eval,  &tri_command_reward,   &tri_command_bench,
                                             &tri_command_doctor};

  for (size_t i = 0; i < sizeof those / sizeof *those; i++)
    if (!strcmp(name, those[i]->name)) return true;
  return false;
}

/* True if the command line has --verbose. Must be known before any flag is refused. */
static bool is_verbose(int argc, char **argv) {
  for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--verbose")) return true;
  return false;
}

/* Runs the command line. */
static tri_status run(int argc, char **argv, int *code) {
  const tri_command *c;

  if (!strcmp(argv[1], "--version")) return tri_version_run(argc - 2, argv + 2);
  c = find(argv[1]);
  return c ? c->run(argc - 2, argv + 2, code) : TRI_EARG;
}

/* Returns 69 after a message if the program cannot run on this processor, else 0. */
static int check_processor(void) {
  const char *lacks = tri_processor_lacks();

  if (lacks)
    fprintf(
        stderr,
        "trireme: this processor lacks %s, and the program was compiled for it. Run it on other nodes, or "
        "build it with another -DTRI_ARCH. The default suits all processors since 2009.\n",
        lacks);
  return lacks ? tri_status_exit_code(TRI_EDEVICE) : 0;
}

int main(int argc, char **argv) {
  tri_status st;
  int        code = check_processor();

  if (code) return code;
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    print_help();
    return argc < 2 ? 64 : 0;
  }
  if (computes(argv[1])) tri_cores_set_wait(argv);
  signal(SIGXFSZ, SIG_IGN); /* writing beyond a file's limit then fails with an error */
  tri_program_set(argv[0]);
  tri_log_open(tri_runtime_env_rank(), is_verbose(argc, argv) ? TRI_LOG_DETAIL : TRI_LOG_INFO);
  st = run(argc, argv, &code);
  if (st == TRI_OK && (fflush(stdout) || ferror(stdout)))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "standard output cannot be written: %s",
                  strerror(errno));
  if (st != TRI_OK) code = fail(st);
  return code;
}
