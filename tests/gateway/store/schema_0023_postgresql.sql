-- A database of schema 0023 on PostgreSQL, and some rows in it.

CREATE TABLE messages (
    number bigserial NOT NULL,
    source text NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL,
    properties text NOT NULL,
    octets integer NOT NULL,
    topic text,
    CONSTRAINT messages_pkey PRIMARY KEY (number),
    CONSTRAINT messages_source_id_key UNIQUE (source, id)
);
CREATE TABLE advertisements (
    topic_id text COLLATE "C" NOT NULL,
    creator text NOT NULL,
    node text NOT NULL,
    created double precision NOT NULL,
    expires double precision NOT NULL,
    issued double precision NOT NULL,
    claim bytea NOT NULL,
    topic text,
    described text NOT NULL,
    octets bytea,
    revision bigint NOT NULL,
    CONSTRAINT advertisements_pkey PRIMARY KEY (topic_id)
);
CREATE TABLE advertisers (
    creator text COLLATE "C" NOT NULL,
    living bigint NOT NULL,
    gone bigint NOT NULL,
    CONSTRAINT advertisers_pkey PRIMARY KEY (creator)
);
CREATE TABLE alembic_version (
    version_num character varying(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE changes (
    version bigint NOT NULL,
    key text NOT NULL,
    partition integer,
    count integer NOT NULL,
    octets bigint NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (version)
);
CREATE TABLE channels (
    name text NOT NULL,
    definition text NOT NULL,
    CONSTRAINT channels_pkey PRIMARY KEY (name)
);
CREATE TABLE dead_letter_totals (
    owner text NOT NULL,
    replica integer NOT NULL,
    buried bigint NOT NULL,
    purged bigint NOT NULL,
    octets bigint NOT NULL,
    CONSTRAINT dead_letter_totals_pkey PRIMARY KEY (owner, replica)
);
CREATE TABLE dead_letters (
    number bigserial NOT NULL,
    subscription text NOT NULL,
    owner text NOT NULL,
    message bigint NOT NULL,
    delivery_id text NOT NULL,
    topic text,
    reason text NOT NULL,
    status integer,
    failure text,
    answer text NOT NULL,
    attempts integer NOT NULL,
    since double precision NOT NULL,
    died double precision NOT NULL,
    partition integer DEFAULT 0 NOT NULL,
    octets integer DEFAULT 0 NOT NULL,
    charged integer DEFAULT 0 NOT NULL,
    consumer text,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (number),
    CONSTRAINT dead_letters_message_fkey FOREIGN KEY (message) REFERENCES messages(number)
);
CREATE TABLE discovery_claims (
    sender text COLLATE "C" NOT NULL,
    proofs bigint NOT NULL,
    requests bigint NOT NULL,
    CONSTRAINT discovery_claims_pkey PRIMARY KEY (sender)
);
CREATE TABLE discovery_messages (
    sender text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    notification text NOT NULL,
    kind text NOT NULL,
    at double precision NOT NULL,
    expires double precision NOT NULL,
    CONSTRAINT discovery_messages_pkey PRIMARY KEY (sender, message)
);
CREATE TABLE dragoman_rm_incoming (
    created_by bytea,
    address bytea NOT NULL,
    owned_by bytea,
    identifier text COLLATE "C" NOT NULL,
    wire text NOT NULL,
    acks_to text NOT NULL,
    state text NOT NULL,
    owner text,
    service text NOT NULL,
    create_id text,
    opposite text,
    received text NOT NULL,
    last_number bigint,
    closed boolean NOT NULL,
    complete boolean NOT NULL,
    incomplete text NOT NULL,
    unacknowledged bigint NOT NULL,
    ack_at double precision,
    expires_at double precision,
    last_seen double precision NOT NULL,
    ended_at double precision,
    token bytea,
    lifetime double precision,
    due_at double precision,
    peer text,
    CONSTRAINT dragoman_rm_incoming_key PRIMARY KEY (identifier),
    CONSTRAINT dragoman_rm_incoming_created UNIQUE (created_by)
) WITH (fillfactor=50);
CREATE TABLE dragoman_rm_invoker (
    identifier text COLLATE "C" NOT NULL,
    state text NOT NULL,
    delivered bigint NOT NULL,
    last_number bigint,
    count bigint NOT NULL,
    attempts bigint NOT NULL,
    service text NOT NULL,
    owner text,
    held boolean NOT NULL,
    skips boolean NOT NULL,
    due_at double precision,
    leased_until double precision,
    CONSTRAINT dragoman_rm_invoker_key PRIMARY KEY (identifier)
) WITH (fillfactor=50);
CREATE TABLE dragoman_rm_invoker_messages (
    sequence text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    envelope bytea NOT NULL,
    content_type text NOT NULL,
    CONSTRAINT dragoman_rm_invoker_messages_key PRIMARY KEY (sequence, number)
);
CREATE TABLE dragoman_rm_outgoing (
    address bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    target text NOT NULL,
    wire text NOT NULL,
    state text NOT NULL,
    identifier text COLLATE "C",
    offered text COLLATE "C",
    callback text,
    acks_to text,
    next_number bigint NOT NULL,
    last_number bigint,
    acknowledged text NOT NULL,
    count bigint NOT NULL,
    create_id text COLLATE "C",
    tries bigint NOT NULL,
    next_at double precision,
    closed boolean NOT NULL,
    answered boolean NOT NULL,
    failure text,
    "window" bigint,
    expires_at double precision,
    last_acked_at double precision,
    ended_at double precision,
    owner text,
    created_at double precision NOT NULL,
    poll_at double precision,
    due_at double precision,
    CONSTRAINT dragoman_rm_outgoing_key PRIMARY KEY (key),
    CONSTRAINT dragoman_rm_outgoing_created UNIQUE (create_id),
    CONSTRAINT dragoman_rm_outgoing_identifier UNIQUE (identifier),
    CONSTRAINT dragoman_rm_outgoing_offered UNIQUE (offered)
) WITH (fillfactor=50);
CREATE TABLE dragoman_rm_outgoing_messages (
    sequence text COLLATE "C" NOT NULL,
    named bytea NOT NULL,
    answers bytea,
    number bigint NOT NULL,
    message_id text NOT NULL,
    action text NOT NULL,
    envelope bytea NOT NULL,
    relates_to text,
    wants_reply boolean NOT NULL,
    tries bigint NOT NULL,
    next_at double precision,
    answer_by double precision,
    CONSTRAINT dragoman_rm_outgoing_messages_key PRIMARY KEY (sequence, number)
) WITH (fillfactor=50);
CREATE TABLE held (
    subscription text NOT NULL,
    "position" bigint NOT NULL,
    message bigint NOT NULL,
    octets integer NOT NULL,
    since double precision NOT NULL,
    attempts integer NOT NULL,
    answered integer NOT NULL,
    due double precision NOT NULL,
    partition integer DEFAULT 0 NOT NULL,
    CONSTRAINT held_pkey PRIMARY KEY (subscription, "position"),
    CONSTRAINT held_message_fkey FOREIGN KEY (message) REFERENCES messages(number)
);
CREATE TABLE mailbox_messages (
    mailbox text NOT NULL,
    "position" bigint NOT NULL,
    id text,
    envelope bytea NOT NULL,
    octets integer NOT NULL,
    since double precision NOT NULL,
    lease text,
    until double precision,
    takes integer NOT NULL,
    handed double precision,
    CONSTRAINT mailbox_messages_pkey PRIMARY KEY (mailbox, "position"),
    CONSTRAINT mailbox_messages_mailbox_id_key UNIQUE (mailbox, id)
);
CREATE TABLE mailboxes (
    key text NOT NULL,
    id text NOT NULL,
    owner text NOT NULL,
    kind text NOT NULL,
    name text,
    created double precision NOT NULL,
    used double precision NOT NULL,
    "position" bigint NOT NULL,
    messages integer NOT NULL,
    octets bigint NOT NULL,
    dropped bigint NOT NULL,
    CONSTRAINT mailboxes_pkey PRIMARY KEY (key),
    CONSTRAINT mailboxes_id_key UNIQUE (id),
    CONSTRAINT mailboxes_name_key UNIQUE (name)
);
CREATE TABLE partitions (
    partition integer NOT NULL,
    holder text,
    fence bigint NOT NULL,
    until double precision NOT NULL,
    CONSTRAINT partitions_pkey PRIMARY KEY (partition)
);
CREATE TABLE registrations (
    id text NOT NULL,
    key text NOT NULL,
    owner text NOT NULL,
    definition text NOT NULL,
    created double precision NOT NULL,
    expires double precision,
    publisher text,
    CONSTRAINT registrations_pkey PRIMARY KEY (id),
    CONSTRAINT registrations_key_key UNIQUE (key)
);
CREATE TABLE relays (
    id text NOT NULL,
    digest text NOT NULL,
    location text NOT NULL,
    CONSTRAINT relays_pkey PRIMARY KEY (id)
);
CREATE TABLE replicas (
    number integer NOT NULL,
    id text NOT NULL,
    heartbeat double precision NOT NULL,
    CONSTRAINT replicas_pkey PRIMARY KEY (number),
    CONSTRAINT replicas_id_key UNIQUE (id)
);
CREATE TABLE seal_blocks (
    block bigint NOT NULL,
    delivered bytea NOT NULL,
    CONSTRAINT seal_blocks_pkey PRIMARY KEY (block)
);
CREATE TABLE secrets (
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT secrets_pkey PRIMARY KEY (name)
);
CREATE TABLE sequence_deliveries (
    subscription text NOT NULL,
    delivery bytea NOT NULL,
    ordinal bigint NOT NULL,
    CONSTRAINT sequence_deliveries_pkey PRIMARY KEY (subscription, delivery)
);
CREATE TABLE sequences (
    identifier text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text NOT NULL,
    octets bigint NOT NULL,
    CONSTRAINT sequences_pkey PRIMARY KEY (identifier)
);
CREATE TABLE source_bookmarks (
    owner text NOT NULL,
    machine text NOT NULL,
    subscription text NOT NULL,
    bookmark bytea NOT NULL,
    noted double precision NOT NULL,
    CONSTRAINT source_bookmarks_pkey PRIMARY KEY (owner, machine, subscription)
);
CREATE TABLE sources (
    id text NOT NULL,
    key text,
    pending text,
    registration text,
    definition text NOT NULL,
    wanted text NOT NULL,
    standing text NOT NULL,
    events bigint DEFAULT '0'::bigint NOT NULL,
    last_event double precision,
    ended text,
    revision bigint DEFAULT '0'::bigint NOT NULL,
    owner text DEFAULT ''::text NOT NULL,
    CONSTRAINT sources_pkey PRIMARY KEY (id),
    CONSTRAINT sources_key_key UNIQUE (key),
    CONSTRAINT sources_pending_key UNIQUE (pending)
);
CREATE TABLE spool (
    number bigserial NOT NULL,
    topic text NOT NULL,
    source text NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL,
    properties text NOT NULL,
    octets integer NOT NULL,
    since double precision NOT NULL,
    refused text,
    CONSTRAINT spool_pkey PRIMARY KEY (number),
    CONSTRAINT spool_source_id_key UNIQUE (source, id)
);
CREATE TABLE spool_size (
    messages bigint NOT NULL,
    octets bigint NOT NULL
);
CREATE TABLE subscriptions (
    key text NOT NULL,
    id text NOT NULL,
    owner text NOT NULL,
    version text NOT NULL,
    soap text NOT NULL,
    wsa text,
    consumer text NOT NULL,
    end_to text,
    filter text NOT NULL,
    policy text NOT NULL,
    manager text NOT NULL,
    created double precision NOT NULL,
    expires double precision,
    as_duration boolean NOT NULL,
    acknowledged bigint,
    identity text,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (key),
    CONSTRAINT subscriptions_id_key UNIQUE (id)
);
CREATE TABLE totals (
    subscription text NOT NULL,
    replica integer NOT NULL,
    matched bigint NOT NULL,
    delivered bigint NOT NULL,
    dead bigint NOT NULL,
    expired bigint NOT NULL,
    cancelled bigint NOT NULL,
    skipped bigint NOT NULL,
    CONSTRAINT totals_by_replica PRIMARY KEY (subscription, replica)
);
CREATE TABLE versions (
    name text NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT versions_pkey PRIMARY KEY (name)
);
CREATE INDEX advertisements_by_end ON advertisements (expires);
CREATE INDEX advertisements_by_revision ON advertisements (revision);
CREATE INDEX dead_by_owner ON dead_letters (owner, number);
CREATE INDEX dead_by_time ON dead_letters (died);
CREATE UNIQUE INDEX dead_message ON dead_letters (message, subscription);
CREATE INDEX dead_subscription ON dead_letters (subscription, number);
CREATE INDEX discovery_messages_by_end ON discovery_messages (expires);
CREATE INDEX dragoman_rm_incoming_due ON dragoman_rm_incoming (due_at, identifier) WHERE (due_at IS NOT NULL);
CREATE INDEX dragoman_rm_incoming_owner ON dragoman_rm_incoming (owned_by) WHERE (ended_at IS NULL);
CREATE INDEX dragoman_rm_incoming_peer ON dragoman_rm_incoming (peer) WHERE (ended_at IS NULL);
CREATE INDEX dragoman_rm_incoming_to ON dragoman_rm_incoming (address) WHERE (ended_at IS NULL);
CREATE INDEX dragoman_rm_invoker_due ON dragoman_rm_invoker (due_at, identifier) WHERE (due_at IS NOT NULL);
CREATE INDEX dragoman_rm_outgoing_due ON dragoman_rm_outgoing (due_at, key) WHERE (due_at IS NOT NULL);
CREATE INDEX dragoman_rm_outgoing_messages_answers ON dragoman_rm_outgoing_messages (sequence, answers);
CREATE INDEX dragoman_rm_outgoing_messages_named ON dragoman_rm_outgoing_messages (sequence, named);
CREATE INDEX dragoman_rm_outgoing_to ON dragoman_rm_outgoing (address) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX held_message ON held (message, subscription);
CREATE INDEX mailbox_messages_by_age ON mailbox_messages (since);
CREATE INDEX mailbox_messages_handed ON mailbox_messages (handed);
CREATE INDEX mailbox_messages_leased ON mailbox_messages (mailbox, lease);
CREATE INDEX mailbox_messages_waiting ON mailbox_messages (mailbox, handed, "position", until, octets);
CREATE INDEX mailboxes_by_owner ON mailboxes (owner);
CREATE INDEX registrations_by_owner ON registrations (owner);
CREATE INDEX sequence_deliveries_by_age ON sequence_deliveries (subscription, ordinal);
CREATE INDEX sequences_by_id ON sequences (id, identifier);
CREATE INDEX sequences_waiting ON sequences (owner, octets) WHERE (octets > 0);
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
    1795789660.5, NULL, true, 0, NULL);
INSERT INTO totals (subscription, replica, matched, delivered, dead, expired, cancelled, skipped) VALUES
    ('1e000119e074', 0, 3, 1, 1, 0, 0, 0),
    ('1e000119e074', 1, 1, 1, 0, 0, 0, 0);
INSERT INTO messages (number, source, id, topic, octets, properties, body) VALUES
    (1, 'urn:one', 'urn:a', 'storms', 10, '{"ws_topic": "storms"}', '<speed>1</speed>'),
    (2, 'urn:one', 'urn:b', NULL, 4, '{}', '<b/>');
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
    (1, 'storms', 'urn:one', 'urn:c', '<c/>', '{}', 4, 1795789660.5, NULL),
    (2, 'storms', 'urn:one', 'urn:d', '<d/>', '{}', 4, 1795789661.5, 'too large');
INSERT INTO spool_size (messages, octets) VALUES
    (2, 8);
INSERT INTO mailboxes (key, id, owner, kind, name, created, used, position, messages, octets, dropped) VALUES
    ('cf5efdcc-6e56-e510-4f76-bf6aaad028bf', '1e000119e074', 'anonymous:127.0.0.1', 'subscription', NULL, 1795789660.5, 1795789660.5, 1,
    1, 110, 0);
INSERT INTO mailbox_messages (mailbox, position, id, envelope, octets, since, lease, until, takes, handed) VALUES
    ('cf5efdcc-6e56-e510-4f76-bf6aaad028bf', 1, 'urn:a', '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><speed>120</speed></s:Body></s:Envelope>',
    110, 1795789660.5, NULL, NULL, 0, NULL);
INSERT INTO secrets (name, value) VALUES
    ('kept', '0123456789abcdef');
INSERT INTO sequences (identifier, id, owner, octets) VALUES
    ('urn:sequence', '0123456789ab', 'me', 5);
INSERT INTO dragoman_rm_invoker_messages (sequence, number, envelope, content_type) VALUES
    ('urn:sequence', 2, '<e/>', 'text/xml');
INSERT INTO dragoman_rm_incoming (address, identifier, wire, acks_to, state, service, received, closed, complete, incomplete,
    unacknowledged, last_seen, peer) VALUES
    ('0', 'urn:sequence', '1.1', 'http://p.example.org/', 'open', '', '1-2', false, false, '', 0, 1795789660.5,
    '127.0.0.1');
SELECT setval('messages_number_seq', 2), setval('dead_letters_number_seq', 1), setval('spool_number_seq', 2);
