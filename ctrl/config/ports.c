/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_kvargs.h>
#include <rte_pci.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/schema.h"

#define EXCEPTION_DEVICE "net_tap_weir"
/* DPDK 22.11's net_tap keeps an MTU of 1500, and ethdev refuses others. A longer frame would stop
 * the device for good. */
#define TAP_FRAME_MAX 1514u
/* net_af_xdp, as DPDK 22.11 has it: its rings have this length each way, whatever is asked for. */
#define XDP_PACKETS (2u * 2048)

/* -- device strings: "0000:01:00.0,arg=value", "net_af_packet0,iface=veth0,framesz=2048" */

/* Block sizes are checked with this page size, because a file may be for another machine. */
#define PAGE_BYTES 4096u

/*
 * net_af_packet, as DPDK 22.11 has it: a ring frame begins with the kernel's header; where the
 * Ethernet header begins is linux/net/packet/af_packet.c's: TPACKET2_HDRLEN and 16 bytes of link
 * layer, rounded up to 16, less Ethernet's 14. The driver wants packet buffers of a ring frame
 * less TPACKET2_HDRLEN - sizeof(struct sockaddr_ll).
 */
#define RING_FRAME_OFFSET (TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - 14)
#define RING_BUFFER_LESS  (TPACKET2_HDRLEN - sizeof(struct sockaddr_ll))

/* A port that is read. */
struct device {
	const struct ctrl_reading *reading;
	const char *text;
	const struct rte_kvargs *arguments;
	struct ctrl_port *port;
	unsigned int queue_pairs;
};

#define REFUSE(d, ...) CTRL_REFUSE((d)->reading, "device", __VA_ARGS__)

static int
number_argument(
	const struct device *d, const char *key, unsigned long fallback, unsigned long *number)
{
	const char *value = rte_kvargs_get(d->arguments, key);
	char *end;

	*number = fallback;
	if (value == NULL)
		return 0;
	*number = strtoul(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || *number < 1 || *number > 1u << 30)
		return REFUSE(d, "%s=%s is not a number in 1..%u", key, value, 1u << 30);
	return 0;
}

/* Is the device one of this driver's? */
static bool
is_of(const char *text, const char *driver)
{
	return strncmp(text, driver, strlen(driver)) == 0;
}

/* Does the device create the socket? Otherwise it connects to it. */
static bool
listens(const struct device *d)
{
	const struct rte_kvargs *all = d->arguments;

	if (is_of(d->text, "net_vhost"))
		return rte_kvargs_get_with_value(all, "client", "1") == NULL;
	if (is_of(d->text, "net_virtio_user"))
		return rte_kvargs_get_with_value(all, "server", "1") != NULL;
	return rte_kvargs_get_with_value(all, "role", "server") != NULL &&
		rte_kvargs_get_with_value(all, "socket-abstract", "no") != NULL;
}

/*
 * Find what the device uses outside DPDK: a kernel interface, which must exist, or a Unix socket.
 * The argument `iface` is not always an existing interface: for net_vhost it is the socket; net_tap
 * and net_virtio_user create theirs.
 */
static int
read_resources(const struct device *d)
{
	static const struct {
		const char *driver, *interface, *socket;
	} known[] = {{"net_memif", "", "socket"}, {"net_tap", "remote", ""},
		{"net_vhost", "", "iface"}, {"net_virtio_user", "", "path"}, {"net_", "iface", ""}};
	struct ctrl_port *port = d->port;
	const char *interface, *socket;
	unsigned int i = 0;

	while (!is_of(d->text, known[i].driver))
		i++;
	interface = rte_kvargs_get(d->arguments, known[i].interface);
	if (interface != NULL &&
		strlcpy(port->interface, interface, sizeof(port->interface)) >=
			sizeof(port->interface))
		return REFUSE(d, "interface %s has more than %zu characters", interface,
			sizeof(port->interface) - 1);
	socket = rte_kvargs_get(d->arguments, known[i].socket);
	if (socket != NULL &&
		strlcpy(port->socket, socket, sizeof(port->socket)) >= sizeof(port->socket))
		return REFUSE(d, "the path of socket %s has more than %zu characters", socket,
			sizeof(port->socket) - 1);
	if (!listens(d))
		port->socket[0] = '\0';
	return 0;
}

