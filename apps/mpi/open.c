/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "apps/mpi/offload_priv.h"

#define CONTACT_TIMEOUT_MS 800
/*
 * After the time of the contact. All ranks have arrived when they join, so only a broken path makes
 * them wait: a rank that cannot reach the switch votes at the end of its contact's time, and the
 * others wait for its join until then.
 */
#define JOIN_MORE_MS      3000
#define ABORT_DELAY_US    200000 /* MPICH's mpiexec may end before it has read what ranks said */
#define OP_TIMEOUT_MS     86400000 /* a rank may be late for legal reasons: a day */
#define SILENCE_TIMEOUT_S 20
#define TIMEOUT_MAX_S     86400
#define MAX_JOBS          64
#define MIN_HOSTS         3 /* two send each other half of what they would send to the switch */
#define LATE_S            3 /* a rank that waits for others of its host for so long says so */
#define RETRY_S           30 /* in which no new communicator asks a switch that did not answer */

/* A number of a rank's host; the lowest bit says that the rank has a switch's address. */
#define HOST_HAS_SWITCH UINT64_C(1)

/* The switch makes a block as large as its links' least MTU allows, up to so many bytes less. */
#define MTU_SLACK 384

#define NO_ANSWER "the switch did not answer a moment ago"

/* What one rank tells the others. */
struct invitation {
	char why_not[128]; /* "": open */
	char job[JOB_NAME_MAX];
	bool exists; /* the job does, and each host joins it at its own switch, if it knows one */
	struct offload_settings settings;
};

/* What each rank says of its part; the minimum decides. */
enum {
	VOTE_FAILED_RANK,
	VOTE_CONTACT,
	VOTE_ELEMENTS,
	VOTE_MTU, /* and the host's number: one host with the least MTU prints the warning */
	VOTE_MTU_NEGATIVE, /* so the largest one */
	VOTES
};

/* And of the job that it keeps: which one, as a number and its negative; does it still work? */
enum { OFFER, OFFER_NEGATIVE, OFFERS, OFFER_WORKS = 0 };

struct opening {
	struct offload_comm *comm;
	enum comm_state (*stage)(struct opening *); /* what is done next */
	void *creation; /* of a communicator, in progress */
	MPI_Request request; /* of a collective, which ends before the next stage */
	uint64_t host; /* hash of the own host's name */
	struct invitation invitation;
	char job_settings[OFFLOAD_TEXT_MAX + 16];
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
	uint64_t hosts[]; /* [comm->size]: `host` of each rank */
};

static _Atomic uint64_t no_switch_until; /* seconds of the monotonic clock */

/* Where the ranks are */

/* hosts: a number of each rank's host; NULL: each rank counts as a host. False: no memory. */
static bool
layout_make(struct layout *layout, const uint64_t *hosts, int rank, int size)
{
	layout->host_of = malloc((size_t)size * sizeof(int));
	if (layout->host_of == NULL)
		return false;
	for (int r = 0; r < size; r++) {
		int host = layout->hosts;

		for (int q = 0; hosts != NULL && q < r && host == layout->hosts; q++)
			if (hosts[q] == hosts[r])
				host = layout->host_of[q];
		layout->hosts += host == layout->hosts;
		layout->host_of[r] = host;
	}
	layout->host = layout->host_of[rank];
	for (int r = 0; r < size; r++) {
		layout->locals += layout->host_of[r] == layout->host;
		layout->local += layout->host_of[r] == layout->host && r < rank;
	}
	layout->alone = layout->hosts == size;
	layout->regular = size % layout->hosts == 0;
	for (int r = 0; r < size && layout->regular; r++)
		layout->regular = layout->host_of[r] == r / (size / layout->hosts);
	return true;
}

