/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
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

/* The value of an argument "key=" in `text`, as a string in `out`. False when it is not there. */
static bool
argument(const char *text, const char *key, char *out, size_t size)
{
	size_t length = strlen(key);

	for (const char *p = strchr(text, ','); p != NULL; p = strchr(p, ',')) {
		p++;
		if (strncmp(p, key, length) == 0 && p[length] == '=') {
			size_t value = strcspn(p + length + 1, ",");

			if (value >= size)
				value = size - 1;
			memcpy(out, p + length + 1, value);
			out[value] = '\0';
			return true;
		}
	}
	return false;
}

static int
number_argument(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	const char *key, unsigned long fallback, unsigned long *number)
{
	char value[32], *end;

	*number = fallback;
	if (!argument(text, key, value, sizeof(value)))
		return 0;
	*number = strtoul(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || *number < 1 || *number > 1u << 30)
		return ctrl_refuse(reading->error, path, "%s=%s is not a number in 1..%u", key,
			value, 1u << 30);
	return 0;
}

/* Is the device one of this driver's? */
static bool
is_of(const char *text, const char *driver)
{
	return strncmp(text, driver, strlen(driver)) == 0;
}

/* Does the argument have this value? */
static bool
is_set(const char *text, const char *key, const char *value)
{
	char found[16];

	return argument(text, key, found, sizeof(found)) && strcmp(found, value) == 0;
}

/* Does the device create the socket? Otherwise it connects to it. */
static bool
listens(const char *text)
{
	if (is_of(text, "net_vhost"))
		return !is_set(text, "client", "1");
	if (is_of(text, "net_virtio_user"))
		return is_set(text, "server", "1");
	return is_set(text, "role", "server") && is_set(text, "socket-abstract", "no");
}

/*
 * Find what the device uses outside DPDK: a kernel interface, which must exist, or a Unix socket.
 * The argument `iface` is not always an existing interface: for net_vhost it is the socket; net_tap
 * and net_virtio_user create theirs.
 */
static int
read_resources(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	struct ctrl_port *port)
{
	static const struct {
		const char *driver, *interface, *socket;
	} known[] = {{"net_memif", NULL, "socket"}, {"net_tap", "remote", NULL},
		{"net_vhost", NULL, "iface"}, {"net_virtio_user", NULL, "path"},
		{"net_", "iface", NULL}};
	char value[CTRL_DEVICE_BYTES] = "";
	unsigned int i = 0;

	while (!is_of(text, known[i].driver))
		i++;
	if (known[i].interface != NULL &&
		argument(text, known[i].interface, value, sizeof(value)) &&
		strlcpy(port->interface, value, sizeof(port->interface)) >= sizeof(port->interface))
		return ctrl_refuse(reading->error, path,
			"interface %s has more than %zu characters", value,
			sizeof(port->interface) - 1);
	if (known[i].socket != NULL && argument(text, known[i].socket, value, sizeof(value)) &&
		strlcpy(port->socket, value, sizeof(port->socket)) >= sizeof(port->socket))
		return ctrl_refuse(reading->error, path,
			"the path of socket %s has more than %zu characters", value,
			sizeof(port->socket) - 1);
	if (!listens(text))
		port->socket[0] = '\0';
	return 0;
}

/* The driver or the kernel would refuse wrong rings at the start, with unclear messages. */
static int
read_af_packet(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	struct ctrl_port *port, unsigned int *queue_pairs)
{
	struct ctrl_error *error = reading->error;
	unsigned long frame, block, count, pairs;

	if (port->interface[0] == '\0')
		return ctrl_refuse(error, path, "%s needs iface=INTERFACE", port->device);
	if (number_argument(reading, path, text, "framesz", 2048, &frame) < 0 ||
		number_argument(reading, path, text, "blocksz", PAGE_BYTES, &block) < 0 ||
		number_argument(reading, path, text, "framecnt", 512, &count) < 0 ||
		number_argument(reading, path, text, "qpairs", 1, &pairs) < 0)
		return -EINVAL;
	if (frame % TPACKET_ALIGNMENT != 0 || frame < 256 || frame > 65536)
		return ctrl_refuse(error, path, "framesz=%lu is not a multiple of %d in 256..65536",
			frame, TPACKET_ALIGNMENT);
	if (block % PAGE_BYTES != 0 || block % frame != 0)
		return ctrl_refuse(error, path,
			"blocksz=%lu is not a multiple of framesz=%lu and of %u", block, frame,
			PAGE_BYTES);
	if (count % (block / frame) != 0)
		return ctrl_refuse(error, path,
			"framecnt=%lu does not fill blocks of %lu frames (blocksz=%lu, "
			"framesz=%lu)",
			count, block / frame, block, frame);
	port->frame_max = (uint32_t)(frame - RING_FRAME_OFFSET);
	port->buffer_bytes = (uint32_t)(frame - RING_BUFFER_LESS);
	*queue_pairs = (unsigned int)pairs;
	return 0;
}

