/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of jobs, and their addresses. The source id on the wire is the rank. */
#include <string.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "ctrl/config/schema.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/jobs/state.h"

#define CONFLICT CTRL_REFUSED_CONFLICT

#define WORDS    (WEIR_SOURCES_MAX / 64)

static unsigned int
count(const uint64_t mask[WORDS])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < WORDS; i++)
		n += (unsigned int)__builtin_popcountll(mask[i]);
	return n;
}

void
ctrl_member_set(struct ppe_job *job, unsigned int rank, uint32_t address, uint64_t epoch)
{
	uint64_t bit = UINT64_C(1) << (rank % 64);

	if (address != 0)
		job->members[rank / 64] |= bit;
	else
		job->members[rank / 64] &= ~bit;
	job->address[rank] = address;
	job->epoch[rank] = epoch;
}

unsigned int
ctrl_job_joined(const struct ctrl_job *job)
{
	return count(job->job->members);
}

/* A join to a job of the configuration: only check that the host is one of its sources. */
static int
join_fixed(
	const struct ctrl_job *job, unsigned int rank, uint32_t address, struct ctrl_refusal *why)
{
	if (!ppe_job_has(job->job, (uint8_t)rank))
		return ctrl_deny(why, CONFLICT, "rank",
			"the configuration lists the sources of job %s, and %u is none",
			job->job->name, rank);
	if (job->job->address[rank] != address)
		return ctrl_deny(why, CONFLICT, "address",
			"the configuration has source %u of job %s at %s, not at %s", rank,
			job->job->name, ctrl_address_text(job->job->address[rank]).text,
			ctrl_address_text(address).text);
	return 0;
}

int
ctrl_member_check(const struct ctrl_running *running, unsigned int rank, unsigned int size,
	uint32_t address, struct ctrl_refusal *why)
{
	struct ctrl_reason reason;

	if (rank >= size)
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "rank",
			"%u is not in 0..%u: ranks of a job of %u", rank, size - 1, size);
	if (!ctrl_check_address(running->config, address, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "address",
			"%s: give the host's address on the switch's links as \"address\"",
			reason.text);
	return 0;
}

static int
check_join(const struct ctrl_running *running, const struct ctrl_job *job, unsigned int rank,
	unsigned int size, uint32_t address, struct ctrl_refusal *why)
{
	unsigned int ranks = ppe_job_tree_ranks(job->job);
	int rc;

	if (job->job->children)
		return ctrl_deny(why, CONFLICT, "rank",
			"the sources of job %s are switches: hosts join the job of their own "
			"switch",
			job->job->name);
	if (size != ranks)
		return ctrl_deny(why, CONFLICT, "size",
			"job %s is of %u members, not of %u: do all ranks name the same job?",
			job->job->name, ranks, size);
	if (job->member == NULL)
		return join_fixed(job, rank, address, why);
	rc = ctrl_member_check(running, rank, size, address, why);
	if (rc < 0)
		return rc;
	if (!ctrl_job_has_member(job, rank))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "rank",
			"%u is not in %u..%u: the ranks of job %s on this switch, of %u in its "
			"tree; each host joins at its own leaf",
			rank, job->job->first_rank, ctrl_job_rank_end(job) - 1, job->job->name,
			ranks);
	if (job->member[rank].state == CTRL_MEMBER_JOINED && job->member[rank].address != address)
		return ctrl_deny(why, CONFLICT, "address",
			"rank %u of job %s is at %s: two hosts with one rank, or a former run; if "
			"that "
			"host is gone, delete the member first: weirctl member delete %s %u",
			rank, job->job->name, ctrl_address_text(job->member[rank].address).text,
			job->job->name, rank);
	return 0;
}

/* Publish the job with an address and epoch for this rank; both 0 remove the rank. */
static int
move(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank, uint32_t address,
	uint64_t epoch, struct ctrl_refusal *why)
{
	struct ppe_job *next = ctrl_job_draft(job);

	if (next == NULL)
		return ctrl_deny_memory(why);
	ctrl_member_set(next, rank, address, epoch);
	return ctrl_jobs_publish(running, NULL, job->job, why);
}

/* Microseconds since 1970 also grow over restarts, as long as the clock does not go back. */
uint64_t
ctrl_membership_draw(const struct ctrl_running *running)
{
	static uint64_t last; /* only the control thread uses it */
	uint64_t now = (uint64_t)(ctrl_unix_time() * 1e6);

	if (running->is_dry_run)
		return 0;
	last = RTE_MAX(last + 1, now);
	return last;
}

void
ctrl_member_begin(struct ctrl_job *job, unsigned int rank, const char *who)
{
	job->member[rank] = (struct ctrl_member){.state = CTRL_MEMBER_JOINED,
		.address = job->job->address[rank],
		.membership = job->job->epoch[rank],
		.joined = ctrl_unix_time(),
		.last_join = ctrl_monotonic()};
	ctrl_log_change_limited(CTRL_LOG_SITE, who, "member joined",
		"job=%s rank=%u member_address=%s joined=%u size=%u",
		ctrl_log_quote(job->job->name).text, rank,
		ctrl_address_text(job->job->address[rank]).text, ctrl_job_joined(job),
		job->job->nb_sources);
}