/* The driver or the kernel would refuse wrong rings at the start, with unclear messages. */
static int
read_af_packet(struct device *d)
{
	unsigned long frame, block, count, pairs;

	if (d->port->interface[0] == '\0')
		return REFUSE(d, "%s needs iface=INTERFACE", d->port->device);
	if (number_argument(d, "framesz", 2048, &frame) < 0 ||
		number_argument(d, "blocksz", PAGE_BYTES, &block) < 0 ||
		number_argument(d, "framecnt", 512, &count) < 0 ||
		number_argument(d, "qpairs", 1, &pairs) < 0)
		return -EINVAL;
	if (frame % TPACKET_ALIGNMENT != 0 || frame < 256 || frame > 65536)
		return REFUSE(d, "framesz=%lu is not a multiple of %d in 256..65536", frame,
			TPACKET_ALIGNMENT);
	if (block % PAGE_BYTES != 0 || block % frame != 0)
		return REFUSE(d, "blocksz=%lu is not a multiple of framesz=%lu and of %u", block,
			frame, PAGE_BYTES);
	if (count % (block / frame) != 0)
		return REFUSE(d,
			"framecnt=%lu does not fill blocks of %lu frames (blocksz=%lu, "
			"framesz=%lu)",
			count, block / frame, block, frame);
	d->port->frame_max = (uint32_t)(frame - RING_FRAME_OFFSET);
	d->port->buffer_bytes = (uint32_t)(frame - RING_BUFFER_LESS);
	d->queue_pairs = (unsigned int)pairs;
	return 0;
}

static int
read_virtual(struct device *d)
{
	struct ctrl_port *port = d->port;
	unsigned long size;
	int rc = read_resources(d);

	if (is_of(d->text, "net_tap")) {
		port->ring = UINT32_MAX;
		port->frame_max = TAP_FRAME_MAX;
	}
	if (is_of(d->text, "net_af_xdp"))
		port->kept = XDP_PACKETS;
	if (rc == 0 && is_of(d->text, "net_af_packet"))
		rc = read_af_packet(d);
	if (rc == 0 && is_of(d->text, "net_virtio_user")) {
		rc = number_argument(d, "queue_size", 256, &size);
		port->ring = (uint32_t)size;
		port->keeps_sent = true;
	}
	return rc;
}

