/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/drops.h"

static const char *const keys[] = {
#define X(name, key, help) [PPE_DROP_##name] = key,
	PPE_DROP_LIST(X)
#undef X
};

static const char *const helps[] = {
#define X(name, key, help) [PPE_DROP_##name] = help,
	PPE_DROP_LIST(X)
#undef X
};

const char *
ppe_drop_key(enum ppe_drop reason)
{
	return keys[reason];
}

const char *
ppe_drop_help(enum ppe_drop reason)
{
	return helps[reason];
}
