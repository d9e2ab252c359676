/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints docs/vectors.json: `make keys` writes it, and a test compares it. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "tests/model/vectors.h"

static void
add(json_t *object, const char *name, unsigned int value)
{
	if (value != 0)
		json_object_set_new(object, name, json_integer(value));
}

static void
add_text(json_t *object, const char *name, const char *text)
{
	json_object_set_new(object, name, json_string(text));
}

/* The fields that are not 0; codes by name. */
static json_t *
header_of(const struct weir_header *h)
{
	json_t *o = json_object();

	add(o, "job_id", h->job_id);
	add(o, "block_id", h->block_id);
	add(o, "gen_id", h->gen_id);
	add(o, "src_id", h->src_id);
	add(o, "src_cnt", h->src_cnt);
	add(o, "grad_cnt", h->grad_cnt);
	add(o, "final", h->final);
	add(o, "degraded", h->degraded);
	if (h->status != WEIR_STATUS_OK)
		add_text(o, "status", weir_status_text(h->status));
	if (!h->extended)
		return o;
	add_text(o, "collective", weir_collective_text(h->collective));
	if (h->collective == WEIR_COLLECTIVE_JOIN && h->op != 0)
		add(o, "op", h->op);
	else
		add_text(o, "op", weir_op_text(h->op));
	add_text(o, "dtype", weir_dtype_text(h->dtype));
	add(o, "flags", h->flags);
	add(o, "root", h->root);
	return o;
}

static json_t *
elements_of(const struct vector *v)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < v->elements; i++)
		json_array_append_new(array,
			v->header.dtype == WEIR_DTYPE_INT32 ? json_integer(v->int32[i])
							    : json_real((double)v->fp32[i]));
	return array;
}

static json_t *
bitmap_of(const struct vector *v)
{
	json_t *array = json_array();

	for (int s = 0; s < 64; s++)
		if ((v->bitmap >> s & 1) != 0)
			json_array_append_new(array, json_integer(s));
	return array;
}

/* Those that are not 0. */
static json_t *
settings_of(const struct vector *v)
{
	struct weir_accepted accepted = {.unknown = 0};
	json_t *o = json_object();

	if (!weir_settings_read(v->list, v->list + v->list_bytes, &accepted))
		abort();
	for (unsigned int s = 1; s < WEIR_SETTINGS; s++)
		add(o, weir_setting_table[s].key, accepted.setting[s]);
	return o;
}

static json_t *
reply_of(const struct weir_join_reply *r)
{
	char group[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, r->group, group, sizeof(group));
	return json_pack("{si si si si ss ss si si si ss}", "window", weir_get16(r->window),
		"options", r->elements[0] >> 4, "elements",
		weir_get16(r->elements) & WEIR_ELEMENTS_MAX, "sources", weir_get16(r->sources),
		"dtype", weir_dtype_text(r->dtype_op >> 4), "op", weir_op_text(r->dtype_op & 15),
		"more_ports", r->flags >> WEIR_JOIN_PORTS_SHIFT, "flags", r->flags & 15,
		"timeout_ms", (int)weir_get32(r->timeout_ms), "group", group);
}

static json_t *
displaced_of(const struct weir_displaced *d)
{
	char address[INET_ADDRSTRLEN], mac[18];

	inet_ntop(AF_INET, d->address, address, sizeof(address));
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", d->mac[0], d->mac[1], d->mac[2],
		d->mac[3], d->mac[4], d->mac[5]);
	return json_pack("{ss si ss}", "address", address, "port", weir_get16(d->port), "mac", mac);
}

/* What the tag covers besides header and payload. */
static json_t *
tag_of(const struct vector *v)
{
	static const char *const kinds[] = {NULL, NULL, "contribution", "result", "join", "reply"};
	json_t *o = json_pack("{ss}", "kind", kinds[v->end]);

	if (v->end == VECTOR_CONTRIBUTION || v->end == VECTOR_RESULT)
		json_object_set_new(
			o, "number", json_integer((json_int_t)v->wraps << 32 | v->header.block_id));
	if (v->end == VECTOR_JOIN)
		add(o, "count", v->transmission);
	if (v->end == VECTOR_REPLY)
		add_text(o, "answers", v->answers != NULL ? v->answers : "the join's nonce");
	return o;
}

