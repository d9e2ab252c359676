/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/libweir/connection.h"
#include "apps/libweir/control_json.h"
#include "apps/libweir/handle.h"
#include "apps/libweir/http.h"
#include "apps/libweir/work.h"
#include "pktbuf/wire/wire.h"

/* ---- the launcher ---- */

static const struct launcher {
	const char *rank, *size;
} launchers[] = {
#define X(rank, size, name) {rank, size},
	WEIR_LAUNCHER_LIST(X)
#undef X
};

/* The value of a variable; NULL: not set, or empty. */
static const char *
environment(const char *name)
{
	const char *value = secure_getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

/* Read a number of [0, 256] from a variable that is set. */
static int
read_number(const char *name, long *number, char *text, size_t size)
{
	const char *value = environment(name);
	char *end;

	errno = 0;
	*number = strtol(value, &end, 10);
	if (errno == 0 && *end == '\0' && value[0] >= '0' && value[0] <= '9' &&
		*number <= WEIR_SOURCES_MAX)
		return 0;
	return weir_error_text(text, size, -EINVAL,
		"the environment's %s is \"%.40s\", and not a number of [0, %d]", name, value,
		WEIR_SOURCES_MAX);
}

int
weir_launcher_complete(struct weir_launcher *launch, char *text, size_t size)
{
	const struct launcher *by = NULL;
	const char *rank_from = "as configured", *size_from = "as configured";
	long number;

	for (size_t i = 0; by == NULL && i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (environment(launchers[i].rank) != NULL)
			by = &launchers[i];
	if (launch->rank < 0) {
		if (by == NULL)
			return weir_error_text(text, size, -EINVAL,
				"which rank is this host? Set WEIR_RANK and WEIR_SIZE, or start it "
				"with mpirun, srun or torchrun, which set theirs");
		if (read_number(by->rank, &number, text, size) < 0)
			return -EINVAL;
		launch->rank = (int)number;
		rank_from = by->rank;
	}
	if (launch->size == 0) {
		const char *name = by != NULL ? by->size : "WEIR_SIZE";

		if (environment(name) == NULL)
			return weir_error_text(text, size, -EINVAL,
				"how many ranks does the job have? The environment has no %s",
				name);
		if (read_number(name, &number, text, size) < 0)
			return -EINVAL;
		launch->size = (unsigned int)number;
		size_from = name;
	}
	if (launch->size == 0 || launch->size > WEIR_SOURCES_MAX)
		return weir_error_text(text, size, -EINVAL,
			"a job of %u ranks (%s): it may have 1 to %d", launch->size, size_from,
			WEIR_SOURCES_MAX);
	if (launch->rank < 0 || (unsigned int)launch->rank >= launch->size)
		return weir_error_text(text, size, -EINVAL,
			"rank %d (%s) of a job of %u ranks (%s): they are 0..%u", launch->rank,
			rank_from, launch->size, size_from, launch->size - 1);
	return 0;
}

/* ---- the control API ---- */

#define LEAVE_NS   (2000 * WEIR_NS_PER_MS)
#define SILENT_NS  (5000 * WEIR_NS_PER_MS) /* after a leave without an answer: leave_later() */
#define QUERY_NS   (2000 * WEIR_NS_PER_MS) /* for all requests about a silent switch */
#define AGAIN_NS   (100 * WEIR_NS_PER_MS) /* pause after status 503 */
#define LATER_NS   (500 * WEIR_NS_PER_MS) /* pause after 429, which many ranks may get */
#define ATTEMPT_NS (2000 * WEIR_NS_PER_MS) /* to reach a switch that may be starting */
#define TOKEN_MAX  4096
#define TEXT_MAX   640 /* bytes of an error text */

struct weir_control {
	char *address, *job, *token, *ca_file;
	const char *token_from; /* for people; NULL: there is no token */
	char *escaped, *members; /* the job's name in a path; the path /v1/jobs/NAME/members */
	struct weir_launcher launcher;
	bool create, temporary;
	char *settings; /* of the job that is created; NULL */
	bool has_joined, has_answered;
	uint64_t contact_by; /* ns: by when the API must have answered */
	unsigned int closed; /* connections that were closed without an answer */
	struct weir_work leaving; /* of a temporary job */
	uint64_t membership; /* of the join; 0: not known */
	uint64_t joined_at; /* ns: when the join was answered */
	uint64_t asked_at; /* ns: the first request of a join or rejoin */
	uint64_t deadline, again; /* ns: of these requests; when to repeat one */
	char *request; /* the join, for repetitions */
};

/* The configured value, otherwise the environment's; NULL: neither is set, or it is empty. */
static const char *
setting(const char *configured, const char *variable)
{
	return configured == NULL       ? environment(variable)
		: configured[0] != '\0' ? configured
					: NULL;
}

static char *
copy(const char *text)
{
	return text == NULL ? NULL : strdup(text);
}

/* The first line of a file. */
static int
read_token_file(struct weir_handle *h, struct weir_control *control, const char *name)
{
	char line[TOKEN_MAX + 2];
	FILE *file = fopen(name, "re");
	size_t length;

	if (file == NULL)
		return weir_error_set(h, -errno, "token file %s: %s", name, strerror(errno));
	length = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	while (length > 0 && strchr(" \t\r\n", line[length - 1]) != NULL)
		length--;
	line[length] = '\0';
	if (length > 0 && length <= TOKEN_MAX && strlen(line) == length)
		control->token = strdup(line);
	explicit_bzero(line, sizeof(line));
	if (control->token == NULL)
		return weir_error_set(h, -EINVAL,
			"token file %s: it should hold one token, a line without blanks", name);
	return 0;
}

static int
read_token(struct weir_handle *h, struct weir_control *control, const struct weir_config *config)
{
	const struct {
		const char *from, *token, *file;
	} places[] = {
		{"weir_config.token", setting(config->token, ""), NULL},
		{"weir_config.token_file", NULL, setting(config->token_file, "")},
		{"WEIR_TOKEN", environment("WEIR_TOKEN"), NULL},
		{"WEIR_TOKEN_FILE", NULL, environment("WEIR_TOKEN_FILE")},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i].token == NULL && places[i].file == NULL)
			continue;
		control->token_from = places[i].from;
		if (places[i].file != NULL)
			return read_token_file(h, control, places[i].file);
		control->token = strdup(places[i].token);
		return control->token != NULL ? 0 : weir_error_set(h, -ENOMEM, "out of memory");
	}
	return 0;
}

