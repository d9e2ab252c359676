/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/values.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	const char *slash = strchr(text, '/');
	char host[16];
	unsigned int bits = 0;

	if (slash == NULL || (size_t)(slash - text) >= sizeof(host))
		return false;
	memcpy(host, text, (size_t)(slash - text));
	host[slash - text] = '\0';
	if (strlen(slash + 1) < 1 || strlen(slash + 1) > 2)
		return false;
	for (const char *p = slash + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9')
			return false;
		bits = bits * 10 + (unsigned int)(*p - '0');
	}
	if (bits < 1 || bits > 30 || !ctrl_parse_address(host, address))
		return false;
	*prefix = (uint8_t)bits;
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
ctrl_parse_mac(const char *text, uint8_t mac[6])
{
	if (strlen(text) != 17)
		return false;
	for (unsigned int i = 0; i < 6; i++) {
		int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
			return false;
		mac[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool
ctrl_is_host(uint32_t address)
{
	uint32_t first = address >> 24;

	return first != 0 && first != 127 && first < 224;
}

bool
ctrl_is_group(uint32_t address)
{
	return address >> 28 == 0xe && address >> 8 != 0xe00000;
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

static const struct ctrl_key *
key_of(const json_t *object, const char *path, const json_t **value)
{
	const struct ctrl_key *key = ctrl_key_find(path);

	assert(key != NULL);
	*value = json_object_get(object, ctrl_key_name(key));
	assert(*value != NULL || key->fallback != NULL);
	return key;
}

int64_t
ctrl_integer(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_integer_value(value) : strtoll(key->fallback, NULL, 10);
}

bool
ctrl_boolean(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_is_true(value) : strcmp(key->fallback, "true") == 0;
}

const char *
ctrl_string(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_string_value(value) : key->fallback;
}

int
ctrl_word(const json_t *object, const char *path)
{
	return ctrl_parse_word(ctrl_key_find(path)->words, ctrl_string(object, path));
}

struct ctrl_address_text
ctrl_address_text(uint32_t address)
{
	struct ctrl_address_text out;

	snprintf(out.text, sizeof(out.text), "%u.%u.%u.%u", address >> 24, address >> 16 & 0xff,
		address >> 8 & 0xff, address & 0xff);
	return out;
}
