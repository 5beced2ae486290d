/*
 * unwind.c - rules that lead from a frame to its caller's
 *
 * The rules come from the unwind tables that compilers generate for exceptions.
 * .eh_frame_hdr is a sorted table of functions.  .eh_frame has a small program
 * for each function (FDE), and a common beginning (CIE) for several of them.
 * For each instruction these programs say where the caller's stack pointer
 * (cfa), frame pointer and return address are.  Only the rules for these three
 * are kept; other registers are not needed here.
 *
 * object.c finds the tables of an address.  If there is no .eh_frame_hdr, all
 * of .eh_frame is read, once for each address of the code (stack.c).
 *
 * The rules of a table are trusted, but stack.c checks every address that it
 * reads by a rule.  If no rule can express an entry, the frame counts as the
 * end of the stack.
 *
 * Source: DWARF 4, section 6.4; Linux Standard Base, "Exception Frames".
 */
#include <string.h>

#include "umem/debug/code.h"
#include "umem/debug/object.h"
#include "umem/debug/unwind.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Encoding of a pointer: format in the low bits, base above. */
#define PE_ABS      0x00
#define PE_SIGNED   0x08
#define PE_S4       0x0b
#define PE_PCREL    0x10
#define PE_DATAREL  0x30
#define PE_INDIRECT 0x80
#define PE_OMIT     0xff

/* Bytes that are being read; reads never pass end. */
struct reader {
	const uint8_t *at, *end;
};

static uint64_t
read_fixed(struct reader *t, unsigned n)
{
	uint64_t value = 0;

	umem_assert(n <= sizeof(value) && t->at <= t->end);
	if ((size_t)(t->end - t->at) < n) {
		t->at = t->end;
		return 0;
	}
	memcpy(&value, t->at, n);
	t->at += n;
	return value;
}

/* Reads a number in groups of seven bits, the lowest first. */
static uint64_t
read_leb(struct reader *t, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte = 0;

	while (t->at < t->end) {
		byte = *t->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if ((byte & 0x80) == 0)
			break;
	}
	if (is_signed && shift < 64 && (byte & 0x40) != 0)
		value |= ~(uint64_t)0 << shift;
	return value;
}

static uint64_t
read_uleb(struct reader *t)
{
	return read_leb(t, false);
}

static int64_t
read_sleb(struct reader *t)
{
	return (int64_t)read_leb(t, true);
}

static uint64_t
read_pointer(struct reader *t, uint8_t encoding, uintptr_t data)
{
	static const uint8_t bytes[8] = {8, 0, 2, 4, 8, 8, 8, 8}; /* 0: LEB */
	uintptr_t here = (uintptr_t)t->at;
	unsigned n = bytes[encoding & 7];
	bool is_signed = (encoding & PE_SIGNED) != 0;
	uint64_t value;

	if (n == 0)
		value = read_leb(t, is_signed);
	else
		value = read_fixed(t, n);
	if (is_signed && n != 0)
		value = (uint64_t)((int64_t)(value << (64 - 8 * n)) >>
				   (64 - 8 * n));
	if ((encoding & 0x70) == PE_PCREL)
		value += here;
	else if ((encoding & 0x70) == PE_DATAREL)
		value += data;
	return value;
}

/* Where the caller's value of a register is. */
enum location_kind {
	LOCATION_SAME,
	LOCATION_CFA, /* at cfa + off */
	LOCATION_FP,  /* at fp + off */
	LOCATION_NONE /* undefined: the outermost frame; or not supported */
};

struct location {
	enum location_kind kind;
	int64_t off;
};

/* The state after the instructions of an FDE that have run. */
struct row {
	uint64_t cfa_reg;
	int64_t cfa_off;
	bool cfa_deref; /* the word there is the cfa */
	bool strange;   /* cfa is by an expression that is not supported */
	struct location fp, ra;
};

/* Rows that rules remember inside each other; compilers use one. */
#define REMEMBERED 8

struct program {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool signal;
	uintptr_t pc; /* stop at the first row behind it */
	uintptr_t loc;
	struct row row, first;
	struct row stack[REMEMBERED];
	unsigned nstack;
};

static void
row_set_register(
    struct program *p, uint64_t reg, enum location_kind kind, int64_t off)
{
	if (reg == REG_FP)
		p->row.fp = (struct location){kind, off};
	else if (reg == REG_LINK)
		p->row.ra = (struct location){kind, off};
}