static int
read_settings(struct weir_handle *h, struct weir_control *control, const struct weir_config *config)
{
	const char *job = setting(config->job_name, "WEIR_JOB");
	char text[TEXT_MAX];

	if (config->control != NULL && config->switch_address != NULL)
		return weir_error_set(h, -EINVAL,
			"control and switch_address are both set: choose one; the control API "
			"tells the address");
	if (setting(config->control, "WEIR_SWITCH") == NULL)
		return weir_error_set(h, -EINVAL, "control is empty");
	if (job == NULL)
		return weir_error_set(
			h, -EINVAL, "which job? Set WEIR_JOB, or job_name, to its name");
	/* If both are 0, they were not set: ask the launcher. */
	control->launcher.rank = config->source == 0 && config->sources == 0 ? -1 : config->source;
	control->launcher.size = config->sources;
	if (weir_launcher_complete(&control->launcher, text, sizeof(text)) < 0)
		return weir_error_set(h, -EINVAL, "job \"%.64s\": %s", job, text);
	control->address = copy(setting(config->control, "WEIR_SWITCH"));
	control->job = copy(job);
	control->ca_file = copy(setting(config->ca_file, "WEIR_CA"));
	control->create = config->create;
	control->temporary = config->temporary;
	control->settings = copy(setting(config->settings, "WEIR_SETTINGS"));
	control->escaped = weir_http_escape(job);
	if (control->escaped == NULL ||
		asprintf(&control->members, "/v1/jobs/%s/members", control->escaped) < 0)
		control->members = NULL;
	if (control->address == NULL || control->job == NULL || control->members == NULL)
		return weir_error_set(h, -ENOMEM, "out of memory");
	return read_token(h, control, config);
}

/* Retries after a connection that was closed without an answer: the switch drops some when many
 * ranks join at once. */
#define CLOSED_MAX 10

