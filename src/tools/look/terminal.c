/* terminal.c - takes the whole screen of a terminal, draws on it and restores it however the program ends
 * (except SIGKILL). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "terminal.h"

#include "base/text_buffer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* DEC's private modes. 1049 is the alternate screen with the cursor saved, 25 is the cursor (off), 7 is
 * wrapping (off). */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J", leave[] = "\033[?7h\033[?25h\033[?1049l";

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
enum { N_CAUGHT = sizeof caught / sizeof *caught, N_ENDING = 4, HANGUP = 2 };
/* Fatal errors of the program itself. The screen is restored, then the signal ends the program as usual. */
static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { N_FAULTS = sizeof faults / sizeof *faults };

static struct {
  bool             is_open, has_keys;
  struct termios   before;
  struct sigaction old[N_CAUGHT], of_faults[N_FAULTS];
  tri_text         shown; /* the frame on the screen */
} screen;

/* Bytes typed and not yet handled. */
static struct {
  char   bytes[64];
  size_t n;
} typed;

static volatile sig_atomic_t came[N_CAUGHT];

static void note(int number) {
  for (int i = 0; i < N_CAUGHT; i++)
    if (caught[i] == number) came[i] = 1;
}

static bool take(int number) {
  for (int i = 0; i < N_CAUGHT; i++)
    if (caught[i] == number && came[i]) {
      came[i] = 0;
      return true;
    }
  return false;
}

static bool put(const char *bytes, size_t n) {
  while (n) {
    ssize_t done = write(STDOUT_FILENO, bytes, n);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) {
      struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
      if (errno == EAGAIN) poll(&p, 1, 1000);
      if (came[HANGUP]) return false; /* nobody reads the screen any more */
      continue;
    }
    if (done <= 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

static void take_screen(void) {
  struct termios t = screen.before;

  t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  t.c_cc[VMIN] = 1;
  t.c_cc[VTIME] = 0;
  if (screen.has_keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
  screen.shown.len = 0;
  put(enter, sizeof enter - 1);
}

static void give_screen(void) {
  put(leave, sizeof leave - 1);
  if (screen.has_keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

/* Calls only functions that are safe in a signal handler (write, poll, tcsetattr, raise). */
static void leave_and_fail(int number) {
  give_screen();
  raise(number); /* delivered after the return, with the default action by then */
}

static void catch_faults(void) {
  struct sigaction act = {.sa_handler = leave_and_fail, .sa_flags = (int)SA_RESETHAND};

  for (int i = 0; i < N_FAULTS; i++) sigaction(faults[i], &act, &screen.of_faults[i]);
}

tri_status tri_terminal_open(void) {
  struct sigaction act = {.sa_handler = note};

  TRI_ASSERT(!screen.is_open);
  typed.n = 0;
  screen.has_keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen.before);
  for (int i = 0; i < N_CAUGHT; i++) {
    came[i] = 0;
    sigaction(caught[i], &act, &screen.old[i]); /* without SA_RESTART, so that poll ends */
  }
  catch_faults();
  screen.is_open = true;
  take_screen();
  return TRI_OK;
}

void tri_terminal_close(void) {
  if (!screen.is_open) return;
  give_screen();
  for (int i = 0; i < N_CAUGHT; i++) sigaction(caught[i], &screen.old[i], NULL);
  for (int i = 0; i < N_FAULTS; i++) sigaction(faults[i], &screen.of_faults[i], NULL);
  tri_text_free(&screen.shown);
  screen.is_open = false;
}

void tri_terminal_size(int *columns, int *lines) {
  struct winsize w;
  bool           known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;

  *columns = known && w.ws_col > 0 ? w.ws_col : 80;
  *lines = known && w.ws_row > 0 ? w.ws_row : 24;
}

bool tri_terminal_show(const char *text, size_t n) {
  if (screen.shown.len == n && n && !memcmp(screen.shown.data, text, n)) return true;
  screen.shown.len = 0;
  if (tri_text_put(&screen.shown, text, n) != TRI_OK)
    tri_error_clear(); /* without a copy, the next frame is
                                                                          * drawn even if it is equal */
  return put(text, n);
}

/* Handles a stop from the terminal (SIGTSTP). The shell has its screen back until this process continues. */
static void stop(void) {
  struct sigaction act = {.sa_handler = SIG_DFL}, mine;

  give_screen();
  sigaction(SIGTSTP, &act, &mine);
  raise(SIGTSTP);
  sigaction(SIGTSTP, &mine, NULL);
  take_screen();
}

/* Takes one key as terminals send it, a letter or an escape sequence. The bytes of a sequence arrive
 * together. */
static int take_key(void) {
  static const struct {
    const char *bytes;
    int         key;
  } known[] = {{"\033[A", TRI_KEY_UP},   {"\033[B", TRI_KEY_DOWN},     {"\033OA", TRI_KEY_UP},
               {"\033OB", TRI_KEY_DOWN}, {"\033[5~", TRI_KEY_PAGE_UP}, {"\033[6~", TRI_KEY_PAGE_DOWN},
               {"\033[H", TRI_KEY_HOME}, {"\033[F", TRI_KEY_END},      {"\033[1~", TRI_KEY_HOME},
               {"\033[4~", TRI_KEY_END}};
  int    key = (unsigned char)typed.bytes[0];
  size_t used = 1;

  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].bytes);
    if (typed.n < n || memcmp(typed.bytes, known[i].bytes, n) != 0) continue;
    key = known[i].key;
    used = n;
  }
  if (key == 27) { /* an unknown sequence, or the Escape key itself */
    key = TRI_KEY_NONE;
    used = typed.n;
  }
  typed.n -= used;
  memmove(typed.bytes, typed.bytes + used, typed.n);
  return key;
}

bool tri_terminal_has_keys(void) { return screen.has_keys; }
bool tri_terminal_has_more(void) { return typed.n > 0; }

static tri_terminal_event read_key(int *key) {
  ssize_t n = read(STDIN_FILENO, typed.bytes, sizeof typed.bytes);

  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return TRI_TERMINAL_TIME;
  if (n <= 0) return TRI_TERMINAL_GONE;
  typed.n = (size_t)n;
  *key = take_key();
  return TRI_TERMINAL_KEY;
}

static bool take_ending(int *key) {
  for (int i = 0; i < N_ENDING; i++)
    if (take(caught[i])) {
      *key = caught[i];
      return true;
    }
  return false;
}

/* Returns true if a key was typed. Signals are unblocked only inside pselect, so that none is lost between
 * the check and the wait. */
static bool wait_for(double patience_s) {
  struct timespec t = {(time_t)patience_s, (long)((patience_s - (double)(time_t)patience_s) * 1e9)};
  sigset_t        all, before;
  fd_set          in;
  bool            has_come = false;
  int             n = 0;

  FD_ZERO(&in);
  if (screen.has_keys) FD_SET(STDIN_FILENO, &in);
  sigemptyset(&all);
  for (int i = 0; i < N_CAUGHT; i++) sigaddset(&all, caught[i]);
  sigprocmask(SIG_BLOCK, &all, &before);
  for (int i = 0; i < N_CAUGHT; i++) has_come |= came[i] != 0;
  if (!has_come) n = pselect(STDIN_FILENO + 1, &in, NULL, NULL, &t, &before);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return n > 0;
}

tri_terminal_event tri_terminal_wait(double patience_s, int *key) {
  bool has_key = wait_for(patience_s > 0 && !typed.n ? patience_s : 0);

  *key = TRI_KEY_NONE;
  if (take_ending(key)) return TRI_TERMINAL_SIGNAL;
  if (take(SIGTSTP)) {
    stop();
    return TRI_TERMINAL_RESIZED;
  }
  if (take(SIGCONT)) { /* after SIGSTOP, when the shell has written on the screen */
    take_screen();
    return TRI_TERMINAL_RESIZED;
  }
  if (take(SIGWINCH)) return TRI_TERMINAL_RESIZED;
  if (typed.n) {
    *key = take_key();
    return TRI_TERMINAL_KEY;
  }
  return has_key ? read_key(key) : TRI_TERMINAL_TIME;
}
