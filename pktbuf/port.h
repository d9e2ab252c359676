/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: ethdevs of any driver. A (port, queue) belongs to one lcore, which ppe chooses.
 *
 * Results leave as chains of two mbufs. Of DPDK 22.11's virtual devices net_af_packet, net_tap,
 * net_memif and net_pcap copy such a chain; net_ring passes it on, and the receiver frees it; a NIC
 * reads the payload in place and frees the chain after sending.
 *
 * net_af_packet reports a largest frame of 1518 bytes, but carries jumbo frames if the port keeps
 * its default MTU (mtu 0 here), the interface has MTU 9000, framesz is larger than the frame, and
 * the mbufs are larger than framesz.
 */
#ifndef PKTBUF_PORT_H
#define PKTBUF_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_ethdev.h>

#include "pktbuf/checksum.h"

#define PKTBUF_NAME_MAX   32
#define PKTBUF_DEVICE_MAX 256

/* Filled by ctrl. */
struct pktbuf_port_config {
	char name[PKTBUF_NAME_MAX]; /* for people; unique */
	char device[PKTBUF_DEVICE_MAX]; /* EAL device; only EAL reads what follows a comma */
	uint16_t rx_queues, tx_queues; /* [1, what the device has] */
	uint16_t rx_descriptors, tx_descriptors; /* requested; the device rounds them */
	enum pktbuf_checksum rx_checksum, tx_checksum;
	uint16_t mtu; /* bytes; 0: keep the device's own */
	uint32_t
		frame_max; /* bytes of the longest frame, without VLAN tag; 0: the driver's limit */
	bool promiscuous;
};

/* An open port. ctrl: wo before start, workers: ro */
struct pktbuf_port {
	uint16_t id; /* ethdev */
	uint16_t index; /* among the switch's ports; set by the caller after open */
	uint16_t rx_queues, tx_queues;
	enum pktbuf_checksum rx_checksum, tx_checksum; /* resolved: never AUTO */
	struct rte_ether_addr mac; /* the device's own */
	uint16_t segments_max; /* mbufs of the longest chain that the driver sends, at least 1 */
	/* bytes of the longest frame that it sends, without a VLAN tag; UINT32_MAX: any */
	uint32_t frame_limit;
	/* frame_limit with the link's present MTU; 0: there is no link. ctrl: rw, workers: ro */
	uint32_t frame_max;
	uint32_t kept; /* mbufs of the pool that the driver takes at open and never returns */
	bool started;
	bool steers; /* all rules of pktbuf_port_steer() are set */
	char name[PKTBUF_NAME_MAX];
	char driver[PKTBUF_NAME_MAX];
};

/*
 * Find the device, which EAL has probed, and configure it and its queues. It receives into `pool`.
 * Control thread. Returns 0, or -errno with one log line that says which port and why: -ENODEV (no
 * such device), -ENOTSUP (too many queues, or an offload that it lacks), -EINVAL. Nothing stays
 * configured on error.
 */
int pktbuf_port_open(struct pktbuf_port *port, const struct pktbuf_port_config *config,
	struct rte_mempool *pool);

/*
 * Start, stop, close; control thread. start: 0 or -errno with a log line. stop does nothing to a
 * port of net_memif: a peer would connect to it again before it is closed.
 */
int pktbuf_port_start(struct pktbuf_port *port);
void pktbuf_port_stop(struct pktbuf_port *port);
void pktbuf_port_close(struct pktbuf_port *port);

/*
 * rte_eal_cleanup(), for a program that ends: EAL's interrupt thread, which DPDK lets run on
 * without the memory of its handlers, stops first. All ports are closed. Control thread.
 */
void pktbuf_cleanup_eal(void);

/*
 * Have the device put packets to this IPv4 address and UDP port (host order) into this receive
 * queue, until the port stops. unsteer: take back all such rules. Control thread, of a started
 * port. 0, or -errno as the driver says: most virtual devices cannot (-ENOSYS).
 */
int pktbuf_port_steer(struct pktbuf_port *port, uint32_t ip, uint16_t udp, uint16_t queue);
void pktbuf_port_unsteer(struct pktbuf_port *port);

/* One line: name, driver, address, queues, checksums. */
void pktbuf_port_print(const struct pktbuf_port *port, FILE *out);

/* Receive up to n packets; the owner of the queue. The packets are the caller's. */
static inline uint16_t
pktbuf_port_rx(
	const struct pktbuf_port *port, uint16_t queue, struct rte_mbuf **packets, uint16_t n)
{
	return rte_eth_rx_burst(port->id, queue, packets, n);
}

#endif
