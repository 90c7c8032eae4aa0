/*-------------------------------------------------------------------------
 *
 * cell.c
 *	  The page with the top of the stack, where other processes can read it.
 *
 * Wrappers read and write light_stack.top in each call.  It is a variable of the
 * library at a fixed distance from its code, and should stay one: reached through a
 * pointer it would take three instructions more.  So the page that contains it
 * is replaced: a sampled process maps its page of the memory that all processes share
 * over it.  Accesses cost the same as before.
 *
 * The memory is a file without a name (memfd_create(2)) of a page for each process
 * that the server may have, made by the postmaster.  Its children inherit the
 * descriptor and a mapping of all of it.  Unlike a part of the server's shared memory
 * it can be mapped a second time even if that consists of huge pages.
 *
 * Counted on 15 with the profile on, with and without the sampler (lab/run instructions
 * --ways "profile and samples,profile alone"): a join with groups over 200,000 rows, all of
 * its calls recorded, 483.2 million instructions with both; a lookup in PL/pgSQL 28,753
 * instead of 28,675; an unmeasured one 25,859 instead of 25,813; a statement of pgbench -S
 * -M prepared, with its commit, 48,634 instead of 48,530.  make bench-store measures the
 * sampler's rounds.
 *
 * If there is no such file, or it cannot be mapped over the variable's page, a process
 * still records its statements in its page, but not which
 * node runs.  That is logged once.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "measure/measure.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/proc.h"

LightCell  *light_cell = &light_stack.cell;
bool		light_sampled = false;

/* State that all cells share, in a page before the first one. */
typedef struct LightCellsHead
{
	pg_atomic_uint64 unmapped;	/* processes whose nodes are not seen */
} LightCellsHead;

StaticAssertDecl(sizeof(LightCellsHead) <= LIGHT_CELL_SIZE, "the head has a page");

static char *memory = NULL;
static int	file = -1;
static int	ncells = 0;

static LightCellsHead *
head(void)
{
	return (LightCellsHead *) memory;
}

static off_t
offset_of(int procno)
{
	return (off_t) (procno + 1) * LIGHT_CELL_SIZE;
}

/* Cells, one for each PGPROC; 0 if there is no memory for them. */
int
light_cells(void)
{
	return ncells;
}

LightCell *
light_cell_of(int procno)
{
	return (LightCell *) (memory + offset_of(procno));
}

/* Processes that could not map their cell, since the server was started. */
int64
light_cells_unmapped(void)
{
	return memory == NULL ? 0 : (int64) pg_atomic_read_u64(&head()->unmapped);
}

/* The postmaster makes the memory, and clears it when it starts all over after a crash. */
void
light_cells_startup(void)
{
	Size		size = (Size) offset_of(ProcGlobal->allProcCount);

	if (IsUnderPostmaster)
		return;
	if (memory == NULL)
	{
		void	   *mapped = MAP_FAILED;

#ifdef MFD_CLOEXEC
		if (sysconf(_SC_PAGESIZE) == LIGHT_CELL_SIZE)
			file = memfd_create("light_explain", MFD_CLOEXEC);
		if (file >= 0 && ftruncate(file, size) == 0)
			mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (mapped == MAP_FAILED && file >= 0)
		{
			close(file);
			file = -1;
		}
#endif
		if (mapped == MAP_FAILED)
			mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (mapped == MAP_FAILED)
		{
			ereport(LOG,
					(errmsg("light_explain has no memory for samples: %m")));
			return;
		}
		memory = mapped;
		ncells = ProcGlobal->allProcCount;
	}
	else
		memset(memory, 0, size);
	pg_atomic_init_u64(&head()->unmapped, 0);
}

/* The process ends. */
static void
give_back(int code, Datum arg)
{
	light_cell->pid = 0;
}

/*
 * Map the cell over the page of the stack.  The page that was there has the same contents.
 */
static bool
map_over(LightCell *cell, int procno)
{
	if (file < 0)
		return false;
	return mmap(&light_stack, LIGHT_CELL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, offset_of(procno)) != MAP_FAILED;
}

/* A process shows what it does from now on. */
void
light_cell_take(void)
{
	static bool tried = false;
	LightCell  *cell;
	int			procno;

	/* once, and not in a server of one process */
	if (tried)
		return;
	tried = true;
	light_cell->pid = MyProcPid;
	if (memory == NULL || MyProc == NULL || !IsUnderPostmaster)
		return;
	procno = MyProc - ProcGlobal->allProcs;
	if (procno < 0 || procno >= ncells)
		return;
	cell = light_cell_of(procno);

	/* what the sampler asked the process before for stays */
	cell->changes++;
	pg_write_barrier();
	cell->top = light_stack.top;
	cell->commits = light_stack.cell.commits;
	cell->depth = light_stack.cell.depth;
	cell->node = light_stack.cell.node;
	memcpy(cell->doing, light_stack.cell.doing, sizeof(cell->doing));
	cell->parallel = light_stack.cell.parallel;
	cell->records = light_stack.cell.records;
	cell->nrecords = light_stack.cell.nrecords;
	memcpy((void *) cell->node_ids, (void *) light_stack.cell.node_ids, sizeof(cell->node_ids));
	cell->mapped = map_over(cell, procno);
	cell->pid = MyProcPid;
	pg_write_barrier();
	cell->changes++;
	light_cell = cell;
	on_shmem_exit(give_back, (Datum) 0);

	if (!cell->mapped && pg_atomic_fetch_add_u64(&head()->unmapped, 1) == 0)
		ereport(LOG,
				(errmsg("samples of light_explain do not show plan nodes"),
				 errdetail("The memory page of a process cannot be mapped from shared memory.")));
}
