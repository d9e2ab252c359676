/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weirctl top in three parts: what the switch said last (top.c asks for it), a frame made of it
 * (top_frame.c), and the terminal (screen.c).
 */
#ifndef APPS_CTL_TOP_H
#define APPS_CTL_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Answers of one moment; NULL where the switch has no such answer. */
struct top_sample {
	double time; /* seconds, of a clock that only goes forward */
	json_t *status, *ports, *jobs, *counters, *stuck;
	json_t *waiting; /* array of jobs that wait to begin, with their members */
};

/* Lines that a screen shows otherwise begin with one of these. */
#define TOP_TITLE '\001'
#define TOP_ALARM '\002'

/**
 * Write a frame.
 *
 * @param before  the sample before `now`, for rates; NULL: they are dashes
 * @param error   why there is nothing newer; NULL: all is well
 * @param silent  seconds since the last answer, with `error`
 * @param width   columns; 0: as many as it takes
 * @param rows    lines; 0: as many as it takes
 */
void top_frame(const struct top_sample *before, const struct top_sample *now, const char *error,
	double silent, FILE *out, unsigned int width, unsigned int rows);

/* What a user did. */
enum screen_event {
	SCREEN_NOTHING,
	SCREEN_REDRAW, /* another size, or back from being stopped */
	SCREEN_QUIT, /* q, or SIGINT */
	SCREEN_KILLED, /* another signal, or the terminal is gone */
};

/**
 * Take the terminal: alternate screen, keys as they come, signals as events. It is given back by
 * screen_close(), and at exit.
 *
 * @return false: there is no terminal
 */
bool screen_open(void);

/* Takes what happened; does not wait. */
enum screen_event screen_event(void);

/* Waits for at most so many seconds until screen_event() has something to tell. */
void screen_wait(double seconds);

void screen_size(unsigned int *width, unsigned int *rows);

/* Show a frame. */
void screen_show(const char *frame);

/* Give the terminal back; after SCREEN_KILLED, end by the signal that it was. */
void screen_close(void);

#endif
