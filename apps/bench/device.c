/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "pktbuf/pool.h"

#define START_LIMIT_MS 10000
#define END_LIMIT_MS   5000
#define MEMORY_MB      96 /* of each: generator, switch, testpmd */
#define WORDS_BYTES    2048
#define BUFFER_LEAST   2048 /* what DPDK's mbufs have, so that short frames have no advantage */
#define POOL_PACKETS   2047
#define POOL_CACHE     256
#define SNAP_BYTES     66 /* of a frame of net_af_packet's ring, before the data */

const char *device_over = "memif", *device_checksum = "software";
static const char *idle = "spin", *weir_switch;
static uint64_t slots = 512;

const struct option_row device_options[] = {
	{.help = "Devices:"},
	{"over", 0, OPTION_CHOICE, &device_over, 0, 0, "memif|af_packet",
		"driver of the ports between generator and device"},
	{"slots", 0, OPTION_UINT, &slots, 64, 16384, NULL,
		"memif: slots of a ring, a power of two"},
	{"idle", 0, OPTION_CHOICE, &idle, 0, 0, "spin|yield|sleep",
		"what the switch's worker does without work"},
	{"rx-checksum", 0, OPTION_CHOICE, &device_checksum, 0, 0, "software|off",
		"whether the switch verifies the checksums of contributions"},
	{"switch", 0, OPTION_TEXT, &weir_switch, 0, 0, "PATH",
		"weir-switch; by default the one beside weir-bench, or in PATH"},
	{0},
};

static volatile sig_atomic_t interrupted;
static cpu_set_t cpus; /* of this process, as it was started */
static char folder[DEVICE_PATH];
static bool in_eal;

static void
take_note(int number)
{
	interrupted = number;
}

bool
device_interrupted(void)
{
	return interrupted != 0;
}

