/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "apps/mpi/offload_priv.h"

#define CONTACT_TIMEOUT_MS 800
/*
 * After the time of the contact. All ranks have arrived when they join, so only a broken path makes them wait: a rank that
 * cannot reach the switch votes at the end of its contact's time, and the others wait for its join until then.
 */
#define JOIN_MORE_MS      3000
#define OP_TIMEOUT_MS     86400000 /* a rank may be late for legal reasons: a day */
#define SILENCE_TIMEOUT_S 20
#define TIMEOUT_MAX_S     86400
#define MAX_JOBS          64
#define MIN_HOSTS         3 /* two send each other half of what they would send to the switch */
#define LATE_S            3 /* a rank that waits for others of its host for so long says so */
#define RETRY_S           30 /* after a switch did not answer, new communicators do not ask it for so long */

/* A number of a rank's host; the lowest bit says that the rank has a switch's address. */
#define HOST_HAS_SWITCH UINT64_C(1)

/* The switch makes a block as large as its links' least MTU allows, up to so many bytes less. */
#define MTU_SLACK 384

#define NO_ANSWER "the switch did not answer a moment ago"

/* What one rank tells the others. */
struct invitation {
	char why_not[128]; /* "": open */
	char job[JOB_NAME_MAX];
	char namespace[24];
	char switch_address[256];
	char job_settings[512];
	uint64_t min_bytes, max_bytes, min_hosts, max_jobs;
	uint32_t timeout_s, contact_ms, flat, require;
	uint32_t
		exists; /* the job does, and each host joins it at its own switch, if it knows one */
};

/* What each rank says of its part; the minimum decides. */
enum {
	VOTE_FAILED_RANK,
	VOTE_CONTACT,
	VOTE_ELEMENTS,
	VOTE_MTU, /* and the host's number: one of several hosts with the least MTU prints the warning */
	VOTE_MTU_NEGATIVE, /* so the largest one */
	VOTES
};

/* And of the job that it keeps: which one, as a number and its negative; does it still work? */
enum { OFFER, OFFER_NEGATIVE, OFFERS, OFFER_WORKS = 0 };

struct opening {
	struct offload_comm *comm;
	enum { KEPT, AGREED, TRY, TRIED, BEGIN, CREATE, INVITE, ACCEPT, JOIN, VOTE, LOCAL } stage;
	void *creation; /* of a communicator, in progress */
	MPI_Request request; /* of a collective, which ends before the next stage */
	uint64_t host, *hosts; /* hash of the own host's name, and of all ranks' */
	struct invitation invitation;
	int vote[VOTES], votes[VOTES];
	bool asked; /* for a kept job */
	struct offload_comm *offered; /* what this rank keeps */
	struct weir_request *trial;
	int64_t offer[OFFERS], offers[OFFERS];
	int created; /* of comm->local */
	uint64_t local_since, local_seen; /* seconds */
	bool has_warned; /* of local_since */
	bool local_voted; /* the vote is that on comm->local, the last one */
	uint64_t join_until, trial_until; /* seconds: an earlier time-out is not the join's */
	char why_not[256];
};

static _Atomic uint64_t no_switch_until; /* seconds of the monotonic clock */

static uint64_t
now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec;
}

/* One rank's part: the lowest rank that has a switch's address invites the others, or rank 0 says that none does. */

static bool
has_switch(const struct offload_settings *of)
{
	return of->switch_address != NULL && of->switch_address[0] != '\0';
}

static int
inviter(const struct opening *opening)
{
	for (int rank = 0; rank < opening->comm->size; rank++)
		if (opening->hosts[rank] & HOST_HAS_SWITCH)
			return rank;
	return 0;
}

static pthread_mutex_t adopting =
	PTHREAD_MUTEX_INITIALIZER; /* the settings, which adopt() changes */

