/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target of a request, "/v1/blocks?job=ring&limit=10": taken apart, decoded, and matched with
 * paths. Percent-encoding is decoded after the split, so an encoded "/" is no separator.
 */
#ifndef CTRL_API_TARGET_H
#define CTRL_API_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_TARGET_BYTES   1024 /* terminator included */
#define API_SEGMENTS_MAX   8
#define API_PARAMETERS_MAX 4
#define API_QUERY_MAX      8

struct api_call;

struct api_target {
	unsigned int nb_segments; /* "/": 0 */
	const char *segment[API_SEGMENTS_MAX]; /* decoded; in `text` */
	unsigned int nb_query;
	struct {
		const char *key, *value; /* decoded; "" where there is no "=" */
	} query[API_QUERY_MAX];
	const char *twice; /* a key that the query has more than once, decoded; or NULL */
	char text[API_TARGET_BYTES];
};

/*
 * Take a raw target apart. False when it is none that any resource could have: too long, no path,
 * an empty segment, a wrong or zero escape, too many parts.
 */
bool api_target_parse(struct api_target *target, const char *raw);

/*
 * Does the target fit a route's path? Then parameter[] are the values of its {names}, in order, in
 * `target`.
 */
bool api_target_fits(const struct api_target *target, const char *path,
	const char *parameter[API_PARAMETERS_MAX]);

/* A query's value, or NULL. */
const char *api_query(const struct api_target *target, const char *key);

/*
 * A whole number of the query into *value, or `fallback` when it is not there. False: it is no
 * number in [min, max], and the call is answered.
 */
bool api_query_number(struct api_call *call, const char *key, uint64_t min, uint64_t max,
	uint64_t fallback, uint64_t *value);

/* A switch of the query, 0 or 1; as above. */
bool api_query_flag(struct api_call *call, const char *key, bool *value);

#endif
