/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/job.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/files.h"
#include "ctrl/config/interface.h"
#include "ctrl/config/tree.h"
#include "rmw/kernels.h"

#define VLAN_AND_FCS 8u
#define KEY_DIGITS   (2 * WEIR_KEY_BYTES)

/* -- settings */

/* clang-format off */
const struct ctrl_setting ctrl_settings[] = {
#define X(name, in, can, needs, in_tree, kind, field, ...) \
	{.key = {.path = #name, CTRL_##kind, __VA_ARGS__, \
		 CTRL_FIELD(struct ctrl_job_spec, field)}, \
		.where = CTRL_SETTING_##in, .change = CTRL_CHANGE_##can(true ||) false, \
		.host_needs = CTRL_NEEDS_##needs, .tree = CTRL_TREE_##in_tree},
	CTRL_JOB_SETTINGS(X)
#undef X
};
/* clang-format on */

static_assert(
	offsetof(struct ctrl_job_spec, shape) == 0, "fields of \"tree\" are in struct ppe_job");

const size_t ctrl_settings_count = RTE_DIM(ctrl_settings);

#define FOREACH_SETTING(s)                                                                         \
	for (const struct ctrl_setting *s = ctrl_settings;                                         \
		s < ctrl_settings + RTE_DIM(ctrl_settings); s++)

void
ctrl_settings_read(const json_t *object, struct ctrl_job_spec *spec)
{
	FOREACH_SETTING(s)
	{
		const json_t *value = json_object_get(object, s->key.path);

		if (value != NULL)
			ctrl_key_set(&s->key, value, spec);
	}
}

struct ctrl_job_spec
ctrl_job_spec_default(bool temporary)
{
	struct ctrl_job_spec spec = {.id = -1};

	FOREACH_SETTING(s)
	ctrl_key_set(&s->key, NULL, &spec);
	if (temporary) {
		spec.expire_s = CTRL_TEMPORARY_EXPIRE_S;
		spec.shape.elements = 0;
	}
	return spec;
}

struct ctrl_job_spec
ctrl_job_spec_of(const struct ppe_job *job)
{
	return (struct ctrl_job_spec){.shape = *job, .id = job->id};
}

void
ctrl_settings_put(json_t *object, const struct ctrl_job_spec *spec, bool host_only)
{
	FOREACH_SETTING(s)
	if (s->where != CTRL_SETTING_FILE && (s->host_needs || !host_only))
		json_object_set_new(object, s->key.path, ctrl_key_get(&s->key, spec));
}

bool
ctrl_setting_same(const struct ctrl_setting *setting, const struct ctrl_job_spec *a,
	const struct ctrl_job_spec *b)
{
	size_t offset = setting->key.offset;

	return memcmp((const char *)a + offset, (const char *)b + offset, setting->key.bytes) == 0;
}

bool
ctrl_settings_same(const struct ctrl_job_spec *a, const struct ctrl_job_spec *b, bool fixed_only)
{
	FOREACH_SETTING(s)
	if (!ctrl_setting_same(s, a, b) && !(fixed_only && s->change))
		return false;
	return true;
}

void
ctrl_settings_change(struct ctrl_job_spec *spec, const struct ctrl_job_spec *before,
	const struct ctrl_job_spec *next)
{
	FOREACH_SETTING(s)
	if (s->change && !ctrl_setting_same(s, before, next))
		memcpy((char *)spec + s->key.offset, (const char *)next + s->key.offset,
			s->key.bytes);
}

const char *
ctrl_policy_text(uint8_t policy)
{
	static const char *const texts[] = {
#define X(name, text, ...) [PPE_POLICY_##name] = text,
		PPE_POLICY_LIST(X)
#undef X
	};

	return texts[policy];
}

struct ctrl_settings_text
ctrl_settings_text(const struct ctrl_job_spec *spec)
{
	struct ctrl_settings_text out = {""};

	FOREACH_SETTING(s)
	{
		size_t used = strlen(out.text);
		json_t *value = s->change ? ctrl_key_get(&s->key, spec) : NULL;

		if (json_is_string(value))
			snprintf(out.text + used, sizeof(out.text) - used, " %s=%s", s->key.path,
				json_string_value(value));
		else if (value != NULL)
			snprintf(out.text + used, sizeof(out.text) - used,
				" %s=%" JSON_INTEGER_FORMAT, s->key.path,
				json_integer_value(value));
		json_decref(value);
	}
	return out;
}

/* -- checks */

static bool __attribute__((format(printf, 2, 3)))
no(struct ctrl_reason *reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
	return false;
}

uint32_t
ctrl_job_frame_bytes(const struct ppe_job *job)
{
	/* Between switches, errors have a bitmap too. */
	uint32_t bitmap = ppe_policy_sends_partial(job->policy) || ctrl_job_in_tree(job)
		? WEIR_BITMAP_BYTES
		: 0;

	return 14 + 20 + 8 + WEIR_EXT_BYTES + ppe_job_payload_bytes(job) + bitmap +
		ppe_job_end_bytes(job);
}

uint32_t
ctrl_job_packet_bytes(const struct ppe_job *job)
{
	return ctrl_job_frame_bytes(job) + VLAN_AND_FCS;
}

bool
ctrl_check_switch(const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason)
{
	return address != config->ppe.identity.ip ||
		no(reason, "%s is the switch's own address", ctrl_address_text(address).text);
}

bool
ctrl_check_address(const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason)
{
	uint32_t own = config->ppe.identity.ip;
	uint32_t hosts = UINT32_MAX >> config->prefix;

	if (!ctrl_check_switch(config, address, reason))
		return false;
	if ((address & ~hosts) != (own & ~hosts))
		return no(reason, "%s is outside the switch's subnet %s/%u",
			ctrl_address_text(address).text, ctrl_address_text(own & ~hosts).text,
			config->prefix);
	if ((address & hosts) == 0 || (address & hosts) == hosts)
		return no(reason, "%s is not a host's address in %s/%u",
			ctrl_address_text(address).text, ctrl_address_text(own & ~hosts).text,
			config->prefix);
	return true;
}

bool
ctrl_check_reduction(const struct ppe_job *job, struct ctrl_reason *reason)
{
	if (rmw_reduction(job->dtype, job->op) != NULL)
		return true;
	return no(reason, "%s is for integers only, and %s is none", weir_op_text(job->op),
		weir_dtype_text(job->dtype));
}

bool
ctrl_check_integrity(const struct ppe_job *job, struct ctrl_reason *reason)
{
	return !job->authenticated || job->integrity == PPE_INTEGRITY_NONE ||
		no(reason,
			"crc32c is for jobs without a key for their packets: the tags of an "
			"authenticated "
			"job find damage, too");
}

bool
ctrl_check_frames(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason)
{
	uint32_t frame = ctrl_job_frame_bytes(job);

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		uint32_t most = config->port_more[p].frame_max;

		if (most > 0 && frame > most)
			return no(reason,
				"%u elements make frames of %u bytes, and port %s carries %u",
				job->elements, frame, config->port[p].name, most);
	}
	return true;
}