/* The variables may be set on one host only: all ranks use its settings from now on. */
static void
adopt(const struct invitation *from)
{
	static struct invitation known;

	pthread_mutex_lock(&adopting);
	if (!has_switch(&settings) && from->switch_address[0] != '\0') {
		known = *from;
		settings.job_settings = known.job_settings;
		settings.namespace = known.namespace;
		settings.switch_address = known.switch_address;
		settings.min_bytes = known.min_bytes;
		settings.max_bytes = known.max_bytes;
		settings.min_hosts = known.min_hosts;
		settings.max_jobs = known.max_jobs;
		settings.flat = known.flat;
		settings.require = known.require;
		settings.timeout_s = known.timeout_s;
		settings.contact_ms = known.contact_ms;
	}
	pthread_mutex_unlock(&adopting);
}

/* The time that a communicator waits for the switch's first answer. */
static unsigned int
contact_ms(uint64_t setting)
{
	return setting > 0 ? (unsigned int)setting : CONTACT_TIMEOUT_MS;
}

static uint32_t
least(uint64_t value, uint32_t most)
{
	return value < most ? (uint32_t)value : most;
}

/* MPI_COMM_WORLD's job may exist, as one over several switches has to; others are made. */
static void
name_job(struct invitation *to, const char *space, const char *world)
{
	bool named = space != NULL && space[0] != '\0';
	uint64_t number = 0;

	snprintf(to->namespace, sizeof(to->namespace), "%.18s", named ? space : "");
	to->exists = world != NULL && world[0] != '\0';
	if (to->exists && snprintf(to->job, sizeof(to->job), "%s", world) >= (int)sizeof(to->job))
		snprintf(to->why_not, sizeof(to->why_not), "WEIR_JOB is too long");
	if (to->exists)
		return;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		number = (uint64_t)(uintptr_t)to ^ now_s() << 20;
	snprintf(to->job, sizeof(to->job), "%.18s%c%012llx", named ? space : "mpi",
		named ? '.' : '-', (unsigned long long)(number & UINT64_C(0xffffffffffff)));
}

static void
invite(struct invitation *to, bool world)
{
	struct offload_settings own;
	const char *jobs;
	int length;

	pthread_mutex_lock(&adopting);
	own = settings;
	pthread_mutex_unlock(&adopting);
	jobs = own.job_settings != NULL ? own.job_settings : "";
	memset(to, 0, sizeof(*to));
	to->min_bytes = own.min_bytes;
	to->max_bytes = own.max_bytes;
	to->min_hosts = own.min_hosts > 0 ? own.min_hosts : MIN_HOSTS;
	to->max_jobs = own.max_jobs > 0 ? own.max_jobs : MAX_JOBS;
	to->flat = own.flat;
	to->require = own.require;
	to->timeout_s = least(own.timeout_s, TIMEOUT_MAX_S);
	to->contact_ms = least(own.contact_ms, TIMEOUT_MAX_S * 1000);
	name_job(to, own.namespace, world ? own.job : NULL);
	if (atomic_load(&jobs_open) >= to->max_jobs)
		kept_close();
	/* A program may call MPI_Alltoall. The later one of equal settings counts. */
	length = snprintf(to->job_settings, sizeof(to->job_settings), "alltoall=fit %s", jobs);
	if (to->why_not[0] != '\0')
		return;
	if (!has_switch(&own))
		snprintf(to->why_not, sizeof(to->why_not), "WEIR_SWITCH is not set");
	else if (now_s() < atomic_load(&no_switch_until))
		snprintf(to->why_not, sizeof(to->why_not), NO_ANSWER);
	else if (atomic_load(&jobs_open) >= to->max_jobs) {
		to->require = 0;
		snprintf(to->why_not, sizeof(to->why_not),
			"other communicators have %llu jobs, as many as max_jobs allows",
			(unsigned long long)to->max_jobs);
	} else if ((size_t)length >= sizeof(to->job_settings))
		snprintf(to->why_not, sizeof(to->why_not), "WEIR_SETTINGS is too long");
	else if (strlen(own.switch_address) >= sizeof(to->switch_address))
		snprintf(to->why_not, sizeof(to->why_not), "WEIR_SWITCH is too long");
	else
		memcpy(to->switch_address, own.switch_address, strlen(own.switch_address) + 1);
}

