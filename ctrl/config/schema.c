/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/schema.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <rte_common.h>

/* -- values */

bool
ctrl_parse_address(const char *text, uint32_t *address)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	*address = ntohl(in.s_addr);
	return true;
}

bool
ctrl_parse_subnet(const char *text, uint32_t *address, uint8_t *prefix)
{
	size_t length = strcspn(text, "/");
	char host[INET_ADDRSTRLEN];
	const char *wrong;

	if (text[length] == '\0' || length >= sizeof(host) ||
		!isdigit((unsigned char)text[length + 1]))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)length, text);
	*prefix = (uint8_t)strtonum(text + length + 1, 1, 32, &wrong);
	return wrong == NULL && ctrl_parse_address(host, address);
}

bool
ctrl_parse_hex(const char *text, uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, text += 2) {
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			return false;
		bytes[i] = (uint8_t)strtoul((const char[]){text[0], text[1], '\0'}, NULL, 16);
	}
	return true;
}

bool
ctrl_parse_mac(const char *text, uint8_t mac[6])
{
	if (strlen(text) != 17)
		return false;
	for (unsigned int i = 0; i < 6; i++)
		if (!ctrl_parse_hex(text + 3 * i, &mac[i], 1) || (i < 5 && text[3 * i + 2] != ':'))
			return false;
	return true;
}

bool
ctrl_is_host(uint32_t address)
{
	uint32_t first = address >> 24;

	return first != 0 && first != 127 && first < 224;
}

bool
ctrl_is_name(const char *text)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return text[strspn(text, good)] == '\0' && text[0] != '.' && text[0] != '-';
}

int
ctrl_parse_word(const char *words, const char *text)
{
	size_t length = strlen(text);
	int index = 0;

	for (;; index++) {
		size_t word = strcspn(words, "|");

		if (word == length && memcmp(words, text, length) == 0)
			return index;
		if (words[word] == '\0')
			return -1;
		words += word + 1;
	}
}

struct ctrl_words_text
ctrl_words_text(const char *words)
{
	struct ctrl_words_text out = {""};
	size_t used = 0;

	for (; *words != '\0' && used + 3 < sizeof(out.text); words++) {
		if (*words == '|')
			out.text[used++] = ',';
		out.text[used++] = *words == '|' ? ' ' : *words;
	}
	return out;
}

json_t *
ctrl_word_json(const char *words, unsigned int index)
{
	while (index-- > 0)
		words = strchr(words, '|') + 1;
	return json_stringn(words, strcspn(words, "|"));
}

struct ctrl_address_text
ctrl_address_text(uint32_t address)
{
	struct ctrl_address_text out;

	snprintf(out.text, sizeof(out.text), "%u.%u.%u.%u", address >> 24, address >> 16 & 0xff,
		address >> 8 & 0xff, address & 0xff);
	return out;
}

/* -- keys */

const struct ctrl_key *
ctrl_schema_find(const struct ctrl_schema *schema, const char *path)
{
	for (size_t i = 0; i < schema->count; i++)
		if (strcmp(schema->keys[i].path, path) == 0)
			return &schema->keys[i];
	return NULL;
}

const char *
ctrl_key_name(const struct ctrl_key *key)
{
	const char *dot = strrchr(key->path, '.');

	return dot == NULL ? key->path : dot + 1;
}

const char *
ctrl_key_in(const struct ctrl_key *key, const char *at)
{
	size_t length = strlen(at);
	const char *name = key->path;

	if (length > 0) {
		if (strncmp(name, at, length) != 0 || name[length] != '.')
			return NULL;
		name += length + 1;
	}
	return strpbrk(name, ".[") == NULL ? name : NULL;
}

/* -- values in structs */

static_assert(
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "small integers begin where larger ones do");

/* N of a value that is kept as a fraction 1/N; otherwise 0. */
static double
parts(const struct ctrl_key *key)
{
	return strncmp(key->unit, "1/", 2) == 0 ? strtod(key->unit + 2, NULL) : 0;
}

static bool
is_text(const struct ctrl_key *key)
{
	return key->kind == CTRL_TEXT || key->kind == CTRL_NAME;
}

static int64_t
number_of(const struct ctrl_key *key, const json_t *value)
{
	const char *text = value == NULL ? key->fallback : json_string_value(value);
	uint32_t address = 0;

	if (key->kind == CTRL_ARRAY)
		return (int64_t)json_array_size(value);
	if (text == NULL)
		return json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
	if (key->kind == CTRL_RESULTS || key->kind == CTRL_ADDRESS || key->kind == CTRL_IPV4)
		return ctrl_parse_address(text, &address) ? address : 0;
	if (key->kind == CTRL_WORD)
		return ctrl_parse_word(key->words, text);
	return key->kind == CTRL_BOOLEAN ? strcmp(text, "true") == 0 : strtoll(text, NULL, 10);
}

