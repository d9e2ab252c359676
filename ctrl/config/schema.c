/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <rte_common.h>

#include "ctrl/config/values.h"

#define HINT_MAX 64 /* no key is longer */

static int check_value(
	const struct ctrl_source *source, struct ctrl_path path, const char *schema, json_t *value);

static const struct ctrl_key *
keys_of(const struct ctrl_source *source, size_t *count)
{
	*count = source->keys == NULL ? ctrl_keys_count : source->nb_keys;
	return source->keys == NULL ? ctrl_keys : source->keys;
}

static const struct ctrl_key *
find_key(const struct ctrl_source *source, const char *path)
{
	size_t count;
	const struct ctrl_key *keys = keys_of(source, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(keys[i].path, path) == 0)
			return &keys[i];
	return NULL;
}

/* Where a value stands in the list and in the file. */
struct spot {
	const struct ctrl_source *source;
	const struct ctrl_key *key;
	struct ctrl_path path;
};

#define REFUSE(spot, ...) ctrl_refuse((spot)->source, (spot)->path, __VA_ARGS__)

/* Insertions, deletions, replacements and swaps of neighbours that lead from a to b. */
static unsigned int
distance(const char *a, const char *b)
{
	unsigned int row[3][HINT_MAX + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > HINT_MAX || m > HINT_MAX)
		return UINT32_MAX;
	for (unsigned int j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int *now = row[i % 3], *last = row[(i + 2) % 3];

		now[0] = (unsigned int)i;
		for (size_t j = 1; j <= m; j++) {
			now[j] = RTE_MIN(RTE_MIN(last[j], now[j - 1]) + 1,
				last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = RTE_MIN(now[j], row[(i + 1) % 3][j - 2] + 1);
		}
	}
	return row[n % 3][m];
}

/* The name of a key directly in an object of the schema, or NULL. */
static const char *
member_of(const struct ctrl_key *key, const char *schema)
{
	size_t length = strlen(schema);
	const char *name = key->path;

	if (length > 0) {
		if (strncmp(name, schema, length) != 0 || name[length] != '.')
			return NULL;
		name += length + 1;
	}
	return strpbrk(name, ".[") == NULL ? name : NULL;
}

static int
refuse_unknown(const struct ctrl_source *source, struct ctrl_path path, const char *schema,
	const char *name)
{
	const char *near = NULL;
	unsigned int best = 3;
	char known[512] = "";
	size_t count;
	const struct ctrl_key *keys = keys_of(source, &count);

	for (size_t i = 0; i < count; i++) {
		const char *other = member_of(&keys[i], schema);
		unsigned int steps;

		if (other == NULL)
			continue;
		steps = distance(name, other);
		if (steps < best && steps < strlen(other)) {
			best = steps;
			near = other;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			known[0] != '\0' ? ", " : "", other);
	}
	if (near != NULL)
		return ctrl_refuse_key(
			source, path, name, "unknown key; did you mean \"%s\"?", near);
	return ctrl_refuse_key(source, path, name, "unknown key; known here: %s", known);
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
	char list[256];
	size_t used = 0;

	if (ctrl_parse_word(spot->key->words, text) >= 0)
		return 0;
	for (const char *p = spot->key->words; *p != '\0' && used + 3 < sizeof(list); p++) {
		if (*p == '|')
			list[used++] = ',';
		list[used++] = *p == '|' ? ' ' : *p;
	}
	list[used] = '\0';
	return REFUSE(spot, "\"%.64s\" is not one of %s", text, list);
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
	if (!ctrl_is_host(address))
		return REFUSE(spot, "%s is not a host's address", text);
	return 0;
}

static int
check_subnet(const struct spot *spot, const char *text)
{
	uint32_t address, hosts;
	uint8_t prefix;

	if (!ctrl_parse_subnet(text, &address, &prefix))
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
	if (!ctrl_is_group(group))
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
check_object(
	const struct ctrl_source *source, struct ctrl_path path, const char *schema, json_t *object)
{
	const char *name;
	json_t *value;
	size_t count;
	const struct ctrl_key *keys = keys_of(source, &count);

	json_object_foreach (object, name, value) {
		struct ctrl_path in =
			ctrl_path("%s%s%.64s", path.text, path.text[0] != '\0' ? "." : "", name);
		char sub[CTRL_PATH_MAX];
		int rc;

		snprintf(sub, sizeof(sub), "%s%s%.64s", schema, schema[0] != '\0' ? "." : "", name);
		if (strpbrk(name, ".[]") != NULL || find_key(source, sub) == NULL)
			return refuse_unknown(source, path, schema, name);
		rc = check_value(source, in, sub, value);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < count; i++) {
		name = member_of(&keys[i], schema);
		if (name != NULL && keys[i].fallback == NULL &&
			json_object_get(object, name) == NULL)
			return ctrl_refuse(source, path, "the key \"%s\" is missing", name);
	}
	return 0;
}

static int
check_array(const struct spot *spot, const char *schema, json_t *array)
{
	int64_t entries = (int64_t)json_array_size(array);
	char sub[CTRL_PATH_MAX + 2];

	if (entries < spot->key->min || entries > spot->key->max)
		return REFUSE(spot, "%" PRId64 " entries are not in %" PRId64 "..%" PRId64, entries,
			spot->key->min, spot->key->max);
	snprintf(sub, sizeof(sub), "%s[]", schema);
	for (size_t i = 0; i < (size_t)entries; i++) {
		int rc = check_value(spot->source, ctrl_path("%s[%zu]", spot->path.text, i), sub,
			json_array_get(array, i));

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
check_string(const struct spot *spot, const char *text)
{
	switch (spot->key->kind) {
	case CTRL_WORD: return check_word(spot, text);
	case CTRL_TEXT: return check_length(spot, text);
	case CTRL_NAME: return check_name(spot, text);
	case CTRL_ADDRESS: return check_address(spot, text);
	case CTRL_SUBNET: return check_subnet(spot, text);
	case CTRL_RESULTS: return check_results(spot, text);
	case CTRL_MAC: return check_mac(spot, text);
	case CTRL_OBJECT:
	case CTRL_ARRAY:
	case CTRL_INTEGER:
	case CTRL_POWER:
	case CTRL_BOOLEAN:
	default: return -EINVAL;
	}
}

static int
check_value(
	const struct ctrl_source *source, struct ctrl_path path, const char *schema, json_t *value)
{
	struct spot spot = {source, find_key(source, schema), path};
	const char *wanted = "a string";

	switch (spot.key->kind) {
	case CTRL_OBJECT:
		if (json_is_object(value))
			return check_object(source, path, schema, value);
		wanted = "an object";
		break;
	case CTRL_ARRAY:
		if (json_is_array(value))
			return check_array(&spot, schema, value);
		wanted = "an array";
		break;
	case CTRL_INTEGER:
	case CTRL_POWER:
		if (json_is_integer(value))
			return check_integer(&spot, value);
		wanted = "an integer";
		break;
	case CTRL_BOOLEAN:
		if (json_is_boolean(value))
			return 0;
		wanted = "true or false";
		break;
	case CTRL_WORD:
	case CTRL_TEXT:
	case CTRL_NAME:
	case CTRL_ADDRESS:
	case CTRL_SUBNET:
	case CTRL_RESULTS:
	case CTRL_MAC:
		if (json_is_string(value))
			return check_string(&spot, json_string_value(value));
		break;
	}
	return REFUSE(&spot, "%s where %s belongs", type_text(value), wanted);
}

int
ctrl_schema_check(const struct ctrl_source *source, json_t *root)
{
	if (!json_is_object(root))
		return ctrl_refuse(
			source, ctrl_path("%s", ""), "%s where an object belongs", type_text(root));
	return check_object(source, ctrl_path("%s", ""), "", root);
}