/* Every rank's part */

static void
warn(void *context, const char *text)
{
	static _Atomic bool warned;

	(void)context;
	say(atomic_exchange(&warned, true) ? 1 : 0, "%s", text);
}

/* One host has a smaller MTU than others, which makes the packets of all of them smaller: it says so, once. */
static void
say_mtu(const struct opening *opening)
{
	const struct offload_comm *comm = opening->comm;
	int smallest = opening->votes[VOTE_MTU] / WEIR_SOURCES_MAX,
	    largest = -opening->votes[VOTE_MTU_NEGATIVE];
	int bytes = 4 * (int)comm->elements;
	static _Atomic bool said;
	char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
	int length;

	if (opening->vote[VOTE_MTU] != opening->votes[VOTE_MTU] || smallest >= largest ||
		bytes > smallest || bytes + MTU_SLACK < smallest || atomic_exchange(&said, true))
		return;
	PMPI_Get_processor_name(name, &length);
	say(0,
		"%s with %d ranks: host %s (rank %d) has MTU %d towards the switch, and others "
		"have up to "
		"%d. So the packets of job %s carry %d bytes, on all hosts: raise the MTU of this "
		"host's interface, and of its link at the switch, to %d",
		comm->name, comm->size, name, comm->rank, smallest, largest, comm->job, bytes,
		largest);
}

/* Start to open the handle. Returns what weir_iopen does. */
static int
join(struct opening *opening)
{
	const struct invitation *invitation = &opening->invitation;
	struct offload_comm *comm = opening->comm;
	struct weir_config config = {
		.control = invitation->switch_address,
		.job_name = invitation->job,
		.create = !invitation->exists,
		.temporary = !invitation->exists,
		/* "", not NULL, which would be this rank's own variable. */
		.settings = invitation->job_settings,
		.source = comm->layout.host,
		.sources = (unsigned int)comm->layout.hosts,
		.contact_timeout_ms = contact_ms(invitation->contact_ms),
		.join_timeout_ms = contact_ms(invitation->contact_ms) + JOIN_MORE_MS,
		.op_timeout_ms = OP_TIMEOUT_MS,
		.silence_timeout_ms = 1000 *
			(invitation->timeout_s > 0 ? invitation->timeout_s : SILENCE_TIMEOUT_S),
		.partial = WEIR_PARTIAL_FAIL,
		.warn = warn,
	};

	pthread_mutex_lock(&adopting);
	if (invitation->exists)
		config.control = settings.switch_address; /* adopted, if it had none */
	pthread_mutex_unlock(&adopting);
	opening->join_until = now_s() + config.join_timeout_ms / 1000;
	return weir_iopen(&config, &comm->weir);
}

/* This rank cannot take part: it votes against. */
static void
vote_against(struct opening *opening, const char *why_not)
{
	snprintf(opening->why_not, sizeof(opening->why_not), "%s", why_not);
	opening->vote[VOTE_FAILED_RANK] = opening->comm->rank;
}

