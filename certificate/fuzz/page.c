/*
 * page.c
 *		Fuzz the page reader of parallel_temp's scans: any 8 kB as a page of a table.
 *		It is refused, or the tuples that are said to be visible lie within the page.
 *		Nothing is written to it.
 */
#include "stubs.h"

#include "buffers/visibility.c"

/* Some transactions: the first byte of their ids says what became of them. */
bool
TransactionIdIsCurrentTransactionId(TransactionId xid)
{
	return xid % 4 == 0;
}

bool
XidInMVCCSnapshot(TransactionId xid, Snapshot snapshot)
{
	return xid % 4 == 1;
}

bool
TransactionIdDidCommit(TransactionId xid)
{
	return xid % 4 == 2;
}

CommandId
HeapTupleHeaderGetCmin(HeapTupleHeader tuple)
{
	return HeapTupleHeaderGetRawCommandId(tuple);
}

CommandId
HeapTupleHeaderGetCmax(HeapTupleHeader tuple)
{
	return HeapTupleHeaderGetRawCommandId(tuple);
}

TransactionId
HeapTupleGetUpdateXid(HeapTupleHeader tuple)
{
	return HeapTupleHeaderGetRawXmax(tuple) + 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static SnapshotData snapshot = {.snapshot_type = SNAPSHOT_MVCC,.curcid = 3};
	char	   *page = palloc0(BLCKSZ);
	OffsetNumber *visible = palloc(MaxHeapTuplesPerPage * sizeof(OffsetNumber));
	VisibilityMemo memo = {0};
	char	   *copy = palloc(BLCKSZ);
	uint8		note = 0;

	/* the front of the page holds header and line pointers, the back the tuples */
	memcpy(page, data, Min(size / 2, BLCKSZ));
	if (size > size / 2)
		memcpy(page + BLCKSZ - Min(size - size / 2, BLCKSZ / 2), data + size / 2, Min(size - size / 2, BLCKSZ / 2));
	memcpy(copy, page, BLCKSZ);
	if (setjmp(fuzz_error) == 0)
	{
		int			n = pt_visible_tuples(&memo, (Page) page, &snapshot, visible, &note);

		MUST(n >= -1 && n <= (int) MaxHeapTuplesPerPage);
		for (int i = 0; i < n; i++)
		{
			ItemId		id = PageGetItemId((Page) page, visible[i]);

			MUST(i == 0 || visible[i] > visible[i - 1]);
			MUST(ItemIdGetOffset(id) + ItemIdGetLength(id) <= BLCKSZ && ItemIdGetLength(id) >= SizeofHeapTupleHeader);
		}
	}
	MUST(memcmp(copy, page, BLCKSZ) == 0);
	fuzz_free_all();
	return 0;
}
