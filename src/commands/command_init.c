/* command_init.c - trireme init [FOLDER]: writes a deck and a job file from flags, from Slurm and the input
 * files, or from answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/program.h"
#include "tools/init/interview.h"
#include "base/columns.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "device/device.h"
#include "commands.h"
#include "tools/init/init_ask.h"
#include "tools/init/draft.h"
#include "tools/init/init_fit.h"
#include "tools/init/pair.h"
#include "tools/plan/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const files[] = {"deck.yaml", "job.sbatch"};
enum { DECK, JOB, FILES };

typedef struct request {
  const char *folder; /* as typed, "." by default */
  bool        force;
  tri_text    path; /* absolute path of the folder */
} request;

/* Checks the folder before the first question. tri_pair_write checks again and never overwrites without
 * --force. */
static tri_status check_folder(const request *q) {
  int fd = -1;

  TRI_TRY(tri_folder_open(q->folder, &fd));
  if (fd < 0) return TRI_OK;
  close(fd);
  if (access(q->folder, W_OK)) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", q->folder, strerror(errno));
  for (int i = 0; i < FILES && !q->force; i++)
    if (tri_file_in(q->folder, files[i]))
      TRI_FAIL(TRI_EARG, "%s/%s exists already. Name another folder, or overwrite it with --force", q->folder,
               files[i]);
  return TRI_OK;
}

/* ---- paths in the job file ---- */

enum { PATH_BYTES = 4096 };

/* Finds this program and the job script that starts the ranks (train.sbatch), at its place in an installation
 * or in a build folder. */
static tri_status find_runner(char program[PATH_BYTES], char runner[PATH_BYTES]) {
  static const char *const places[] = {"../share/trireme/jobs/train.sbatch",
                                       "share/trireme/jobs/train.sbatch"};
  ssize_t                  n = readlink("/proc/self/exe", program, PATH_BYTES - 1);
  char                    *name;

  if (n <= 0 || n >= PATH_BYTES - 1)
    TRI_FAIL(TRI_EFILE, "/proc/self/exe: the path of this program cannot be read: %s", strerror(errno));
  program[n] = '\0';
  name = strrchr(program, '/');
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (snprintf(runner, PATH_BYTES, "%.*s/%s", (int)(name - program), program, places[i]) >= PATH_BYTES)
      continue;
    if (tri_file_exists(runner)) return TRI_OK;
  }
  TRI_FAIL(TRI_EFILE,
           "%s: there is no %s beside it, the script to start the ranks of a job. Install Trireme (cmake "
           "--install)",
           program, places[0]);
}

/* Removes "../" from a path that exists. */
static void shorten(char path[PATH_BYTES]) {
  char real[PATH_BYTES], *found = realpath(path, NULL);

  if (found && snprintf(real, sizeof real, "%s", found) < (int)sizeof real) memcpy(path, real, sizeof real);
  free(found);
}

/* Memory of a node for the job, MiB. Returns 0, the whole node, if the job uses at least 90 % of its cores or
 * GPUs. */
static int64_t memory_of(const tri_interview *v, int64_t cores) {
  const tri_cluster_nodes *k = v->kind;
  int64_t used = v->cuda ? v->per_node : cores * v->per_node, all = v->cuda ? k->gpus : k->cores;

  return used * 10 >= all * 9 ? 0 : k->memory_mib / all * used;
}

enum { CORES_OF_A_GPU = 8 }; /* chosen, as in jobs/one_node.sbatch, for unknown nodes */

/* A rank's share of the cores of its node. If the node is unknown, it is a share of this machine's cores. */
static int64_t cores_of(const tri_interview *v) {
  if (v->cuda && !v->kind) return CORES_OF_A_GPU;
  int64_t all = v->kind ? v->kind->cores : sysconf(_SC_NPROCESSORS_ONLN);
  int64_t n = all / (v->kind && v->cuda ? v->kind->gpus : v->per_node);

  return n > 0 ? n : 1;
}

static tri_status draft_job(const tri_interview *v, const tri_draft *d, const request *q, tri_text *out) {
  char        program[PATH_BYTES], runner[PATH_BYTES];
  const char *name = strrchr(q->path.data, '/') + 1, *partition = v->answer[TRI_ASK_PARTITION],
             *account = v->answer[TRI_ASK_ACCOUNT];
  tri_draft_job j = {.name =
                         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
                                     strlen(name) &&
                                 name[0]
                             ? name
                             : "trireme",
                     .partition = partition[0] ? partition : NULL,
                     .account = account[0] ? account : NULL,
                     .time = v->answer[TRI_ASK_WALLTIME],
                     .memory_mib = -1,
                     .runner = runner,
                     .program = program};

  TRI_TRY(find_runner(program, runner));
  shorten(runner);
  j.cores = cores_of(v);
  j.guessed = v->cuda && !v->kind;
  if (j.guessed) j.memory_mib = 0;
  if (v->kind) {
    if (v->kind->memory_mib) j.memory_mib = memory_of(v, j.cores);
    if (v->cuda && tri_cluster_mixes_gpus(&v->cluster, v->kind->partition)) j.gpu = v->kind->gpu;
  }
  return tri_draft_sbatch(d, &j, out);
}

