/* SPDX-License-Identifier: GPL-2.0 */
/*
 * file_budget.c: which files are read: none twice that had nothing to hook, and so many of one owner.
 */
#include "zernel.h"
#include <sys/random.h>
#include <sys/stat.h>

#define FILES_PER_SECOND 8                  /* of one owner, that are read for the first time */
#define OWNER_PERCENT    3                  /* of a core, for files of one owner, in the long run */
#define SAVED_NS         (20 * ZN_NS_PER_S) /* of that share, at most, for many files at one time */
#define DEBT_NS          (30 * ZN_NS_PER_S) /* that one who took more waits, at most */

/* With the seed nobody can make a file that agrees with another one. */
static uint64_t fingerprint_of(const struct zn_refused_files *r, const struct stat *st)
{
	uint64_t hash = zn_file_fingerprint(r->seed, st);

	return hash ? hash : 1;
}

static bool has_print(const struct zn_refused_files *r, uint64_t print)
{
	const uint64_t *set = r->print[print & (ZN_REFUSED_SETS - 1)];

	for (int i = 0; i < ZN_REFUSED_WAYS; i++)
		if (set[i] == print)
			return true;
	return false;
}

void zn_refused_open(struct zn_refused_files *r)
{
	if (getrandom(&r->seed, sizeof(r->seed), 0) < 0)
		r->seed = zn_now_ns();
}

bool zn_refused_has(const struct zn_refused_files *r, const struct stat *st)
{
	return has_print(r, fingerprint_of(r, st));
}

void zn_refused_add(struct zn_refused_files *r, const struct stat *st)
{
	uint64_t print = fingerprint_of(r, st);

	if (!has_print(r, print))
		r->print[print & (ZN_REFUSED_SETS - 1)][r->next++ % ZN_REFUSED_WAYS] = print;
}

static struct zn_file_account *account_of(struct zn_file_budget *f, uint32_t owner)
{
	struct zn_file_account *b = &f->account[owner * 2654435761u >> 16 & (ZN_FILE_ACCOUNTS - 1)];

	if (b->owner != owner)
		*b = (struct zn_file_account){.owner = owner, .free_ns = b->free_ns};
	return b;
}

bool zn_file_budget_left(struct zn_file_budget *f, uint32_t owner)
{
	return owner == ZN_OWNER_ROOT || account_of(f, owner)->free_ns <= zn_now_ns();
}

void zn_file_budget_charge(struct zn_file_budget *f, uint32_t owner, uint64_t since_cpu_ns)
{
	struct zn_file_account *b = account_of(f, owner);
	uint64_t now_ns = zn_now_ns(), least_ns = now_ns > SAVED_NS ? now_ns - SAVED_NS : 0;

	b->free_ns = b->free_ns > least_ns ? b->free_ns : least_ns;
	b->free_ns += (zn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - since_cpu_ns) * 100 / OWNER_PERCENT;
	/* Others may have made it long: it takes a look at all memory areas of the node. */
	if (b->free_ns > now_ns + DEBT_NS)
		b->free_ns = now_ns + DEBT_NS;
}

bool zn_file_budget_take(struct zn_file_budget *f, uint32_t owner)
{
	struct zn_file_account *b = account_of(f, owner);
	uint64_t second = zn_now_ns() / ZN_NS_PER_S;

	if (b->second != second)
		b->files = 0;
	b->second = second;
	if (owner == ZN_OWNER_ROOT || (zn_file_budget_left(f, owner) && b->files++ < FILES_PER_SECOND))
		return true;
	f->again = true;
	return false;
}
