//! SQLite: users and their orders, and many small transactions.
//!
//! Invariant: nothing here knows what is below; SQLite's object code is the same over whatever it is.

use rusqlite::{Connection, params};

use crate::host;

#[cfg(feature = "wasi")]
fn now() -> esker::Time {
    let nanos = host::now();
    esker::Time { secs: (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as u32 }
}

/// A message begins: its time is told, and asked for no more.
#[cfg(feature = "wasi")]
pub fn told() {
    esker_polyfill::stand_still(Some(host::now()));
}

/// The same without WASI between.
#[cfg(feature = "wasi")]
pub fn told_straight() {
    esker_sqlite::stand_still(Some(now()));
}

/// What SQLite stands on, and how a message begins there.
#[derive(Clone, Copy)]
pub struct Below {
    pub vfs: &'static str,
    pub message: fn(),
}

impl Below {
    fn row<R>(self, name: &str, f: impl FnOnce() -> R) -> R {
        host::row(name, true, || {
            (self.message)();
            f()
        })
    }
}

/// SQLite keeps its databases in the stable memory, without WASI between, and asks the system for the time.
#[cfg(feature = "wasi")]
pub fn install() {
    use esker_embedded::{Files, Stable};
    use ic_stable_structures::DefaultMemoryImpl;

    let memory = Stable::new(DefaultMemoryImpl::default());
    let files = Files::open_memory(Box::new(memory) as _, now).expect("a new memory");
    esker_sqlite::install(files, [1; 32]).expect("is the first");
}

const USERS: u32 = 100_000;
/// As programs in canisters commonly set it up.
const SETTINGS: &str = "PRAGMA page_size = 4096; PRAGMA journal_mode = persist; \
    PRAGMA synchronous = off; PRAGMA locking_mode = exclusive; PRAGMA temp_store = memory; \
    PRAGMA cache_size = 500000;";
const TABLES: &str = "CREATE TABLE users (user_id INTEGER PRIMARY KEY AUTOINCREMENT, \
    username TEXT NOT NULL, email TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP); \
    CREATE TABLE orders (order_id INTEGER PRIMARY KEY AUTOINCREMENT, user_id INTEGER NOT NULL, \
    amount REAL NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, \
    FOREIGN KEY (user_id) REFERENCES users(user_id));";
const INDEXES: &str = "CREATE INDEX idx_users_email ON users(email); \
    CREATE INDEX idx_orders_user_id ON orders(user_id);";
const JOIN: &str = "SELECT u.user_id, u.username, o.order_id, o.amount FROM users u \
    JOIN orders o ON u.user_id = o.user_id WHERE u.user_id < 1000 ORDER BY o.created_at DESC";
const LIKE: &str = "SELECT * FROM users WHERE email LIKE 'user%'";

fn open(path: &str, settings: &str) -> Connection {
    let database = Connection::open(path).expect("opens");
    database.execute_batch(settings).expect("is set up");
    database
}

fn add_users(database: &mut Connection, count: u32) {
    let all = database.transaction().expect("begins");
    let mut insert =
        all.prepare("INSERT INTO users (username, email) VALUES (?, ?)").expect("is SQL");
    for id in 1..=count {
        let row = params![format!("user{id}"), format!("user{id}@example.com")];
        insert.execute(row).expect("inserts");
    }
    drop(insert);
    all.commit().expect("commits");
}

fn add_orders(database: &mut Connection, count: u32, users: u32) {
    let all = database.transaction().expect("begins");
    let mut insert =
        all.prepare("INSERT INTO orders (user_id, amount) VALUES (?, ?)").expect("is SQL");
    for number in 1..=u64::from(count) {
        let user = number * 13 % u64::from(users) + 1;
        insert.execute(params![user as i64, (user * 117 / 15) as i64]).expect("inserts");
    }
    drop(insert);
    all.commit().expect("commits");
}

/// Every value of every row is looked at; how many rows there were.
fn query(database: &Connection, sql: &str) -> usize {
    let mut query = database.prepare(sql).expect("is SQL");
    let columns = query.column_count();
    let mut rows = query.query([]).expect("asks");
    let mut count = 0;
    while let Some(row) = rows.next().expect("answers") {
        (0..columns).for_each(|column| assert!(row.get_ref(column).is_ok()));
        count += 1;
    }
    count
}

fn users_and_orders(below: Below, users: u32) {
    let path = format!("file:/main.db?vfs={}", below.vfs);
    let (mut database, orders) = (open(&path, SETTINGS), users * 10);
    let batch = |database: &Connection, sql: &str| database.execute_batch(sql).expect("is done");
    batch(&database, TABLES);
    below.row("users", || add_users(&mut database, users));
    below.row("orders", || add_orders(&mut database, orders, users));
    below.row("both indexes", || batch(&database, INDEXES));
    below.row("join", || query(&database, JOIN));
    below.row("LIKE on an indexed field", || query(&database, LIKE));
    below.row("100 more orders", || add_orders(&mut database, 100, users));
    below.row("delete 1000 orders", || batch(&database, "DELETE FROM orders WHERE user_id <= 100"));
    let many = orders - orders / 10;
    let many = format!("BEGIN; DELETE FROM orders WHERE order_id > {many}; ROLLBACK");
    below.row("delete a tenth of the orders, roll back", || batch(&database, &many));
    assert_eq!(query(&database, "SELECT * FROM orders"), (orders + 100 - 1007) as usize);
}

/// Rows that there are already, and numbers that a row may have.
const ENTRIES: (u64, u64) = (10_000, 20_000);
const TRANSACTIONS: usize = 1000;

fn transactions(below: Below, journal: &str) {
    // Nobody else is there to be locked out; without shared memory a log needs to be told so.
    let locking = if journal == "wal" { "exclusive" } else { "normal" };
    let settings = format!(
        "PRAGMA locking_mode = {locking}; PRAGMA journal_mode = {journal}; \
         PRAGMA cache_size = 64; CREATE TABLE entries (id INTEGER PRIMARY KEY, value BLOB);"
    );
    let database = open(&format!("file:/{journal}.db?vfs={}", below.vfs), &settings);
    let mut put = database.prepare("INSERT OR REPLACE INTO entries VALUES (?, ?)").expect("is SQL");
    database.execute_batch("BEGIN").expect("begins");
    for id in 0..ENTRIES.0 {
        put.execute(params![(id * 2) as i64, [7_u8; 100]]).expect("inserts");
    }
    database.execute_batch("COMMIT").expect("commits");
    let mut seed = 12345_u64;
    below.row(journal, || {
        for _ in 0..TRANSACTIONS {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = (seed >> 33) % ENTRIES.1;
            put.execute(params![id as i64, [9_u8; 100]]).expect("inserts");
        }
    });
    drop(put);
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let said = database.query_row("PRAGMA integrity_check", [], check).expect("answers");
    assert_eq!(said, "ok");
}

/// Runs one bench.
pub fn run(below: Below, bench: u32) {
    let journals = ["delete", "truncate", "persist", "memory", "off", "wal"];
    match bench {
        21 => users_and_orders(below, USERS),
        22 => journals.iter().for_each(|journal| transactions(below, journal)),
        23 => users_and_orders(below, USERS / 10),
        _ => panic!("no such bench"),
    }
}
