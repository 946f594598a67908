//! The one socket option that has no safe wrapper: `SO_RCVLOWAT` (tcp(7), socket(7)).
//!
//! PostgreSQL sends COPY data in pieces of 8 KiB. A reader that is faster than the server would be woken for every few of them, and
//! on a machine where both share the cores each wake-up takes time from the server. With a low-water mark the kernel
//! reports the socket readable only when a good part of a chunk has come in.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Reports the socket readable only from `bytes` on. False: the kernel does not do that for this kind of socket.
pub(crate) fn set(socket: BorrowedFd<'_>, bytes: i32) -> bool {
    // SAFETY: the descriptor is open for the whole call (it is borrowed), and the option value is a C int of the given size that lives
    // until the call returns; setsockopt only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            std::ptr::from_ref(&bytes).cast(),
            std::mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    result == 0
}
