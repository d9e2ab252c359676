/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "ctrl/config/schema.h"
#include "ctrl/log.h"

uint64_t
ctrl_stats_dropped(const struct ppe_stats *total)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		sum += total->drops[i];
	return sum;
}

int64_t
ctrl_stats_off_by(const struct ppe_stats *total)
{
	return (int64_t)(total->received + total->created - total->sent - total->consumed -
		ctrl_stats_dropped(total) - total->in_flight);
}

bool
ctrl_leaks_none(const struct ppe_leaks *leaks)
{
#define X(name, help) leaks->name |
	return (PPE_LEAKS(X) 0) == 0;
#undef X
}

static void
put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void
put_pair(json_t *object, const char *key, const uint64_t values[2])
{
	json_t *pair = json_object();

	put(pair, "results", values[0]);
	put(pair, "bulk", values[1]);
	json_object_set_new(object, key, pair);
}

void
ctrl_put_packet_counters(json_t *object, const struct ppe_stats *total)
{
#define X(name, help) put(object, #name, total->name);
	PPE_PACKET_COUNTERS(X)
#undef X
	put(object, "dropped", ctrl_stats_dropped(total));
	put(object, "in_flight", total->in_flight);
}

void
ctrl_put_port_counters(json_t *object, const struct ppe_port_stats *port)
{
#define ONE(name, help)  put(object, #name, port->name);
#define EACH(name, help) put_pair(object, #name, port->name);
	PPE_PORT_COUNTERS(ONE, EACH)
#undef ONE
#undef EACH
}

void
ctrl_put_job_counters(json_t *object, const struct ppe_job_stats *job)
{
#define X(name, help) put(object, #name, job->name);
	PPE_JOB_COUNTERS(X)
#undef X
}

json_t *
ctrl_drops_json(const struct ppe_stats *total)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		put(object, ppe_drop_key((enum ppe_drop)i), total->drops[i]);
	return object;
}

json_t *
ctrl_ports_json(const struct ctrl_config *config, const struct ppe_stats *total)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < total->nb_ports; p++) {
		json_t *object = json_pack("{s:s}", "name", config->port[p].name);

		ctrl_put_port_counters(object, &total->port[p]);
		json_array_append_new(list, object);
	}
	return list;
}

json_t *
ctrl_workers_json(const struct ppe_stats *total)
{
	json_t *list = json_array();

	for (unsigned int w = 0; w < total->nb_workers; w++) {
		json_t *object = json_object();

#define X(name, help) put(object, #name, total->worker[w].name);
		PPE_WORKER_COUNTERS(X)
#undef X
		json_array_append_new(list, object);
	}
	return list;
}

json_t *
ctrl_stats_json(const struct ctrl_config *config, const struct ppe_stats *total)
{
	int64_t off = ctrl_stats_off_by(total);
	json_t *root = json_pack("{s:s,s:s}", "name", config->name, "version", WEIR_VERSION);

	ctrl_put_packet_counters(root, total);
	json_object_set_new(root, "balanced", json_boolean(off == 0));
	json_object_set_new(root, "off_by", json_integer(off));
	for (unsigned int i = 0; total->statistic[i].what != NULL; i++)
		put(root, total->statistic[i].what->key, total->statistic[i].value);
	json_object_set_new(root, "drops", ctrl_drops_json(total));
	json_object_set_new(root, "ports", ctrl_ports_json(config, total));
	json_object_set_new(root, "workers", ctrl_workers_json(total));
	json_object_set_new(root, "jobs", json_array());
	return root;
}

void
ctrl_stats_add_job(
	json_t *stats, unsigned int id, const char *name, const struct ppe_job_stats *job)
{
	json_t *object = json_pack("{s:i,s:s}", "id", (int)id, "name", name);

	put(object, "generation", job->generation);
	put(object, "blocks_in_flight", job->blocks_in_flight);
	put(object, "buffers_used", job->buffers_used);
	put(object, "buffers_reserved", job->buffers_reserved);
	ctrl_put_job_counters(object, job);
	json_array_append_new(json_object_get(stats, "jobs"), object);
}

