/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams for libweir: a join and operations whose switch is the input. The functions that lead to
 * the kernel are stood in front of (--wrap), so that there are neither packets nor threads, and time goes on
 * only when the input says so.
 *
 * Whatever comes: each packet has one end among the counters, what the caller gets is all of an
 * operation or an error; nothing without the right tag is taken in an authenticated job, nor of a join that is proved.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/libweir/engine.h"
#include "pktbuf/wire/settings.h"
#include "tests/fuzz/flight.h"
#include "tests/fuzz/fuzz.h"
#include "tests/model/tags.h"

#define JOB          9
#define SOURCE       1
#define SOURCES      3
#define GENERATION   5
#define WINDOW       4
#define ELEMENTS     8
#define DATAGRAM_MAX 512
#define FLIGHTS      4 /* operations together */
#define STEP_NS      (7 * WEIR_NS_PER_MS)

static struct play {
	struct fuzz_input in;
	bool on; /* the kernel is the input; else it is itself */
	bool base_form, keyed; /* keyed: the host has a key */
	bool signed_right; /* some packet has borne a tag made with the key */
	uint64_t join_replies; /* in a generation: accepted ones are counted nowhere */
	uint64_t now;
	uint32_t nonce; /* of the join */
	uint8_t answered[WEIR_TAG_BYTES]; /* the join's whole nonce: the tag of a reply covers it */
	uint8_t key[WEIR_KEY_BYTES];
	struct weir *weir;
} play;

/* --- packets of the input's switch -------------------------------------------------------------- */

enum join_kind { ACCEPTED, WAITS, ACCEPTED_PLAIN, DISPLACED };
#define WITH_LIST 4 /* of settings, if accepted */

static size_t
join_reply(uint8_t *packet, unsigned int how)
{
	enum join_kind kind = how & 3;
	static const uint8_t statuses[] = {
		WEIR_STATUS_OK, WEIR_STATUS_WAITING, WEIR_STATUS_OK, WEIR_STATUS_DISPLACED};
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = SOURCE,
		.root = SOURCE, /* its rank */
		.block_id = play.nonce,
		.collective = WEIR_COLLECTIVE_JOIN,
		.gen_id = GENERATION,
		.flags = play.keyed ? WEIR_FLAG_AUTHENTICATED : 0,
		.src_cnt = SOURCES,
		.status = statuses[kind]};
	struct weir_accepted accepted = {.setting = {[WEIR_SETTING_WINDOW] = WINDOW,
						 [WEIR_SETTING_ELEMENTS] = ELEMENTS,
						 [WEIR_SETTING_TYPE] = WEIR_DTYPE_INT32,
						 [WEIR_SETTING_OP] = WEIR_OP_SUM,
						 [WEIR_SETTING_TIMEOUT] = 100},
		.sources = SOURCES};
	size_t bytes = weir_header_write(&h, packet);

	memset(packet + bytes, 0, 2 * WEIR_KEY_BYTES);
	if (kind == DISPLACED)
		return bytes + sizeof(struct weir_displaced);
	if (kind == WAITS)
		return bytes + WEIR_BITMAP_BYTES + (play.keyed ? WEIR_CHALLENGE_BYTES : 0);
	if (play.keyed && kind == ACCEPTED)
		accepted.setting[WEIR_SETTING_AUTHENTICATE] = 1;
	bytes += weir_accepted_write(&accepted, false, (how & WITH_LIST) != 0, packet + bytes);
	memset(packet + bytes, 0, WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES);
	/* A challenge of zeros, and the results' key hidden in zeros. */
	return bytes +
		(!play.keyed                       ? 0u
				: kind == ACCEPTED ? WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES
						   : WEIR_CHALLENGE_BYTES);
}

/* What answers block `block` of the operations, of this status. */
static size_t
answer(uint8_t *packet, uint32_t block, unsigned int status)
{
	const struct weir_request *o = TAILQ_FIRST(&play.weir->requests);
	struct weir_shape shape = {0};
	struct weir_header h = {.extended = !play.base_form,
		.job_id = JOB,
		.src_id = SOURCE,
		.block_id = block,
		.gen_id = play.weir->h.generation,
		.status = (uint8_t)status,
		.degraded = status == WEIR_STATUS_PARTIAL,
		.src_cnt = SOURCES,
		.flags = play.weir->h.is_tagged ? WEIR_FLAG_AUTHENTICATED : 0};
	size_t bytes, payload = 0;

	while (o != NULL && block - o->first >= o->blocks)
		o = TAILQ_NEXT(o, link);
	if (o != NULL) {
		weir_geometry_block(&o->geometry, block - o->first, &shape);
		h.collective = shape.collective;
		h.root = shape.root;
		h.op = o->op;
		h.dtype = o->dtype;
		payload = weir_span_bytes(&shape.recv);
	}
	if (payload > DATAGRAM_MAX / 2)
		payload = DATAGRAM_MAX / 2;
	if (status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL)
		h.grad_cnt = shape.elements;
	else
		payload = 0;
	bytes = weir_header_write(&h, packet);
	memset(packet + bytes, 0x5a, payload);
	bytes += payload;
	if (status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
		status == WEIR_STATUS_WAITING) {
		memset(packet + bytes, 0, WEIR_BITMAP_BYTES);
		packet[bytes] = 3;
		bytes += WEIR_BITMAP_BYTES;
	} else if (status == WEIR_STATUS_MISMATCH) {
		memset(packet + bytes, 1, sizeof(struct weir_mismatch));
		bytes += sizeof(struct weir_mismatch);
	}
	return bytes;
}

