//! A TUN device: what a namespace sends into it is read here, what is written here arrives there.
//!
//! The device lives as long as this does: when the process ends, however it ends, the kernel removes it.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Updater, opcode};

use super::host::Host;
use super::{NetError, run};

/// Packets that may wait in the device before they are read: some 100 ms at 120 Mbit/s, which is longer
/// than this process ever waits for a processor.
const BACKLOG: &str = "10000";
/// The largest packet of the link, the usual one of the internet.
pub(crate) const PACKET_MAX: usize = 1500;

#[derive(Debug)]
pub struct Tun(File);

/// `struct ifreq`: a name and, in the first bytes of the rest, flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

impl Tun {
    /// Makes a device and moves it to a host, where it has this name and is still down.
    pub fn new(host: &Host, name: &str) -> Result<Tun, NetError> {
        let io = |source| NetError::Io { doing: "could not make a TUN device".into(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let device = options.open("/dev/net/tun").map_err(io)?;
        let made = attach(&device).map_err(io)?;
        run("ip", &["link", "set", "dev", &made, "netns", host.namespace(), "name", name])?;
        // Without generated addresses nothing of IPv6 is sent that nobody asked for.
        host.ip(&["link", "set", "dev", name, "addrgenmode", "none"])?;
        let mtu = PACKET_MAX.to_string();
        host.ip(&["link", "set", "dev", name, "mtu", &mtu, "txqueuelen", BACKLOG])?;
        Ok(Tun(device))
    }

    /// Reads the next packet, or `WouldBlock`.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(packet)
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// The device is down, or the host has no room.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes the device behind an opened file and returns the name that the kernel gave it.
#[expect(unsafe_code, reason = "no safe call makes a TUN device")]
fn attach(device: &File) -> io::Result<String> {
    /// `TUNSETIFF` of `linux/if_tun.h`: the kernel's macro says `int`, and reads and writes an `ifreq`.
    const SET_INTERFACE: Opcode = opcode::write::<i32>(b'T', 202);
    /// A layer 3 device, packets without a header of the device's own.
    const TUN_WITHOUT_HEADER: u16 = 0x0001 | 0x1000;
    let mut request = Request { name: [0; 16], flags: TUN_WITHOUT_HEADER, rest: [0; 22] };
    // The kernel counts.
    request.name[..8].copy_from_slice(b"tglab%d\0");
    // SAFETY: the opcode is that of TUNSETIFF, for which the kernel reads and writes one `ifreq` of 40
    // bytes; `Request` has that size and layout and is valid for every bit pattern.
    unsafe {
        rustix::ioctl::ioctl(device, Updater::<SET_INTERFACE, Request>::new(&mut request))?;
    }
    let name = CStr::from_bytes_until_nul(&request.name).map_err(io::Error::other)?;
    Ok(name.to_string_lossy().into_owned())
}

const _: () = assert!(size_of::<Request>() == 40);