static void
row_restore(struct program *p, uint64_t reg)
{
	if (reg == REG_FP)
		p->row.fp = p->first.fp;
	else if (reg == REG_LINK)
		p->row.ra = p->first.ra;
}

/* Expressions of the forms that compilers generate for realigned stacks. */
#define OP_DEREF 0x06
#define OP_BREG0 0x70

static bool
read_expression(struct reader *t, uint64_t *reg, int64_t *off, bool *deref)
{
	uint64_t n = read_uleb(t);
	struct reader e = {t->at, t->at + n};
	uint8_t op;

	if (n > (size_t)(t->end - t->at)) {
		t->at = t->end;
		return false;
	}
	t->at += n;
	op = (uint8_t)read_fixed(&e, 1);
	if (op < OP_BREG0 || op > OP_BREG0 + 31)
		return false;
	*reg = op - OP_BREG0;
	*off = read_sleb(&e);
	*deref = e.at < e.end && *e.at == OP_DEREF;
	return e.at + *deref == e.end;
}

static void
row_set_by_expression(struct program *p, struct reader *t)
{
	uint64_t reg = read_uleb(t), base;
	int64_t off;
	bool deref;

	if (read_expression(t, &base, &off, &deref) && base == REG_FP && !deref)
		row_set_register(p, reg, LOCATION_FP, off);
	else
		row_set_register(p, reg, LOCATION_NONE, 0);
}

static void
row_set_cfa_by_expression(struct program *p, struct reader *t)
{
	bool deref;

	p->row.strange =
	    !read_expression(t, &p->row.cfa_reg, &p->row.cfa_off, &deref);
	p->row.cfa_deref = !p->row.strange && deref;
}

static void
row_set_cfa(struct program *p, uint64_t reg, int64_t off)
{
	p->row.cfa_reg = reg;
	p->row.cfa_off = off;
	p->row.cfa_deref = p->row.strange = false;
}

/*
 * Runs an instruction.  From 0x40 on, its first byte has an operand in the
 * lower six bits.  Those that no compiler generates for these machines are left
 * out, such as val_offset.
 */
static bool
run_instruction(struct program *p, struct reader *t, uint8_t op)
{
	unsigned kind = op >= 0x40 ? op & 0xc0u : op;
	uint64_t reg;

	switch (kind) {
	case 0x00: /* nop */
	case 0x2d: /* GNU: the return address is signed from here on */
		return true;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		p->loc += read_fixed(t, 1u << (kind - 2)) * p->code_align;
		return true;
	case 0x40: /* advance_loc */
		p->loc += (op & 0x3f) * p->code_align;
		return true;
	case 0x05: /* offset_extended */
	case 0x80: /* offset */
		reg = op < 0x40 ? read_uleb(t) : op & 0x3f;
		row_set_register(p, reg, LOCATION_CFA,
		    (int64_t)read_uleb(t) * p->data_align);
		return true;
	case 0x06: /* restore_extended */
	case 0xc0: /* restore */
		row_restore(p, op < 0x40 ? read_uleb(t) : op & 0x3f);
		return true;
	case 0x07: /* undefined */
		row_set_register(p, read_uleb(t), LOCATION_NONE, 0);
		return true;
	case 0x08: /* same_value */
		row_set_register(p, read_uleb(t), LOCATION_SAME, 0);
		return true;
	case 0x09: /* register */
		row_set_register(p, read_uleb(t), LOCATION_NONE, 0);
		read_uleb(t);
		return true;
	case 0x0a: /* remember_state */
		if (p->nstack == REMEMBERED)
			return false;
		p->stack[p->nstack++] = p->row;
		return true;
	case 0x0b: /* restore_state */
		if (p->nstack == 0)
			return false;
		p->row = p->stack[--p->nstack];
		return true;
	case 0x0c: /* def_cfa */
		reg = read_uleb(t);
		row_set_cfa(p, reg, (int64_t)read_uleb(t));
		return true;
	case 0x0d: /* def_cfa_register */
		row_set_cfa(p, read_uleb(t), p->row.cfa_off);
		return true;
	case 0x0e: /* def_cfa_offset */
		row_set_cfa(p, p->row.cfa_reg, (int64_t)read_uleb(t));
		return true;
	case 0x0f:
		row_set_cfa_by_expression(p, t);
		return true;
	case 0x10:
		row_set_by_expression(p, t);
		return true;
	case 0x11: /* offset_extended_sf */
		reg = read_uleb(t);
		row_set_register(
		    p, reg, LOCATION_CFA, read_sleb(t) * p->data_align);
		return true;
	case 0x13: /* def_cfa_offset_sf */
		row_set_cfa(p, p->row.cfa_reg, read_sleb(t) * p->data_align);
		return true;
	case 0x16: /* val_expression */
		row_set_register(p, read_uleb(t), LOCATION_NONE, 0);
		reg = read_uleb(t);
		t->at += reg < (size_t)(t->end - t->at)
			     ? reg
			     : (size_t)(t->end - t->at);
		return true;
	case 0x2e: /* GNU_args_size */
		read_uleb(t);
		return true;
	default:
		return false;
	}
}

