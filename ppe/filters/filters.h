/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filters: eBPF of other authors, which looks at each received packet before a program does.
 *
 * DPDK's rte_bpf verifies a filter and compiles it. It runs on a copy of the packet's first bytes
 * (ppe/filters/weir_filter.h), because DPDK's verifier knows only the size of one argument: a
 * pointer into the packet would be as long as the shortest frame, and would let filters write. Its
 * memory is behind that copy, per worker, so that nothing is shared and one compiled filter serves
 * all workers.
 *
 * Filters see a packet once, on the worker that received it, after the port's counters and the
 * faults. They run in the order in which they were loaded, until one does not pass. A packet that a
 * filter gives to a program starts at once: it may overtake packets of its flow that passed, and
 * the shortcuts and batches of dispatch never see it. Without filters this costs a branch per turn
 * of the loop, and two loads (ppe/barrel.c); with them, a copy of 128 bytes and a call each.
 *
 * Thread safety: for the one control thread.
 */
#ifndef PPE_FILTERS_H
#define PPE_FILTERS_H

#include <stdint.h>

#include <rte_bpf.h>

#include "ppe/filters/weir_filter.h"
#include "ppe/ppe.h"

#define PPE_FILTERS_MAX          16
#define PPE_FILTER_NAME_BYTES    64
#define PPE_FILTER_PROGRAMS      8
#define PPE_FILTER_PROGRAM_BYTES 32
#define PPE_FILTER_CODE_MAX      4096 /* instructions */

/* What a filter is loaded with. */
struct ppe_filter {
	char name[PPE_FILTER_NAME_BYTES]; /* unique */
	uint64_t ports; /* bit: it sees packets of this port */
	uint64_t value[WEIR_FILTER_VALUES];
	unsigned int nb_programs;
	char program[PPE_FILTER_PROGRAMS][PPE_FILTER_PROGRAM_BYTES]; /* that it may choose */
};

/* A loaded filter. The sums over all workers, read while they grow. */
struct ppe_filter_info {
	struct ppe_filter filter;
	bool is_compiled; /* else DPDK interprets it: it has no compiler for this CPU */
	uint64_t passed, dropped, to_program, to_worker; /* packets, by the result */
	uint64_t counter[WEIR_FILTER_COUNTERS];
};

/* The code of a section in an ELF file for eBPF that is in memory, aligned to 8; it stays in place.
 * Returns NULL and the code, or what is wrong with the file, in words. Any thread, no EAL. */
const char *ppe_filter_code(const void *elf, size_t bytes, const char *section,
	const struct ebpf_insn **code, unsigned int *nb_code);

/*
 * Check what takes DPDK's verifier too long, or what it reports only in the log: loops, and the
 * number of paths through the code, which it follows one by one. Returns NULL, or what is wrong,
 * and *at is the instruction's number. Any thread, no EAL. At most some ms.
 */
const char *ppe_filter_check(const struct ebpf_insn *code, unsigned int nb_code, unsigned int *at);

/*
 * Load a filter, behind the others. It passes ppe_filter_check. is_dry_run: only say what would
 * happen. 0; or, without any change, -EEXIST (the name), -ENOSPC (PPE_FILTERS_MAX), -ENOENT (there
 * is no such program), -EINVAL (the verifier refuses the code, and logs why), -ENOMEM, -EBUSY (a
 * worker has not taken the previous change). Waits for a loop turn of the slowest worker, at most
 * half a second.
 */
int ppe_filter_load(struct ppe *ppe, const struct ppe_filter *filter, const struct ebpf_insn *code,
	unsigned int nb_code, bool is_dry_run);

/* Remove a filter. 0, -ENOENT, -ENOMEM or -EBUSY; waits as above. */
int ppe_filter_unload(struct ppe *ppe, const char *name, bool is_dry_run);

/* The name of a filter that may choose this program; NULL: none may. */
const char *ppe_filter_of_program(const struct ppe *ppe, const char *program);

/* Fill infos[PPE_FILTERS_MAX] in order; returns how many. */
unsigned int ppe_filters_read(const struct ppe *ppe, struct ppe_filter_info *infos);

#endif