/* The handle is open, or is not: what this rank votes. */
static void
vote(struct opening *opening, int code)
{
	struct offload_comm *comm = opening->comm;

	if (code == 0) {
		int mtu = (int)weir_mtu(comm->weir);

		opening->vote[VOTE_ELEMENTS] = (int)weir_elements(comm->weir, WEIR_DTYPE_UINT32);
		if (mtu > 0) {
			opening->vote[VOTE_MTU] = mtu * WEIR_SOURCES_MAX + comm->layout.host;
			opening->vote[VOTE_MTU_NEGATIVE] = -mtu;
		}
		return;
	}
	vote_against(opening, code == -EAGAIN ? NO_ANSWER : weir_last_error(comm->weir));
	/* A rank that was refused says more than those that waited for it. */
	if (code == -ETIMEDOUT)
		opening->vote[VOTE_FAILED_RANK] += comm->size;
	/* A time-out may also be that of the join, when other ranks are missing. */
	if (code == -ECONNREFUSED || code == -EHOSTUNREACH || code == -ENETUNREACH ||
		(code == -ETIMEDOUT && now_s() < opening->join_until)) {
		opening->vote[VOTE_CONTACT] = 0;
		atomic_store(&no_switch_until, now_s() + RETRY_S);
	}
}

/* The ranks of this host, on the communicator of first steps or of last ones; nonblocking. */
static int
local_create(struct opening *opening)
{
	const struct offload_comm *comm = opening->comm;
	MPI_Group all, local;
	int *ranks = malloc((size_t)comm->layout.locals * sizeof(int)), n = 0, code;

	if (ranks == NULL)
		return MPI_ERR_NO_MEM;
	for (int rank = 0; rank < comm->size; rank++)
		if (comm->layout.host_of[rank] == comm->layout.host)
			ranks[n++] = rank;
	PMPI_Comm_group(comm->private_comm, &all);
	PMPI_Group_incl(all, n, ranks, &local);
	code = INSIDE(
		front.create(comm->private_comm, local, 1 + opening->created, &opening->creation));
	PMPI_Group_free(&local);
	PMPI_Group_free(&all);
	free(ranks);
	return code;
}

/* Both of them. False: not yet. */
static bool
local_make(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;
	int color = comm->layout.locals > 1 ? comm->layout.host : MPI_UNDEFINED;

	for (int i = 0; i < 2 && front.create == NULL; i++)
		INSIDE(PMPI_Comm_split(comm->private_comm, color, comm->rank, &comm->local[i]));
	for (; opening->created < 2 && comm->layout.locals > 1 && front.create != NULL;
		opening->created++) {
		if (opening->creation == NULL && local_create(opening) != MPI_SUCCESS)
			break;
		if (!INSIDE(front.created(opening->creation, &comm->local[opening->created])))
			return false;
		opening->creation = NULL;
	}
	return true;
}

/*
 * Stages. Each gives COMM_OPENING, or what the communicator becomes. A collective of all ranks has ended before the next
 * stage begins.
 */

#define COLLECTIVE(opening, call, ...)                                                             \
	INSIDE(call(__VA_ARGS__, (opening)->comm->private_comm, &(opening)->request))

/* The communicator stays on MPI. One rank says why; of MPI_COMM_WORLD always, as then nothing may run on Weir. */
static enum comm_state
off(const struct opening *opening, int speaker, const char *why_not)
{
	const struct offload_comm *comm = opening->comm;

	if (comm->rank == speaker)
		say(comm->comm != MPI_COMM_WORLD, "%s with %d ranks stays on MPI: %s", comm->name,
			comm->size, why_not);
	return COMM_OFF;
}

/* The same, for a reason that `require` does not allow. */
static enum comm_state
unavailable(const struct opening *opening, int speaker, const char *why_not)
{
	const struct offload_comm *comm = opening->comm;

	if (opening->invitation.require && comm->rank == speaker) {
		say(0, "%s with %d ranks cannot use the switch, as WEIR_REQUIRE wants: %s",
			comm->name, comm->size, why_not);
		PMPI_Abort(comm->comm, 1);
	}
	return off(opening, speaker, why_not);
}

static enum comm_state
exchange_hosts(struct opening *opening)
{
	COLLECTIVE(opening, PMPI_Iallgather, &opening->host, 1, MPI_UINT64_T, opening->hosts, 1,
		MPI_UINT64_T);
	opening->stage = INVITE;
	return COMM_OPENING;
}

