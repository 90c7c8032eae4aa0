-- Streams that HTTP clients write: a row each, in ordinary tables.  Everything that must
-- survive is in them, so that what is rolled back or lost takes bytes, close mark
-- and producers together.  "streams -setup" runs this file; it changes nothing the second time.
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE SCHEMA IF NOT EXISTS streams;

CREATE TABLE IF NOT EXISTS streams.stream (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	path         text COLLATE "C" NOT NULL UNIQUE,
	content_type text NOT NULL,                        -- as the client wrote it
	media        text NOT NULL,                        -- in lower case, without parameters
	data         appendable_bytea NOT NULL DEFAULT '', -- of JSON: one message a line
	-- a stream created again under the same path has other offsets
	incarnation  bigint NOT NULL DEFAULT 1 + floor(random() * 9e15)::bigint,
	closed       boolean NOT NULL DEFAULT false,
	closed_by    text COLLATE "C",                     -- the producer's request that closed it
	closed_epoch bigint,
	closed_seq   bigint,
	last_seq     text COLLATE "C",                     -- the last Stream-Seq
	ttl          bigint,                               -- in seconds, since "touched"
	expires      text,                                 -- as the client wrote it
	expires_at   timestamptz,
	touched      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);

-- In a separate table: in the row, an append would log the state of all producers.
CREATE TABLE IF NOT EXISTS streams.producer (
	stream_id bigint NOT NULL REFERENCES streams.stream ON DELETE CASCADE,
	producer  text COLLATE "C" NOT NULL,
	epoch     bigint NOT NULL,
	seq       bigint NOT NULL,
	PRIMARY KEY (stream_id, producer)
) WITH (fillfactor = 80);

CREATE OR REPLACE FUNCTION streams.refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT NEW.closed OR appendable_length(NEW.data) <> appendable_length(OLD.data) THEN
		RAISE EXCEPTION 'stream "%" is closed', OLD.path USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER zz_closed BEFORE UPDATE ON streams.stream FOR EACH ROW
	WHEN (OLD.closed) EXECUTE FUNCTION streams.refuse_closed();
CREATE OR REPLACE TRIGGER zz_only BEFORE UPDATE ON streams.stream FOR EACH ROW EXECUTE FUNCTION appendable_only('data');

-- Writers in SQL notify in their transaction.  The server notifies after its commits, because
-- transactions that notify commit one at a time.
CREATE OR REPLACE TRIGGER notify AFTER DELETE OR UPDATE OF data, closed ON streams.stream FOR EACH ROW
	WHEN (current_setting('streams.quiet', true) IS DISTINCT FROM 'on')
	EXECUTE FUNCTION appendable_notify('pg_lean_streams', 'id');

CREATE OR REPLACE FUNCTION streams.is_expired(s streams.stream) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(s.expires_at <= clock_timestamp(), false)
	OR coalesce(s.touched + s.ttl * interval '1 s' <= clock_timestamp(), false) $$;

-- Append request n of the arrays to paths[n]; requests of one path are adjacent and are one
-- UPDATE.  A refusal is a row with its reason, not an error: others of the batch are not its victims.
-- With skip_locked, a stream whose row another transaction holds is "locked" instead of waited for.
CREATE OR REPLACE FUNCTION streams.append(paths text[], medias text[], datas bytea[], closes boolean[], seqs text[],
	producers text[], epochs bigint[], pseqs bigint[], skip_locked boolean)
