/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of a configuration: strings to numbers, and keys to values or defaults. */
#ifndef CTRL_VALUES_H
#define CTRL_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "ctrl/config/keys.h"

/* Parse a string of a kind. False when it is none; the outputs are in host order. */
bool ctrl_parse_address(const char *text, uint32_t *address); /* any IPv4 address */
bool ctrl_parse_subnet(const char *text, uint32_t *address, uint8_t *prefix); /* prefix [1, 30] */
bool ctrl_parse_mac(const char *text, uint8_t mac[6]);

/* True if a host can have this address: not 0/8, 127/8, multicast or reserved (240/4). */
bool ctrl_is_host(uint32_t address);

/* True if results may go to this multicast group: 224/4 without 224.0.0/24, the links' own. */
bool ctrl_is_group(uint32_t address);

/* True if it is made of letters, digits and . _ -, and begins with neither . nor -. */
bool ctrl_is_name(const char *text);

/* [0, words) in "one|two"; -1: none of them. */
int ctrl_parse_word(const char *words, const char *text);

/*
 * The value of a key in its object, or its default. object: NULL when the file has none. path:
 * of a key in ctrl_keys of the kind that the function is for. Only after ctrl_schema_check.
 */
int64_t ctrl_integer(const json_t *object, const char *path);
bool ctrl_boolean(const json_t *object, const char *path);
int ctrl_word(const json_t *object, const char *path);
const char *ctrl_string(const json_t *object, const char *path);

/* An address for people, in a buffer of the struct returned. */
struct ctrl_address_text {
	char text[16];
};
struct ctrl_address_text ctrl_address_text(uint32_t address);

#endif
