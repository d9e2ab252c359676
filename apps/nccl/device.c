/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/nccl/plugin.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/libweir/weir.h"

#define TIMEOUT_S 20
#define CONTACT_S 5 /* for the switch's first answer; the machine may be busy */

nccl_logger device_logger;

static struct nccl_device device;
static const struct nccl_device *found; /* &device, or NULL */

unsigned int
device_timeout_ms(void)
{
	const char *text = getenv("WEIR_NCCL_TIMEOUT_S");
	long seconds = text != NULL ? strtol(text, NULL, 10) : 0;

	return 1000 * (seconds > 0 && seconds <= 86400 ? (unsigned int)seconds : TIMEOUT_S);
}

void
device_warn(void *context, const char *text)
{
	(void)context;
	WARN("%s", text);
}

/* The source address of packets to the switch, network order; 0, and a line in the log: there is none. */
static uint32_t
own_address(const char *control)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *to = NULL;
	struct sockaddr_in own = {0};
	socklen_t size = sizeof(own);
	char host[256];
	int fd, code;

	if (sscanf(control, "http%*[s]://%255[^:/]", host) != 1 &&
		sscanf(control, "http://%255[^:/]", host) != 1) {
		WARN("not used: WEIR_SWITCH is %s, which is no http://HOST:PORT", control);
		return 0;
	}
	code = getaddrinfo(host, "9", &hints, &to);
	if (code != 0) {
		WARN("not used: host %s of WEIR_SWITCH: %s", host, gai_strerror(code));
		return 0;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &size) < 0) {
		WARN("not used: host %s of WEIR_SWITCH: %s", host, strerror(errno));
		own.sin_addr.s_addr = 0;
	}
	if (fd >= 0)
		close(fd);
	freeaddrinfo(to);
	return own.sin_addr.s_addr;
}

/* Name, speed and place of the interface with this address. */
static void
describe(uint32_t address)
{
	struct ifaddrs *all = NULL;
	char path[64], resolved[PATH_MAX];
	FILE *file;

	device = (struct nccl_device){.name = "weir", .address = address};
	getifaddrs(&all);
	for (struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
		struct sockaddr_in at;

		if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&at, one->ifa_addr, sizeof(at));
		if (at.sin_addr.s_addr == address)
			snprintf(device.name, sizeof(device.name), "%s", one->ifa_name);
	}
	freeifaddrs(all);
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", device.name);
	if (realpath(path, resolved) != NULL && strlen(resolved) < sizeof(device.path))
		memcpy(device.path, resolved, strlen(resolved) + 1);
	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", device.name);
	file = fopen(path, "re");
	if (file == NULL || fscanf(file, "%d", &device.mbit_s) != 1 || device.mbit_s <= 0)
		device.mbit_s = 10000;
	if (file != NULL)
		fclose(file);
}

/* Asking for a job that does not exist shows that the control API answers, and that it accepts the token. */
static int
ask(const char *control)
{
	const struct weir_config config = {
		.control = control,
		.job_name = "nccl-is-the-switch-there",
		.sources = 1,
		.contact_timeout_ms = CONTACT_S * 1000,
		.join_timeout_ms = CONTACT_S * 1000,
		.warn = device_warn,
	};
	struct weir *weir = NULL;
	int code = weir_open(&config, &weir);

	if (code != -ENOENT && code != 0)
		WARN("not used: %s", weir_last_error(weir));
	weir_close(weir);
	return code == -ENOENT ? 0 : code;
}

static void
find(void)
{
	const char *control = getenv("WEIR_SWITCH");
	uint32_t address;

	if (control == NULL || control[0] == '\0') {
		INFO("not used: WEIR_SWITCH is not set; it is the switch's control API, "
		     "http://HOST:PORT");
		return;
	}
	address = own_address(control);
	if (address == 0 || ask(control) < 0)
		return;
	describe(address);
	found = &device;
	INFO("switch %s, by interface %s, %d Mbit/s", control, device.name, device.mbit_s);
}

const struct nccl_device *
device_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return found;
}
