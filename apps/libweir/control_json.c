/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/control_json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/handle.h"
#include "apps/libweir/http.h"

/* ---- members ---- */

#define MEMBERSHIP_MAX (INT64_C(1) << 53)

/* Add "key=value key=value...": a value is a number or a truth value if it looks like one, else a
 * text. The switch checks keys and values. */
static bool
add_settings(json_t *to, const char *settings)
{
	char *copy = strdup(settings), *rest = NULL;
	bool good = copy != NULL;

	for (char *word = good ? strtok_r(copy, " ", &rest) : NULL; word != NULL && good;
		word = strtok_r(NULL, " ", &rest)) {
		const char *key = strsep(&word, "=");
		bool is_pair = word != NULL && key[0] != '\0';
		json_t *value = is_pair ? json_loads(word, JSON_DECODE_ANY, NULL) : NULL;

		if (value == NULL && is_pair)
			value = json_string(word);
		good = json_object_set_new(to, key, value) == 0;
	}
	free(copy);
	return good;
}

char *
weir_member_request(
	const struct weir_config *config, const struct weir_launcher *launcher, const char *address)
{
	json_t *all = json_pack("{s:i, s:i, s:s}", "rank", launcher->rank, "size",
		(int)launcher->size, "address", address);
	json_t *create = json_object();
	char *text = NULL;

	if (!config->create ||
		(add_settings(create, config->settings != NULL ? config->settings : "") &&
			(!config->temporary ||
				json_object_set_new(create, "temporary", json_true()) == 0) &&
			json_object_set(all, "create", create) == 0))
		text = json_dumps(all, JSON_COMPACT);
	json_decref(create);
	json_decref(all);
	return text;
}

static json_t *
parse(const char *body, size_t length)
{
	return json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
}

/* Read an integer of [least, most]. */
static bool
read_number(json_t *from, const char *key, json_int_t least, json_int_t most, json_int_t *to)
{
	json_t *value = json_object_get(from, key);

	*to = json_integer_value(value);
	return json_is_integer(value) && *to >= least && *to <= most;
}

static bool
read_address(const json_t *from, const char *key, struct in_addr *to)
{
	const char *text = json_string_value(json_object_get(from, key));

	return text != NULL && inet_pton(AF_INET, text, to) == 1;
}

static int
senseless(const char *what, char *text, size_t size)
{
	return weir_error_text(text, size, -EPROTO,
		"the control API's answer to the join makes no sense (%s): do switch and library "
		"have the same version?",
		what);
}

/* Base64 codes groups of three bytes: the last byte is padding, and reads as zero. */
#define KEY_ROOM   ((WEIR_KEY_BYTES + 2) / 3 * 3)
#define KEY_DIGITS (KEY_ROOM / 3 * 4)
#define TAKEN      '*' /* replaces the key's digits in the answer */

/*
 * Move the digits of "key" out of the answer before it is parsed, because the parser frees its
 * buffers without erasing them. The bytes "key" with their quotes can't be part of a string, in
 * which quotes are escaped. A value of another length stays, and read_key refuses it.
 */
static void
take_key(char *body, size_t length, char digits[KEY_DIGITS])
{
	static const char name[] = "\"key\"", blanks[] = " \t\r\n";
	char *end = body + length, *at = memmem(body, length, name, sizeof(name) - 1);

	if (at == NULL)
		return;
	at += sizeof(name) - 1;
	while (at < end && (*at == ':' || memchr(blanks, *at, sizeof(blanks) - 1) != NULL))
		at++;
	if (end - at < KEY_DIGITS + 2 || at[0] != '"' || at[KEY_DIGITS + 1] != '"' ||
		memchr(at + 1, '"', KEY_DIGITS) != NULL || memchr(at, '\\', KEY_DIGITS) != NULL)
		return;
	memcpy(digits, at + 1, KEY_DIGITS);
	memset(at + 1, TAKEN, KEY_DIGITS);
}

/* Read the source's key, in base64; false: it is no key. */
static bool
read_key(json_t *from, const char digits[KEY_DIGITS], struct weir_member *m)
{
	const char *text = json_string_value(from);
	uint8_t bytes[KEY_ROOM];
	bool good;

	m->has_key = from != NULL && !json_is_null(from);
	if (!m->has_key)
		return true;
	good = text != NULL && strlen(text) == KEY_DIGITS && text[0] == TAKEN &&
		memchr(digits, '=', KEY_DIGITS) ==
			digits + KEY_DIGITS - (sizeof(bytes) - sizeof(m->key)) &&
		EVP_DecodeBlock(bytes, (const unsigned char *)digits, KEY_DIGITS) ==
			(int)sizeof(bytes);
	if (good)
		memcpy(m->key, bytes, sizeof(m->key));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return good;
}

