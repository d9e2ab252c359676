/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/hash_model.h"

#include <stdlib.h>

bool
hash_model_init(struct hash_model *model, uint32_t capacity)
{
	model->entries = calloc(capacity, sizeof(*model->entries));
	model->count = 0;
	model->capacity = capacity;
	return model->entries != NULL;
}

void
hash_model_free(struct hash_model *model)
{
	free(model->entries);
	model->entries = NULL;
}

struct hash_model_entry *
hash_model_get(const struct hash_model *model, uint64_t key)
{
	for (uint32_t i = 0; i < model->count; i++)
		if (model->entries[i].key == key)
			return &model->entries[i];
	return NULL;
}

bool
hash_model_add(struct hash_model *model, uint64_t key, uint64_t value, uint32_t bucket)
{
	if (model->count == model->capacity)
		return false;
	model->entries[model->count++] = (struct hash_model_entry){
		.key = key, .value = value, .bucket = bucket, .ref = true};
	return true;
}

bool
hash_model_remove(struct hash_model *model, uint64_t key)
{
	struct hash_model_entry *entry = hash_model_get(model, key);

	if (entry == NULL)
		return false;
	*entry = model->entries[--model->count];
	return true;
}

static bool
within(const struct hash_model_entry *entry, uint32_t first, uint32_t end)
{
	return entry->bucket >= first && entry->bucket < end;
}

uint32_t
hash_model_idle(const struct hash_model *model, uint32_t first, uint32_t end)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < model->count; i++)
		n += within(&model->entries[i], first, end) && !model->entries[i].ref;
	return n;
}

uint32_t
hash_model_in_bucket(const struct hash_model *model, uint32_t bucket)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < model->count; i++)
		n += model->entries[i].bucket == bucket;
	return n;
}

void
hash_model_clear(struct hash_model *model, uint32_t first, uint32_t end)
{
	for (uint32_t i = 0; i < model->count; i++)
		if (within(&model->entries[i], first, end))
			model->entries[i].ref = false;
}
