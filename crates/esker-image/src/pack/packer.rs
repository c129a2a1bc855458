//! Gathering a tree and its bytes, and writing the image.
//!
//! Above: whoever has a tree. Below: `tree`, `data`, `laying`. Invariant: the head superblock is written last, so an
//! image that was not finished is none.

use std::io::{Seek, SeekFrom, Write};

use esker::store::View as _;
use esker::{Ino, Kind};
use esker_stone::layer::{LayerWriter, write_index};
use esker_stone::root::{Base, Root, Statistics};
use esker_stone::rows::blocks::ORIGIN_SEGMENT_MASK;
use esker_stone::superblock::{BRANCHES, DATA, ENCODERS, Lens, PICTURES, ROOTS, WORDS};
use esker_stone::tree::Writing;
use esker_stone::{Codec, Hash, PageRef, Sealed, Superblock, hash};

use super::data::{Data, Held, PIECE_LEN};
use super::explain::{Choices, uses};
use super::incoming::{Incoming, WAITING_LEN};
use super::kinds::{KindUse, Stored, kinds};
use super::laying::Laying;
use super::needs::Share;
use super::numbers::Numbers;
use super::scratch::Scratches;
use super::spool::Spool;
use super::tree::{Meta, NodeId, Tree};
use super::{Error, Options, Result};
use crate::Image;

/// An image that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its name.
    pub name: Hash,
    /// Its size.
    pub size: u64,
    /// What is in it.
    pub statistics: Statistics,
    /// Stored bytes of all blocks.
    pub data: u64,
    /// Stored bytes of everything else.
    pub metadata: u64,
    /// Bytes of files that were there already.
    pub saved: u64,
    /// What became of files of each kind, those with the most stored bytes first.
    pub kinds: Vec<KindUse>,
    /// What was chosen.
    pub choices: Choices,
}

/// Writes an image.
pub struct Packer<W> {
    tree: Tree,
    data: Data<W>,
    /// Where pages of the layer wait for their place.
    tables: Spool,
    options: Options,
    bases: Vec<Base>,
    file_bytes: u64,
    share: Share,
    /// Something failed on its way in, so that nobody knows how much of it is there.
    broken: bool,
}

impl<W: Write + Seek> Packer<W> {
    /// Begins an image at the beginning of `output`, with only a root directory.
    ///
    /// # Errors
    /// `Memory`, `Output`.
    pub fn new(output: W, root: Meta, options: Options) -> Result<Self> {
        Self::with_scratch(output, root, options, &|| Ok(Box::new(Vec::new())))
    }

    /// As [`new`](Self::new), with somewhere else than memory for the plain bytes that wait for their blocks, and for
    /// what is known of each file.
    ///
    /// # Errors
    /// `Memory`, `Output`.
    pub fn with_scratch(
        mut output: W,
        root: Meta,
        options: Options,
        scratches: Scratches<'_>,
    ) -> Result<Self> {
        let share = Share::of(&options)?;
        output.write_all(&[0; Superblock::SIZE])?;
        let tree = Tree::new(root, options.times, scratches)?;
        let data = Data::start(&options, &share, output, scratches)?;
        let tables = Spool::new(scratches()?);
        Ok(Self {
            tree,
            data,
            tables,
            options,
            bases: Vec::new(),
            file_bytes: 0,
            share,
            broken: false,
        })
    }

    /// Whether what is known of the tree and its bytes keeps to the limit.
    fn has_memory(&self) -> Result<()> {
        let bytes = self.tree.memory() + self.data.bytes();
        let Share { known, known_least, .. } = self.share;
        if bytes <= known {
            return Ok(());
        }
        // There may be more files to come.
        Err(Error::Memory(self.options.memory - known + bytes.max(known_least)))
    }

