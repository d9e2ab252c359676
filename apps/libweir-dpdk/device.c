/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir-dpdk/device.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include <rte_alarm.h>
#include <rte_arp.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf_pool_ops.h>

#include "pktbuf/head_fast.h"
#include "pktbuf/memif.h"
#include "pktbuf/sum_priv.h"

#define WORDS_MAX     64
#define CONNECT_AGAIN UINT64_C(200000000) /* ns; no process listens */
#define HANDSHAKE     UINT64_C(3000000000) /* ns; the driver crashes if it is stopped meanwhile */
#define TX_MBUFS      1023
#define XDP_MBUFS                                                                                  \
	8191 /* its rings, which it fills at once, hold 2048 each way; and as many are on their way */
#define REFER_LEAST   256 /* bytes: less is copied */
#define MTU_LEAST     576
#define MTU_MOST      9600
#define CLASSIC_FRAME 1518
#define BUFFER_LEAST  2048 /* what drivers with rings of their own copy at once */

struct device device = {.receiving = PTHREAD_MUTEX_INITIALIZER,
	.sending = PTHREAD_MUTEX_INITIALIZER,
	.ends = TAILQ_HEAD_INITIALIZER(device.ends)};

/* ---- opening ---- */

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct rte_mbuf_ext_shared_info attached = {.refcnt = 1};

/* It is never called: the count does not fall to 0. */
static void
released(void *bytes, void *argument)
{
	RTE_SET_USED(bytes);
	RTE_SET_USED(argument);
}

static const char *
setting(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/*
 * EAL's arguments: ours, and those of WEIR_DPDK. One lcore, as no thread of ours is one; and no files that another
 * process could meet.
 */
static int
start_eal(char *text, size_t size)
{
	static char words[4096]; /* EAL keeps pointers into them */
	const char *given = setting("WEIR_DPDK");
	char cpu[16], prefix[48], *rest = words, *word;
	/* The driver of memif warns that processes do not share the port. */
	static const char *const first[] = {"weir", "--no-telemetry", "--no-shconf",
		"--log-level=warning", "--log-level=pmd.net.memif:error"};
	char *argv[WORDS_MAX + 1] = {NULL};
	int argc = 0, rc;
	bool cores = false;
	cpu_set_t cpus;

	if (strlcpy(words, given != NULL ? given : "", sizeof(words)) >= sizeof(words)) {
		snprintf(text, size, "WEIR_DPDK has more than %zu characters", sizeof(words) - 1);
		return -EINVAL;
	}
	for (unsigned int i = 0; i < RTE_DIM(first); i++)
		argv[argc++] = (char *)(uintptr_t)first[i];
	argv[argc++] = prefix;
	snprintf(prefix, sizeof(prefix), "--file-prefix=weir_host_%d", (int)getpid());
	while ((word = strsep(&rest, " \t\n")) != NULL) {
		if (word[0] == '\0' || argc > WORDS_MAX - 3)
			continue;
		cores |= strncmp(word, "-l", 2) == 0 || strncmp(word, "-c", 2) == 0 ||
			strncmp(word, "--lcores", 8) == 0;
		argv[argc++] = word;
	}
	pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	for (int i = 0; !cores && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus)) {
			snprintf(cpu, sizeof(cpu), "0@%d", i);
			argv[argc++] = (char *)(uintptr_t) "--lcores";
			argv[argc++] = cpu;
			break;
		}
	rc = rte_eal_init(argc, argv);
	/* EAL leaves its folder; without shared files it is empty. */
	rmdir(rte_eal_get_runtime_dir());
	/* EAL binds the thread to its lcore. */
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	if (rc >= 0 || rte_errno == EALREADY)
		return 0;
	rc = rte_errno != 0 ? -rte_errno : -EIO;
	snprintf(text, size,
		"DPDK does not start: %s; its reasons are on standard error. Its arguments are in "
		"WEIR_DPDK (\"%s\"); without huge pages they need --no-huge",
		rte_strerror(-rc), given != NULL ? given : "");
	return rc;
}