/* Send a request. Returns 0 for status 200, with the answer; or 1: the switch is busy, repeat the
 * request at control->again. */
static int
ask(struct weir_handle *h, struct weir_connection *connection, const char *method, const char *path,
	const char *body)
{
	struct weir_control *control = h->control;
	struct weir_http_answer *answer = &connection->answer;
	const struct weir_refused refused = {
		.where = control->address, .job = control->job, .token_from = control->token_from};
	uint64_t now = weir_now(), pause = 0;
	uint64_t until = control->has_answered || control->contact_by > control->deadline
		? control->deadline
		: control->contact_by;
	int code = weir_http_ask(connection->http, method, path, body,
		until > now ? until - now : 1, answer, h->error, sizeof(h->error));

	control->has_answered |= code == 0;
	if (code == 0 && answer->status == 200) {
		control->closed = 0;
		return 0;
	}
	if (code == 0) {
		pause = answer->status == 503 ? AGAIN_NS : answer->status == 429 ? LATER_NS : 0;
		code = weir_member_refused(&refused, answer->status, answer->body, answer->length,
			h->error, sizeof(h->error));
	} else if (code == -ECONNRESET) {
		code = -EPROTO;
		if (++control->closed < CLOSED_MAX)
			pause = AGAIN_NS / 2 + now % AGAIN_NS; /* spread the ranks' retries */
	}
	control->again = weir_now() + pause;
	if (pause == 0 || control->again >= (control->has_answered ? control->deadline : until))
		return code;
	if (answer->status != 0 && weir_now() >= weir_warn_due(h, control->asked_at))
		weir_warn_waiting(h, h->error);
	return 1;
}

/* A UDP socket that is connected to the switch, or -1 with errno. It sends nothing: it only takes
 * the route of packets to the switch. from: the own address, or any. */
static int
connect_udp(struct in_addr from, struct in_addr to)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = from};
	struct sockaddr_in there = {
		.sin_family = AF_INET, .sin_addr = to, .sin_port = htons(WEIR_PORT_EXT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&here, sizeof(here)) == 0 &&
		connect(fd, (const struct sockaddr *)&there, sizeof(there)) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* Find the address that the kernel gives this host's packets to the switch. */
static int
own_address(struct weir_handle *h, struct in_addr to)
{
	socklen_t size = sizeof(h->own);
	char text[INET_ADDRSTRLEN];
	int fd = connect_udp((struct in_addr){htonl(INADDR_ANY)}, to);

	if (fd < 0)
		return weir_error_set(h, -errno,
			"this host has no route to the switch's address %s (from the control API): "
			"%s; does the interface towards the switch have an address in its subnet?",
			inet_ntop(AF_INET, &to, text, sizeof(text)), strerror(errno));
	(void)getsockname(fd, (struct sockaddr *)&h->own, &size);
	h->own.sin_port = 0;
	close(fd);
	return 0;
}

static int
find_address(struct weir_handle *h, struct weir_connection *connection)
{
	struct weir_http_answer *answer = &connection->answer;
	struct in_addr *to = &connection->switch_address;
	char text[TEXT_MAX];
	int code;

	if (h->own.sin_addr.s_addr != htonl(INADDR_ANY)) /* configured */
		return 0;
	if (to->s_addr == 0) {
		code = ask(h, connection, "GET", "/v1/status", NULL);
		if (code != 0)
			return code;
		code = weir_member_read_status(
			answer->body, answer->length, to, text, sizeof(text));
		if (code < 0)
			return weir_error_set(h, code, "%s: %s", h->control->address, text);
	}
	return own_address(h, *to);
}

/* The name of the interface that has this address; "DEV" if none has. */
static void
interface_of(struct in_addr address, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL;

	snprintf(name, IF_NAMESIZE, "DEV");
	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		struct sockaddr_in a;

		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&a, i->ifa_addr, sizeof(a));
		if (a.sin_addr.s_addr == address.s_addr)
			snprintf(name, IF_NAMESIZE, "%.*s", IF_NAMESIZE - 1, i->ifa_name);
	}
	freeifaddrs(all);
}

/* Set h->mtu, this host's MTU towards the switch. 0; or -EMSGSIZE: it is too small for the job's
 * blocks. Warn if it is larger than the switch's, which drops longer frames. */
