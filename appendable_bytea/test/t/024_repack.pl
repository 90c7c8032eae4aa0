# pg_repack repacks the other tables of a database, and names those that it cannot repack.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('repack');
my $program = $node->config_data('--bindir') . '/pg_repack';
plan skip_all => 'pg_repack is not installed' unless -x $program;
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'appendable_bytea'\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION appendable_bytea;
CREATE EXTENSION pg_repack;
CREATE TABLE a_plain (id int PRIMARY KEY, data bytea);
CREATE TABLE logs (id int PRIMARY KEY, log appendable_text);
CREATE TABLE z_plain (id int PRIMARY KEY, data bytea);
INSERT INTO logs SELECT n, repeat('l', 5000) FROM generate_series(1, 10) n;
INSERT INTO a_plain SELECT id, log::text::bytea FROM logs;
INSERT INTO z_plain TABLE a_plain;
DELETE FROM a_plain WHERE id > 3;
DELETE FROM z_plain WHERE id > 3;
});

sub files { $node->safe_psql('postgres', q{SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('a_plain', 'z_plain', 'logs')}) }
sub slurp_output { my ($stdout, $stderr) = run_command([ $_[0], '--version' ]); return $stdout }

sub repack
{
	my ($name, @options) = @_;
	my @before = split / /, files();
	my ($stdout, $stderr) = run_command([ $program, '-h', $node->host, '-p', $node->port, '-d', 'postgres', @options ]);
	my @after = split / /, files();
	isnt($after[0], $before[0], "$name: a table before it is repacked") or diag("$stdout\n$stderr");
	is($after[1], $before[1], "$name: a table with columns of the type is not");
	return ($stdout, $stderr, $after[2] ne $before[2]);
}

my ($stdout, $stderr, $next) = repack('a database without the extension', '-C', 'appendable_bytea');
ok($next, 'and one after it');
unlike($stderr, qr/^ERROR/m, 'there is no error');

# A table that it cannot lock is skipped since 1.5.3; before, pg_repack ends there.
($stdout, $stderr, $next) = repack('a database');
like($stdout, qr/table "logs" cannot be repacked because it has columns of type/, 'the table is named');
my ($major, $minor, $patch) = slurp_output($program) =~ /(\d+)\.(\d+)\.(\d+)/;
is($next, $major > 1 || $minor > 5 || ($minor == 5 && $patch > 2), "and one after it is repacked, since 1.5.3 (this is $major.$minor.$patch)");
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'repack'::regnamespace AND relname ~ '^(log|table)_[0-9]'}), '0', 'nothing is left behind');
is($node->safe_psql('postgres', q{SELECT count(*), bool_and(log = repeat('l', 5000)) FROM logs}), '10|t', 'its values are right');
is($node->safe_psql('postgres', q{SELECT count(*) FROM appendable_bytea_check()}), '0', 'and intact');
$node->stop;
done_testing();
