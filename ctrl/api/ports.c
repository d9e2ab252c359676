/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/ports, /v1/ports/{name} */
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

#include "ctrl/api/call.h"
#include "ctrl/api/json.h"
#include "ctrl/api/resources.h"
#include "ctrl/stats/links.h"
#include "ctrl/stats/stats.h"

static void
put_device(json_t *object, const char *device)
{
	struct rte_ether_addr mac = {0};
	char text[RTE_ETHER_ADDR_FMT_SIZE];
	uint16_t id, mtu = 0;

	if (rte_eth_dev_get_port_by_name(device, &id) == 0) {
		rte_eth_macaddr_get(id, &mac);
		rte_eth_dev_get_mtu(id, &mtu);
	}
	rte_ether_format_addr(text, sizeof(text), &mac);
	for (char *c = text; *c != '\0'; c++)
		*c = *c >= 'A' && *c <= 'F' ? (char)(*c | 0x20) : *c;
	api_put_text(object, "mac", text);
	api_put(object, "mtu", mtu);
}

static json_t *
port_json(const struct ctrl_running *running, unsigned int index)
{
	const struct pktbuf_port_config *config = &running->config->port[index];
	json_t *object = json_object(), *queues = json_object();

	api_put(object, "id", index);
	api_put_text(object, "name", config->name);
	api_put_text(object, "device", config->device);
	json_object_set_new(object, "up", json_boolean(ctrl_port_is_up(running, index)));
	put_device(object, config->device);
	ctrl_put_port_counters(object, &running->stats.port[index]);
	api_put(queues, "rx", config->rx_queues);
	api_put(queues, "tx", config->tx_queues);
	json_object_set_new(object, "queues", queues);
	return object;
}

void
api_get_ports(struct api_call *call)
{
	json_t *list = json_array();

	ctrl_running_read(call->running);
	for (unsigned int p = 0; p < call->running->config->nb_ports; p++)
		json_array_append_new(list, port_json(call->running, p));
	api_answer(call, 200, json_pack("{s:o}", "ports", list));
}

void
api_get_port(struct api_call *call)
{
	const struct ctrl_config *config = call->running->config;

	for (unsigned int p = 0; p < config->nb_ports; p++)
		if (strcmp(config->port[p].name, call->parameter[0]) == 0) {
			ctrl_running_read(call->running);
			api_answer(call, 200, port_json(call->running, p));
			return;
		}
	api_error(
		call, 404, "unknown_path", NULL, "no port is called \"%.64s\"", call->parameter[0]);
}
