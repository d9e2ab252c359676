/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/ports, /v1/ports/{name} */
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"

/* What only the device knows. */
static void
put_device(json_t *object, const char *device)
{
	struct rte_eth_link link = {0};
	struct rte_ether_addr mac = {0};
	char text[RTE_ETHER_ADDR_FMT_SIZE];
	uint16_t id, mtu = 0;

	if (rte_eth_dev_get_port_by_name(device, &id) == 0) {
		rte_eth_link_get_nowait(id, &link);
		rte_eth_macaddr_get(id, &mac);
		rte_eth_dev_get_mtu(id, &mtu);
	}
	rte_ether_format_addr(text, sizeof(text), &mac);
	for (char *c = text; *c != '\0'; c++)
		*c = *c >= 'A' && *c <= 'F' ? (char)(*c | 0x20) : *c;
	json_object_set_new(object, "up", json_boolean(link.link_status == RTE_ETH_LINK_UP));
	api_put_text(object, "mac", text);
	api_put(object, "mtu", mtu);
}

static void
put_pair(json_t *object, const char *key, const uint64_t values[2])
{
	json_t *pair = json_object();

	api_put(pair, "results", values[0]);
	api_put(pair, "bulk", values[1]);
	json_object_set_new(object, key, pair);
}

json_t *
api_port_json(const struct ctrl_running *running, unsigned int index)
{
	const struct pktbuf_port_config *config = &running->config->port[index];
	const struct ppe_port_stats *stats = &running->stats.port[index];
	json_t *object = json_object(), *queues = json_object();

	api_put(object, "id", index);
	api_put_text(object, "name", config->name);
	api_put_text(object, "device", config->device);
	put_device(object, config->device);
	api_put(object, "rx_packets", stats->rx_packets);
	api_put(object, "rx_bytes", stats->rx_bytes);
	put_pair(object, "tx_packets", stats->tx_packets);
	put_pair(object, "tx_bytes", stats->tx_bytes);
	put_pair(object, "queue_full", stats->queue_full);
	api_put(object, "missed", stats->missed);
	api_put(queues, "rx", config->rx_queues);
	api_put(queues, "tx", config->tx_queues);
	json_object_set_new(object, "queues", queues);
	return object;
}

json_t *
api_ports_json(const struct ctrl_running *running)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < running->config->nb_ports; p++)
		json_array_append_new(list, api_port_json(running, p));
	return list;
}

void
api_get_ports(struct api_call *call)
{
	ctrl_running_read(call->running);
	api_answer(call, 200, json_pack("{s:o}", "ports", api_ports_json(call->running)));
}

void
api_get_port(struct api_call *call)
{
	const struct ctrl_config *config = call->running->config;

	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (strcmp(config->port[p].name, call->parameter[0]) == 0) {
			ctrl_running_read(call->running);
			api_answer(call, 200, api_port_json(call->running, p));
			return;
		}
	api_error(
		call, 404, "unknown_path", NULL, "no port is called \"%.64s\"", call->parameter[0]);
}