static size_t
sign_join(uint8_t *packet, size_t bytes)
{
	play.signed_right |= play.weir->h.generation != 0; /* it may displace */
	tags_hmac(play.key, WEIR_LABEL_REPLY, play.answered, sizeof(play.answered), packet, bytes,
		packet + bytes);
	return bytes + WEIR_TAG_BYTES;
}

/* As the switch signs results; replies are left to be forged. */
static size_t
sign_result(uint8_t *packet, size_t bytes)
{
	static const uint8_t challenge[WEIR_CHALLENGE_BYTES];
	uint8_t key[WEIR_KEY_BYTES] = {0}, header[WEIR_EXT_BYTES];
	struct weir_header h = {.extended = true};

	weir_header_read(&h, packet);
	memcpy(header, packet, sizeof(header));
	header[6] = 0;
	tags_wrap(play.key, play.answered, challenge, play.weir->h.generation, key);
	tags_gmac(key, h.status, h.block_id, header, packet + WEIR_EXT_BYTES,
		bytes - WEIR_EXT_BYTES, packet + bytes);
	play.signed_right = true;
	return bytes + WEIR_TAG_BYTES;
}

/* The input changes some bytes, and perhaps the length. */
static size_t
spoil(uint8_t *packet, size_t bytes, unsigned int how)
{
	for (unsigned int i = 0; i < (how & 3); i++) {
		uint8_t at = fuzz_8(&play.in), value = fuzz_8(&play.in);

		if (bytes > 0)
			packet[at % bytes] ^= value;
	}
	if ((how & 4) != 0)
		bytes = fuzz_8(&play.in) % (bytes + 1);
	if ((how & 8) != 0) {
		size_t more = fuzz_8(&play.in);
		const uint8_t *from = fuzz_take(&play.in, &more);

		if (more > DATAGRAM_MAX - bytes)
			more = DATAGRAM_MAX - bytes;
		if (more > 0)
			memcpy(packet + bytes, from, more);
		bytes += more;
	}
	return bytes;
}

static void
sender(struct sockaddr_in *from, bool extended, unsigned int how)
{
	*from = extended ? play.weir->h.switch_ext : play.weir->h.switch_base;
	if ((how & 1) != 0)
		from->sin_addr.s_addr ^= htonl(1);
	if ((how & 2) != 0)
		from->sin_port ^= htons(fuzz_8(&play.in));
}

/* The next packet of the input. */
static size_t
datagram(uint8_t packet[DATAGRAM_MAX], struct sockaddr_in *from, bool joining)
{
	uint8_t kind = fuzz_8(&play.in), how = fuzz_8(&play.in);
	bool of_join = joining || (kind & 7) == 6;
	size_t bytes = DATAGRAM_MAX / 2;

	if ((kind & 7) == 7) {
		size_t given = fuzz_8(&play.in);
		const uint8_t *text = fuzz_take(&play.in, &given);

		bytes = given;
		if (given > 0)
			memcpy(packet, text, given);
	} else if (of_join) {
		play.join_replies += !joining;
		bytes = join_reply(packet, joining ? kind : kind >> 5);
	} else {
		uint8_t block = fuzz_8(&play.in);

		bytes = answer(packet, (uint32_t)(int8_t)block,
			(kind & 7) > 1 ? fuzz_8(&play.in) % 11 : kind & 1);
	}
	sender(from, of_join || !play.base_form, kind >> 3 & 3);
	/* Spoiled before it is signed, or behind. */
	if ((how & 0x10) != 0)
		bytes = spoil(packet, bytes, how);
	if ((of_join ? play.keyed : play.weir->h.is_tagged) && (how & 0x20) == 0 &&
		bytes + WEIR_TAG_BYTES <= DATAGRAM_MAX && bytes >= WEIR_EXT_BYTES)
		bytes = of_join ? sign_join(packet, bytes) : sign_result(packet, bytes);
	return (how & 0x10) != 0 ? bytes : spoil(packet, bytes, how);
}

/* --- the kernel --------------------------------------------------------------------------------- */