void
ctrl_key_set(const struct ctrl_key *key, const json_t *value, void *base)
{
	const char *text = value != NULL ? json_string_value(value) : key->fallback;
	char *field = (char *)base + key->offset;

	if (key->bytes == 0 || (value == NULL && key->fallback == NULL))
		return;
	if (is_text(key)) {
		strlcpy(field, text, key->bytes);
	} else if (key->kind == CTRL_MAC) {
		ctrl_parse_mac(text, (uint8_t *)field);
	} else if (key->kind == CTRL_HEX) {
		ctrl_parse_hex(text, (uint8_t *)field, key->bytes);
	} else if (parts(key) > 0) {
		double fraction = (double)number_of(key, value) / parts(key);

		memcpy(field, &fraction, sizeof(fraction));
	} else {
		int64_t number = number_of(key, value);

		memcpy(field, &number, key->bytes);
	}
}

json_t *
ctrl_key_get(const struct ctrl_key *key, const void *base)
{
	const char *field = (const char *)base + key->offset;
	int64_t number = 0;
	double fraction;

	if (is_text(key))
		return json_string(field);
	if (parts(key) > 0) {
		memcpy(&fraction, field, sizeof(fraction));
		return json_integer(llround(fraction * parts(key)));
	}
	if (key->min < 0)
		number = -((signed char)field[key->bytes - 1] < 0); /* extend the sign */
	memcpy(&number, field, key->bytes);
	if (key->kind == CTRL_BOOLEAN)
		return json_boolean(number != 0);
	if (key->kind == CTRL_WORD)
		return ctrl_word_json(key->words, (unsigned int)number);
	if (key->kind == CTRL_IPV4)
		return json_string(ctrl_address_text((uint32_t)number).text);
	if (key->kind == CTRL_RESULTS)
		return json_string(
			number == 0 ? "unicast" : ctrl_address_text((uint32_t)number).text);
	return json_integer(number);
}

/* -- checks */

/* The insertions, deletions, replacements and swaps of neighbors that lead from a to b, up to
 * `most`; most + 1: more. */
static unsigned int
distance(const char *a, const char *b, unsigned int most)
{
	unsigned int best = most + 1;

	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	if (*a == *b)
		return 0;
	if (most == 0)
		return 1;
	if (*a != '\0')
		best = RTE_MIN(best, 1 + distance(a + 1, b, most - 1));
	if (*b != '\0')
		best = RTE_MIN(best, 1 + distance(a, b + 1, most - 1));
	if (*a != '\0' && *b != '\0')
		best = RTE_MIN(best, 1 + distance(a + 1, b + 1, most - 1));
	if (*a != '\0' && *b != '\0' && a[0] == b[1] && a[1] == b[0])
		best = RTE_MIN(best, 1 + distance(a + 2, b + 2, most - 1));
	return best;
}

/* A value that is being checked, and its key in the table (NULL: the whole text). */
struct spot {
	const struct ctrl_schema *schema;
	const struct ctrl_key *key;
	struct ctrl_path path;
	struct ctrl_error *error;
};

#define REFUSE(spot, ...) ctrl_refuse((spot)->error, (spot)->path, __VA_ARGS__)

static int check_value(const struct spot *spot, json_t *value);

static int
refuse_unknown(const struct spot *spot, const char *at, const char *name)
{
	const char *near = NULL;
	unsigned int best = 3;
	char known[480] = "";

	for (size_t i = 0; i < spot->schema->count; i++) {
		const char *other = ctrl_key_in(&spot->schema->keys[i], at);
		unsigned int steps;

		if (other == NULL)
			continue;
		steps = distance(name, other, 2);
		if (steps < best && steps < strlen(other)) {
			best = steps;
			near = other;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			known[0] != '\0' ? ", " : "", other);
	}
	if (near != NULL)
		return ctrl_refuse_key(spot->error, CTRL_WRONG_KEY, spot->path, name,
			"unknown key; did you mean \"%s\"?", near);
	return ctrl_refuse_key(spot->error, CTRL_WRONG_KEY, spot->path, name,
		"unknown key; known here: %s", known[0] != '\0' ? known : "none");
}

static const char *
type_text(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "an integer";
	case JSON_REAL: return "a number with a fraction or exponent";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	case JSON_NULL:
	default: return "null";
	}
}