/* The device that WEIR_DPDK_PORT names, or the only one. */
static int
choose(char name[RTE_ETH_NAME_MAX_LEN], char *text, size_t size)
{
	const char *wanted = setting("WEIR_DPDK_PORT");
	uint16_t id = RTE_MAX_ETHPORTS, found;
	char all[256] = "";

	RTE_ETH_FOREACH_DEV (found) {
		rte_eth_dev_get_name_by_port(found, name);
		strlcat(all, " ", sizeof(all));
		strlcat(all, name, sizeof(all));
		id = wanted == NULL || strcmp(wanted, name) == 0 ? found : id;
	}
	if (all[0] == '\0') {
		snprintf(text, size,
			"DPDK has no device: WEIR_DPDK names one, such as "
			"\"--no-huge --no-pci --vdev=net_memif0,role=client,id=0,socket=/run/weir/"
			"h0.sock,socket-abstract=no\"");
		return -ENODEV;
	}
	if (id == RTE_MAX_ETHPORTS || (wanted == NULL && strchr(all + 1, ' ') != NULL)) {
		snprintf(text, size, "%s%s: DPDK has%s; WEIR_DPDK_PORT names the one to use",
			wanted != NULL ? "no device " : "which device?",
			wanted != NULL ? wanted : "", all);
		return -ENODEV;
	}
	rte_eth_dev_get_name_by_port(id, name);
	return 0;
}

static int
read_settings(char *text, size_t size)
{
	const char *idle = setting("WEIR_DPDK_IDLE"), *mac = setting("WEIR_DPDK_SWITCH_MAC"),
		   *mtu = setting("WEIR_DPDK_MTU");
	struct rte_ether_addr address;
	char *end = NULL;
	unsigned long value = mtu != NULL ? strtoul(mtu, &end, 10) : 0;

	/* Its driver takes an mbuf's memory for its own: what refers to a user's buffer goes wrong. */
	if (setting("WEIR_DPDK") != NULL && strstr(setting("WEIR_DPDK"), "zero-copy=yes") != NULL) {
		snprintf(text, size,
			"WEIR_DPDK: memif with zero-copy=yes is not supported: leave it out");
		return -EINVAL;
	}
	if (mtu != NULL && (*end != '\0' || value < MTU_LEAST || value > MTU_MOST)) {
		snprintf(text, size, "WEIR_DPDK_MTU: \"%s\" is no number in [%d, %d]", mtu,
			MTU_LEAST, MTU_MOST);
		return -EINVAL;
	}
	if (mac != NULL && rte_ether_unformat_addr(mac, &address) < 0) {
		snprintf(text, size,
			"WEIR_DPDK_SWITCH_MAC: \"%s\" is no MAC address such as 02:57:45:49:52:01",
			mac);
		return -EINVAL;
	}
	if (idle != NULL && strcmp(idle, "spin") != 0 && strcmp(idle, "yield") != 0 &&
		strcmp(idle, "sleep") != 0) {
		snprintf(text, size, "WEIR_DPDK_IDLE: \"%s\" is not spin, yield or sleep", idle);
		return -EINVAL;
	}
	device.mtu = (uint16_t)value;
	device.switch_mac = 0;
	if (mac != NULL)
		memcpy(&device.switch_mac, &address, sizeof(address));
	device.idle = idle == NULL || idle[1] == 'l' ? IDLE_SLEEP
		: idle[0] == 's'                     ? IDLE_SPIN
						     : IDLE_YIELD;
	return 0;
}

/* The MTU to set, 0: none. Devices that report the largest frame of old Ethernet carry longer ones (net_memif,
 * net_af_packet), or say no. */
static uint16_t
find_mtu(uint16_t id, const struct rte_eth_dev_info *info)
{
	uint16_t wanted = device.mtu;

	if (wanted == 0) {
		rte_eth_dev_get_mtu(id, &device.mtu);
		return 0;
	}
	return info->max_rx_pktlen == CLASSIC_FRAME && wanted > RTE_ETHER_MTU ? 0 : wanted;
}

