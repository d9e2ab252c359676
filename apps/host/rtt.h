/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The retransmission timeout of RFC 6298, in nanoseconds, with the bounds of a local network.
 *
 * A block's round trip ends when the slowest source has contributed, so the estimate includes the
 * stragglers' time, and follows it. Karn's rule is the caller's: only blocks that were sent once
 * give samples. A back-off lasts until the next sample.
 */
#ifndef APPS_HOST_RTT_H
#define APPS_HOST_RTT_H

#include <stdint.h>

#define WEIR_RTO_FIRST UINT64_C(20000000) /* before the first sample */
#define WEIR_RTO_LEAST UINT64_C(2000000)
#define WEIR_RTO_MOST  UINT64_C(1000000000)

struct weir_rtt {
	uint64_t srtt; /* ns; 0: no sample yet */
	uint64_t rttvar; /* ns */
	uint64_t rto; /* ns, [WEIR_RTO_LEAST, WEIR_RTO_MOST] */
};

static inline void
weir_rtt_init(struct weir_rtt *rtt)
{
	*rtt = (struct weir_rtt){.rto = WEIR_RTO_FIRST};
}

static inline void
weir_rtt_sample(struct weir_rtt *rtt, uint64_t ns)
{
	uint64_t error;

	if (rtt->srtt == 0) {
		rtt->srtt = ns;
		rtt->rttvar = ns / 2;
	} else {
		error = ns > rtt->srtt ? ns - rtt->srtt : rtt->srtt - ns;
		rtt->rttvar = rtt->rttvar - rtt->rttvar / 4 + error / 4;
		rtt->srtt = rtt->srtt - rtt->srtt / 8 + ns / 8;
	}
	rtt->rto = rtt->srtt + 4 * rtt->rttvar;
	if (rtt->rto < WEIR_RTO_LEAST)
		rtt->rto = WEIR_RTO_LEAST;
	if (rtt->rto > WEIR_RTO_MOST)
		rtt->rto = WEIR_RTO_MOST;
}

static inline void
weir_rtt_back_off(struct weir_rtt *rtt)
{
	rtt->rto = rtt->rto > WEIR_RTO_MOST / 2 ? WEIR_RTO_MOST : rtt->rto * 2;
}

#endif
