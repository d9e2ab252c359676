/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/port.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bsd/string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_log.h>

#include "pktbuf/memif.h"

RTE_LOG_REGISTER(pktbuf_log, weir.pktbuf, NOTICE);

#define REFUSE(config, code, format, ...)                                                          \
	(rte_log(RTE_LOG_ERR, (uint32_t)pktbuf_log, "weir: port %s: " format "\n", (config)->name, \
		 ##__VA_ARGS__),                                                                   \
		(code))

#define CLEANUP_MS   3000 /* the longest wait for the interrupt thread */

#define TX_CHECKSUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define RX_CHECKSUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)

static int
find(const struct pktbuf_port_config *config, uint16_t *id)
{
	char device[PKTBUF_DEVICE_MAX];

	strlcpy(device, config->device, sizeof(device));
	device[strcspn(device, ",")] = '\0';
	if (rte_eth_dev_get_port_by_name(device, id) == 0)
		return 0;
	if (strncmp(device, "net_", 4) != 0)
		return REFUSE(config, -ENODEV,
			"no driver of DPDK has taken the PCI device %s: the lines above may say "
			"why. Is its driver's package installed (librte-net-...)?",
			device);
	return REFUSE(config, -ENODEV,
		"EAL has no device %s: the lines above may say why. Is its driver's package "
		"installed (librte-net-...)?",
		device);
}

/* Resolve AUTO on this device, or report why the setting is not possible. */
static int
resolve(const struct pktbuf_port_config *config, enum pktbuf_checksum spec, bool has,
	const char *direction, enum pktbuf_checksum *resolved)
{
	*resolved = spec;
	if (spec == PKTBUF_CHECKSUM_AUTO)
		*resolved = has ? PKTBUF_CHECKSUM_OFFLOAD : PKTBUF_CHECKSUM_SOFTWARE;
	if (spec == PKTBUF_CHECKSUM_OFFLOAD && !has)
		return REFUSE(config, -ENOTSUP, "the device has no %s checksum offload", direction);
	return 0;
}

static int
setup_queues(const struct pktbuf_port *port, const struct pktbuf_port_config *config,
	const struct rte_eth_dev_info *info, struct rte_mempool *pool)
{
	uint16_t rx = config->rx_descriptors, tx = config->tx_descriptors;
	int socket = rte_eth_dev_socket_id(port->id);
	int rc = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx, &tx);

	for (uint16_t q = 0; rc == 0 && q < port->rx_queues; q++)
		rc = rte_eth_rx_queue_setup(
			port->id, q, rx, (unsigned int)socket, &info->default_rxconf, pool);
	for (uint16_t q = 0; rc == 0 && q < port->tx_queues; q++)
		rc = rte_eth_tx_queue_setup(
			port->id, q, tx, (unsigned int)socket, &info->default_txconf);
	return rc;
}