/*
 * A kept job. The job's number is asked for, and not a rank's word that it has one: a rank may have freed communicators in another
 * order, or have closed some. Its members have to be those of this communicator then, in the same order, since each keeps a job
 * with its own rank and the same size.
 */

/*
 * The least of all ranks' offers. In a blocking call on the program's communicator, as that call itself would be; otherwise on
 * the private one, as calls of the program may be in progress.
 */
static void
agree(struct opening *opening)
{
	const struct offload_comm *comm = opening->comm;

	if (comm->private_comm == MPI_COMM_NULL)
		INSIDE(PMPI_Allreduce(
			opening->offer, opening->offers, OFFERS, MPI_INT64_T, MPI_MIN, comm->comm));
	else
		COLLECTIVE(opening, PMPI_Iallreduce, opening->offer, opening->offers, OFFERS,
			MPI_INT64_T, MPI_MIN);
}

static enum comm_state
offer_kept(struct opening *opening)
{
	struct offload_comm *offered = kept_take(opening->comm);
	int64_t number = 0;

	if (offered != NULL)
		number = (int64_t)(layout_hash(offered->job, strlen(offered->job)) >> 1);
	opening->asked = true;
	opening->offered = offered;
	opening->offer[OFFER] = number;
	opening->offer[OFFER_NEGATIVE] = -number;
	agree(opening);
	opening->stage = AGREED;
	return COMM_OPENING;
}

/* No job is kept by all ranks. A nonblocking call has begun to create the communicator already. */
static enum comm_state
open_anew(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;

	if (comm->private_comm != MPI_COMM_NULL)
		return exchange_hosts(opening);
	if (front.create_all != NULL &&
		INSIDE(front.create_all(comm->comm, &opening->creation)) != MPI_SUCCESS)
		return COMM_FAILED;
	opening->stage = CREATE;
	return COMM_OPENING;
}

/* All ranks know the offers. A job that was kept may be gone, with the switch or with a rank: a barrier tells. */
static enum comm_state
take_offer(struct opening *opening)
{
	struct offload_comm *comm = opening->comm, *offered = opening->offered;
	const int64_t *offers = opening->offers;

	opening->offered = NULL;
	if (offers[OFFER] == 0 || offers[OFFER] != -offers[OFFER_NEGATIVE]) {
		if (offered != NULL) {
			job_close(offered);
			free(offered);
		}
		return open_anew(opening);
	}
	job_move(comm, offered);
	if (comm->weir != NULL)
		(void)weir_ibarrier(comm->weir, &opening->trial);
	opening->trial_until = now_s() + 2 + (contact_ms(comm->contact_ms) + 999) / 1000;
	opening->stage = TRY;
	return COMM_OPENING;
}

static enum comm_state
await_trial(struct opening *opening)
{
	bool done = opening->comm->weir == NULL;
	int code = 0;

	if (opening->trial != NULL) {
		code = weir_test(&opening->trial, &done);
		if (code == 0 && !done && now_s() < opening->trial_until)
			return COMM_OPENING;
	}
	opening->offer[OFFER_WORKS] = code == 0 && done;
	agree(opening);
	opening->stage = TRIED;
	return COMM_OPENING;
}

static enum comm_state
count_trials(struct opening *opening)
{
	if (opening->offers[OFFER_WORKS] == 1)
		return COMM_ON;
	job_close(opening->comm);
	return open_anew(opening);
}

static enum comm_state
create_private(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;

	if (front.create_all == NULL) {
		INSIDE(PMPI_Comm_split(comm->comm, 0, comm->rank, &comm->private_comm));
		if (comm->private_comm != MPI_COMM_NULL)
			PMPI_Comm_set_errhandler(comm->private_comm, MPI_ERRORS_RETURN);
	} else {
		if (!INSIDE(front.created(opening->creation, &comm->private_comm)))
			return COMM_OPENING;
		opening->creation = NULL;
	}
	if (comm->private_comm == MPI_COMM_NULL)
		return COMM_FAILED;
	return opening->asked ? exchange_hosts(opening) : offer_kept(opening);
}

