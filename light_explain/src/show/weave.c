/*-------------------------------------------------------------------------
 *
 * weave.c
 *	  Insert our counters of nodes into a plan that EXPLAIN has printed.
 *
 * Since 18 EXPLAIN calls hooks of extensions for each node.  Before, there are
 * none; but its output has a line for each node that only nodes have:
 * "Actual Loops" of JSON, YAML and XML (the first one after the node's type, as
 * workers have theirs), and the node's first line in text.  Nodes are printed in
 * the order of our array.  So each such line is taken for the next node's,
 * and our lines are inserted after it.
 *
 * Literals of a query can look like anything, in text at least.  So lines are only
 * inserted if there are as many such lines as nodes, each with the node's
 * number of loops: otherwise the plan stays as it was printed.
 *
 * Copyright (c) 2026, the pg_lean authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat_executor.h"
#include "lib/stringinfo.h"
#include "show/show.h"
#include "utils/json.h"
#include "utils/xml.h"

/* How a format writes what we look for, and a property. */
typedef struct Form
{
	const char *node;			/* before a node's type; NULL: the line of its
								 * figures is its first */
	const char *loops;			/* before the number of its loops */
	const char *buffers;		/* before the first figure that is there only
								 * where buffers are counted */
	const char *wal;
	const char *time;			/* where nodes are timed; text: in their line */
	const char *before;			/* our line */
	const char *between;		/* name and value */
} Form;

static const Form forms[] = {
	[EXPLAIN_FORMAT_TEXT] = {NULL, NULL, "Buffers: ", "WAL: ", " (actual time=", "", ": "},
	[EXPLAIN_FORMAT_XML] = {"<Node-Type>", "<Actual-Loops>", "<Shared-Hit-Blocks>", "<WAL-Records>", "<Actual-Total-Time>", "<", ">"},
	[EXPLAIN_FORMAT_JSON] = {"\"Node Type\": ", "\"Actual Loops\": ", "\"Shared Hit Blocks\": ", "\"WAL Records\": ", "\"Actual Total Time\": ", "\"", "\": "},
	[EXPLAIN_FORMAT_YAML] = {"Node Type: ", "Actual Loops: ", "Shared Hit Blocks: ", "WAL Records: ", "Actual Total Time: ", "", ": "},
};

/* A line of the plan. */
typedef struct Line
{
	const char *start;
	const char *word;			/* without blanks in front */
	const char *end;			/* its line feed, or the end of all */
} Line;

static Line
line_at(const char *at)
{
	Line		line = {at, at, at + strcspn(at, "\n")};

	while (*line.word == ' ')
		line.word++;
	return line;
}

static bool
begins(const Line *line, const char *with)
{
	return strncmp(line->word, with, strlen(with)) == 0;
}

static bool
ends(const Line *line, const char *with)
{
	size_t		length = strlen(with);

	return line->end - line->word >= (ptrdiff_t) length && memcmp(line->end - length, with, length) == 0;
}

/* Does any line begin with this? */
static bool
has_line(const char *plan, const char *with)
{
	for (Line line = line_at(plan);; line = line_at(line.end + 1))
	{
		if (begins(&line, with))
			return true;
		if (*line.end == '\0')
			return false;
	}
}

/* The loops of a node in a line of text that is a node's first, or -1. */
static double
loops_in_text(const Line *line)
{
	const char *found = NULL;

	if (ends(line, " (never executed)"))
		return 0;
	if (!ends(line, ")"))
		return -1;
	/* the last one: names come before it */
	for (const char *at = line->word; (at = strstr(at, " (actual ")) != NULL && at < line->end; at++)
		found = at;
	found = found != NULL ? strstr(found, " loops=") : NULL;
	return found != NULL && found < line->end ? strtod(found + strlen(" loops="), NULL) : -1;
}

/* A name as an element of XML has it. */
static void
append_tag(StringInfo to, const char *name)
{
	for (const char *c = name; *c; c++)
		appendStringInfoChar(to, *c == ' ' ? '-' : *c);
}

/* Print one property, on a separate line. */
static void
append_property(StringInfo to, ExplainFormat format, int indent, const LightProperty *property)
{
	const Form *form = &forms[format];

	appendStringInfo(to, "%s\n%*s%s", format == EXPLAIN_FORMAT_JSON ? "," : "", indent, "", form->before);
	if (format == EXPLAIN_FORMAT_XML)
		append_tag(to, property->name);
	else
		appendStringInfoString(to, property->name);
	appendStringInfoString(to, form->between);
	if (property->string == NULL)
		appendStringInfo(to, "%.*f", property->unit != NULL ? 3 : 0, property->value);
	else if (format == EXPLAIN_FORMAT_TEXT)
		appendStringInfoString(to, property->string);
	else if (format == EXPLAIN_FORMAT_XML)
		appendStringInfoString(to, escape_xml(property->string));
	else
		escape_json(to, property->string);
	if (format == EXPLAIN_FORMAT_TEXT && property->unit != NULL)
		appendStringInfo(to, " %s", property->unit);
	else if (format == EXPLAIN_FORMAT_XML)
	{
		appendStringInfoString(to, "</");
		append_tag(to, property->name);
		appendStringInfoChar(to, '>');
	}
}

/*
 * A palloc'd copy of a plan with our counters of its n nodes, in EXPLAIN's order;
 * NULL if the plan's lines are not those of the nodes.
 */
char *
light_weave(const char *plan, ExplainFormat format, const LightShown *nodes, int n)
{
	const Form *form = &forms[format];
	bool		buffers = has_line(plan, form->buffers);
	bool		wal = has_line(plan, form->wal);
	bool		timing = has_line(plan, form->time);
	bool		inside = form->node == NULL;	/* the next line with loops is
												 * the node's */
	int			found = 0;
	StringInfoData woven;

	initStringInfo(&woven);
	for (Line line = line_at(plan);; line = line_at(line.end + 1))
	{
		LightProperty properties[LIGHT_MAX_PROPERTIES];
		double		loops = -1;
		int			indent = line.word - line.start;
		const char *copied = line.end;

		/* the first property of a list's element has a dash before it */
		if (format == EXPLAIN_FORMAT_YAML && begins(&line, "- "))
			line.word += 2;
		if (form->node == NULL)
			loops = loops_in_text(&line);
		else if (begins(&line, form->node))
			inside = true;
		else if (inside && begins(&line, form->loops))
		{
			loops = strtod(line.word + strlen(form->loops), NULL);
			inside = false;
		}
		if (loops < 0)
			appendBinaryStringInfo(&woven, line.start, line.end - line.start);
		else
		{
			if (found >= n || nodes[found].loops != loops)
				return NULL;
			if (format == EXPLAIN_FORMAT_TEXT)
			{
				const char *timed = strstr(line.word, form->time);

				timing = timed != NULL && timed < line.end;
				indent += begins(&line, "->  ") ? 6 : 2;
			}
			/* ours go before a comma that is for what follows */
			if (format == EXPLAIN_FORMAT_JSON && ends(&line, ","))
				copied--;
			appendBinaryStringInfo(&woven, line.start, copied - line.start);
			for (int i = 0, k = light_properties(&nodes[found], timing, buffers, wal, properties); i < k; i++)
			{
				if (format != EXPLAIN_FORMAT_TEXT || properties[i].always || properties[i].value != 0)
					append_property(&woven, format, indent, &properties[i]);
			}
			appendBinaryStringInfo(&woven, copied, line.end - copied);
			found++;
		}
		if (*line.end == '\0')
			break;
		appendStringInfoChar(&woven, '\n');
	}
	return found == n ? woven.data : NULL;
}