/* The MTU of a port's interface, if the switch does not set it; 0: not known. */
static uint32_t
interface_mtu(const struct ctrl_config *config, unsigned int port)
{
	const char *interface = config->port_more[port].interface;
	int mtu = interface[0] == '\0' || config->port[port].mtu > 0
		? 0
		: ctrl_interface_mtu(interface);

	return mtu > 0 ? (uint32_t)mtu : 0;
}

bool
ctrl_check_links(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason)
{
	uint32_t datagram = ctrl_job_frame_bytes(job) - 14;

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		uint32_t mtu = interface_mtu(config, p);

		if (mtu > 0 && datagram > mtu)
			return no(reason,
				"%u elements make datagrams of %u bytes, and interface %s of port "
				"%s "
				"has MTU %u: ip link set dev %s mtu %u, or fewer elements",
				job->elements, datagram, config->port_more[p].interface,
				config->port[p].name, mtu, config->port_more[p].interface,
				datagram);
	}
	return true;
}

uint32_t
ctrl_links_mtu(const struct ctrl_config *config)
{
	uint32_t least = UINT16_MAX;

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		uint32_t frame = config->port_more[p].frame_max, mtu = interface_mtu(config, p);

		if ((int)p == config->ppe.exception_port)
			continue;
		if (frame > 0)
			least = RTE_MIN(least, frame - 14);
		if (mtu > 0)
			least = RTE_MIN(least, mtu);
	}
	return least;
}

