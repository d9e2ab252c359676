/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <mntent.h>
#include <sched.h>
#include <stdint.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/interface.h"
#include "ctrl/config/job.h"

int
complain(int rc, const char *format, ...)
{
	va_list args;

	fputs("weir-switch: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return rc;
}

static int
check_mtus(const struct ctrl_config *config)
{
	struct ctrl_reason reason;

	for (unsigned int j = 0; j < config->nb_jobs; j++)
		if (!ctrl_check_links(config, &config->job[j], &reason))
			return complain(-EINVAL, "job %s: %s", config->job[j].name, reason.text);
	return 0;
}

/* Two switches on one interface would each take and forward every packet. The claim lasts as long as the process. */
static int
claim(const char *interface, const char *port)
{
	pid_t owner;
	int rc = ctrl_interface_claim(interface, &owner);

	if (rc == -EBUSY)
		return complain(rc,
			"interface %s of port %s belongs to another running switch, process %d: "
			"stop that switch, or give this one other interfaces",
			interface, port, (int)owner);
	if (rc < 0)
		return complain(rc, "interface %s of port %s cannot be claimed: %s", interface,
			port, strerror(-rc));
	return 0;
}

static int
check_interface(const struct ctrl_config *config, unsigned int p)
{
	const char *interface = config->port_more[p].interface;
	const char *port = config->port[p].name;
	int fd, rc = ctrl_interface_is_up(interface);

	if (rc < 0)
		return complain(rc,
			"interface %s of port %s does not exist: create it, or start the switch in "
			"its network namespace (ip netns exec)",
			interface, port);
	if (rc == 0)
		return complain(-ENETDOWN, "interface %s of port %s is down: ip link set dev %s up",
			interface, port, interface);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return complain(-errno,
			"port %s needs CAP_NET_RAW (%s): run as root, or setcap "
			"cap_net_raw,cap_net_admin+ep on weir-switch",
			port, strerror(errno));
	close(fd);
	return claim(interface, port);
}

/* Drivers neither remove the socket that a killed switch has left behind, nor say what is in their way. */
static int
check_socket(const struct ctrl_config *config, unsigned int p)
{
	const char *path = config->port_more[p].socket, *port = config->port[p].name;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat found;
	int fd, error = 0;

	if (lstat(path, &found) < 0)
		return 0;
	if (!S_ISSOCK(found.st_mode))
		return complain(-EEXIST,
			"%s of port %s exists and is no socket: choose another path", path, port);
	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	/* A socket of another type, for one, is in use, too. */
	if (error != ECONNREFUSED)
		return complain(-EADDRINUSE,
			"socket %s of port %s belongs to another running process: stop that "
			"process, or choose another path",
			path, port);
	if (unlink(path) < 0)
		return complain(-errno, "socket %s of port %s cannot be replaced: %s", path, port,
			strerror(errno));
	return 0;
}

/* Both settings lose packets without a trace. The kernel does not touch packets of a TAP or of XDP. */
static void
warn_interface(const struct ctrl_config *config, unsigned int p)
{
	const char *interface = config->port_more[p].interface;
	const char *port = config->port[p].name;

	if (strncmp(config->port_more[p].device, "net_af_packet", strlen("net_af_packet")) != 0)
		return;
	if (config->exception[0] != '\0' && ctrl_interface_answers_arp(interface) == 1)
		complain(0,
			"warning: interface %s of port %s lets the kernel answer ARP for the "
			"switch's address, and hosts may send to the wrong MAC: ip link set dev "
			"%s arp off, or sysctl net.ipv4.conf.%s.arp_ignore=1",
			interface, port, interface, interface);
	if (ctrl_interface_merges(interface) == 1)
		complain(0,
			"warning: interface %s of port %s merges received TCP segments, and those "
			"larger than a frame are lost: ethtool -K %s gro off lro off",
			interface, port, interface);
}

/* The TAP driver reports only a failed ioctl. */
static int
check_exception(const char *interface)
{
	int fd;

	if (ctrl_interface_mtu(interface) >= 0)
		return complain(-EEXIST,
			"exception.interface: %s exists already: if no other switch uses it, ip "
			"link del %s; otherwise choose another name",
			interface, interface);
	fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return complain(-errno,
			"exception.interface needs /dev/net/tun (%s): modprobe tun, run as root, "
			"or remove \"exception\" from the configuration",
			strerror(errno));
	close(fd);
	return 0;
}

static int
check_cpu(const cpu_set_t *set, unsigned int cpu, const char *key)
{
	if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, set))
		return 0;
	return complain(-EINVAL,
		"%s: this process may not use CPU %u: choose one that taskset -p $$ shows", key,
		cpu);
}

