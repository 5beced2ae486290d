#!/bin/bash
# The manual pages document each option of the library, with its syntax, its
# default and its limits, and no option that the library does not have.
set -eu
command -v perl >/dev/null || { echo "no perl"; exit 77; }
env -u UMEM_OPTIONS -u UMEM_DEBUG -u UMEM_LOGGING "$B/umem" options >list
cat >compare.pl <<'END'
use strict;
use warnings;

# The options of the pages: by variable and name the syntax, and the text that
# describes it, with the text that introduces the list.
my %page;

sub plain {
	my $text = join ' ', map {
		my $line = $_;
		$line =~ s/\b(?:Cm|Ar|Ev|Fn|Xr|Pa|Dv|Ql|Sy|Fl|Pq|Pp)\b ?//g
		    if $line =~ s/^\.//;
		$line;
	} @_;
	$text =~ s/ Ns (\S)/$1/g;
	$text =~ s/ ([,.;:])/$1/g;
	return $text;
}

sub syntax {
	my ($item) = @_;
	my $optional = $item =~ s/ Ns Op(?: Ns)? =/ Ns =/;
	$item =~ s/\b(?:Cm|Ar) //g;
	$item =~ s/ Ns (?=\S)//g;
	$item =~ s/= Ns /=/g;
	$item =~ s/ \| /|/g;
	$item =~ s/=(.*)/[=$1]/ if $optional;
	return $item;
}

sub page {
	my ($file, $variable, $section) = @_;
	my (@names, $on, @intro, %lines);
	open my $in, '<', $file or die "$file: $!";
	while (<$in>) {
		chomp;
		if (/^\.S[hs] (.*)/) {
			$on = $1 =~ $section;
			@names = ();
		} elsif (!$on) {
			next;
		} elsif (/^\.It (Cm .*)/) {
			@names = ();
			for my $item (split / , /, $1) {
				my $syntax = syntax($item);
				my ($name) = $syntax =~ /^(\w+)/;
				push @names, $name;
				$page{$variable}{$name}{syntax} = $syntax;
			}
		} elsif (@names) {
			my $line = $_;
			push @{$lines{$_}}, $line for @names;
		} else {
			push @intro, $_;
		}
	}
	$page{$variable}{$_}{text} = plain(@intro, @{$lines{$_} || []})
	    for keys %{$page{$variable}};
}

my ($options, $debug, $list) = @ARGV;
page($options, 'UMEM_OPTIONS', qr/^(?!SYNOPSIS|DIAG|EXAMPLES)/);
page($debug, 'UMEM_DEBUG', qr/^Words of UMEM_DEBUG/);
page($debug, 'UMEM_LOGGING', qr/^Words of UMEM_LOGGING/);

my ($variable, $entry, $n, $bad) = ('', undef, 0, 0);
open my $in, '<', $list or die "$list: $!";
while (<$in>) {
	chomp;
	if (/^(\w+)$/) {
		$variable = $1;
	} elsif (/^  ((\w+)\S*)$/) {
		my ($syntax, $name) = ($1, $2);
		$n++;
		$entry = delete $page{$variable}{$name};
		if (!$entry) {
			print "$variable: no page documents $name\n";
			$bad = 1;
		} elsif ($entry->{syntax} ne $syntax) {
			print "$variable: $syntax, but the page has ",
			    "$entry->{syntax}\n";
			$bad = 1;
		}
	} elsif (/^      (.*) by default(?:, (.*))?$/ && $entry) {
		my ($default, $limits) = ($1, $2 // '');
		if ($entry->{text} !~
		    /(?<![\w.])\Q$default\E(?: by default|, the default)/) {
			print "$variable: $entry->{syntax}: the page does not",
			    " say that the default is $default\n";
			$bad = 1;
		}
		my $words = $limits =~ s/^up to /(?:up to|at most) /r;
		# A lower limit alone, such as 1 for a count, needs no words.
		if ($limits =~ / to / && $entry->{text} !~ /\b$words\b/) {
			print "$variable: $entry->{syntax}: the page does not",
			    " give the limits $limits\n";
			$bad = 1;
		}
	}
}
for my $v (sort keys %page) {
	for my $name (sort keys %{$page{$v}}) {
		print "$v: the library has no option $name\n";
		$bad = 1;
	}
}
if ($n < 30) {
	print "umem options lists $n options only\n";
	$bad = 1;
}
exit $bad;
END
perl compare.pl "$TOP/man/umem_options.7" "$TOP/man/umem_debug.3" list