void
ctrl_stats_add_leaks(json_t *stats, const struct ppe_leaks *leaks)
{
	json_t *object = json_object();

#define X(name, help) put(object, #name, leaks->name);
	PPE_LEAKS(X)
#undef X
	json_object_set_new(stats, "leaks", object);
}

json_t *
ctrl_stats_read(struct ctrl_running *running)
{
	json_t *stats;

	ctrl_running_read(running);
	stats = ctrl_stats_json(running->config, &running->stats);
	CTRL_FOREACH_JOB (job, running) {
		struct ppe_job_stats count;

		ctrl_running_job_stats(running, job, &count);
		ctrl_stats_add_job(stats, job->job->id, job->job->name, &count);
	}
	return stats;
}

/* " key value" of all numbers that are not 0. */
static void
print_numbers(json_t *object, const char *before, FILE *out)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		if (json_is_object(value))
			print_numbers(value, key, out);
		else if (json_integer_value(value) != 0)
			fprintf(out, " %s%s%s %" JSON_INTEGER_FORMAT, before,
				before[0] != '\0' ? "." : "", key, json_integer_value(value));
	}
}

static json_int_t
number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void
print_list(const json_t *root, const char *key, const char *kind, FILE *out)
{
	json_t *list = json_object_get(root, key), *object;
	size_t i;

	json_array_foreach (list, i, object) {
		const char *name = json_string_value(json_object_get(object, "name"));

		if (name != NULL)
			fprintf(out, "%s %s:", kind, name);
		else
			fprintf(out, "%s %zu:", kind, i);
		print_numbers(object, "", out);
		fputc('\n', out);
	}
}

void
ctrl_stats_print(const json_t *stats, FILE *out)
{
	const json_t *drops = json_object_get(stats, "drops");
	json_int_t off;

	print_list(stats, "ports", "port", out);
	print_list(stats, "workers", "worker", out);
	print_list(stats, "jobs", "job", out);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++) {
		const char *key = ppe_drop_key((enum ppe_drop)i);

		if (number(drops, key) != 0)
			fprintf(out, "dropped %" JSON_INTEGER_FORMAT " %s: %s\n",
				number(drops, key), key, ppe_drop_help((enum ppe_drop)i));
	}
	fprintf(out,
		"received %" JSON_INTEGER_FORMAT " + created %" JSON_INTEGER_FORMAT
		" = sent %" JSON_INTEGER_FORMAT " + consumed %" JSON_INTEGER_FORMAT
		" + dropped %" JSON_INTEGER_FORMAT " + in flight %" JSON_INTEGER_FORMAT ": ",
		number(stats, "received"), number(stats, "created"), number(stats, "sent"),
		number(stats, "consumed"), number(stats, "dropped"), number(stats, "in_flight"));
	off = number(stats, "off_by");
	if (off == 0)
		fputs("balanced\n", out);
	else
		fprintf(out, "OFF BY %" JSON_INTEGER_FORMAT "\n", off);
}

int
ctrl_stats_write(const json_t *stats, const char *path)
{
	char *beside;
	int rc = 0;

	if (asprintf(&beside, "%s.%d.part", path, (int)getpid()) < 0)
		return -ENOMEM;
	errno = ENOMEM; /* jansson sets errno for no other error */
	if (stats == NULL || json_dump_file(stats, beside, JSON_INDENT(1)) < 0 ||
		rename(beside, path) < 0) {
		rc = -errno;
		unlink(beside);
	}
	free(beside);
	return rc;
}

/* -- links */

struct link {
	bool is_up;
	uint32_t mtu; /* bytes; 0: not known */
};

/*
 * Read an interface's link from the kernel. False: it is not in this namespace. An interface that
 * is gone has no link, but a TAP works through its descriptor, and may be in the namespace of a
 * container.
 */
static bool
read_interface(unsigned int interface, struct link *link)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_ifindex = (int)interface};
	bool is_here = fd >= 0 && ioctl(fd, SIOCGIFNAME, &request) == 0;

	link->is_up = is_here && ioctl(fd, SIOCGIFFLAGS, &request) == 0 &&
		(request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
	if (link->is_up && ioctl(fd, SIOCGIFMTU, &request) == 0)
		link->mtu = (uint32_t)request.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return is_here;
}

