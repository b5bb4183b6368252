//! Addresses and networks, as "127.0.0.1" and "10.0.0.0/8".

use std::net::IpAddr;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::values::{Form, Shape, quoted, values};

/// One address, or all whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Network {
    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        let differs = number(self.address).0 ^ number(address).0;
        self.address.is_ipv4() == address.is_ipv4() && differs.leading_zeros() >= self.bits.into()
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no network: write \"10.0.0.7\" or \"10.0.0.0/8\"");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = number(address).1;
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Network { address, bits })
    }
}

values! {
    Network: Shape::Form(Form { name: "address or network", pattern: "^[0-9a-fA-F:.]+(/[0-9]+)?$" }),
        |network| quoted(&format!("{}/{}", network.address, network.bits));
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Host and port of `host:port` or `[::1]:port`.
pub(crate) fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
    let is_bare_v6 = host.contains(':') && !text.starts_with('[');
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty() && !is_bare_v6).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_addresses_of_their_first_bits() {
        for (network, address, is_in) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("::1", "::1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.has(address.parse().unwrap()), is_in, "{network:?} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "::/129", "a", "10.0.0.0/x", "10.0.0.0/"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("[::1]:80"), Some(("::1".into(), 80)));
        assert_eq!(address("a.example:443"), Some(("a.example".into(), 443)));
        for wrong in ["a", "::1:80", ":80", "a:0", "a:x", "[::1:80"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