/* Drivers that copy while they take a frame: memory that an mbuf refers to needs no IOVA. */
static bool
copies(const char *name, const struct rte_eth_dev_info *info)
{
	return PKTBUF_MEMIF_CHAINS && strncmp(name, PKTBUF_MEMIF, strlen(PKTBUF_MEMIF)) == 0 &&
		(info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
}

/* EAL's interrupt thread: no thread of the program receives or sends now. */
static void
wait_for_users(void *arg)
{
	RTE_SET_USED(arg);
	pthread_mutex_lock(&device.receiving);
	pthread_mutex_lock(&device.sending);
	pthread_mutex_unlock(&device.sending);
	pthread_mutex_unlock(&device.receiving);
}

static int
open_port(char *text, size_t size)
{
	struct pktbuf_port_config config = {.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = RX_DESCRIPTORS,
		.tx_descriptors = RX_DESCRIPTORS};
	struct rte_eth_dev_info info;
	unsigned int room;
	uint16_t id = 0;
	int rc = choose(config.device, text, size);

	if (rc < 0)
		return rc;
	strlcpy(config.name, config.device, sizeof(config.name));
	rc = rte_eth_dev_get_port_by_name(config.device, &id);
	if (rc == 0)
		rc = rte_eth_dev_info_get(id, &info);
	if (rc == 0) {
		config.mtu = find_mtu(id, &info);
		device.refers = copies(config.device, &info);
		room = RTE_MAX(device.mtu + RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN, BUFFER_LEAST);
		device.rx = pktbuf_stack_pool("weir_host_rx",
			strncmp(config.device, "net_af_xdp", 10) == 0 ? XDP_MBUFS : RX_MBUFS, room,
			0);
		device.tx = pktbuf_stack_pool("weir_host_tx", TX_MBUFS, room, 0);
		rc = device.rx == NULL || device.tx == NULL ? -ENOMEM : 0;
	}
	if (rc == 0)
		rc = pktbuf_port_open(&device.port, &config, device.rx);
	device.connects = strncmp(config.device, PKTBUF_MEMIF, strlen(PKTBUF_MEMIF)) == 0;
	if (device.connects)
		pktbuf_memif_guard(wait_for_users, NULL);
	if (rc == 0) {
		rc = pktbuf_port_start(&device.port);
		device.started = rc == 0;
		device.connect_at = now_ns() + (device.started ? HANDSHAKE : 0);
		/* No switch is there yet. */
		rc = device.connects ? 0 : rc;
	}
	if (rc < 0)
		snprintf(text, size, "the device %s (WEIR_DPDK) cannot be used: %s%s",
			config.device, rte_strerror(-rc),
			rc == -ENOMEM ? "; -m in WEIR_DPDK says how many MB it may use" : "");
	return rc;
}

int
device_open(char *text, size_t size)
{
	static char failure[512];
	static int failed; /* DPDK starts once in a process */
	int rc = 0;

	pthread_mutex_lock(&opening);
	if (device.process == 0) {
		attached.free_cb = released;
		rc = read_settings(text, size);
		if (rc == 0 && failed == 0) {
			failed = start_eal(failure, sizeof(failure));
			if (failed == 0)
				failed = open_port(failure, sizeof(failure));
			device.process = failed == 0 ? getpid() : 0;
		}
		if (rc == 0 && failed < 0) {
			rc = failed;
			strlcpy(text, failure, size);
		}
	} else if (device.process != getpid()) {
		rc = -EBUSY;
		snprintf(text, size,
			"the device is of the process that has forked this one; a child that uses "
			"DPDK must call exec first");
	}
	pthread_mutex_unlock(&opening);
	return rc;
}

static void
set_started(bool started, uint64_t connect_at)
{
	pthread_mutex_lock(&device.receiving);
	pthread_mutex_lock(&device.sending);
	device.started = started;
	device.connect_at = connect_at;
	pthread_mutex_unlock(&device.sending);
	pthread_mutex_unlock(&device.receiving);
}

/* In EAL's interrupt thread, as all that the driver of memif does. A switch that stands still keeps it waiting, but nobody
 * else: it holds no lock. */
static void
connect_again(void *arg)
{
	RTE_SET_USED(arg);
	set_started(false, UINT64_MAX);
	(void)rte_eth_dev_stop(device.port.id);
	if (rte_eth_dev_start(device.port.id) == 0)
		set_started(true, now_ns() + HANDSHAKE);
	else
		set_started(false, now_ns() + CONNECT_AGAIN);
}

bool
device_is_down(uint64_t now)
{
	struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};
	bool down;

	if (device.started && rte_eth_link_get_nowait(device.port.id, &link) < 0)
		return false;
	pthread_mutex_lock(&device.receiving);
	down = link.link_status == RTE_ETH_LINK_DOWN;
	if (!down)
		device.connect_at = 0;
	else if (device.connects && now >= device.connect_at)
		device.connect_at = rte_eal_alarm_set(1, connect_again, NULL) == 0
			? UINT64_MAX
			: now + CONNECT_AGAIN;
	pthread_mutex_unlock(&device.receiving);
	return down;
}

