/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench engine --program: a program of a file, which is loaded into a switch of one lcore and one port, and frames of a
 * description at full rate.
 *
 * The description is JSON. `hex` has the first bytes of a frame (a text or several; blanks don't count), zeros follow up to
 * `bytes`, and `frames` of them are in rotation, so that they lie where a port's memory would. `fields` vary: frame i, from
 * 0 on, has first + step * (i / each % count) in the big-endian number of `bytes` bytes at `offset` (first 0, step 1, each
 * 1; without count, it goes on rising). Checksums are neither verified nor computed by the switch.
 *
 * As in generator.h, a receive callback of a port of rings gives the frames and frees what has been sent. The time for
 * writing frames is taken out.
 */
#ifndef APPS_BENCH_PROGRAM_H
#define APPS_BENCH_PROGRAM_H

#include "apps/bench/bench.h"
#include "apps/bench/generator.h"

struct program_options {
	const char *file, *frames; /* paths: of the shared object, of the description */
	const struct option_texts *settings; /* KEY=VALUE */
	bool linked; /* beside it, in turn, the copy of vectorsum that is linked into weir-bench */
	bool count; /* instructions, too */
	struct generator_work work; /* threads, burst, isa, repeat, phase_ms, packets */
};

/* Measure and print. An exit status, after a line if it is not 0. */
int program_run(const struct program_options *options);

#endif
