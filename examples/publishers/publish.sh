#!/bin/sh
# Publishes one event of Grid SOAP Events: publish.sh http://127.0.0.1:8080/soap TYPE MESSAGE
url=$1 type=$2
message=$(printf %s "$3" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g')
curl -sS --fail -o /dev/null --max-time 30 -H 'Content-Type: text/xml; charset=utf-8' \
    -H 'SOAPAction: "urn:example#handleEvent"' --data-binary @- "$url" <<EOF
<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body>
<m:handleEvent xmlns:m='urn:example'><event>
<eventNamespace>http://example.org/publishers</eventNamespace>
<eventType>$type</eventType>
<source>$(hostname)</source>
<timestamp>$(date +%s)000</timestamp>
<message>$message</message>
</event></m:handleEvent></e:Body></e:Envelope>
EOF
