# work.pl - a fixed piece of work for Perl: hashes, strings, patterns
use strict;
use warnings;

my $n = $ARGV[0];
my $seed = 42;
sub some { $seed = ($seed * 1103515245 + 12345) % 2147483648; $seed % $_[0] }

my (%count, @list);
for my $i (1 .. $n) {
	my $word = sprintf("%x-%d", some(5000), some(40));
	$count{$word}++;
	push @list, { id => $i, word => $word, tags => [split /-/, $word] };
}
my $text = join " ", map { $_->{word} } @list;
my $matches = () = $text =~ /\b([0-9a-f]+)-(\d+)\b/g;
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my %bylen;
push @{ $bylen{length $_->{word}} }, $_->{id} for @list;
my $sum = 0;
for my $round (1 .. 5) {
	my @copy = map { { %$_ } } @list;
	$sum += scalar grep { $_->{id} % 7 == $round } @copy;
}
$text =~ s/(\d+)/<$1>/g;
print join(" ", $matches, "@sorted[0 .. 2]", scalar(keys %bylen), $sum,
    length $text), "\n";
