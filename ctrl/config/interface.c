/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bsd/string.h>

/* One request about an interface. 0 or -errno. */
static int
ask(const char *name, unsigned long request, struct ifreq *ifr)
{
	/* Stays open: each join over HTTP asks for the MTU of every port's interface. */
	static int fd = -1;

	if (strlcpy(ifr->ifr_name, name, sizeof(ifr->ifr_name)) >= sizeof(ifr->ifr_name))
		return -ENODEV;
	if (fd < 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	return ioctl(fd, request, ifr) < 0 ? -errno : 0;
}

static int
set_address(const char *name, unsigned long request, uint32_t address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	struct ifreq ifr = {0};

	memcpy(&ifr.ifr_addr, &in, sizeof(in));
	return ask(name, request, &ifr);
}

/* The process that listens at the address; 0: unknown. */
static pid_t
listener_of(int fd, const struct sockaddr_un *address, socklen_t bytes)
{
	struct ucred peer = {0};
	socklen_t room = sizeof(peer);

	if (connect(fd, (const struct sockaddr *)address, bytes) == 0)
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &room);
	return peer.pid;
}

int
ctrl_interface_claim(const char *name, pid_t *owner)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned int index = if_nametoindex(name);
	socklen_t bytes;
	int fd, rc = 0;

	*owner = 0;
	if (index == 0)
		return -ENODEV;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	bytes = (socklen_t)offsetof(struct sockaddr_un, sun_path) +
		(socklen_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			"weir-switch/interface/%u", index) +
		1;
	if (bind(fd, (const struct sockaddr *)&address, bytes) < 0 || listen(fd, 1) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	if (rc == -EADDRINUSE) {
		rc = -EBUSY;
		*owner = listener_of(fd, &address, bytes);
	}
	close(fd);
	return rc;
}

int
ctrl_interface_set(const char *name, uint32_t address, uint8_t prefix)
{
	struct ifreq ifr = {0};
	int rc = set_address(name, SIOCSIFADDR, address);

	if (rc == 0)
		rc = set_address(name, SIOCSIFNETMASK, ~(UINT32_MAX >> prefix));
	if (rc == 0)
		rc = ask(name, SIOCGIFFLAGS, &ifr);
	if (rc < 0)
		return rc;
	ifr.ifr_flags |= IFF_UP;
	return ask(name, SIOCSIFFLAGS, &ifr);
}

int
ctrl_interface_mtu(const char *name)
{
	struct ifreq ifr = {0};
	int rc = ask(name, SIOCGIFMTU, &ifr);

	return rc < 0 ? rc : ifr.ifr_mtu;
}

int
ctrl_interface_is_up(const char *name)
{
	struct ifreq ifr = {0};
	int rc = ask(name, SIOCGIFFLAGS, &ifr);

	return rc < 0 ? rc : (ifr.ifr_flags & IFF_UP) != 0;
}

/* A number under /proc/sys/net/ipv4/conf; 0 if it can't be read. */
static int
read_conf(const char *name, const char *key)
{
	char path[128];
	int value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", name, key);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

int
ctrl_interface_answers_arp(const char *name)
{
	struct ifreq ifr = {0};
	int rc = ask(name, SIOCGIFFLAGS, &ifr);

	if (rc < 0)
		return rc;
	/* The kernel takes the larger one of the two. */
	return (ifr.ifr_flags & IFF_NOARP) == 0 && read_conf("all", "arp_ignore") == 0 &&
		read_conf(name, "arp_ignore") == 0;
}

int
ctrl_interface_merges(const char *name)
{
	struct ethtool_value gro = {.cmd = ETHTOOL_GGRO}, flags = {.cmd = ETHTOOL_GFLAGS};
	struct ifreq ifr = {.ifr_data = (void *)&gro};
	int rc = ask(name, SIOCETHTOOL, &ifr);

	if (rc < 0)
		return rc;
	ifr.ifr_data = (void *)&flags;
	rc = ask(name, SIOCETHTOOL, &ifr);
	return rc < 0 ? rc : gro.data != 0 || (flags.data & ETH_FLAG_LRO) != 0;
}
