/* reward_child.c - a reward program for tests. It answers with the response's bytes unless the response asks
 * for worse.
 *
 * reward_child [--after N] [--pids FILE] [--once FILE] [--log FILE] [--null CHARACTERS] [--fork] [--daemon]
 *   [--mute] [--stay]
 *
 *   --after N          answers once N lines have arrived, the last line first
 *   --pids FILE        appends its process number, and its child's, to FILE
 *   --once FILE        fails or hangs only while FILE does not exist, and creates FILE then
 *   --null CHARACTERS  gives no reward to responses with one of these characters. * means all responses
 *   --log FILE         writes a line before each answer
 *   --fork             has a child that waits for ever and holds its output
 *   --daemon           has such a grandchild in a session of its own. Its parent has ended. One more
 *                      grandchild ends at once
 *   --mute             answers nothing
 *   --stay             does not end when its input ends */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static const char *once, *pids, *log_file, *null_ones = "";
static int         is_mute;
static long        said_again = -1; /* the last answer, to be repeated before the next one */

static void put_number(const char *path, long number) {
  FILE *f = path ? fopen(path, "a") : NULL;

  if (f) fprintf(f, "%ld\n", number);
  if (f) fclose(f);
}

static void stay(void) {
  for (;;) pause();
}

/* True if the failure is due. With --once it is due the first time only. */
static int is_due(void) {
  FILE *f;

  if (!once) return 1;
  f = fopen(once, "r");
  if (f) {
    fclose(f);
    return 0;
  }
  f = fopen(once, "w");
  if (f) fclose(f);
  return 1;
}

/* lines < 0: writes no newlines. -1: writes without end. */
static void flood(FILE *f, long lines) {
  static char line[80];

  memset(line, 'x', sizeof line);
  if (lines > 0) line[sizeof line - 1] = '\n';
  for (long i = 0; lines == -1 || i < labs(lines); i++) fwrite(line, 1, sizeof line, f);
}

static void answer(long id, const char *response) {
  put_number(log_file, id);
  if (is_mute) stay();
  if (said_again >= 0) printf("{\"id\": %ld, \"reward\": 1}\n", said_again);
  said_again = strcmp(response, "twice") ? -1 : id;
  if (!strcmp(response, "hang") && is_due()) stay();
  if (!strcmp(response, "die") && is_due()) {
    fputs("this is the end\n", stderr);
    exit(3);
  }
  if (!strcmp(response, "killed") && is_due()) raise(SIGKILL);
  if (!strcmp(response, "flood") && is_due()) flood(stdout, -1);
  if (!strcmp(response, "stderr")) flood(stderr, 1 << 13);
  if (!strcmp(response, "close") && is_due()) {
    fclose(stdout);
    close(1);
    stay();
  }
  if (!strcmp(response, "nonsense"))
    puts("hello");
  else if (!strcmp(response, "list"))
    puts("[1]");
  else if (!strcmp(response, "unknown"))
    printf("{\"id\": %ld, \"reward\": 1}\n", id + 1000);
  else if (!strcmp(response, "nan"))
    printf("{\"id\": %ld, \"reward\": NaN, \"note\": \"a NaN, \\\"-Infinity\"}\n", id);
  else if (!strcmp(response, "inf"))
    printf("{\"of\": [-Infinity, nan], \"id\": %ld, \"reward\": -inf}\n", id);
  else if (!strcmp(response, "beyond"))
    printf("{\"of\": [-1e999, 1e-999], \"id\": %ld, \"reward\": 1e999}\n", id);
  else if (!strcmp(response, "integer"))
    printf("{\"id\": %ld, \"reward\": 100000000000000000000}\n", id);
  else if (!strcmp(response, "digits")) {
    printf("{\"id\": %ld, \"reward\": ", id);
    for (int i = 0; i < 400; i++) putchar('9');
    puts("}");
  } else if (!strcmp(response, "deep")) {
    printf("{\"id\": %ld, \"reward\": ", id);
    for (int i = 0; i < 30000; i++) putchar('[');
    puts("");
  } else if (!strcmp(response, "double"))
    printf("{\"id\": %ld, \"id\": %ld, \"reward\": 1, \"reward\": 2}\n", id, id);
  else if (!strcmp(response, "latin"))
    printf("{\"note\": \"\xE9\", \"id\": %ld, \"reward\": 1}\n", id);
  else if (!strcmp(response, "nul"))
    printf("{\"note\": \"\\u0000\", \"id\": %ld, \"reward\": 3}\n", id);
  else if (!strcmp(response, "values")) {
    printf("{\"id\": %ld, \"reward\": 6, \"each\": [0", id);
    for (int i = 0; i < 3000; i++) printf(", %d", i);
    puts("]}");
  } else if (!strcmp(response, "long")) {
    printf("{\"id\": %ld, \"reward\": 1, \"note\": \"", id);
    flood(stdout, -1000);
    puts("\"}");
  } else if (!strcmp(response, "endless")) {
    printf("{\"id\": %ld, \"reward\": 1, \"note\": \"", id);
    flood(stdout, -1);
  } else if (!strcmp(response, "null") || *null_ones == '*' || strpbrk(response, null_ones))
    printf("{\"id\": %ld, \"reward\": null}\n", id);
  else if (!strcmp(response, "word"))
    printf("{\"id\": %ld, \"reward\": \"1\"}\n", id);
  else if (!strcmp(response, "large"))
    printf("{\"id\": %ld, \"reward\": 1e300}\n", id);
  else if (!strncmp(response, "more:", 5)) /* further members, given by the response */
    printf("{\"id\": %ld, %s, \"reward\": %zu}\n", id, response + 5, strlen(response));
  else if (strlen(response) % 2 == 0) /* a further number in some answers */
    printf("{\"reward\": %zu, \"half\": %zu, \"note\": [{}], \"id\": %ld}\n", strlen(response),
           strlen(response) / 2, id);
  else
    printf("{\"reward\": %zu, \"note\": [{}], \"id\": %ld}\n", strlen(response), id);
  fflush(stdout);
}