static int
check_mtu(struct weir_handle *h, const struct weir_member *member)
{
	int fd, code, mtu = 0;
	socklen_t size = sizeof(mtu);
	char text[TEXT_MAX], name[IF_NAMESIZE];

	h->mtu = 0;
	/* Other transports do not use the kernel's interfaces. */
	if (weir_transport_find(&code, text, sizeof(text)) != &weir_transport_udp)
		return 0;
	fd = connect_udp(h->own.sin_addr, member->address);
	if (fd < 0)
		return 0;
	if (getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &size) < 0)
		mtu = 0;
	close(fd);
	if (mtu <= 0)
		return 0;
	h->mtu = (unsigned int)mtu;
	interface_of(h->own.sin_addr, name);
	if (h->mtu < member->datagram_bytes)
		return weir_error_set(h, -EMSGSIZE,
			"%s: its blocks make datagrams of %u bytes, and this host's interface %s "
			"has MTU %u: ip link set dev %s mtu %u, or lower the job's `elements`",
			h->job_text, member->datagram_bytes, name, h->mtu, name,
			member->mtu > member->datagram_bytes ? member->mtu
							     : member->datagram_bytes);
	if (member->mtu != 0 && h->mtu > member->mtu) {
		snprintf(text, sizeof(text),
			"this host's interface %s has MTU %u, and the switch's links have MTU %u: "
			"the switch drops larger packets; ip link set dev %s mtu %u, or raise the "
			"switch's MTU",
			name, h->mtu, member->mtu, name, member->mtu);
		weir_warn(h, "", text);
	}
	return 0;
}

/* Apply the answer to the join. */
static int
become(struct weir_handle *h, const struct weir_member *member)
{
	h->switch_base.sin_addr = h->switch_ext.sin_addr = member->address;
	h->switch_base.sin_port = htons((uint16_t)member->port_base);
	h->switch_ext.sin_port = htons((uint16_t)member->port_ext);
	h->job = (uint8_t)member->job;
	h->source = (uint8_t)member->source;
	h->noun = "rank";
	h->keepalive = weir_member_keepalive(member);
	snprintf(h->job_text, sizeof(h->job_text), "job \"%.64s\" (%u)", h->control->job,
		member->job);
	/* Window, elements and so on are taken from the reply to the UDP join. */
	h->expected = h->control->launcher.size;
	if (h->is_key_configured)
		return 0;
	if (member->has_key)
		return weir_auth_use(h, member->key, false);
	weir_auth_destroy(h->auth);
	h->auth = NULL;
	return 0;
}

/* Join, or join again. */
static int
say_join(struct weir_handle *h, struct weir_connection *connection)
{
	struct weir_control *control = h->control;
	struct weir_member member = {0};
	char text[TEXT_MAX];
	int code = ask(h, connection, "POST", control->members, control->request);

	if (code != 0)
		return code;
	control->has_joined = true;
	control->joined_at = weir_now();
	code = weir_member_read(connection->answer.body, connection->answer.length,
		&control->launcher, &member, text, sizeof(text));
	control->membership = member.membership;
	if (code < 0)
		weir_error_set(h, code, "%s: %s", control->address, text);
	else
		code = become(h, &member);
	if (code == 0)
		code = check_mtu(h, &member);
	OPENSSL_cleanse(&member, sizeof(member));
	return code;
}

static int
join(struct weir_handle *h, struct weir_connection *connection)
{
	struct weir_control *control = h->control;
	const struct weir_config create = {.create = control->create,
		.temporary = control->temporary,
		.settings = control->settings};
	char address[INET_ADDRSTRLEN] = "";
	int code = find_address(h, connection);

	if (code != 0)
		return code;
	inet_ntop(AF_INET, &h->own.sin_addr, address, sizeof(address));
	free(control->request);
	control->request = weir_member_request(&create, &control->launcher, address);
	if (control->request == NULL)
		return weir_error_set(h, -EINVAL,
			"settings: must be KEY=VALUE pairs with blanks in between, such as "
			"\"elements=1024 policy=partial\"");
	return say_join(h, connection);
}

