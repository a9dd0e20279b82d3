/* reward_library.c - library: a reward from a shared object of the user (trireme_reward.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/visible.h"
#include "reward/work_queue/work_queue.h"
#include "elf_object.h"
#include "reward.h"
#include "trireme_reward.h"

#include <dlfcn.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define OBJECT "trireme_reward_object"

enum { MOST_AT_ONCE = 64, ERROR_BYTES = 256 }; /* chosen: some kilobytes of pointers, and a sentence */

typedef struct library {
  void                 *handle;
  const trireme_reward *object; /* in the library */
  void                 *state;  /* state of the object */
  tri_work_queue       *queue;
} library;

/* An answer, followed by its texts. */
typedef struct job {
  trireme_answer a;
  char           byte[];
} job;

/* ---- jobs ---- */

static void *put(char **at, const void *from, size_t n, size_t space) {
  void *to = *at;

  if (n) memcpy(to, from, n);
  *at += space;
  return to;
}

/* Bytes of the members without the comma and space at their end, because they become an object. */
static size_t members_bytes(const tri_answer *a) { return a->fields_bytes >= 2 ? a->fields_bytes - 2 : 0; }

static tri_status make_job(const tri_answer *a, job **out) {
  size_t tokens = ((size_t)a->n_prompt + (size_t)a->n_token) * sizeof *a->token, members = members_bytes(a);
  size_t bytes = tokens + a->prompt_bytes + a->response_bytes + a->truth_bytes + members + 6;
  char  *at;

  TRI_TRY(tri_host_alloc(1, sizeof **out + bytes, (void **)out)); /* zeroed, so that every text ends with a
                                                                   * NUL */
  at = (*out)->byte;
  (*out)->a = (trireme_answer){.prompt_id = a->prompt_id,
                               .n_prompt = a->n_prompt,
                               .n_token = a->n_token,
                               .is_cut = a->truncated,
                               .prompt_bytes = a->prompt_bytes,
                               .response_bytes = a->response_bytes,
                               .truth_bytes = a->truth_bytes,
                               .fields_bytes = members + 2};
  (*out)->a.token = put(&at, a->token, tokens, tokens);
  (*out)->a.prompt = put(&at, a->prompt, a->prompt_bytes, a->prompt_bytes + 1);
  (*out)->a.response = put(&at, a->response, a->response_bytes, a->response_bytes + 1);
  if (a->truth) (*out)->a.truth = put(&at, a->truth, a->truth_bytes, a->truth_bytes + 1);
  (*out)->a.fields = put(&at, "{", 1, 1);
  put(&at, a->fields, members, members);
  put(&at, "}", 1, 2);
  return TRI_OK;
}

static void free_job(void *text) { tri_host_free(&text); }

/* ---- the worker ---- */

static tri_status begin(void *ctx) {
  library *l = ctx;
  char     error[ERROR_BYTES] = "";

  if (!l->object->open || !l->object->open(&l->state, error, sizeof error)) return TRI_OK;
  error[sizeof error - 1] = 0;
  TRI_FAIL(TRI_EREWARD, "open of the reward's library failed: %s", error);
}

static void end(void *ctx) {
  library *l = ctx;

  if (l->object->close) l->object->close(l->state);
}

/* Asks for a batch of scores. If the object refuses the batch, it asks for each answer alone, so that a
 * failure does not depend on the other answers. */
static void ask(library *l, tri_work_queue *d, tri_job **q, int n) {
  trireme_answer a[MOST_AT_ONCE];
  double         score[MOST_AT_ONCE];
  char           error[ERROR_BYTES] = "";

  TRI_ASSERT(n > 0 && n <= MOST_AT_ONCE);
  for (int k = 0; k < n; k++) {
    a[k] = ((const job *)q[k]->text)->a;
    score[k] = NAN;
  }
  if (!l->object->score(l->state, a, (size_t)n, score, error, sizeof error)) {
    for (int k = 0; k < n; k++) tri_work_queue_answer(d, q[k], score[k]);
  } else if (n == 1) {
    error[sizeof error - 1] = 0;
    tri_work_queue_fail(d, q[0], "%s", error);
  } else {
    for (int k = 0; k < n; k++) ask(l, d, &q[k], 1);
  }
}

/* Takes the jobs there are, up to one call's limit. Returns false when the queue closes. */
static bool take_some(tri_work_queue *d, tri_job **q, int *n) {
  for (*n = 0; *n < MOST_AT_ONCE;) {
    tri_work_queue_order order = tri_work_queue_take(d, &q[*n]);
    if (order == TRI_WORK_QUEUE_CLOSE) return false;
    if (order == TRI_WORK_QUEUE_FORGET) {
      *n = 0;
      continue;
    }
    if (!q[*n]) break;
    ++*n;
  }
  return true;
}

static void work(void *ctx, tri_work_queue *d) {
  tri_job *q[MOST_AT_ONCE];
  int      n;

  while (take_some(d, q, &n)) {
    struct pollfd wakeup = {tri_work_queue_wakeup(d), POLLIN, 0};
    if (n)
      ask(ctx, d, q, n);
    else
      poll(&wakeup, 1, -1);
  }
}

/* ---- the plug-in ---- */