static uint64_t
layout_hash(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* A hash of the ranks' numbers in MPI_COMM_WORLD, in order. 0: some are not in it, or no memory. */
static uint64_t
layout_members(const struct offload_comm *comm)
{
	size_t size = (size_t)comm->size;
	int *ranks = malloc(2 * size * sizeof(int));
	MPI_Group own, all;
	uint64_t members;

	if (ranks == NULL)
		return 0;
	for (int rank = 0; rank < comm->size; rank++)
		ranks[rank] = rank;
	PMPI_Comm_group(comm->comm, &own);
	PMPI_Comm_group(MPI_COMM_WORLD, &all);
	PMPI_Group_translate_ranks(own, comm->size, ranks, all, ranks + size);
	members = layout_hash(ranks + size, size * sizeof(int)) | 1;
	for (int rank = 0; rank < comm->size; rank++)
		if (ranks[comm->size + rank] == MPI_UNDEFINED)
			members = 0;
	PMPI_Group_free(&own);
	PMPI_Group_free(&all);
	free(ranks);
	return members;
}

/* One rank's part */

/* The settings, which offload_take() changes: variables may be set on one host only, and all ranks
 * use those from then on. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

static struct offload_settings
settings_now(const struct offload_settings *take)
{
	struct offload_settings now;

	pthread_mutex_lock(&taking);
	if (take != NULL)
		offload_take(&settings, take);
	now = settings;
	pthread_mutex_unlock(&taking);
	return now;
}

/* The time that a communicator waits for the switch's first answer. */
static unsigned int
contact_ms(uint64_t setting)
{
	return setting == 0                      ? CONTACT_TIMEOUT_MS
		: setting < 1000 * TIMEOUT_MAX_S ? (unsigned int)setting
						 : 1000 * TIMEOUT_MAX_S;
}

/* MPI_COMM_WORLD's job may exist, as one over several switches has to; others are made. */
static void
name_job(struct invitation *to)
{
	const char *space = to->settings.namespace;
	uint64_t number = 0;

	if (to->exists) {
		memcpy(to->job, to->settings.job, sizeof(to->job));
		return;
	}
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		number = (uint64_t)(uintptr_t)to ^ now_s() << 20;
	snprintf(to->job, sizeof(to->job), "%.18s%c%012llx", *space != '\0' ? space : "mpi",
		*space != '\0' ? '.' : '-',
		(unsigned long long)(number & UINT64_C(0xffffffffffff)));
}

static void
invite(struct invitation *to, bool world)
{
	const struct offload_settings *own = &to->settings;
	uint64_t max_jobs;

	memset(to, 0, sizeof(*to));
	to->settings = settings_now(NULL);
	to->exists = world && own->job[0] != '\0';
	max_jobs = own->max_jobs > 0 ? own->max_jobs : MAX_JOBS;
	if (atomic_load(&jobs_open) >= max_jobs)
		kept_close(0);
#define WHY_NOT(...) snprintf(to->why_not, sizeof(to->why_not), __VA_ARGS__)
	if (own->switch_address[0] == '\0')
		WHY_NOT("WEIR_SWITCH is not set");
	else if (now_s() < atomic_load(&no_switch_until))
		WHY_NOT(NO_ANSWER);
	else if (atomic_load(&jobs_open) >= max_jobs) {
		to->settings.require = false;
		WHY_NOT("other communicators have %llu jobs, as many as max_jobs allows",
			(unsigned long long)max_jobs);
	} else if (to->exists && strlen(own->job) >= sizeof(to->job))
		WHY_NOT("WEIR_JOB is too long");
#define NUMBER(...)
#define FLAG(...)
#define TEXT(field, variable)                                                                      \
	else if (own->field != own->report && strlen(own->field) == sizeof(own->field) - 1)        \
		WHY_NOT("%s is too long", variable);
#define OFFLOAD_X(field, name, variable, type, help) type(field, variable)
	OFFLOAD_SETTING_LIST(OFFLOAD_X)
#undef OFFLOAD_X
#undef NUMBER
#undef FLAG
#undef TEXT
#undef WHY_NOT
	else name_job(to);
}

/* Every rank's part */

static void
warn(void *context, const char *text)
{
	static _Atomic bool warned;

	(void)context;
	say(atomic_exchange(&warned, true) ? 1 : 0, "%s", text);
}

/* A host with a smaller MTU than others, which makes all packets smaller, says so, once. */
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
	const struct offload_settings
		*of = &invitation->settings,
		own = settings_now(NULL); /* has the invitation's switch, if it had none */
	uint64_t timeout_s = of->timeout_s > 0 ? of->timeout_s : SILENCE_TIMEOUT_S;
	struct weir_config config = {
		.control = invitation->exists ? own.switch_address : of->switch_address,
		.job_name = invitation->job,
		.create = !invitation->exists,
		.temporary = !invitation->exists,
		/* "", not NULL, which would be this rank's own variable. */
		.settings = opening->job_settings,
		.source = comm->layout.host,
		.sources = (unsigned int)comm->layout.hosts,
		.contact_timeout_ms = contact_ms(of->contact_ms),
		.join_timeout_ms = contact_ms(of->contact_ms) + JOIN_MORE_MS,
		.op_timeout_ms = OP_TIMEOUT_MS,
		.silence_timeout_ms =
			1000 * (int)(timeout_s < TIMEOUT_MAX_S ? timeout_s : TIMEOUT_MAX_S),
		.partial = WEIR_PARTIAL_FAIL,
		.warn = warn,
	};

	/* A program may call MPI_Alltoall. The later one of equal settings counts. */
	snprintf(opening->job_settings, sizeof(opening->job_settings), "alltoall=fit %s",
		of->job_settings);
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

/* Start to create the private communicator, 0; or that of this host's ranks for first steps or for
 * last ones, 1 and 2. */
static int
create(struct opening *opening, int which)
{
	const struct offload_comm *comm = opening->comm;
	MPI_Comm parent = which == 0 ? comm->comm : comm->private_comm;
	int *ranks = malloc((size_t)comm->size * sizeof(int)), n = 0, code;
	MPI_Group all, some;

	if (ranks == NULL)
		return MPI_ERR_NO_MEM;
	for (int rank = 0; rank < comm->size; rank++)
		if (which == 0 || comm->layout.host_of[rank] == comm->layout.host)
			ranks[n++] = rank;
	PMPI_Comm_group(parent, &all);
	PMPI_Group_incl(all, n, ranks, &some);
	code = INSIDE(front.create(parent, some, which, &opening->creation));
	PMPI_Group_free(&some);
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
		if (opening->creation == NULL &&
			create(opening, 1 + opening->created) != MPI_SUCCESS)
			break;
		if (!INSIDE(front.created(opening->creation, &comm->local[opening->created])))
			return false;
		opening->creation = NULL;
	}
	return true;
}

