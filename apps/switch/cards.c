/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#define DEVICES "/sys/bus/pci/devices"
#define VFIO    "/sys/bus/pci/drivers/vfio-pci"
#define VMXNET3 0x15ad07b0u /* vendor and device */

/* The last name of the path that a link in a device's folder points to, or "". */
static void
read_link(const char *device, const char *name, char *target, size_t size)
{
	char path[PATH_MAX], whole[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", device, name);
	length = readlink(path, whole, sizeof(whole) - 1);
	whole[length > 0 ? length : 0] = '\0';
	strlcpy(target, strrchr(whole, '/') == NULL ? "" : strrchr(whole, '/') + 1, size);
}

static uint32_t
read_id(const char *device, const char *name)
{
	char path[PATH_MAX], text[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), DEVICES "/%s/%s", device, name);
	file = fopen(path, "r");
	if (file != NULL && fgets(text, sizeof(text), file) == NULL)
		text[0] = '\0';
	if (file != NULL)
		fclose(file);
	return (uint32_t)strtoul(text, NULL, 16);
}

/* These give a device to user space. Those of Mellanox do it beside the kernel's own use. */
static bool
is_usable(const char *driver)
{
	static const char *const drivers[] = {
		"vfio-pci", "igb_uio", "uio_pci_generic", "mlx4_core", "mlx5_core"};

	for (unsigned int i = 0; i < RTE_DIM(drivers); i++)
		if (strcmp(driver, drivers[i]) == 0)
			return true;
	return false;
}

/* VFIO takes a device only with an IOMMU. */
static int
check_binding(const char *port, const char *device, const char *driver, const char *group)
{
	char why[64];

	if (is_usable(driver))
		return 0;
	if (group[0] == '\0')
		return complain(-ENODEV,
			"port %s: this machine has no IOMMU for %s, and vfio-pci needs one: turn "
			"on VT-d "
			"or AMD-Vi in the firmware (in a virtual machine: a virtual IOMMU), and "
			"boot with "
			"intel_iommu=on (docs/nics.md)",
			port, device);
	snprintf(why, sizeof(why),
		driver[0] == '\0' ? "has no driver%s" : "belongs to the kernel's driver %s",
		driver);
	return complain(-ENODEV,
		"port %s: %s %s, and DPDK cannot use it: %sdpdk-devbind.py -b vfio-pci %s (package "
		"dpdk; "
		"docs/nics.md)",
		port, device, why, access(VFIO, F_OK) == 0 ? "" : "modprobe vfio-pci, then ",
		device);
}

static int
check_group(const char *port, const char *device, const char *group)
{
	char path[64];
	int fd, rc;

	snprintf(path, sizeof(path), "/dev/vfio/%s", group);
	if (access(path, F_OK) != 0) /* without an IOMMU, where the kernel allows it */
		snprintf(path, sizeof(path), "/dev/vfio/noiommu-%s", group);
	fd = open(path, O_RDWR | O_CLOEXEC);
	rc = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	if (rc == -EBUSY)
		return complain(rc,
			"port %s: another process uses %s: stop it, or choose another port", port,
			device);
	if (rc < 0)
		return complain(rc,
			"port %s: %s, which %s belongs to, cannot be opened (%s): run as root, or "
			"let "
			"this user open it",
			port, path, device, strerror(-rc));
	return 0;
}

static int
check_card(const struct ctrl_config *config, unsigned int p)
{
	const char *port = config->port[p].name, *device = config->port_more[p].device;
	char path[PATH_MAX], driver[64], group[32];
	int rc;

	snprintf(path, sizeof(path), DEVICES "/%s", device);
	if (access(path, F_OK) < 0)
		return complain(-ENODEV,
			"port %s: there is no PCI device %s: dpdk-devbind.py --status-dev net "
			"(package "
			"dpdk) lists those of this machine",
			port, device);
	if (has_eal_option(config, "--no-pci"))
		return complain(-EINVAL,
			"port %s is the PCI device %s: remove \"--no-pci\" from \"eal\"", port,
			device);
	read_link(device, "driver", driver, sizeof(driver));
	read_link(device, "iommu_group", group, sizeof(group));
	rc = check_binding(port, device, driver, group);
	return rc == 0 && strcmp(driver, "vfio-pci") == 0 ? check_group(port, device, group) : rc;
}

/* A vmxnet3 fills a second ring with as many buffers. A configuration does not know what a device is. */
static int
check_second_rings(const struct ctrl_config *config)
{
	uint64_t least = ctrl_packets_least(config);

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		const char *device = config->port_more[p].device;

		if (config->port_more[p].pci &&
			(read_id(device, "vendor") << 16 | read_id(device, "device")) == VMXNET3)
			least += (uint64_t)config->port[p].rx_queues *
				config->port[p].rx_descriptors;
	}
	if (config->ppe.packets >= least)
		return 0;
	return complain(-EINVAL,
		"pools.packets: %u packets are too few: a vmxnet3 has two receive rings for each "
		"queue, and "
		"%" PRIu64 " packets are needed",
		config->ppe.packets, least);
}

int
check_cards(const struct ctrl_config *config)
{
	int rc = 0;

	for (unsigned int p = 0; rc == 0 && p < config->nb_ports; p++)
		if (config->port_more[p].pci)
			rc = check_card(config, p);
	return rc == 0 ? check_second_rings(config) : rc;
}
