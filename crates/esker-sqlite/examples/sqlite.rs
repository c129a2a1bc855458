//! SQLite in a canister: what was ordered is in a database, which outlives upgrades.
//!
//! cargo build -p esker-sqlite --example sqlite --target wasm32-wasip1 --release
//! esker wasi-link target/wasm32-wasip1/release/examples/sqlite.wasm -o sqlite.wasm

#[cfg(target_family = "wasm")]
mod canister {
    use std::cell::RefCell;

    use rusqlite::{Connection, Result};

    thread_local! {
        static DATABASE: RefCell<Option<Connection>> = const { RefCell::new(None) };
    }

    /// WASI has no locks, and nobody else is there.
    fn open() -> Result<Connection> {
        let database = Connection::open("file:/orders.db?vfs=unix-none")?;
        database.execute_batch(
            "PRAGMA journal_mode = persist; PRAGMA temp_store = memory;
             CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL)",
        )?;
        Ok(database)
    }

    #[unsafe(export_name = "canister_init")]
    extern "C" fn init() {
        esker_polyfill::init(&[7; 32], &[]);
        DATABASE.set(Some(open().unwrap()));
    }

    /// The same: the database is where it was. What was not committed is rolled back.
    #[unsafe(export_name = "canister_post_upgrade")]
    extern "C" fn post_upgrade() {
        init();
    }

    #[unsafe(export_name = "canister_update order")]
    extern "C" fn order() {
        DATABASE.with_borrow(|database| {
            let database = database.as_ref().unwrap();
            database.execute("INSERT INTO orders (what) VALUES ('a book')", []).unwrap();
            let count = "SELECT count(*) FROM orders";
            let count: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
            println!("{count} orders");
        });
    }

    /// Half a transaction, left open: an upgrade rolls it back.
    #[unsafe(export_name = "canister_update half")]
    extern "C" fn half() {
        let half = "BEGIN; DELETE FROM orders";
        DATABASE.with_borrow(|database| database.as_ref().unwrap().execute_batch(half)).unwrap();
    }
}
