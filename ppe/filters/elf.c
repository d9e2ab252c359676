/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A filter's file: finding its code, and what is checked before DPDK's verifier sees it.
 *
 * DPDK's own reader, rte_bpf_elf_load(), trusts the file's tables: a truncated or 32-bit file ends
 * the process. A filter needs little of ELF, since it has no external symbols.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "ppe/filters/filters.h"

/* Instructions that the verifier may follow, over all paths: some tenths of a second. */
#define STEPS_MAX 500000

/* Is [offset, offset + length) in the file, and aligned? */
static bool
is_inside(uint64_t offset, uint64_t length, size_t bytes, size_t align)
{
	return offset <= bytes && length <= bytes - offset && offset % align == 0;
}

static const Elf64_Shdr *
section_at(const uint8_t *elf, const Elf64_Ehdr *header, unsigned int i)
{
	return (const Elf64_Shdr *)(const void *)(elf + header->e_shoff) + i;
}

static const char *
check_header(const Elf64_Ehdr *header, size_t bytes)
{
	const unsigned char order =
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

	if (bytes < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return "it is no ELF file";
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_BPF ||
		header->e_type != ET_REL)
		return "it is no object file for eBPF (clang --target=bpf -c)";
	if (header->e_ident[EI_DATA] != order)
		return "it has the other byte order";
	if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum ||
		!is_inside(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), bytes,
			sizeof(uint64_t)))
		return "it is damaged: its list of sections is not in the file";
	return NULL;
}

const char *
ppe_filter_code(const void *elf, size_t bytes, const char *section, const struct ebpf_insn **code,
	unsigned int *nb_code)
{
	const Elf64_Ehdr *header = elf;
	const Elf64_Shdr *names, *s;
	const char *why = check_header(header, bytes);
	unsigned int found = 0;

	if (why != NULL)
		return why;
	names = section_at(elf, header, header->e_shstrndx);
	if (!is_inside(names->sh_offset, names->sh_size, bytes, 1))
		return "it is damaged: the names of its sections are not in the file";
	for (unsigned int i = 1; i < header->e_shnum && found == 0; i++) {
		s = section_at(elf, header, i);
		if (s->sh_type == SHT_PROGBITS && (s->sh_flags & SHF_EXECINSTR) != 0 &&
			s->sh_name < names->sh_size &&
			names->sh_size - s->sh_name > strlen(section) &&
			strcmp((const char *)elf + names->sh_offset + s->sh_name, section) == 0)
			found = i;
	}
	if (found == 0)
		return "it has no code in this section";
	for (unsigned int i = 1; i < header->e_shnum; i++) {
		s = section_at(elf, header, i);
		if ((s->sh_type == SHT_REL || s->sh_type == SHT_RELA) && s->sh_info == found &&
			s->sh_size > 0)
			return "it uses a function or variable outside of the filter, which the "
			       "switch does not have: make functions inline, and keep data in "
			       "cells";
	}
	s = section_at(elf, header, found);
	if (!is_inside(s->sh_offset, s->sh_size, bytes, sizeof(struct ebpf_insn)) ||
		s->sh_size % sizeof(struct ebpf_insn) != 0)
		return "it is damaged: its code is not in the file";
	*code = (const struct ebpf_insn *)(const void *)((const uint8_t *)elf + s->sh_offset);
	*nb_code =
		(unsigned int)RTE_MIN(s->sh_size / sizeof(struct ebpf_insn), (uint64_t)UINT32_MAX);
	return NULL;
}

/* What is wrong with an instruction on its own, as far as DPDK 22.11 does not see it: its compiler
 * for x86 writes wrong code for such shifts. */
static const char *
check_shift(const struct ebpf_insn *i)
{
	const uint8_t class = BPF_CLASS(i->code), operation = BPF_OP(i->code);
	const bool is_shift =
		operation == BPF_LSH || operation == BPF_RSH || operation == EBPF_ARSH;

	if ((class == BPF_ALU || class == EBPF_ALU64) && is_shift && BPF_SRC(i->code) == BPF_K &&
		(i->imm < 0 || i->imm > (class == BPF_ALU ? 31 : 63)))
		return "it shifts by more bits than there are";
	return NULL;
}

struct walk {
	const struct ebpf_insn *code;
	unsigned int nb_code;
	const char *wrong; /* NULL: nothing yet */
	unsigned int at; /* there */
	uint32_t *steps; /* by instruction: 0 unknown, OPEN, or steps of all paths from it */
};

#define OPEN UINT32_MAX

static bool
is_wide(const struct ebpf_insn *i)
{
	return i->code == (BPF_LD | BPF_IMM | EBPF_DW);
}

/* The steps of all paths from instruction `at` on, at most STEPS_MAX. from: the one before. */
static uint32_t
steps_from(struct walk *walk, int64_t at, unsigned int from)
{
	const struct ebpf_insn *i;
	uint8_t class, operation;
	uint32_t steps = 1;

	if (walk->wrong == NULL && (at < 0 || at >= walk->nb_code)) {
		walk->wrong = "it leaves the code";
		walk->at = from;
	}
	if (walk->wrong != NULL)
		return 1;
	if (walk->steps[at] == OPEN) {
		walk->wrong = "it has a loop: unroll it, or leave it out";
		walk->at = from;
	}
	if (walk->steps[at] != 0)
		return walk->steps[at];
	walk->steps[at] = OPEN;
	i = &walk->code[at];
	class = BPF_CLASS(i->code);
	operation = BPF_OP(i->code);
	if (class == BPF_JMP && operation != EBPF_CALL && operation != EBPF_EXIT)
		steps += steps_from(walk, at + 1 + i->off, (unsigned int)at);
	if (class != BPF_JMP || (operation != BPF_JA && operation != EBPF_EXIT))
		steps += steps_from(walk, at + (is_wide(i) ? 2 : 1), (unsigned int)at);
	return walk->steps[at] = RTE_MIN(steps, (uint32_t)STEPS_MAX);
}

const char *
ppe_filter_check(const struct ebpf_insn *code, unsigned int nb_code, unsigned int *at)
{
	struct walk walk = {.code = code, .nb_code = nb_code};
	uint32_t steps;

	*at = 0;
	if (nb_code == 0 || nb_code > PPE_FILTER_CODE_MAX)
		return "it has no instructions, or more than 4096";
	for (unsigned int i = 0; i < nb_code && walk.wrong == NULL; i++) {
		walk.wrong = check_shift(&code[i]);
		walk.at = i;
	}
	walk.steps = calloc(nb_code, sizeof(walk.steps[0]));
	if (walk.steps == NULL)
		return "there is too little memory to check it";
	steps = steps_from(&walk, 0, 0);
	free(walk.steps);
	if (walk.wrong != NULL)
		*at = walk.at;
	else if (steps == STEPS_MAX)
		return "too many branches follow each other: DPDK's verifier would take too long "
		       "for all paths";
	return walk.wrong;
}
