/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash engine: finds the record of a 64-bit key. The public header of this folder.
 *
 * Trio has a hash block beside its packet-processing engines: microcode sends it a key as an
 * external transaction, sleeps, and wakes with the record; each access sets the record's REF
 * flag, and timer threads scan the table and act on records whose flag stayed clear. This folder is
 * that block. The headers, in reading order:
 *
 *   hash.h       this one: life cycle, records, insert, delete, and the design argument
 *   hash_fast.h  the split lookup, inline: hash_begin, hash_find, hash_confirm or hash_peek
 *   aging.h      the scans: by REF, or of everything
 *   deadline.h   deadlines of records, where REF would be read too often
 *   hash_priv.h  the layouts; only hash_fast.h, this folder and its white-box tests include it
 *
 * MEMORY. The table finds records; the caller stores them. A record begins with struct hash_record
 * (16 bytes, owned by the table), followed by the user's fields. The memory of the records is the
 * caller's (DataMemory). The table allocates only its buckets and a stack of free record numbers,
 * once, in hash_create. Nothing is resized or moved: a record's address is constant while it lives.
 *
 *   key -> mix -> primary, secondary bucket, tag        (hash_begin: both lines prefetched)
 *       -> bucket line: 8 tags | 8 record numbers | used | REF      (hash_find: record prefetched)
 *       -> record line: key, bucket, slot, live | the user's fields (hash_confirm: REF set)
 *
 * USE. A segment of microcode ends where it would wait for memory:
 *
 *   segment 1   hash_begin(table, key, &probe);
 *   segment 2   if (!hash_find(table, &probe))
 *                       the key is absent: hash_insert now, or give up
 *   segment 3   record = hash_confirm(table, &probe);
 *               if (record == NULL)
 *                       the key is absent: hash_insert now, or give up
 *               use the record, until the segment ends
 *
 * CONCURRENCY. A table has exactly one owning lcore; every function is for the owner alone, unless
 * it says otherwise. There is no lock and no atomic operation. The owner runs many microcode
 * threads, interleaved at the ends of segments, so a segment is atomic and between two segments of
 * one thread anything may happen:
 *
 *   - between hash_begin and hash_find: nothing that matters, because the probe holds only numbers
 *     derived from the key;
 *   - between hash_find and hash_confirm: another thread may delete the candidate, reuse its memory
 *     for another key, move the key elsewhere by delete and insert, or insert a key whose tag
 *     matched by chance. So hash_confirm trusts only the record itself (live, and of this key) and
 *     otherwise searches both buckets again. Its answer holds in its own segment;
 *   - after a miss: another thread may insert the key as soon as the segment ends. So hash_insert
 *     must run in the same segment as the hash_find, hash_confirm or hash_lookup that missed. To
 *     insert in a later segment (after fetching a buffer, say), call hash_confirm again in that
 *     segment. The probe remains valid;
 *   - a record pointer is valid for its key until the segment ends or the record is deleted. Keep
 *     the probe across segments; or keep pointer and key, and use the pointer again only if
 *     record->live and record->key match (the memory remains a record, so it can't dangle).
 *
 * DESIGN. Keys are block numbers of a job, which count up, and MAC addresses, which come in runs of
 * a vendor's prefix; values are cache lines. Nearly all accesses are hits (a block of n sources is
 * inserted once and found n - 1 times), and the cost of a lookup is memory latency.
 *
 *   Bucket = one cache line = 8 slots of a 16-bit tag and a 32-bit record number, an 8-bit mask of
 *   slots used, an 8-bit mask of REF flags. One load miss gets it, one SSE2 compare scans it. Tags
 *   are compared first, so that a record's line is fetched only when it is very probably the right
 *   one: a miss compares with the 6.4 keys of two buckets at 40 %, so one in 10000 misses touches a
 *   wrong record. 8-bit tags would leave room for 12 slots, but then one miss in 27 would; 10 slots
 *   of 16-bit tags would fit, but need a second compare. REF lies in the bucket, so an aging scan
 *   reads 20 bytes per record, in order, instead of a line of each record.
 *
 *   Two choices, no moves. A key may lie in either of two buckets; an insert takes the emptier one
 *   (equal: the primary). That is the power of two choices (Azar, Broder, Karlin, Upfal, "Balanced
 *   allocations", SIAM J. Computing 1999): the chance that a bucket overflows falls doubly
 *   exponentially with its size. Cuckoo moves would carry the load from 0.7 to 0.95, but make an
 *   insert's time uneven and write more lines. Beside records of 64 bytes and more, 20 bytes of
 *   buckets per record are cheaper.
 *   As nothing moves, the secondary bucket need not follow from the tag (as it must in a cuckoo
 *   filter): both come from independent bits of the mixed key, as the theory requires.
 *
 *   Mixing: key xor (mixed) seed, then the finalizer of splitmix64 (Stafford's Mix13), a bijection
 *   in which every input bit flips every output bit with probability near one half. The upper bits
 *   of each 32-bit half choose a bucket by multiply and shift (Lemire's fast range: any number of
 *   buckets, no division), the two lowest bytes of the halves, unused by that, make the tag. It
 *   costs two multiplications, about 10 cycles. CRC32 instructions would be as fast, but are
 *   linear: two with the same polynomial differ by a constant for keys of one length, so the two
 *   choices would be one, and keys that share a bucket would share it for every seed. A secret
 *   random seed keeps a sender that chooses its keys (MAC addresses) from filling one bucket; a
 *   fixed seed makes runs repeatable.
 *
 *   hash_begin prefetches both bucket lines. A hit in the primary does not read the second, and 63
 *   % of the records are in their primary at capacity. But the others, every miss and every insert
 *   need it, and fetching it only then would cost a memory latency that no segment hides, or one
 *   more segment for everyone. Two prefetches overlap, and in L2, where a block table belongs, cost
 *   next to nothing.
 *
 *   The gain of the split, measured on one core of a Sapphire Rapids (2 MiB L2), random hits on
 *   64-byte records: consecutive hash_lookup (the CPU overlaps some), and the steps by 16 threads:
 *
 *       records    1024   32768   1048576
 *       at once      11      15        44   ns per hit
 *       split         9      10        21   ns per hit
 *
 *   Sizing. Buckets = capacity / 3.2, so a table at capacity has 40 % of its slots in use (20 B of
 *   buckets and 4 B of free stack per record). Measured by tests/unit/test_hash_occupancy.c, with
 *   `buckets` set by hand and 64 seeds: share of slots in use at the first
 *   failed insert, sequential keys (MAC addresses and random keys: within 0.05 of these):
 *
 *       buckets      4     16     64    256   1024   4096  16384
 *       minimum   0.88   0.80   0.76   0.72   0.74   0.70   0.70
 *       median    0.97   0.91   0.86   0.81   0.79   0.76   0.75
 *
 *   That is for a table that only fills. A table long at capacity, which deletes a random record
 *   for each insert, is less even. The fluid limit of that process (s_k: share of buckets with k or
 *   more records; lambda: records per bucket; in equilibrium, Mitzenmacher 1996, lambda (s_{k-1}^2
 *   - s_k^2) = k (s_k - s_{k+1})) gives s_8^2 as the chance that an insert finds both buckets full:
 *   2e-20 at 40 % in use, 7e-11 at 50 %, 6e-6 at 60 %. At 40 % and ten million inserts per second
 *   that is one in more than a hundred thousand years. The caller then gets an error (-ENOSPC),
 *   never a wrong answer. In the same test no insert into a table at capacity is refused.
 */
#ifndef HASHENGINE_HASH_H
#define HASHENGINE_HASH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_CAPACITY_MAX (UINT32_C(1) << 25) /* records of one table */
#define HASH_BUCKETS_MAX  (UINT32_C(1) << 24)
#define HASH_BUCKET_SLOTS 8u

struct hash_table;

struct hash_config {
	const char *name; /* for log lines; used during hash_create only; NULL is fine */
	uint32_t capacity; /* records, [1, HASH_CAPACITY_MAX] */
	uint32_t record_size; /* bytes, a multiple of 64 in [64, 65536] */
	void *records; /* hash_records_bytes() zeroed bytes, aligned to 64; stays the caller's */
	int socket; /* NUMA node of the owning lcore, or SOCKET_ID_ANY (-1) */
	uint64_t seed; /* of the mixing, any number; keep it secret against chosen keys */
	uint32_t buckets; /* 0: enough for capacity, see Sizing; else [2, HASH_BUCKETS_MAX] */
};

/*
 * The head of every record. The table writes these fields in hash_insert and hash_delete; the user
 * only reads them. user: ro, table: rw
 */
struct hash_record {
	uint64_t key;
	uint32_t bucket; /* where it is listed */
	uint8_t slot; /* [0, HASH_BUCKET_SLOTS) in the bucket */
	uint8_t live; /* 1 between hash_insert and hash_delete */
	uint16_t pad;
};

static_assert(sizeof(struct hash_record) == 16, "a record's head is 16 bytes");

/*
 * A lookup in progress, filled by hash_begin. It lives in a thread's scratch across segments. It
 * holds numbers, not pointers, so it can't dangle.
 */
struct hash_probe {
	uint64_t key;
	uint32_t primary; /* bucket */
	uint32_t secondary; /* bucket, never the primary */
	uint32_t candidate; /* record number that hash_find saw, or HASH_NO_RECORD */
	uint16_t tag;
	uint16_t pad;
};

static_assert(sizeof(struct hash_probe) == 24, "a probe is 24 bytes of a thread's scratch");

#define HASH_NO_RECORD UINT32_MAX

/* Bytes of record memory that the caller must provide. Any thread. */
size_t hash_records_bytes(uint32_t capacity, uint32_t record_size);

/* Bytes that hash_create itself allocates when config.buckets is 0. Any thread. */
size_t hash_table_bytes(uint32_t capacity);

/*
 * Make an empty table. The configuration is copied. config->records must outlive the table, which
 * reads and writes only the struct hash_record at the head of inserted records.
 *
 * Memory comes from the DPDK heap of config->socket, or from the C library (aligned_alloc) when
 * there is no EAL or its heap has no room. Any thread; the table then belongs to its owner. Returns
 * NULL with rte_errno EINVAL (a number out of range, records NULL or not aligned) or ENOMEM; one
 * log line says which. Slow.
 */
struct hash_table *hash_create(const struct hash_config *config);

/*
 * Free the table, but not the records' memory. NULL is fine. Any thread, when the owner no longer
 * uses the table.
 */
void hash_destroy(struct hash_table *table);

/*
 * Insert the probe's key. It must be absent: a hash_find, hash_confirm, hash_peek or hash_lookup of
 * this segment has missed it. (With two records of one key, one would be hidden.) Takes the record
 * freed last, which is still in the cache; sets key, live and REF, and the probe's candidate. The
 * user's fields are as they were when the record was freed, or zero if it was never used.
 *
 * *record: the record, for the user to fill its own fields. Unchanged on error. Returns 0; -ENOMEM:
 * all `capacity` records are live; -ENOSPC: both buckets are full (practically never, see Sizing).
 * Cost: two bucket lines and a record line, written; a call; no wait if hash_find has run.
 */
int hash_insert(struct hash_table *table, struct hash_probe *probe, struct hash_record **record);

/*
 * Delete a record; hash_insert takes its memory next. The user's fields are left as they are. Does
 * nothing if the record is not live. Cost: a bucket line and a record line, written; no search,
 * because the record knows its place.
 */
void hash_delete(struct hash_table *table, struct hash_record *record);

/* Live records. Any thread; other threads than the owner may see a slightly old number. */
uint32_t hash_count(const struct hash_table *table);

/* Records that can live at once: config.capacity. Any thread. */
uint32_t hash_capacity(const struct hash_table *table);

/* Buckets: config.buckets, or the number computed from the capacity. Any thread. */
uint32_t hash_buckets(const struct hash_table *table);

#endif
