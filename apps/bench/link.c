/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/link.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "pktbuf/pool.h"

#define BUFFER_LEAST 2048 /* what DPDK's mbufs have, so that short frames get no odd advantage */
#define POOL_PACKETS 2047
#define POOL_CACHE   256
#define SNAP_BYTES   66 /* of a frame of net_af_packet's ring, before the data */

int
link_enter_namespace(void)
{
	if (unshare(CLONE_NEWNET) == 0 &&
		system("ip link set lo up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1 "
		       "net.ipv6.conf.default.disable_ipv6=1") == 0)
		return 0;
	fprintf(stderr,
		"weir-bench: no network namespace (%s): ports on veth need root, ip and sysctl\n",
		strerror(errno));
	return -1;
}

/* Arguments of the two ends of port p. */
static void
memif_ends(struct link *link, const struct link_config *config, unsigned int p, unsigned int serial,
	char ours[LINK_DEVICE])
{
	unsigned int log2_slots = (unsigned int)__builtin_ctz(config->slots);
	char both[LINK_DEVICE / 2];

	/* An abstract socket leaves no file. The driver listens on it as long as this process
	 * lives: another link needs another name. */
	snprintf(both, sizeof(both),
		"id=%u,bsize=%u,rsize=%u,socket-abstract=yes,socket=weir_%d_%u", p,
		link->buffer_bytes, log2_slots, (int)getpid(), serial);
	snprintf(ours, LINK_DEVICE, "role=server,%s", both);
	snprintf(link->device[p], LINK_DEVICE, "net_memif%u,role=client,zero-copy=%s,%s", p,
		config->zero_copy ? "yes" : "no", both);
}

/*
 * The index of an interface. net_af_packet takes (process id xor interface index) mod 2^16 for the
 * number of its fan-out group, and the kernel refuses the same number for two interfaces of a namespace.
 * Processes that are started one after the other have ids that differ in low bits: so the indexes of
 * two links, the most that are open at a time, differ in bits 12 to 15.
 */
static unsigned int
interface_index(unsigned int serial, unsigned int p, bool device)
{
	return ((serial % 2 * LINK_PORTS + p) * 2 + device + 1) << 12 | serial % 4096;
}

static int
af_packet_ends(struct link *link, const struct link_config *config, unsigned int p,
	unsigned int serial, char ours[LINK_DEVICE])
{
	unsigned int frame = RTE_ALIGN(config->frame_bytes + SNAP_BYTES, 4096u);
	char command[512], rings[64];

	link->veth = serial;
	snprintf(command, sizeof(command),
		"ip link add g%up%u index %u mtu 9000 type veth peer name d%up%u index %u mtu 9000 "
		"&& "
		"ip link set g%up%u up arp off && ip link set d%up%u up arp off",
		serial, p, interface_index(serial, p, false), serial, p,
		interface_index(serial, p, true), serial, p, serial, p);
	if (system(command) != 0) {
		fprintf(stderr, "weir-bench: veth pairs can't be made: is ip there?\n");
		return -1;
	}
	snprintf(rings, sizeof(rings), "framesz=%u,blocksz=%u,framecnt=512", frame, frame);
	snprintf(ours, LINK_DEVICE, "iface=g%up%u,%s", serial, p, rings);
	snprintf(link->device[p], LINK_DEVICE, "net_af_packet%u,iface=d%up%u,%s", p, serial, p,
		rings);
	link->buffer_bytes = RTE_MAX(link->buffer_bytes, frame);
	return 0;
}

static int
start_port(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {0};
	int rc = rte_eth_dev_configure(port, 1, 1, &conf);

	if (rc == 0)
		rc = rte_eth_rx_queue_setup(port, 0, 512, 0, NULL, pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(port, 0, 512, 0, NULL);
	return rc == 0 ? rte_eth_dev_start(port) : rc;
}

static int
open_port(struct link *link, const struct link_config *config, const char *arguments)
{
	unsigned int p = link->ports;
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "net_%s_%.16s%u", config->af_packet ? "af_packet" : "memif",
		config->name, p);
	rc = rte_eal_hotplug_add("vdev", name, arguments);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(name, &link->port[p]);
	if (rc < 0)
		return rc;
	link->ports++;
	return start_port(link->port[p], link->pool);
}

int
link_open(struct link *link, const struct link_config *config)
{
	char ours[LINK_PORTS][LINK_DEVICE], name[RTE_MEMPOOL_NAMESIZE];
	static unsigned int serial;
	int rc = 0;

	serial++;
	memset(link, 0, sizeof(*link));
	link->buffer_bytes =
		RTE_MAX((unsigned int)BUFFER_LEAST, RTE_ALIGN(config->frame_bytes, 128u));
	for (unsigned int p = 0; p < LINK_PORTS; p++)
		if (!config->af_packet)
			memif_ends(link, config, p, serial, ours[p]);
		else if (af_packet_ends(link, config, p, serial, ours[p]) < 0)
			return -1;
	snprintf(name, sizeof(name), "generator_%.12s", config->name);
	link->pool = pktbuf_packet_pool(name, POOL_PACKETS, link->buffer_bytes, POOL_CACHE, 0);
	if (link->pool == NULL)
		rc = -rte_errno;
	for (unsigned int p = 0; rc == 0 && p < LINK_PORTS; p++)
		rc = open_port(link, config, ours[p]);
	if (rc == 0)
		return 0;
	fprintf(stderr, "weir-bench: the generator's ports to %s: %s\n", config->name,
		rte_strerror(-rc));
	link_close(link);
	return -1;
}

bool
link_is_up(const struct link *link)
{
	struct rte_eth_link state;

	for (unsigned int p = 0; p < link->ports; p++)
		if (rte_eth_link_get_nowait(link->port[p], &state) < 0 ||
			state.link_status != RTE_ETH_LINK_UP)
			return false;
	return true;
}

void
link_close(struct link *link)
{
	for (unsigned int p = 0; p < link->ports; p++) {
		char name[RTE_ETH_NAME_MAX_LEN];

		rte_eth_dev_get_name_by_port(link->port[p], name);
		rte_eth_dev_stop(link->port[p]);
		rte_eal_hotplug_remove("vdev", name);
		snprintf(name, sizeof(name), "ip link del g%up%u", link->veth, p);
		if (link->veth != 0 && system(name) != 0)
			fprintf(stderr, "weir-bench: %s failed\n", name);
	}
	link->ports = 0;
	rte_mempool_free(link->pool);
	link->pool = NULL;
}
