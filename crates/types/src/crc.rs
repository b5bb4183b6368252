//! CRC-32C (Castagnoli), the checksum of every header and entry of the log, by the processor's own
//! instruction where it has one.

/// The checksum of `bytes` after what `seed` is the checksum of; a seed of 0 begins.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(0, &[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(0, &rising), 0x46dd_794e);
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn pieces_make_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(crc32c(crc32c(0, first), second), crc32c(0, &bytes));
        }
    }
}
