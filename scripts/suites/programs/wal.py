"""SQLite in WAL mode under load: wal.py DATABASE SECONDS

Four writers move money between accounts and log every move; three readers check, each in one
snapshot, that no money was made or lost and that the log explains every balance; one process
checkpoints; one writer at a time is killed by SIGKILL, in the middle of whatever it does. In
the end the database must be intact and hold every move that a writer was told is committed.
"""

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time

ACCOUNTS = 500
MONEY = 1000
WRITERS = 4
READERS = 3


def connect(path):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA wal_autocheckpoint=200")
    return db


def create(path):
    db = connect(path)
    db.executescript(
        """
        CREATE TABLE account(id INTEGER PRIMARY KEY, money INTEGER NOT NULL);
        CREATE TABLE move(id INTEGER PRIMARY KEY, writer INTEGER, serial INTEGER, source INTEGER,
                          target INTEGER, money INTEGER, filler BLOB, UNIQUE(writer, serial));
        CREATE INDEX by_source ON move(source);
        CREATE INDEX by_target ON move(target);
        """
    )
    db.execute("BEGIN")
    db.executemany("INSERT INTO account VALUES(?, ?)", [(n, MONEY) for n in range(ACCOUNTS)])
    db.execute("COMMIT")
    db.close()


def write(path, writer, serials, stop):
    chance = random.Random(writer)
    db = connect(path)
    serial = serials[writer]
    while not stop.is_set():
        serial += 1
        db.execute("BEGIN IMMEDIATE")
        for _ in range(chance.randrange(1, 5)):
            source, target = chance.sample(range(ACCOUNTS), 2)
            money = chance.randrange(100)
            db.execute("UPDATE account SET money = money - ? WHERE id = ?", (money, source))
            db.execute("UPDATE account SET money = money + ? WHERE id = ?", (money, target))
            db.execute(
                "INSERT INTO move(writer, serial, source, target, money, filler)"
                " VALUES(?, ?, ?, ?, ?, randomblob(?))",
                (writer, serial * 10 + _, source, target, money, chance.randrange(3000)),
            )
        if serial % 20 == 0:
            db.execute("UPDATE move SET filler = NULL WHERE writer = ? AND serial < ?",
                       (writer, (serial - 300) * 10))
        db.execute("ROLLBACK" if serial % 17 == 0 else "COMMIT")
        if serial % 17 != 0:
            serials[writer] = serial
    db.close()


def broken(db):
    """What is wrong in one snapshot, or None."""
    db.execute("BEGIN")
    total = db.execute("SELECT sum(money) FROM account").fetchone()[0]
    wrong = db.execute(
        "SELECT count(*) FROM account WHERE money != ?"
        " - (SELECT coalesce(sum(money), 0) FROM move WHERE source = account.id)"
        " + (SELECT coalesce(sum(money), 0) FROM move WHERE target = account.id)",
        (MONEY,),
    ).fetchone()[0]
    db.execute("COMMIT")
    if total != ACCOUNTS * MONEY:
        return f"the sum is {total}"
    return f"{wrong} accounts disagree with the log" if wrong else None


def read(path, reads, number, stop):
    db = connect(path)
    while not stop.is_set():
        fault = broken(db)
        if fault:
            print(f"reader {number}: {fault}", flush=True)
            os._exit(1)
        reads[number] += 1
    db.close()


def checkpoint(path, stop):
    db = connect(path)
    kinds = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"]
    turn = 0
    while not stop.wait(0.5):
        try:
            db.execute(f"PRAGMA wal_checkpoint({kinds[turn % 4]})").fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        turn += 1
    db.close()


def main(path, seconds):
    create(path)
    stop = multiprocessing.Event()
    serials = multiprocessing.Array("q", WRITERS, lock=False)
    reads = multiprocessing.Array("q", READERS, lock=False)

    def start(target, *arguments):
        process = multiprocessing.Process(target=target, args=(path, *arguments, stop))
        process.start()
        return process

    others = [start(read, reads, n) for n in range(READERS)] + [start(checkpoint)]
    writers = [start(write, n, serials) for n in range(WRITERS)]
    chance = random.Random(7)
    end = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.5, 2.0))
        victim = kills % WRITERS
        if not writers[victim].is_alive() or not all(p.is_alive() for p in others):
            break
        os.kill(writers[victim].pid, signal.SIGKILL)
        writers[victim].join()
        kills += 1
        # What it committed without being able to say so counts too.
        db = connect(path)
        last = db.execute("SELECT max(serial) FROM move WHERE writer = ?", (victim,)).fetchone()[0]
        db.close()
        serials[victim] = max(serials[victim], (last or 0) // 10)
        writers[victim] = start(write, victim, serials)
    stop.set()
    for process in writers + others:
        process.join(60)
    failed = [p.exitcode for p in writers + others if p.exitcode != 0]

    db = connect(path)
    check = db.execute("PRAGMA integrity_check").fetchall()
    fault = broken(db)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for writer in range(WRITERS):
        last = db.execute("SELECT max(serial) FROM move WHERE writer = ?", (writer,)).fetchone()[0]
        if (last or 0) // 10 != serials[writer]:
            fault = f"writer {writer} committed {serials[writer]}, found {(last or 0) // 10}"
    db.close()
    left = sorted(n for n in os.listdir(os.path.dirname(path)) if n.startswith("load.db"))
    if failed or check != [("ok",)] or fault or left != ["load.db"]:
        sys.exit(f"exit statuses {failed}, integrity {check}, fault {fault}, files {left}")
    print(f"sqlite {sqlite3.sqlite_version} in WAL mode: {sum(serials)} transactions by "
          f"{WRITERS} writers, {sum(reads)} checks by {READERS} readers, {kills} writers killed, "
          f"{os.path.getsize(path) >> 20} MB; integrity_check ok")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
