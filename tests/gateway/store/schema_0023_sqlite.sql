-- A database of schema 0023 on SQLite, and some rows in it.

CREATE TABLE "messages" (
    number INTEGER NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    topic TEXT,
    octets INTEGER NOT NULL,
    properties TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (number),
    UNIQUE (source, id)
);
CREATE TABLE advertisements (
    topic_id TEXT NOT NULL,
    creator TEXT NOT NULL,
    node TEXT NOT NULL,
    created FLOAT NOT NULL,
    expires FLOAT NOT NULL,
    issued FLOAT NOT NULL,
    claim BLOB NOT NULL,
    topic TEXT,
    described TEXT NOT NULL,
    octets BLOB,
    revision BIGINT NOT NULL,
    PRIMARY KEY (topic_id)
);
CREATE TABLE advertisers (
    creator TEXT NOT NULL,
    living BIGINT NOT NULL,
    gone BIGINT NOT NULL,
    PRIMARY KEY (creator)
);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE changes (
    version BIGINT NOT NULL,
    "key" TEXT NOT NULL,
    partition INTEGER,
    count INTEGER NOT NULL,
    octets BIGINT NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE channels (
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE dead_letter_totals (
    owner TEXT NOT NULL,
    replica INTEGER NOT NULL,
    buried BIGINT NOT NULL,
    purged BIGINT NOT NULL,
    octets BIGINT NOT NULL,
    PRIMARY KEY (owner, replica)
) WITHOUT ROWID;
CREATE TABLE dead_letters (
    number INTEGER NOT NULL,
    subscription TEXT NOT NULL,
    owner TEXT NOT NULL,
    message INTEGER NOT NULL,
    delivery_id TEXT NOT NULL,
    topic TEXT,
    reason TEXT NOT NULL,
    status INTEGER,
    failure TEXT,
    answer TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    since FLOAT NOT NULL,
    died FLOAT NOT NULL,
    partition INTEGER DEFAULT '0' NOT NULL,
    octets INTEGER DEFAULT '0' NOT NULL,
    charged INTEGER DEFAULT '0' NOT NULL,
    consumer TEXT,
    PRIMARY KEY (number),
    FOREIGN KEY(message) REFERENCES messages (number)
);
CREATE TABLE discovery_claims (
    sender TEXT NOT NULL,
    proofs BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (sender)
);
CREATE TABLE discovery_messages (
    sender TEXT NOT NULL,
    message TEXT NOT NULL,
    notification TEXT NOT NULL,
    kind TEXT NOT NULL,
    at FLOAT NOT NULL,
    expires FLOAT NOT NULL,
    PRIMARY KEY (sender, message)
);
CREATE TABLE dragoman_rm_incoming (
    created_by BLOB,
    address BLOB NOT NULL,
    owned_by BLOB,
    identifier TEXT NOT NULL,
    wire TEXT NOT NULL,
    acks_to TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT,
    service TEXT NOT NULL,
    create_id TEXT,
    opposite TEXT,
    received TEXT NOT NULL,
    last_number BIGINT,
    closed BOOLEAN NOT NULL,
    complete BOOLEAN NOT NULL,
    incomplete TEXT NOT NULL,
    unacknowledged BIGINT NOT NULL,
    ack_at DOUBLE,
    expires_at DOUBLE,
    last_seen DOUBLE NOT NULL,
    ended_at DOUBLE,
    token BLOB,
    lifetime DOUBLE,
    due_at DOUBLE,
    peer TEXT,
    CONSTRAINT dragoman_rm_incoming_key PRIMARY KEY (identifier),
    CONSTRAINT dragoman_rm_incoming_created UNIQUE (created_by)
);
CREATE TABLE dragoman_rm_invoker (
    identifier TEXT NOT NULL,
    state TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    last_number BIGINT,
    count BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    service TEXT NOT NULL,
    owner TEXT,
    held BOOLEAN NOT NULL,
    skips BOOLEAN NOT NULL,
    due_at DOUBLE,
    leased_until DOUBLE,
    CONSTRAINT dragoman_rm_invoker_key PRIMARY KEY (identifier)
);
CREATE TABLE dragoman_rm_invoker_messages (
    sequence TEXT NOT NULL,
    number BIGINT NOT NULL,
    envelope BLOB NOT NULL,
    content_type TEXT NOT NULL,
    CONSTRAINT dragoman_rm_invoker_messages_key PRIMARY KEY (sequence, number)
);
CREATE TABLE dragoman_rm_outgoing (
    address BLOB NOT NULL,
    "key" TEXT NOT NULL,
    target TEXT NOT NULL,
    wire TEXT NOT NULL,
    state TEXT NOT NULL,
    identifier TEXT,
    offered TEXT,
    callback TEXT,
    acks_to TEXT,
    next_number BIGINT NOT NULL,
    last_number BIGINT,
    acknowledged TEXT NOT NULL,
    count BIGINT NOT NULL,
    create_id TEXT,
    tries BIGINT NOT NULL,
    next_at DOUBLE,
    closed BOOLEAN NOT NULL,
    answered BOOLEAN NOT NULL,
    failure TEXT,
    window BIGINT,
    expires_at DOUBLE,
    last_acked_at DOUBLE,
    ended_at DOUBLE,
    owner TEXT,
    created_at DOUBLE NOT NULL,
    poll_at DOUBLE,
    due_at DOUBLE,
    CONSTRAINT dragoman_rm_outgoing_key PRIMARY KEY ("key"),
    CONSTRAINT dragoman_rm_outgoing_created UNIQUE (create_id),
    CONSTRAINT dragoman_rm_outgoing_identifier UNIQUE (identifier),
    CONSTRAINT dragoman_rm_outgoing_offered UNIQUE (offered)
);
CREATE TABLE dragoman_rm_outgoing_messages (
    sequence TEXT NOT NULL,
    named BLOB NOT NULL,
    answers BLOB,
    number BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    action TEXT NOT NULL,
    envelope BLOB NOT NULL,
    relates_to TEXT,
    wants_reply BOOLEAN NOT NULL,
    tries BIGINT NOT NULL,
    next_at DOUBLE,
    answer_by DOUBLE,
    CONSTRAINT dragoman_rm_outgoing_messages_key PRIMARY KEY (sequence, number)
);
CREATE TABLE held (
    subscription TEXT NOT NULL,
    position BIGINT NOT NULL,
    message INTEGER NOT NULL,
    octets INTEGER NOT NULL,
    since FLOAT NOT NULL,
    attempts INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    due FLOAT NOT NULL,
    partition INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (subscription, position),
    FOREIGN KEY(message) REFERENCES messages (number)
) WITHOUT ROWID;
CREATE TABLE mailbox_messages (
    mailbox TEXT NOT NULL,
    position BIGINT NOT NULL,
    id TEXT,
    envelope BLOB NOT NULL,
    octets INTEGER NOT NULL,
    since FLOAT NOT NULL,
    lease TEXT,
    until FLOAT,
    takes INTEGER NOT NULL,
    handed FLOAT,
    PRIMARY KEY (mailbox, position),
    UNIQUE (mailbox, id)
);
CREATE TABLE mailboxes (
    "key" TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT,
    created FLOAT NOT NULL,
    used FLOAT NOT NULL,
    position BIGINT NOT NULL,
    messages INTEGER NOT NULL,
    octets BIGINT NOT NULL,
    dropped BIGINT NOT NULL,
    PRIMARY KEY ("key"),
    UNIQUE (id),
    UNIQUE (name)
);
CREATE TABLE partitions (
    partition INTEGER NOT NULL,
    holder TEXT,
    fence BIGINT NOT NULL,
    until FLOAT NOT NULL,
    PRIMARY KEY (partition)
);
CREATE TABLE registrations (
    id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    owner TEXT NOT NULL,
    definition TEXT NOT NULL,
    created FLOAT NOT NULL,
    expires FLOAT,
    publisher TEXT,
    PRIMARY KEY (id),
    UNIQUE ("key")
);
CREATE TABLE relays (
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    location TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE replicas (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    heartbeat FLOAT NOT NULL,
    PRIMARY KEY (number),
    UNIQUE (id)
);
CREATE TABLE seal_blocks (
    block BIGINT NOT NULL,
    delivered BLOB NOT NULL,
    PRIMARY KEY (block)
);
CREATE TABLE secrets (
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE sequence_deliveries (
    subscription TEXT NOT NULL,
    delivery BLOB NOT NULL,
    ordinal BIGINT NOT NULL,
    PRIMARY KEY (subscription, delivery)
);
CREATE TABLE sequences (
    identifier TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    octets BIGINT NOT NULL,
    PRIMARY KEY (identifier)
);
CREATE TABLE source_bookmarks (
    owner TEXT NOT NULL,
    machine TEXT NOT NULL,
    subscription TEXT NOT NULL,
    bookmark BLOB NOT NULL,
    noted FLOAT NOT NULL,
    PRIMARY KEY (owner, machine, subscription)
) WITHOUT ROWID;
CREATE TABLE sources (
    id TEXT NOT NULL,
    "key" TEXT,
    pending TEXT,
    registration TEXT,
    definition TEXT NOT NULL,
    wanted TEXT NOT NULL,
    standing TEXT NOT NULL,
    events BIGINT DEFAULT '0' NOT NULL,
    last_event FLOAT,
    ended TEXT,
    revision BIGINT DEFAULT '0' NOT NULL,
    owner TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (id),
    UNIQUE ("key"),
    UNIQUE (pending)
);
CREATE TABLE spool (
    number INTEGER NOT NULL,
    topic TEXT NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    properties TEXT NOT NULL,
    octets INTEGER NOT NULL,
    since FLOAT NOT NULL,
    refused TEXT,
    PRIMARY KEY (number),
    UNIQUE (source, id)
);
CREATE TABLE spool_size (
    messages BIGINT NOT NULL,
    octets BIGINT NOT NULL
);
CREATE TABLE subscriptions (
    "key" TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    version TEXT NOT NULL,
    soap TEXT NOT NULL,
    wsa TEXT,
    consumer TEXT NOT NULL,
    end_to TEXT,
    filter TEXT NOT NULL,
    policy TEXT NOT NULL,
    manager TEXT NOT NULL,
    created FLOAT NOT NULL,
    expires FLOAT,
    as_duration BOOLEAN NOT NULL,
    acknowledged BIGINT,
    identity TEXT,
    PRIMARY KEY ("key"),
    UNIQUE (id)
);
CREATE TABLE totals (
    subscription TEXT NOT NULL,
    replica INTEGER NOT NULL,
    matched BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    expired BIGINT NOT NULL,
    cancelled BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    CONSTRAINT totals_by_replica PRIMARY KEY (subscription, replica)
) WITHOUT ROWID;
CREATE TABLE versions (
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (name)
);
CREATE INDEX advertisements_by_end ON advertisements (expires);
CREATE INDEX advertisements_by_revision ON advertisements (revision);
CREATE INDEX dead_by_owner ON dead_letters (owner, number);
CREATE INDEX dead_by_time ON dead_letters (died);
CREATE UNIQUE INDEX dead_message ON dead_letters (message, subscription);
CREATE INDEX dead_subscription ON dead_letters (subscription, number);
CREATE INDEX discovery_messages_by_end ON discovery_messages (expires);
CREATE INDEX dragoman_rm_incoming_due ON dragoman_rm_incoming (due_at, identifier) WHERE due_at IS NOT NULL;
CREATE INDEX dragoman_rm_incoming_owner ON dragoman_rm_incoming (owned_by) WHERE ended_at IS NULL;
CREATE INDEX dragoman_rm_incoming_peer ON dragoman_rm_incoming (peer) WHERE ended_at IS NULL;
CREATE INDEX dragoman_rm_incoming_to ON dragoman_rm_incoming (address) WHERE ended_at IS NULL;
CREATE INDEX dragoman_rm_invoker_due ON dragoman_rm_invoker (due_at, identifier) WHERE due_at IS NOT NULL;
CREATE INDEX dragoman_rm_outgoing_due ON dragoman_rm_outgoing (due_at, "key") WHERE due_at IS NOT NULL;
CREATE INDEX dragoman_rm_outgoing_messages_answers ON dragoman_rm_outgoing_messages (sequence, answers);
CREATE INDEX dragoman_rm_outgoing_messages_named ON dragoman_rm_outgoing_messages (sequence, named);
CREATE INDEX dragoman_rm_outgoing_to ON dragoman_rm_outgoing (address) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX held_message ON held (message, subscription);
CREATE INDEX mailbox_messages_by_age ON mailbox_messages (since);
CREATE INDEX mailbox_messages_handed ON mailbox_messages (handed);
CREATE INDEX mailbox_messages_leased ON mailbox_messages (mailbox, lease);
CREATE INDEX mailbox_messages_waiting ON mailbox_messages (mailbox, handed, position, until, octets);
CREATE INDEX mailboxes_by_owner ON mailboxes (owner);
CREATE INDEX registrations_by_owner ON registrations (owner);
CREATE INDEX sequence_deliveries_by_age ON sequence_deliveries (subscription, ordinal);
CREATE INDEX sequences_by_id ON sequences (id, identifier);
CREATE INDEX sequences_waiting ON sequences (owner, octets) WHERE octets > 0;
CREATE INDEX sources_by_owner ON sources (owner);
CREATE INDEX spool_by_topic ON spool (topic, refused, number);
CREATE UNIQUE INDEX subscriptions_by_identity ON subscriptions (identity);

INSERT INTO alembic_version (version_num) VALUES
    ('0023');
INSERT INTO subscriptions (key, id, owner, version, soap, wsa, consumer, end_to, filter, policy,
    manager, created, expires, as_duration, acknowledged, identity) VALUES (
    'cf5efdcc-6e56-e510-4f76-bf6aaad028bf', '1e000119e074', 'anonymous:127.0.0.1', 'wsn-1.3', 'V1_2', 'V2005_08',
    '{"address": "http://127.0.0.1:18765/subscriptions/cf5efdcc-6e56-e510-4f76-bf6aaad028bf", "wsa": "V2005_08", "properties": [], "parameters": [], "metadata": []}',
    NULL,
    '{"topics": [["storms", "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple", [["s", "http://www.w3.org/2003/05/soap-envelope"], ["wsa", "http://www.w3.org/2005/08/addressing"], ["wsnt", "http://docs.oasis-open.org/wsn/b-2"]], "payload"]], "contents": [], "others": []}',
    '{"raw": false, "paused": false, "ordered": true, "dialect": null, "packaging": "none", "data": "xml", "rate": 0, "secret": ""}',
    'http://127.0.0.1:18765/subscriptions/cf5efdcc-6e56-e510-4f76-bf6aaad028bf',
    1795789660.5, NULL, 1, 0, NULL);
INSERT INTO totals (subscription, replica, matched, delivered, dead, expired, cancelled, skipped) VALUES
    ('1e000119e074', 0, 3, 1, 1, 0, 0, 0),
    ('1e000119e074', 1, 1, 1, 0, 0, 0, 0);
INSERT INTO messages (number, source, id, topic, octets, properties, body) VALUES
    (1, 'urn:one', 'urn:a', 'storms', 10, '{"ws_topic": "storms"}', CAST('<speed>1</speed>' AS BLOB)),
    (2, 'urn:one', 'urn:b', NULL, 4, '{}', CAST('<b/>' AS BLOB));
INSERT INTO held (subscription, position, message, octets, since, attempts, answered, due, partition) VALUES
    ('1e000119e074', 7, 1, 10, 1795789660.5, 2, 0, 1795789670.5, 3);
INSERT INTO dead_letters (number, subscription, owner, message, delivery_id, topic, reason, status, failure, answer,
    attempts, since, died, partition, octets, charged, consumer) VALUES
    (1, '1e000119e074', 'me', 2, 'urn:d', NULL, 'rejected', 400, NULL, 'No.', 1, 1795789660.5, 1795789661.5, 0, 4, 516,
    'http://consumer.example.org/');
INSERT INTO dead_letter_totals (owner, replica, buried, purged, octets) VALUES
    ('me', 0, 1, 0, 516);
INSERT INTO versions (name, version) VALUES
    ('subscriptions', 5);
INSERT INTO changes (version, key, partition, count, octets) VALUES
    (5, 'cf5efdcc-6e56-e510-4f76-bf6aaad028bf', NULL, 0, 0);
INSERT INTO spool (number, topic, source, id, body, properties, octets, since, refused) VALUES
    (1, 'storms', 'urn:one', 'urn:c', CAST('<c/>' AS BLOB), '{}', 4, 1795789660.5, NULL),
    (2, 'storms', 'urn:one', 'urn:d', CAST('<d/>' AS BLOB), '{}', 4, 1795789661.5, 'too large');
INSERT INTO spool_size (messages, octets) VALUES
    (2, 8);
INSERT INTO mailboxes (key, id, owner, kind, name, created, used, position, messages, octets, dropped) VALUES
    ('cf5efdcc-6e56-e510-4f76-bf6aaad028bf', '1e000119e074', 'anonymous:127.0.0.1', 'subscription', NULL, 1795789660.5, 1795789660.5, 1,
    1, 110, 0);
INSERT INTO mailbox_messages (mailbox, position, id, envelope, octets, since, lease, until, takes, handed) VALUES
    ('cf5efdcc-6e56-e510-4f76-bf6aaad028bf', 1, 'urn:a', CAST('<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><speed>120</speed></s:Body></s:Envelope>' AS BLOB),
    110, 1795789660.5, NULL, NULL, 0, NULL);
INSERT INTO secrets (name, value) VALUES
    ('kept', CAST('0123456789abcdef' AS BLOB));
INSERT INTO sequences (identifier, id, owner, octets) VALUES
    ('urn:sequence', '0123456789ab', 'me', 5);
INSERT INTO dragoman_rm_invoker_messages (sequence, number, envelope, content_type) VALUES
    ('urn:sequence', 2, CAST('<e/>' AS BLOB), 'text/xml');
INSERT INTO dragoman_rm_incoming (address, identifier, wire, acks_to, state, service, received, closed, complete, incomplete,
    unacknowledged, last_seen, peer) VALUES
    (CAST('0' AS BLOB), 'urn:sequence', '1.1', 'http://p.example.org/', 'open', '', '1-2', 0, 0, '', 0, 1795789660.5,
    '127.0.0.1');