static int
check_integer(const struct spot *spot, const json_t *value)
{
	json_int_t v = json_integer_value(value);

	if (v < spot->key->min || v > spot->key->max)
		return REFUSE(spot, "%" PRId64 " is not in %" PRId64 "..%" PRId64, (int64_t)v,
			spot->key->min, spot->key->max);
	if (spot->key->kind == CTRL_POWER && (v & (v - 1)) != 0)
		return REFUSE(spot, "%" PRId64 " is not a power of two", (int64_t)v);
	return 0;
}

static int
check_word(const struct spot *spot, const char *text)
{
	if (ctrl_parse_word(spot->key->words, text) >= 0)
		return 0;
	return REFUSE(
		spot, "\"%.64s\" is not one of %s", text, ctrl_words_text(spot->key->words).text);
}

static int
check_length(const struct spot *spot, const char *text)
{
	int64_t length = (int64_t)strlen(text);

	if (length >= spot->key->min && length <= spot->key->max)
		return 0;
	return REFUSE(spot, "%" PRId64 " characters are not in %" PRId64 "..%" PRId64, length,
		spot->key->min, spot->key->max);
}

static int
check_name(const struct spot *spot, const char *text)
{
	if (ctrl_is_name(text))
		return check_length(spot, text);
	if (text[0] == '.' || text[0] == '-')
		return REFUSE(spot, "\"%.64s\" begins with a %c", text, text[0]);
	return REFUSE(spot, "\"%.64s\" has other characters than letters, digits and . _ -", text);
}

static int
check_address(const struct spot *spot, const char *text)
{
	uint32_t address;

	if (!ctrl_parse_address(text, &address))
		return REFUSE(spot, "\"%.64s\" is not an IPv4 address such as 10.77.0.1", text);
	if (spot->key->kind == CTRL_ADDRESS && !ctrl_is_host(address))
		return REFUSE(spot, "%s is not a host's address", text);
	return 0;
}

static int
check_subnet(const struct spot *spot, const char *text)
{
	uint32_t address, hosts;
	uint8_t prefix;

	if (!ctrl_parse_subnet(text, &address, &prefix) || prefix > 30)
		return REFUSE(spot,
			"\"%.64s\" is not an IPv4 address and a prefix in 1..30, such as "
			"10.77.0.254/24",
			text);
	hosts = UINT32_MAX >> prefix;
	if (!ctrl_is_host(address) || (address & hosts) == 0 || (address & hosts) == hosts)
		return REFUSE(spot, "%s is not a host's address", text);
	return 0;
}

static int
check_results(const struct spot *spot, const char *text)
{
	uint32_t group;

	if (strcmp(text, "unicast") == 0)
		return 0;
	if (!ctrl_parse_address(text, &group))
		return REFUSE(
			spot, "\"%.64s\" is neither \"unicast\" nor an IPv4 multicast group", text);
	if (group >> 28 != 0xe)
		return REFUSE(spot, "%s is not a multicast group: they are in 224.0.0.0/4", text);
	if (group >> 8 == 0xe00000)
		return REFUSE(spot,
			"%s is in 224.0.0.0/24, which is the network's own: choose a group of "
			"239.0.0.0/8",
			text);
	return 0;
}

static int
check_mac(const struct spot *spot, const char *text)
{
	static const uint8_t none[6];
	uint8_t mac[6];

	if (!ctrl_parse_mac(text, mac))
		return REFUSE(
			spot, "\"%.64s\" is not a MAC address such as 02:57:45:49:52:01", text);
	if ((mac[0] & 1) != 0 || memcmp(mac, none, sizeof(mac)) == 0)
		return REFUSE(spot, "%s is not a station's address", text);
	return 0;
}

static int
check_hex(const struct spot *spot, const char *text)
{
	if ((int64_t)strlen(text) == spot->key->min &&
		strspn(text, "0123456789abcdefABCDEF") == strlen(text))
		return 0;
	return REFUSE(spot, "it is not %" PRId64 " hexadecimal digits", spot->key->min);
}

static int
check_object(const struct spot *spot, const char *at, json_t *object)
{
	const struct ctrl_schema *schema = spot->schema;
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		const char *dot = spot->path.text[0] != '\0' ? "." : "";
		struct ctrl_path key = ctrl_path("%s%s%.64s", at, at[0] != '\0' ? "." : "", name);
		struct spot in = {schema, ctrl_schema_find(schema, key.text),
			ctrl_path("%s%s%.64s", spot->path.text, dot, name), spot->error};
		int rc;

		if (strpbrk(name, ".[]") != NULL || in.key == NULL)
			return refuse_unknown(spot, at, name);
		rc = check_value(&in, value);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < schema->count; i++) {
		name = ctrl_key_in(&schema->keys[i], at);
		if (name != NULL && schema->keys[i].fallback == NULL &&
			json_object_get(object, name) == NULL)
			return ctrl_refuse_key(spot->error, CTRL_MISSING_KEY, spot->path, name,
				"this key is required");
	}
	return 0;
}

