/*
 * stubs.h
 *		The functions of a server that code of the extensions calls, for fuzzing it
 *		outside of one: memory from malloc, so that the sanitizer sees every byte beyond,
 *		which is freed when an input has been tried; and errors that jump back to
 *		the harness, which may check their SQLSTATE.
 */
#ifndef FUZZ_STUBS_H
#define FUZZ_STUBS_H

#include "postgres.h"

#include <setjmp.h>

#include "utils/memutils.h"

#undef fprintf

static jmp_buf fuzz_error;
static int	fuzz_sqlstate;
static int	fuzz_level;			/* of the last report: below ERROR it ends nothing */
static struct
{
	void	  **blocks;
	int			used;
	int			size;
}			fuzz_memory;

MemoryContext CurrentMemoryContext = NULL;
MemoryContext TopMemoryContext = NULL;
int			check_stack_depth_calls;

static void *
fuzz_alloc(Size size)
{
	void	   *block = malloc(size);

	if (fuzz_memory.used == fuzz_memory.size)
	{
		fuzz_memory.size = fuzz_memory.size ? 2 * fuzz_memory.size : 64;
		fuzz_memory.blocks = realloc(fuzz_memory.blocks, fuzz_memory.size * sizeof(void *));
	}
	return fuzz_memory.blocks[fuzz_memory.used++] = block;
}

static void
fuzz_free_all(void)
{
	while (fuzz_memory.used > 0)
		free(fuzz_memory.blocks[--fuzz_memory.used]);
}

void *
palloc(Size size)
{
	return fuzz_alloc(size);
}

void *
palloc0(Size size)
{
	return memset(fuzz_alloc(size), 0, size);
}

void *
palloc_extended(Size size, int flags)
{
	return fuzz_alloc(size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return palloc0(size);
}

void
pfree(void *block)
{
	for (int i = fuzz_memory.used - 1; i >= 0; i--)
	{
		if (fuzz_memory.blocks[i] == block)
		{
			fuzz_memory.blocks[i] = fuzz_memory.blocks[--fuzz_memory.used];
			free(block);
			return;
		}
	}
	abort();					/* released twice, or never acquired */
}

void
pg_qsort(void *base, size_t n, size_t size, int (*compare) (const void *, const void *))
{
	(qsort) (base, n, size, compare);
}

void
check_stack_depth(void)
{
	check_stack_depth_calls++;
}

bool
errstart(int elevel, const char *domain)
{
	fuzz_level = elevel;
	if (elevel >= ERROR)
		fuzz_sqlstate = ERRCODE_INTERNAL_ERROR;
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	if (fuzz_level >= ERROR)
		longjmp(fuzz_error, 1);
}

int
errcode(int sqlerrcode)
{
	return fuzz_sqlstate = sqlerrcode;
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

int
errdetail(const char *fmt,...)
{
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

/* The input must not be distinguishable from a valid one. */
#define MUST(condition) \
	do { if (!(condition)) { fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); abort(); } } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif							/* FUZZ_STUBS_H */
