//! The functions of WASI preview 1, told once: their names, and the types of their arguments in WebAssembly.
//!
//! Invariant: those that take a guest look into the program's memory, the others do not.

/// Tells a macro every function but `proc_exit`, which does not return: first those that take a
/// [`Guest`](crate::Guest), then those that do not. All answer an errno as an `i32`.
#[macro_export]
macro_rules! preview1 {
    ($each:ident) => {
        $each! {
            guest {
                args_get(pointers: u32, buffer: u32);
                args_sizes_get(count: u32, len: u32);
                clock_res_get(clock: u32, nanos: u32);
                clock_time_get(clock: u32, precision: u64, nanos: u32);
                environ_get(pointers: u32, buffer: u32);
                environ_sizes_get(count: u32, len: u32);
                fd_fdstat_get(fd: u32, stat: u32);
                fd_filestat_get(fd: u32, stat: u32);
                fd_pread(fd: u32, iovs: u32, count: u32, offset: u64, read: u32);
                fd_prestat_dir_name(fd: u32, at: u32, len: u32);
                fd_prestat_get(fd: u32, prestat: u32);
                fd_pwrite(fd: u32, iovs: u32, count: u32, offset: u64, written: u32);
                fd_read(fd: u32, iovs: u32, count: u32, read: u32);
                fd_readdir(fd: u32, at: u32, len: u32, cookie: u64, used: u32);
                fd_seek(fd: u32, offset: i64, whence: u32, place: u32);
                fd_tell(fd: u32, place: u32);
                fd_write(fd: u32, iovs: u32, count: u32, written: u32);
                path_create_directory(fd: u32, at: u32, len: u32);
                path_filestat_get(fd: u32, flags: u32, at: u32, len: u32, stat: u32);
                path_filestat_set_times(
                    fd: u32, flags: u32, at: u32, len: u32, atim: u64, mtim: u64, fst_flags: u32
                );
                path_link(
                    fd: u32, flags: u32, at: u32, len: u32, to: u32, new_at: u32, new_len: u32
                );
                path_open(
                    fd: u32, dirflags: u32, at: u32, len: u32, oflags: u32, base: u64,
                    inheriting: u64, fdflags: u32, opened: u32
                );
                path_readlink(fd: u32, at: u32, len: u32, buffer: u32, buffer_len: u32, used: u32);
                path_remove_directory(fd: u32, at: u32, len: u32);
                path_rename(fd: u32, at: u32, len: u32, to: u32, new_at: u32, new_len: u32);
                path_symlink(target_at: u32, target_len: u32, fd: u32, at: u32, len: u32);
                path_unlink_file(fd: u32, at: u32, len: u32);
                poll_oneoff(subscriptions: u32, out: u32, len: u32, count: u32);
                random_get(at: u32, len: u32);
            }
            alone {
                fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
                fd_allocate(fd: u32, offset: u64, len: u64);
                fd_close(fd: u32);
                fd_datasync(fd: u32);
                fd_fdstat_set_flags(fd: u32, flags: u32);
                fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
                fd_filestat_set_size(fd: u32, size: u64);
                fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
                fd_renumber(fd: u32, to: u32);
                fd_sync(fd: u32);
                proc_raise(signal: u32);
                sched_yield();
                sock_accept(fd: u32, flags: u32, accepted: u32);
                sock_recv(fd: u32, iovs: u32, count: u32, flags: u32, received: u32, told: u32);
                sock_send(fd: u32, iovs: u32, count: u32, flags: u32, sent: u32);
                sock_shutdown(fd: u32, how: u32);
            }
        }
    };
}

macro_rules! names {
    (
        guest { $($guest:ident($($_g:ident: $_gt:ty),*);)* }
        alone { $($alone:ident($($_a:ident: $_at:ty),*);)* }
    ) => {
        /// The names of all functions, `proc_exit` last.
        pub const NAMES: &[&str] =
            &[$(stringify!($guest),)* $(stringify!($alone),)* "proc_exit"];
    };
}
preview1!(names);
