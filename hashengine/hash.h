/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash engine: finds the record of a 64-bit key. The room's public page.
 *
 * Trio has a hash block beside its packet-processing engines: microcode sends it a key as an
 * external transaction, sleeps, and wakes with the record; each access sets the record's REF
 * flag, and timer threads scan the table and act on records whose flag stayed clear. This room is
 * that block. The pages, in reading order:
 *
 *   hash.h       this page: life cycle, records, insert, delete, and the design argument
 *   hash_fast.h  the split lookup, inline: hash_begin, hash_find, hash_confirm or hash_peek
 *   aging.h      the scans: by REF, or of everything
 *   deadline.h   times at which records are to be looked at, where REF would be read too often
 *   hash_priv.h  the layouts; only hash_fast.h, this room and its white-box tests include it
 *
 * WHAT IS WHERE. The table finds; the caller stores. A record begins with struct hash_record
 * (16 bytes, this room's) and goes on with whatever fields its user wants. The memory of the
 * records is the caller's (DataMemory); the table allocates only its buckets and a stack of free
 * record numbers, once, in hash_create. Nothing is ever resized or moved: a record's address is
 * constant while it lives.
 *
 *   key -> mix -> primary, secondary bucket, tag        (hash_begin: both lines prefetched)
 *       -> bucket line: 8 tags | 8 record numbers | used | REF      (hash_find: record prefetched)
 *       -> record line: key, bucket, slot, live | the user's fields (hash_confirm: REF set)
 *
 * HOW IT IS USED. A segment of microcode ends where it would wait for memory:
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
 *   - between hash_begin and hash_find: nothing that matters, the probe holds only numbers that
 *     follow from the key;
 *   - between hash_find and hash_confirm: another thread may delete the candidate, reuse its
 *     memory for another key, delete and insert the same key elsewhere, or insert the key that
 *     only seemed to be there. hash_confirm therefore believes nothing but the record itself
 *     (live, and of this key), and otherwise searches both buckets afresh. What it returns is the
 *     truth of its own segment;
 *   - after a miss: another thread may insert the key as soon as the segment ends. So hash_insert
 *     must run in the very segment of the hash_find, hash_confirm or hash_lookup that missed. To
 *     insert in a later segment (a buffer had to be fetched first, say), ask again in that one
 *     with hash_confirm: the probe stays good for as long as its key is wanted;
 *   - a record pointer means its key until its segment ends, or until the record is deleted. Carry
 *     the probe over a segment's end; or the pointer and the key, and believe it again only if
 *     record->live and record->key say so (the memory stays a record, it can't dangle).
 *
 * DESIGN. Keys are block numbers of a job, which count up, and MAC addresses, which come in runs of
 * a vendor's prefix; values are cache lines. Nearly all accesses are hits (a block of n sources is
 * inserted once and found n - 1 times) and at lookup the memory latency is all that counts.
 *
 *   Bucket = one cache line = 8 slots of a 16-bit tag and a 32-bit record number, an 8-bit mask of
 *   slots used, an 8-bit mask of REF flags. One load miss answers "where", one SSE2 compare scans
 *   it. Tags are compared before records so that a record's line is fetched only when it is very
 *   probably the right one: a miss compares with the 6.4 keys of two buckets at 40 %, so one in
 *   10000 misses touches a wrong record. 8-bit tags would leave room for 12 slots, but then one
 *   miss in 27 would; 10 slots of 16-bit tags would fit, but need a second compare.
 *   REF lies in the bucket, so that an aging scan reads 20 bytes per record, in order, where it
 *   would read a line of each record, and takes no record that is in use from the caches.
 *
 *   Two choices, no moves. A key may lie in either of two buckets; an insert takes the emptier one
 *   (equal: the primary). That is the power of two choices (Azar, Broder, Karlin, Upfal, "Balanced
 *   allocations", SIAM J. Computing 1999): the chance that a bucket overflows falls doubly
 *   exponentially with its size. Cuckoo moves would carry the load from 0.7 to 0.95, but make an
 *   insert's time uneven and write more lines; beside records of 64 bytes and more, 20 bytes
 *   of buckets for each are cheaper than that.
 *   As nothing moves, the secondary bucket need not follow from the tag (as it must in a cuckoo
 *   filter): both come from independent bits of the mixed key, as the theory wants.
 *
 *   Mixing: key xor (mixed) seed, then the finaliser of splitmix64 (Stafford's Mix13), a bijection
 *   in which every input bit flips every output bit with probability near one half. The upper bits
 *   of each 32-bit half choose a bucket by multiply and shift (Lemire's fast range: any number of
 *   buckets, no division), the two lowest bytes of the halves, unused by that, make the tag.
 *   It is two multiplications, 10 cycles or so that the other threads fill. CRC32 instructions
 *   would be as fast, but are linear: two with the same polynomial differ by a constant for keys
 *   of one length, so that their two "choices" would be one, and keys that share a bucket would do
 *   so for every seed.
 *   A secret random seed keeps a sender who picks its own keys (MAC addresses) from filling one
 *   bucket; a fixed one makes runs repeat exactly.
 *
 *   Both bucket lines are prefetched by hash_begin. A hit in the primary does not need the second
 *   (it is not read then), and 63 % of the records are there at capacity; but the others, every
 *   miss and every insert do need it, and to fetch it only then would cost a whole memory latency
 *   that no segment hides, or one more segment for everyone. Two prefetches overlap, and cost a
 *   line fill buffer and bandwidth: in L2, where a block table belongs, next to nothing.
 *
 *   What the split brings, measured on one core of a Sapphire Rapids (2 MiB L2), random hits on
 *   64-byte records: hash_lookup in a row (the CPU overlaps some), and the steps by 16 threads:
 *
 *       records    1024   32768   1048576
 *       at once      11      15        44   ns per hit
 *       split         9      10        21   ns per hit
 *
 *   Sizing. Buckets = capacity / 3.2, so a table at capacity has 40 % of its slots in use (20 B of
 *   buckets and 4 B of free stack per record). Measured with `buckets` set by hand, 64 seeds, by
 *   tests/unit/test_hash_occupancy.c, which prints it again: share of slots in use at the first
 *   failed insert, sequential keys (MAC addresses and random keys: within 0.05 of these):
 *
 *       buckets      4     16     64    256   1024   4096  16384
 *       minimum   0.88   0.80   0.76   0.72   0.74   0.70   0.70
 *       median    0.97   0.91   0.86   0.81   0.79   0.76   0.75
 *
 *   That is for a table that only fills. One that has been at capacity for long, deleting a random
 *   record for each insert, is less even. The fluid limit of that process (s_k: share of buckets
 *   with k or more records; lambda: records per bucket; in equilibrium, Mitzenmacher 1996,
 *   lambda (s_{k-1}^2 - s_k^2) = k (s_k - s_{k+1})) gives s_8^2 as the chance that an insert finds
 *   both buckets full: 2e-20 at 40 % in use, 7e-11 at 50 %, 6e-6 at 60 %. At 40 % and ten million
 *   inserts per second that is one in more than a hundred thousand years. It is still an error that
 *   the caller sees (-ENOSPC), never a wrong answer. The same test computes these numbers, and
 *   compares the limit with a table where it is large enough to be counted.
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
	void *records; /* hash_records_bytes() of memory, aligned to 64, zeroed; stays the caller's */
	int socket; /* NUMA node of the owning lcore, or SOCKET_ID_ANY (-1) */
	uint64_t seed; /* of the mixing, any number; a secret one resists chosen keys */
	uint32_t buckets; /* 0: enough for capacity, see Sizing; else [2, HASH_BUCKETS_MAX] */
};

/*
 * What every record begins with. The table writes these fields in hash_insert and hash_delete;
 * the user reads them and never writes them. user: ro, table: rw
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
 * A lookup under way. It lives in a thread's scratch over the ends of segments, is filled by
 * hash_begin and holds numbers only, never pointers: it can't dangle.
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
 * Make an empty table. The configuration is copied; config->records must outlive the table, which
 * reads and writes only the struct hash_record at the head of each record, and only of records
 * that have been inserted.
 *
 * Memory: from the DPDK heap of config->socket, and from the C library (aligned_alloc) when there
 * is no EAL or its heap has no room: so it works without EAL. Any thread; the table is then
 * the owner's. Returns NULL with rte_errno EINVAL (a number out of range, records NULL or not
 * aligned) or ENOMEM; one log line says which. Slow.
 */
struct hash_table *hash_create(const struct hash_config *config);

/*
 * Free the table; the records' memory stays the caller's, as it is. NULL is fine. Any thread, when
 * the owner no longer uses it.
 */
void hash_destroy(struct hash_table *table);

/*
 * Insert the probe's key, which must be absent: a hash_find, hash_confirm, hash_peek or
 * hash_lookup of this same segment has missed it (of two records of a key one would be hidden).
 * Takes the record freed last, so that a hot one is reused first; sets key, live and REF, and the
 * probe's candidate. The user's fields are as they were when the record was freed, zero when it
 * was never used.
 *
 * *record: the record, the table's still: the user fills its own fields. Unchanged on error.
 * Returns 0; -ENOMEM: all `capacity` records are live; -ENOSPC: both buckets are full (see Sizing:
 * practically never). Cost: two bucket lines and a record line, written; a call; no wait
 * if hash_find has run.
 */
int hash_insert(struct hash_table *table, struct hash_probe *probe, struct hash_record **record);

/*
 * Delete a record; its memory is the next that hash_insert takes. The user's fields are left as
 * they are. A record that is not live is left alone. Cost: a bucket line and a
 * record line, written; the record knows its place, so nothing is searched.
 */
void hash_delete(struct hash_table *table, struct hash_record *record);

/* Records live now. Any thread: another than the owner sees a number that was true recently. */
uint32_t hash_count(const struct hash_table *table);

/* Records that can live at once: config.capacity. Any thread. */
uint32_t hash_capacity(const struct hash_table *table);

/* Buckets, config.buckets or what followed from the capacity. Any thread. */
uint32_t hash_buckets(const struct hash_table *table);

#endif
