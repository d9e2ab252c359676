/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/values.h"

#define EXCEPTION_DEVICE "net_tap_weir"

/* What several ports must not share. */
static int
check_unique(struct ctrl_reading *reading, unsigned int index)
{
	const struct ctrl_config *config = reading->config;
	const struct ctrl_port *mine = &config->port_more[index];

	for (unsigned int i = 0; i < index; i++) {
		const struct ctrl_port *other = &config->port_more[i];

		if (strcmp(config->port[i].name, config->port[index].name) == 0)
			return ctrl_refuse(&reading->source, ctrl_path("ports[%u].name", index),
				"\"%s\" is the name of ports[%u] already", config->port[i].name, i);
		if (strcmp(other->device, mine->device) == 0)
			return ctrl_refuse(&reading->source, ctrl_path("ports[%u].device", index),
				"%s is the device of ports[%u] already", mine->device, i);
		if (mine->interface[0] != '\0' && strcmp(other->interface, mine->interface) == 0)
			return ctrl_refuse(&reading->source, ctrl_path("ports[%u].device", index),
				"interface %s is in ports[%u] already", mine->interface, i);
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
			return ctrl_refuse(&reading->source, path,
				"%u queues are more than the %u worker%s", queues[i].count, workers,
				workers == 1 ? "" : "s");
		if (queues[i].count > pairs)
			return ctrl_refuse(&reading->source, path,
				"%u queues are more than the device's qpairs=%u", queues[i].count,
				pairs);
	}
	return 0;
}

static int
read_port(struct ctrl_reading *reading, unsigned int index, const json_t *object)
{
	struct pktbuf_port_config *port = &reading->config->port[index];
	struct ctrl_port *more = &reading->config->port_more[index];
	unsigned int pairs;
	int rc = ctrl_read_device(reading, ctrl_path("ports[%u].device", index),
		ctrl_string(object, "ports[].device"), more, &pairs);

	if (rc < 0)
		return rc;
	strlcpy(port->name, ctrl_string(object, "ports[].name"), sizeof(port->name));
	strlcpy(port->device, more->device, sizeof(port->device));
	port->rx_queues = (uint16_t)ctrl_integer(object, "ports[].rx_queues");
	port->tx_queues = (uint16_t)ctrl_integer(object, "ports[].tx_queues");
	port->rx_descriptors = (uint16_t)ctrl_integer(object, "ports[].rx_descriptors");
	port->tx_descriptors = (uint16_t)ctrl_integer(object, "ports[].tx_descriptors");
	port->rx_checksum = (enum pktbuf_checksum)ctrl_word(object, "ports[].rx_checksum");
	port->tx_checksum = (enum pktbuf_checksum)ctrl_word(object, "ports[].tx_checksum");
	port->mtu = (uint16_t)ctrl_integer(object, "ports[].mtu");
	port->promiscuous = ctrl_boolean(object, "ports[].promiscuous");
	if (port->mtu > 0 && port->mtu < 68)
		return ctrl_refuse(&reading->source, ctrl_path("ports[%u].mtu", index),
			"%u is less than 68, IPv4's least", port->mtu);
	if (port->mtu > 0 &&
		(more->pci || more->frame_max == 0 || more->frame_max > port->mtu + 14u))
		more->frame_max = port->mtu + 14u;
	rc = check_unique(reading, index);
	return rc < 0 ? rc : check_queues(reading, index, pairs);
}

/* One more port, behind the others: a TAP with the switch's own MAC address. */
static int
read_exception(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *object = json_object_get(reading->root, "exception");
	unsigned int index = config->nb_ports;
	const uint8_t *mac = config->ppe.identity.mac;
	const char *interface;

	config->ppe.exception_port = -1;
	if (object == NULL)
		return 0;
	interface = ctrl_string(object, "exception.interface");
	for (unsigned int i = 0; i < index; i++)
		if (strcmp(config->port_more[i].interface, interface) == 0)
			return ctrl_refuse(&reading->source, ctrl_path("exception.interface"),
				"\"%s\" is the interface of ports[%u]", interface, i);
	strlcpy(config->exception, interface, sizeof(config->exception));
	config->port[index] = (struct pktbuf_port_config){
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 256,
		.tx_descriptors = 256,
		.rx_checksum = PKTBUF_CHECKSUM_OFF, /* it is the kernel that speaks here */
		.tx_checksum = PKTBUF_CHECKSUM_SOFTWARE,
		.promiscuous = true,
	};
	strlcpy(config->port[index].name, "exception", sizeof(config->port[index].name));
	strlcpy(config->port[index].device, EXCEPTION_DEVICE, sizeof(config->port[index].device));
	strlcpy(config->port_more[index].device, EXCEPTION_DEVICE,
		sizeof(config->port_more[index].device));
	config->port_more[index].holds_mbufs = true;
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