    /// Does something after which all that was taken in is whole, or nothing more is.
    fn whole<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.broken {
            return Err(Error::Stopped);
        }
        let done = act(self);
        // What is refused has changed nothing.
        self.broken = !matches!(done, Ok(_) | Err(Error::Tree(_) | Error::Memory(_)));
        done
    }

    /// What `image` holds is not stored again: the new image names it as a base, known as `file`, and cannot be
    /// read without it. Comes before everything that is to be compared with it.
    ///
    /// # Errors
    /// `Tree` for what cannot be read, or for a base that has bases of its own; `Memory`.
    pub fn base(&mut self, image: &Image, file: &[u8]) -> Result<()> {
        let origin = self.bases.len() as u64 + 1;
        if !image.root().bases.is_empty() || origin > u64::from(u16::MAX) {
            return Err(esker::Error::NotSupported.into());
        }
        let known = self.whole(|own| own.know_base(image, origin));
        // Pieces of a base that is not named lead nowhere.
        self.broken |= known.is_err();
        known?;
        self.bases.push(Base { name: image.name(), file: file.to_vec() });
        Ok(())
    }

    /// Remembers the pieces of all files of a base, which is to be this one.
    fn know_base(&mut self, image: &Image, origin: u64) -> Result<()> {
        let refused = |error: esker_stone::Error| match error {
            esker_stone::Error::Io(..) | esker_stone::Error::Damaged(_) => esker::Error::Io,
            _ => esker::Error::NotSupported,
        };
        let mut piece = vec![0; PIECE_LEN];
        for ino in (1..=image.root().statistics.last_ino).map(Ino) {
            let attr = image.attributes(ino).map_err(refused)?;
            let Some(attr) = attr.filter(|attr| attr.kind == Kind::File) else { continue };
            let mut at = 0;
            while let Some(run) = image.next_data(ino, at)? {
                at = run.start();
                while at < run.end() {
                    let len = usize::try_from(run.end() - at).unwrap_or(piece.len());
                    let len = len.min(piece.len());
                    let places = image.places(ino, attr.size, at, len as u64).map_err(refused)?;
                    if let Some(mut places) = places {
                        let read = image.read(ino, at, &mut piece[..len])?;
                        for place in places.iter_mut().flat_map(|piece| &mut piece.place) {
                            place.block.segment |= origin << ORIGIN_SEGMENT_MASK.count_ones();
                        }
                        self.data.know(&hash(&piece[..read]), &places)?;
                    }
                    at += len as u64;
                }
            }
            self.has_memory()?;
        }
        Ok(())
    }

    /// Takes over the blocks of an image as they are stored there, and its bases. Comes first of all; files of that
    /// image are then [`keep`](Self::keep)t without a look at their bytes.
    ///
    /// # Errors
    /// `Image` for what cannot be read; `Tree` for an image with more than one segment of blocks; `Output`.
    pub fn adopt(&mut self, image: &Image) -> Result<()> {
        self.whole(|own| own.data.adopt(image))?;
        self.bases = image.root().bases.clone();
        Ok(())
    }

    /// The content of a file is that of one in the image that was [`adopt`](Self::adopt)ed.
    ///
    /// # Errors
    /// `Tree` for what cannot be read.
    pub fn keep(&mut self, node: NodeId, image: &Image, ino: Ino, size: u64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let unreadable = |_| Error::Tree(esker::Error::Io);
        let inode = image.inode(ino).map_err(unreadable)?;
        if inode.is_some_and(|(page, row)| !page.inline_at(row).is_empty()) {
            let mut bytes = vec![0; usize::try_from(size).map_err(|_| esker::Error::Io)?];
            image.read(ino, 0, &mut bytes)?;
            let mut file = Incoming::default();
            self.data(&mut file, &bytes)?;
            return self.end(node, file);
        }
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < size {
            let stretch = image.stretch(ino, size, at).map_err(unreadable)?;
            at = stretch.start + stretch.pieces.iter().map(|piece| piece.len).sum::<u64>();
            pieces.extend(stretch.pieces);
        }
        if size > esker::limits::FILE_SIZE_MAX {
            return Err(esker::Error::FileTooBig.into());
        }
        self.whole(|own| {
            let held = own.data.adopt_file(&pieces)?;
            own.hold(node, held)
        })
    }

    /// A new node under a name, which may have led elsewhere before.
    ///
    /// # Errors
    /// `Tree` for a name or place that cannot be; `Memory`.
    pub fn make(&mut self, dir: NodeId, name: &[u8], meta: Meta) -> Result<NodeId> {
        self.has_memory()?;
        self.whole(|own| own.tree.make(dir, name, meta))
    }

    /// One more name for a node that is no directory.
    ///
    /// # Errors
    /// `Tree`, `Memory`.
    pub fn link(&mut self, dir: NodeId, name: &[u8], node: NodeId) -> Result<()> {
        self.has_memory()?;
        self.whole(|own| own.tree.link(dir, name, node))
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// `Output`.
    pub fn unlink(&mut self, dir: NodeId, name: &[u8]) -> Result<()> {
        self.whole(|own| own.tree.unlink(dir, name))
    }

    /// What a name leads to.
    ///
    /// # Errors
    /// `Output`.
    pub fn find(&mut self, dir: NodeId, name: &[u8]) -> Result<Option<(NodeId, Kind)>> {
        self.whole(|own| own.tree.find(dir, name))
    }

    /// Gives a node other attributes; its kind stays.
    ///
    /// # Errors
    /// `Output`.
    pub fn set(&mut self, node: NodeId, meta: &Meta) -> Result<()> {
        self.whole(|own| own.tree.set(node, meta))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Tree` for a target that cannot be.
    pub fn target(&mut self, node: NodeId, target: &[u8]) -> Result<()> {
        let fits = (1..=esker::limits::SYMLINK_LEN_MAX).contains(&target.len());
        self.whole(|own| {
            if !fits || target.contains(&0) || own.tree.node(node)?.kind() != Kind::Symlink {
                return Err(esker::Error::NameTooLong.into());
            }
            own.tree.lead(node, target)
        })
    }

    /// More bytes of a file.
    ///
    /// # Errors
    /// `Output`, `Coding`; also for files before it, which waited.
    pub fn data(&mut self, file: &mut Incoming, bytes: &[u8]) -> Result<()> {
        self.whole(|own| {
            own.data.data(file, bytes)?;
            own.hold_some(WAITING_LEN.saturating_sub(file.memory()))?;
            own.data.take_some_of(file)
        })
    }

    /// A hole in a file.
    ///
    /// # Errors
    /// `Output`, `Coding`.
    pub fn hole(&mut self, file: &mut Incoming, len: u64) -> Result<()> {
        self.whole(|own| own.data.hole(file, len))
    }

    /// The content of a file is all there.
    ///
    /// # Errors
    /// `Output`, `Coding`, `Tree`; also for files before it, which waited.
    pub fn end(&mut self, node: NodeId, file: Incoming) -> Result<()> {
        if file.size > esker::limits::FILE_SIZE_MAX {
            return Err(esker::Error::FileTooBig.into());
        }
        self.whole(|own| {
            if own.tree.node(node)?.kind() != Kind::File {
                return Err(esker::Error::Invalid.into());
            }
            own.data.end_file(node, file)?;
            own.hold_some(WAITING_LEN)
        })
    }

    /// Takes files whose turn it is until no more than `most` bytes wait.
    fn hold_some(&mut self, most: usize) -> Result<()> {
        while let Some((node, held)) = self.data.next_file(most)? {
            self.hold(node, held)?;
        }
        Ok(())
    }

    fn hold(&mut self, node: NodeId, (content, size, data): Held) -> Result<()> {
        self.file_bytes += data;
        self.tree.hold(node, content, size)
    }

    /// Stored bytes so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.data.written()
    }

    /// Bytes of files that were there already, so far.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.data.saved
    }

    /// Writes all that is missing.
    ///
    /// # Errors
    /// `Output`, `Coding`.
    pub fn finish(mut self) -> Result<(W, Packed)> {
        if self.broken {
            return Err(Error::Stopped);
        }
        // Nobody looks for a name any more.
        self.tree.forget();
        self.hold_some(0)?;
        self.data.flush()?;
        let mut statistics = Statistics {
            file_bytes: self.file_bytes,
            block_bytes: self.data.stored_plain,
            block_len: self.data.largest,
            ..Statistics::default()
        };
        let (options, saved) = (self.options.clone(), self.data.saved);
        let mut choices = self.data.choices();
        let writing = Writing { setting: options.pages, threads: options.threads.max(1) };
        let numbers = Numbers::of(&mut self.tree)?;
        let layer = LayerWriter::new(writing, options.page_len, self.tables);
        let mut laying = Laying { tree: &mut self.tree, data: &mut self.data, layer };
        laying.lay(&numbers, &mut statistics)?;
        let mut roots = Vec::new();
        let (layer, tables) = laying.layer.finish(&mut roots)?;
        let (settings, encoders) = (self.data.settings, self.data.encoders);
        let ((mut output, rows, data), contents, units) = self.data.finish()?;
        choices.categories = uses(&rows, &settings);
        let stored = Stored { contents, units: &units, rows: &rows };
        let kinds = kinds(&mut self.tree, &numbers, stored)?;
        let index = write_index(&rows, writing, options.page_len, &mut roots)?;
        let root = Root {
            layer,
            indexes: index.into_iter().map(|top| (DATA, top)).collect(),
            bases: self.bases,
            statistics,
            notes: options.notes,
        };
        let sealed = Sealed::new(&root.encode(), &[], options.pages)?;
        let page = PageRef::new((ROOTS, roots.len() as u64), &sealed);
        roots.extend(sealed.stored);
        let lens = Lens { data, roots: roots.len() as u64, tables: tables.len() };
        let mut superblock = Superblock::new(lens, &page);
        for (feature, needed) in [
            (BRANCHES, rows.iter().any(|row| row.transform.is_of_code())),
            (ENCODERS, encoders),
            (PICTURES, rows.iter().any(|row| row.codec == Codec::Jpeg)),
            (WORDS, rows.iter().any(|row| row.words > 0)),
        ] {
            superblock.incompatible |= if needed { feature } else { 0 };
        }
        superblock.seal();
        output.write_all(&roots)?;
        tables.copy(&mut output)?;
        output.write_all(&roots)?;
        output.write_all(&superblock.encode())?;
        output.seek(SeekFrom::Start(0))?;
        output.write_all(&superblock.encode())?;
        output.flush()?;
        let packed = Packed {
            name: superblock.image_name(),
            size: superblock.size,
            statistics,
            data,
            metadata: superblock.size - data,
            saved,
            kinds,
            choices,
        };
        Ok((output, packed))
    }
}