/*
 * Runs the program until the row of p->pc is complete.  Returns false if an
 * instruction is unknown.
 */
static bool
run_program(struct program *p, struct reader t)
{
	while (t.at < t.end && p->loc <= p->pc)
		if (!run_instruction(p, &t, (uint8_t)read_fixed(&t, 1)))
			return false;
	return true;
}

/*
 * Returns a record of .eh_frame, without its length; empty if it ends the list
 * or has an unsupported format.
 */
static struct reader
entry_at(const uint8_t *at)
{
	struct reader t = {at, at + 4};
	uint64_t n = read_fixed(&t, 4);

	if (n == 0 || n == 0xffffffff)
		return (struct reader){at, at};
	return (struct reader){at + 4, at + 4 + n};
}

/* Reads the CIE, which functions of a unit have in common. */
static bool
read_cie(struct program *p, struct reader t)
{
	const char *augmentation;
	uint8_t version;

	read_fixed(&t, 4);
	version = (uint8_t)read_fixed(&t, 1);
	augmentation = (const char *)t.at;
	while (t.at < t.end && *t.at != '\0')
		t.at++;
	read_fixed(&t, 1);
	p->code_align = read_uleb(&t);
	p->data_align = read_sleb(&t);
	if (version == 1)
		read_fixed(&t, 1);
	else
		read_uleb(&t);
	p->encoding = PE_ABS;
	if (*augmentation == 'z') {
		uint64_t n = read_uleb(&t);
		const uint8_t *behind = t.at + n;

		for (const char *a = augmentation + 1; *a != '\0'; a++) {
			if (*a == 'R')
				p->encoding = (uint8_t)read_fixed(&t, 1);
			else if (*a == 'P')
				read_pointer(&t, (uint8_t)read_fixed(&t, 1), 0);
			else if (*a == 'L')
				read_fixed(&t, 1);
			else if (*a == 'S')
				p->signal = true;
		}
		t.at = behind;
	} else if (*augmentation != '\0') {
		return false;
	}
	p->loc = 0;
	if (t.at > t.end || !run_program(p, t))
		return false;
	p->first = p->row;
	return true;
}

/*
 * Reads the row of p->pc.  Returns false if the FDE does not cover it, or has
 * an unsupported format.
 */
static bool
read_fde(struct program *p, const uint8_t *at)
{
	struct reader t = entry_at(at);
	struct reader cie;
	uintptr_t start, bytes;
	uint32_t back;

	if (t.at == t.end)
		return false;
	back = (uint32_t)read_fixed(&t, 4);
	if (back == 0)
		return false;
	cie = entry_at(t.at - 4 - back);
	if (cie.at == cie.end || !read_cie(p, cie))
		return false;
	start = read_pointer(&t, p->encoding, 0);
	bytes = read_pointer(&t, p->encoding & 0x0f, 0);
	if (p->pc - start >= bytes)
		return false;
	/* Every current CIE has an augmentation, so the FDE has one, too. */
	uint64_t n = read_uleb(&t);
	t.at += n;
	p->loc = start;
	return t.at <= t.end && run_program(p, t);
}

/*
 * Searches the table of .eh_frame_hdr for the FDE of pc.  Returns NULL if there
 * is none.
 */