static void __attribute__((noreturn))
become(const struct device *device, int input, const char *const *argv)
{
	int log = open(device->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The bench passes on an interrupt at the terminal. */
	setpgid(0, 0);
	/* EAL has bound the bench to one CPU. */
	sched_setaffinity(0, sizeof(cpus), &cpus);
	dup2(input, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	/* What the bench has open (shared memory, sockets) is not the device's. */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	execvp(argv[0], (char **)(uintptr_t)argv);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Run argv, NULL-terminated, output to FOLDER/NAME.log. 0, or -1 after a line. */
static int
run(struct device *device, const char *name, const char *const *argv)
{
	int ends[2];

	device->name = name;
	snprintf(device->log, sizeof(device->log), "%.200s/%.40s.log", folder, name);
	if (pipe2(ends, O_CLOEXEC) == 0) {
		device->input = ends[1];
		fflush(NULL);
		device->pid = fork();
		if (device->pid == 0)
			become(device, ends[0], argv);
		close(ends[0]);
		if (device->pid > 0)
			return 0;
		close(ends[1]);
	}
	warn("%s does not start", name);
	device->pid = 0;
	return -1;
}

static bool
alive(const struct device *device)
{
	siginfo_t info = {0};

	return device->pid > 0 &&
		waitid(P_PID, (id_t)device->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == 0;
}

/* Its last lines of output, on standard error. */
static void
last_words(const struct device *device)
{
	char text[WORDS_BYTES];
	FILE *file = fopen(device->log, "re");
	size_t length = 0;

	if (file != NULL) {
		if (fseek(file, -(long)(sizeof(text) - 1), SEEK_END) < 0)
			rewind(file);
		length = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[length] = '\0';
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
		if (line[0] != '\0')
			fprintf(stderr, "  %s: %s\n", device->name, line);
}

void
device_deselect(struct device *device)
{
	siginfo_t info;

	if (device->pid == 0 || device->paused)
		return;
	kill(device->pid, SIGSTOP);
	/* It ends or stops; it can delay neither. */
	waitid(P_PID, (id_t)device->pid, &info, WSTOPPED | WEXITED | WNOWAIT);
	device->paused = true;
}

void
device_select(struct device *device)
{
	if (device->pid == 0 || !device->paused)
		return;
	kill(device->pid, SIGCONT);
	device->paused = false;
}

/* SIGTERM, and SIGKILL when that does not help in time. Its exit status, -1 when a signal ended it.
 * Without a process: 0. */
static int
end(struct device *device)
{
	int status = 0;

	if (device->pid == 0)
		return 0;
	device_select(device);
	close(device->input);
	kill(device->pid, SIGTERM);
	for (unsigned int ms = 0; ms < END_LIMIT_MS && alive(device); ms += 5)
		usleep(5000);
	if (alive(device)) {
		warnx("%s does not end and is killed", device->name);
		kill(device->pid, SIGKILL);
	}
	waitpid(device->pid, &status, 0);
	device->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Arguments of the two ends of port p. An abstract socket leaves no file. The driver listens on it as
 * long as this process lives: another link needs another name. */
static void
memif_ends(struct link *link, unsigned int p, unsigned int serial, char ours[LINK_ARGUMENTS])
{
	char both[LINK_ARGUMENTS / 2];

	snprintf(both, sizeof(both),
		"id=%u,bsize=%u,rsize=%u,socket-abstract=yes,socket=weir_%d_%u", p,
		link->buffer_bytes, (unsigned int)__builtin_ctzll(slots), (int)getpid(), serial);
	snprintf(ours, LINK_ARGUMENTS, "role=server,%s", both);
	snprintf(link->device[p], LINK_ARGUMENTS, "net_memif%u,role=client,%s", p, both);
}

/*
 * net_af_packet takes (process id xor interface index) mod 2^16 for the number of its fan-out group,
 * and the kernel refuses the same number for two interfaces of a namespace. Processes that are
 * started one after the other have ids that differ in low bits: so the indexes of two links, the most
 * that are open at a time, differ in bits 12 to 15.
 */
static unsigned int
interface_index(unsigned int serial, unsigned int p, bool device)
{
	return ((serial % 2 * LINK_PORTS + p) * 2 + device + 1) << 12 | serial % 4096;
}

static int
af_packet_ends(struct link *link, unsigned int frame_bytes, unsigned int p, unsigned int serial,
	char ours[LINK_ARGUMENTS])
{
	unsigned int frame = RTE_ALIGN(frame_bytes + SNAP_BYTES, 4096u);
	char command[512], rings[64];

	link->veth = serial;
	snprintf(command, sizeof(command),
		"ip link add g%up%u index %u mtu 9000 type veth peer name d%up%u index %u mtu 9000 "
		"&& ip link set g%up%u up arp off && ip link set d%up%u up arp off",
		serial, p, interface_index(serial, p, false), serial, p,
		interface_index(serial, p, true), serial, p, serial, p);
	if (system(command) != 0) {
		warnx("veth pairs can't be made: is ip there?");
		return -1;
	}
	snprintf(rings, sizeof(rings), "framesz=%u,blocksz=%u,framecnt=512", frame, frame);
	snprintf(ours, LINK_ARGUMENTS, "iface=g%up%u,%s", serial, p, rings);
	snprintf(link->device[p], LINK_ARGUMENTS, "net_af_packet%u,iface=d%up%u,%s", p, serial, p,
		rings);
	link->buffer_bytes = RTE_MAX(link->buffer_bytes, frame);
	return 0;
}

static int
open_port(struct link *link, unsigned int serial, const char *arguments)
{
	unsigned int p = link->ports;
	struct rte_eth_conf conf = {0};
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "net_%s_g%up%u", device_over, serial, p);
	rc = rte_eal_hotplug_add("vdev", name, arguments);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(name, &link->port[p]);
	if (rc < 0)
		return rc;
	link->ports++;
	rc = rte_eth_dev_configure(link->port[p], 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(link->port[p], 0, 512, 0, NULL, link->pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(link->port[p], 0, 512, 0, NULL);
	return rc == 0 ? rte_eth_dev_start(link->port[p]) : rc;
}

static void
link_close(struct link *link)
{
	for (unsigned int p = 0; p < link->ports; p++) {
		char name[RTE_ETH_NAME_MAX_LEN];

		rte_eth_dev_get_name_by_port(link->port[p], name);
		rte_eth_dev_stop(link->port[p]);
		rte_eal_hotplug_remove("vdev", name);
		snprintf(name, sizeof(name), "ip link del g%up%u", link->veth, p);
		if (link->veth != 0 && system(name) != 0)
			warnx("%s failed", name);
	}
	link->ports = 0;
	rte_mempool_free(link->pool);
	link->pool = NULL;
}

/* Make the ports; those of memif listen for the device then. 0, or -1 after a line. */
static int
link_open(struct link *link, unsigned int frame_bytes)
{
	char ours[LINK_PORTS][LINK_ARGUMENTS], name[RTE_MEMPOOL_NAMESIZE];
	static unsigned int serial;
	int rc = 0;

	serial++;
	*link = (struct link){
		.buffer_bytes = RTE_MAX((unsigned int)BUFFER_LEAST, RTE_ALIGN(frame_bytes, 128u))};
	for (unsigned int p = 0; p < LINK_PORTS; p++)
		if (device_over[0] == 'm')
			memif_ends(link, p, serial, ours[p]);
		else if (af_packet_ends(link, frame_bytes, p, serial, ours[p]) < 0)
			return -1;
	snprintf(name, sizeof(name), "generator_%u", serial);
	link->pool = pktbuf_packet_pool(name, POOL_PACKETS, link->buffer_bytes, POOL_CACHE, 0);
	if (link->pool == NULL)
		rc = -rte_errno;
	for (unsigned int p = 0; rc == 0 && p < LINK_PORTS; p++)
		rc = open_port(link, serial, ours[p]);
	if (rc == 0)
		return 0;
	warnx("the generator's ports: %s", rte_strerror(-rc));
	link_close(link);
	return -1;
}

static bool
link_is_up(const struct link *link)
{
	struct rte_eth_link state;

	for (unsigned int p = 0; p < link->ports; p++)
		if (rte_eth_link_get_nowait(link->port[p], &state) < 0 ||
			state.link_status != RTE_ETH_LINK_UP)
			return false;
	return true;
}

int
device_enter(void)
{
	struct sigaction action = {.sa_handler = take_note};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if ((slots & (slots - 1)) != 0) {
		warnx("--slots must be a power of two");
		return 2;
	}
	/* The namespace goes with the last process in it. */
	if (device_over[0] == 'a' &&
		(unshare(CLONE_NEWNET) < 0 ||
			system("ip link set lo up && sysctl -qw "
			       "net.ipv6.conf.all.disable_ipv6=1 "
			       "net.ipv6.conf.default.disable_ipv6=1") != 0)) {
		warn("no network namespace: ports on veth need root, ip and sysctl");
		return 2;
	}
	snprintf(folder, sizeof(folder), "/tmp/weir-bench-%d-XXXXXX", (int)getpid());
	if (mkdtemp(folder) == NULL) {
		warn("%s", folder);
		folder[0] = '\0';
		return 2;
	}
	/* All three are on huge pages, or none. */
	if (strcmp(bench_common.huge, "auto") == 0 && !bench_huge_pages_for(3 * MEMORY_MB))
		bench_common.huge = "no";
	in_eal = bench_start_eal(0, MEMORY_MB) == 0;
	return in_eal ? 0 : 2;
}

void
device_leave(void)
{
	DIR *directory = folder[0] != '\0' ? opendir(folder) : NULL;
	struct dirent *entry;

	if (in_eal)
		bench_stop_eal();
	in_eal = false;
	while (directory != NULL && (entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		closedir(directory);
	rmdir(folder);
	folder[0] = '\0';
}

/* weir-switch: from --switch, or the build's, or in PATH. */
static const char *
switch_path(void)
{
	static char path[2 * DEVICE_PATH];
	char self[DEVICE_PATH];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (weir_switch != NULL)
		return weir_switch;
	self[length < 0 ? 0 : length] = '\0';
	if (strrchr(self, '/') != NULL)
		*strrchr(self, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../switch/weir-switch", self);
	return access(path, X_OK) == 0 ? path : "weir-switch";
}

static unsigned int
last_cpu(void)
{
	return bench_cpu(bench_cpus() - 1);
}

static json_t *
job(const struct device_config *config, int id, const char *name, const char *results)
{
	return json_pack("{sisss{siss} sisisi siss}", "id", id, "name", name, "sources", "count",
		(int)config->sources, "first", "10.77.1.0", "window", (int)config->window,
		"elements", (int)config->elements, "generation", DEVICE_GENERATION, "timeout_ms",
		60000, "results", results);
}

/* The switch's configuration, as a file in our folder. */
static int
write_config(const struct device *device, const struct device_config *config, const char *path)
{
	char name[32];
	json_t *ports = json_array(), *jobs = json_array(), *root,
	       *eal = json_pack("[ssss]", "--no-pci", "--no-shconf", "--no-telemetry",
		       bench_on_huge_pages() ? "--in-memory" : "--no-huge");
	int rc;

	if (bench_on_huge_pages())
		json_array_append_new(eal, json_string("--single-file-segments"));
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		snprintf(name, sizeof(name), "p%u", p);
		json_array_append_new(ports,
			json_pack("{ssssss}", "name", name, "device", device->link.device[p],
				"rx_checksum", device_checksum));
	}
	if (config->elements > 0) {
		json_array_append_new(jobs, job(config, DEVICE_JOB_UNICAST, "unicast", "unicast"));
		json_array_append_new(
			jobs, job(config, DEVICE_JOB_MULTICAST, "multicast", "239.77.0.1"));
	}
	snprintf(name, sizeof(name), "bench-%d", (int)getpid());
	root = json_pack("{s{ssss} s{si s[i] si ss} s{si} so so so si}", "switch", "name", name,
		"address", "10.77.0.254/16", "workers", "count", 1, "cpus", (int)last_cpu(),
		"main_cpu", (int)bench_cpu(0), "idle", idle, "pools", "frame_bytes",
		(int)device->link.buffer_bytes, "eal", eal, "ports", ports, "jobs", jobs,
		"memory_mb", MEMORY_MB);
	rc = root == NULL ? -1 : json_dump_file(root, path, JSON_INDENT(1));
	json_decref(root);
	if (rc != 0)
		warnx("%s can't be written", path);
	return rc;
}

/* A frame in at port 0; did one come out at port 1? */
static bool
forwards(struct link *link)
{
	struct rte_mbuf *burst[LINK_BURST], *probe = rte_pktmbuf_alloc(link->pool);
	uint8_t *bytes = probe == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(probe, 60);
	uint16_t n;

	if (bytes != NULL) {
		memset(bytes, 0, 60);
		memset(bytes, 0xff, 6);
		bytes[6] = 0x02;
		bytes[12] = 0x88; /* local experimental ethertype */
		bytes[13] = 0xb5;
		if (rte_eth_tx_burst(link->port[0], 0, &probe, 1) == 1)
			probe = NULL;
	}
	rte_pktmbuf_free(probe);
	usleep(1000);
	n = rte_eth_rx_burst(link->port[1], 0, burst, LINK_BURST);
	rte_pktmbuf_free_bulk(burst, n);
	return n > 0;
}

/*
 * Wait until the device's ports see ours and it forwards; then pause it. An interrupt waits for the ports: DPDK 22.11
 * panics when a memif's peer dies while they connect.
 */
static int
await(struct device *device)
{
	for (unsigned int ms = 0; ms < START_LIMIT_MS; ms++) {
		if (device_interrupted() && link_is_up(&device->link))
			break;
		if (link_is_up(&device->link) && forwards(&device->link)) {
			usleep(10000); /* more probes are in flight, and are ignored */
			device_deselect(device);
			return 0;
		}
		if (!alive(device))
			break;
		usleep(1000);
	}
	device_blame(device, "does not forward");
	return -1;
}

static int
start_switch(struct device *device, const struct device_config *config)
{
	char path[2 * DEVICE_PATH];
	const char *argv[] = {switch_path(), "-c", path, NULL};

	device->is_switch = true;
	snprintf(path, sizeof(path), "%s/switch.json", folder);
	if (write_config(device, config, path) < 0 || run(device, "weir-switch", argv) < 0)
		return -1;
	return await(device);
}

/* io: what its engine is at its fastest; frames are not touched. */
static int
start_testpmd(struct device *device)
{
	char lcores[32], prefix[32], size[32], memory[16];
	bool huge = bench_on_huge_pages();
	const char *argv[] = {"dpdk-testpmd", "--lcores", lcores, "--no-pci", "--no-shconf",
		"--no-telemetry", "-m", memory, "--file-prefix", prefix, "--vdev",
		device->link.device[0], "--vdev", device->link.device[1],
		huge ? "--single-file-segments" : "--no-huge", huge ? "--in-memory" : "--no-huge",
		"--", "--forward-mode=io", "--port-topology=paired", "--nb-cores=1",
		"--total-num-mbufs=4096", "--burst=32", "--disable-link-check",
		"--no-lsc-interrupt", size, NULL};

	snprintf(lcores, sizeof(lcores), "0@%u,1@%u", bench_cpu(0), last_cpu());
	snprintf(memory, sizeof(memory), "%u", MEMORY_MB);
	snprintf(prefix, sizeof(prefix), "weir_testpmd_%d", (int)getpid());
	snprintf(size, sizeof(size), "--mbuf-size=%u",
		device->link.buffer_bytes + RTE_PKTMBUF_HEADROOM);
	if (run(device, "dpdk-testpmd", argv) < 0)
		return -1;
	return await(device);
}

int
device_start_both(struct device *device, const struct device_config *config)
{
	memset(device, 0, 2 * sizeof(*device));
	if ((config->window & (config->window - 1)) != 0) {
		warnx("--window must be a power of two");
		return 2;
	}
	for (unsigned int i = 0; i < 2; i++)
		if (link_open(&device[i].link, config->frame_bytes) < 0 ||
			(i == 0 ? start_switch(device, config) : start_testpmd(&device[1])) < 0)
			return 1;
	return 0;
}

/* Only the switch checks its counters at its end, and exits with an error if they are wrong. */
static int
stop(struct device *device)
{
	bool started = device->pid != 0, lived = alive(device);
	int status = end(device);

	link_close(&device->link);
	if (!started || device_interrupted() || (lived && (status == 0 || !device->is_switch)))
		return 0;
	warnx("%s ended with status %d:", device->name, status);
	last_words(device);
	return 1;
}

int
device_stop_both(struct device *device)
{
	return stop(&device[0]) | stop(&device[1]);
}

void
device_blame(struct device *device, const char *what)
{
	if (device_interrupted())
		return;
	warnx("%s: %s; the process %s:", device->name, what, alive(device) ? "lives" : "has ended");
	/* Its statistics name the drops. */
	if (device->is_switch && alive(device)) {
		device_select(device);
		kill(device->pid, SIGUSR1);
		usleep(200000);
	}
	last_words(device);
}
