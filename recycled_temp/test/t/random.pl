# Random sessions of CREATE, DROP, savepoints, rows, keys, VACUUM, ANALYZE and changes of
# pooled tables by name: each session prints the same with the pool off and on.
# Rows that a session writes into a pooled table stay in the file, as any dead rows do, if
# the DROP is rolled back: from there on it does not print lengths of files.
# RECYCLED_STATEMENTS sets the number of statements (default 700), RECYCLED_SEED the first seed.
# RECYCLED_STATE names a file that keeps counts and the next seed after each session: the
# test continues from there (ci/random.sh).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $wanted = $ENV{RECYCLED_STATEMENTS} // 700;
my $seed = $ENV{RECYCLED_SEED} // 1;
my $state = $ENV{RECYCLED_STATE};
my $node = PostgreSQL::Test::Cluster->new('random');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'recycled_temp'
recycled_temp.after_drops = 1
recycled_temp.max_tables = 6
autovacuum = off
fsync = off
CONF
$node->append_conf('postgresql.conf', $ENV{RECYCLED_CONF}) if $ENV{RECYCLED_CONF};
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION recycled_temp');
my $amcheck = -e $node->config_data('--sharedir') . '/extension/amcheck.control';
$node->safe_psql('postgres', 'CREATE EXTENSION amcheck') if $amcheck;

my @shapes = (
	'(a int, b text)', '(a int, b int, c int)', '(a int PRIMARY KEY, b text)',
	'(a int NOT NULL, b text, UNIQUE (a))', '(a int, b text, c int DEFAULT 3)', '(a int, b varchar(20))',
	'(a int PRIMARY KEY, b text DEFAULT \'d\', c int UNIQUE)', '(a int, b text DEFAULT CURRENT_USER)');
my @kinds = ('ANALYZE %s', 'TRUNCATE %s', 'CREATE INDEX ON %s (a)', 'COMMENT ON TABLE %s IS \'x\'', 'GRANT SELECT ON %s TO PUBLIC',
	'ALTER TABLE %s ALTER a SET STATISTICS 7', 'ALTER TABLE %s RENAME b TO z', 'INSERT INTO %s SELECT g, g FROM generate_series(1, 40) g',
	'REINDEX TABLE %s', 'DROP TABLE %s', 'GRANT SELECT (ctid) ON %s TO PUBLIC', 'ALTER TABLE %s ALTER b SET DEFAULT 5', 'DELETE FROM %s',
	'ALTER TABLE %s ALTER b TYPE varchar(30)', 'ALTER TABLE %s ADD z int', 'ALTER TABLE %s ALTER b SET NOT NULL');