#define WRAP(result, name, ...)                                                                    \
	result __real_##name(__VA_ARGS__);                                                         \
	result __wrap_##name(__VA_ARGS__)

WRAP(int, clock_gettime, clockid_t clock, struct timespec *t);
WRAP(ssize_t, getrandom, void *to, size_t size, unsigned int flags);
WRAP(int, ppoll, struct pollfd *polls, nfds_t n, const struct timespec *wait, const sigset_t *mask);
WRAP(int, sendmmsg, int fd, struct mmsghdr *messages, unsigned int n, int flags);
WRAP(ssize_t, recvmsg, int fd, struct msghdr *message, int flags);
WRAP(int, recvmmsg, int fd, struct mmsghdr *messages, unsigned int n, int flags,
	struct timespec *wait);
WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
	void *argument);
WRAP(int, pthread_join, pthread_t thread, void **result);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!play.on)
		return __real_clock_gettime(clock, t);
	t->tv_sec = (time_t)(play.now / 1000000000);
	t->tv_nsec = (long)(play.now % 1000000000);
	return 0;
}

ssize_t
__wrap_getrandom(void *to, size_t size, unsigned int flags)
{
	if (!play.on)
		return __real_getrandom(to, size, flags);
	memset(to, 0x33, size);
	return (ssize_t)size;
}

/* Something to read, as long as there is input; time goes on. */
int
__wrap_ppoll(struct pollfd *polls, nfds_t n, const struct timespec *wait, const sigset_t *mask)
{
	if (!play.on)
		return __real_ppoll(polls, n, wait, mask);
	play.now += STEP_NS;
	if (play.in.left == 0)
		play.now += 1000 * STEP_NS;
	polls[0].revents = POLLIN;
	return 1;
}

static volatile uint8_t read_bytes;

/* Note what the switch needs to answer a join. */
static void
note_join(const struct msghdr *message)
{
	const struct sockaddr_in *to = message->msg_name;
	const uint8_t *packet = message->msg_iov[0].iov_base;
	size_t bytes = message->msg_iov[0].iov_len;

	if (to->sin_port != play.weir->h.switch_ext.sin_port ||
		packet[12] >> 4 != WEIR_COLLECTIVE_JOIN)
		return;
	play.nonce = weir_get32(packet + 1);
	if (bytes == WEIR_EXT_BYTES + sizeof(struct weir_join_proof) + WEIR_TAG_BYTES)
		memcpy(play.answered, packet + WEIR_EXT_BYTES + WEIR_CHALLENGE_BYTES,
			WEIR_TAG_BYTES);
}

/* Each packet is read, whole: sanitizers see what is no memory. */
int
__wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags)
{
	uint8_t sum = 0;

	if (!play.on)
		return __real_sendmmsg(fd, messages, n, flags);
	for (unsigned int i = 0; i < n; i++) {
		const struct msghdr *m = &messages[i].msg_hdr;

		note_join(m);
		for (size_t v = 0; v < m->msg_iovlen; v++)
			for (size_t b = 0; b < m->msg_iov[v].iov_len; b++)
				sum ^= ((const uint8_t *)m->msg_iov[v].iov_base)[b];
	}
	read_bytes = sum;
	return (int)n;
}

ssize_t
__wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	if (!play.on)
		return __real_recvmsg(fd, message, flags);
	errno = EAGAIN;
	return -1;
}

/* Say that the message is several datagrams of this size. */
static void
join_datagrams(struct msghdr *message, int size)
{
	struct cmsghdr *c = message->msg_control;

	message->msg_controllen = CMSG_SPACE(sizeof(size));
	*c = (struct cmsghdr){.cmsg_level = IPPROTO_UDP,
		.cmsg_type = UDP_GRO,
		.cmsg_len = CMSG_LEN(sizeof(size))};
	memcpy(CMSG_DATA(c), &size, sizeof(size));
}

int
__wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags, struct timespec *wait)
{
	bool joining = play.on && weir_sources(play.weir) == 0;
	unsigned int i = 0;

	if (!play.on)
		return __real_recvmmsg(fd, messages, n, flags, wait);
	for (; i < n && play.in.left > 0; i++) {
		struct msghdr *m = &messages[i].msg_hdr;
		uint8_t packet[DATAGRAM_MAX];
		struct sockaddr_in from;
		size_t got = datagram(packet, &from, joining), room = m->msg_iov[0].iov_len;
		uint8_t then = joining ? 0 : fuzz_8(&play.in);

		memcpy(m->msg_iov[0].iov_base, packet, got < room ? got : room);
		memcpy(m->msg_name, &from, sizeof(from));
		messages[i].msg_len = (unsigned int)got;
		m->msg_controllen = 0;
		if ((then & 0xc1) == 0xc1)
			join_datagrams(m, then & 0x3e);
		if (then % 4 == 0)
			return (int)i + 1;
	}
	errno = EAGAIN;
	return i == 0 ? -1 : (int)i;
}