/* ---- ARP ---- */

static void
send_arp(struct rte_mbuf *m, uint16_t opcode, const struct rte_ether_addr *to, rte_be32_t own,
	const struct rte_ether_addr *target, rte_be32_t target_ip)
{
	struct rte_ether_hdr *ether;
	struct rte_arp_hdr *arp;

	if (m == NULL)
		return;
	ether = (void *)rte_pktmbuf_append(m, RTE_ETHER_MIN_LEN - RTE_ETHER_CRC_LEN);
	arp = (void *)(ether + 1);
	memset(ether, 0, RTE_ETHER_MIN_LEN - RTE_ETHER_CRC_LEN);
	ether->dst_addr = *to;
	ether->src_addr = device.port.mac;
	ether->ether_type = RTE_BE16(RTE_ETHER_TYPE_ARP);
	*arp = (struct rte_arp_hdr){.arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER),
		.arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4),
		.arp_hlen = RTE_ETHER_ADDR_LEN,
		.arp_plen = sizeof(own),
		.arp_opcode = rte_cpu_to_be_16(opcode),
		.arp_data = {.arp_sha = device.port.mac,
			.arp_sip = own,
			.arp_tha = *target,
			.arp_tip = target_ip}};
	if (!device.started || rte_eth_tx_burst(device.port.id, 0, &m, 1) == 0)
		rte_pktmbuf_free(m);
}

void
device_ask(const struct end *end)
{
	const struct rte_ether_addr all = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, none = {{0}};

	pthread_mutex_lock(&device.sending);
	send_arp(rte_pktmbuf_alloc(device.tx), RTE_ARP_OP_REQUEST, &all, end->own, &none,
		end->switch_address);
	pthread_mutex_unlock(&device.sending);
}

static uint64_t
mac_of(const struct rte_ether_addr *address)
{
	uint64_t mac = 0;

	memcpy(&mac, address, sizeof(*address));
	return mac;
}

static void
take_arp(const struct rte_mbuf *m, uint64_t now)
{
	const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, const void *);
	const struct rte_arp_hdr *arp = (const void *)(ether + 1);
	const struct rte_arp_ipv4 *data = &arp->arp_data;
	struct end *end;

	if (rte_pktmbuf_data_len(m) < sizeof(*ether) + sizeof(*arp) ||
		arp->arp_hardware != RTE_BE16(RTE_ARP_HRD_ETHER) ||
		arp->arp_protocol != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
		arp->arp_hlen != RTE_ETHER_ADDR_LEN || arp->arp_plen != sizeof(data->arp_sip) ||
		!rte_is_unicast_ether_addr(&data->arp_sha) ||
		rte_is_zero_ether_addr(&data->arp_sha))
		return;
	TAILQ_FOREACH (end, &device.ends, link)
		if (data->arp_tip == end->own && data->arp_sip == end->switch_address &&
			device.switch_mac == 0) {
			__atomic_store_n(
				&end->switch_mac, mac_of(&data->arp_sha), __ATOMIC_RELAXED);
			__atomic_store_n(&end->heard_at, now, __ATOMIC_RELAXED);
		}
	if (arp->arp_opcode != RTE_BE16(RTE_ARP_OP_REQUEST))
		return;
	TAILQ_FOREACH (end, &device.ends, link)
		if (data->arp_tip == end->own) {
			pthread_mutex_lock(&device.sending);
			send_arp(rte_pktmbuf_alloc(device.tx), RTE_ARP_OP_REPLY, &data->arp_sha,
				end->own, &data->arp_sha, data->arp_sip);
			pthread_mutex_unlock(&device.sending);
			return;
		}
}

