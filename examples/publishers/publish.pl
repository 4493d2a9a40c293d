#!/usr/bin/perl
# Publishes one event of Grid SOAP Events: publish.pl http://127.0.0.1:8080/soap TYPE MESSAGE
use strict; use warnings;
use IO::Socket::INET; use Sys::Hostname;
my ($url, $type, $message) = @ARGV;
my ($host, $port, $path) = $url =~ m{^http://([^:/]+)(?::(\d+))?(/.*)$} or die "no URL: $url\n";
my %marks = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;');
s/([&<>])/$marks{$1}/g for $type, $message;
my ($source, $timestamp) = (hostname(), time() . '000');
my $body = "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body>"
    . "<m:handleEvent xmlns:m='urn:example'><event>"
    . "<eventNamespace>http://example.org/publishers</eventNamespace><eventType>$type</eventType>"
    . "<source>$source</source><timestamp>$timestamp</timestamp><message>$message</message>"
    . "</event></m:handleEvent></e:Body></e:Envelope>";
my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port || 80, Timeout => 10)
    or die "cannot reach $host: $@\n";
# Perl's strings of arguments are octets, so length counts what is sent.
print $socket "POST $path HTTP/1.0\r\nHost: $host\r\nContent-Type: text/xml; charset=utf-8\r\n",
    "Content-Length: ", length $body, "\r\nSOAPAction: \"urn:example#handleEvent\"\r\n\r\n", $body;
my $status = <$socket> // 'no answer';
die "refused: $status" unless $status =~ m{^HTTP/1\.\d 200};
