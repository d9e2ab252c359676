/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the hash engine should do, slowly and obviously: an unordered list of keys with a value, a
 * REF flag and the bucket that the engine says they are in. Every operation walks the list.
 */
#ifndef TESTS_MODEL_HASH_MODEL_H
#define TESTS_MODEL_HASH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct hash_model_entry {
	uint64_t key;
	uint64_t value;
	uint32_t bucket;
	bool ref;
};

struct hash_model {
	struct hash_model_entry *entries; /* count of them, in no order */
	uint32_t count;
	uint32_t capacity;
};

/* false: no memory. */
bool hash_model_init(struct hash_model *model, uint32_t capacity);
void hash_model_free(struct hash_model *model);

/* The entry of a key, or NULL. REF is left alone. The pointer is good until the next remove. */
struct hash_model_entry *hash_model_get(const struct hash_model *model, uint64_t key);

/* Add an absent key, with REF set. false: full. */
bool hash_model_add(struct hash_model *model, uint64_t key, uint64_t value, uint32_t bucket);

/* false: the key was not there. */
bool hash_model_remove(struct hash_model *model, uint64_t key);

/* How many entries lie in buckets [first, end) with REF clear. */
uint32_t hash_model_idle(const struct hash_model *model, uint32_t first, uint32_t end);

/* How many entries lie in a bucket. */
uint32_t hash_model_in_bucket(const struct hash_model *model, uint32_t bucket);

/* Clear REF of every entry in buckets [first, end). */
void hash_model_clear(struct hash_model *model, uint32_t first, uint32_t end);

#endif
