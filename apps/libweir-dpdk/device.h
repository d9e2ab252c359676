/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of the process, which all its handles share: one port with one queue each way. The first handle starts EAL,
 * unless the program has, and opens the port; both stay until the process ends.
 *
 * Receiving: whoever polls the queue puts each datagram into the inbox of the handle that has its address and UDP
 * port. So a handle may find in its inbox what another thread has received. `receiving` is the lock of the queue, of all
 * inboxes and of the list of handles. Sending: `sending` is the lock of the other queue. Order: receiving, sending.
 *
 * Mbufs come from stacks without caches: the threads of a program are no lcores, and the locks are held anyway. What
 * was freed last is used next, and is in the cache still.
 */
#ifndef APPS_LIBWEIR_DPDK_DEVICE_H
#define APPS_LIBWEIR_DPDK_DEVICE_H

#include <pthread.h>
#include <sys/queue.h>
#include <time.h>

#include "apps/libweir/weir-transport.h"
#include "pktbuf/pktbuf.h"

#define BURST          64 /* frames that are received or sent at once */
#define RX_MBUFS       2047
#define RX_DESCRIPTORS 512
#define INBOX          1024 /* datagrams; what does not fit is lost. A power of two */

enum idle { IDLE_SPIN, IDLE_YIELD, IDLE_SLEEP };

struct frame {
	struct rte_ether_hdr ether;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
} __rte_packed __rte_aligned(2);
static_assert(sizeof(struct frame) == 42, "frame");

/* A handle's end. Under `receiving`, but for what is marked otherwise. */
struct end {
	struct weir_transport transport; /* fd: a timer, see transport.c */
	TAILQ_ENTRY(end) link;
	rte_be32_t own, group, switch_address; /* group 0: none */
	rte_be16_t port, group_port;
	uint64_t heard_at; /* ns: the last that came from the switch; relaxed atomic */
	uint64_t switch_mac; /* 0: not known; relaxed atomic */
	uint32_t head, tail; /* of the inbox */
	struct rte_mbuf *inbox[INBOX]; /* cut to the payload, with the headers before it */
	uint64_t rings_at; /* ns: when the timer does, or did */
	bool polls; /* a thread in wait() does not sleep; relaxed atomic */

	/* The handle's. */
	struct rte_mbuf *given[BURST]; /* by the last receive() */
	struct sockaddr_in from[BURST];
	unsigned int given_count;
	bool waited; /* since the last receive() */
	uint64_t pause; /* ns: how long it sleeps next without looking */
	bool is_down; /* the link, at asked_at */
	uint64_t asked_at, unanswered_since; /* ns: ARP; 0: never, answered */
	struct frame frame; /* of what it sends: addresses, and sums without lengths and ports */
	uint32_t ip_sum, pseudo_sum;
};

struct device {
	struct pktbuf_port port;
	struct rte_mempool *rx, *tx;
	pid_t process;
	uint16_t mtu;
	enum idle idle;
	bool connects; /* net_memif: its driver connects once, when the port starts */
	bool started; /* under both locks */
	uint64_t connect_at; /* ns: not before then; UINT64_MAX: it connects. Under `receiving` */
	bool refers; /* it has read what mbufs refer to when it has taken them */
	uint64_t switch_mac; /* WEIR_DPDK_SWITCH_MAC; 0: asked for */
	pthread_mutex_t receiving, sending;
	TAILQ_HEAD(, end) ends;
};

/* The device, once it is open. */
extern struct device device;

/* Open the device, once in a process; any thread. 0, or -errno with a text. */
int device_open(char *text, size_t size);

/* Receive once, and put what came where it belongs. Returns the number of frames; BURST: there may be more. Under
 * `receiving`. */
unsigned int device_poll(void);

/* The link is down. A port that connects is started again now and then. Without the locks. */
bool device_is_down(uint64_t now);

/* Ask for the MAC address of the end's switch. */
void device_ask(const struct end *end);

/* end->frame and its sums are made for this address of the switch. */
void device_address(struct end *end, uint64_t mac);

/* Send datagrams of `end`; [1, BURST]. Returns how many were taken. */
unsigned int device_send(struct end *end, const struct weir_tx *tx, unsigned int n);

/* transport.c: under `receiving`: the end's timer rings then (ns). */
void end_ring(struct end *end, uint64_t at);

/* CLOCK_MONOTONIC in ns. */
static inline uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