/* ---- receiving ---- */

/* False: its inbox is full. */
static bool
put(struct end *end, struct rte_mbuf *m, uint64_t now)
{
	if (end->tail - end->head == INBOX)
		return false;
	end->inbox[end->tail++ % INBOX] = m;
	/* A thread that polls looks anyway, and so does one that has been told. */
	if (end->rings_at > now && !__atomic_load_n(&end->polls, __ATOMIC_RELAXED))
		end_ring(end, 1);
	return true;
}

/* Each end that the datagram is for gets it: several may be in a group. */
static void
take_datagram(struct rte_mbuf *m, const struct pktbuf_head *head, uint64_t now)
{
	const struct frame *frame = (const void *)head->bytes;
	rte_be32_t to = frame->ip.dst_addr;
	struct end *end;
	bool taken = false;

	rte_pktmbuf_adj(m, head->payload);
	rte_pktmbuf_trim(m, (uint16_t)(rte_pktmbuf_data_len(m) - head->payload_length));
	TAILQ_FOREACH (end, &device.ends, link) {
		if (!((to == end->own && frame->udp.dst_port == end->port) ||
			    (to == end->group && frame->udp.dst_port == end->group_port)))
			continue;
		if (frame->ip.src_addr == end->switch_address)
			__atomic_store_n(&end->heard_at, now, __ATOMIC_RELAXED);
		if (put(end, m, now)) {
			if (taken)
				rte_mbuf_refcnt_update(m, 1);
			taken = true;
		}
	}
	if (!taken)
		rte_pktmbuf_free(m);
}

unsigned int
device_poll(void)
{
	struct rte_mbuf *frames[BURST];
	uint16_t n = device.started ? pktbuf_port_rx(&device.port, 0, frames, BURST) : 0;
	uint64_t now = n > 0 ? now_ns() : 0;
	struct pktbuf_head head;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = frames[i];

		/* Mbufs hold the longest frame: what has more segments is longer. Fragments are no head of UDP. */
		if (pktbuf_head_parse_udp(&head, m) && m->nb_segs == 1 &&
			pktbuf_checksum_verify(&device.port, m, &head) == PKTBUF_CHECKSUM_GOOD) {
			take_datagram(m, &head, now);
			continue;
		}
		if (rte_pktmbuf_data_len(m) >= RTE_ETHER_HDR_LEN &&
			rte_pktmbuf_mtod(m, const struct rte_ether_hdr *)->ether_type ==
				RTE_BE16(RTE_ETHER_TYPE_ARP))
			take_arp(m, now);
		rte_pktmbuf_free(m);
	}
	return n;
}

/* ---- sending ---- */

void
device_address(struct end *end, uint64_t mac)
{
	struct frame *f = &end->frame;

	*f = (struct frame){
		.ether = {.src_addr = device.port.mac, .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4)},
		.ip = {.version_ihl = RTE_IPV4_VHL_DEF,
			.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
			.time_to_live = 64,
			.next_proto_id = IPPROTO_UDP,
			.src_addr = end->own,
			.dst_addr = end->switch_address},
		.udp = {.src_port = end->port}};
	memcpy(&f->ether.dst_addr, &mac, sizeof(f->ether.dst_addr));
	end->ip_sum = pktbuf_sum_bytes(&f->ip, sizeof(f->ip));
	end->pseudo_sum = pktbuf_sum_bytes(&f->ip.src_addr, 8) + RTE_BE16(IPPROTO_UDP);
}

