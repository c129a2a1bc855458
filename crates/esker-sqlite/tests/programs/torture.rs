//! What the torture drives: a table of numbered rows, one step of a transaction a call. What a row should be, the test
//! knows.

#[cfg(target_family = "wasm")]
mod program {
    use std::cell::RefCell;

    use esker::Time;
    use esker::ground::{Memory, Region, Undo};
    use esker_embedded::{Files, Stable};
    use ic_stable_structures::DefaultMemoryImpl;
    use rusqlite::{Connection, params};

    thread_local! {
        static DATABASE: RefCell<Option<Connection>> = const { RefCell::new(None) };
    }

    const JOURNALS: [&str; 6] = ["delete", "truncate", "persist", "wal", "memory", "off"];

    fn with<R>(act: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> R {
        DATABASE.with_borrow(|database| act(database.as_ref().unwrap()).unwrap())
    }

    fn now() -> Time {
        Time { secs: 1_700_000_000, nanos: 0 }
    }

    /// Of the log of what to undo, before the files.
    const LOG_SIZE: u64 = 2 << 20;

    fn stable() -> Stable<DefaultMemoryImpl> {
        Stable::new(DefaultMemoryImpl::default())
    }

    /// A memory that nobody rolls back, as it was when the last call ended.
    fn with_undo() -> Undo<impl Memory, impl Memory> {
        let log = Region::new(stable(), 0, LOG_SIZE).unwrap();
        let files = Region::new(stable(), LOG_SIZE, u64::MAX - LOG_SIZE).unwrap();
        Undo::open(files, log).unwrap()
    }

    fn through_wasi(memory: impl Memory + 'static) -> &'static str {
        esker_polyfill::try_init(&[7; 32], &[], memory).unwrap();
        "unix-none"
    }

    fn straight(memory: Box<dyn Memory>) -> &'static str {
        let files = Files::open_memory(memory, now).unwrap();
        esker_sqlite::install(files, [7; 32]).unwrap();
        "esker"
    }

    /// What is below, the test knows by these numbers.
    #[unsafe(no_mangle)]
    extern "C" fn start(below: u32, journal: u32) {
        let vfs = match below {
            0 => through_wasi(stable()),
            1 => straight(Box::new(stable())),
            2 => straight(Box::new(with_undo())),
            _ => through_wasi(with_undo()),
        };
        let journal = JOURNALS[journal as usize];
        let locking = if journal == "wal" { "exclusive" } else { "normal" };
        let database = Connection::open(format!("file:/rows.db?vfs={vfs}")).unwrap();
        // Few pages at hand, so that a transaction writes before it commits.
        let set_up = format!(
            "PRAGMA locking_mode = {locking}; PRAGMA journal_mode = {journal};
             PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 20;
             CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, value BLOB);
             CREATE INDEX IF NOT EXISTS by_value ON rows (value);"
        );
        database.execute_batch(&set_up).unwrap();
        DATABASE.set(Some(database));
    }

    #[unsafe(no_mangle)]
    extern "C" fn begin() {
        with(|database| database.execute_batch("BEGIN"));
    }

    #[unsafe(no_mangle)]
    extern "C" fn commit() {
        with(|database| database.execute_batch("COMMIT"));
    }

    #[unsafe(no_mangle)]
    extern "C" fn rollback() {
        with(|database| database.execute_batch("ROLLBACK"));
    }

    /// Rows from `id` on, each of `len` bytes.
    #[unsafe(no_mangle)]
    extern "C" fn put(id: u32, count: u32, len: u32, fill: u32) {
        with(|database| {
            let mut put = database.prepare("INSERT OR REPLACE INTO rows VALUES (?, ?)")?;
            (id..id + count).try_for_each(|id| {
                put.execute(params![id, vec![fill as u8; len as usize]]).map(drop)
            })
        });
    }

    #[unsafe(no_mangle)]
    extern "C" fn take_away(id: u32, count: u32) {
        let remove = "DELETE FROM rows WHERE id >= ?1 AND id < ?1 + ?2";
        with(|database| database.execute(remove, [id, count]));
    }

    /// Nothing is wrong with the database.
    #[unsafe(no_mangle)]
    extern "C" fn is_sound() -> u32 {
        let said: String =
            with(|database| database.query_row("PRAGMA integrity_check", [], |row| row.get(0)));
        u32::from(said == "ok")
    }

    /// What all rows together are.
    #[unsafe(no_mangle)]
    extern "C" fn sum() -> u64 {
        with(|database| {
            let mut rows = database.prepare("SELECT id, value FROM rows ORDER BY id")?;
            let mut rows = rows.query([])?;
            let mut sum = 0_u64;
            while let Some(row) = rows.next()? {
                let (id, value): (u32, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let words = [id, value.len() as u32, value.first().copied().unwrap_or(0).into()];
                for word in words {
                    sum = (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            Ok(sum)
        })
    }
}