/* Called about once a second while a request has no answer. Warns, and lets the request go on. */
static bool
still_waiting(void *handle)
{
	struct weir_handle *h = handle;
	uint64_t since = h->control->asked_at, now = weir_now();
	char text[TEXT_MAX];

	if (now < weir_warn_due(h, since))
		return false;
	snprintf(text, sizeof(text),
		"the switch's control API at %s has not answered for %llu ms: is the address "
		"right, and the switch running?",
		h->control->address, (unsigned long long)((now - since) / WEIR_NS_PER_MS));
	weir_warn_waiting(h, text);
	return false;
}

/* waits: the handle that warns while a request waits; NULL: no warnings. */
static int
connect_api(const struct weir_control *control, struct weir_handle *waits,
	struct weir_connection **connection, char *text, size_t size)
{
	const struct weir_http_config config = {
		.interrupted = waits != NULL ? still_waiting : NULL,
		.argument = waits,
		.address = control->address,
		.token = control->token,
		.ca_file = control->ca_file,
	};

	return weir_connection_take(&config, connection, text, size);
}

int
weir_control_prepare(struct weir_handle *h, const struct weir_config *config)
{
	struct weir_control *control = h->control = calloc(1, sizeof(*control));
	int code;

	if (control == NULL)
		return weir_error_set(h, -ENOMEM, "out of memory");
	code = read_settings(h, control, config);
	if (code < 0)
		return code;
	h->source = (uint8_t)control->launcher.rank;
	if (config->address != NULL && inet_pton(AF_INET, config->address, &h->own.sin_addr) != 1)
		return weir_error_set(
			h, -EINVAL, "address: \"%s\" is not an IPv4 address", config->address);
	return 0;
}

int
weir_control_join(struct weir_handle *h, uint64_t deadline, uint64_t *again)
{
	struct weir_control *control = h->control;
	struct weir_connection *connection;
	int code;

	/* Set it now, not when weir_iopen was called: the time in the control thread's queue says
	 * nothing about the switch. */
	if (control->asked_at == 0) {
		control->asked_at = weir_now();
		control->contact_by = control->asked_at + h->contact_timeout;
	}
	control->deadline = deadline;
	code = connect_api(control, h, &connection, h->error, sizeof(h->error));
	if (code < 0)
		return code;
	code = join(h, connection);
	*again = control->again;
	weir_connection_give(connection);
	return code;
}

int
weir_control_rejoin(struct weir_handle *h, uint64_t deadline)
{
	struct weir_control *control = h->control;
	struct weir_connection *connection;
	int code;

	if (control == NULL || control->request == NULL)
		return 0;
	control->asked_at = weir_now();
	control->deadline = 0;
	code = connect_api(control, h, &connection, h->error, sizeof(h->error));
	if (code < 0)
		return code;
	for (;;) {
		uint64_t until = weir_now() + ATTEMPT_NS;

		if (code == 0) /* a new attempt */
			control->deadline = until < deadline ? until : deadline;
		code = say_join(h, connection);
		if (code == 0 || (code < 0 && connection->answer.status != 0))
			break;
		/* No answer: the switch may be starting. It may also have lost its control API,
		 * which does not matter as long as the membership is valid. */
		if (code < 0) {
			control->again = weir_now() + AGAIN_NS;
			code = 0;
			if (control->again >= deadline)
				break;
			if (weir_now() >= weir_warn_due(h, control->asked_at))
				weir_warn_waiting(h, h->error);
		}
		weir_sleep(NULL, 0, control->again);
	}
	weir_connection_give(connection);
	return code;
}

/* Send a GET request, until a deadline. false: no answer, and the reason is in text. */
static bool
question(struct weir_connection *connection, const char *path, uint64_t until, char *text,
	size_t size)
{
	uint64_t now = weir_now();

	if (weir_http_ask(connection->http, "GET", path, NULL, until > now ? until - now : 1,
		    &connection->answer, text + 2, size - 2) == 0)
		return true;
	memcpy(text, "; ", 2);
	return false;
}