void
ctrl_fit_elements(const struct ctrl_config *config, struct ppe_job *job)
{
	uint32_t most =
		RTE_MIN(ctrl_links_mtu(config) + 14, config->ppe.packet_bytes - VLAN_AND_FCS);
	uint32_t fit;

	if (job->elements != 0)
		return;
	job->elements = 2;
	most -= RTE_MIN(most, ctrl_job_frame_bytes(job) - ppe_job_payload_bytes(job));
	fit = RTE_MIN(most / 4, CTRL_FIT_MAX);
	job->elements =
		(uint16_t)(fit < CTRL_FIT_STEP ? RTE_MAX(fit, 1u) : fit - fit % CTRL_FIT_STEP);
}

bool
ctrl_check_buffers(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason)
{
	uint32_t need = ctrl_job_packet_bytes(job);

	if (need <= config->ppe.packet_bytes)
		return true;
	return no(reason,
		"%u elements need packet buffers of %u bytes, and the switch was started with %u: "
		"fewer elements, or a larger pools.frame_bytes in its configuration",
		job->elements, need, config->ppe.packet_bytes);
}

/* -- jobs of the configuration */

/* A job that is read. */
struct job_reading {
	struct ctrl_reading in;
	struct ctrl_tree_reading tree; /* the same object */
	struct ppe_job *job;
};

#define REFUSE(r, key, ...) CTRL_REFUSE(&(r)->in, key, __VA_ARGS__)

/* A file with the digits of a key, and white space around them. */
static int
read_key_file(const struct job_reading *r, const char *path, const char *name,
	uint8_t key[WEIR_KEY_BYTES])
{
	const char *why, *digits;
	struct stat about;
	size_t length;
	char *text = ctrl_read_file(name, &length, &why);
	bool good;

	if (text == NULL)
		return REFUSE(r, path, "%s: %s", name, why);
	digits = text + strspn(text, " \t\r\n");
	good = ctrl_parse_hex(digits, key, WEIR_KEY_BYTES) &&
		strspn(digits + KEY_DIGITS, " \t\r\n") == strlen(digits + KEY_DIGITS) &&
		strlen(text) == length;
	explicit_bzero(text, length);
	free(text);
	if (stat(name, &about) < 0 || (about.st_mode & S_IRWXO) != 0)
		return REFUSE(r, path,
			"%s may be read or changed by other users: chmod o= it, and make another "
			"key",
			name);
	return good ? 0
		    : REFUSE(r, path,
			      "%s: a key is %u hexadecimal digits and nothing else; `openssl rand "
			      "-hex %u` makes one",
			      name, KEY_DIGITS, WEIR_KEY_BYTES);
}

/* The job's key, and those of its parents. */
static int
read_keys(const struct job_reading *r)
{
	const json_t *parents = json_object_get(json_object_get(r->in.object, "tree"), "parents");
	const char *name = ctrl_string(r->in.object, "jobs[].key_file");
	struct ppe_job *job = r->job;
	int rc = 0;

	if (name[0] != '\0' && job->fixed_generation != 0)
		return REFUSE(r, "key_file",
			"a job with a fixed generation can't be authenticated: it has no joins, "
			"which make its keys");
	if (name[0] != '\0') {
		rc = read_key_file(r, "key_file", name, job->key);
		job->proved = job->authenticated = true;
	}
	for (unsigned int p = 0; rc == 0 && p < job->nb_parents; p++) {
		name = ctrl_string(json_array_get(parents, p), "jobs[].tree.parents[].key_file");
		job->parent[p].keyed = name[0] != '\0';
		if (job->parent[p].keyed)
			rc = read_key_file(r, ctrl_path("tree.parents[%u].key_file", p).text, name,
				job->parent[p].key);
	}
	return rc;
}

