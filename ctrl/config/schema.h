/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The validator of all JSON that Weir reads: the configuration, requests of the control API, and
 * the state file. A table says which keys there are; any other key is an error.
 *
 *   static const struct ctrl_key keys[] = {
 *           {"rank", CTRL_INTEGER, "", NULL, .max = WEIR_SOURCES_MAX - 1},
 *           {"create", CTRL_OBJECT, "", .fallback = ""},
 *           {"create.window", CTRL_POWER, "blocks", "64", .min = 1, .max = PPE_WINDOW_MAX},
 *   };
 *   static const struct ctrl_schema schema = {keys, RTE_DIM(keys)};
 *
 * A path names objects by key and array elements by `[]`: "jobs[].sources[].address".
 */
#ifndef CTRL_SCHEMA_H
#define CTRL_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "ctrl/config/error.h"

enum ctrl_kind {
	CTRL_OBJECT,
	CTRL_ARRAY, /* range: entries. Also an object, if the table has keys for one */
	CTRL_INTEGER, /* range: value */
	CTRL_POWER, /* an integer that is a power of two; range: value */
	CTRL_BOOLEAN,
	CTRL_WORD, /* one of `words` */
	CTRL_TEXT, /* any string; range: bytes */
	CTRL_NAME, /* letters, digits and . _ -; range: bytes */
	CTRL_ADDRESS, /* IPv4, a host's */
	CTRL_IPV4, /* any IPv4 address */
	CTRL_SUBNET, /* IPv4 address of a host, and prefix length in [1, 30] */
	CTRL_RESULTS, /* "unicast", or an IPv4 multicast group */
	CTRL_MAC, /* six bytes in hex, a station's */
	CTRL_HEX, /* hexadecimal digits, `min` of them */
	CTRL_SETTINGS, /* an object with the keys of a program (ctrl/programs/settings.h) */
};

struct ctrl_key {
	const char *path;
	enum ctrl_kind kind;
	const char *unit; /* "": none */
	/* The default, as JSON or a string's text; NULL: the key is required; "": no default */
	const char *fallback;
	int64_t min, max; /* inclusive */
	const char *words; /* CTRL_WORD: "one|two" */
	const char *help;
	size_t offset, bytes; /* the value's place in a struct: CTRL_FIELD; 0 bytes: none */
	bool unique; /* of an object in an array: no other element has the value */
};

/* The end of a key's row: the field of a struct for ctrl_key_set and ctrl_key_get. */
#define CTRL_FIELD(type, field)                                                                    \
	.offset = offsetof(type, field), .bytes = sizeof(((const type *)NULL)->field)

/* A table; objects come before their keys. */
struct ctrl_schema {
	const struct ctrl_key *keys;
	size_t count;
};

/* Check a value and everything in it, in the order of the text. at: the path of `value` in the
 * table, "" for the whole. 0, or -EINVAL and the first error. */
int ctrl_schema_check(
	const struct ctrl_schema *schema, const char *at, json_t *value, struct ctrl_error *error);

/* The key of a path ("jobs[].id"), or NULL. */
const struct ctrl_key *ctrl_schema_find(const struct ctrl_schema *schema, const char *path);

/* The last part of a key's path: "id" of "jobs[].id". */
const char *ctrl_key_name(const struct ctrl_key *key);

/* The name of a key that is directly in the object `at`; NULL: it is elsewhere. */
const char *ctrl_key_in(const struct ctrl_key *key, const char *at);

/*
 * Set the key's field in the struct at `base`, if it has one. value: it has passed the check; NULL
 * sets the default, if there is one. Integers, booleans, indices of words and IPv4 addresses have
 * the size of their field, text is terminated, MAC addresses and digits are bytes. An integer with
 * the unit 1/N is kept as a fraction, a double. An array's field is its number of entries.
 */
void ctrl_key_set(const struct ctrl_key *key, const json_t *value, void *base);

/* The value of a key that has a field, as ctrl_key_set takes it. A new object, or NULL without
 * memory. */
json_t *ctrl_key_get(const struct ctrl_key *key, const void *base);

/* Parse a string. False: the syntax is wrong. Outputs are in host order. */
bool ctrl_parse_address(const char *text, uint32_t *address); /* any IPv4 address */
bool ctrl_parse_subnet(const char *text, uint32_t *address, uint8_t *prefix); /* prefix [1, 32] */
bool ctrl_parse_mac(const char *text, uint8_t mac[6]);
bool ctrl_parse_hex(const char *text, uint8_t *bytes, size_t count); /* further text may follow */

/* True if a host can have this address: not 0/8, 127/8, multicast or reserved (240/4). */
bool ctrl_is_host(uint32_t address);

/* True for letters, digits and . _ -, with neither . nor - first. */
bool ctrl_is_name(const char *text);

/* The index of a word in "one|two"; -1: it is not there. */
int ctrl_parse_word(const char *words, const char *text);

/* The words as text for people: "one, two". */
struct ctrl_words_text {
	char text[256];
};
struct ctrl_words_text ctrl_words_text(const char *words);

/* The word at an index, which must exist. A new string; NULL: no memory. */
json_t *ctrl_word_json(const char *words, unsigned int index);

/* An address as text, in a buffer of the struct returned. */
struct ctrl_address_text {
	char text[16];
};
struct ctrl_address_text ctrl_address_text(uint32_t address);

#endif
