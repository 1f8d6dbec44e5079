-- What the migrations come to, for a database that is new. A test compares the two.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE experiments (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    uid TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    config BLOB,
    links BLOB,
    artifacts BLOB,
    searches BLOB,
    project_id INTEGER DEFAULT 1 NOT NULL REFERENCES projects (id),
    priority INTEGER DEFAULT 0 NOT NULL,
    archived BOOLEAN DEFAULT 0 NOT NULL
);
CREATE INDEX experiments_by_name ON experiments (project_id, name);
CREATE INDEX experiments_by_archived ON experiments (archived);
CREATE INDEX experiments_by_uid ON experiments (uid);
CREATE TABLE trials (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    experiment_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    settled BOOLEAN NOT NULL,
    created FLOAT NOT NULL,
    started FLOAT,
    ended FLOAT,
    restarts INTEGER NOT NULL,
    exit_code INTEGER,
    signal TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    priority INTEGER NOT NULL,
    user TEXT NOT NULL,
    params BLOB NOT NULL,
    spec BLOB NOT NULL,
    status BLOB NOT NULL,
    provenance BLOB NOT NULL,
    error BLOB,
    result BLOB,
    cause BLOB,
    auxiliary BOOLEAN DEFAULT 0 NOT NULL,
    is_generated BOOLEAN DEFAULT 0 NOT NULL,
    parent_id INTEGER,
    origin_id INTEGER,
    asked_to_stop TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    recipe BLOB,
    kind TEXT DEFAULT 'job' NOT NULL,
    progress FLOAT,
    UNIQUE (uid),
    FOREIGN KEY(experiment_id) REFERENCES experiments (id)
);
CREATE INDEX trials_by_state ON trials (state, id);
CREATE INDEX trials_by_settled ON trials (settled, id);
CREATE INDEX trials_by_experiment ON trials (experiment_id, id);
CREATE INDEX trials_by_created ON trials (created, id);
CREATE INDEX trials_by_parent ON trials (parent_id);
CREATE INDEX trials_by_origin ON trials (origin_id);
CREATE INDEX trials_listed ON trials (id, kind, state, name, user, experiment_id, created, started, ended);
CREATE INDEX trials_by_outcome ON trials (experiment_id, state, auxiliary, kind);
CREATE INDEX trials_by_labels ON trials (labels) WHERE labels IS NOT NULL;
CREATE TABLE parameters (
    name TEXT NOT NULL,
    trial_id INTEGER NOT NULL,
    number FLOAT,
    text TEXT,
    PRIMARY KEY (name, trial_id),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
) WITHOUT ROWID;
CREATE INDEX parameters_by_trial ON parameters (trial_id);
CREATE TABLE attempts (
    trial_id INTEGER NOT NULL,
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL,
    exit_code INTEGER,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    started FLOAT,
    ended FLOAT,
    node TEXT NOT NULL,
    address TEXT NOT NULL,
    pod BLOB,
    PRIMARY KEY (trial_id, role, "index", attempt),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE TABLE events (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    trial_id INTEGER NOT NULL,
    time FLOAT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE INDEX events_by_trial ON events (trial_id, id);
CREATE TABLE summaries (
    trial_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    count INTEGER NOT NULL,
    finite INTEGER NOT NULL,
    total FLOAT NOT NULL,
    mean FLOAT,
    min FLOAT,
    max FLOAT,
    last FLOAT,
    step INTEGER,
    time FLOAT NOT NULL,
    PRIMARY KEY (trial_id, name),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE INDEX summaries_by_name ON summaries (name, trial_id, last, min, max, mean, count);
CREATE TABLE tallies (
    trial_id INTEGER NOT NULL,
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    first INTEGER NOT NULL,
    reach INTEGER NOT NULL,
    until INTEGER,
    count INTEGER NOT NULL,
    finite INTEGER NOT NULL,
    total FLOAT NOT NULL,
    min FLOAT,
    max FLOAT,
    last FLOAT,
    step INTEGER NOT NULL,
    time FLOAT NOT NULL,
    PRIMARY KEY (trial_id, role, "index", attempt, name),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE TABLE readings (
    trial_id INTEGER NOT NULL,
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (trial_id, role, "index", attempt),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE TABLE workspaces (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    archived BOOLEAN DEFAULT 0 NOT NULL,
    UNIQUE (name)
);
CREATE TABLE projects (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    workspace_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    archived BOOLEAN DEFAULT 0 NOT NULL,
    UNIQUE (workspace_id, name),
    FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);
CREATE TABLE models (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    project_id INTEGER NOT NULL,
    created FLOAT NOT NULL,
    user TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    metadata BLOB,
    archived BOOLEAN DEFAULT 0 NOT NULL,
    last_version INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (name),
    FOREIGN KEY(project_id) REFERENCES projects (id)
);
CREATE INDEX models_by_project ON models (project_id);
CREATE TABLE model_versions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    model_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    checkpoint_id INTEGER NOT NULL,
    created FLOAT NOT NULL,
    user TEXT DEFAULT '' NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    metadata BLOB,
    UNIQUE (model_id, version),
    UNIQUE (model_id, checkpoint_id),
    FOREIGN KEY(model_id) REFERENCES models (id),
    FOREIGN KEY(checkpoint_id) REFERENCES checkpoints (id)
);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint_id);
CREATE TABLE model_aliases (
    model_id INTEGER NOT NULL,
    alias TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (model_id, alias),
    FOREIGN KEY(model_id) REFERENCES models (id)
);
CREATE TABLE templates (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    user TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    fields BLOB NOT NULL,
    UNIQUE (name)
);
CREATE TABLE trial_texts (
    trial_id INTEGER NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (trial_id),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
INSERT INTO workspaces (id, uid, name, created)
VALUES (1, 'workspace-default', 'default', (julianday('now') - 2440587.5) * 86400.0);
INSERT INTO projects (id, uid, workspace_id, name, created)
VALUES (1, 'project-default', 1, 'default', (julianday('now') - 2440587.5) * 86400.0);
CREATE TABLE checkpoints (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    trial_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    is_folder BOOLEAN NOT NULL,
    step INTEGER,
    created FLOAT NOT NULL,
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    shards INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    files INTEGER NOT NULL,
    size INTEGER NOT NULL,
    metadata BLOB,
    is_deleted BOOLEAN DEFAULT 0 NOT NULL,
    UNIQUE (uid),
    FOREIGN KEY(trial_id) REFERENCES trials (id)
);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id, number);
CREATE TABLE checkpoint_uses (
    checkpoint_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    PRIMARY KEY (checkpoint_id, kind, user_id),
    FOREIGN KEY(checkpoint_id) REFERENCES checkpoints (id)
);
INSERT INTO alembic_version (version_num) VALUES ('0010');