static int
read_device(struct device *d)
{
	size_t name = strcspn(d->text, ",");
	struct ctrl_port *port = d->port;
	struct rte_pci_addr address;
	struct rte_kvargs *arguments;
	int rc;

	strlcpy(port->arguments, d->text, sizeof(port->arguments));
	for (const char *p = d->text; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return REFUSE(d, "device has blanks or characters outside ASCII");
	memcpy(port->device, d->text, name);
	port->device[name] = '\0';
	if (rte_pci_addr_parse(port->device, &address) == 0) {
		rte_pci_device_name(&address, port->device, sizeof(port->device));
		port->pci = true;
		port->keeps_sent = true;
		port->ring = UINT32_MAX;
		port->frame_max = 1514;
		return 0;
	}
	if (!is_of(d->text, "net_") || name < 5)
		return REFUSE(d, "\"%s\" is neither a PCI address nor a virtual device (net_...)",
			port->device);
	d->arguments = arguments =
		d->text[name] == '\0' ? NULL : rte_kvargs_parse(d->text + name + 1, NULL);
	rc = read_virtual(d);
	rte_kvargs_free(arguments);
	return rc;
}

/* -- ports */

int
ctrl_port_find(const struct ctrl_config *config, const char *name)
{
	for (unsigned int i = 0; i < config->nb_ports; i++)
		if (strcmp(config->port[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* What several ports must not share. */
static int
check_unique(const struct ctrl_reading *reading, unsigned int index)
{
	const struct ctrl_config *config = reading->config;
	const struct ctrl_port *mine = &config->port_more[index];

	for (unsigned int i = 0; i < index; i++) {
		const struct ctrl_port *other = &config->port_more[i];

		if (strcmp(other->device, mine->device) == 0)
			return CTRL_REFUSE(reading, "device",
				"%s is the device of ports[%u] already", mine->device, i);
		if (mine->interface[0] != '\0' && strcmp(other->interface, mine->interface) == 0)
			return CTRL_REFUSE(reading, "device",
				"interface %s is in ports[%u] already", mine->interface, i);
		/* Devices of memif share a socket. */
		if (mine->socket[0] != '\0' && strcmp(other->socket, mine->socket) == 0 &&
			!is_of(mine->device, "net_memif"))
			return CTRL_REFUSE(reading, "device", "socket %s is in ports[%u] already",
				mine->socket, i);
	}
	return 0;
}

static int
check_queues(
	const struct ctrl_reading *reading, const char *key, unsigned int count, unsigned int pairs)
{
	unsigned int workers = reading->config->ppe.workers;

	if (count > workers)
		return CTRL_REFUSE(reading, key, "%u queues are more than the %u worker%s", count,
			workers, workers == 1 ? "" : "s");
	if (count > pairs)
		return CTRL_REFUSE(reading, key, "%u queues are more than the device's qpairs=%u",
			count, pairs);
	return 0;
}

/* "10.77.0.1" or "10.77.0.0/24"; bits after the prefix must be 0. */
static bool
parse_hosts(const char *text, struct ppe_host *host)
{
	uint8_t prefix = 32;

	if (!ctrl_parse_address(text, &host->address) &&
		!ctrl_parse_subnet(text, &host->address, &prefix))
		return false;
	host->mask = UINT32_MAX << (32 - prefix);
	return ctrl_is_host(host->address) && (host->address & ~host->mask) == 0;
}

/* Ports that list the same addresses share an entry. */
static int
read_hosts(const struct ctrl_reading *reading, unsigned int index)
{
	const json_t *list = json_object_get(reading->object, "hosts");
	struct ppe_config *ppe = &reading->config->ppe;

	for (unsigned int i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		struct ctrl_path key = ctrl_path("hosts[%u]", i);
		struct ppe_host host;
		unsigned int n = 0;

		if (!parse_hosts(text, &host))
			return CTRL_REFUSE(reading, key.text,
				"\"%s\" is neither an IPv4 address of a host nor a prefix such as "
				"10.77.1.0/24",
				text);
		while (n < ppe->nb_hosts &&
			(ppe->host[n].address != host.address || ppe->host[n].mask != host.mask))
			n++;
		if (n == PPE_HOSTS_MAX)
			return CTRL_REFUSE(reading, key.text,
				"the ports list more than %d prefixes", PPE_HOSTS_MAX);
		if (n == ppe->nb_hosts) {
			host.ports = 0;
			ppe->host[ppe->nb_hosts++] = host;
		}
		ppe->host[n].ports |= UINT64_C(1) << index;
	}
	return 0;
}

static int
read_port(const struct ctrl_reading *reading, unsigned int index)
{
	struct pktbuf_port_config *port = &reading->config->port[index];
	struct ctrl_port *more = &reading->config->port_more[index];
	struct device d = {.reading = reading,
		.text = json_string_value(json_object_get(reading->object, "device")),
		.port = more,
		.queue_pairs = PPE_WORKERS_MAX};
	int rc = read_device(&d);

	if (rc < 0)
		return rc;
	if (json_is_false(json_object_get(reading->object, "forward")))
		reading->config->ppe.unforwarded |= UINT64_C(1) << index;
	strlcpy(port->device, more->device, sizeof(port->device));
	strlcpy(more->neighbor, ctrl_string(reading->object, "ports[].neighbor"),
		sizeof(more->neighbor));
	if (port->mtu > 0 && port->mtu < 68)
		return CTRL_REFUSE(reading, "mtu", "%u is less than 68, IPv4's least", port->mtu);
	if (port->mtu > 0 &&
		(more->pci || more->frame_max == 0 || more->frame_max > port->mtu + 14u))
		more->frame_max = port->mtu + 14u;
	port->frame_max = more->frame_max;
	rc = check_unique(reading, index);
	if (rc == 0)
		rc = check_queues(reading, "rx_queues", port->rx_queues, d.queue_pairs);
	if (rc == 0)
		rc = check_queues(reading, "tx_queues", port->tx_queues, d.queue_pairs);
	return rc < 0 ? rc : read_hosts(reading, index);
}

/* The exception port, after the others: a TAP with the switch's own MAC address. */
static int
read_exception(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	struct pktbuf_port_config *port = &config->port[config->nb_ports];
	struct ctrl_port *more = &config->port_more[config->nb_ports];
	const uint8_t *mac = config->ppe.identity.mac;
	const char *interface = config->exception;

	config->ppe.exception_port = -1;
	if (interface[0] == '\0')
		return 0;
	for (unsigned int i = 0; i < config->nb_ports; i++) {
		if (strcmp(config->port_more[i].interface, interface) == 0)
			return CTRL_REFUSE(reading, "exception.interface",
				"\"%s\" is the interface of ports[%u]", interface, i);
		if (strcmp(config->port[i].name, "exception") == 0 ||
			strcmp(config->port[i].device, EXCEPTION_DEVICE) == 0)
			return CTRL_REFUSE(reading, "exception",
				"ports[%u] has the name or the device of the exception port", i);
	}
	*port = (struct pktbuf_port_config){
		.name = "exception",
		.device = EXCEPTION_DEVICE,
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 256,
		.tx_descriptors = 256,
		.rx_checksum = PKTBUF_CHECKSUM_OFF, /* the kernel computes them */
		.tx_checksum = PKTBUF_CHECKSUM_SOFTWARE,
		.frame_max = TAP_FRAME_MAX,
		.promiscuous = true,
	};
	*more = (struct ctrl_port){.device = EXCEPTION_DEVICE, .ring = UINT32_MAX};
	snprintf(more->arguments, sizeof(more->arguments),
		EXCEPTION_DEVICE ",iface=%s,mac=%02x:%02x:%02x:%02x:%02x:%02x", interface, mac[0],
		mac[1], mac[2], mac[3], mac[4], mac[5]);
	config->ppe.exception_port = (int)config->nb_ports++;
	return 0;
}

int
ctrl_read_ports(struct ctrl_reading *reading)
{
	const json_t *ports = json_object_get(reading->object, "ports");
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < reading->config->nb_ports; i++) {
		struct ctrl_path at = ctrl_path("ports[%u].", i);
		const struct ctrl_reading port = {
			reading->config, reading->error, json_array_get(ports, i), at.text};

		rc = read_port(&port, i);
	}
	return rc < 0 ? rc : read_exception(reading);
}