/* Sources 0, 1, ..., or from the first rank of the tree on, at consecutive addresses. */
static int
read_source_range(const struct job_reading *r, const json_t *range)
{
	struct ppe_job *job = r->job;
	uint32_t first = 0;

	job->nb_sources = (uint16_t)ctrl_integer(range, "jobs[].sources.count");
	ctrl_parse_address(ctrl_string(range, "jobs[].sources.first"), &first);
	if (job->first_rank + job->nb_sources > WEIR_SOURCES_MAX)
		return REFUSE(r, "sources.count",
			"ids from tree.first_rank on, %u, are not in 0..%d", job->first_rank,
			WEIR_SOURCES_MAX - 1);
	for (unsigned int i = 0; i < job->nb_sources; i++) {
		unsigned int id = job->first_rank + i;
		struct ctrl_reason reason;

		if (!ctrl_check_address(r->in.config, first + i, &reason))
			return REFUSE(r, i == 0 ? "sources.first" : "sources.count",
				"source %u: %s", id, reason.text);
		job->address[id] = first + i;
		job->members[id / 64] |= UINT64_C(1) << (id % 64);
	}
	return 0;
}

/* What is known when the switch runs; and block ids of few bits, which repeat, as in a capture that
 * is replayed in a loop. A join does not tell hosts their width. */
static int
check_settings(const struct job_reading *r)
{
	unsigned int bits = 32u - r->job->block_shift;

	if (r->job->elements == 0)
		return REFUSE(r, "elements",
			"0 is for jobs of the control API: what fits the ports is known when the "
			"switch runs");
	if (r->job->alltoall == CTRL_ALLTOALL_FIT)
		return REFUSE(r, "alltoall",
			"\"fit\" is for jobs of the control API: what memory is left is known when "
			"the switch runs");
	if (bits < 32 && r->job->fixed_generation == 0)
		return REFUSE(r, "block_bits",
			"fewer than 32 bits need a fixed generation: sources that join use 32");
	if (r->job->window > UINT32_C(1) << (bits - 2))
		return REFUSE(r, "block_bits",
			"%u bits number %u blocks, fewer than 4 windows of %u", bits, 1u << bits,
			r->job->window);
	return 0;
}

/* The checks that jobs of the control API pass, too; for a parent's job, this switch is one
 * source. */
static int
check_whole(const struct job_reading *r)
{
	const struct ctrl_config *config = r->in.config;
	struct ctrl_reason reason;

	if (!ctrl_check_reduction(r->job, &reason))
		return REFUSE(r, "op", "%s", reason.text);
	if (!ctrl_check_integrity(r->job, &reason))
		return REFUSE(r, "integrity", "%s", reason.text);
	if (!ctrl_check_frames(config, r->job, &reason))
		return REFUSE(r, "elements", "%s", reason.text);
	for (const struct ppe_job *other = config->job; other < r->job; other++)
		if (ctrl_tree_collides(other, r->job))
			return REFUSE(r, "tree.parents",
				"jobs[%td] contributes to the same job of a parent already: name "
				"another parents[].job",
				other - config->job);
	return ctrl_tree_check(&r->tree, r->job);
}

static int
read_job(const struct job_reading *r)
{
	const json_t *object = r->in.object, *sources = json_object_get(object, "sources");
	struct ctrl_job_spec spec = {0};
	int rc;

	ctrl_keys_read("jobs[]", object, &spec);
	*r->job = spec.shape;
	r->job->id = (uint8_t)spec.id;
	r->job->block_shift = (uint8_t)(32 - ctrl_integer(object, "jobs[].block_bits"));
	rc = ctrl_tree_read(&r->tree, object, r->job);
	if (rc == 0)
		rc = json_is_array(sources) ? ctrl_sources_read(&r->tree, sources, r->job)
					    : read_source_range(r, sources);
	if (rc == 0)
		rc = check_settings(r);
	if (rc == 0)
		rc = read_keys(r);
	return rc == 0 ? check_whole(r) : rc;
}

int
ctrl_read_jobs(struct ctrl_reading *reading)
{
	struct ctrl_config *config = reading->config;
	const json_t *jobs = json_object_get(reading->object, "jobs");
	size_t count = json_array_size(jobs);
	int rc = 0;

	config->job = calloc(count + 1, sizeof(*config->job));
	if (config->job == NULL)
		return -ENOMEM;
	for (; rc == 0 && config->nb_jobs < count; config->nb_jobs++) {
		struct ppe_job *job = &config->job[config->nb_jobs];
		struct ctrl_path at = ctrl_path("jobs[%u].", config->nb_jobs);
		const struct job_reading r = {
			{config, reading->error, json_array_get(jobs, config->nb_jobs), at.text},
			{config, at.text, reading->error}, job};

		rc = read_job(&r);
		config->jobs.by_id[job->id] = job;
	}
	return rc;
}