/* Refer to the only lasting piece, the second and last of the datagram. False: no mbuf. */
static bool
refer(struct rte_mbuf *m, const struct iovec *piece)
{
	struct rte_mbuf *more = rte_pktmbuf_alloc(device.tx);

	if (more == NULL)
		return false;
	rte_mbuf_ext_refcnt_update(&attached, 1);
	rte_pktmbuf_attach_extbuf(
		more, piece->iov_base, RTE_BAD_IOVA, (uint16_t)piece->iov_len, &attached);
	more->data_len = (uint16_t)piece->iov_len;
	m->next = more;
	m->nb_segs = 2;
	m->pkt_len += (uint32_t)piece->iov_len;
	return true;
}

/* The checksums of a frame whose payload begins in m. */
static void
checksums(const struct end *end, struct rte_mbuf *m, struct frame *f, const struct iovec *referred)
{
	uint32_t sum;

	if (device.port.tx_checksum == PKTBUF_CHECKSUM_OFFLOAD) {
		m->l2_len = sizeof(f->ether);
		m->l3_len = sizeof(f->ip);
		m->ol_flags |=
			RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
		f->udp.dgram_cksum = pktbuf_sum_fold(end->pseudo_sum + f->udp.dgram_len);
		return;
	}
	f->ip.hdr_checksum = (uint16_t)~pktbuf_sum_fold(end->ip_sum + f->ip.total_length);
	sum = end->pseudo_sum + f->udp.dgram_len +
		pktbuf_sum_bytes(&f->udp, m->data_len - offsetof(struct frame, udp));
	if (referred != NULL)
		sum += pktbuf_sum_bytes(referred->iov_base, referred->iov_len);
	sum = pktbuf_sum_fold(sum);
	/* A sum of 0 is sent as all ones: 0 would mean "not computed" (RFC 768). */
	f->udp.dgram_cksum = sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

/* NULL: no mbuf. */
static struct rte_mbuf *
build(const struct end *end, const struct weir_tx *tx)
{
	const struct iovec *pieces = tx->pieces;
	bool refers = device.refers && tx->lasting == 1 && tx->count == 2 &&
		pieces[0].iov_len % 2 == 0 && pieces[1].iov_len >= REFER_LEAST;
	struct rte_mbuf *m = rte_pktmbuf_alloc(device.tx);
	struct frame *f;
	uint8_t *to;

	if (m == NULL)
		return NULL;
	f = rte_pktmbuf_mtod(m, struct frame *);
	*f = end->frame;
	f->ip.total_length = rte_cpu_to_be_16((uint16_t)(tx->bytes + 28));
	f->udp.dst_port = tx->port;
	f->udp.dgram_len = rte_cpu_to_be_16((uint16_t)(tx->bytes + 8));
	to = (uint8_t *)(f + 1);
	for (unsigned int i = 0; i < tx->count - refers; i++) {
		memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
		to += pieces[i].iov_len;
	}
	m->data_len = (uint16_t)(to - (uint8_t *)f);
	m->pkt_len = m->data_len;
	if (refers && !refer(m, &pieces[1])) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	checksums(end, m, f, refers ? &pieces[1] : NULL);
	return m;
}

unsigned int
device_send(struct end *end, const struct weir_tx *tx, unsigned int n)
{
	struct rte_mbuf *frames[BURST];
	unsigned int made = 0, sent;

	pthread_mutex_lock(&device.sending);
	while (device.started && made < n && (frames[made] = build(end, &tx[made])) != NULL)
		made++;
	sent = made > 0 ? rte_eth_tx_burst(device.port.id, 0, frames, (uint16_t)made) : 0;
	for (unsigned int i = sent; i < made; i++)
		rte_pktmbuf_free(frames[i]);
	pthread_mutex_unlock(&device.sending);
	return sent;
}