static enum comm_state
send_invitation(struct opening *opening)
{
	int from = inviter(opening);

	if (opening->comm->rank == from) {
		invite(&opening->invitation, opening->comm->comm == MPI_COMM_WORLD);
		if (opening->invitation.why_not[0] == '\0')
			job_count(opening->comm, true);
	}
	for (int rank = 0; rank < opening->comm->size; rank++)
		opening->hosts[rank] &= ~HOST_HAS_SWITCH;
	COLLECTIVE(opening, PMPI_Ibcast, &opening->invitation, (int)sizeof(opening->invitation),
		MPI_BYTE, from);
	opening->stage = ACCEPT;
	return COMM_OPENING;
}

/* All ranks know the invitation: who takes part? */
static enum comm_state
accept_invitation(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;
	const struct invitation *invitation = &opening->invitation;
	const uint64_t *hosts = invitation->flat ? NULL : opening->hosts;
	int code;

	adopt(invitation);
	comm->min_bytes = invitation->min_bytes;
	comm->max_bytes = invitation->max_bytes;
	comm->min_hosts = invitation->min_hosts;
	comm->contact_ms = invitation->contact_ms;
	memcpy(comm->job, invitation->job, sizeof(comm->job));
	opening->stage = JOIN;
	if (invitation->why_not[0] != '\0')
		return unavailable(opening, 0, invitation->why_not);
	if (!layout_make(&comm->layout, hosts, comm->rank, comm->size)) {
		vote_against(opening, "no memory");
		return COMM_OPENING;
	}
	if (comm->layout.hosts == 1)
		return off(opening, 0,
			"all its ranks are on one host, or on several of the same name, as "
			"containers may be: with the setting flat, each talks to the switch "
			"itself");
	if (comm->layout.hosts > WEIR_SOURCES_MAX)
		return unavailable(opening, 0, "a job has at most 256 sources");
	if (comm->layout.local == 0) {
		code = join(opening);
		if (code < 0)
			vote(opening, code);
	}
	return COMM_OPENING;
}

static enum comm_state
await_join(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;
	bool opened = false;
	int code;

	if (comm->weir != NULL && opening->vote[VOTE_FAILED_RANK] == INT_MAX) {
		code = weir_open_test(comm->weir, &opened);
		/* Another communicator has found out that the switch does not answer. */
		if (!opened && code == 0 && now_s() < atomic_load(&no_switch_until))
			code = -EAGAIN;
		if (!opened && code == 0)
			return COMM_OPENING;
		vote(opening, code);
	}
	COLLECTIVE(
		opening, PMPI_Iallreduce, opening->vote, opening->votes, VOTES, MPI_INT, MPI_MIN);
	opening->stage = VOTE;
	return COMM_OPENING;
}

static enum comm_state
count_votes(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;

	if (opening->votes[VOTE_FAILED_RANK] != INT_MAX) {
		if (opening->votes[VOTE_CONTACT] == 0)
			atomic_store(&no_switch_until, now_s() + RETRY_S);
		kept_close(); /* the switch may have had no room for one more */
		return unavailable(
			opening, opening->votes[VOTE_FAILED_RANK] % comm->size, opening->why_not);
	}
	comm->elements = (unsigned int)opening->votes[VOTE_ELEMENTS];
	say_mtu(opening);
	if (comm->layout.alone || opening->local_voted)
		return COMM_ON;
	opening->stage = LOCAL;
	return COMM_OPENING;
}