RETURNS TABLE (n int, status text, stream_id bigint, incarnation bigint, tail bigint, closed boolean, epoch bigint, pseq bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	first int := 1;
	last int;
	s streams.stream;
	p streams.producer; -- the state of its producer, if known
	known boolean;
	more bytea;
	changed boolean;
BEGIN
	WHILE first <= cardinality(paths) LOOP
		last := first;
		WHILE last < cardinality(paths) AND paths[last + 1] = paths[first] LOOP
			last := last + 1;
		END LOOP;
		IF skip_locked THEN
			SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE SKIP LOCKED;
		ELSE
			SELECT * INTO s FROM streams.stream x WHERE x.path = paths[first] FOR NO KEY UPDATE;
		END IF;
		IF s.id IS NULL OR streams.is_expired(s) THEN
			status := CASE WHEN s.id IS NULL AND skip_locked AND EXISTS (SELECT FROM streams.stream x WHERE x.path = paths[first])
				THEN 'locked' ELSE 'none' END;
			FOR i IN first .. last LOOP
				n := i;
				RETURN NEXT;
			END LOOP;
			first := last + 1;
			CONTINUE;
		END IF;
		stream_id := s.id; incarnation := s.incarnation; tail := appendable_length(s.data);
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
					s.closed := true; s.closed_by := producers[i]; s.closed_epoch := epochs[i]; s.closed_seq := pseqs[i];
				END IF;
			END IF;
			closed := s.closed;
			RETURN NEXT;
		END LOOP;
		IF changed THEN
			UPDATE streams.stream x SET data = x.data || more, last_seq = s.last_seq, closed = s.closed, closed_by = s.closed_by,
				closed_epoch = s.closed_epoch, closed_seq = s.closed_seq,
				touched = CASE WHEN x.ttl IS NULL THEN x.touched ELSE clock_timestamp() END
			WHERE x.id = s.id;
		END IF;
		first := last + 1;
	END LOOP;
END $$;

CREATE OR REPLACE FUNCTION streams.create_stream(new_path text, new_type text, new_media text, new_data bytea, new_closed boolean,
	new_ttl bigint, new_expires text)
RETURNS TABLE (status text, stream_id bigint, incarnation bigint, tail bigint, content_type text, closed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	s streams.stream;
BEGIN
	LOOP
		INSERT INTO streams.stream AS x (path, content_type, media, data, closed, ttl, expires, expires_at)
			VALUES (new_path, new_type, new_media, new_data, new_closed, new_ttl, new_expires, new_expires::timestamptz)
			ON CONFLICT (path) DO NOTHING
			RETURNING * INTO s;
		IF FOUND THEN
			status := 'created';
			EXIT;
		END IF;
		SELECT * INTO s FROM streams.stream x WHERE x.path = new_path FOR UPDATE;
		CONTINUE WHEN NOT FOUND;
		IF streams.is_expired(s) THEN
			DELETE FROM streams.stream x WHERE x.id = s.id;
			CONTINUE;
		END IF;
		status := CASE WHEN s.media = new_media AND s.closed = new_closed AND s.ttl IS NOT DISTINCT FROM new_ttl
			AND s.expires IS NOT DISTINCT FROM new_expires THEN 'exists' ELSE 'differs' END;
		EXIT;
	END LOOP;
	stream_id := s.id; incarnation := s.incarnation; tail := appendable_length(s.data); content_type := s.content_type; closed := s.closed;
	RETURN NEXT;
END $$;

-- Bytes from an offset, at most max_bytes (a line that is longer comes complete); from NULL, the end.
CREATE OR REPLACE FUNCTION streams.read(by_path text, by_id bigint, from_offset bigint, max_bytes int, whole_lines boolean)
RETURNS TABLE (stream_id bigint, incarnation bigint, content_type text, closed boolean, data bytea, next_offset bigint, tail bigint,
	ttl bigint, expires text, touch boolean)
LANGUAGE sql STABLE AS $$
	SELECT s.id, s.incarnation, s.content_type, s.closed, t.data, t.next_offset, appendable_length(s.data), s.ttl, s.expires,
		-- a read prolongs the life of the stream, but is not written each time
		s.ttl IS NOT NULL AND s.touched < clock_timestamp() - s.ttl * interval '0.05 s'
	FROM streams.stream s, appendable_tail(s.data, least(coalesce(from_offset, appendable_length(s.data)), appendable_length(s.data)),
		max_bytes, whole_lines AND s.media = 'application/json') t
	WHERE (s.path = by_path OR by_path IS NULL) AND (s.id = by_id OR by_id IS NULL) AND NOT streams.is_expired(s)
$$;

CREATE OR REPLACE FUNCTION streams.remove_expired() RETURNS bigint LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM streams.stream s WHERE (s.ttl IS NOT NULL OR s.expires_at IS NOT NULL) AND streams.is_expired(s) RETURNING 1)
	SELECT count(*) FROM gone
$$;