/* Checks the first members of trireme_reward_object. */
static tri_status check_made_for(const trireme_reward *head) {
  if (head->version == TRIREME_REWARD_VERSION && head->answer_bytes == sizeof(trireme_answer)) return TRI_OK;
  TRI_FAIL(
      TRI_ECONFIG,
      "made for version %u of trireme_reward.h with answers of %u bytes. This program has version %d with "
      "%zu bytes. Compile it again with this program's header",
      (unsigned)head->version, (unsigned)head->answer_bytes, TRIREME_REWARD_VERSION, sizeof(trireme_answer));
}

static tri_status lacks_object(void) {
  TRI_FAIL(TRI_ECONFIG, "it defines no trireme_reward_object (see trireme_reward.h)");
}

static tri_status lacks_score(void) {
  TRI_FAIL(TRI_ECONFIG, "its trireme_reward_object has no function score");
}

/* Checks the object by reading its file. It does not load it, because code of an object runs on loading and a
 * deck may come from somebody else. */
static tri_status look(const tri_elf *e) {
  trireme_reward head = {.version = 0};
  uint64_t       at;
  bool           found, scores;

  TRI_TRY(tri_elf_find(e, OBJECT, &at, &found));
  if (!found) return lacks_object();
  TRI_TRY(tri_elf_read(e, at, &head, offsetof(trireme_reward, open)));
  TRI_TRY(check_made_for(&head));
  TRI_TRY(tri_elf_points(e, at + offsetof(trireme_reward, score), &scores));
  return scores ? TRI_OK : lacks_score();
}

static tri_status check_file(const char *path) {
  tri_elf   *e = NULL;
  tri_status st = tri_elf_open(path, &e);
  char       why[TRI_MESSAGE_BYTES];

  if (st == TRI_OK) {
    st = look(e);
    tri_elf_close(&e);
    return st;
  }
  snprintf(why, sizeof why, "%s", tri_error_message());
  tri_error_clear();
  TRI_FAIL(st, "no shared object that can be loaded: %s", why);
}

/* Loads the object, which runs code of it. */
static tri_status load(const char *path, library *l) {
  l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) TRI_FAIL(TRI_ECONFIG, "no shared object that can be loaded: %s", dlerror());
  l->object = dlsym(l->handle, OBJECT);
  if (!l->object) return lacks_object();
  TRI_TRY(check_made_for(l->object));
  return l->object->score ? TRI_OK : lacks_score();
}

/* Puts "./" before a bare name, since dlopen would search for it elsewhere. */
static tri_status put_path(const tri_reward_opt *o, tri_text *out) {
  const char *path = tri_reward_get(o, "path");

  return tri_text_printf(out, "%s%s", strchr(path, '/') ? "" : "./", path);
}

static tri_status load_path(const tri_reward_opt *o, library *l) {
  tri_text   path = {0};
  tri_status st = put_path(o, &path);

  if (st == TRI_OK) st = load(path.data, l);
  tri_text_free(&path);
  return st;
}

static void unload(library *l) {
  if (l->handle) dlclose(l->handle);
  l->handle = NULL;
}

static tri_status library_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  tri_text   path = {0};
  tri_status st = put_path(o, &path);

  (void)env;
  *field = "path";
  if (st == TRI_OK) st = check_file(path.data);
  tri_text_free(&path);
  return st;
}

static void library_close(void **state) {
  library *l = *state;

  if (!l) return;
  tri_work_queue_close(&l->queue);
  unload(l);
  tri_host_free(state);
}

static tri_status library_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  tri_work_queue_opt queue = {
      .name = "library", .begin = begin, .work = work, .end = end, .free_text = free_job};
  tri_on_error on_error;
  library     *l;
  tri_status   st = TRI_OK;

  TRI_TRY(tri_host_alloc(1, sizeof *l, state));
  queue.ctx = l = *state;
  TRI_TRY_DONE(tri_reward_read_on_error(o, &on_error));
  queue.trial = env && env->trial;
  queue.hasty = on_error == TRI_ON_ERROR_ABORT && !queue.trial;
  if (env && env->se && env->se->pretended) goto done;
  TRI_TRY_DONE(load_path(o, l));
  TRI_TRY_DONE(tri_work_queue_open(&queue, &l->queue));
done:
  if (st != TRI_OK) library_close(state);
  return st;
}

static tri_status library_submit(void *state, const tri_answer *a, int number) {
  job *q;

  TRI_TRY(make_job(a, &q));
  return tri_work_queue_put(((library *)state)->queue, number, q);
}

static bool library_await(void *state, double most_s) {
  return tri_work_queue_await(((library *)state)->queue, most_s);
}

static tri_status library_collect(void *state, int n, float *score, tri_reward_error *error,
                                  const tri_work_queue_listener *listener) {
  return tri_work_queue_collect(((library *)state)->queue, n, score, &error->number, error->why, listener);
}

static void library_forget(void *state) { tri_work_queue_forget(((library *)state)->queue); }

static const tri_reward_field fields[] = {
    {.name = "path",
     .unit = "path",
     .help = "A shared object with trireme_reward_object (see trireme_reward.h).",
     .value = "F.so",
     .what = "the shared object",
     .must = true},
    TRI_REWARD_ON_ERROR,
    {.name = NULL}};

const tri_reward tri_reward_library = {.name = "library",
                                       .help = "score of a shared object, written in C",
                                       .values = "any number",
                                       .best = INFINITY,
                                       .needs = TRI_REWARD_TEXT | TRI_REWARD_FIELDS_OF_LINE,
                                       .field = fields,
                                       .check = library_check,
                                       .open = library_open,
                                       .submit = library_submit,
                                       .await = library_await,
                                       .collect = library_collect,
                                       .forget = library_forget,
                                       .close = library_close};
