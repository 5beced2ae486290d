#!/bin/bash
# perl: hashes, regular expressions, sorting, strings that grow.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need perl
cat >script.pl <<'END'
use strict;
my (%count, @words);
srand 42;
for my $i (1 .. 60000) {
	my $word = join '', map { chr 97 + int rand 4 } 1 .. 1 + rand 6;
	$count{$word}++;
	push @words, $word if $i % 7 == 0;
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for @top[0 .. 50];
my $text = '';
$text .= "$_ " for @words;
my $n = () = $text =~ /\b(a+b|c+d)\w*\b/g;
print length $text, " $n\n";
(my $turned = $text) =~ s/(\w)(\w)/$2$1/g;
print unpack('%32C*', $turned), "\n";
my @tree = map { { name => $_, list => [1 .. $_ % 50] } } 1 .. 3000;
my $sum = 0;
$sum += scalar @{$_->{list}} for @tree;
print "$sum\n";
if ((my $pid = fork) == 0) {
	my @more = map { "x" x $_ } 1 .. 2000;
	exit length($more[-1]) == 2000 ? 7 : 1;
}
wait;
print $? >> 8, "\n";
END
run() { with "$1" env PERL_HASH_SEED=0 perl ../script.pl; }
in_each run