/* Returns NULL, or the name of the first key that is missing or wrong. */
static const char *
read_member(json_t *all, const char digits[KEY_DIGITS], const struct weir_launcher *launcher,
	struct weir_member *m)
{
	json_t *where = json_object_get(all, "switch");
	const struct {
		const char *name;
		json_int_t least, most;
		uint32_t *to;
	} needed[] = {
		{"job", 0, WEIR_JOBS_MAX - 1, &m->job},
		{"source", launcher->rank, launcher->rank, &m->source},
		{"size", launcher->size, launcher->size, &m->size},
		{"window", 1, WEIR_WINDOW_MAX, &m->window},
		{"elements", 1, WEIR_ELEMENTS_MAX, &m->elements},
		{"switch.udp_port", 1, UINT16_MAX, &m->port_base},
		{"switch.udp_port_ext", 1, UINT16_MAX, &m->port_ext},
	};
	json_int_t v;

	/* First, because a leave needs it even if the rest is wrong. */
	if (read_number(all, "membership", 1, MEMBERSHIP_MAX, &v))
		m->membership = (uint64_t)v;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		const char *name = needed[i].name, *dot = strchr(name, '.');

		if (!read_number(dot != NULL ? where : all, dot != NULL ? dot + 1 : name,
			    needed[i].least, needed[i].most, &v))
			return name;
		*needed[i].to = (uint32_t)v;
	}
	if ((m->window & (m->window - 1)) != 0)
		return "window";
	if (m->port_ext == m->port_base)
		return "switch.udp_port_ext";
	if (!read_address(where, "address", &m->address))
		return "switch.address";
	/* Both are only for a warning. An MTU of UINT16_MAX means that the switch knows none. */
	m->mtu = read_number(where, "mtu", 1, UINT16_MAX - 1, &v) ? (uint16_t)v : 0;
	m->datagram_bytes = read_number(all, "datagram_bytes", 1, UINT16_MAX, &v) ? (uint16_t)v : 0;
	m->expire_s = read_number(all, "expire_s", 1, WEIR_EXPIRE_MAX, &v) ? (uint32_t)v : 0;
	return read_key(json_object_get(all, "key"), digits, m) ? NULL : "key";
}

int
weir_member_read(char *body, size_t length, const struct weir_launcher *launcher,
	struct weir_member *member, char *text, size_t size)
{
	char digits[KEY_DIGITS] = {0};
	const char *wrong;
	json_t *all;

	take_key(body, length, digits);
	all = parse(body, length);
	wrong = json_is_object(all) ? read_member(all, digits, launcher, member) : "no JSON object";
	json_decref(all);
	OPENSSL_cleanse(digits, sizeof(digits));
	return wrong == NULL ? 0 : senseless(wrong, text, size);
}

#define KEEPALIVE_NS (10000 * WEIR_NS_PER_MS) /* at most */

uint64_t
weir_member_keepalive(const struct weir_member *member)
{
	uint64_t third = (uint64_t)member->expire_s * 1000 * WEIR_NS_PER_MS / 3;

	return third == 0 || third > KEEPALIVE_NS ? KEEPALIVE_NS : third;
}

int
weir_member_read_status(
	const char *body, size_t length, struct in_addr *address, char *text, size_t size)
{
	json_t *all = parse(body, length);
	bool good = read_address(all, "address", address);

	json_decref(all);
	return good ? 0 : senseless("address in /v1/status", text, size);
}

/* Copy a text of the switch for a log or a terminal: printable ASCII of limited length. */
static void
copy_clean(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from != NULL && *from != '\0' && n + 1 < size; from++)
		to[n++] = *from < ' ' || *from > '~' ? '?' : *from;
	to[n] = '\0';
}

/* Append to a text of `size` bytes; the excess is cut off. */
static void __attribute__((format(printf, 3, 4)))
append(char *to, size_t size, const char *format, ...)
{
	size_t used = strlen(to);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(to + used, size - used, format, arguments);
	va_end(arguments);
}

