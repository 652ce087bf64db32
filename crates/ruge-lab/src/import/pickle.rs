//! Pickles read as data: nothing that they name is looked up, called or built.
//!
//! A pickle is a program for a small stack machine, and Python's own reader does what it says: import any function, call it with any
//! arguments. Here every step only notes what was asked for: a [`Node`] for each value, and for a call what would be called and with
//! what. So a model of PyTorch can be looked through for its tables and settings, whoever made the file.

use std::collections::HashMap;

/// A value, by its place among all of them.
pub type At = usize;

/// What a pickle says about a value.
#[derive(Debug, Default)]
pub enum Node {
    /// `None`.
    #[default]
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes, or a number too large to matter here.
    Bytes(usize),
    /// A tuple, list or set.
    List(Vec<At>),
    /// A dict.
    Dict(Vec<(At, At)>),
    /// Something by its module and name.
    Global(String),
    /// What a call would make.
    Made {
        /// What would be called.
        of: At,
        /// Its arguments.
        with: At,
        /// What would then be set on it.
        state: Option<At>,
    },
    /// Something that is stored beside the pickle.
    Outside(At),
}

/// All values of a pickle.
#[derive(Debug, Default)]
pub struct Pickle {
    nodes: Vec<Node>,
    root: At,
}

/// What is on the stack.
#[derive(Clone, Copy)]
enum Slot {
    Value(At),
    Mark,
}

struct Machine<'p> {
    bytes: &'p [u8],
    at: usize,
    stack: Vec<Slot>,
    memo: HashMap<usize, At>,
    nodes: Vec<Node>,
}

type Result<T> = std::result::Result<T, String>;