/* ---- writing ---- */

static tri_status write_both(const request *q, const tri_text *text) {
  const tri_pair_file file[FILES] = {{files[DECK], text[DECK].data, text[DECK].len},
                                     {files[JOB], text[JOB].data, text[JOB].len}};

  return tri_pair_write(q->path.data, file, q->force);
}

/* Says where both files lie and which command comes next. */
static tri_status say_next(const request *q, const tri_interview *v) {
  tri_text   folder = {0}, line = {0};
  tri_status st = TRI_OK;

  if (v->cuda && !tri_device_find("cuda"))
    tri_log(TRI_LOG_WARN,
            "the job uses GPUs, but this program was built without CUDA. Build one with CUDA, and name it in "
            "job.sbatch (TRIREME)");
  TRI_TRY_DONE(tri_text_put_word(&folder, q->folder));
  TRI_TRY_DONE(tri_text_printf(&line,
                               "wrote %s/deck.yaml and %s/job.sbatch\n"
                               "next: sbatch %s/job.sbatch\n"
                               "  or: %s plan %s/deck.yaml --nodes %lld --gpus-per-node %lld%s%s\n",
                               folder.data, folder.data, folder.data, tri_program(), folder.data,
                               (long long)v->nodes, (long long)v->per_node, v->cuda ? " --gpu " : "",
                               v->cuda ? v->answer[TRI_ASK_GPU] : ""));
  TRI_TRY_DONE(tri_print(line.data, line.len));
done:
  tri_text_free(&folder);
  tri_text_free(&line);
  return st;
}

/* Checks the deck under its final path, for which its folder must exist. A folder made for the check is
 * removed again if the deck has an error. */
static tri_status finish(const request *q, const tri_interview *v, const tri_draft *d) {
  tri_text   text[FILES] = {{0}};
  bool       made = !tri_file_exists(q->folder);
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_draft_deck(d, &text[DECK]));
  TRI_TRY_DONE(draft_job(v, d, q, &text[JOB]));
  if (made) TRI_TRY_DONE(tri_folder_make(q->folder));
  TRI_TRY_DONE(tri_check_text(d->deck, text[DECK].data, text[DECK].len, (int)(v->nodes * v->per_node),
                              (int)v->per_node));
  TRI_TRY_DONE(write_both(q, text));
  TRI_TRY_DONE(say_next(q, v));
done:
  if (st != TRI_OK && made) rmdir(q->folder);
  for (int i = 0; i < FILES; i++) tri_text_free(&text[i]);
  return st;
}

/* ---- the command ---- */

/* The value of --chat-template for the deck. A file is named by its absolute path. */
static tri_status put_template(tri_interview *v, tri_text *out) {
  const char *given = v->chat_template;

  if (!given) return TRI_OK;
  if (!strcmp(given, "none") || (!tri_chat_is_word(given) && !tri_chat_is_file(given)))
    TRI_FAIL(TRI_EARG, "--chat-template %s: must be one of auto|" TRI_CHAT_NAMES " or FILE.jinja", given);
  if (!tri_chat_is_file(given)) return tri_text_printf(out, "%s", given);
  TRI_TRY(tri_interview_path(given, out));
  v->chat_template = out->data;
  return TRI_OK;
}

static tri_status work(request *q, tri_interview *v) {
  tri_draft  d = {0};
  tri_text   deck = {0}, output = {0}, planned = {0}, template = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_interview_path(q->folder, &q->path));
  TRI_TRY_DONE(check_folder(q));
  TRI_TRY_DONE(put_template(v, &template));
  TRI_TRY_DONE(tri_interview_hold(v));
  TRI_TRY_DONE(tri_text_printf(&deck, "%s/deck.yaml", q->path.data));
  TRI_TRY_DONE(tri_text_printf(&output, "%s/out", q->path.data));
  d = (tri_draft){.deck = deck.data,
                  .output = output.data,
                  .model = v->answer[TRI_ASK_MODEL],
                  .data = v->answer[TRI_ASK_DATA],
                  .eval = v->answer[TRI_ASK_EVAL][0] ? v->answer[TRI_ASK_EVAL] : NULL,
                  .algo = v->algo,
                  .lines = &v->lines,
                  .chat = v->chat && v->lines.plain,
                  .chat_template = template.len && v->chat && (v->lines.plain || v->lines.conversation)
                                       ? template.data
                                       : NULL,
                  .cuda = v->cuda,
                  .nodes = v->nodes,
                  .per_node = v->per_node};
  TRI_TRY_DONE(tri_init_fit(v, &d, &planned));
  TRI_TRY_DONE(finish(q, v, &d));