/*
 * Stages. Each gives COMM_OPENING, or what the communicator becomes. A collective of all ranks has
 * ended before the next stage begins.
 */
static enum comm_state send_invitation(struct opening *), accept_invitation(struct opening *),
	await_join(struct opening *), count_votes(struct opening *), await_local(struct opening *),
	take_offer(struct opening *), await_trial(struct opening *), count_trials(struct opening *),
	create_private(struct opening *);

#define COLLECTIVE(opening, call, ...)                                                             \
	INSIDE(call(__VA_ARGS__, (opening)->comm->private_comm, &(opening)->request))

/*
 * The communicator stays on MPI. One rank says why; of MPI_COMM_WORLD always, as then nothing may
 * run on Weir. allowed: whatever `require` says.
 */
static enum comm_state
off(const struct opening *opening, bool allowed, int speaker, const char *why_not)
{
	const struct offload_comm *comm = opening->comm;
	bool ends = !allowed && opening->invitation.settings.require;

	if (comm->rank != speaker)
		return COMM_OFF;
	say(!ends && comm->comm != MPI_COMM_WORLD, "%s with %d ranks %s: %s", comm->name,
		comm->size, ends ? "cannot use the switch, as WEIR_REQUIRE wants" : "stays on MPI",
		why_not);
	if (ends) {
		usleep(ABORT_DELAY_US);
		PMPI_Abort(comm->comm, 1);
	}
	return COMM_OFF;
}

static enum comm_state
exchange_hosts(struct opening *opening)
{
	COLLECTIVE(opening, PMPI_Iallgather, &opening->host, 1, MPI_UINT64_T, opening->hosts, 1,
		MPI_UINT64_T);
	opening->stage = send_invitation;
	return COMM_OPENING;
}

/*
 * A kept job. The job's number is asked for, and not a rank's word that it has one: a rank may have
 * freed communicators in another order, or have closed some. Its members have to be those of this
 * communicator then, in the same order, since each keeps a job with its own rank and the same size.
 */

/*
 * The least of all ranks' offers. In a blocking call on the program's communicator, as that call
 * itself would be; otherwise on the private one, as calls of the program may be in progress.
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
	opening->stage = take_offer;
	return COMM_OPENING;
}

/* No job is kept by all ranks. A nonblocking call has begun to create the communicator already. */
static enum comm_state
open_anew(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;

	if (comm->private_comm != MPI_COMM_NULL)
		return exchange_hosts(opening);
	if (front.create != NULL && create(opening, 0) != MPI_SUCCESS)
		return COMM_FAILED;
	opening->stage = create_private;
	return COMM_OPENING;
}

/* A job that was kept may be gone, with the switch or with a rank: a barrier tells. */
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
	opening->trial_until = now_s() + 2 + (comm->contact_ms + 999) / 1000;
	opening->stage = await_trial;
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
	opening->stage = count_trials;
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

	if (front.create == NULL) {
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
	const int size = opening->comm->size;
	int from = 0;

	while (from < size && !(opening->hosts[from] & HOST_HAS_SWITCH))
		from++;
	from %= size;
	if (opening->comm->rank == from) {
		invite(&opening->invitation, opening->comm->comm == MPI_COMM_WORLD);
		if (opening->invitation.why_not[0] == '\0')
			job_count(opening->comm, true);
	}
	for (int rank = 0; rank < size; rank++)
		opening->hosts[rank] &= ~HOST_HAS_SWITCH;
	COLLECTIVE(opening, PMPI_Ibcast, &opening->invitation, (int)sizeof(opening->invitation),
		MPI_BYTE, from);
	opening->stage = accept_invitation;
	return COMM_OPENING;
}