static const uint8_t *
find_fde(const uint8_t *hdr, uintptr_t pc)
{
	struct reader t = {hdr, hdr + 64};
	uint8_t version = (uint8_t)read_fixed(&t, 1);
	uint8_t frame_enc = (uint8_t)read_fixed(&t, 1);
	uint8_t count_enc = (uint8_t)read_fixed(&t, 1);
	uint8_t table_enc = (uint8_t)read_fixed(&t, 1);
	const int32_t *table;
	uint64_t n, lo = 0;

	if (version != 1 || table_enc != (PE_DATAREL | PE_S4) ||
	    count_enc == PE_OMIT)
		return NULL;
	read_pointer(&t, frame_enc, (uintptr_t)hdr);
	n = read_pointer(&t, count_enc, (uintptr_t)hdr);
	table = (const int32_t *)(const void *)t.at;
	if (n == 0 || pc < (uintptr_t)hdr + (intptr_t)table[0])
		return NULL;
	while (n - lo > 1) {
		uint64_t mid = (lo + n) / 2;

		if ((uintptr_t)hdr + (intptr_t)table[2 * mid] <= pc)
			lo = mid;
		else
			n = mid;
	}
	return hdr + table[2 * lo + 1];
}

static bool
fits_int16(int64_t off)
{
	return off > INT16_MIN && off <= INT16_MAX;
}

static struct unwind_rule
rule_from(const struct row *row)
{
	static const struct unwind_rule end = {.kind = UNWIND_END};
	struct unwind_rule rule = {.kind = UNWIND_FRAME,
	    .by_fp = row->cfa_reg == REG_FP,
	    .cfa_off = (int32_t)row->cfa_off,
	    .fp_off = FP_SAME,
	    .ra_off = RA_LINK};

	if (row->strange || row->ra.kind == LOCATION_NONE ||
	    row->ra.kind == LOCATION_FP ||
	    (row->cfa_reg != REG_FP && row->cfa_reg != REG_SP) ||
	    row->cfa_off > 1 << 26 || row->cfa_off < -(1 << 26))
		return end;
	if (row->cfa_deref)
		rule.kind = UNWIND_DEREF;
	if (row->ra.kind == LOCATION_CFA) {
		if (!fits_int16(row->ra.off))
			return end;
		rule.ra_off = (int16_t)row->ra.off;
	}
	/*
	 * Without a rule for the frame pointer, frames that are found by the
	 * stack pointer are still found.
	 */
	if ((row->fp.kind == LOCATION_CFA && !row->cfa_deref) ||
	    (row->fp.kind == LOCATION_FP && row->cfa_deref))
		if (fits_int16(row->fp.off))
			rule.fp_off = (int16_t)row->fp.off;
	return rule;
}

/* Reads the row of p->pc by a search of all records of .eh_frame. */
static bool
search_fde(struct program *p, const uint8_t *at, const uint8_t *end)
{
	struct program empty = *p;

	while (end - at > 4) {
		struct reader t = entry_at(at);

		*p = empty;
		if (t.end > end)
			return false;
		if (t.at != t.end && read_fde(p, at))
			return true;
		at = t.at != t.end ? t.end : at + 4;
	}
	return false;
}

/*
 * Finds the rule in the unwind table of the object that contains pc.  Returns
 * false if there is none.
 */
static bool
rule_by_table(uintptr_t pc, struct unwind_rule *rule)
{
	struct program program = {.pc = pc};
	struct code_object object;
	const uint8_t *fde;

	if (!code_find_object(pc, &object))
		return false;
	if (object.eh_frame != NULL) {
		if (!search_fde(&program, object.eh_frame,
			object.eh_frame + object.eh_frame_bytes))
			return false;
	} else {
		fde = object.eh_frame_hdr == NULL
			  ? NULL
			  : find_fde(object.eh_frame_hdr, pc);
		if (fde == NULL || !read_fde(&program, fde))
			return false;
	}
	if (program.signal)
		rule->kind = UNWIND_SIGNAL;
	else
		*rule = rule_from(&program.row);
	return true;
}

struct unwind_rule
unwind_rule(uintptr_t pc)
{
	struct unwind_rule rule = {.kind = UNWIND_UNKNOWN};

	if (!rule_by_table(pc, &rule) && is_signal_return(pc, os_readable))
		rule.kind = UNWIND_SIGNAL;
	return rule;
}
