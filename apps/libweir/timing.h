/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates of time: when to ask for a block, when to repeat it, and how long a waiting call polls.
 * Pure functions; nanoseconds. */
#ifndef APPS_LIBWEIR_TIMING_H
#define APPS_LIBWEIR_TIMING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The retransmission timeout of RFC 6298, with the bounds of a local network.
 *
 * A block's round trip ends when the slowest source has contributed, so the estimate includes the
 * time of stragglers and follows it. The caller applies Karn's rule: only blocks that were sent
 * once give samples. A back-off ends when anything is answered, even a repeated block, as in Linux'
 * TCP and unlike RFC 6298 (5.7): if half of all packets are lost, blocks that succeed at the first
 * attempt are too rare to wait for. The timeout may then be too short for a slow source; that costs
 * little, because unanswered repetitions are rationed (recovery.h).
 *
 * The least timeout is far above a round trip, as TCP's is: results come in bursts, and a host that
 * shares its CPU handles them milliseconds late. With 4 hosts and the switch on 2 CPUs, 20 to 45 %
 * of all packets were needless repetitions with 2 ms, and 0.02 % with 20 ms. Gap detection finds
 * losses inside a stream long before; the timeout is for the last blocks.
 *
 * The least is a distance from the estimate, as in Linux' TCP, and not a lower bound of the sum: a
 * window that fills a slow link makes steady round trips of 20 ms and more, whose deviation dies
 * out. With 8 hosts on links of 200 Mbit/s, a window of 64 blocks of 2048 elements and 2 busy CPUs,
 * 3300 to 5300 of 12600 packets were needless repetitions with the sum, and 200 of 9500 with the
 * distance.
 *
 * The timeout without back-off is bounded, because estimates feed on each other: when a packet of
 * one source is lost, all others see a round trip as long as that source's timeout, and make theirs
 * longer. Under steady loss nothing else ends that. With 3 hosts and every 7th packet lost, each
 * way, 30 operations took 12 to 30 s without the bound, and 3 to 8 s with it.
 */
#define WEIR_RTO_FIRST UINT64_C(20000000) /* before the first sample */
#define WEIR_RTO_LEAST UINT64_C(20000000) /* above the estimate */
#define WEIR_RTO_BASE  UINT64_C(150000000) /* the most without back-off */
#define WEIR_RTO_MOST  UINT64_C(1000000000)

struct weir_rtt {
	uint64_t srtt; /* ns; 0: no sample yet */
	uint64_t rttvar; /* ns */
	uint64_t base; /* ns, [WEIR_RTO_LEAST, WEIR_RTO_BASE]: the timeout without back-off */
	uint64_t most; /* ns */
	uint64_t rto; /* ns, [base, most]: the timeout */
};

/* Smooth a mean (0: none yet) and a deviation, as RFC 6298 does. */
static inline void
weir_smooth(uint64_t *mean, uint64_t *deviation, uint64_t ns)
{
	uint64_t error = ns > *mean ? ns - *mean : *mean - ns;

	if (*mean == 0) {
		*mean = ns;
		*deviation = ns / 2;
	} else {
		*deviation = *deviation - *deviation / 4 + error / 4;
		*mean = *mean - *mean / 8 + ns / 8;
	}
}

static inline void
weir_rtt_init(struct weir_rtt *rtt)
{
	*rtt = (struct weir_rtt){
		.base = WEIR_RTO_FIRST, .rto = WEIR_RTO_FIRST, .most = WEIR_RTO_MOST};
}

static inline void
weir_rtt_sample(struct weir_rtt *rtt, uint64_t ns)
{
	uint64_t spread;

	weir_smooth(&rtt->srtt, &rtt->rttvar, ns);
	spread = 4 * rtt->rttvar;
	rtt->base = rtt->srtt + (spread > WEIR_RTO_LEAST ? spread : WEIR_RTO_LEAST);
	if (rtt->base > WEIR_RTO_BASE)
		rtt->base = WEIR_RTO_BASE;
}