int
__wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	return play.on ? 0 : __real_pthread_create(thread, attributes, run, argument);
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
	return play.on ? 0 : __real_pthread_join(thread, result);
}

/* --- a run -------------------------------------------------------------------------------------- */

static void
check_counters(const struct weir *weir)
{
	const struct weir_stats *s = &weir->h.stats;
	uint64_t ends = s->results_ok + s->results_partial + s->results_error + s->waiting +
		s->duplicates + s->foreign + s->malformed;

	/* forged counts joins' answers, too, which packets_received does not. */
	FUZZ_CHECK(s->packets_received >= ends &&
			s->packets_received <= ends + s->forged + play.join_replies,
		"a packet has no end, or two");
	if (weir->h.is_tagged && !play.signed_right)
		FUZZ_CHECK(s->results_ok + s->results_partial + s->results_error + s->waiting == 0,
			"taken without a tag");
}

/*
 * Operations of kinds and roots that the input names (`kind` alone: of that), of so many elements, together
 * in flight; nobody but this function drives.
 */
static void
operate(struct weir *weir, int kind, size_t count)
{
	struct flight flight[FLIGHTS], *last;
	unsigned int flights = 0, sources = weir_sources(weir);

	/* The reply to the join may have told of a job that refuses the flights: of another type in the base
	 * form, or with blocks too small for slices. */
	if ((weir->h.base_form &&
		    (weir->h.job_dtype != WEIR_DTYPE_INT32 || weir->h.job_op != WEIR_OP_SUM)) ||
		(kind != 0 && weir_elements(weir, WEIR_DTYPE_INT32) < sources))
		return;
	do {
		const unsigned int kinds = WEIR_COLLECTIVES;
		uint8_t what = kind < 0 ? fuzz_8(&play.in) : (uint8_t)kind;

		last = &flight[flights++];
		flight_begin(weir, what % kinds, what / kinds % sources, sources, count, last);
		/* Another one? */
		if (what < 128 || kind >= 0)
			break;
	} while (flights < FLIGHTS);
	while (!last->request->is_finished && play.in.left > 0) {
		weir_receive(weir, (fuzz_8(&play.in) & 1) != 0, play.now);
		play.now += fuzz_8(&play.in) * WEIR_NS_PER_MS;
		if (last->request->is_finished)
			break;
		weir_window_repeat(weir, play.now);
		weir_window_flush(weir, play.now);
		for (unsigned int i = 0; i < flights; i++)
			FUZZ_CHECK(flight[i].request->is_finished ||
					flight[i].request->done < flight[i].request->blocks,
				"all blocks are done, and the operation is not");
	}
	for (unsigned int i = 0; i < flights; i++)
		if (!flight[i].request->is_finished)
			weir_fail(weir,
				weir_error_timeout(&play.weir->h, TAILQ_FIRST(&play.weir->requests),
					play.weir->progressed, play.now));
	for (unsigned int i = 0; i < flights; i++)
		flight_end(weir, &flight[i]);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const uint8_t job[WEIR_KEY_BYTES] = {1};

	(void)argc;
	(void)argv;
	tags_source_key(job, SOURCE, 0, play.key);
	return 0;
}

/* Waiting is said on stderr else. */
static void
ignore(void *context, const char *text)
{
	(void)context;
	(void)text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t job[WEIR_KEY_BYTES] = {1};
	struct weir_config config = {.switch_address = "127.0.0.1",
		.address = "127.0.0.1",
		.job = JOB,
		.source = SOURCE,
		.join_timeout_ms = 5000,
		.warn = ignore};
	uint8_t flags;

	play.in = (struct fuzz_input){data, size};
	flags = fuzz_8(&play.in);
	play.base_form = (flags & 3) == 1;
	play.keyed = (flags & 3) == 2;
	play.signed_right = false;
	play.join_replies = 0;
	play.now = 1000000000;
	config.base_form = play.base_form;
	if (play.keyed) {
		config.key = job;
		config.key_bytes = sizeof(job);
	}
	play.on = true;
	/* The sockets need the handle's addresses before weir_open returns. */
	if (weir_open(&config, &play.weir) == 0) {
		for (unsigned int n = 0; n < 4 && play.in.left > 0 && play.weir->failed == 0; n++)
			operate(play.weir,
				(flags & 3) == 3     ? -1
					: play.keyed ? flags >> 5
						     : 0,
				(flags >> 2) * (n + 1u) % 70);
		check_counters(play.weir);
	} else {
		FUZZ_CHECK(play.weir == NULL || strlen(weir_last_error(play.weir)) > 0,
			"an error without a text");
	}
	weir_close(play.weir);
	play.weir = NULL;
	play.on = false;
	return 0;
}