/* Does the table have keys for an object in place of this array? */
static bool
has_short_form(const struct spot *spot)
{
	for (size_t i = 0; i < spot->schema->count; i++)
		if (ctrl_key_in(&spot->schema->keys[i], spot->key->path) != NULL)
			return true;
	return false;
}

/* Does an element before this one have the same value of a key? */
static int
check_unique(const struct spot *spot, const struct ctrl_key *key, const json_t *array, size_t index)
{
	const char *name = ctrl_key_name(key);
	const json_t *value = json_object_get(json_array_get(array, index), name);
	const char *text = json_string_value(value), *quote = key->kind == CTRL_NAME ? "\"" : "";
	struct ctrl_path path = ctrl_path("%s[%zu].%s", spot->path.text, index, name);

	for (size_t i = 0; value != NULL && i < index; i++) {
		const json_t *other = json_object_get(json_array_get(array, i), name);

		if (text == NULL && json_equal(value, other))
			return ctrl_refuse(spot->error, path,
				"%" JSON_INTEGER_FORMAT " is the %s of %s[%zu] already",
				json_integer_value(value), name, spot->path.text, i);
		if (text != NULL && other != NULL &&
			strcasecmp(text, json_string_value(other)) == 0 &&
			(key->kind == CTRL_HEX || json_equal(value, other)))
			return ctrl_refuse(spot->error, path, "%s%s%s is the %s of %s[%zu] already",
				quote, key->kind == CTRL_HEX ? "it" : text, quote, name,
				spot->path.text, i);
	}
	return 0;
}

static int
check_array(const struct spot *spot, json_t *array)
{
	int64_t entries = (int64_t)json_array_size(array);
	struct ctrl_path element = ctrl_path("%s[]", spot->key->path);
	const struct ctrl_key *key = ctrl_schema_find(spot->schema, element.text), *in;

	if (entries < spot->key->min || entries > spot->key->max)
		return REFUSE(spot, "%" PRId64 " entries are not in %" PRId64 "..%" PRId64, entries,
			spot->key->min, spot->key->max);
	for (size_t i = 0; i < (size_t)entries; i++) {
		struct spot of = {
			spot->schema, key, ctrl_path("%s[%zu]", spot->path.text, i), spot->error};
		int rc = check_value(&of, json_array_get(array, i));

		for (in = spot->schema->keys;
			rc == 0 && in < spot->schema->keys + spot->schema->count; in++)
			if (in->unique && ctrl_key_in(in, element.text) != NULL)
				rc = check_unique(spot, in, array, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
check_value(const struct spot *spot, json_t *value)
{
	static int (*const of_strings[])(const struct spot *, const char *) = {
		[CTRL_WORD] = check_word,
		[CTRL_TEXT] = check_length,
		[CTRL_NAME] = check_name,
		[CTRL_ADDRESS] = check_address,
		[CTRL_IPV4] = check_address,
		[CTRL_SUBNET] = check_subnet,
		[CTRL_RESULTS] = check_results,
		[CTRL_MAC] = check_mac,
		[CTRL_HEX] = check_hex,
	};
	enum ctrl_kind kind = spot->key == NULL ? CTRL_OBJECT : spot->key->kind;
	const char *at = spot->key == NULL ? "" : spot->key->path, *wanted = "a string";

	if (kind == CTRL_ARRAY) {
		if (json_is_array(value))
			return check_array(spot, value);
		if (json_is_object(value) && has_short_form(spot))
			return check_object(spot, at, value);
		wanted = "an array";
	} else if (kind == CTRL_OBJECT || kind == CTRL_SETTINGS) {
		if (json_is_object(value))
			return kind == CTRL_OBJECT ? check_object(spot, at, value) : 0;
		wanted = "an object";
	} else if (kind == CTRL_INTEGER || kind == CTRL_POWER) {
		if (json_is_integer(value))
			return check_integer(spot, value);
		wanted = "an integer";
	} else if (kind == CTRL_BOOLEAN) {
		if (json_is_boolean(value))
			return 0;
		wanted = "true or false";
	} else if (json_is_string(value)) {
		return of_strings[kind](spot, json_string_value(value));
	}
	REFUSE(spot, "%s where %s belongs", type_text(value), wanted);
	spot->error->wrong = CTRL_WRONG_TYPE;
	return -EINVAL;
}

int
ctrl_schema_check(
	const struct ctrl_schema *schema, const char *at, json_t *value, struct ctrl_error *error)
{
	struct spot spot = {schema, at[0] == '\0' ? NULL : ctrl_schema_find(schema, at),
		ctrl_path("%s", at), error};

	return check_value(&spot, value);
}