/* "needed" or "free" of a 507: {key: number}. */
static void
add_amounts(char *to, size_t size, json_t *error, const char *what)
{
	const char *before = "; ", *key;
	json_t *value;

	json_object_foreach (json_object_get(error, what), key, value) {
		char name[40];

		if (!json_is_number(value))
			continue;
		copy_clean(name, sizeof(name), key);
		append(to, size, "%s%s %.15g", before, name, json_number_value(value));
		before = ", ";
	}
	if (before[0] == ',')
		append(to, size, " %s", what);
}

/* Refusals, and what to do about them. The first row that fits counts; an empty string or 0 fits
 * anything. about: the beginning of the answer's "key". */
static const struct {
	long status;
	const char *code, *about;
	int result;
	const char *advice;
} refusals[] = {
	{401, "", "", -EACCES,
		"it wants a token, the tenant's or this rank's: WEIR_TOKEN_FILE or WEIR_TOKEN "
		"(weir_config.token)"},
	{403, "quota", "", -EDQUOT, "the tenant's quota is used up: weirctl jobs shows by what"},
	{404, "unknown_job", "", -ENOENT,
		"create it (weirctl job create NAME --size N), or let its hosts create it "
		"(weir_config.create, weir-perf --create)"},
	{409, "", "size", -EPROTO,
		"the ranks disagree about the size of the job, or a job of this name is left from "
		"another run (weirctl job delete NAME)"},
	{409, "", "", -EADDRINUSE,
		"does another host have this rank, or does the job belong to another run? weirctl "
		"members NAME shows who is in it, weirctl member delete NAME RANK frees the rank "
		"of one that is gone"},
	{400, "", "create.", -EINVAL,
		"the switch cannot create this job: correct weir_config.job_name or .settings"},
	{507, "no_free_job", "", -ENOSPC,
		"close a handle, or delete a job: weirctl jobs lists them"},
	{507, "", "", -ENOSPC, "delete a job, or ask for a smaller window or fewer elements"},
	{429, "", "", -EBUSY,
		"the tenant's jobs come and go too fast: ask the switch's administrator for more"},
	{503, "", "", -EBUSY, "is it starting, or overloaded? weirctl status shows it"},
	{400, "", "", -EINVAL, "this library and the switch may be of different versions"},
	{0, "", "", -EPROTO, "this library and the switch may be of different versions"},
};

static int
check_refusal(const struct weir_refused *r, long status, const char *code, const char *about,
	const char *message, char *text, size_t size)
{
	size_t i = 0;

	if ((status == 401 && r->token_from != NULL) ||
		(status == 403 && strcmp(code, "quota") != 0))
		return weir_error_text(text, size, -EACCES, "job \"%.64s\": %s refuses%s%s: %s",
			r->job, r->where,
			r->token_from != NULL ? " the token of " : " without a token",
			r->token_from != NULL ? r->token_from : "", message);
	while (refusals[i].status != 0 &&
		(refusals[i].status != status ||
			(refusals[i].code[0] != '\0' && strcmp(refusals[i].code, code) != 0) ||
			strncmp(refusals[i].about, about, strlen(refusals[i].about)) != 0))
		i++;
	return weir_error_text(text, size, refusals[i].result,
		"job \"%.64s\": %s says: %s (HTTP status %ld); %s", r->job, r->where,
		message[0] != '\0' ? message : "nothing", status, refusals[i].advice);
}

