//! Mutations of bytes, as by accident or malice.

use super::random::Random;

/// Insertions for numbers, names and brackets.
const SCRAPS: &[&[u8]] = &[
    b"18446744073709551616",
    b"9223372036854775808",
    b"-1",
    b"0",
    b"4294967296",
    b"1e308",
    b"1e999",
    b"-0.0",
    b"nan",
    b"inf",
    b"1e-320",
    b"\0",
    b"\x1b[2J",
    b"\x07",
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b"\t",
    b"\"",
    b"'''",
    b"\"\"\"",
    b"\\u0000",
    b"\\U0010FFFF",
    b"\\",
    b"<",
    b">",
    b"@prefix : <",
    b"_:b",
    b"[]",
    b"()",
    b"{}",
    b"=>",
    b"<=",
    b"?a",
    b",",
    b";",
    b"#",
    b"..",
    b"/",
    b"null",
    b"[[x]]\n",
    b"x = 1\n",
    b"&a *a",
    b": ",
    b"? ",
];

/// The bytes after one to four changes. `other` provides pieces for splices.
pub fn mutate(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        once(&mut bytes, other, random);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let most = 1 + random.below(40);
    let length = 1 + random.below(most);
    let end = (at + length).min(bytes.len());
    match random.below(16) {
        0..=2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.below(256) as u8;
            }
        }
        4 => drop(bytes.drain(at..end)),
        5 => {
            let piece = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, piece);
        }
        6..=8 => drop(bytes.splice(at..end, random.pick(SCRAPS).to_vec())),
        9 => drop(bytes.splice(at..at, random.pick(SCRAPS).to_vec())),
        10 => bytes.truncate(at),
        11 => {
            let from = random.below(other.len() + 1);
            let to = (from + random.below(80)).min(other.len());
            bytes.splice(at..end, other[from..to].to_vec());
        }
        12 => number(bytes, random),
        13 => line(bytes, random),
        14 => {
            // Occasionally a line, a name or a nesting of extreme length.
            let unit: &[u8] = random.pick::<&[u8]>(&[
                b"a",
                b" ",
                b"\t",
                b"[",
                b"(",
                b"{",
                b"\"",
                b"<",
                b"\\",
                b"a,",
                b"?a r ?b ",
                b"[a ",
                b"0",
            ]);
            let times = [10, 100, 1_000, 10_000, 100_000][random.below(5)];
            bytes.splice(at..at, unit.repeat(times));
        }
        _ => bytes.reverse(),
    }
}

/// Replaces a number by an extreme one.
fn number(bytes: &mut Vec<u8>, random: &mut Random) {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    if starts.is_empty() {
        return;
    }
    let start = *random.pick(&starts);
    let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(start..end, SCRAPS[random.below(11)].to_vec());
}

/// Removes, doubles, swaps or repeats whole lines.
fn line(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(4) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(one, lines[other].clone()),
        2 => lines.swap(one, other),
        _ => lines[one] = lines[one].repeat(1 + random.below(300)),
    }
    *bytes = lines.concat();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_the_same_every_time_and_the_empty_file_is_no_trouble() {
        for number in 0..2_000 {
            let name = format!("{number}");
            let bytes: &[u8] = if number % 2 == 0 { b"" } else { b"a\tr\tb\n12\n" };
            let once = mutate(bytes, b"c\td", &mut Random::of(1, &name));
            assert_eq!(once, mutate(bytes, b"c\td", &mut Random::of(1, &name)));
        }
    }
}