int
ctrl_member_join(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	unsigned int size, uint32_t address, const char *who, struct ctrl_refusal *why)
{
	struct ctrl_member *member;
	int rc = check_join(running, job, rank, size, address, why);

	if (rc == 0 && job->member == NULL)
		return 0;
	if (rc == 0)
		rc = move(running, job, rank, address, ctrl_membership_draw(running), why);
	if (rc < 0 || running->is_dry_run)
		return ctrl_jobs_refused(running, rc, who, "join", job->job->name, why);
	member = &job->member[rank];
	if (member->state == CTRL_MEMBER_JOINED) {
		/* It may be a new process on that host; the rank belongs to it from now on. */
		member->membership = job->job->epoch[rank];
		member->last_join = ctrl_monotonic();
	} else {
		ctrl_member_begin(job, rank, who);
	}
	ctrl_state_changed(running, job->temporary, false);
	return 0;
}

/* Has the rank joined, or is it a source of the configuration? */
static bool
is_known(const struct ctrl_job *job, unsigned int rank)
{
	if (job->member == NULL)
		return rank < WEIR_SOURCES_MAX && ppe_job_has(job->job, (uint8_t)rank);
	return ctrl_job_has_member(job, rank) && job->member[rank].state != CTRL_MEMBER_EXPECTED &&
		job->member[rank].state != CTRL_MEMBER_LEFT;
}

bool
ctrl_member_is(const struct ctrl_job *job, unsigned int rank, uint64_t membership)
{
	return !ctrl_job_has_member(job, rank) || job->member[rank].state != CTRL_MEMBER_JOINED ||
		job->member[rank].membership == membership || job->member[rank].membership == 0;
}

/* Note when the member's last packet came, before the engines forget it. */
static void
note_heard(const struct ctrl_running *running, struct ctrl_job *job, unsigned int rank)
{
	double silent = running->engine->silent(running->ppe, job->job->id, (uint8_t)rank);

	job->member[rank].last_heard = silent < 0 ? 0 : ctrl_monotonic() - silent;
}

/* Note when the member left. Its address stays, for hosts that wait for it. */
static void
note_gone(struct ctrl_member *member, enum ctrl_member_state how)
{
	member->state = how;
	member->gone_at = ctrl_monotonic();
}

int
ctrl_member_leave(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	const char *who, struct ctrl_refusal *why)
{
	struct ctrl_member *member;
	unsigned int size = job->job->nb_sources, joined = ctrl_job_joined(job);
	char name[PPE_JOB_NAME_MAX];
	bool leaving;
	int rc = 0;

	if (!is_known(job, rank)) {
		rc = ctrl_deny(why, CTRL_REFUSED_MEMBER, NULL, "rank %u has not joined job %s",
			rank, job->job->name);
		return ctrl_jobs_refused(running, rc, who, "leave", job->job->name, why);
	}
	if (job->member == NULL)
		return 0;
	member = &job->member[rank];
	strlcpy(name, job->job->name, sizeof(name));
	if (member->state == CTRL_MEMBER_JOINED && --joined == 0 && job->temporary) {
		rc = ctrl_job_delete(running, job, who, &leaving, why);
		if (rc < 0 || running->is_dry_run)
			return rc;
	} else {
		if (member->state == CTRL_MEMBER_JOINED) {
			if (!running->is_dry_run)
				note_heard(running, job, rank);
			rc = move(running, job, rank, 0, 0, why);
		}
		if (rc < 0 || running->is_dry_run)
			return ctrl_jobs_refused(running, rc, who, "leave", name, why);
		note_gone(member, CTRL_MEMBER_LEFT);
		ctrl_state_changed(running, job->temporary, false);
	}
	ctrl_log_change_limited(CTRL_LOG_SITE, who, "member left",
		"job=%s rank=%u joined=%u size=%u", ctrl_log_quote(name).text, rank, joined, size);
	return 0;
}

/* Seconds since the member's join over HTTP or its last packet, without those in which the switch
 * was stopped and could hear no member. */
static double
quiet_s(const struct ctrl_running *running, struct ctrl_job *job, unsigned int rank, double now)
{
	struct ctrl_member *member = &job->member[rank];
	double quiet = now - member->last_join;
	double packet = running->engine->silent(running->ppe, job->job->id, (uint8_t)rank);

	quiet = packet >= 0 && packet < quiet ? packet : quiet;
	member->stopped_s = member->stopped_s < quiet ? member->stopped_s : quiet;
	return quiet - member->stopped_s;
}