int
weir_member_refused(const struct weir_refused *refused, long status, const char *body,
	size_t length, char *text, size_t size)
{
	json_t *all = parse(body, length), *error = json_object_get(all, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *about = json_string_value(json_object_get(error, "key"));
	const char *said = json_string_value(json_object_get(error, "message"));
	char key[64], words[256], message[512];
	int result;

	if (!json_is_object(error)) {
		result = weir_error_text(text, size, status == 503 ? -EBUSY : -EPROTO,
			"%s answers with HTTP status %ld, and not as a switch's control API does: "
			"is the address right?",
			refused->where, status);
	} else {
		copy_clean(key, sizeof(key), about);
		copy_clean(words, sizeof(words), said);
		snprintf(
			message, sizeof(message), "%s%s%s", key, key[0] != '\0' ? ": " : "", words);
		add_amounts(message, sizeof(message), error, "needed");
		add_amounts(message, sizeof(message), error, "free");
		result = check_refusal(refused, status, code != NULL ? code : "",
			about != NULL ? about : "", message, text, size);
	}
	json_decref(all);
	return result;
}

/* ---- queries about a job ---- */

#define NAMED_MAX 8 /* missing sources that are listed */

/* A member, as an answer has it. */
struct seen {
	json_int_t rank;
	char at[INET_ADDRSTRLEN]; /* its address, checked, so that it can be printed; "": none */
	bool has_left, has_expired;
	double heard, left; /* s ago; negative: unknown */
	json_int_t membership; /* 0: unknown */
};

static double
seconds(const json_t *from, const char *key)
{
	const json_t *value = json_object_get(from, key);

	return json_is_number(value) ? json_number_value(value) : -1;
}

static struct seen
see(const json_t *from)
{
	const char *state = json_string_value(json_object_get(from, "state"));
	struct seen m = {
		.rank = json_integer_value(json_object_get(from, "rank")),
		.has_left = state != NULL && strcmp(state, "left") == 0,
		.has_expired = state != NULL && strcmp(state, "expired") == 0,
		.heard = seconds(from, "last_heard"),
		.left = seconds(from, "gone"),
		.membership = json_integer_value(json_object_get(from, "membership")),
	};
	struct in_addr address;

	if (read_address(from, "address", &address))
		inet_ntop(AF_INET, &address, m.at, sizeof(m.at));
	return m;
}

/* False: there is no such member, and *found is zeros. */
static bool
find_member(const json_t *members, unsigned int rank, struct seen *found)
{
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member) {
		*found = see(member);
		if (found->rank == (json_int_t)rank)
			return true;
	}
	*found = (struct seen){0};
	return false;
}

static int
gone(const struct weir_job_query *q, const char *how)
{
	return weir_error_text(q->text, q->size, -ENOENT,
		"job \"%.64s\" is gone at the switch (according to %s): %s; create it again, and "
		"join again on all ranks",
		q->name, q->where, how);
}

/* Is this source still a member, with the same address and membership? */
static int
check_member(const struct weir_job_query *q, const struct seen *m)
{
	/* A member that has left keeps its address in the answer, for messages. */
	if (m->has_expired || m->has_left || m->at[0] == '\0')
		return weir_error_text(q->text, q->size, -EACCES,
			"rank %u is no longer a member of job \"%.64s\" (according to %s): it %s; "
			"join it again",
			q->source, q->name, q->where,
			m->has_expired ? "was silent for longer than the job's expire_s"
				       : "has left, or was removed");
	if (strcmp(m->at, q->address) != 0)
		return weir_error_text(q->text, q->size, -EACCES,
			"rank %u of job \"%.64s\" is another host now, %s (according to %s): join "
			"again, as another rank or when it has left",
			q->source, q->name, m->at, q->where);
	/* The switch accepts joins only from the last membership. */
	if (q->generation == 0 && q->membership != 0 && m->membership != 0 &&
		m->membership != (json_int_t)q->membership)
		return weir_error_text(q->text, q->size, -EEXIST,
			"rank %u of job \"%.64s\" was joined again from this host's address %s "
			"(according to %s): is another process running as rank %u?",
			q->source, q->name, m->at, q->where, q->source);
	return 0;
}

/* "rank 1 (10.77.0.2, last heard 3.2 s ago)" */
static void
add_source(const struct weir_job_query *q, unsigned int rank, const struct seen *m)
{
	const char *state = m->at[0] == '\0' ? "has not joined"
		: m->has_expired             ? ", has expired"
		: m->has_left                ? ", has left"
		: m->heard < 0               ? ", not heard yet"
					     : "";

	append(q->text, q->size, "rank %u (%s%s", rank, m->at, state);
	if (state[0] == '\0')
		append(q->text, q->size, ", last heard %.1f s ago", m->heard);
	append(q->text, q->size, ")");
}

/* Is it a source that is not in `present` (NULL: none is)? */
static bool
is_missing(const struct seen *m, const uint8_t *present)
{
	return m->rank >= 0 && m->rank < WEIR_SOURCES_MAX &&
		(present == NULL || !weir_bitmap_has(present, (unsigned int)m->rank));
}

/* Append the members that are not in `present`, with addresses. */
static void
add_missing(const struct weir_job_query *q, const json_t *members, const uint8_t *present)
{
	unsigned int count = 0;
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member) {
		struct seen m = see(member);

		if (!is_missing(&m, present) || count++ >= NAMED_MAX)
			continue;
		append(q->text, q->size, count == 1 ? "; the switch waits for " : ", ");
		add_source(q, (unsigned int)m.rank, &m);
	}
	if (count > NAMED_MAX)
		append(q->text, q->size, " and %u more", count - NAMED_MAX);
}

