/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal, by plain ANSI sequences. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "apps/ctl/top.h"

#define ENTER    "\033[?1049h\033[?25l" /* alternate screen, no cursor */
#define LEAVE    "\033[0m\033[?25h\033[?1049l"
#define HOME     "\033[H"
#define LINE_END "\033[0m\033[K"
#define BELOW    "\033[J"
#define TITLE    "\033[7m"
#define ALARM    "\033[1;31m"

static struct {
	bool open;
	struct termios before;
	sigset_t mask_before;
	int epoll, signals;
	int killed_by;
} screen = {.epoll = -1, .signals = -1};

static void
say(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

static void
enter(void)
{
	struct termios raw = screen.before;

	/* Ctrl-C and Ctrl-Z stay signals. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	say(ENTER);
	screen.open = true;
}

static void
leave(void)
{
	if (!screen.open)
		return;
	screen.open = false;
	say(LEAVE);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

static bool
watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(screen.epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool
screen_open(void)
{
	const char *kind = getenv("TERM");
	sigset_t mask;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || kind == NULL ||
		strcmp(kind, "dumb") == 0 || tcgetattr(STDIN_FILENO, &screen.before) < 0)
		return false;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGQUIT);
	sigaddset(&mask, SIGTSTP);
	sigaddset(&mask, SIGWINCH);
	sigprocmask(SIG_BLOCK, &mask, &screen.mask_before);
	screen.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	screen.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (screen.signals < 0 || screen.epoll < 0 || !watch(screen.signals) ||
		!watch(STDIN_FILENO))
		return false;
	atexit(leave);
	enter();
	return true;
}

/* Ctrl-Z: the terminal is the shell's until SIGCONT. */
static void
stop(void)
{
	leave();
	kill(getpid(), SIGSTOP);
	enter();
}

static enum screen_event
signals(void)
{
	struct signalfd_siginfo info;
	enum screen_event event = SCREEN_NOTHING;

	while (read(screen.signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGINT)
			return SCREEN_QUIT;
		if (info.ssi_signo == SIGTSTP)
			stop();
		if (info.ssi_signo != SIGTSTP && info.ssi_signo != SIGWINCH) {
			screen.killed_by = (int)info.ssi_signo;
			return SCREEN_KILLED;
		}
		event = SCREEN_REDRAW;
	}
	return event;
}

enum screen_event
screen_event(void)
{
	struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
	enum screen_event event = signals();
	char key;

	if (event == SCREEN_QUIT || event == SCREEN_KILLED)
		return event;
	while (poll(&keys, 1, 0) == 1) {
		/* Readable and nothing there: the terminal is gone. */
		if (read(STDIN_FILENO, &key, 1) != 1)
			return SCREEN_KILLED;
		if (key == 'q' || key == 'Q')
			return SCREEN_QUIT;
		event = SCREEN_REDRAW;
	}
	return event;
}

void
screen_wait(double seconds)
{
	struct pollfd watched = {.fd = screen.epoll, .events = POLLIN};

	poll(&watched, 1, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
}

void
screen_size(unsigned int *width, unsigned int *rows)
{
	struct winsize size;

	*width = 80;
	*rows = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		*width = size.ws_col;
		*rows = size.ws_row;
	}
}

void
screen_show(const char *frame)
{
	unsigned int width, rows;

	screen_size(&width, &rows);
	fputs(HOME, stdout);
	for (unsigned int row = 0; *frame != '\0' && row < rows; row++) {
		size_t length = strcspn(frame, "\n");

		/* No line end after the last line: the screen would scroll. */
		if (row > 0)
			putchar('\n');
		if (*frame == TOP_TITLE || *frame == TOP_ALARM) {
			fputs(*frame == TOP_TITLE ? TITLE : ALARM, stdout);
			frame++;
			length--;
		}
		printf("%.*s" LINE_END, (int)length, frame);
		frame += length;
		frame += *frame == '\n';
	}
	say(BELOW);
}

void
screen_close(void)
{
	leave();
	if (screen.epoll >= 0)
		close(screen.epoll);
	if (screen.signals >= 0)
		close(screen.signals);
	screen.epoll = screen.signals = -1;
	if (screen.killed_by != 0)
		raise(screen.killed_by);
	sigprocmask(SIG_SETMASK, &screen.mask_before, NULL);
}
