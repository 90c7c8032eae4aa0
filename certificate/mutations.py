"""The planted bugs of mutants.py: one line of C each, and the tests that must notice.

`old` and `new` are whole lines without their indentation; `old` must be the line once
in the file, or be the first one behind the line `after`, which must be there once.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    file: str
    what: str  #: the bug
    old: str
    new: str
    tests: tuple[str, ...]  #: run first: sql/NAME, specs/NAME, t/NAME of the extension
    after: str = ""


BYTEA = "appendable_bytea/src/"
TEMP = "parallel_temp/src/"
LIGHT = "light_explain/src/"
RAM = "ram_tablespace/src/"

# Sets of tests that several bugs share, as each is tried once without a bug.
VALUES = ("sql/storage", "sql/tables", "sql/type_functions", "sql/type_write", "sql/rollback")
FORGED = ("sql/forged", "sql/storage", "sql/type_usage")
TYPE = ("sql/type_functions", "sql/type_operators", "sql/type_write")
SESSIONS = ("specs/append", "specs/conflict", "specs/speculative", "specs/reindex", "specs/truncated", "specs/first_chunk")
ROWS = ("sql/fastload_visibility", "sql/fastload_nested", "sql/fastload_same_rows", "sql/fastload_features", "sql/fastload_copy")
READS = ("sql/parallel_shapes", "sql/parallel_plans")
PARALLEL = ("t/010_parallel_reads",)
PRICES = ("t/012_plan_prices",)
TOOLKIT = ("sql/toolkit", "sql/toolkit_errors", "sql/toolkit_counters", "sql/toolkit_transactions", "specs/other_session")
LIGHT_SQL = ("sql/light_explain", "sql/roles")
FIGURES = ("t/001_same_figures", "t/005_own_figures")
PROFILE = ("t/008_profile",)
RIGHTS = ("sql/rights",)
REBOOT = ("t/reboot",)

MUTATIONS = [
    # -- appendable_bytea: reading -----------------------------------------------------
    Mutation(BYTEA + "layout.c", "an edition compared the wrong way: readers pass by the chunks of an edit",
             "if (chunk.edition > ref->edition)", "if (chunk.edition >= ref->edition && ref->edition > 0)", VALUES),
    Mutation(BYTEA + "layout.c", "an edition too new: readers take chunks that a later edit wrote",
             "if (chunk.edition > ref->edition)", "if (chunk.edition > ref->edition + 1)", VALUES),
    Mutation(BYTEA + "layout.c", "the start of a chunk is looked for in the edition before",
             "else if (chunk.edition <= ref->edition && chunk.off + chunk.length > at &&",
             "else if (chunk.edition < ref->edition && chunk.off + chunk.length > at &&", VALUES),
    Mutation(BYTEA + "layout.c", "the checksum at a reference's end is not compared: chunks of another change pass for its own",
             "chunk.crc != ref->crc || chunk.off + chunk.length != ref->stored)", "chunk.off + chunk.length != ref->stored)", FORGED),
    Mutation(BYTEA + "layout.c", "who reads a whole value does not compare the checksum at its end either",
             "(layout->scan_at == ref->stored && chunk.crc != ref->crc))", "false)", FORGED),
    Mutation(BYTEA + "layout.c", "what was verified is not forgotten when a subtransaction fails",
             "if (event == SUBXACT_EVENT_ABORT_SUB)", "if (event == SUBXACT_EVENT_ABORT_SUB && arg != NULL)", VALUES),
    Mutation(BYTEA + "reader.c", "a piece is not cut where its segment ends",
             "n = Min(chunk->off + chunk->length - at, s->length - within);", "n = chunk->off + chunk->length - at;", VALUES),
    Mutation(BYTEA + "layout.c", "a damaged chunk is returned as it is",
             "if (!ab_chunk_intact(&chunk))", "if (chunk.length == 0)", FORGED),
    Mutation(BYTEA + "compact.c", "a row that the condition names no more is compacted",
             "else if (still_named(rel, tid, done->condition))", "else if (tid != NULL)", ("specs/compacting_rows",)),
    Mutation(BYTEA + "compact.c", "a row that was deleted meanwhile is said to be left for a later call",
             "done->skipped += !row_ended(rel, tid);", "done->skipped++;", ("specs/compacting_rows",)),
    Mutation(BYTEA + "batch.c", "pieces of one row are put together the wrong way round",
             "return result ? result : x->number - y->number;", "return result ? result : y->number - x->number;", ("sql/batch",)),
    Mutation(BYTEA + "batch.c", "a row that is not there has a length",
             "nulls[1] = length < 0;", "nulls[1] = false;", ("sql/batch",)),
    Mutation(BYTEA + "layout.c", "a compressed chunk is looked for no further before a byte than a plain one",
             "else if (at > 0 && find_covering(layout, at, reach, &chunk))", "else if (at > 0 && find_covering(layout, at, AB_CHUNK_MAX, &chunk))", ("sql/compact",)),
    Mutation(BYTEA + "layout.c", "the store stays open when a reader is closed",
             "if (layout->store.heap)", "if (layout->store.heap && layout->ref.vid == 0)", VALUES),
    # -- appendable_bytea: chunks ------------------------------------------------------
    Mutation(BYTEA + "chunk.c", "chunks of a transaction that failed count",
             "vacuum_state(scan, &dead_after) == HEAPTUPLE_DEAD)", "vacuum_state(scan, &dead_after) == HEAPTUPLE_DEAD && scan == NULL)", VALUES),
    Mutation(BYTEA + "chunk.c", "two values of a transaction share an id",
             "vid = (int64) (xid << counter_bits(xid)) | ++counter;", "vid = (int64) (xid << counter_bits(xid)) | (++counter & ~1);", VALUES),
    Mutation(BYTEA + "chunk.c", "a chunk of the same command is deleted one command too early",
             "cid = HeapTupleHeaderGetCmin(tuple->t_data) + 1;", "cid = HeapTupleHeaderGetCmin(tuple->t_data);", ("sql/tables", "specs/speculative")),
    Mutation(BYTEA + "chunk.c", "an edit deletes its own chunks with those that it supersedes",
             "(ab_chunk_parse(tuple, &chunk) && chunk.edition < edition))",
             "(ab_chunk_parse(tuple, &chunk) && chunk.edition <= edition))", VALUES),
    Mutation(BYTEA + "chunk.c", "a lock not given back: a buffer's, after looking at a chunk's inserter",
             "LockBuffer(slot->buffer, BUFFER_LOCK_UNLOCK);", "(void) 0;", VALUES),
    Mutation(BYTEA + "chunk.c", "a store is not protected from its session's vacuum any more once a chunk was written",
             "if (before != mark && heap->rd_options)", "if (before && heap->rd_options)", ("t/014_decoding",)),
    # -- appendable_bytea: rows --------------------------------------------------------
    Mutation(BYTEA + "am.c", "a lock not held: chunks are written before the row is ours",
             "else if (row->writes && !row_is_private(&old, cid, buffer))", "else if (row->writes && row->context == NULL)", SESSIONS),
    Mutation(BYTEA + "am.c", "chunks are written and deleted for a row that was not updated",
             "finish_update(&row, result == TM_Ok);", "finish_update(&row, true);", SESSIONS),
    Mutation(BYTEA + "am.c", "a deleted row leaves its chunks",
             "if (result == TM_Ok && has_appendable_column(rel))", "if (result == TM_WouldBlock && has_appendable_column(rel))", VALUES),
    Mutation(BYTEA + "am.c", "a speculative insertion that lost leaves its chunks",
             "if (!succeeded && has_appendable_column(rel))", "if (succeeded && rel == NULL)", SESSIONS),
    Mutation(BYTEA + "am.c", "a pin not given back: an update keeps the old version's page",
             "ReleaseBuffer(buffer);", "(void) 0;", VALUES, after="if (result == TM_Ok)"),
    Mutation(BYTEA + "am.c", "TRUNCATE leaves the chunks",
             "if (!OidIsValid(rel->rd_rel->relrewrite) && persistence != RELPERSISTENCE_TEMP)",
             "if (OidIsValid(rel->rd_rel->relrewrite) && persistence != RELPERSISTENCE_TEMP)", ("sql/tables", "sql/ddl", "specs/truncated")),
    Mutation(BYTEA + "am.c", "a value that is replaced by another keeps its chunks",
             "if (!new || !own_reference(rel, value, isnull, &continued) || continued.vid != ref.vid)", "if (!new)", VALUES),
    Mutation(BYTEA + "resolve.c", "the value of another row is shared instead of copied",
             "!ab_same_reference(&value->base, &plan->old.base))", "value->base.vid == 0)", VALUES),
    Mutation(BYTEA + "resolve.c", "a value that only begins like the old one is taken as grown",
             "if (at != old->length)", "if (at > old->length)", VALUES),
    Mutation(BYTEA + "resolve.c", "an edit is not numbered",
             "from.edition++;", "from.edition += 0;", VALUES),
    Mutation(BYTEA + "resolve.c", "an append of several chunks is promised as one, which is written behind its row",
             "plan->value.nsegments == 2 && plan->value.segments[1].length < ab_chunk_size &&", "plan->value.nsegments == 2 &&", VALUES),
    Mutation(BYTEA + "writer.c", "an index that REINDEX CONCURRENTLY makes gets no entries",
             "if (index->rd_index->indisready)", "if (index->rd_index->indisready && index->rd_index->indisvalid)", SESSIONS),
    Mutation(BYTEA + "check.c", "appendable_bytea_check() takes the chunks of a damaged value for nobody's",
             "check->chunks += problem ? count_chunks(check, ref->vid) : chunks;", "check->chunks += problem && chunks < 0 ? count_chunks(check, ref->vid) : chunks;", FORGED),
    Mutation(BYTEA + "check.c", "appendable_bytea_repair() deletes the chunks of values",
             "if (more && vid == chunk.vid)", "if (more && vid != chunk.vid)", ("sql/ddl", "sql/tables")),
    Mutation(BYTEA + "stats.c", "a right not checked: appendable_bytea_check() of another's table",
             "return pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT, &is_missing) == ACLCHECK_OK &&", "return !is_missing &&", ("specs/changing_tables", "sql/own_objects", "sql/ddl", "specs/rights")),
    Mutation(BYTEA + "ddl/hook.c", "a table becomes durable without its chunks where event triggers are off",
             "is_more_durable(lfirst_oid(lc)))", "lc == NULL)", ("sql/tables",)),
    Mutation(BYTEA + "ddl/own.c", "an object that values are read through is altered",
             "if (changed)", "if (changed && !OidIsValid(classid))", ("sql/own_objects",)),
    Mutation(BYTEA + "store.c", "who publishes a table does not mark its store",
             "pair->moved || (pair->published && !pair->decodable));", "pair->moved);", ("specs/publishing",)),
    # -- appendable_bytea: the type ----------------------------------------------------
    Mutation(BYTEA + "datum.c", "a forged segment reaches beyond the stored value",
             "if (source > value->base.stored - len)", "if (source > value->base.stored)", FORGED),
    Mutation(BYTEA + "datum.c", "a forged edit has bytes that no segment names",
             "if (value->length != length || literal != p + n)", "if (value->length != length)", FORGED),
    Mutation(BYTEA + "datum.c", "padding need not end with its mark",
             "if (n == 0 || data[n - 1] != PAD_MARK)", "if (n == 0)", FORGED),
    Mutation(BYTEA + "type_compare.c", "a prefix sorts behind what it is a prefix of",
             "result = a.length < b.length ? -1 : 1;", "result = a.length < b.length ? 1 : -1;", TYPE),
    Mutation(BYTEA + "type_compare.c", "a free missing: a comparison keeps its second reader",
             "side_end(&b);", "(void) 0;", ("sql/type_operators",), after="result = a.length < b.length ? -1 : 1;"),
    Mutation(BYTEA + "type_write.c", "overlay() begins a byte late",
             "from = Min(start - 1, total);", "from = Min(start, total);", TYPE),
    Mutation(BYTEA + "type_write.c", "set_bit() never clears a bit",
             "data = ab_read_byte(value, n / 8) & ~(1 << (n % 8));", "data = ab_read_byte(value, n / 8);", ("sql/type_functions",)),
    Mutation(BYTEA + "type_write.c", "set_byte() takes an index beyond the end",
             "ab_check_index(n, ab_length(value));", "ab_check_index(n, ab_length(value) + 1);", ("sql/type_functions",)),
    # -- parallel_temp -----------------------------------------------------------------
    Mutation(TEMP + "parallel/plan_held.c", "a bitmap scan visits fewer pages, the less its index's order is the table's",
             "visits = Max(visits, Min(2 * pages * rows / (2 * pages + rows), pages) * (1 - order));",
             "visits = Max(visits, Min(2 * pages * rows / (2 * pages + rows), pages) * order);", PARALLEL),
    Mutation(TEMP + "parallel/plan_held.c", "scans in workers get their start back, and the leader's pay it",
             "if (!walk->alone)", "if (walk->alone)", PARALLEL),
    Mutation(TEMP + "parallel/plan_held.c", "rows that a filter drops behind an index cost nothing",
             "if (plan->qual == NIL)", "if (plan->qual != NIL)", PRICES),
    Mutation(TEMP + "parallel/plan_held.c", "of a merge join that ends early all pages are given back",
             "part = run > left_out ? 1 - left_out / run : 0;", "part = 1;", PRICES),
    Mutation(TEMP + "parallel/plan_held.c", "hash tables of subplans are made once for all processes",
             "if (subplan->useHashTable || list_member_ptr(plan->initPlan, subplan))", "if (list_member_ptr(plan->initPlan, subplan))", PRICES),
    Mutation(TEMP + "parallel/plan_held.c", "a scan gets back what another path of its table was charged",
             "if (charge->rti == ((Scan *) plan)->scanrelid && charge->startup_cost == plan->startup_cost)",
             "if (charge->rti == ((Scan *) plan)->scanrelid)", PARALLEL),
    Mutation(TEMP + "parallel/plan_prices.c", "a leader that does not take part is a process",
             "processes = alone ? 1 : plan->workers + (out || !parallel_leader_participation ? 0 : 1);",
             "processes = alone ? 1 : plan->workers + (out ? 0 : 1);", PRICES),
    Mutation(TEMP + "buffers/visibility.c", "a snapshot too new: rows of the scan's own command are seen",
             "if (HeapTupleHeaderGetCmin(tuple) >= snapshot->curcid)", "if (HeapTupleHeaderGetCmin(tuple) > snapshot->curcid)", ("sql/parallel_tidy",)),
    Mutation(TEMP + "buffers/visibility.c", "a snapshot too new: what a later command deletes is gone already",
             "return HeapTupleHeaderGetCmax(tuple) < snapshot->curcid;", "return HeapTupleHeaderGetCmax(tuple) <= snapshot->curcid;", ("sql/parallel_tidy",)),
    Mutation(TEMP + "buffers/visibility.c", "rows of a subtransaction that was rolled back are seen",
             "fate = known_committed || TransactionIdDidCommit(xid) ? XID_COMMITTED : XID_ABORTED;", "fate = XID_COMMITTED;", ("sql/parallel_tidy",)),
    Mutation(TEMP + "buffers/visibility.c", "a locked row counts as deleted",
             "if (infomask & HEAP_XMAX_INVALID || HEAP_XMAX_IS_LOCKED_ONLY(infomask))", "if (infomask & HEAP_XMAX_INVALID)", ("sql/parallel_tidy",)),
    Mutation(TEMP + "buffers/visibility.c", "off by one at a page's end: its last row is left out",
             "for (OffsetNumber line = FirstOffsetNumber; line <= last; line++)", "for (OffsetNumber line = FirstOffsetNumber; line < last; line++)", PARALLEL),
    Mutation(TEMP + "parallel/plan.c", "a plan with workers that is hardly cheaper takes the place of the serial one",
             "return with < without - Min(without * WORKERS_MARGIN, plan->workers * pt_worker_start_cost);", "return with < without;", PARALLEL),
    Mutation(TEMP + "parallel/plan_refusal.c", "a function that is restricted to the leader runs in workers",
             "return is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&", "return root != NULL || is_parallel_safe(root, (Node *) rel->baserestrictinfo) ||", READS),
    Mutation(TEMP + "buffers/localbuf_flush.c", "a run of pages goes on over a gap between blocks",
             "if (run[length].block != run->block + length ||", "if (run[length].block < run->block + length ||", TOOLKIT),
    Mutation(TEMP + "buffers/localbuf_flush.c", "a counter not booked: pages that a flush wrote",
             "pgBufferUsage.local_blks_written += n;", "pgBufferUsage.local_blks_written += 0;", TOOLKIT),
    Mutation(TEMP + "buffers/toolkit.c", "a right not checked: who does not own a table evicts it",
             "if (mutating && !RelationOwnerCheck_compat(relid, GetUserId()))", "if (mutating && !OidIsValid(relid))", TOOLKIT),
    Mutation(TEMP + "buffers/toolkit.c", "another session's temporary table is looked at in one's own buffers",
             "if (RELATION_IS_OTHER_TEMP(rel))", "if (RELATION_IS_OTHER_TEMP(rel) && mutating)", TOOLKIT),
    Mutation(TEMP + "buffers/relfile.c", "a load does not notice that the file has grown beside it",
             "if (length < expected || length > expected + extra)", "if (length < expected)", ("sql/fastload_copy", "sql/fastload_explain", "sql/fastload_features", "sql/fastload_nested", "sql/fastload_planless")),
    Mutation(TEMP + "load/fastload_write.c", "pages that a failed load has to leave have no room on the disk",
             "load->lazy_file = false;", "load->pool_limit = load->pool_limit;", ("t/fastload_failures",)),
    Mutation(TEMP + "parallel/pool_share.c", "full shared memory beside another query's workers is an error",
             "if (!share_segment_has_room(size))", "if (size == 0)", ("t/170_full_disk",)),
    Mutation(TEMP + "load/fastload.c", "frozen rows are seen by a cursor that is older",
             "return ThereAreNoPriorRegisteredSnapshots();", "return true;", ("sql/fastload_explain",), after="fastload_may_freeze(void)"),
    Mutation(TEMP + "load/fastload.c", "who reads a table while it is filled misses rows",
             "if ((fill->overrides || fastload_is_loading(fill)) && fastload_may_use(plan, fill->rel))",
             "if (fill->overrides && fastload_may_use(plan, fill->rel))", ROWS),
    Mutation(TEMP + "load/fastload_write.c", "the leader does not learn what workers have appended, and writes his pages over theirs",
             "load->file_length = end->length;", "load->file_length += 0;", ("t/187_workers_write",)),
    Mutation(TEMP + "load/fastload_write.c", "pages of the leader's batch keep the numbers that they had before workers appended theirs",
             "if (ItemPointerGetBlockNumberNoCheck(&first->t_ctid) != block)", "if (block == InvalidBlockNumber)", ("t/187_workers_write",)),
    Mutation(TEMP + "load/fastload_filler.c", "a worker writes pages that the leader may take as well",
             "pg_atomic_write_u64(&ring->written, first + n);", "pg_atomic_write_u64(&ring->written, first + n - 1);", ("sql/fill_pages",)),
    Mutation(TEMP + "load/fastload_rows.c", "a page's fill factor is not kept",
             "Size		wanted = need + load->save_space;", "Size		wanted = need;", ROWS),
    Mutation(TEMP + "load/fastload_rows.c", "rows look as if an earlier command had put them: older cursors see them",
             "HeapTupleHeaderSetCmin(tuple, load->cid);", "HeapTupleHeaderSetCmin(tuple, 0);", ROWS),
    # -- light_explain -----------------------------------------------------------------
    Mutation(LIGHT + "measure/usage.c", "a counter not booked: usage below a node is not its own inclusive one",
             "settle_record(callee, &usage);", "settle_record(callee, sum);", FIGURES),
    Mutation(LIGHT + "measure/usage.c", "what a subtree used under its old caller is booked twice",
             "light_usage_subtract(record->moved, &usage);", "(void) to_root;", FIGURES),
    Mutation(LIGHT + "measure/usage.c", "a counter not booked: what other callers' calls used",
             "if (record->moved != NULL)", "if (record->moved != NULL && record->books == NULL)", FIGURES, after="settle_record(callee, &usage);"),
    Mutation(LIGHT + "measure/usage.c", "what a join calls is booked to the join's own caller",
             "return join != NULL && light_passed(join) ? join : top;", "return join != NULL && join->in_page < 0 ? join : top;", FIGURES),
    Mutation(LIGHT + "measure/joins.c", "a join on disk is not looked at",
             "if (table != NULL && table->nbatch == 1 && table->parallel_state == NULL && looks_below(node, record))",
             "if (table != NULL && table->parallel_state == NULL && looks_below(node, record))", FIGURES),
    Mutation(LIGHT + "measure/joins.c", "a join above a node that another library wrapped is passed",
             "if (table != NULL && table->nbatch == 1 && table->parallel_state == NULL && looks_below(node, record))",
             "if (table != NULL && table->nbatch == 1 && table->parallel_state == NULL)", FIGURES),
    Mutation(LIGHT + "measure/joins.c", "what a join's caller used is booked to the join",
             "slot = node->ExecProcNodeReal(node);", "light.top = record; slot = node->ExecProcNodeReal(node); light.top = record->under;", FIGURES,
             after="leap_join(PlanState *node)"),
    Mutation(LIGHT + "measure/joins.c", "the call in which a join ends counts as a row",
             "record->core.ntuples -= 1.0;", "", FIGURES),
    Mutation(LIGHT + "statement/nodes.c", "the call that goes on is no loop",
             "figure->loops = instr->nloops + (instr->running ? 1 : 0);", "figure->loops = instr->nloops;", PROFILE),
    Mutation(LIGHT + "show/explain.c", "a right not checked: another role's last EXPLAIN",
             "if (kept_role != GetUserId() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))", "if (kept_role == InvalidOid)", LIGHT_SQL),
    Mutation(LIGHT + "show/explain.c", "DISCARD ALL leaves the last EXPLAIN to the next one of a pool",
             "if (discard)", "if (discard && nkept < 0)", LIGHT_SQL),
    Mutation(LIGHT + "statement/slots.c", "a right not checked: another role's running statement",
             "if (!see_all && slot->role != GetUserId())", "if (!see_all && slot->role == InvalidOid)", LIGHT_SQL),
    Mutation(LIGHT + "statement/slots.c", "one role takes all slots",
             "return shared->nslots - (shared->nslots > 1 ? Max(shared->nslots / 4, 1) : 0);", "return shared->nslots;", LIGHT_SQL),
    Mutation(LIGHT + "show/profile_store.c", "a counter not booked: executions that failed",
             "node->executions++;", "node->executions += outcome == LIGHT_DONE;", PROFILE),
    Mutation(LIGHT + "light_explain.c", "a statement without records is not the caller of what its triggers run",
             "bool\t\tcalls = light_recorded(query) || (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) == 0;",
             "bool\t\tcalls = light_recorded(query);", PROFILE),
    # -- ram_tablespace ----------------------------------------------------------------
    Mutation(RAM + "procedures.c", "a right not checked: everybody makes RAM tablespaces",
             "if (!superuser())", "if (!OidIsValid(GetUserId()))", RIGHTS),
    Mutation(RAM + "rules.c", "a table that is not temporary gets into memory",
             "if (persistence != RELPERSISTENCE_TEMP)", "if (persistence == RELPERSISTENCE_UNLOGGED)", REBOOT),
    Mutation(RAM + "rules.c", "REINDEX puts an index into memory",
             "if (OidIsValid(tablespace) && ram_directory_is_tablespace(tablespace))", "if (!OidIsValid(tablespace) && ram_directory_is_tablespace(tablespace))", REBOOT),
    Mutation(RAM + "rules.c", "a full RAM tablespace takes more tables",
             "if (ramspace_max_size > 0 && state->used >= ramspace_max_size * MEGABYTE)", "if (ramspace_max_size < 0 && state->used >= ramspace_max_size * MEGABYTE)", REBOOT),
    Mutation(RAM + "directory.c", "a directory that belongs to somebody else is used after a reboot",
             "if (!owned_directory(path))", "if (path == NULL)", REBOOT),
]
