-- All tables and indexes of the first release.
--
-- To change the schema, add a file 0002_<change>.sql. Never edit a file that has been released.
-- Comments state what a column holds where its name does not.
--
-- Statements keep to SQL that SQLite and PostgreSQL share, apart from three words of SQLite:
-- AUTOINCREMENT (ids are never reused), BLOB, and WITHOUT ROWID. :now is the time of the upgrade
-- in seconds since the epoch, as in all columns of times.

-- The workspace and the project with id 1 are both named `default` and always exist.
CREATE TABLE workspaces (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    created FLOAT NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    archived BOOLEAN DEFAULT FALSE NOT NULL
);

CREATE TABLE projects (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    archived BOOLEAN DEFAULT FALSE NOT NULL,
    UNIQUE (workspace_id, name)
);

INSERT INTO workspaces (id, uid, name, created)
VALUES (1, 'workspace-default', 'default', :now);

INSERT INTO projects (id, uid, workspace_id, name, created)
VALUES (1, 'project-default', 1, 'default', :now);

CREATE TABLE experiments (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    created FLOAT NOT NULL,
    uid TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    -- JSON, read and written by the server only.
    labels BLOB,
    config BLOB,
    links BLOB,
    artifacts BLOB,
    searches BLOB,
    project_id INTEGER DEFAULT 1 NOT NULL REFERENCES projects (id),
    -- The default priority of trials that are added to the experiment.
    priority INTEGER DEFAULT 0 NOT NULL,
    archived BOOLEAN DEFAULT FALSE NOT NULL
);
CREATE INDEX experiments_by_name ON experiments (project_id, name);
CREATE INDEX experiments_by_archived ON experiments (archived);
CREATE INDEX experiments_by_uid ON experiments (uid);

CREATE TABLE trials (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    experiment_id INTEGER NOT NULL REFERENCES experiments (id),
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    -- No process of the trial runs any more, and the controller has nothing left to do for it.
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
    "user" TEXT NOT NULL,
    -- JSON, read and written by the server only; so are labels and recipe below.
    params BLOB NOT NULL,
    spec BLOB NOT NULL,
    status BLOB NOT NULL,
    provenance BLOB NOT NULL,
    error BLOB,
    result BLOB,
    cause BLOB,
    auxiliary BOOLEAN DEFAULT FALSE NOT NULL,
    -- The trial consists of the trials that its generator adds. No process is started for it.
    is_generated BOOLEAN DEFAULT FALSE NOT NULL,
    parent_id INTEGER,
    origin_id INTEGER,
    asked_to_stop TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    recipe BLOB,
    kind TEXT DEFAULT 'job' NOT NULL,
    progress FLOAT
);
CREATE INDEX trials_by_state ON trials (state, id);
CREATE INDEX trials_by_settled ON trials (settled, id);
CREATE INDEX trials_by_experiment ON trials (experiment_id, id);
CREATE INDEX trials_by_created ON trials (created, id);
CREATE INDEX trials_by_parent ON trials (parent_id);
CREATE INDEX trials_by_origin ON trials (origin_id);
-- All columns that lists filter and sort by: a whole row is a hundred times as long.
CREATE INDEX trials_listed ON trials (
    id, kind, state, name, "user", experiment_id, created, started, ended
);
CREATE INDEX trials_by_outcome ON trials (experiment_id, state, auxiliary, kind);
CREATE INDEX trials_by_labels ON trials (labels) WHERE labels IS NOT NULL;

-- The parameters of trials. The name of a nested parameter is its path, joined with dots.
CREATE TABLE parameters (
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    name TEXT NOT NULL,
    -- A boolean has both a number and a text.
    number FLOAT,
    text TEXT,
    PRIMARY KEY (trial_id, name)
) WITHOUT ROWID;
-- Lists filter and sort by numbers, and by texts.
CREATE INDEX parameters_by_number ON parameters (name, number, trial_id);
CREATE INDEX parameters_by_text ON parameters (name, text, trial_id) WHERE text IS NOT NULL;

-- Texts that users write about trials. Few trials have a row.
CREATE TABLE trial_texts (
    trial_id INTEGER NOT NULL PRIMARY KEY REFERENCES trials (id),
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL
);

CREATE TABLE attempts (
    trial_id INTEGER NOT NULL REFERENCES trials (id),
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
    PRIMARY KEY (trial_id, role, "index", attempt)
);