impl Pickle {
    /// Reads a pickle of protocol 2 or newer.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut machine = Machine { bytes, at: 0, stack: Vec::new(), memo: HashMap::new(), nodes: Vec::new() };
        let root = machine.run()?;
        Ok(Self { nodes: machine.nodes, root })
    }

    /// The value that the pickle stands for.
    pub fn root(&self) -> At {
        self.root
    }

    /// What is said about a value.
    pub fn node(&self, at: At) -> &Node {
        &self.nodes[at]
    }

    /// Every value.
    pub fn all(&self) -> impl Iterator<Item = At> {
        0..self.nodes.len()
    }

    /// Text.
    pub fn text(&self, at: At) -> Option<&str> {
        match self.node(at) {
            Node::Text(text) | Node::Global(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number.
    pub fn int(&self, at: At) -> Option<i64> {
        match *self.node(at) {
            Node::Int(number) => Some(number),
            Node::Float(number) if number.fract() == 0.0 => Some(number as i64),
            Node::Bool(yes) => Some(i64::from(yes)),
            _ => None,
        }
    }

    /// Whether it is something other than `None`.
    pub fn is_some(&self, at: At) -> bool {
        !matches!(self.node(at), Node::None)
    }

    /// The items of a tuple or list.
    pub fn items(&self, at: At) -> &[At] {
        match self.node(at) {
            Node::List(items) => items,
            _ => &[],
        }
    }

    /// What a dict has under a key, or an object as an attribute.
    pub fn get(&self, at: At, key: &str) -> Option<At> {
        match self.node(at) {
            // Of two entries, the later one counts.
            Node::Dict(entries) => {
                entries.iter().rev().find(|(name, _)| self.text(*name) == Some(key)).map(|(_, value)| *value)
            }
            Node::Made { state: Some(state), .. } => self.get(*state, key),
            _ => None,
        }
    }

    /// The class of an object, without its module.
    pub fn class(&self, at: At) -> Option<&str> {
        match self.node(at) {
            Node::Made { of, .. } => self.text(*of).and_then(|name| name.rsplit('.').next()),
            _ => None,
        }
    }

    /// A module of PyTorch inside another one.
    pub fn module(&self, at: At, name: &str) -> Option<At> {
        self.get(self.get(at, "_modules")?, name)
    }
}

impl Machine<'_> {
    fn run(&mut self) -> Result<At> {
        loop {
            let code = self.take(1)?[0];
            match code {
                // Protocol, frame.
                0x80 => {
                    let protocol = self.take(1)?[0];
                    if protocol < 2 {
                        return Err(format!("it is a pickle of protocol {protocol}; 2 and newer can be read"));
                    }
                }
                0x95 => _ = self.take(8)?,
                b'.' => return self.pop(),
                b'(' => self.stack.push(Slot::Mark),
                b'0' => _ = self.stack.pop(),
                b'1' => _ = self.since_mark()?,
                b'2' => {
                    let top = self.top()?;
                    self.stack.push(Slot::Value(top));
                }
                b'N' => self.push(Node::None),
                0x88 => self.push(Node::Bool(true)),
                0x89 => self.push(Node::Bool(false)),
                b'J' => {
                    let number = self.number(4)? as u32 as i32;
                    self.push(Node::Int(i64::from(number)));
                }
                b'K' => self.whole(1)?,
                b'M' => self.whole(2)?,
                0x8a => {
                    let length = self.take(1)?[0] as usize;
                    self.long(length)?;
                }
                0x8b => {
                    let length = self.number(4)? as usize;
                    self.long(length)?;
                }
                b'G' => {
                    let number = f64::from_bits(u64::from_be_bytes(self.array()?));
                    self.push(Node::Float(number));
                }
                b'X' | b'T' => self.text(4)?,
                0x8c | b'U' => self.text(1)?,
                0x8d => self.text(8)?,
                b'B' => self.bytes(4)?,
                b'C' => self.bytes(1)?,
                0x8e | 0x96 => self.bytes(8)?,
                b')' | b']' | 0x8f => self.push(Node::List(Vec::new())),
                b'}' => self.push(Node::Dict(Vec::new())),
                b't' | b'l' | 0x91 => {
                    let items = self.since_mark()?;
                    self.push(Node::List(items));
                }
                0x85..=0x87 => {
                    let mut items: Vec<At> = (0x85..=code).map(|_| self.pop()).collect::<Result<_>>()?;
                    items.reverse();
                    self.push(Node::List(items));
                }
                b'd' => {
                    let items = self.since_mark()?;
                    self.push(Node::Dict(items.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value)).collect()));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.add(&[item])?;
                }
                b'e' | 0x90 => {
                    let items = self.since_mark()?;
                    self.add(&items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(&[key, value])?;
                }
                b'u' => {
                    let items = self.since_mark()?;
                    self.set(&items)?;
                }
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(Node::Global(format!("{module}.{name}")));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let word = |at: At| match &self.nodes[at] {
                        Node::Text(text) => Ok(text.clone()),
                        _ => Err("it names something by other than text".to_string()),
                    };
                    let full = format!("{}.{}", word(module)?, word(name)?);
                    self.push(Node::Global(full));
                }
                b'R' | 0x81 => {
                    let (with, of) = (self.pop()?, self.pop()?);
                    self.call(of, with);
                }
                0x92 => {
                    let (_, with, of) = (self.pop()?, self.pop()?, self.pop()?);
                    self.call(of, with);
                }
                b'b' => {
                    let given = self.pop()?;
                    let top = self.top()?;
                    // A pair is the dict and the slots of an object.
                    let given = match &self.nodes[given] {
                        Node::List(items) => {
                            items.iter().copied().find(|&item| matches!(self.nodes[item], Node::Dict(_)))
                        }
                        _ => Some(given),
                    };
                    if let Node::Made { state, .. } = &mut self.nodes[top] {
                        *state = given;
                    }
                }
                b'Q' => {
                    let id = self.pop()?;
                    self.push(Node::Outside(id));
                }
                0x94 => {
                    let (place, top) = (self.memo.len(), self.top()?);
                    self.memo.insert(place, top);
                }
                b'q' => self.put(1)?,
                b'r' => self.put(4)?,
                b'h' => self.recall(1)?,
                b'j' => self.recall(4)?,
                other => return Err(format!("it has the step {other:#04x}, which models do not need")),
            }
        }
    }

    /// What a call would make. An empty `OrderedDict` is filled like a dict.
    fn call(&mut self, of: At, with: At) {
        let made = match &self.nodes[of] {
            Node::Global(name) if name == "collections.OrderedDict" => Node::Dict(Vec::new()),
            _ => Node::Made { of, with, state: None },
        };
        self.push(made);
    }

    fn add(&mut self, new: &[At]) -> Result<()> {
        let top = self.top()?;
        if let Node::List(items) = &mut self.nodes[top] {
            items.extend_from_slice(new);
        }
        Ok(())
    }

    fn set(&mut self, new: &[At]) -> Result<()> {
        let top = self.top()?;
        if let Node::Dict(entries) = &mut self.nodes[top] {
            entries.extend(new.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value)));
        }
        Ok(())
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.stack.push(Slot::Value(self.nodes.len() - 1));
    }

    fn pop(&mut self) -> Result<At> {
        match self.stack.pop() {
            Some(Slot::Value(at)) => Ok(at),
            _ => Err("its steps do not fit together".into()),
        }
    }

    fn top(&self) -> Result<At> {
        match self.stack.last() {
            Some(Slot::Value(at)) => Ok(*at),
            _ => Err("its steps do not fit together".into()),
        }
    }

    fn since_mark(&mut self) -> Result<Vec<At>> {
        let mut items = Vec::new();
        loop {
            match self.stack.pop() {
                Some(Slot::Value(at)) => items.push(at),
                Some(Slot::Mark) => break,
                None => return Err("its steps do not fit together".into()),
            }
        }
        items.reverse();
        Ok(items)
    }

    fn put(&mut self, bytes: usize) -> Result<()> {
        let (place, top) = (self.number(bytes)? as usize, self.top()?);
        self.memo.insert(place, top);
        Ok(())
    }

    fn recall(&mut self, bytes: usize) -> Result<()> {
        let place = self.number(bytes)? as usize;
        let at = *self.memo.get(&place).ok_or("it recalls what it has not noted")?;
        self.stack.push(Slot::Value(at));
        Ok(())
    }

    fn whole(&mut self, bytes: usize) -> Result<()> {
        let number = self.number(bytes)? as i64;
        self.push(Node::Int(number));
        Ok(())
    }

    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        let node = match bytes.len() {
            0 => Node::Int(0),
            1..=8 => {
                let fill = if bytes[bytes.len() - 1] & 0x80 == 0 { 0 } else { 0xff };
                let mut all = [fill; 8];
                all[..bytes.len()].copy_from_slice(bytes);
                Node::Int(i64::from_le_bytes(all))
            }
            longer => Node::Bytes(longer),
        };
        self.push(node);
        Ok(())
    }

    fn text(&mut self, bytes: usize) -> Result<()> {
        let length = usize::try_from(self.number(bytes)?).map_err(|_| "it is cut off".to_string())?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.push(Node::Text(text));
        Ok(())
    }

    fn bytes(&mut self, bytes: usize) -> Result<()> {
        let length = usize::try_from(self.number(bytes)?).map_err(|_| "it is cut off".to_string())?;
        self.take(length)?;
        self.push(Node::Bytes(length));
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or("it is cut off")?;
        let text = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(text)
    }

    fn number(&mut self, bytes: usize) -> Result<u64> {
        let mut all = [0; 8];
        all[..bytes].copy_from_slice(self.take(bytes)?);
        Ok(u64::from_le_bytes(all))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut all = [0; N];
        all.copy_from_slice(self.take(N)?);
        Ok(all)
    }

    fn take(&mut self, length: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len()).ok_or("it is cut off")?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `python -c "import pickle, sys; sys.stdout.buffer.write(pickle.dumps({'a': [1, -2.5, True], 'b': ('x', None)}, 4))"`
    const PLAIN: &[u8] = b"\x80\x04\x95+\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01G\xc0\x04\x00\x00\x00\x00\x00\x00\x88e\x8c\x01b\x94\x8c\x01x\x94N\x86\x94u.";

    #[test]
    fn plain_values_are_read() {
        let pickle = Pickle::read(PLAIN).unwrap();
        let a = pickle.items(pickle.get(pickle.root(), "a").unwrap());
        assert_eq!(pickle.int(a[0]), Some(1));
        assert!(matches!(pickle.node(a[1]), Node::Float(number) if *number == -2.5));
        assert!(matches!(pickle.node(a[2]), Node::Bool(true)));
        let b = pickle.items(pickle.get(pickle.root(), "b").unwrap());
        assert_eq!(pickle.text(b[0]), Some("x"));
        assert!(!pickle.is_some(b[1]));
        assert!(pickle.get(pickle.root(), "c").is_none());
    }

    #[test]
    fn a_call_is_noted_and_not_made() {
        // What runs a command where Python reads it.
        let evil = b"cos\nsystem\n\x8c\x0crm -rf nowhe\x85R.";
        let pickle = Pickle::read(evil).unwrap();
        assert_eq!(pickle.class(pickle.root()), Some("system"));
        let Node::Made { of, with, state: None } = pickle.node(pickle.root()) else { panic!("a call") };
        assert_eq!(pickle.text(*of), Some("os.system"));
        assert_eq!(pickle.items(*with).len(), 1);
    }

    #[test]
    fn broken_pickles_are_errors() {
        for length in 0..PLAIN.len() {
            assert!(Pickle::read(&PLAIN[..length]).is_err(), "{length} bytes");
        }
        for at in 0..PLAIN.len() {
            for flip in [1, 0x80, 0xff] {
                let mut broken = PLAIN.to_vec();
                broken[at] ^= flip;
                // Whatever it says now, reading it ends.
                let _ = Pickle::read(&broken);
            }
        }
        assert!(Pickle::read(b"\x80\x00.").unwrap_err().contains("protocol 0"));
        assert!(Pickle::read(b"\x80\x02h\x07.").unwrap_err().contains("not noted"));
    }
}