/* Something was answered: the back-off is over. */
static inline void
weir_rtt_answered(struct weir_rtt *rtt)
{
	rtt->rto = rtt->base;
}

/* Nothing was answered for a whole timeout. */
static inline void
weir_rtt_back_off(struct weir_rtt *rtt)
{
	rtt->rto = rtt->rto > rtt->most / 2 ? rtt->most : rtt->rto * 2;
}

/*
 * When a silent switch is asked what it has: the probe timeout of RFC 8985 (TLP), 2 round trips
 * there and 3 here, because hosts share CPUs. A needless probe costs only a header and its answer,
 * so this timeout may be short. The answer to a probe waits for no other source. So it samples the
 * path alone, and these estimates do not feed on those of other hosts. A block's round trip is no
 * shorter than the path's: it counts if it is below the estimate, and is the only sample until the
 * first probe. The second copy of a result means that a probe came while the first copy was on its
 * way (Eifel detection, RFC 3522): the estimate is too low. Without that, a host whose link has a
 * growing queue would go on probing, and each probe would add a result to the queue.
 */
#define WEIR_PTO_LEAST UINT64_C(500000)

struct weir_path {
	uint64_t srtt; /* ns; 0: no sample yet */
	uint64_t rttvar; /* ns */
};

static inline void
weir_path_sample(struct weir_path *path, uint64_t ns, bool of_probe)
{
	if (of_probe || path->srtt == 0 || ns < path->srtt)
		weir_smooth(&path->srtt, &path->rttvar, ns);
}

/* A result came twice: raise the estimate. most: the round trip of blocks. */
static inline void
weir_path_needless(struct weir_path *path, uint64_t most)
{
	if (path->srtt != 0)
		weir_path_sample(path, 2 * path->srtt < most ? 2 * path->srtt : most, true);
}

static inline uint64_t
weir_pto(const struct weir_path *path)
{
	uint64_t spread = 4 * path->rttvar, more = 2 * path->srtt,
		 pto = path->srtt + (spread > more ? spread : more);

	if (path->srtt == 0)
		return WEIR_RTO_FIRST;
	return pto > WEIR_PTO_LEAST ? pto : WEIR_PTO_LEAST;
}

/*
 * How long a waiting call polls before it sleeps. Waking a thread costs as much as a small
 * operation; polling takes a CPU from other threads. So a call polls only while answers come soon,
 * judged by the average of recent waits, as in adaptive spinning (Karlin, Li, Manasse and Owicki,
 * "Empirical studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991).
 * Between two polls it yields the CPU (sched_yield). Where blocks arrive at the rate of a slow link
 * (8 kB at 200 Mbit/s: 330 us), calls do not poll.
 */
#define WEIR_SPIN_US     100 /* default of spin_us */
#define WEIR_SPIN_US_MAX 1000000

/*
 * Multiples of `most`. A call polls if the average is at most WEIR_SPIN_SOON (sleeping lengthens
 * waits). A wait counts as WEIR_SPIN_LONG at most, so that a few short waits suffice after a long
 * one.
 */
#define WEIR_SPIN_SOON 2
#define WEIR_SPIN_LONG 8

struct weir_spin {
	uint64_t most; /* ns that a wait polls; 0: none does */
	uint64_t average; /* ns, of recent waits, each [0, WEIR_SPIN_LONG x most] */
};

static inline void
weir_spin_init(struct weir_spin *spin, uint64_t most_ns)
{
	*spin = (struct weir_spin){.most = most_ns};
}

/* How long the next wait polls, ns. */
static inline uint64_t
weir_spin_next(const struct weir_spin *spin)
{
	return spin->average <= WEIR_SPIN_SOON * spin->most ? spin->most : 0;
}

/* A wait, polling and sleeping, took this long. */
static inline void
weir_spin_sample(struct weir_spin *spin, uint64_t ns)
{
	uint64_t longest = WEIR_SPIN_LONG * spin->most;

	spin->average += (ns < longest ? ns : longest) / 8 - spin->average / 8;
}

#endif
