/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device under test: a real weir-switch, or the dpdk-testpmd that it is measured against, as a
 * process at the far end of two ports. Its one worker has the last CPU, the generator (the bench's
 * main thread) the first, where the device's control thread sleeps. Both devices live at once, and
 * the device that is not measured is paused.
 *
 * net_memif: the generator is the server, the device the client, whose memory holds the rings. A
 * frame lies in one slot: `bsize` and all mbufs are as large as the largest frame. The fast paths of
 * the driver need exactly that, and DPDK 22.11 copies a segment of a chain past the end of a smaller
 * slot. net_af_packet: a veth pair per port, in a network namespace that the bench has entered.
 *
 * Every wait has a limit; when it is reached, the device's last lines are printed. A device ends with
 * the bench, however the bench ends. For the main thread.
 */
#ifndef APPS_BENCH_DEVICE_H
#define APPS_BENCH_DEVICE_H

#include <sys/types.h>

#include <rte_mbuf.h>

#include "apps/bench/bench.h"

#define LINK_PORTS           2
#define LINK_BURST           32
#define LINK_ARGUMENTS       200
#define DEVICE_PATH          256
#define DEVICE_JOB_UNICAST   1
#define DEVICE_JOB_MULTICAST 2
#define DEVICE_JOBS          3 /* numbers of jobs are below */
#define DEVICE_WINDOW_MAX    4096
#define DEVICE_GENERATION    7
#define DEVICE_SOURCES_MAX   64

/* Two ports between the generator and a device. */
struct link {
	uint16_t port[LINK_PORTS]; /* ethdevs of the generator */
	unsigned int ports; /* that are open */
	unsigned int veth; /* number of the veth pairs; 0: none */
	unsigned int buffer_bytes; /* data room that the device's mbufs must have */
	struct rte_mempool *pool;
	char device[LINK_PORTS][LINK_ARGUMENTS]; /* the device's ends, for its EAL */
};

struct device {
	const char *name; /* of the process, for people */
	pid_t pid; /* 0: none */
	int input; /* write end of its standard input, open as long as it shall live */
	bool is_switch, paused;
	char log[DEVICE_PATH]; /* its standard output and error */
	struct link link;
	/* By job and residue modulo the window: what to add for the next block. */
	uint32_t block[DEVICE_JOBS][DEVICE_WINDOW_MAX];
};

struct device_config {
	unsigned int frame_bytes; /* the largest, without frame check sequence */
	unsigned int sources, window, elements; /* of the jobs; elements 0: no jobs */
};

/* Options that every bench with devices has, and where ports lead. */
extern const struct option_row device_options[];
extern const char *device_over, *device_checksum;

/* SIGINT or SIGTERM has come; after device_enter they only set this. */
bool device_interrupted(void);

/*
 * Before anything else of this file: signals, folder, namespace, EAL. 0, or an exit status after a
 * line. device_leave undoes it, also after a failure.
 */
int device_enter(void);
void device_leave(void);

/* Start the switch and then testpmd, each paused: device[2], of the bench's own. window: a power of
 * two. 0, or an exit status after lines that say why. */
int device_start_both(struct device *device, const struct device_config *config);

/* Also after a failure. 0, or 1 after a line when one ended with an error. */
int device_stop_both(struct device *device);

/* Give the worker's CPU to this device, or take it away: it is off on return. */
void device_select(struct device *device);
void device_deselect(struct device *device);

/* Print why a device does not answer: whether it runs, and its last lines. */
void device_blame(struct device *device, const char *what);

#endif
