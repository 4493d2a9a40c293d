"""Messages and filters of our own, in the likeness of the reference material and laid out as it is.

So a clone without the material runs the same tests, in small.
"""

import gzip
import json
from pathlib import Path

from filters.workloads import messages
from tests.rigs import sample_messages

EVENT = "http://schemas.microsoft.com/win/2004/08/events/event"

BULLETINS = (
    "<bulletin><text>Storm, at &lt;8 Bft&gt; &amp; more</text></bulletin>",
    "<b:bulletin xmlns:b='urn:example:bulletins' b:id='1'><b:text xml:lang='nb'>Bølger på Øyja</b:text></b:bulletin>",
    "<bulletin xmlns='urn:example:bulletins'><area xmlns=''><name/></area><area/></bulletin>",
    "<bulletin><!-- a remark --><text><![CDATA[<not> markup]]></text></bulletin>",
    "<bulletin>mixed <em>content</em>, <strong>twice <em>nested</em></strong> and a tail</bulletin>",
    "<bulletin xmlns:p='urn:a' xmlns:q='urn:a'><p:x q:y='1' y='2'/><q:x p:y='3'/></bulletin>",
    "<bulletin kind='p:storm' xmlns:p='urn:example:kinds'><kind>p:calm</kind></bulletin>",
    "<bulletin><text xml:space='preserve'>  two\n\tlines  </text></bulletin>",
    "<bulletin a='&#9;&#10;' b='&quot;'>&#13;</bulletin>",
    "<a:x xmlns:a='urn:1'><a:x xmlns:a='urn:2'><a:x xmlns:a='urn:3' a:n='v'/></a:x></a:x>",
    "<漢字 属性='値'><子>𠮷野家 😀</子></漢字>",
    "<bulletin><wind><speed unit='m/s'>17.2</speed><from>225</from></wind></bulletin>",
)

FILTERS = (
    "/*",
    "/*[e:System]",
    "/*[e:System[(e:EventID=4624)]]",
    "/*[e:System[e:Level=0]]",
    "/*[e:System[e:Level=1 or e:Level=2 or e:Level=3]]",
    "/*[e:System[e:EventID > 1000 and e:EventID < 5000]]",
    "/*[e:System[e:EventID >= 1000 and e:EventID <= 1002]]",
    "/*[e:System[e:Channel='System']]",
    "/*[e:System[e:Provider[@Name='Microsoft-Windows-DNS-Client']]]",
    "/*[e:System[e:Provider[@Name='Nobody' or @Name='Microsoft-Windows-DNS-Client']]]",
    "/*[e:System[e:Provider[@Name='Nobody'] and (e:Level=4 or e:EventID=7)]]",
    "/*[e:EventData[e:Data[@Name='TargetUserName']='Baba']]",
    "/*[e:EventData[e:Data[@Name='SubjectUserName'] and e:Data[@Name='IpPort']]]",
    "/*[e:EventData[e:Data[@Name='LogonType']='10']]",
    "/*[e:EventData[e:Data[@Name='IpPort']!='0']]",
    "/*[e:System[e:EventID=1001]] and /*[e:EventData[e:Data='Baba']]",
    "/*[e:System[e:Computer and e:Security]]",
    "/*[e:System[e:Execution[@ProcessID='4']]]",
    "/*[e:System[e:Execution[@ProcessID > 3 and @ThreadID < 100]]]",
    "/*[e:UserData[*[e:Address]]]",
    "/*[e:UserData]",
    "/*[e:System[e:Task=9102 or e:Opcode=0]]",
    "/*[e:System[e:EventRecordID=0]]",
    "/*[e:System[e:Version=0 and e:Level=0]] or /*[e:EventData[e:Data='']]",
)
"""As the subscriptions of Windows Event Forwarding are, with Windows' own short forms spelled out."""


def write(folder: Path) -> Path:
    """Write all of it below *folder*, which is returned."""
    families = {
        "bulletins": [text.encode() for text in BULLETINS],
        "winevent": messages("events", 1500, 1),
        "xmark": messages("auctions", 1500, 1),
    }
    for name, documents in families.items():
        home = folder / "corpus" / name
        home.mkdir(parents=True)
        with gzip.open(home / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            for octets in documents:
                file.write(json.dumps({"xml": octets.decode()}) + "\n")
    filters = folder / "corpus" / "filters"
    filters.mkdir()
    rows = [{"xpath": text, "namespaces": {"e": EVENT}} for text in FILTERS]
    (filters / "wef.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample_messages.write(folder / "specs")
    return folder
