/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device under test: a real weir-switch, or the dpdk-testpmd that it is measured against, at the
 * far end of a link of two ports. Its one worker has the last CPU, the generator (the bench's main
 * thread) the first, where the device's control thread sleeps. Both devices live at once, and the
 * one that is not measured is paused. For the main thread.
 */
#ifndef APPS_BENCH_TARGET_H
#define APPS_BENCH_TARGET_H

#include "apps/bench/bench.h"
#include "apps/bench/child.h"
#include "apps/bench/link.h"

#define TARGET_JOB_UNICAST   1
#define TARGET_JOB_MULTICAST 2
#define TARGET_JOBS          3 /* numbers of jobs are below */
#define TARGET_WINDOW_MAX    4096
#define TARGET_GENERATION    7
#define TARGET_SOURCES_MAX   64

struct target_config {
	unsigned int frame_bytes; /* the largest, without frame check sequence */
	unsigned int sources, window, elements; /* of the jobs; elements 0: no jobs */
	unsigned int quiet_jobs, quiet_sources; /* further ones, of one block of 8 elements */
	bool api; /* a control API on the Unix socket that target_api names */
};

struct target {
	const char *name;
	struct child child;
	struct link link;
	bool is_switch;
	/* By job and residue modulo the window: what to add for the next block. */
	uint32_t block[TARGET_JOBS][TARGET_WINDOW_MAX];
};

/* The options that every bench with devices has: where the programs are, what connects them. */
struct target_options {
	const char *weir_switch, *testpmd; /* paths; NULL: found */
	const char *over; /* memif | af_packet */
	const char *idle; /* of the switch's worker: spin | yield | sleep */
	const char *zero_copy; /* yes | no */
	const char *checksum; /* software | off */
	uint64_t slots, threads, burst;
};
extern struct target_options target_options;

/* As rows of a struct bench_option table. */
#define TARGET_OPTIONS                                                                             \
	{"over", BENCH_TEXT, &target_options.over, 0, 0, "memif|af_packet",                        \
		"driver of the ports between generator and device"},                               \
		{"zero-copy", BENCH_TEXT, &target_options.zero_copy, 0, 0, "yes|no",               \
			"memif: without the device's copies; needs huge pages"},                   \
		{"slots", BENCH_UINT, &target_options.slots, 64, 16384, NULL,                      \
			"memif: slots of a ring, a power of two"},                                 \
		{"idle", BENCH_TEXT, &target_options.idle, 0, 0, "spin|yield|sleep",               \
			"what the switch's worker does without work"},                             \
		{"rx-checksum", BENCH_TEXT, &target_options.checksum, 0, 0, "software|off",        \
			"does the switch verify the checksums of contributions"},                  \
		{"threads", BENCH_UINT, &target_options.threads, 1, 64, NULL,                      \
			"contexts of the switch's worker"},                                        \
		{"switch", BENCH_TEXT, &target_options.weir_switch, 0, 0, NULL,                    \
			"path of weir-switch; none: beside weir-bench, or in PATH"},               \
	{                                                                                          \
		"testpmd", BENCH_TEXT, &target_options.testpmd, 0, 0, NULL, "path of dpdk-testpmd" \
	}

/*
 * Before anything else of this file: signals, folder, namespace, EAL. 0, or an exit status after a
 * line. target_leave undoes it, also after a failure.
 */
int target_enter(void);
void target_leave(void);

/* Start a device; it is paused then. 0, or -1 after lines that say why. target_stop also after a
 * failure; it returns -1 after a line when the device did not end well (the switch keeps books). */
int target_start_switch(struct target *target, const struct target_config *config);
int target_start_testpmd(struct target *target, const struct target_config *config);
int target_stop(struct target *target);

/* Path of the Unix socket of a switch with `api`. */
void target_api(char *path, size_t bytes);

/* The switch, then testpmd: target[2], of the bench's own. Jobs of n elements for frames of that
 * size; window: a power of two. 0, or an exit status after a line. target_stop_both also after a
 * failure; its status is to be added. */
int target_start_both(struct target *target, unsigned int sources, unsigned int window,
	unsigned int elements, unsigned int frame_bytes);
int target_stop_both(struct target *target);

/* Give the worker's CPU to this device alone. */
void target_select(struct target *target);
void target_deselect(struct target *target);

/* Why a device does not answer, on standard error: is it there, what did it say? */
void target_blame(struct target *target, const char *what);

#endif
