/* SPDX-License-Identifier: BSD-3-Clause */
/* A member of a job, as JSON. */
#include "ctrl/api/member.h"

#include <stdlib.h>

#include "ctrl/api/json.h"
#include "ctrl/config/schema.h"

static const char *
state_text(const struct ctrl_job *job, const struct ctrl_membership *membership, unsigned int rank)
{
	if (ctrl_membership_has(membership, rank))
		return "joined";
	if (job->member == NULL)
		return "expected";
	switch (job->member[rank].state) {
	case CTRL_MEMBER_EXPIRED: return "expired";
	case CTRL_MEMBER_LEFT: return "left";
	case CTRL_MEMBER_EXPECTED:
	case CTRL_MEMBER_JOINED: break;
	}
	return "expected";
}

static void
put_or_null(json_t *object, const char *key, bool there, double value)
{
	json_object_set_new(object, key, there ? json_real(value) : json_null());
}

bool
api_silence(const struct ctrl_job *job, unsigned int rank, const struct ppe_source_stats *source,
	double *silent)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];

	if (source->heard) {
		*silent = (double)source->silent_us / 1e6;
		return true;
	}
	if (member == NULL || member->heard <= 0)
		return false;
	*silent = ctrl_monotonic() - member->heard;
	return true;
}

bool
api_is_gone(const struct ctrl_job *job, unsigned int rank)
{
	return job->member != NULL &&
		(job->member[rank].state == CTRL_MEMBER_EXPIRED ||
			job->member[rank].state == CTRL_MEMBER_LEFT);
}

void
api_put_presence(json_t *object, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank,
	const struct ppe_source_stats *source)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];
	uint32_t address = member == NULL ? job->job->address[rank] : member->address;
	double silent = 0;
	bool heard = api_silence(job, rank, source, &silent);

	api_put(object, "rank", rank);
	api_put_text(object, "address", address == 0 ? NULL : ctrl_address_text(address).text);
	put_or_null(object, "last_heard", heard, silent);
	api_put_text(object, "state", state_text(job, membership, rank));
	put_or_null(object, "gone", api_is_gone(job, rank) && member->gone > 0,
		member == NULL ? 0 : ctrl_monotonic() - member->gone);
	put_or_null(object, "asks", source->joining, (double)source->joining_us / 1e6);
	json_object_set_new(object, "contested", json_boolean(source->contested));
}

json_t *
api_member_json(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank, uint64_t waits_us)
{
	const struct ctrl_member *member = job->member == NULL ? NULL : &job->member[rank];
	json_t *object = json_object();
	struct ppe_source_stats s = {0};

	ppe_source_stats_read(running->ppe, job->job->id, (uint8_t)rank, &s);
	api_put_presence(object, job, membership, rank, &s);
	api_put_text(object, "port", s.located ? running->config->port[s.port].name : NULL);
	json_object_set_new(object, "udp", s.located ? json_integer(s.udp) : json_null());
	put_or_null(object, "joined", member != NULL && member->joined > 0,
		member == NULL ? 0 : member->joined);
	json_object_set_new(object, "waited", json_real((double)s.waited_us / 1e6));
	json_object_set_new(object, "waiting", json_real((double)waits_us / 1e6));
	api_put(object, "last", s.last);
	return object;
}

void
api_read_waits(const struct ctrl_running *running, const struct ctrl_job *job,
	uint64_t waits_us[WEIR_SOURCES_MAX])
{
	unsigned int most = 2u * job->job->window;
	struct ppe_block_info *block = calloc(most, sizeof(*block));
	int n = block == NULL ? 0
			      : ppe_blocks_read(running->ppe, job->job->id, true, 0, block, most);

	/* Blocks overlap: a source's wait is its longest one. */
	for (int i = 0; i < n && i < (int)most; i++)
		for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
			if ((block[i].heard[s / 64] >> (s % 64) & 1) == 0 &&
				block[i].idle_us > waits_us[s])
				waits_us[s] = block[i].idle_us;
	free(block);
}