/*
 * -ECONNABORTED if another member is lost for good: it has left since this one joined, and the job
 * has not begun; or the operation of a temporary job, in which no other source takes its place,
 * waits for it. Otherwise 0.
 */
static int
check_others(const struct weir_job_query *q, const json_t *members, bool waited_for)
{
	const json_t *member;
	size_t i;

	json_array_foreach (members, i, member) {
		struct seen m = see(member);

		if (m.rank == q->source)
			continue;
		if (m.has_left && m.left >= 0 && m.left < q->joined_s)
			return weir_error_text(q->text, q->size, -ECONNABORTED,
				"rank %d (%s) left job \"%.64s\" before it had begun (according to "
				"%s): start all ranks again",
				(int)m.rank, m.at, q->name, q->where);
		if (waited_for && (m.has_left || m.has_expired) && is_missing(&m, q->present))
			return weir_error_text(q->text, q->size, -ECONNABORTED,
				"rank %d (%s) has %s job \"%.64s\", and the others wait for it "
				"(according to %s): has its process ended?",
				(int)m.rank, m.at, m.has_left ? "left" : "expired in", q->name,
				q->where);
	}
	return 0;
}

static int
check_job(struct weir_job_query *q, const json_t *job)
{
	const json_t *members = json_object_get(job, "members");
	const json_t *generation = json_object_get(job, "generation");
	const char *state = json_string_value(json_object_get(job, "state"));
	json_int_t now = json_integer_value(generation);
	struct seen own;
	int code;

	if (state != NULL && strcmp(state, "draining") == 0)
		return gone(q, "it was deleted");
	if (!json_is_array(members) || !json_is_integer(generation))
		return 0; /* another version, or no switch: no conclusion */
	if (json_integer_value(json_object_get(job, "id")) != q->job)
		return gone(q, "another job has its name");
	(void)find_member(members, q->source, &own);
	code = check_member(q, &own);
	if (code == 0)
		code = check_others(q, members, false);
	if (code < 0)
		return code;
	if (q->generation != 0 && now == 0)
		return weir_error_text(q->text, q->size, -ESTALE,
			"job \"%.64s\" has not begun at the switch (according to %s), this handle "
			"is of generation %u: the switch was restarted, or the job created again; "
			"join again on every host",
			q->name, q->where, q->generation);
	if (q->generation != 0 && now != q->generation)
		return weir_error_text(q->text, q->size, -ESTALE,
			"job \"%.64s\" has generation %d now, this handle is of %u (according to "
			"%s): its ranks have joined again, or the switch was restarted; join again "
			"on every host",
			q->name, (int)now, q->generation, q->where);
	q->temporary = q->generation != 0 && json_is_true(json_object_get(job, "temporary"));
	if (q->present == NULL) { /* the switch is silent: when did it last hear this host? */
		append(q->text, q->size, "; its control API has the job, and ");
		add_source(q, q->source, &own);
		append(q->text, q->size,
			": if that is long ago, the switch does not get this host's packets; "
			"otherwise this host does not get the switch's");
		return 0;
	}
	if (q->temporary)
		code = check_others(q, members, true);
	if (code == 0)
		add_missing(q, members, q->present);
	return code;
}

int
weir_job_query_read(struct weir_job_query *q, long status, const char *body, size_t length)
{
	json_t *all = parse(body, length);
	const char *code =
		json_string_value(json_object_get(json_object_get(all, "error"), "code"));
	int result = 0;

	q->text[0] = '\0';
	if (status == 404 && code != NULL && strcmp(code, "unknown_job") == 0)
		result = gone(q, "it was deleted, or the switch was restarted without it");
	else if (status == 200 && json_is_object(all))
		result = check_job(q, all);
	json_decref(all);
	return result;
}

int
weir_job_query_read_block(const struct weir_job_query *q, const char *body, size_t length)
{
	json_t *all = parse(body, length);
	const json_t *block = json_array_get(json_object_get(all, "blocks"), 0);
	const json_t *missing = json_object_get(block, "missing");
	int code = q->temporary ? check_others(q, missing, true) : 0;
	struct seen own;

	if (code == 0 && json_array_size(missing) > 0 && !find_member(missing, q->source, &own)) {
		q->text[0] = '\0';
		add_missing(q, missing, NULL);
	}
	json_decref(all);
	return code;
}
