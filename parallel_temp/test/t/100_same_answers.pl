# Every statement of test/diff/*.sql gives the same answer with parallel_temp off
# and on: both methods, several sizes of temp_buffers and counts of workers.
#
# PG_LEAN_LONG=1 runs every combination and the tables of more than one segment.
# PG_LEAN_DIFF=NAME runs only the scripts whose name matches.
# Slow: hundreds of statements, with each method

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../diff";
use SameAnswers qw(start_server has_setting parse_script run_all differences planned_parallel bad_log_lines force_parallel);
use PostgreSQL::Test::Utils;
use Test::More;

my $long = $ENV{PG_LEAN_LONG};
my $only = $ENV{PG_LEAN_DIFF};

my $node = start_server('same_answers');
my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE pt_space LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE ROLE pt_reader');
$node->safe_psql('template1', 'CREATE EXTENSION parallel_temp');

my $there = has_setting($node, 'parallel_temp.method');
my $force = force_parallel($node);

# In all runs parallel plans cost nothing, so that permanent tables go parallel
# with the library off as well.  (A start of workers costs a little, or a Gather is
# planned to be run again for each row of another table.)
my %common = (
	min_parallel_table_scan_size => 0,
	min_parallel_index_scan_size => 0,
	parallel_setup_cost => 1,
	parallel_tuple_cost => 0,
	max_parallel_workers_per_gather => 2,
	statement_timeout => '60s',
	'parallel_temp.flush_page_cost' => 0,
	'parallel_temp.scan_buffer_cost' => 0, 'parallel_temp.worker_start_cost' => 500, 'parallel_temp.enter_page_cost' => 0,
	jit => 'off');
my %log_plans = (log_statement => 'all', debug_print_plan => 'on', debug_pretty_print => 'off');

my %config = (
	'share-1024' => { %log_plans, method => 'share', temp_buffers => 1024 },
	'share-100' => { method => 'share', temp_buffers => 100, 'parallel_temp.statistics' => 'on', parallel_leader_participation => 'off', 'parallel_temp.debug_pool_read' => 'copy' },
	'flush-1024' => { %log_plans, method => 'flush', temp_buffers => 1024, parallel_leader_participation => 'off', 'parallel_temp.debug_batch_pages' => 128 },
	'flush-100' => { method => 'flush', temp_buffers => 100, max_parallel_workers_per_gather => 4, 'parallel_temp.debug_batch_pages' => 1 },
	'auto-forced' => { method => 'auto', temp_buffers => 300, max_parallel_workers_per_gather => 1, $force => 'on' },
	'auto-no-workers' => { method => 'auto', temp_buffers => 8192, 'parallel_temp.statistics' => 'on', max_parallel_workers => 0 });
my @usual = keys %config;
if ($long)
{
	for my $method (qw(share flush auto))
	{
		for my $buffers (100, 300, 1024, 8192)
		{
			for my $workers (1, 2, 4)
			{
				for my $forced ('off', 'on')
				{
					$config{"$method-$buffers-$workers-$forced"} =
					  { method => $method, temp_buffers => $buffers, max_parallel_workers_per_gather => $workers, $force => $forced };
				}
			}
		}
	}
}

# Workers of 19 use no indexes: the server's code would write visibility maps there.
my $index_access = $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;
my $asked = 0;
my %pages = (filled => 0, written => 0);
for my $path (sort glob "$FindBin::RealBin/../diff/*.sql")
{
	my ($file) = $path =~ m{([^/]+)\.sql$};
	next if $only && $file !~ /$only/;
	next if $file =~ /long/ && !$long;
	my @blocks = parse_script($path);

	# At the end nothing may be left of any scan.
	push @blocks, { line => 'end', text => "ROLLBACK;\nSET search_path = public;\nSELECT count(*) FROM pg_local_buffers WHERE pins <> 0;\n" };
	my @told = (@blocks, { line => 'told', text => "SELECT counter, value FROM parallel_temp_stats WHERE counter LIKE 'pages % by workers';\n" });
	my @jobs = { name => "$file-off", blocks => \@blocks, settings => { %common, temp_buffers => 1024, 'parallel_temp.enabled' => 'off', 'parallel_temp.fast_load' => 'off' } };
	# A table of more than a gigabyte is made for the usual ones alone.
	my @names = sort $file =~ /long/ ? @usual : keys %config;
	for my $name (@names)
	{
		my %setting = (%common, %{ $config{$name} });
		my $method = delete $setting{method};
		$setting{'parallel_temp.method'} = $method if $there;
		push @jobs, { name => "$file-$name", blocks => $there ? \@told : \@blocks, settings => \%setting };
	}
	my $from = -s $node->logfile;
	my $outcome = run_all($node, 2, @jobs);
	my $log = slurp_file($node->logfile, $from);
	my @lost = grep { !defined $outcome->{"$file-off"}[$_]{out} } 0 .. $#blocks;
	is(scalar @lost, 0, "$file: the stock run finished");
	for my $name (@names)
	{
		my @reports = differences(\@blocks, $outcome->{"$file-off"}, $outcome->{"$file-$name"});
		my $told = $there ? $outcome->{"$file-$name"}[-1]{out} // '' : '';
		$pages{$1} += $2 while $told =~ /pages (\w+) by workers\|(\d+)/g;
		is(scalar @reports, 0, "$file: $name answers as stock does (" . @blocks . ' blocks)');
		diag("$file.sql, $name, $_") for @reports[ 0 .. ($#reports < 5 ? $#reports : 5) ];
		diag(@reports - 6 . " more") if @reports > 6;
	}
	is(join("\n", bad_log_lines($log)), '', "$file: no leak and no crash in the log");

	# The suite proves nothing unless plans really were parallel.
	next unless $there;
	my $planned = planned_parallel($log);
	my %parallel;
	for my $run (values %$planned)
	{
		$parallel{$_} .= $run->{$_} for keys %$run;
	}
	my @serial;
	for my $block (grep { $_->{parallel} || $_->{index} && $index_access } @blocks)
	{
		$asked++;
		my $way = $block->{index} ? 'index' : 'parallel';
		(my $text = $block->{text}) =~ s/\s+//g;
		push @serial, $block unless grep { $parallel{$_} =~ /$way/ && index($text, $_) >= 0 } keys %parallel;
	}
	is(scalar @serial, 0, "$file: what must go parallel did (" . scalar(keys %parallel) . ' statements did)');
	diag("$file.sql, line $_->{line}, was not parallel:\n$_->{text}") for @serial;
}

SKIP:
{
	skip 'this build has no parallel scan of temporary tables', 3 unless $there;
	skip 'some scripts were left out', 3 if $only && $only !~ /fill/;
	cmp_ok($pages{$_}, '>', 100, "workers have $_ pages") for sort keys %pages;
	skip 'some scripts were left out', 1 if $only;
	cmp_ok($asked, '>', 100, 'enough statements were asked to go parallel');
}

$node->stop;
done_testing();
