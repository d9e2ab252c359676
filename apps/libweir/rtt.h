/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The retransmission timeout of RFC 6298, in nanoseconds, with the bounds of a local network.
 *
 * A block's round trip ends when the slowest source has contributed, so the estimate includes the
 * stragglers' time, and follows it. Karn's rule is the caller's: only blocks that were sent once
 * give samples. A back-off lasts until anything is answered, a repeated block too, as in Linux'
 * TCP and unlike RFC 6298 (5.7): where half of all packets are lost, blocks that go through at the
 * first attempt are too rare to wait for. That the timeout may then be too short for a slow source
 * costs little: repetitions without answers are rationed (weir_priv.h).
 *
 * The least timeout is far above a round trip on purpose, as TCP's is: results come in bursts, and
 * a host whose CPU is shared gets to them milliseconds late. Measured with 4 hosts and the switch
 * on 2 CPUs: with 2 ms, 20 to 45 % of all packets were needless repetitions; with 20 ms, 0.02 %.
 * Losses inside a stream are found by gap detection long before; the timeout is for the last
 * blocks.
 *
 * It is a least distance from the estimate, as in Linux' TCP, and not a least sum: a window that fills
 * a slow link makes steady round trips of 20 ms and more, whose deviation dies out. Measured with 8 hosts
 * on links of 200 Mbit/s, a window of 64 blocks of 2048 elements and 2 busy CPUs: 3300 to 5300 of 12600 packets were
 * needless repetitions with the sum, and 200 of 9500 with the distance.
 *
 * The timeout without back-off has a most, because estimates feed on each other: when one source's
 * packet is lost, all others see a round trip as long as that source's timeout, and make theirs
 * longer than it. Under steady loss nothing else ends that. Measured with 3 hosts and every 7th
 * packet lost, each way: 30 operations took 12 to 30 s before, and 3 to 8 s since.
 */
#ifndef APPS_HOST_RTT_H
#define APPS_HOST_RTT_H

#include <stdint.h>

#define WEIR_RTO_FIRST UINT64_C(20000000) /* before the first sample */
#define WEIR_RTO_LEAST UINT64_C(20000000) /* above the estimate */
#define WEIR_RTO_BASE  UINT64_C(150000000) /* the most without back-off */
#define WEIR_RTO_MOST  UINT64_C(1000000000)

struct weir_rtt {
	uint64_t srtt; /* ns; 0: no sample yet */
	uint64_t rttvar; /* ns */
	uint64_t base; /* ns, [WEIR_RTO_LEAST, WEIR_RTO_BASE]: the timeout without back-off */
	uint64_t rto; /* ns, [base, WEIR_RTO_MOST]: the timeout */
};

static inline void
weir_rtt_init(struct weir_rtt *rtt)
{
	*rtt = (struct weir_rtt){.base = WEIR_RTO_FIRST, .rto = WEIR_RTO_FIRST};
}

static inline void
weir_rtt_sample(struct weir_rtt *rtt, uint64_t ns)
{
	uint64_t error, spread;

	if (rtt->srtt == 0) {
		rtt->srtt = ns;
		rtt->rttvar = ns / 2;
	} else {
		error = ns > rtt->srtt ? ns - rtt->srtt : rtt->srtt - ns;
		rtt->rttvar = rtt->rttvar - rtt->rttvar / 4 + error / 4;
		rtt->srtt = rtt->srtt - rtt->srtt / 8 + ns / 8;
	}
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

/* Nothing was, for a whole timeout. */
static inline void
weir_rtt_back_off(struct weir_rtt *rtt)
{
	rtt->rto = rtt->rto > WEIR_RTO_MOST / 2 ? WEIR_RTO_MOST : rtt->rto * 2;
}

#endif
