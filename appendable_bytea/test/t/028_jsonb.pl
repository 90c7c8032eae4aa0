# Random documents, paths and changes of jsonb and of appendable_jsonb, and damaged documents:
# test/jsonb.py.
#
# STRESS_SECONDS sets how long each of them takes (default 8).
# Slow: four runs of random changes, each of which is read in many ways
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'python3 is not installed' if system('python3 -c "import random" 2>/dev/null') != 0;
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;

my $node = PostgreSQL::Test::Cluster->new('jsonb');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nfsync = off\nrestart_after_crash = off\n");
$node->start;
my @command = ('python3', 'test/jsonb.py', '--host', $node->host, '--port', $node->port, '--user', scalar getpwuid($<), '--seconds', $ENV{STRESS_SECONDS} || 8);

foreach my $run ([ 'random documents, small seed', '--seed', 1 ], [ 'random documents' ], [ 'damaged documents, small seed', '--damage', '--seed', 1 ], [ 'damaged documents', '--damage' ])
{
	my ($name, @options) = @$run;
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ @command, @options ], '>', \$out, '2>', \$err), $name) or diag(substr("$out$err", 0, 4000));
	note($out);
}
is($node->safe_psql('postgres', 'SELECT 1'), '1', 'the server is there');

# Forged headers and offsets of a large document in chunks, one by one.
$node->safe_psql('postgres', q{
CREATE TABLE forged (id int PRIMARY KEY, own appendable_jsonb);
SET appendable_bytea.compress_new = off;
CREATE FUNCTION number(n int8) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT decode(string_agg(lpad(to_hex((n >> s) & 255), 2, '0'), '' ORDER BY s), 'hex') FROM unnest('{0,8,16,24}'::int[]) s $$;
CREATE FUNCTION answer(change text, expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text;
BEGIN
	DELETE FROM forged;
	EXECUTE format('INSERT INTO forged SELECT 1, forge(%s) FROM (SELECT raw((jsonb_build_object(''a'', 1.5, ''l'', jsonb_agg(repeat(md5(i::text), 10)), ''s'', ''text'', ''t'', true) || ''{"o": {"x": "deep"}}'')::appendable_jsonb) AS b FROM generate_series(1, 100) i) q', change);
	EXECUTE format('SELECT (%s)::text FROM forged', expression) INTO a;
	RETURN coalesce(left(a, 20), 'null');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
});
my $is_little = unpack('h*', pack('s', 1)) =~ /^1/;
SKIP:
{
	skip 'the bytes are those of another order', 1 unless $is_little;
	# the root has five keys: a l o s t; entries at 4, data at 44: "alost", then 1.5 (aligned), the array, ...
	my @cases = (
		[ 'b', q{own -> 'a'}, '1.5' ],
		[ 'b', q{own #>> '{o,x}'}, 'deep' ],
		[ 'number(1) || substr(b, 5)', q{own -> 'a'}, 'damage' ],
		[ 'number(x\'60000005\'::int) || substr(b, 5)', q{own -> 'a'}, 'damage' ],
		[ 'number(x\'30000001\'::int) || substr(b, 5)', q{own -> 'a'}, 'damage' ],
		[ 'number(x\'2fffffff\'::int) || substr(b, 5)', q{own ? 'a'}, 'damage' ],
		[ 'number(x\'4fffffff\'::int) || substr(b, 5)', q{jsonb_array_length(own)}, 'damage' ],
		[ 'overlay(b PLACING number(x\'0fffffff\'::int) FROM 5)', q{own -> 'a'}, 'damage' ],
		[ 'overlay(b PLACING number(x\'10000001\'::int) FROM 13)', q{own -> 'o'}, 'damage' ],
		[ 'overlay(b PLACING number(x\'1fffffff\'::int) FROM 25)', q{own -> 'a'}, 'damage' ],
		[ 'overlay(b PLACING number(x\'60000010\'::int) FROM 25)', q{own -> 'a'}, 'damage' ],
		[ 'overlay(b PLACING number(x\'10000001\'::int) FROM 25)', q{own -> 'a'}, 'damage' ],
		[ 'overlay(b PLACING \'\x04000000\'::bytea FROM 53)', q{own -> 'a'}, 'damage' ],
		[ 'overlay(b PLACING \'\xff\'::bytea FROM 68)', q{own -> 'l'}, 'damage' ],
		[ 'overlay(b PLACING \'\xff\'::bytea FROM 68)', q{own ->> 'a'}, '1.5' ],
		[ 'substr(b, 1, length(b) - 1)', q{own -> 's'}, 'damage' ],
		[ 'substr(b, 1, length(b) - 1)', q{own #>> '{o,x}'}, 'deep' ],
		[ 'substr(b, 1, 20000)', q{own -> 's'}, 'damage' ],
		[ 'substr(b, 1, 20000)', q{own ->> 'a'}, '1.5' ],
		[ 'substr(b, 1, 3)', q{own -> 'a'}, 'damage' ],
		[ "''::bytea", q{own -> 'a'}, 'damage' ],
		[ 'substr(b, 1, length(b) - 1)', q{own}, 'damage' ]);
	foreach my $case (@cases)
	{
		my ($change, $expression, $wanted) = @$case;
		my $quoted = $change =~ s/'/''/gr;
		my $read = $expression =~ s/'/''/gr;
		my $found = $node->safe_psql('postgres', "SELECT answer('$quoted', '$read')");
		is($found, $wanted eq 'damage' ? 'XX001 invalid appendable value' : $wanted, "$expression of $change");
	}
}
$node->stop;
done_testing();