/* All ranks know the invitation: who takes part? */
static enum comm_state
accept_invitation(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;
	const struct invitation *invitation = &opening->invitation;
	const struct offload_settings *of = &invitation->settings;
	const uint64_t *hosts = of->flat ? NULL : opening->hosts;
	int code;

	if (invitation->why_not[0] == '\0')
		settings_now(of);
	comm->min_bytes = of->min_bytes;
	comm->max_bytes = of->max_bytes;
	comm->min_hosts = of->min_hosts > 0 ? of->min_hosts : MIN_HOSTS;
	comm->contact_ms = contact_ms(of->contact_ms);
	memcpy(comm->job, invitation->job, sizeof(comm->job));
	opening->stage = await_join;
	if (invitation->why_not[0] != '\0')
		return off(opening, false, 0, invitation->why_not);
	if (!layout_make(&comm->layout, hosts, comm->rank, comm->size)) {
		vote_against(opening, "no memory");
		return COMM_OPENING;
	}
	if (comm->layout.hosts == 1)
		return off(opening, true, 0,
			"all its ranks are on one host, or on several of the same name, as "
			"containers may be: with the setting flat, each talks to the switch "
			"itself");
	if (comm->layout.hosts > WEIR_SOURCES_MAX)
		return off(opening, false, 0, "a job has at most 256 sources");
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
	opening->stage = count_votes;
	return COMM_OPENING;
}

static enum comm_state
count_votes(struct opening *opening)
{
	struct offload_comm *comm = opening->comm;

	if (opening->votes[VOTE_FAILED_RANK] != INT_MAX) {
		if (opening->votes[VOTE_CONTACT] == 0)
			atomic_store(&no_switch_until, now_s() + RETRY_S);
		kept_close(0); /* the switch may have had no room for one more */
		return off(opening, false, opening->votes[VOTE_FAILED_RANK] % comm->size,
			opening->why_not);
	}
	comm->elements = (unsigned int)opening->votes[VOTE_ELEMENTS];
	say_mtu(opening);
	if (comm->layout.alone || opening->local_voted)
		return COMM_ON;
	opening->stage = await_local;
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
	opening->stage = await_join;
	return COMM_OPENING;
}

struct opening *
opening_begin(struct offload_comm *comm, bool blocking)
{
	struct opening *opening =
		calloc(1, sizeof(*opening) + (size_t)comm->size * sizeof(opening->hosts[0]));
	char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
	int length = 0;

	if (opening == NULL)
		return NULL;
	opening->comm = comm;
	opening->request = MPI_REQUEST_NULL;
	/* Ranks whose processor has the same name share a host. */
	PMPI_Get_processor_name(name, &length);
	opening->host = layout_hash(name, (size_t)length) & ~HOST_HAS_SWITCH;
	if (settings_now(NULL).switch_address[0] != '\0')
		opening->host |= HOST_HAS_SWITCH;
	for (int i = 0; i < VOTES; i++)
		opening->vote[i] = INT_MAX;
	/* The job of MPI_COMM_WORLD may be given, and lasts. */
	opening->asked = comm->comm == MPI_COMM_WORLD;
	if (!opening->asked)
		comm->members = layout_members(comm);
	opening->stage = opening->asked ? open_anew : offer_kept;
	if (!blocking && open_anew(opening) != COMM_OPENING) {
		free(opening);
		return NULL;
	}
	return opening;
}

enum comm_state
opening_advance(struct opening **at)
{
	struct opening *opening = *at;
	struct offload_comm *comm;
	enum comm_state state, (*stage)(struct opening *);
	int done;

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
		state = stage(opening);
	} while (state == COMM_OPENING && stage != opening->stage);
	if (state == COMM_OPENING)
		return state;
	if (state == COMM_ON) {
		report_job(opening->stage == count_trials ? NULL : comm->job);
		job_count(comm, true);
	} else {
		job_count(comm, false);
	}
	if (state == COMM_OFF) {
		weir_close(comm->weir);
		comm->weir = NULL;
	}
	free(opening);
	*at = NULL;
	return state;
}
