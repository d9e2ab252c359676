/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/links.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "ctrl/jobs/running.h"
#include "ctrl/log.h"

/* An interface that is gone has no link. */
static bool
is_running(unsigned int interface)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_ifindex = (int)interface};
	bool up = fd >= 0 && ioctl(fd, SIOCGIFNAME, &request) == 0 &&
		ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0 &&
		(request.ifr_flags & IFF_RUNNING) != 0;

	if (fd >= 0)
		close(fd);
	return up;
}

bool
ctrl_port_is_up(const struct ctrl_running *running, unsigned int port)
{
	struct rte_eth_dev_info info;
	struct rte_eth_link link = {0};
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(running->config->port[port].device, &id) != 0)
		return false;
	if (rte_eth_dev_info_get(id, &info) == 0 && info.if_index != 0)
		return is_running(info.if_index);
	rte_eth_link_get_nowait(id, &link);
	return link.link_status == RTE_ETH_LINK_UP;
}

void
ctrl_links_tick(struct ctrl_running *running)
{
	for (unsigned int p = 0; p < running->config->nb_ports; p++) {
		bool up = ctrl_port_is_up(running, p);
		bool was_down = running->link_is_down[p];

		running->link_is_down[p] = !up;
		if (up == was_down)
			ctrl_log(CTRL_LOG_SWITCH, up ? CTRL_LOG_NOTICE : CTRL_LOG_WARNING,
				up ? "link up" : "link down", "port=%s device=%s",
				ctrl_log_quote(running->config->port[p].name).text,
				ctrl_log_quote(running->config->port[p].device).text);
	}
}