static int
check_cpus(const struct ctrl_config *config)
{
	cpu_set_t set;
	int rc;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0; /* more CPUs than a set holds: EAL checks */
	rc = check_cpu(&set, config->main_cpu, "workers.main_cpu");
	for (unsigned int w = 0; rc == 0 && w < config->ppe.workers; w++)
		rc = check_cpu(&set, config->cpu[w % config->nb_cpus], "workers.cpus");
	return rc;
}

bool
has_eal_option(const struct ctrl_config *config, const char *option)
{
	for (int i = 0; i < config->argc; i++)
		if (strcmp(config->argv[i], option) == 0)
			return true;
	return false;
}

/* Huge pages that other processes share are files. If they have no place, EAL says so only in a notice. */
static int
check_mount(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	const struct mntent *mount;
	bool there = mounts == NULL;

	while (!there && (mount = getmntent(mounts)) != NULL)
		there = strcmp(mount->mnt_type, "hugetlbfs") == 0;
	if (mounts != NULL)
		endmntent(mounts);
	if (there)
		return 0;
	return complain(-ENOENT,
		"huge pages as files need a mounted hugetlbfs: mkdir -p /dev/hugepages; mount -t "
		"hugetlbfs none /dev/hugepages; or remove \"capture\" and --huge-dir");
}

/* Huge pages of one size. */
struct huge {
	unsigned long kib, total, free;
	char file[128]; /* that sets the total */
};

static unsigned long
read_number(const char *folder, const char *name)
{
	char path[192], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	if (file != NULL && fgets(text, sizeof(text), file) == NULL)
		text[0] = '\0';
	if (file != NULL)
		fclose(file);
	return strtoul(text, NULL, 10);
}

/* The smallest size, with the MiB that are there and free in all sizes. False: the kernel has no huge pages. */
static bool
find_huge_pages(struct huge *smallest, uint64_t *total_mib, uint64_t *free_mib)
{
	glob_t found;

	memset(smallest, 0, sizeof(*smallest));
	*total_mib = *free_mib = 0;
	if (glob("/sys/kernel/mm/hugepages/hugepages-*kB", 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *folder = found.gl_pathv[i];
		struct huge size = {.kib = strtoul(strrchr(folder, '-') + 1, NULL, 10),
			.total = read_number(folder, "nr_hugepages"),
			.free = read_number(folder, "free_hugepages")};

		snprintf(size.file, sizeof(size.file), "%s/nr_hugepages", folder);
		*total_mib += (uint64_t)size.total * size.kib >> 10;
		*free_mib += (uint64_t)size.free * size.kib >> 10;
		if (smallest->kib == 0 || size.kib < smallest->kib)
			*smallest = size;
	}
	globfree(&found);
	return smallest->kib > 0;
}

/* EAL takes all of memory_mb at its start. */
static int
check_huge_pages(const struct ctrl_config *config)
{
	uint64_t total, free, wanted = config->memory_mb, pages;
	struct huge huge;

	if (has_eal_option(config, "--no-huge") || !find_huge_pages(&huge, &total, &free))
		return 0;
	if (free >= wanted)
		return has_eal_option(config, "--in-memory") ? 0 : check_mount();
	/* What is in use stays in use. */
	pages = huge.total + (((wanted - free) << 10) + huge.kib - 1) / huge.kib;
	if (total == 0)
		return complain(-ENOMEM,
			"there are no huge pages, and %s needs %" PRIu64 " MiB: echo %" PRIu64
			" > %s%s",
			config->capture ? "\"capture\"" : "\"memory_mb\"", wanted, pages, huge.file,
			config->capture ? ", or remove \"capture\""
					: " (docs/nics.md), or add \"--no-huge\" to \"eal\"");
	return complain(-ENOMEM,
		"%" PRIu64 " MiB of huge pages are free, and \"memory_mb\" asks for %" PRIu64
		": echo %" PRIu64 " > %s, or set \"memory_mb\" to no less than %u, which this "
		"configuration needs",
		free, wanted, pages, huge.file, ctrl_memory_least(config));
}

int
preflight(const struct ctrl_config *config)
{
	int rc = check_cpus(config);

	if (rc == 0)
		rc = check_huge_pages(config);
	for (unsigned int p = 0; rc == 0 && p < config->nb_ports; p++)
		if (config->port_more[p].interface[0] != '\0')
			rc = check_interface(config, p);
		else if (config->port_more[p].socket[0] != '\0')
			rc = check_socket(config, p);
	if (rc == 0)
		rc = check_cards(config);
	if (rc == 0)
		rc = check_mtus(config);
	if (rc == 0 && config->exception[0] != '\0')
		rc = check_exception(config->exception);
	for (unsigned int p = 0; rc == 0 && p < config->nb_ports; p++)
		if (config->port_more[p].interface[0] != '\0')
			warn_interface(config, p);
	return rc;
}