done:
  tri_text_free(&deck);
  tri_text_free(&output);
  tri_text_free(&planned);
  tri_text_free(&template);
  return st;
}

static tri_status init(int argc, char **argv, int *code) {
  request       q = {.folder = "."};
  tri_interview v = {0};
  int64_t       nodes = 0, per_node = 0;
  char          nodes_text[32], per_node_text[32];
  const char  **given = v.given;
  bool          help;
  int           n;
  tri_flag      flag[] = {
           {"--yes", TRI_FLAG_BOOL, &v.yes, 0, 0, NULL,
            "ask nothing, and find out values that are not "
                 "given"},
           {"--model", TRI_FLAG_TEXT, &given[TRI_ASK_MODEL], 0, 0, "FOLDER", "model to start from"},
           {"--data", TRI_FLAG_TEXT, &given[TRI_ASK_DATA], 0, 0, "F.jsonl", "lines to learn from"},
           {"--eval", TRI_FLAG_TEXT, &given[TRI_ASK_EVAL], 0, 0, "F.jsonl", "held-out lines (default none)"},
           {"--chat-template", TRI_FLAG_TEXT, &v.chat_template, 0, 0, "NAME",
            "chat template for messages and prompts: auto, chatml, llama2, llama3, mistral, qwen2.5, "
                 "qwen3, gemma, zephyr or FILE.jinja (default auto, the model's own)"},
           {"--algo", TRI_FLAG_TEXT, &given[TRI_ASK_ALGO], 0, 0, "NAME",
            "algorithm (default the usual one for such lines)"},
           {"--nodes", TRI_FLAG_I64, &nodes, 1, 1 << 20, "N", "nodes of the job (default 1)"},
           {"--gpus-per-node", TRI_FLAG_I64, &per_node, 1, 1 << 20, "G",
            "GPUs of each node (default all), or with --device cpu its ranks (default one for 8 cores)"},
           {"--gpu", TRI_FLAG_TEXT, &given[TRI_ASK_GPU], 0, 0, "NAME|GiB",
            "GPU such as h100-80 or a100-40, or its memory in GiB (default from the type Slurm reports)"},
           {"--walltime", TRI_FLAG_TEXT, &given[TRI_ASK_WALLTIME], 0, 0, "T",
            "time limit of one job (default 04:00:00)"},
           {"--partition", TRI_FLAG_TEXT, &given[TRI_ASK_PARTITION], 0, 0, "P",
            "Slurm partition (default Slurm's own)"},
           {"--account", TRI_FLAG_TEXT, &given[TRI_ASK_ACCOUNT], 0, 0, "A", "Slurm account (default none)"},
           {"--device", TRI_FLAG_WORD, &given[TRI_ASK_DEVICE], 0, 0, "cpu|cuda",
            "device to train on (default GPUs if there are any)"},
           {"--force", TRI_FLAG_BOOL, &q.force, 0, 0, NULL, "overwrite deck.yaml and job.sbatch"}};
  tri_status st = TRI_OK;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_init, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help || tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  if (n > 0) q.folder = argv[0];
  tri_need need[] = {{"--model FOLDER", given[TRI_ASK_MODEL] != NULL},
                     {"--data F.jsonl", given[TRI_ASK_DATA] != NULL}};
  TRI_TRY(tri_flags_need(&tri_command_init, need, v.yes ? 2 : 0, n > 1 ? argv[1] : NULL));
  if (!v.yes && !tri_ask_can())
    TRI_FAIL(TRI_EARG,
             "no terminal to ask questions. Give --yes, --model and --data (see trireme init --help)");
  snprintf(nodes_text, sizeof nodes_text, "%lld", (long long)nodes);
  snprintf(per_node_text, sizeof per_node_text, "%lld", (long long)per_node);
  if (nodes) given[TRI_ASK_NODES] = nodes_text;
  if (per_node) given[TRI_ASK_PER_NODE] = per_node_text;
  st = work(&q, &v);
  tri_interview_close(&v);
  tri_text_free(&q.path);
  return st;
}

const tri_command tri_command_init = {"init", "[FOLDER] [--yes] [--model FOLDER] [--data F.jsonl] ...",
                                      "write a deck and a job file that fit this cluster", init};