CREATE TABLE events (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    time FLOAT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX events_by_trial ON events (trial_id, id);

-- One row per metric of a trial: a summary of all values that count, updated as values are read.
-- Infinities are stored as numbers. A NaN is stored as NULL in `last`.
CREATE TABLE summaries (
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    name TEXT NOT NULL,
    count BIGINT NOT NULL,
    -- The number of finite values, which `total` adds up.
    finite BIGINT NOT NULL,
    total FLOAT NOT NULL,
    mean FLOAT,
    min FLOAT,
    max FLOAT,
    last FLOAT,
    step BIGINT,
    time FLOAT NOT NULL,
    PRIMARY KEY (trial_id, name)
) WITHOUT ROWID;
-- Lists filter and sort by these columns. The mean and the count have no index: both change with
-- every value, and few lists are sorted by them.
CREATE INDEX summaries_by_last ON summaries (name, last, trial_id);
CREATE INDEX summaries_by_min ON summaries (name, min, trial_id);
CREATE INDEX summaries_by_max ON summaries (name, max, trial_id);

-- The share of each attempt in a summary. From the first step that a later attempt of the same
-- replica reports, values of the earlier attempt do not count.
CREATE TABLE tallies (
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- The smallest and the largest step that the attempt reported.
    first BIGINT NOT NULL,
    reach BIGINT NOT NULL,
    -- The step from which on the attempt does not count.
    until BIGINT,
    count BIGINT NOT NULL,
    finite BIGINT NOT NULL,
    total FLOAT NOT NULL,
    min FLOAT,
    max FLOAT,
    last FLOAT,
    step BIGINT NOT NULL,
    time FLOAT NOT NULL,
    PRIMARY KEY (trial_id, role, "index", attempt, name)
) WITHOUT ROWID;

-- The position up to which the metrics file of an attempt was read: each value counts once.
CREATE TABLE readings (
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (trial_id, role, "index", attempt)
) WITHOUT ROWID;

-- The checkpoints that trials saved, one row per record file.
CREATE TABLE checkpoints (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    trial_id INTEGER NOT NULL REFERENCES trials (id),
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    is_folder BOOLEAN NOT NULL,
    step BIGINT,
    created FLOAT NOT NULL,
    role TEXT NOT NULL,
    "index" INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    shards INTEGER NOT NULL,
    -- The digest of a blob that lists the blobs of the files.
    manifest TEXT NOT NULL,
    files INTEGER NOT NULL,
    size BIGINT NOT NULL,
    -- JSON.
    metadata BLOB,
    -- Lists omit the checkpoint, but its record file may still exist.
    is_deleted BOOLEAN DEFAULT FALSE NOT NULL
);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id, number);

-- The users of a checkpoint, which is not deleted while it has a row here.
CREATE TABLE checkpoint_uses (
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoints (id),
    -- "trial", for a trial that starts with the checkpoint, or "model", for a model version.
    kind TEXT NOT NULL,
    -- The id of the trial or the model version.
    user_id INTEGER NOT NULL,
    PRIMARY KEY (checkpoint_id, kind, user_id)
);

CREATE TABLE models (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    project_id INTEGER NOT NULL REFERENCES projects (id),
    created FLOAT NOT NULL,
    "user" TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    metadata BLOB,
    archived BOOLEAN DEFAULT FALSE NOT NULL,
    -- The number of the last version that was registered. A number is never reused.
    last_version INTEGER DEFAULT 0 NOT NULL
);
CREATE INDEX models_by_project ON models (project_id);

CREATE TABLE model_versions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    model_id INTEGER NOT NULL REFERENCES models (id),
    version INTEGER NOT NULL,
    -- A checkpoint that a version names is not deleted.
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoints (id),
    created FLOAT NOT NULL,
    "user" TEXT DEFAULT '' NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    notes TEXT DEFAULT '' NOT NULL,
    labels BLOB,
    metadata BLOB,
    UNIQUE (model_id, version),
    UNIQUE (model_id, checkpoint_id)
);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint_id);

CREATE TABLE model_aliases (
    model_id INTEGER NOT NULL REFERENCES models (id),
    alias TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (model_id, alias)
);

CREATE TABLE templates (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    created FLOAT NOT NULL,
    "user" TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    fields BLOB NOT NULL
);

-- Small blobs of new trials that have no file yet. A row is stored together with the trial, which
-- is faster than a file for each. The server writes the files later and then deletes the rows.
CREATE TABLE unwritten_blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
);