static struct link
link_read(const struct ctrl_running *running, unsigned int port)
{
	struct rte_eth_dev_info info;
	struct rte_eth_link device = {0};
	struct link link = {0};
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(running->config->port[port].device, &id) != 0)
		return link;
	if (rte_eth_dev_info_get(id, &info) == 0 && info.if_index != 0) {
		if (!read_interface(info.if_index, &link))
			link.is_up = strcmp(info.driver_name, "net_tap") == 0;
		return link;
	}
	link.is_up =
		rte_eth_link_get_nowait(id, &device) == 0 && device.link_status == RTE_ETH_LINK_UP;
	return link;
}

bool
ctrl_port_is_up(const struct ctrl_running *running, unsigned int port)
{
	return link_read(running, port).is_up;
}

static void
log_port(const struct ctrl_running *running, unsigned int port, bool good, const char *event)
{
	ctrl_log(CTRL_LOG_SWITCH, good ? RTE_LOG_NOTICE : RTE_LOG_WARNING, event,
		"port=%s device=%s", ctrl_log_quote(running->config->port[port].name).text,
		ctrl_log_quote(running->config->port[port].device).text);
}

/* Tell the workers the longest frame that a port's link carries, without a VLAN tag; 0: none. Is it
 * up? */
static bool
renew_link(struct ctrl_running *running, unsigned int port)
{
	const struct link link = link_read(running, port);
	uint32_t most = link.mtu > 0 ? link.mtu + RTE_ETHER_HDR_LEN : UINT32_MAX;

	/* Some drivers do not know their link, and never say that it is up. */
	running->link_was_up[port] |= link.is_up;
	if (!link.is_up && running->link_was_up[port])
		most = 0;
	ppe_port_set_frame_max(running->ppe, port, most);
	return link.is_up;
}

void
ctrl_links_begin(struct ctrl_running *running)
{
	for (unsigned int p = 0; p < running->config->nb_ports; p++)
		renew_link(running, p);
}

void
ctrl_links_tick(struct ctrl_running *running)
{
	for (unsigned int p = 0; p < running->config->nb_ports; p++) {
		bool up = renew_link(running, p), was_down = running->link_is_down[p];
		bool was_stalled = running->port_is_stalled[p];
		struct ppe_port_queue queue;

		ppe_port_queue_read(running->ppe, p, &queue);
		running->link_is_down[p] = !up;
		running->port_is_stalled[p] = queue.is_stalled;
		if (up == was_down)
			log_port(running, p, up, up ? "link up" : "link down");
		if (queue.is_stalled && !was_stalled)
			log_port(running, p, false,
				"port takes no packets, and what waits for it is dropped");
		else if (was_stalled && !queue.is_stalled)
			log_port(running, p, true, "port takes packets again");
	}
}

/* -- spoofed addresses */

void
ctrl_spoofed_tick(struct ctrl_running *running)
{
	struct ppe_spoofed last;
	char mac[RTE_ETHER_ADDR_FMT_SIZE];

	for (unsigned int p = 0; p < running->config->nb_ports; p++) {
		uint64_t now = running->stats.port[p].spoofed, more = now - running->spoofed[p];

		running->spoofed[p] = now;
		if (more == 0 || !ppe_spoofed_read(running->ppe, p, &last))
			continue;
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", last.mac[0],
			last.mac[1], last.mac[2], last.mac[3], last.mac[4], last.mac[5]);
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_SWITCH, RTE_LOG_WARNING,
			"port sends an address that belongs elsewhere",
			"port=%s address=%s frames=%" PRIu64,
			ctrl_log_quote(running->config->port[p].name).text,
			last.is_mac ? mac : ctrl_address_text(last.ip).text, more);
	}
	if (!running->guard_is_full && ppe_guard_is_full(running->ppe)) {
		running->guard_is_full = true;
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_WARNING,
			"more hosts have joined than addresses can be bound to ports: list them in "
			"ports[].hosts",
			"");
	}
}