# The statements of one session, with a model of its tables to keep errors rare.
sub statements
{
	my (%there, @levels, @lines);
	my $in = 0;
	my $pages = 'relpages, ';
	my $pick = sub { my @names = sort keys %there; return @names ? $names[rand @names] : undef };
	for (1 .. 120)
	{
		my $dice = rand 100;
		my $name = $pick->();
		if ($dice < 24 || !defined $name)
		{
			my $new = 't' . int(rand 4);
			next if $there{$new} && rand > 0.05;
			my $shape = int(rand @shapes);
			my $on = $in ? ('', '', ' ON COMMIT DROP', ' ON COMMIT DELETE ROWS')[rand 4] : '';
			if (rand() < 0.2)
			{
				push @lines, "CREATE TEMP TABLE $new$on AS SELECT g AS a, 'x' || g AS b FROM generate_series(1, " . int(rand 30) . ") g;";
				$shape = 0;
			}
			else { push @lines, "CREATE TEMP TABLE $new $shapes[$shape]$on;" }
			$there{$new} //= { shape => $shape, drop => !!($on =~ /DROP/) };
		}
		elsif ($dice < 44)
		{
			push @lines, "DROP TABLE $name;";
			delete $there{$name};
		}
		elsif ($dice < 60)
		{
			my $n = int(rand 60);
			my $from = int(rand 4) * 1000;
			my $text = $there{$name}{shape} == 0 && rand() < 0.3 ? "repeat(md5(g::text), 200)" : 'g';
			push @lines, "INSERT INTO $name SELECT g, $text FROM generate_series($from, $from + $n) g" . ($there{$name}{shape} =~ /[236]/ ? ' ON CONFLICT DO NOTHING;' : ';');
		}
		elsif ($dice < 66) { push @lines, "DELETE FROM $name WHERE a % 3 = " . int(rand 3) . ";" }
		elsif ($dice < 70) { push @lines, "CREATE INDEX ON $name (a);" }
		elsif ($dice < 72) { push @lines, "ANALYZE $name;" }
		elsif ($dice < 74 && !$in) { push @lines, rand() < 0.5 ? "VACUUM $name;" : 'VACUUM (SKIP_LOCKED);' }
		elsif ($dice < 76) { push @lines, "TRUNCATE $name;" }
		elsif ($dice < 79)
		{
			my $kind = $kinds[rand @kinds];
			$pages = '' if $in && $kind =~ /^(INSERT|DELETE)/;
			push @lines, "DO \$\$ DECLARE r regclass; BEGIN PERFORM set_config('client_min_messages', 'error', true); FOR r IN SELECT oid FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relname ~ '^pg_temp_recycled' AND relkind = 'r' LOOP "
			  . "BEGIN EXECUTE format('" . ($kind =~ s/'/''/gr) . "', r); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END \$\$;";
		}
		elsif ($dice < 85)
		{
			if (!$in)
			{
				push @lines, 'BEGIN;';
				$in = 1;
				@levels = ({ %there });
			}
			else
			{
				push @lines, 'SAVEPOINT s' . scalar(@levels) . ';';
				push @levels, { %there };
			}
		}
		elsif ($dice < 92 && $in)
		{
			if (rand() < 0.5 && @levels > 1)
			{
				my $to = 1 + int(rand(@levels - 1));
				push @lines, "ROLLBACK TO s$to;";
				%there = %{ $levels[$to] };
				$#levels = $to;
			}
			elsif (rand() < 0.6)
			{
				push @lines, 'COMMIT;';
				$in = 0;
				delete $there{$_} for grep { $there{$_}{drop} } keys %there;
			}
			else
			{
				push @lines, 'ROLLBACK;';
				$in = 0;
				%there = %{ $levels[0] };
			}
		}
		else
		{
			push @lines, "SELECT count(*), min(a), max(a), sum(length(b::text)) FROM $name;";
			push @lines, "SET enable_seqscan = off;", "SELECT count(*) FROM $name WHERE a BETWEEN 0 AND 1020;", "RESET enable_seqscan;";
			push @lines, "SELECT count(bt_index_check(indexrelid, true)) FROM pg_index WHERE indrelid = '$name'::regclass;" if $amcheck;
			push @lines, "SELECT ${pages}reltuples, relhasindex, relchecks, relacl FROM pg_class WHERE oid = '$name'::regclass;";
		}
	}
	push @lines, 'COMMIT;' if $in;
	return @lines;
}

my ($count, $errors, $reused, @different) = (0, 0, 0);
($seed, $count, $errors, $reused, @different) = split ' ', slurp_file($state) if defined $state && -e $state;
while ($count < $wanted)
{
	srand $seed;
	my @lines = statements();
	my %printed;
	for my $mode ('off', 'on')
	{
		my ($rc, $out, $err) = $node->psql('postgres', join("\n", "SET recycled_temp.enabled = $mode;", @lines, '\o | cat >&2', 'SELECT reused FROM recycled_temp_status();'), on_error_stop => 0);
		$reused += $1 if $err =~ s/^(\d+)$//m;
		$printed{$mode} = $out . "\n" . $err =~ s/pg_temp_\d+/pg_temp_N/gr =~ s/\s+\z//r;
	}
	$count += @lines;
	$errors += () = $printed{on} =~ /ERROR:/g;
	push @different, $seed if $printed{off} ne $printed{on};
	if (@different == 1 && $different[0] == $seed)
	{
		my $base = "$PostgreSQL::Test::Utils::tmp_check/random.$seed";
		PostgreSQL::Test::Utils::append_to_file("$base.sql", join("\n", @lines, ''));
		PostgreSQL::Test::Utils::append_to_file("$base.$_", $printed{$_}) for 'off', 'on';
		diag "seed $seed: see $base.sql, .off and .on";
	}
	$seed++;
	if (defined $state)
	{
		open(my $file, '>', "$state.new") or die "$state.new: $!";
		print $file "$seed $count $errors $reused @different\n";
		close($file) or die "$state.new: $!";
		rename("$state.new", $state) or die "$state: $!";
	}
}
is("@different", '', "$count statements, $reused tables reused: the same with the pool");
cmp_ok($errors / $count, '<', 0.3, 'few statements fail');
cmp_ok($reused, '>', $count / 100, 'tables were reused');
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'no process died');
diag "$count statements, $errors errors, $reused tables reused, different: " . scalar(@different) if defined $state;
done_testing();