/* Several ranks on a host, on some host: after their communicators the ranks vote again. */
static enum comm_state
await_local(struct opening *opening)
{
	const struct offload_comm *comm = opening->comm;

	if (!local_make(opening)) {
		/* From the first look on, or from the first one after a time without any. */
		if (opening->local_since == 0 || now_s() - opening->local_seen > 1)
			opening->local_since = now_s();
		opening->local_seen = now_s();
		if (now_s() - opening->local_since >= LATE_S && !opening->has_warned) {
			opening->has_warned = true;
			say(0,
				"%s with %d ranks: rank %d has waited for %d s for the other ranks "
				"of its "
				"host, which create a communicator with it: has one of them ended, "
				"or is "
				"it stopped?",
				comm->name, comm->size, comm->rank, LATE_S);
		}
		return COMM_OPENING;
	}
	if (comm->layout.locals > 1 &&
		(comm->local[0] == MPI_COMM_NULL || comm->local[1] == MPI_COMM_NULL))
		vote_against(opening, "MPI could not create a communicator of the host's ranks");
	if (comm->layout.locals > 1 && mpi_op_of(WEIR_OP_SUM) == MPI_OP_NULL)
		vote_against(opening, "MPI could not make an operation");
	opening->local_voted = true;
	opening->stage = JOIN;
	return COMM_OPENING;
}

struct opening *
opening_begin(struct offload_comm *comm, bool blocking)
{
	struct opening *opening = calloc(1, sizeof(*opening));

	if (opening == NULL)
		return NULL;
	opening->hosts = malloc((size_t)comm->size * sizeof(*opening->hosts));
	if (opening->hosts == NULL) {
		free(opening);
		return NULL;
	}
	opening->comm = comm;
	opening->request = MPI_REQUEST_NULL;
	pthread_mutex_lock(&adopting);
	opening->host = (layout_own_host() & ~HOST_HAS_SWITCH) |
		(has_switch(&settings) ? HOST_HAS_SWITCH : 0);
	pthread_mutex_unlock(&adopting);
	for (int i = 0; i < VOTES; i++)
		opening->vote[i] = INT_MAX;
	/* The job of MPI_COMM_WORLD may be given, and lasts. */
	opening->asked = comm->comm == MPI_COMM_WORLD;
	if (!opening->asked)
		comm->members = layout_members(comm);
	opening->stage = opening->asked ? BEGIN : KEPT;
	if (!blocking && open_anew(opening) != COMM_OPENING) {
		free(opening->hosts);
		free(opening);
		return NULL;
	}
	return opening;
}

enum comm_state
opening_advance(struct opening **at)
{
	static enum comm_state (*const stages[])(struct opening *) = {
		[KEPT] = offer_kept,
		[AGREED] = take_offer,
		[TRY] = await_trial,
		[TRIED] = count_trials,
		[BEGIN] = open_anew,
		[CREATE] = create_private,
		[INVITE] = send_invitation,
		[ACCEPT] = accept_invitation,
		[JOIN] = await_join,
		[VOTE] = count_votes,
		[LOCAL] = await_local,
	};
	struct opening *opening = *at;
	struct offload_comm *comm;
	enum comm_state state;
	int stage, done;

	if (opening == NULL)
		return COMM_FAILED;
	comm = opening->comm;
	do {
		done = 1;
		if (opening->request != MPI_REQUEST_NULL)
			INSIDE(PMPI_Test(&opening->request, &done, MPI_STATUS_IGNORE));
		if (!done)
			return COMM_OPENING;
		stage = opening->stage;
		state = stages[stage](opening);
	} while (state == COMM_OPENING && stage != (int)opening->stage);
	if (state == COMM_OPENING)
		return state;
	if (state == COMM_ON) {
		report_job(opening->stage == TRIED ? NULL : comm->job);
		job_count(comm, true);
	} else {
		job_count(comm, false);
	}
	if (state == COMM_OFF) {
		weir_close(comm->weir);
		comm->weir = NULL;
	}
	free(opening->hosts);
	free(opening);
	*at = NULL;
	return state;
}