static int
configure(struct pktbuf_port *port, const struct pktbuf_port_config *config,
	struct rte_eth_dev_info *info, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {.rxmode.mtu = config->mtu};
	int rc;

	if (port->rx_checksum == PKTBUF_CHECKSUM_OFFLOAD)
		conf.rxmode.offloads |= RX_CHECKSUMS;
	if (port->tx_checksum == PKTBUF_CHECKSUM_OFFLOAD)
		conf.txmode.offloads |= TX_CHECKSUMS;
	conf.rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	conf.txmode.offloads |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (port->rx_queues > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
		if (conf.rx_adv_conf.rss_conf.rss_hf == 0)
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE; /* the device spreads by itself */
	}
	/*
	 * When its peer disconnects, net_virtio_user registers an interrupt, even if the
	 * configuration has none, and unregisters it only if it has one. EAL's cleanup would panic
	 * on a closed descriptor.
	 */
	conf.intr_conf.lsc = strcmp(port->driver, "net_virtio_user") == 0 &&
		(*info->dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	rc = rte_eth_dev_configure(port->id, port->rx_queues, port->tx_queues, &conf);
	if (rc == 0) {
		info->default_rxconf.offloads = conf.rxmode.offloads;
		info->default_txconf.offloads = conf.txmode.offloads;
		rc = setup_queues(port, config, info, pool);
	}
	if (rc < 0)
		return REFUSE(
			config, rc, "the device refuses its configuration: %s", rte_strerror(-rc));
	return 0;
}

/* What the device can send. A driver that says nothing of chains sends none. */
static void
learn_limits(struct pktbuf_port *port, const struct pktbuf_port_config *config,
	const struct rte_eth_dev_info *info)
{
	uint16_t chain = info->tx_desc_lim.nb_mtu_seg_max;

	port->segments_max = 1;
	if (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		port->segments_max = chain != 0 ? chain : UINT16_MAX;
	port->frame_limit = config->frame_max != 0 ? config->frame_max : UINT32_MAX;
	if (info->max_mtu != UINT16_MAX)
		port->frame_limit =
			RTE_MIN(port->frame_limit, (uint32_t)info->max_mtu + RTE_ETHER_HDR_LEN);
	port->frame_max = port->frame_limit;
}

int
pktbuf_port_open(
	struct pktbuf_port *port, const struct pktbuf_port_config *config, struct rte_mempool *pool)
{
	unsigned int available = rte_mempool_avail_count(pool);
	struct rte_eth_dev_info info;
	int rc;

	memset(port, 0, sizeof(*port));
	strlcpy(port->name, config->name, sizeof(port->name));
	port->rx_queues = config->rx_queues;
	port->tx_queues = config->tx_queues;
	rc = find(config, &port->id);
	if (rc < 0)
		return rc;
	rc = rte_eth_dev_info_get(port->id, &info);
	if (rc < 0)
		return REFUSE(
			config, rc, "cannot read the device's properties: %s", rte_strerror(-rc));
	strlcpy(port->driver, info.driver_name, sizeof(port->driver));
	if (config->rx_queues > info.max_rx_queues || config->tx_queues > info.max_tx_queues)
		return REFUSE(config, -ENOTSUP,
			"%u receive and %u transmit queues wanted, the device has %u and %u",
			config->rx_queues, config->tx_queues, info.max_rx_queues,
			info.max_tx_queues);
	rc = resolve(config, config->rx_checksum,
		(info.rx_offload_capa & RX_CHECKSUMS) == RX_CHECKSUMS, "receive",
		&port->rx_checksum);
	if (rc == 0)
		rc = resolve(config, config->tx_checksum,
			(info.tx_offload_capa & TX_CHECKSUMS) == TX_CHECKSUMS, "transmit",
			&port->tx_checksum);
	if (rc == 0)
		rc = configure(port, config, &info, pool);
	if (rc < 0)
		return rc;
	learn_limits(port, config, &info);
	/* The mbufs of its fill rings: always as many, and never returned. */
	if (strcmp(port->driver, "net_af_xdp") == 0)
		port->kept = available - rte_mempool_avail_count(pool);
	rte_eth_macaddr_get(port->id, &port->mac);
	if (config->promiscuous) {
		rc = rte_eth_promiscuous_enable(port->id);
		if (rc < 0 && rc != -ENOTSUP)
			return REFUSE(config, rc, "the device can't be made promiscuous: %s",
				rte_strerror(-rc));
	}
	return 0;
}

int
pktbuf_port_start(struct pktbuf_port *port)
{
	int rc = rte_eth_dev_start(port->id);

	if (rc < 0)
		return REFUSE(port, rc, "the device does not start: %s", rte_strerror(-rc));
	port->started = true;
	return 0;
}

int
pktbuf_port_steer(struct pktbuf_port *port, uint32_t ip, uint16_t udp, uint16_t queue)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_item_ipv4 to_ip = {.hdr.dst_addr = rte_cpu_to_be_32(ip)};
	const struct rte_flow_item_ipv4 ip_mask = {.hdr.dst_addr = RTE_BE32(UINT32_MAX)};
	const struct rte_flow_item_udp to_udp = {.hdr.dst_port = rte_cpu_to_be_16(udp)};
	const struct rte_flow_item_udp udp_mask = {.hdr.dst_port = RTE_BE16(UINT16_MAX)};
	const struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &to_ip, .mask = &ip_mask},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &to_udp, .mask = &udp_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action_queue to_queue = {.index = queue};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to_queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error;

	if (rte_flow_create(port->id, &attr, pattern, actions, &error) != NULL)
		return 0;
	return rte_errno != 0 ? -rte_errno : -EIO;
}

void
pktbuf_port_unsteer(struct pktbuf_port *port)
{
	struct rte_flow_error error;

	(void)rte_flow_flush(port->id, &error);
}

void
pktbuf_port_stop(struct pktbuf_port *port)
{
	if (strcmp(port->driver, PKTBUF_MEMIF) == 0)
		return;
	if (port->started)
		rte_eth_dev_stop(port->id);
	port->started = false;
}

void
pktbuf_port_close(struct pktbuf_port *port)
{
	pktbuf_port_stop(port);
	if (strcmp(port->driver, PKTBUF_MEMIF) == 0)
		pktbuf_memif_close(port->id);
	else
		rte_eth_dev_close(port->id);
	port->started = false;
}

static void
park(void *parked)
{
	/* Release: the interrupt thread touches nothing any more. */
	__atomic_store_n((bool *)parked, true, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

void
pktbuf_cleanup_eal(void)
{
	static bool parked;
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);

	/* Not by an alarm: EAL would wait for its end. */
	if (handle != NULL && rte_intr_fd_set(handle, eventfd(1, 0)) == 0 &&
		rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
		rte_intr_callback_register(handle, park, &parked) == 0)
		for (unsigned int ms = 0;
			ms < CLEANUP_MS && !__atomic_load_n(&parked, __ATOMIC_ACQUIRE); ms++)
			rte_delay_us_sleep(1000);
	rte_intr_instance_free(handle); /* EAL has a copy */
	rte_eal_cleanup();
}

static const char *
mode(enum pktbuf_checksum checksum)
{
	static const char *const names[] = {"auto", "software", "offload", "off"};

	return names[checksum];
}

void
pktbuf_port_print(const struct pktbuf_port *port, FILE *out)
{
	fprintf(out,
		"port %-3u %-8s %-14s " RTE_ETHER_ADDR_PRT_FMT
		"  queues rx %u tx %u, checksums rx %s tx %s\n",
		port->index, port->name, port->driver, RTE_ETHER_ADDR_BYTES(&port->mac),
		port->rx_queues, port->tx_queues, mode(port->rx_checksum), mode(port->tx_checksum));
}
