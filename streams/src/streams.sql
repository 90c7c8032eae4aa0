-- Streams that HTTP clients write: a row each, in ordinary tables.  Everything that must
-- survive is in them, so that what is rolled back or lost takes bytes, close mark
-- and producers together.  "streams -setup" runs this file; it changes nothing the second time.
--
-- No column is null: a row with a null has a bitmap of its columns, which an append would log.
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA IF NOT EXISTS streams;

CREATE TABLE IF NOT EXISTS streams.stream (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	path         text COLLATE "C" NOT NULL UNIQUE,
	content_type text NOT NULL,                        -- as the client wrote it
	media        text NOT NULL,                        -- in lower case, without parameters
	data         appendable_bytea NOT NULL DEFAULT '', -- of JSON: one message a line
	dropped      bigint NOT NULL DEFAULT 0,            -- bytes that were before "data" and are no longer kept
	-- a stream created again under the same path has other offsets
	incarnation  bigint NOT NULL DEFAULT 1 + floor(random() * 9e15)::bigint,
	-- a fork: its first bytes are those of the source, and "data" is what follows them
	source_id    bigint NOT NULL DEFAULT 0,            -- 0: it is not a fork
	source_bytes bigint NOT NULL DEFAULT 0,
	forked_from  text COLLATE "C" NOT NULL DEFAULT '', -- path, offset and sub-offset as the client gave them
	fork_offset  bigint NOT NULL DEFAULT 0,
	fork_sub     bigint NOT NULL DEFAULT 0,
	fork_depth   int NOT NULL DEFAULT 0,               -- number of sources above it
	deleted      boolean NOT NULL DEFAULT false,       -- its row is kept for its forks
	closed       boolean NOT NULL DEFAULT false,
	closed_by    text COLLATE "C" NOT NULL DEFAULT '', -- the producer's request that closed it
	closed_epoch bigint NOT NULL DEFAULT 0,
	closed_seq   bigint NOT NULL DEFAULT 0,
	last_seq     text COLLATE "C" NOT NULL DEFAULT '', -- the last Stream-Seq
	ttl          bigint NOT NULL DEFAULT -1,           -- in seconds, since "touched"; -1: none
	expires      text NOT NULL DEFAULT '',             -- as the client wrote it
	expires_at   timestamptz NOT NULL DEFAULT 'infinity',
	touched      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
ALTER TABLE streams.stream ADD COLUMN IF NOT EXISTS dropped bigint NOT NULL DEFAULT 0;
-- in a table that was made when these columns could be null
DO $$ BEGIN
	IF (SELECT NOT attnotnull FROM pg_attribute WHERE attrelid = 'streams.stream'::regclass AND attname = 'source_id') THEN
		DROP INDEX streams.stream_source, streams.stream_expiring;
		ALTER TABLE streams.stream DROP CONSTRAINT stream_source_id_fkey;
		UPDATE streams.stream SET source_id = coalesce(source_id, 0), forked_from = coalesce(forked_from, ''), fork_offset = coalesce(fork_offset, 0),
			closed_by = coalesce(closed_by, ''), closed_epoch = coalesce(closed_epoch, 0), closed_seq = coalesce(closed_seq, 0),
			last_seq = coalesce(last_seq, ''), ttl = coalesce(ttl, -1), expires = coalesce(expires, ''), expires_at = coalesce(expires_at, 'infinity');
		ALTER TABLE streams.stream
			ALTER source_id SET DEFAULT 0, ALTER source_id SET NOT NULL, ALTER forked_from SET DEFAULT '', ALTER forked_from SET NOT NULL,
			ALTER fork_offset SET DEFAULT 0, ALTER fork_offset SET NOT NULL, ALTER closed_by SET DEFAULT '', ALTER closed_by SET NOT NULL,
			ALTER closed_epoch SET DEFAULT 0, ALTER closed_epoch SET NOT NULL, ALTER closed_seq SET DEFAULT 0, ALTER closed_seq SET NOT NULL,
			ALTER last_seq SET DEFAULT '', ALTER last_seq SET NOT NULL, ALTER ttl SET DEFAULT -1, ALTER ttl SET NOT NULL,
			ALTER expires SET DEFAULT '', ALTER expires SET NOT NULL, ALTER expires_at SET DEFAULT 'infinity', ALTER expires_at SET NOT NULL;
	END IF;
END $$;
CREATE INDEX IF NOT EXISTS stream_source ON streams.stream (source_id) WHERE source_id <> 0;
CREATE INDEX IF NOT EXISTS stream_expiring ON streams.stream (id) WHERE ttl >= 0 OR expires_at < 'infinity';

-- In a separate table: in the row, an append would log the state of all producers.  The access method is that of tables with
-- growing values because it prunes a page when it is almost full: heap would do so, and log it, before each append
-- once the producers fill their page up to the fillfactor.  Half a page is left so that one pruning serves many appends.
CREATE TABLE IF NOT EXISTS streams.producer (
	stream_id bigint NOT NULL REFERENCES streams.stream ON DELETE CASCADE,
	producer  text COLLATE "C" NOT NULL,
	epoch     bigint NOT NULL,
	seq       bigint NOT NULL,
	PRIMARY KEY (stream_id, producer)
) USING appendable_heap WITH (fillfactor = 50);
DO $$ BEGIN
	IF (SELECT amname <> 'appendable_heap' FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'streams.producer'::regclass) THEN
		ALTER TABLE streams.producer SET (fillfactor = 50), SET ACCESS METHOD appendable_heap;
	END IF;
END $$;

CREATE OR REPLACE FUNCTION streams.refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT NEW.closed OR NEW.dropped + appendable_length(NEW.data) <> OLD.dropped + appendable_length(OLD.data) THEN
		RAISE EXCEPTION 'stream "%" is closed', OLD.path USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER zz_closed BEFORE UPDATE ON streams.stream FOR EACH ROW
	WHEN (OLD.closed) EXECUTE FUNCTION streams.refuse_closed();
CREATE OR REPLACE TRIGGER zz_only BEFORE UPDATE ON streams.stream FOR EACH ROW EXECUTE FUNCTION appendable_only('data', 'dropped');

-- Writers in SQL notify in their transaction.  The server notifies after its commits, because
-- transactions that notify commit one at a time.
CREATE OR REPLACE TRIGGER notify AFTER DELETE OR UPDATE OF data, closed, deleted ON streams.stream FOR EACH ROW
	WHEN (current_setting('streams.quiet', true) IS DISTINCT FROM 'on')
	EXECUTE FUNCTION appendable_notify('pg_lean_streams', 'id');

CREATE OR REPLACE FUNCTION streams.is_expired(s streams.stream) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT s.expires_at <= clock_timestamp() OR s.ttl >= 0 AND s.touched + s.ttl * interval '1 s' <= clock_timestamp() $$;

CREATE OR REPLACE FUNCTION streams.has_forks(by_id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN EXISTS (SELECT FROM streams.stream x WHERE x.source_id = by_id AND x.source_id <> 0); END $$;

-- A fork reads the bytes of its source, whoever deletes the source's row.
CREATE OR REPLACE FUNCTION streams.refuse_source() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	-- a snapshot of the transaction's begin would not show a fork that the DELETE has waited for
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'streams cannot be deleted in a transaction that is %', upper(current_setting('transaction_isolation'))
			USING ERRCODE = 'feature_not_supported', HINT = 'Use READ COMMITTED.';
	END IF;
	IF streams.has_forks(OLD.id) THEN
		RAISE EXCEPTION 'stream "%" has forks', OLD.path USING ERRCODE = 'foreign_key_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER source AFTER DELETE ON streams.stream FOR EACH ROW EXECUTE FUNCTION streams.refuse_source();

-- "ok", "none", or "gone": it ended, but has forks that read its bytes.
CREATE OR REPLACE FUNCTION streams.state(s streams.stream) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF s.id IS NULL THEN
		RETURN 'none';
	ELSIF s.deleted THEN
		RETURN 'gone';
	ELSIF (s.ttl >= 0 OR s.expires_at < 'infinity') AND streams.is_expired(s) THEN
		RETURN CASE WHEN streams.has_forks(s.id) THEN 'gone' ELSE 'none' END;
	END IF;
	RETURN 'ok';
END $$;

-- The incarnation in the token of an offset is that of the stream which wrote the byte before it.  An offset of the
-- source therefore is one of the fork too, up to the fork's begin and not beyond.
CREATE OR REPLACE FUNCTION streams.incarnation_at(by_id bigint, at bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	s record;
BEGIN
	LOOP
		SELECT x.source_id, x.source_bytes, x.incarnation INTO s FROM streams.stream x WHERE x.id = by_id;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'the source of a fork cannot be read' USING ERRCODE = 'insufficient_privilege';
		END IF;
		EXIT WHEN s.source_id = 0 OR at > s.source_bytes;
		by_id := s.source_id;
	END LOOP;
	RETURN s.incarnation;
END $$;

-- Append request n of the arrays to paths[n]; requests of one path are adjacent and are one
-- UPDATE.  A refusal is a row with its reason, not an error: others of the batch are not its victims.
-- With skip_locked, a stream whose row another transaction holds is "locked" instead of waited for.
-- The requests that "alone" lists have neither a producer, a Stream-Seq nor a close, and are the only ones of their paths: one
-- statement locks and updates all of their rows.  The rest is judged request by request, as the others are.
-- With "told", this transaction notifies the other servers: a server's name, and streams that it appended to before.
DROP FUNCTION IF EXISTS streams.append(text[], text[], bytea[], boolean[], text[], text[], bigint[], bigint[], boolean);
CREATE OR REPLACE FUNCTION streams.append(paths text[], medias text[], datas bytea[], closes boolean[], seqs text[],
	producers text[], epochs bigint[], pseqs bigint[], skip_locked boolean, alone int[] DEFAULT NULL, told text DEFAULT NULL)
RETURNS TABLE (n int, status text, stream_id bigint, incarnation bigint, tail bigint, closed boolean, epoch bigint, pseq bigint)
-- no plan is made for each batch, and the indexes are used even if the plan was made while the table was small
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	first int := 1;
	last int;
	done boolean[] := '{}';
	ids bigint[] := '{}'; -- streams that got bytes or were closed
	s streams.stream;
	p streams.producer; -- the state of its producer, if known
	known boolean;
	more bytea;
	changed boolean;
BEGIN
	IF skip_locked AND cardinality(alone) > 0 THEN
		FOR n, stream_id, incarnation, tail IN
			WITH held AS MATERIALIZED (
				SELECT r.n, x.id FROM unnest(alone) r (n) JOIN streams.stream x ON x.path = paths[r.n] FOR NO KEY UPDATE OF x SKIP LOCKED)
			UPDATE streams.stream x SET data = x.data || datas[held.n] FROM held
			WHERE x.id = held.id AND x.media = medias[held.n] AND NOT x.closed AND NOT x.deleted AND x.ttl < 0 AND x.expires_at = 'infinity'
			RETURNING held.n, x.id, x.incarnation, x.source_bytes + x.dropped + appendable_length(x.data) LOOP
			done[n] := true; ids := ids || stream_id;
			status := 'ok'; closed := false;
			RETURN NEXT;
		END LOOP;
	END IF;
	WHILE first <= cardinality(paths) LOOP
		IF done[first] THEN
			first := first + 1;
			CONTINUE;
		END IF;
		last := first;
		WHILE last < cardinality(paths) AND paths[last + 1] = paths[first] LOOP
			last := last + 1;
		END LOOP;
		IF skip_locked THEN
			SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE SKIP LOCKED;
		ELSE
			SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE;
		END IF;
		status := streams.state(s);
		IF status <> 'ok' THEN
			IF s.id IS NULL AND skip_locked AND EXISTS (SELECT FROM streams.stream x WHERE x.path = paths[first]) THEN
				status := 'locked';
			END IF;
			FOR i IN first .. last LOOP
				n := i;
				RETURN NEXT;
			END LOOP;
			first := last + 1;
			CONTINUE;
		END IF;
		stream_id := s.id; tail := s.source_bytes + s.dropped + appendable_length(s.data);
		more := ''; changed := false;
		FOR i IN first .. last LOOP
			n := i; epoch := epochs[i]; pseq := pseqs[i]; known := false;
			IF producers[i] IS NOT NULL THEN
				SELECT * INTO p FROM streams.producer x WHERE x.stream_id = s.id AND x.producer = producers[i];
				known := FOUND;
			END IF;
			IF s.closed THEN
				status := CASE
					WHEN producers[i] IS NOT NULL AND s.closed_by = producers[i] AND s.closed_epoch = epochs[i] AND s.closed_seq = pseqs[i] THEN 'repeated'
					WHEN producers[i] IS NULL AND closes[i] AND octet_length(datas[i]) = 0 THEN 'repeated'
					ELSE 'closed' END;
			ELSIF octet_length(datas[i]) > 0 AND medias[i] <> s.media THEN
				status := 'media';
			ELSIF known AND epochs[i] < p.epoch THEN
				status := 'stale'; epoch := p.epoch;
			ELSIF known AND epochs[i] = p.epoch AND pseqs[i] <= p.seq THEN
				status := 'repeated'; pseq := p.seq;
			ELSIF known AND epochs[i] > p.epoch AND pseqs[i] <> 0 THEN
				status := 'epoch';
			ELSIF producers[i] IS NOT NULL AND pseqs[i] > 0 AND NOT (known AND epochs[i] = p.epoch AND pseqs[i] = p.seq + 1) THEN
				status := 'gap'; pseq := CASE WHEN known THEN p.seq + 1 ELSE 0 END;
			ELSIF seqs[i] COLLATE "C" <= s.last_seq THEN
				status := 'seq';
			ELSE
				status := 'ok'; changed := true;
				more := more || datas[i];
				tail := tail + octet_length(datas[i]);
				s.last_seq := coalesce(seqs[i], s.last_seq);
				IF producers[i] IS NOT NULL THEN
					IF known THEN
						UPDATE streams.producer x SET epoch = epochs[i], seq = pseqs[i] WHERE x.stream_id = s.id AND x.producer = producers[i];
					ELSE
						INSERT INTO streams.producer VALUES (s.id, producers[i], epochs[i], pseqs[i]);
					END IF;
				END IF;
				IF closes[i] THEN
					s.closed := true; s.closed_by := coalesce(producers[i], ''); s.closed_epoch := coalesce(epochs[i], 0); s.closed_seq := coalesce(pseqs[i], 0);
				END IF;
			END IF;
			closed := s.closed;
			incarnation := CASE WHEN tail > s.source_bytes THEN s.incarnation ELSE streams.incarnation_at(s.id, tail) END;
			RETURN NEXT;
		END LOOP;
		IF changed THEN
			UPDATE streams.stream x SET data = x.data || more, last_seq = s.last_seq, closed = s.closed, closed_by = s.closed_by,
				closed_epoch = s.closed_epoch, closed_seq = s.closed_seq,
				touched = CASE WHEN x.ttl < 0 THEN x.touched ELSE clock_timestamp() END
			WHERE x.id = s.id;
			ids := ids || s.id;
		END IF;
		first := last + 1;
	END LOOP;
	IF told IS NOT NULL AND cardinality(ids) > 0 THEN
		PERFORM pg_notify('pg_lean_streams', told || array_to_string(ids, ','));
	END IF;
END $$;

-- Remove a stream whose row the caller has locked FOR UPDATE, and the sources above it that were kept only for it.  A source
-- is locked before its other forks are counted: of two last forks that are removed at once, the second sees that the
-- first is gone.
CREATE OR REPLACE FUNCTION streams.remove(by_id bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	source bigint;
	s streams.stream;
BEGIN
	LOOP
		DELETE FROM streams.stream x WHERE x.id = by_id RETURNING x.source_id INTO source;
		EXIT WHEN coalesce(source, 0) = 0;
		SELECT * INTO s FROM streams.stream x WHERE x.id = source FOR UPDATE;
		EXIT WHEN NOT FOUND OR NOT (s.deleted OR streams.is_expired(s)) OR streams.has_forks(s.id);
		by_id := s.id;
	END LOOP;
END $$;

CREATE OR REPLACE FUNCTION streams.delete_stream(old_path text) RETURNS TABLE (status text, stream_id bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s streams.stream;
BEGIN
	SELECT * INTO s FROM streams.stream x WHERE x.path = old_path FOR UPDATE;
	status := streams.state(s); stream_id := s.id;
	IF status = 'ok' AND streams.has_forks(s.id) THEN
		UPDATE streams.stream x SET deleted = true WHERE x.id = s.id;
		DELETE FROM streams.producer x WHERE x.stream_id = s.id;
	ELSIF status = 'ok' OR s.id IS NOT NULL AND status = 'none' THEN
		PERFORM streams.remove(s.id);
	END IF;
	RETURN NEXT;
END $$;

-- Create a stream.  A fork has the path of its source, and either an offset with its incarnation, or NULL for the source's end;
-- new_sub_bytes is the length in bytes of sub-offset new_sub.  A fork has the settings of its source except those that are given.
CREATE OR REPLACE FUNCTION streams.create_stream(new_path text, new_type text, new_media text, new_data bytea, new_closed boolean,
	new_ttl bigint, new_expires text, from_path text DEFAULT NULL, from_offset bigint DEFAULT NULL, from_incarnation bigint DEFAULT NULL,
	new_sub bigint DEFAULT 0, new_sub_bytes bigint DEFAULT 0)
RETURNS TABLE (status text, stream_id bigint, incarnation bigint, tail bigint, content_type text, closed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	s streams.stream;
	source streams.stream;
	source_tail bigint;
	fork boolean := from_path IS NOT NULL;
	inherits boolean := from_path IS NOT NULL AND new_ttl IS NULL AND new_expires IS NULL; -- the end of life
	at bigint := 0;
BEGIN
	-- again if another session creates or removes the stream between the statements
	FOR attempt IN 1 .. 20 LOOP
		SELECT * INTO s FROM streams.stream x WHERE x.path = new_path FOR UPDATE;
		IF FOUND THEN
			status := streams.state(s);
			IF status = 'none' THEN
				PERFORM streams.remove(s.id);
			ELSIF status = 'gone' THEN
				status := 'blocked';
				RETURN NEXT;
				RETURN;
			ELSE
				status := CASE WHEN (s.media = new_media OR new_media IS NULL) AND s.closed = new_closed
					AND (inherits OR s.ttl = coalesce(new_ttl, -1) AND s.expires = coalesce(new_expires, ''))
					AND s.forked_from = coalesce(from_path, '') AND (from_offset IS NULL OR s.fork_offset = from_offset)
					AND s.fork_sub = new_sub THEN 'exists' ELSE 'differs' END;
				EXIT;
			END IF;
		END IF;
		IF fork THEN
			-- its DELETE waits for this lock, and then sees the fork
			SELECT * INTO source FROM streams.stream x WHERE x.path = from_path FOR KEY SHARE;
			status := streams.state(source);
			source_tail := source.source_bytes + source.dropped + appendable_length(source.data);
			at := coalesce(from_offset, source_tail) + new_sub_bytes;
			status := CASE WHEN status = 'none' THEN 'no source'
				WHEN status = 'gone' THEN 'source gone'
				WHEN new_media <> source.media THEN 'media'
				WHEN source.fork_depth >= 1000 THEN 'depth'
				WHEN at IS NULL OR at > source_tail OR source.dropped > 0 AND at < source.source_bytes + source.dropped OR coalesce(from_offset, 0) > 0 AND from_incarnation <> streams.incarnation_at(source.id, from_offset)
					THEN 'offset'
				-- a message is not divided; that of the first byte that is kept begins there
				WHEN at > 0 AND source.media = 'application/json'
					AND (SELECT r.data FROM streams.read(NULL, source.id, at - 1, 1, false) r WHERE r.first < at) <> '\x0a' THEN 'offset' END;
			IF status IS NOT NULL THEN
				RETURN NEXT;
				RETURN;
			END IF;
		END IF;
		INSERT INTO streams.stream AS x (path, content_type, media, data, closed, ttl, expires, expires_at,
				incarnation, source_id, source_bytes, forked_from, fork_offset, fork_sub, fork_depth)
			VALUES (new_path, coalesce(new_type, source.content_type), coalesce(new_media, source.media), new_data, new_closed,
				CASE WHEN inherits THEN source.ttl ELSE coalesce(new_ttl, -1) END, CASE WHEN inherits THEN source.expires ELSE coalesce(new_expires, '') END,
				CASE WHEN inherits THEN source.expires_at ELSE coalesce(new_expires::timestamptz, 'infinity') END,
				-- offsets sort by position: the fork's incarnation is later than the source's
				CASE WHEN fork THEN source.incarnation + 1 + floor(random() * 9e11)::bigint ELSE 1 + floor(random() * 9e15)::bigint END,
				coalesce(source.id, 0), at, coalesce(from_path, ''), at - new_sub_bytes, new_sub, CASE WHEN fork THEN source.fork_depth + 1 ELSE 0 END)
			ON CONFLICT (path) DO NOTHING
			RETURNING * INTO s;
		IF FOUND THEN
			status := 'created';
			EXIT;
		END IF;
	END LOOP;
	IF s.id IS NULL THEN
		RAISE EXCEPTION 'stream "%" is one that this role cannot read', new_path USING ERRCODE = 'insufficient_privilege';
	END IF;
	stream_id := s.id; tail := s.source_bytes + s.dropped + appendable_length(s.data); content_type := s.content_type; closed := s.closed;
	incarnation := streams.incarnation_at(s.id, tail);
	RETURN NEXT;
END $$;

-- one that was made before bytes could be dropped has another result
DO $$ BEGIN
	IF (SELECT NOT 'first' = ANY (proargnames) FROM pg_proc WHERE oid = to_regprocedure('streams.read(text, bigint, bigint, int, boolean)')) THEN
		DROP FUNCTION streams.read(text, bigint, bigint, int, boolean);
	END IF;
END $$;

-- Bytes from an offset, or from "first" if those before it are no longer kept, at most max_bytes (a line that is longer comes complete); from NULL, the end.  "begins" and "incarnations"
-- are those of the stream, last, and of its sources as far up as the offset: where the bytes that each wrote begin.
CREATE OR REPLACE FUNCTION streams.read(by_path text, by_id bigint, from_offset bigint, max_bytes int, whole_lines boolean)
RETURNS TABLE (status text, stream_id bigint, incarnation bigint, content_type text, closed boolean, data bytea, next_offset bigint, tail bigint,
	ttl bigint, expires text, touch boolean, begins bigint[], incarnations bigint[], first bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
	s streams.stream;
	source record;
	piece record;
	ids bigint[];
	ends bigint[];                    -- where the next stream's bytes begin
	drops bigint[];
	end_of bigint;
	value appendable_bytea;
BEGIN
	IF by_id IS NOT NULL THEN
		SELECT * INTO s FROM streams.stream x WHERE x.id = by_id;
	ELSE
		SELECT * INTO s FROM streams.stream x WHERE x.path = by_path;
	END IF;
	status := streams.state(s);
	IF status <> 'ok' THEN
		RETURN NEXT;
		RETURN;
	END IF;
	stream_id := s.id; incarnation := s.incarnation; content_type := s.content_type; closed := s.closed; ttl := nullif(s.ttl, -1); expires := nullif(s.expires, '');
	tail := s.source_bytes + s.dropped + appendable_length(s.data);
	-- a read prolongs the life of the stream, but is not written each time
	touch := s.ttl >= 0 AND s.touched < clock_timestamp() - s.ttl * interval '0.05 s';
	whole_lines := whole_lines AND s.media = 'application/json';
	next_offset := least(coalesce(from_offset, tail), tail);

	ids := ARRAY[s.id]; begins := ARRAY[s.source_bytes]; incarnations := ARRAY[s.incarnation]; ends := ARRAY[tail]; drops := ARRAY[s.dropped];
	source := s;
	WHILE source.source_id <> 0 AND source.source_bytes >= next_offset AND source.dropped = 0 LOOP
		end_of := least(ends[1], source.source_bytes);
		SELECT x.id, x.source_id, x.source_bytes, x.incarnation, x.dropped INTO source FROM streams.stream x WHERE x.id = source.source_id;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'the source of stream "%" cannot be read', s.path USING ERRCODE = 'insufficient_privilege';
		END IF;
		ids := source.id || ids; begins := source.source_bytes || begins; incarnations := source.incarnation || incarnations; ends := end_of || ends;
		drops := source.dropped || drops;
	END LOOP;
	first := CASE WHEN source.dropped > 0 THEN least(source.source_bytes + source.dropped, ends[1]) ELSE 0 END;
	next_offset := greatest(next_offset, first);
	data := '';
	FOR i IN 1 .. cardinality(ids) LOOP
		CONTINUE WHEN next_offset >= ends[i];
		EXIT WHEN octet_length(data) >= max_bytes;
		IF ids[i] = s.id THEN
			value := s.data;
		ELSE
			SELECT x.data INTO value FROM streams.stream x WHERE x.id = ids[i];
		END IF;
		SELECT * INTO piece FROM appendable_tail(value, next_offset - begins[i] - drops[i],
			least(max_bytes - octet_length(data), ends[i] - next_offset)::int, whole_lines);
		data := CASE WHEN octet_length(data) = 0 THEN piece.data ELSE data || piece.data END;
		next_offset := begins[i] + drops[i] + piece.next_offset;
		EXIT WHEN next_offset < ends[i];
	END LOOP;
	RETURN NEXT;
END $$;

-- Where message n after an offset ends, of JSON; NULL if there are fewer.  The offset is one from which streams.read reads.
-- Messages of a source are found as in the stream, but count only up to where the next stream's bytes begin.
CREATE OR REPLACE FUNCTION streams.message_end(by_path text, from_offset bigint, n bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	part record;
	value appendable_bytea;
	begins bigint;                    -- offset of the first byte in "value"
	found_at bigint;
BEGIN
	FOR part IN WITH RECURSIVE parts AS (
			SELECT x.id, x.source_id, x.source_bytes, x.dropped, NULL::bigint AS ends, 0 AS depth FROM streams.stream x WHERE x.path = by_path
			UNION ALL SELECT x.id, x.source_id, x.source_bytes, x.dropped, least(p.ends, p.source_bytes), p.depth + 1
				FROM parts p JOIN streams.stream x ON x.id = p.source_id WHERE p.source_bytes > from_offset AND p.dropped = 0)
		SELECT * FROM parts ORDER BY depth DESC LOOP
		CONTINUE WHEN from_offset >= part.ends;
		SELECT x.data INTO value FROM streams.stream x WHERE x.id = part.id;
		begins := part.source_bytes + part.dropped;
		EXIT WHEN from_offset < begins OR from_offset > begins + appendable_length(value);
		found_at := begins + appendable_line_offset(value, from_offset - begins, n);
		IF part.ends IS NULL OR found_at <= part.ends THEN
			RETURN found_at;
		END IF;
		n := n - (SELECT count(*) FROM (SELECT (appendable_lines(value, from_offset - begins, false)).next_offset LIMIT n) l WHERE begins + l.next_offset <= part.ends);
		from_offset := part.ends;
	END LOOP;
	RETURN NULL;
END $$;

-- Retention: keep no bytes before an offset, which is one of the stream's own and in JSON the end of a message.  Returns how many were
-- dropped.  The offsets of the others stay the same; reads before them are refused.
CREATE OR REPLACE FUNCTION streams.drop_front(of_path text, before bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s streams.stream;
	n bigint;
BEGIN
	SELECT * INTO s FROM streams.stream x WHERE x.path = of_path FOR NO KEY UPDATE;
	IF streams.state(s) <> 'ok' THEN
		RAISE EXCEPTION 'stream "%" does not exist', of_path USING ERRCODE = 'no_data_found';
	END IF;
	n := before - s.source_bytes - s.dropped;
	IF n > appendable_length(s.data) THEN
		RAISE EXCEPTION 'offset % is beyond the end of stream "%", %', before, of_path, before - n + appendable_length(s.data) USING ERRCODE = 'invalid_parameter_value';
	ELSIF n > 0 AND s.media = 'application/json' AND appendable_get_byte(s.data, n - 1) <> 10 THEN
		RAISE EXCEPTION 'offset % of stream "%" is inside a message', before, of_path USING ERRCODE = 'invalid_parameter_value';
	ELSIF n > 0 THEN
		UPDATE streams.stream x SET data = appendable_drop_front(x.data, n), dropped = x.dropped + n WHERE x.id = s.id;
	END IF;
	RETURN greatest(n, 0);
END $$;

CREATE OR REPLACE FUNCTION streams.remove_expired() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s streams.stream;
	n bigint := 0;
BEGIN
	-- one server's turn at a time
	IF NOT pg_try_advisory_xact_lock(hashtext('streams.remove_expired')) THEN
		RETURN 0;
	END IF;
	FOR s IN SELECT * FROM streams.stream x WHERE (x.ttl >= 0 OR x.expires_at < 'infinity') AND streams.is_expired(x) FOR UPDATE SKIP LOCKED LOOP
		IF NOT streams.has_forks(s.id) THEN
			PERFORM streams.remove(s.id);
			n := n + 1;
		END IF;
	END LOOP;
	RETURN n;
END $$;