static int
read_device(struct ctrl_reading *reading, struct ctrl_path path, const char *text,
	struct ctrl_port *port, unsigned int *queue_pairs)
{
	size_t name = strcspn(text, ",");
	struct rte_pci_addr address;
	unsigned long size;
	int rc;

	*queue_pairs = PPE_WORKERS_MAX;
	strlcpy(port->arguments, text, sizeof(port->arguments));
	for (const char *p = text; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return ctrl_refuse(reading->error, path,
				"device has blanks or characters outside ASCII");
	memcpy(port->device, text, name);
	port->device[name] = '\0';
	if (rte_pci_addr_parse(port->device, &address) == 0) {
		rte_pci_device_name(&address, port->device, sizeof(port->device));
		port->pci = true;
		port->keeps_sent = true;
		port->ring = UINT32_MAX;
		port->frame_max = 1514;
		return 0;
	}
	if (strncmp(text, "net_", 4) != 0 || name < 5)
		return ctrl_refuse(reading->error, path,
			"\"%s\" is neither a PCI address nor a virtual device (net_...)",
			port->device);
	rc = read_resources(reading, path, text, port);
	if (rc == 0 && is_of(text, "net_af_packet"))
		rc = read_af_packet(reading, path, text, port, queue_pairs);
	if (is_of(text, "net_tap")) {
		port->ring = UINT32_MAX;
		port->frame_max = TAP_FRAME_MAX;
	}
	if (is_of(text, "net_af_xdp"))
		port->kept = XDP_PACKETS;
	if (rc == 0 && is_of(text, "net_virtio_user")) {
		rc = number_argument(reading, path, text, "queue_size", 256, &size);
		port->ring = (uint32_t)size;
		port->keeps_sent = true;
	}
	return rc;
}

/* -- ports */

/* What several ports must not share. */
static int
check_unique(struct ctrl_reading *reading, unsigned int index)
{
	const struct ctrl_config *config = reading->config;
	const struct ctrl_port *mine = &config->port_more[index];

	for (unsigned int i = 0; i < index; i++) {
		const struct ctrl_port *other = &config->port_more[i];

		if (strcmp(config->port[i].name, config->port[index].name) == 0)
			return ctrl_refuse(reading->error, ctrl_path("ports[%u].name", index),
				"\"%s\" is the name of ports[%u] already", config->port[i].name, i);
		if (strcmp(other->device, mine->device) == 0)
			return ctrl_refuse(reading->error, ctrl_path("ports[%u].device", index),
				"%s is the device of ports[%u] already", mine->device, i);
		if (mine->interface[0] != '\0' && strcmp(other->interface, mine->interface) == 0)
			return ctrl_refuse(reading->error, ctrl_path("ports[%u].device", index),
				"interface %s is in ports[%u] already", mine->interface, i);
		/* Devices of memif share a socket. */
		if (mine->socket[0] != '\0' && strcmp(other->socket, mine->socket) == 0 &&
			!is_of(mine->device, "net_memif"))
			return ctrl_refuse(reading->error, ctrl_path("ports[%u].device", index),
				"socket %s is in ports[%u] already", mine->socket, i);
	}
	return 0;
}

static int
check_queues(struct ctrl_reading *reading, unsigned int index, unsigned int pairs)
{
	const struct pktbuf_port_config *port = &reading->config->port[index];
	const struct {
		const char *key;
		unsigned int count;
	} queues[] = {{"rx_queues", port->rx_queues}, {"tx_queues", port->tx_queues}};
	unsigned int workers = reading->config->ppe.workers;

	for (unsigned int i = 0; i < 2; i++) {
		struct ctrl_path path = ctrl_path("ports[%u].%s", index, queues[i].key);

		if (queues[i].count > workers)
			return ctrl_refuse(reading->error, path,
				"%u queues are more than the %u worker%s", queues[i].count, workers,
				workers == 1 ? "" : "s");
		if (queues[i].count > pairs)
			return ctrl_refuse(reading->error, path,
				"%u queues are more than the device's qpairs=%u", queues[i].count,
				pairs);
	}
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
read_hosts(struct ctrl_reading *reading, unsigned int index, const json_t *list)
{
	struct ppe_config *ppe = &reading->config->ppe;

	for (unsigned int i = 0; i < json_array_size(list); i++) {
		struct ctrl_path path = ctrl_path("ports[%u].hosts[%u]", index, i);
		const char *text = json_string_value(json_array_get(list, i));
		struct ppe_host host;
		unsigned int n = 0;

		if (!parse_hosts(text, &host))
			return ctrl_refuse(reading->error, path,
				"\"%s\" is neither an IPv4 address of a host nor a prefix such as "
				"10.77.1.0/24",
				text);
		while (n < ppe->nb_hosts &&
			(ppe->host[n].address != host.address || ppe->host[n].mask != host.mask))
			n++;
		if (n == PPE_HOSTS_MAX)
			return ctrl_refuse(reading->error, path,
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
read_port(struct ctrl_reading *reading, unsigned int index, const json_t *object)
{
	struct pktbuf_port_config *port = &reading->config->port[index];
	struct ctrl_port *more = &reading->config->port_more[index];
	unsigned int pairs;
	int rc = read_device(reading, ctrl_path("ports[%u].device", index),
		json_string_value(json_object_get(object, "device")), more, &pairs);

	if (rc < 0)
		return rc;
	ctrl_keys_read("ports[]", object, port);
	if (json_is_false(json_object_get(object, "forward")))
		reading->config->ppe.unforwarded |= UINT64_C(1) << index;
	strlcpy(port->device, more->device, sizeof(port->device));
	strlcpy(more->neighbor, ctrl_string(object, "ports[].neighbor"), sizeof(more->neighbor));
	if (port->mtu > 0 && port->mtu < 68)
		return ctrl_refuse(reading->error, ctrl_path("ports[%u].mtu", index),
			"%u is less than 68, IPv4's least", port->mtu);
	if (port->mtu > 0 &&
		(more->pci || more->frame_max == 0 || more->frame_max > port->mtu + 14u))
		more->frame_max = port->mtu + 14u;
	port->frame_max = more->frame_max;
	rc = check_unique(reading, index);
	if (rc == 0)
		rc = check_queues(reading, index, pairs);
	return rc < 0 ? rc : read_hosts(reading, index, json_object_get(object, "hosts"));
}

/* The exception port, after the others: a TAP with the switch's own MAC address. */
static int
read_exception(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	unsigned int index = config->nb_ports;
	const uint8_t *mac = config->ppe.identity.mac;
	const char *interface = config->exception;

	config->ppe.exception_port = -1;
	if (interface[0] == '\0')
		return 0;
	for (unsigned int i = 0; i < index; i++)
		if (strcmp(config->port_more[i].interface, interface) == 0)
			return ctrl_refuse(reading->error, ctrl_path("exception.interface"),
				"\"%s\" is the interface of ports[%u]", interface, i);
	config->port[index] = (struct pktbuf_port_config){
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 256,
		.tx_descriptors = 256,
		.rx_checksum = PKTBUF_CHECKSUM_OFF, /* the kernel computes them */
		.tx_checksum = PKTBUF_CHECKSUM_SOFTWARE,
		.frame_max = TAP_FRAME_MAX,
		.promiscuous = true,
	};
	strlcpy(config->port[index].name, "exception", sizeof(config->port[index].name));
	strlcpy(config->port[index].device, EXCEPTION_DEVICE, sizeof(config->port[index].device));
	strlcpy(config->port_more[index].device, EXCEPTION_DEVICE,
		sizeof(config->port_more[index].device));
	config->port_more[index].ring = UINT32_MAX;
	snprintf(config->port_more[index].arguments, sizeof(config->port_more[index].arguments),
		EXCEPTION_DEVICE ",iface=%s,mac=%02x:%02x:%02x:%02x:%02x:%02x", interface, mac[0],
		mac[1], mac[2], mac[3], mac[4], mac[5]);
	config->ppe.exception_port = (int)index;
	config->nb_ports++;
	return check_unique(reading, index);
}

int
ctrl_read_ports(struct ctrl_reading *reading)
{
	const json_t *ports = json_object_get(reading->root, "ports");
	size_t count = json_array_size(ports);

	for (unsigned int i = 0; i < count; i++) {
		int rc = read_port(reading, i, json_array_get(ports, i));

		if (rc < 0)
			return rc;
		reading->config->nb_ports++;
	}
	return read_exception(reading);
}