/* Draft the job without its expired members, if there are any. */
static void
draft_expiry(const struct ctrl_running *running, struct ctrl_job *job, double now)
{
	for (unsigned int rank = job->job->first_rank; rank < ctrl_job_rank_end(job); rank++) {
		if (job->member[rank].state != CTRL_MEMBER_JOINED ||
			quiet_s(running, job, rank, now) <= job->expire_s)
			continue;
		if (job->next == NULL && ctrl_job_draft(job) == NULL)
			return;
		note_heard(running, job, rank);
		ctrl_member_set(job->next, rank, 0, 0);
	}
}

/* After the publication: mark the members that it removed. */
static void
mark_expired(struct ctrl_job *job)
{
	const char *who = "by=weir why=expired";

	for (unsigned int rank = job->job->first_rank; rank < ctrl_job_rank_end(job); rank++) {
		struct ctrl_member *member = &job->member[rank];

		if (member->state != CTRL_MEMBER_JOINED || ppe_job_has(job->job, (uint8_t)rank))
			continue;
		note_gone(member, CTRL_MEMBER_EXPIRED);
		ctrl_log_change_limited(CTRL_LOG_SITE, who, "member expired",
			"job=%s rank=%u member_address=%s expire_s=%u",
			ctrl_log_quote(job->job->name).text, rank,
			ctrl_address_text(member->address).text, job->expire_s);
	}
}

/* All expired members are removed by one publication, because each publication waits for a turn of
 * all workers. A failure is retried at the next tick. */
static void
expire_members(struct ctrl_running *running, double now)
{
	const struct ctrl_job *due = NULL;
	struct ctrl_refusal why;
	bool temporary = true;

	CTRL_FOREACH_JOB (job, running) {
		if (job->member == NULL || job->expire_s == 0)
			continue;
		draft_expiry(running, job, now);
		if (job->next == NULL)
			continue;
		due = job;
		temporary &= job->temporary;
	}
	if (due == NULL || ctrl_jobs_publish(running, NULL, due->job, &why) < 0)
		return;
	ctrl_state_changed(running, temporary, false);
	CTRL_FOREACH_JOB (job, running)
		if (job->member != NULL)
			mark_expired(job);
}

/* Has a temporary job lost all its members, or waited too long for the first one? */
static bool
is_over(const struct ctrl_job *job, double now)
{
	if (!job->temporary || ctrl_job_joined(job) > 0)
		return false;
	for (unsigned int rank = job->job->first_rank; rank < ctrl_job_rank_end(job); rank++)
		if (job->member[rank].state != CTRL_MEMBER_EXPECTED)
			return true;
	return now - job->created_monotonic > job->expire_s;
}

#define STOPPED_S 2 /* a longer time between ticks: the switch or its machine was stopped */

void
ctrl_members_tick(struct ctrl_running *running)
{
	double now = ctrl_monotonic(), passed = now - running->ticked;
	const char *who = "by=weir why=\"no member\"";
	bool over[WEIR_JOBS_MAX] = {false};
	struct ctrl_refusal why;
	unsigned int leaving;

	running->ticked = now;
	CTRL_FOREACH_JOB (job, running) {
		if (passed <= STOPPED_S)
			break;
		job->created_monotonic += passed;
		for (unsigned int rank = 0; job->member != NULL && rank < ctrl_job_rank_end(job);
			rank++)
			job->member[rank].stopped_s += passed;
	}
	expire_members(running, now);
	CTRL_FOREACH_JOB (job, running)
		over[job->job->id] = is_over(job, now);
	ctrl_jobs_delete(running, over, who, &leaving, &why);
}

bool
ctrl_job_is_abandoned(const struct ctrl_job *job, const struct ppe_job_stats *stats)
{
	return job->job->fixed_generation == 0 && stats->generation > 0 &&
		count(stats->present) == 0;
}

void
ctrl_membership_of(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ppe_job_stats *stats, struct ctrl_membership *membership)
{
	static const uint64_t nobody[WORDS];
	struct ctrl_membership *a = membership;
	bool fixed = job->job->fixed_generation != 0;

	*a = (struct ctrl_membership){.is_join_requested = count(stats->joining) > 0};
	/* The sources that are joining; if none is, those of the running generation; before the
	 * first generation, those that the control API has admitted. */
	memcpy(a->in,
		fixed                           ? job->job->members
			: a->is_join_requested  ? stats->joining
			: stats->generation > 0 ? stats->present
			: job->member != NULL   ? job->job->members
						: nobody,
		sizeof(a->in));
	a->joined = count(a->in);
	a->is_abandoned = ctrl_job_is_abandoned(job, stats);
	if (ctrl_job_is_leaving(running, job))
		a->state = CTRL_JOB_DRAINING;
	else if (fixed)
		a->state = CTRL_JOB_RUNNING;
	else if (a->is_join_requested || stats->generation == 0)
		a->state = CTRL_JOB_JOINING;
	else
		a->state = a->joined == job->job->nb_sources ? CTRL_JOB_RUNNING
			: a->joined > 0                      ? CTRL_JOB_JOINING
							     : CTRL_JOB_IDLE;
}

const char *
ctrl_job_state_text(enum ctrl_job_state state)
{
	static const char *const texts[] = {"joining", "running", "idle", "draining"};

	return texts[state];
}