/* Ask about the job, and, if not known, about the sources that its oldest block waits for. */
static int
query(struct weir_control *control, struct weir_job_query *q, struct weir_connection *connection)
{
	const struct weir_http_answer *answer = &connection->answer;
	uint64_t until = weir_now() + QUERY_NS;
	char *path, ignored[TEXT_MAX];
	int code = 0;

	if (asprintf(&path, "/v1/jobs/%s", control->escaped) < 0)
		return 0;
	if (question(connection, path, until, q->text, q->size))
		code = weir_job_query_read(q, answer->status, answer->body, answer->length);
	free(path);
	if (code < 0 || answer->status != 200 || q->present != NULL ||
		asprintf(&path, "/v1/blocks?stuck=1&limit=1&job=%s", control->escaped) < 0)
		return code;
	if (question(connection, path, until, ignored, sizeof(ignored)))
		code = weir_job_query_read_block(q, answer->body, answer->length);
	free(path);
	return code;
}

int
weir_control_query(struct weir_handle *h, const uint8_t *present, char *text, size_t size)
{
	struct weir_control *control = h->control;
	char address[INET_ADDRSTRLEN] = "", why[TEXT_MAX];
	struct weir_connection *connection;
	struct weir_job_query q;
	int code;

	text[0] = '\0';
	if (control == NULL || !control->has_joined ||
		connect_api(control, NULL, &connection, why, sizeof(why)) < 0)
		return 0;
	inet_ntop(AF_INET, &h->own.sin_addr, address, sizeof(address));
	q = (struct weir_job_query){
		.text = text,
		.size = size,
		.where = control->address,
		.name = control->job,
		.address = address,
		.job = h->job,
		.source = h->source,
		.generation = h->generation,
		.membership = control->membership,
		.joined_s = h->has_begun ? 0 : (double)(weir_now() - control->joined_at) / 1e9,
		.present = present,
	};
	code = query(control, &q, connection);
	weir_connection_give(connection);
	return code;
}

bool
weir_control_temporary(const struct weir_handle *h)
{
	return h->control != NULL && h->control->has_joined && h->control->temporary;
}

/* 0; or -errno if the switch has not answered. */
static int
leave(struct weir_control *control)
{
	char text[TEXT_MAX], which[40] = "", *path;
	struct weir_connection *connection;
	int code;

	/* End only this membership: the next process of this rank may have joined already. */
	if (control->membership != 0)
		snprintf(which, sizeof(which), "?membership=%" PRIu64, control->membership);
	if (asprintf(&path, "%s/%d%s", control->members, control->launcher.rank, which) < 0)
		return -ENOMEM;
	code = connect_api(control, NULL, &connection, text, sizeof(text));
	if (code == 0) {
		code = weir_http_ask(connection->http, "DELETE", path, NULL, LEAVE_NS,
			&connection->answer, text, sizeof(text));
		weir_connection_give(connection);
	}
	free(path);
	return code;
}

static void
destroy(struct weir_control *control)
{
	if (control->token != NULL)
		explicit_bzero(control->token, strlen(control->token));
	free(control->token);
	free(control->address);
	free(control->job);
	free(control->ca_file);
	free(control->settings);
	free(control->escaped);
	free(control->members);
	free(control->request);
	free(control);
}

/*
 * In the control thread. If the switch failed to answer a leave a moment ago, and has answered no
 * join since, do not leave: each attempt would block the thread for LEAVE_NS. If the switch is up
 * after all, the member expires.
 */
static void
leave_later(struct weir_work *work)
{
	static char *address; /* of the last switch that did not answer a leave */
	static uint64_t at; /* ns */
	struct weir_control *control = work->owner;
	bool silent = address != NULL && strcmp(address, control->address) == 0 &&
		control->joined_at < at && weir_now() < at + SILENT_NS;

	if (!silent && leave(control) == -ETIMEDOUT) {
		free(address);
		address = copy(control->address);
		at = weir_now();
	}
	destroy(control);
}

void
weir_control_leave(struct weir_control *control)
{
	if (control == NULL)
		return;
	control->leaving = (struct weir_work){
		.run = leave_later, .owner = control, .fd = -1, .delays_exit = true};
	/* No process waits for the end of a temporary job. */
	if (control->has_joined && control->temporary &&
		weir_work_submit(&control->leaving, 0) == 0)
		return;
	if (control->has_joined)
		(void)leave(control);
	destroy(control);
}