static void
add_hex(json_t *object, const char *name, const uint8_t *bytes, unsigned int n)
{
	char hex[2 * VECTOR_FRAME_MAX + 1] = "";

	for (unsigned int i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	add_text(object, name, hex);
}

/* What all packets have in common. */
static json_t *
setup(void)
{
	const struct vector_keys *k = vector_keys();
	uint8_t epoch[8];
	json_t *o = json_pack("{ss}", "about",
		"The switch is 10.77.0.254 at 02:57:45:49:52:01. Source s is 10.77.0.(s + 1) at "
		"02:48:00:00:00:(s + 1), UDP port 40000 + s. Job 1 has the sources 0, 1 and 2, the "
		"generation 7, a window of 64 and 256 elements; its base form means the sum of "
		"fp32. Between switches, it has the sources 0 and 4, which cover four ranks each. "
		"Tags are of source 1, its join or the generation.");

	add_hex(o, "job_key", k->job, sizeof(k->job));
	weir_put32(epoch, (uint32_t)(VECTOR_EPOCH >> 32));
	weir_put32(epoch + 4, (uint32_t)VECTOR_EPOCH);
	add_hex(o, "epoch", epoch, sizeof(epoch));
	add_hex(o, "source_key", k->source, sizeof(k->source));
	add_hex(o, "source_challenge", k->source_challenge, sizeof(k->source_challenge));
	add_hex(o, "join_nonce", k->nonce, sizeof(k->nonce));
	add_hex(o, "generation_challenge", k->challenge, sizeof(k->challenge));
	add_hex(o, "contributions_key", k->contributions, sizeof(k->contributions));
	add_hex(o, "results_key", k->results, sizeof(k->results));
	return o;
}

static json_t *
vector_of(const struct vector *v)
{
	static const char *const ends[] = {"none", "crc", "tag", "tag", "tag", "tag"};
	uint8_t frame[VECTOR_FRAME_MAX];
	unsigned int n = vector_frame(v, frame);
	json_t *o = json_pack("{ss ss ss ss so so}", "name", v->name, "about", v->about, "from",
		v->is_answer        ? "switch"
			: v->upward ? "child"
				    : "host",
		"form", v->header.extended ? "extended" : "base", "header", header_of(&v->header),
		"elements", elements_of(v));

	if (v->has_bitmap)
		json_object_set_new(o, "bitmap", bitmap_of(v));
	if (v->mismatch.field != 0)
		json_object_set_new(o, "mismatch",
			json_pack("{ss si si si si}", "field", weir_field_text(v->mismatch.field),
				"source", v->mismatch.source, "block",
				weir_get16(v->mismatch.block), "other", v->mismatch.other,
				"offered", weir_get16(v->mismatch.offered)));
	if (weir_get16(v->reply.sources) != 0)
		json_object_set_new(o, "join", reply_of(&v->reply));
	if (v->list_bytes != 0)
		json_object_set_new(o, "settings", settings_of(v));
	if (weir_get16(v->displaced.port) != 0)
		json_object_set_new(o, "displaced", displaced_of(&v->displaced));
	if (v->challenge != 0)
		add_text(o, "challenge",
			v->challenge == 0xa0 ? "of the generation" : "of the source");
	if (v->has_key)
		add_text(o, "key", "of the results, wrapped");
	if (v->end > VECTOR_CRC)
		json_object_set_new(o, "tag", tag_of(v));
	add_text(o, "end", ends[v->end]);
	add_hex(o, "frame", frame, n);
	return o;
}

static void
print(const char *before, json_t *o)
{
	char *text = json_dumps(o, 0);

	printf("%s%s", before, text);
	free(text);
	json_decref(o);
}

/* A vector in a line. */
int
main(void)
{
	print("{\"setup\": ", setup());
	for (unsigned int i = 0; i < nb_vectors; i++)
		print(i == 0 ? ",\n\"packets\": [\n" : ",\n", vector_of(&vectors[i]));
	return puts("\n]}") < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
