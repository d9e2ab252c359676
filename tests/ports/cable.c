/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cable from a device of DPDK to a TAP interface of the kernel: what is behind it is an ordinary host, with ping, raw
 * sockets, UDP and counters, whatever the switch's port is.
 *
 *	cable INTERFACE EAL-ARGUMENT...
 *
 * It makes the interface, says "cable: ready" when the device's link is up, and carries frames until it is killed.
 * After SIGUSR1 it takes no frames from the device: a host that does not read. SIGUSR2 ends that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define FRAME_MOST  10000u
#define MBUFS       1535u
#define DESCRIPTORS 512u
#define BURST       32u
#define NAP_LEAST   20000 /* ns; each nap is longer than the one before */
#define NAP_MOST    2560000

static volatile sig_atomic_t deaf;

static void
hear(int number)
{
	deaf = number == SIGUSR1;
}

static int
fail(const char *what, int error)
{
	fprintf(stderr, "cable: %s: %s\n", what, rte_strerror(error));
	return 1;
}

static int
open_tap(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* 0 or -errno. A device that connects to a switch which is not there yet starts later. */
static int
start_device(struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
	int rc = rte_eth_dev_info_get(0, &info);

	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (rc == 0)
		rc = rte_eth_dev_configure(0, 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(0, &rx, &tx);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(0, 0, rx, SOCKET_ID_ANY, NULL, pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(0, 0, tx, SOCKET_ID_ANY, NULL);
	if (rc == 0)
		rc = rte_eth_dev_start(0);
	if (rc == 0)
		rte_eth_promiscuous_enable(0);
	return rc;
}

static bool
is_up(void)
{
	struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};

	return rte_eth_link_get_nowait(0, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/* Frames of the kernel to the device; what it does not take is lost. */
static unsigned int
to_device(int tap, struct rte_mempool *pool)
{
	unsigned int n = 0;

	for (; n < BURST; n++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		ssize_t length =
			m == NULL ? -1 : read(tap, rte_pktmbuf_mtod(m, void *), FRAME_MOST);

		if (length <= 0) {
			rte_pktmbuf_free(m);
			break;
		}
		rte_pktmbuf_append(m, (uint16_t)length);
		if (rte_eth_tx_burst(0, 0, &m, 1) == 0)
			rte_pktmbuf_free(m);
	}
	return n;
}

static unsigned int
from_device(int tap)
{
	static uint8_t copy[UINT16_MAX];
	struct rte_mbuf *frames[BURST];
	unsigned int n = deaf ? 0 : rte_eth_rx_burst(0, 0, frames, BURST);

	for (unsigned int i = 0; i < n; i++) {
		const void *bytes = rte_pktmbuf_read(frames[i], 0, frames[i]->pkt_len, copy);

		/* An interface that is down, or full, takes none. */
		if (bytes != NULL && write(tap, bytes, frames[i]->pkt_len) < 0 && errno == EBADFD)
			exit(fail("the interface", errno));
		rte_pktmbuf_free(frames[i]);
	}
	return n;
}

int
main(int argc, char **argv)
{
	struct timespec nap = {.tv_nsec = NAP_MOST};
	struct rte_mempool *pool;
	struct pollfd tap;

	if (argc < 2)
		return fail("an interface is missing", EINVAL);
	tap = (struct pollfd){.fd = open_tap(argv[1]), .events = POLLIN};
	if (tap.fd < 0)
		return fail(argv[1], errno);
	signal(SIGUSR1, hear);
	signal(SIGUSR2, hear);
	if (rte_eal_init(argc - 1, argv + 1) < 0)
		return fail("EAL", rte_errno);
	pool = rte_pktmbuf_pool_create("cable", MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + FRAME_MOST, 0);
	if (pool == NULL)
		return fail("the packet pool", rte_errno);
	for (int rc; (rc = start_device(pool)) < 0; nanosleep(&nap, NULL))
		if (rc != -ECONNREFUSED && rc != -ENOENT && rc != -1)
			return fail("the device", -rc);
	while (!is_up())
		nanosleep(&nap, NULL);
	puts("cable: ready");
	fflush(stdout);
	for (;;) {
		if (to_device(tap.fd, pool) + from_device(tap.fd) > 0) {
			nap.tv_nsec = NAP_LEAST;
			continue;
		}
		ppoll(&tap, 1, &nap, NULL);
		nap.tv_nsec = RTE_MIN(2 * nap.tv_nsec, (long)NAP_MOST);
	}
}