/* Reads a line. A field of another program in it sets the length of the counted response. */
static void read_line(const char *line, long *id, char *response, size_t bytes) {
  json_t     *o = json_loads(line, JSON_ALLOW_NUL, NULL);
  const char *text = json_string_value(json_object_get(o, "response"));

  if (!text || !json_is_integer(json_object_get(o, "id")) || !json_is_string(json_object_get(o, "prompt")))
    exit(9);
  *id = (long)json_integer_value(json_object_get(o, "id"));
  snprintf(response, bytes, "%s", text);
  if (!strcmp(text, "field")) { /* as many bytes as the line's field says */
    long n = (long)json_integer_value(json_object_get(json_object_get(o, "extra"), "n"));
    memset(response, 'y', (size_t)n);
    response[n] = 0;
  }
  json_decref(o);
}

/* Starts a grandchild without parent, group or session. */
static void leave(int stays) {
  int ends[2];

  if (pipe(ends)) exit(7);
  if (fork() == 0) {
    if (fork()) _exit(0);
    setsid();
    put_number(pids, (long)getpid());
    close(ends[0]);
    close(ends[1]); /* by now its parent has ended, and its number is in the file */
    if (stays) stay();
    _exit(0);
  }
  close(ends[1]);
  if (read(ends[0], &(char){0}, 1) < 0) exit(7);
  close(ends[0]);
}

int main(int argc, char **argv) {
  static char line[1 << 16], response[MOST][256];
  long        id[MOST];
  int         after = 1, n = 0, stays = 0, forks = 0, leaves = 0;

  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--after"))
      after = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--pids"))
      pids = argv[++i];
    else if (!strcmp(argv[i], "--log"))
      log_file = argv[++i];
    else if (!strcmp(argv[i], "--null"))
      null_ones = argv[++i];
    else if (!strcmp(argv[i], "--once"))
      once = argv[++i];
    else if (!strcmp(argv[i], "--fork"))
      forks = 1;
    else if (!strcmp(argv[i], "--daemon"))
      leaves = 1;
    else if (!strcmp(argv[i], "--mute"))
      is_mute = 1;
    else if (!strcmp(argv[i], "--stay"))
      stays = 1;
    else
      exit(8);
  }
  put_number(pids, (long)getpid());
  if (forks) {
    long pid = (long)fork();
    if (pid == 0) stay();
    put_number(pids, pid);
  }
  if (leaves) {
    leave(1);
    leave(0);
  }
  while (fgets(line, sizeof line, stdin)) {
    if (after == 1) {
      read_line(line, id, response[0], sizeof response[0]);
      answer(id[0], response[0]);
      continue;
    }
    read_line(line, &id[n], response[n], sizeof response[n]);
    if (++n < after) continue;
    while (n) {
      n--;
      answer(id[n], response[n]);
    }
  }
  if (stays) stay();
  return 0;
}
