/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/target.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_common.h>
#include <rte_ethdev.h>

#define START_LIMIT_MS 10000
#define MEMORY_MB      96 /* of each: generator, switch, testpmd */

struct target_options target_options = {
	.over = "memif",
	.idle = "spin",
	.zero_copy = "no",
	.checksum = "software",
	.slots = 512,
	.threads = 20,
};

static char folder[CHILD_PATH_MAX];
static bool in_eal;

static bool
huge_pages_for_all(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned int pages = 0;

	if (file == NULL)
		return false;
	if (fscanf(file, "%u", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages >= 3 * MEMORY_MB / 2;
}

int
target_enter(void)
{
	child_prepare();
	if ((target_options.slots & (target_options.slots - 1)) != 0) {
		fprintf(stderr, "weir-bench: --slots must be a power of two\n");
		return 2;
	}
	if (strcmp(target_options.over, "af_packet") == 0 && link_enter_namespace() < 0)
		return 2;
	if (child_folder_make(folder) < 0)
		return 2;
	/* All three are on huge pages, or none. */
	if (strcmp(bench_common.huge, "auto") == 0 && !huge_pages_for_all())
		bench_common.huge = "no";
	if (bench_start_eal(0, MEMORY_MB, NULL) < 0)
		return 2;
	in_eal = true;
	if (strcmp(target_options.zero_copy, "yes") == 0 && !bench_on_huge_pages()) {
		fprintf(stderr, "weir-bench: zero-copy needs huge pages\n");
		return 2;
	}
	return 0;
}

void
target_leave(void)
{
	if (in_eal)
		bench_stop_eal();
	in_eal = false;
	child_folder_remove(folder);
	folder[0] = '\0';
}

/* weir-switch: as told, or where the build or an installation has it. */
static const char *
switch_path(void)
{
	static char path[2 * CHILD_PATH_MAX];
	static const char *const beside[] = {"../switch/weir-switch", "weir-switch"};
	char self[CHILD_PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (target_options.weir_switch != NULL)
		return target_options.weir_switch;
	self[length < 0 ? 0 : length] = '\0';
	if (strrchr(self, '/') != NULL)
		*strrchr(self, '/') = '\0';
	for (unsigned int i = 0; i < RTE_DIM(beside); i++) {
		snprintf(path, sizeof(path), "%s/%s", self, beside[i]);
		if (access(path, X_OK) == 0)
			return path;
	}
	return "weir-switch";
}

static unsigned int
last_cpu(void)
{
	return bench_cpu(bench_cpus() - 1);
}

static json_t *
job(const struct target_config *config, int id, const char *name, const char *results)
{
	json_t *sources = json_array();

	for (unsigned int s = 0; s < config->sources; s++) {
		char address[32];

		snprintf(address, sizeof(address), "10.77.0.%u", s + 1);
		json_array_append_new(
			sources, json_pack("{siss}", "id", (int)s, "address", address));
	}
	return json_pack("{sissso sisisi siss}", "id", id, "name", name, "sources", sources,
		"window", (int)config->window, "elements", (int)config->elements, "generation",
		TARGET_GENERATION, "timeout_ms", 60000, "results", results);
}

/* A job that nobody contributes to. */
static json_t *
quiet_job(const struct target_config *config, unsigned int i)
{
	json_t *sources = json_array();
	char name[16], address[32];

	snprintf(name, sizeof(name), "quiet%u", i);
	for (unsigned int s = 0; s < config->quiet_sources; s++) {
		snprintf(address, sizeof(address), "10.77.%u.%u", i + 1, s + 1);
		json_array_append_new(
			sources, json_pack("{siss}", "id", (int)s, "address", address));
	}
	return json_pack("{sisssosisisi}", "id", (int)(TARGET_JOBS + i), "name", name, "sources",
		sources, "window", 1, "elements", 8, "generation", TARGET_GENERATION);
}

void
target_api(char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/api.sock", folder);
}

static json_t *
eal_arguments(void)
{
	json_t *list = json_pack("[sss]", "--no-pci", "--no-shconf", "--no-telemetry");

	json_array_append_new(
		list, json_string(bench_on_huge_pages() ? "--in-memory" : "--no-huge"));
	if (bench_on_huge_pages())
		json_array_append_new(list, json_string("--single-file-segments"));
	return list;
}

/* The switch's configuration, as a file in our folder. */
static int
write_config(const struct target *target, const struct target_config *config, const char *path)
{
	char name[32], path_of_socket[CHILD_PATH_MAX + 16];
	json_t *ports = json_array(), *jobs = json_array(), *root;
	int rc;

	snprintf(name, sizeof(name), "bench-%d", (int)getpid());
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		char port[8];

		snprintf(port, sizeof(port), "p%u", p);
		json_array_append_new(ports,
			json_pack("{ssssss}", "name", port, "device", target->link.device[p],
				"rx_checksum", target_options.checksum));
	}
	if (config->elements > 0) {
		json_array_append_new(jobs, job(config, TARGET_JOB_UNICAST, "unicast", "unicast"));
		json_array_append_new(
			jobs, job(config, TARGET_JOB_MULTICAST, "multicast", "239.77.0.1"));
	}
	for (unsigned int i = 0; i < config->quiet_jobs; i++)
		json_array_append_new(jobs, quiet_job(config, i));
	root = json_pack("{s{ssss} s{si s[i] si ss si} s{si} so so so si}", "switch", "name", name,
		"address", "10.77.0.254/16", "workers", "count", 1, "cpus", (int)last_cpu(),
		"main_cpu", (int)bench_cpu(0), "idle", target_options.idle, "threads",
		(int)target_options.threads, "pools", "frame_bytes", (int)target->link.buffer_bytes,
		"eal", eal_arguments(), "ports", ports, "jobs", jobs, "memory_mb", MEMORY_MB);
	if (config->api) {
		strlcpy(path_of_socket, "unix:", sizeof(path_of_socket));
		target_api(path_of_socket + 5, sizeof(path_of_socket) - 5);
		json_object_set_new(root, "api", json_pack("{s[s]}", "listen", path_of_socket));
	}
	rc = root == NULL ? -1 : json_dump_file(root, path, JSON_INDENT(1));
	json_decref(root);
	if (rc != 0)
		fprintf(stderr, "weir-bench: %s can't be written\n", path);
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

/* Wait until the device's ports see ours and it forwards; then pause it. */
static int
connect_target(struct target *target)
{
	for (unsigned int ms = 0; ms < START_LIMIT_MS && !child_interrupted(); ms++) {
		if (link_is_up(&target->link) && forwards(&target->link)) {
			usleep(10000); /* other probes are under way, and nobody waits for them */
			child_pause(&target->child);
			return 0;
		}
		if (!child_alive(&target->child))
			break;
		usleep(1000);
	}
	target_blame(target, "does not forward");
	return -1;
}

static int
open_link(struct target *target, const struct target_config *config, const char *name)
{
	struct link_config link = {
		.name = name,
		.af_packet = strcmp(target_options.over, "af_packet") == 0,
		.zero_copy = strcmp(target_options.zero_copy, "yes") == 0,
		.frame_bytes = config->frame_bytes,
		.slots = (unsigned int)target_options.slots,
	};

	memset(target, 0, sizeof(*target));
	target->name = name;
	return link_open(&target->link, &link);
}

int
target_start_switch(struct target *target, const struct target_config *config)
{
	char path[2 * CHILD_PATH_MAX];
	const char *argv[] = {switch_path(), "-c", path, NULL};

	if (open_link(target, config, "switch") < 0)
		return -1;
	target->is_switch = true;
	snprintf(path, sizeof(path), "%s/switch.json", folder);
	if (write_config(target, config, path) < 0 ||
		child_start(&target->child, "weir-switch", argv, folder) < 0)
		return -1;
	return connect_target(target);
}

int
target_start_testpmd(struct target *target, const struct target_config *config)
{
	char lcores[32], prefix[32], size[32], memory[16];
	const char *argv[40] = {
		target_options.testpmd != NULL ? target_options.testpmd : "dpdk-testpmd"};
	unsigned int n = 1;

	if (open_link(target, config, "testpmd") < 0)
		return -1;
	snprintf(lcores, sizeof(lcores), "0@%u,1@%u", bench_cpu(0), last_cpu());
	snprintf(memory, sizeof(memory), "%u", MEMORY_MB);
	snprintf(prefix, sizeof(prefix), "weir_testpmd_%d", (int)getpid());
	snprintf(size, sizeof(size), "--mbuf-size=%u",
		target->link.buffer_bytes + RTE_PKTMBUF_HEADROOM);
	for (const char *const *word = (const char *const[]){"--lcores", lcores, "--no-pci",
		     "--no-shconf", "--no-telemetry", "-m", memory, "--file-prefix", prefix, NULL};
		*word != NULL; word++)
		argv[n++] = *word;
	argv[n++] = bench_on_huge_pages() ? "--in-memory" : "--no-huge";
	if (bench_on_huge_pages())
		argv[n++] = "--single-file-segments";
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		argv[n++] = "--vdev";
		argv[n++] = target->link.device[p];
	}
	/* What its engine is at its fastest: frames are not touched. */
	for (const char *const *word = (const char *const[]){"--", "--forward-mode=io",
		     "--port-topology=paired", "--nb-cores=1", "--total-num-mbufs=4096",
		     "--burst=32", "--disable-link-check", "--no-lsc-interrupt", size, NULL};
		*word != NULL; word++)
		argv[n++] = *word;
	argv[n] = NULL;
	if (child_start(&target->child, "dpdk-testpmd", argv, folder) < 0)
		return -1;
	return connect_target(target);
}

int
target_stop(struct target *target)
{
	const char *name = target->child.name;
	bool started = target->child.pid != 0, alive = child_alive(&target->child);
	struct child ended = target->child;
	int status = child_end(&target->child);

	link_close(&target->link);
	/* Only the switch keeps books, and ends with what is wrong with them. With zero-copy it
	 * misses the mbufs that lie in the driver's rings, which DPDK 22.11 does not free. */
	if (!started || child_interrupted() ||
		(alive &&
			(status == 0 || !target->is_switch ||
				strcmp(target_options.zero_copy, "yes") == 0)))
		return 0;
	fprintf(stderr, "weir-bench: %s ended with status %d:\n", name, status);
	child_last_words(&ended);
	return -1;
}

int
target_start_both(struct target *target, unsigned int sources, unsigned int window,
	unsigned int elements, unsigned int frame_bytes)
{
	struct target_config config = {.frame_bytes = frame_bytes,
		.sources = sources,
		.window = window,
		.elements = elements};

	memset(target, 0, 2 * sizeof(*target));
	if ((window & (window - 1)) != 0) {
		fprintf(stderr, "weir-bench: --window must be a power of two\n");
		return 2;
	}
	if (target_start_switch(&target[0], &config) < 0)
		return 1;
	return target_start_testpmd(&target[1], &config) < 0;
}

int
target_stop_both(struct target *target)
{
	int rc = 0;

	for (unsigned int t = 0; t < 2; t++)
		rc |= target_stop(&target[t]) < 0;
	return rc;
}

void
target_select(struct target *target)
{
	child_resume(&target->child);
}

void
target_deselect(struct target *target)
{
	child_pause(&target->child);
}

void
target_blame(struct target *target, const char *what)
{
	if (child_interrupted())
		return;
	fprintf(stderr, "weir-bench: %s: %s; the process %s:\n", target->child.name, what,
		child_alive(&target->child) ? "lives" : "has ended");
	/* Its statistics name the drops. */
	if (target->is_switch && child_alive(&target->child)) {
		child_resume(&target->child);
		kill(target->child.pid, SIGUSR1);
		usleep(200000);
	}
	child_last_words(&target->child);
}
