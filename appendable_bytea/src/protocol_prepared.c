/*-------------------------------------------------------------------------
 *
 * protocol_prepared.c
 *	  Statements that a client prepared stay as it was told when they are analysed
 *	  again.
 *
 * A prepared statement whose tables changed is analysed again, with the types of
 * parameters that its client was told: bytea.  Where an operand's type decides what
 * the statement means (row comparisons, polymorphic functions) bytea would not do
 * where the type did.  So a statement that was changed for its client keeps the types
 * that analysis found: the plan cache gets a parser setup of ours, which gives the
 * parameters those types again, and is how we know such a statement.  It is put into
 * the plan cache's entry as soon as that is finished, which is when the message or
 * the PREPARE that brought the statement is done: the entry is the last one saved.
 *
 * What result columns are to be shown as is in the entry, too, whatever the settings
 * are by now.  That also holds for statements that were prepared before the library
 * was loaded.
 *
 * The plan cache's list of saved entries is private to it, but its members are not:
 * an entry of our own, saved last, has the list's head as its neighbour.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "parser/parse_node.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/syscache.h"

#include "protocol.h"

/* A statement that was changed for its client, as it was before. */
typedef struct Prepared
{
	CachedPlanSource *source;	/* NULL until it is found */
	MemoryContext context;		/* of this, in the end below the entry's */
	dlist_node *last;			/* entry that was the last one saved before */
	int			location;		/* of the statement in its text */
	int			ntypes;
	Oid			types[FLEXIBLE_ARRAY_MEMBER];
} Prepared;

/* Analysed, and perhaps not in the plan cache yet. */
static Prepared *pending = NULL;

/* Head of the plan cache's list of saved entries. */
static dlist_node *saved_plans = NULL;

static void
find_saved_plans(void)
{
	CachedPlanSource *own;

	if (saved_plans != NULL)
		return;
	own = CreateCachedPlan(NULL, "", CMDTAG_UNKNOWN);
	CompleteCachedPlan(own, NIL, NULL, NULL, 0, NULL, NULL, 0, true);
	SaveCachedPlan(own);
	saved_plans = own->node.next;
	DropCachedPlan(own);
}

/*
 * The entry of a statement that the plan cache analyses again, whose text is in it;
 * NULL for any other.
 */
CachedPlanSource *
ab_prepared_source(const char *text)
{
	if (text == NULL)
		return NULL;
	find_saved_plans();
	for (dlist_node *node = saved_plans->prev; node != saved_plans; node = node->prev)
	{
		CachedPlanSource *source = dlist_container(CachedPlanSource, node, node);

		if (source->query_string == text)
			return source;
	}
	return NULL;
}

/* Parameters have the types that they had when the statement was prepared. */
static Node *
prepared_parameter(ParseState *pstate, ParamRef *ref)
{
	const Prepared *prepared = pstate->p_ref_hook_state;
	Param	   *param;

	if (ref->number <= 0 || ref->number > prepared->ntypes ||
		!OidIsValid(prepared->types[ref->number - 1]))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_PARAMETER),
				 errmsg("there is no parameter $%d", ref->number),
				 parser_errposition(pstate, ref->location)));
	param = makeNode(Param);
	param->paramkind = PARAM_EXTERN;
	param->paramid = ref->number;
	param->paramtype = prepared->types[ref->number - 1];
	/* the extension may be gone */
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(param->paramtype)))
		param->paramtype = prepared->source->param_types[ref->number - 1];
	param->paramtypmod = -1;
	param->paramcollid = get_typcollation(param->paramtype);
	param->location = ref->location;
	return (Node *) param;
}

static void
setup_prepared(ParseState *pstate, void *arg)
{
	pstate->p_ref_hook_state = arg;
	pstate->p_paramref_hook = prepared_parameter;
}

/*
 * Is it a statement that was changed for its client when it was prepared?  Gives its
 * entry in the plan cache and the types that its parameters had before, in the current
 * memory context.
 */
bool
ab_prepared_parameters(const ParseState *pstate, CachedPlanSource **source,
					   Oid **types, int *ntypes)
{
	const Prepared *prepared = pstate->p_ref_hook_state;

	if (pstate->p_paramref_hook != prepared_parameter)
		return false;
	*source = prepared->source;
	*ntypes = prepared->ntypes;
	*types = palloc(prepared->ntypes * sizeof(Oid) + 1);
	memcpy(*types, prepared->types, prepared->ntypes * sizeof(Oid));
	return true;
}

/* Called when the message that brought the statement is done. */
static void
message_done(void *arg)
{
	ab_prepared_done();
}

/*
 * A statement with parameters of these types is going to be changed for the client
 * that prepares it; ab_prepared_done() is to be called when it has been prepared.
 */
void
ab_prepared_begin(const Query *query, const Oid *types, int ntypes)
{
	MemoryContext context;
	MemoryContextCallback *callback;

	find_saved_plans();
	ab_prepared_done();
	callback = MemoryContextAlloc(MessageContext, sizeof(MemoryContextCallback));
	callback->func = message_done;
	callback->arg = NULL;
	context = AllocSetContextCreate(TopMemoryContext, "appendable_bytea prepared statement",
									ALLOCSET_SMALL_SIZES);
	pending = MemoryContextAllocZero(context, offsetof(Prepared, types) + ntypes * sizeof(Oid));
	pending->context = context;
	pending->last = saved_plans->prev;
	pending->location = query->stmt_location;
	pending->ntypes = ntypes;
	if (ntypes > 0)
		memcpy(pending->types, types, ntypes * sizeof(Oid));
	MemoryContextRegisterResetCallback(MessageContext, callback);
}

/*
 * Keep with its entry in the plan cache what ab_prepared_begin() was told, if the
 * statement has got one.  Raises no error.
 */
void
ab_prepared_done(void)
{
	Prepared   *prepared = pending;
	CachedPlanSource *source;

	if (prepared == NULL)
		return;
	pending = NULL;
	source = dlist_container(CachedPlanSource, node, saved_plans->prev);
	if (saved_plans->prev == prepared->last || saved_plans->prev == saved_plans ||
		source->parserSetup != NULL || !source->fixed_result ||
		source->num_params != prepared->ntypes || source->raw_parse_tree == NULL ||
		source->raw_parse_tree->stmt_location != prepared->location)
	{
		MemoryContextDelete(prepared->context);
		return;
	}
	MemoryContextSetParent(prepared->context, source->context);
	prepared->source = source;
	source->parserSetup = setup_prepared;
	source->parserSetupArg = prepared;
}
