/*
 * usage.c
 *		Fuzz the record arithmetic of light_explain: plan nodes call one another, from
 *		ever other callers, and use buffers.  Core's counters at the end must agree
 *		with a simple model: each block counts for all nodes that were
 *		running when it was used.
 */
#include "stubs.h"

#include "measure/usage.c"

#define NODES 12

LightStack	light_stack;
LightUsage	light_seen;
LightRecord light_bottom;

void
light_sync(LightRecord *record)
{
}

int64
light_read_clock(LightClock clock, bool returning)
{
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	LightBooks	books = {0};
	LightRecord *records = aligned_alloc(64, NODES * sizeof(LightRecord));
	LightRecord *stack[NODES];
	int			top = 0;
	int64		expected[NODES] = {0};
	int64		total[NODES] = {0};

	memset(records, 0, NODES * sizeof(LightRecord));
	books.records = records;
	books.nrecords = NODES;
	books.usage = true;
	records[0].books = &books;
	for (int i = 1; i < NODES; i++)
	{
		records[i].books = &books;
		InstrSetNeeds_compat(&records[i].core, INSTRUMENT_BUFFERS | INSTRUMENT_WAL | INSTRUMENT_TIMER);
	}
	stack[0] = &records[0];
	for (size_t i = 0; i < size; i++)
	{
		int			n = data[i] >> 4;

		if (data[i] % 4 == 0 && n < NODES && &records[n] > stack[top])
		{
			/* a plan has no cycles: who is called comes later */
			if (records[n].caller != stack[top])
				light_change_caller(&records[n], stack[top]);
			stack[++top] = &records[n];
		}
		else if (data[i] % 4 == 1 && top > 0)
			top--;
		else
		{
			stack[top]->self.buffers.shared_blks_hit += n;
			stack[top]->self.wal.wal_records += 2 * n;
			for (int k = 0; k <= top; k++)
			{
				expected[stack[k] - records] += n;
				stack[k]->total += n;
				total[stack[k] - records] += n;
			}
		}
	}
	light_settle_usage(&books);
	for (int i = 1; i < NODES; i++)
	{
		MUST(InstrBuffers_compat(&records[i].core)->shared_blks_hit == expected[i]);
		MUST(InstrWal_compat(&records[i].core)->wal_records == 2 * expected[i]);
		MUST(records[i].total == total[i]);
	}
	free(records);
	fuzz_free_all();
	return 0;
}
